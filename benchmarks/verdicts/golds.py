"""Checks that golds pass for themselves, and only for themselves. One table for all given sets.

    python -m benchmarks.verdicts.golds data/math/test.jsonl data/olympiadbench/test.jsonl
    python -m benchmarks.verdicts.golds DIRECTORY --field answer --failures 20
    python -m benchmarks.verdicts.golds --generated 2000 --seed 1

Takes files of JSON Lines (a directory: all `*.jsonl` in it). The gold is the field `--field`, by
default the first of `final_answer`, `answer`, `target`, `gold` that a row has, or the last box of
`solution`. Each gold is sent as a response in every usual carrier and must pass; its mutants
(another sign, another digit, a part of a list, another order) must not. Mutants with the same
numerical value are skipped, as `assay.verifiers.math.controls` describes.
"""

import argparse
import collections
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.verifiers.local import LocalPipelines
from assay.verifiers.math import controls
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.options import Strategy
from assay.verifiers.text.answers import extract
from benchmarks.harness.report import Report
from benchmarks.verdicts.generated_golds import golds as generated_golds

FIELDS = ("final_answer", "answer", "target", "Answer", "gold")
ECHOES = {
    "plain": "{}",
    "$": "${}$",
    "boxed": "\\boxed{{{}}}",
    "answer is": "The answer is {}.",
    "####": "#### {}",
    "tag": "<answer>{}</answer>",
    "solution": "We compute 2 + 2 = 4 first.\n\nSo the final answer is $\\boxed{{{}}}$.",
}


def golds_of(path: Path, field: str | None) -> Iterator[str]:
    """The golds of one file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield from _gold_of(json.loads(line), field)


def _gold_of(row: dict[str, Any], field: str | None) -> Iterator[str]:
    names = (field,) if field else FIELDS
    found = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if found is None and isinstance(row.get("solution"), str):
        boxed = extract(row["solution"], [Strategy.BOXED])
        found = None if boxed is None else boxed.text
    if isinstance(found, list):
        found = found[0] if found else None
    if found is None:
        return
    said = str(found)
    if "####" in said:
        said = said.rsplit("####", 1)[1]
    if said.strip():
        yield said.strip()


class Count:
    """One row of the table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tried: collections.Counter[str] = collections.Counter()
        self.wrong: collections.Counter[str] = collections.Counter()
        self.refused = 0
        """Golds that the audit of references refuses (with `--audit`); their echoes fail."""
        self.cpu_s_max = 0.0
        """The longest judgement, in CPU seconds; the first of a gold includes its audit."""
        self.failures: list[tuple[str, str, str, str]] = []

    def add(self, kind: str, gold: str, response: str, *, right: bool, verdict: str) -> None:
        """Count one verdict."""
        self.tried[kind] += 1
        if not right:
            self.wrong[kind] += 1
            self.failures.append((kind, gold, response, verdict))


def echoes(gold: str) -> Iterator[tuple[str, str]]:
    """The gold in all forms that responses use."""
    has_delimiters = "$" in gold or "\\(" in gold or "\\[" in gold
    for name, carrier in ECHOES.items():
        if name in {"$", "solution"} and has_delimiters:
            continue
        yield name, carrier.format(gold)


def measure(local: LocalPipelines, name: str, golds: list[str], *, audit: bool) -> Count:
    """Run all controls of all golds."""
    count = Count(name)
    settings = MathSettings()
    more = {} if audit else {"reference_audit": "off"}
    for gold in golds:
        reference = {"answers": [gold]}
        refused = False
        for kind, response in echoes(gold):
            ended = local.judge("math", response, reference, **more)
            count.cpu_s_max = max(count.cpu_s_max, ended.use.cpu_s)
            refused |= ended.evidence.verdict == "invalid_reference"
            verdict = f"{ended.evidence.verdict} {ended.evidence.error}"
            count.add(f"echo {kind}", gold, response, right=ended.reward == 1.0, verdict=verdict)
        count.refused += refused
        for kind, mutant in controls.mutants(gold, settings):
            response = controls.carried(mutant, Strategy.BOXED)
            ended = local.judge("math", response, reference, reference_audit="off")
            count.add(kind, gold, mutant, right=ended.reward == 0.0, verdict=ended.evidence.verdict)
    return count


def share(count: Count, prefixes: tuple[str, ...]) -> str:
    """`wrong of tried`, over the kinds with this prefix."""
    kinds = [kind for kind in count.tried if kind.startswith(prefixes)]
    tried, wrong = sum(count.tried[k] for k in kinds), sum(count.wrong[k] for k in kinds)
    if not tried:
        return "-"
    return f"{tried - wrong}/{tried} ({100 * (tried - wrong) / tried:.2f} %)"


def main() -> None:
    """Print the table, and the requested failures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--field", help="name of the field that holds the gold")
    parser.add_argument("--failures", type=int, default=0, help="failing examples to print per set")
    parser.add_argument("--sample", type=int, default=0, help="golds per set, drawn by --seed")
    parser.add_argument("--generated", type=int, default=0, help="golds generated by the grammar")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--audit", action="store_true", help="refuse golds that fail the audit")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    sets: list[tuple[str, list[str]]] = []
    for file in wanted.files:
        for path in sorted(file.glob("*.jsonl")) if file.is_dir() else [file]:
            sets.append((path.stem, list(golds_of(path, wanted.field))))
    if wanted.generated:
        made = generated_golds(random.Random(wanted.seed), wanted.generated)
        sets.append((f"generated, seed {wanted.seed}", list(made)))
    table = Report(
        title="Golds echoed, and mutants refused",
        columns=(
            "data",
            "golds",
            "refused",
            "cpu_s_max",
            "echoed",
            "sign",
            "digit",
            "part",
            "order",
            "seconds",
        ),
    )
    with tempfile.TemporaryDirectory() as scratch, LocalPipelines(scratch=Path(scratch)) as local:
        for name, golds in sets:
            if wanted.sample and wanted.sample < len(golds):
                golds = random.Random(wanted.seed).sample(golds, wanted.sample)
            began_s = time.perf_counter()
            count = measure(local, name, golds, audit=wanted.audit)
            table.add(
                data=name,
                golds=len(golds),
                refused=count.refused if wanted.audit else "-",
                cpu_s_max=round(count.cpu_s_max, 3),
                echoed=share(count, ("echo",)),
                sign=share(count, ("sign",)),
                digit=share(count, ("digit",)),
                part=share(count, ("part",)),
                order=share(count, ("order",)),
                seconds=round(time.perf_counter() - began_s, 1),
            )
            for failure in count.failures[: wanted.failures]:
                print(name, *(part[:160] for part in failure), sep=" | ", file=sys.stderr)
    table.show(as_json=wanted.json)


if __name__ == "__main__":
    main()
