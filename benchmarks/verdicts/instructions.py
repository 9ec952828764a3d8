"""Compares verdicts on instructions with published ones, family by family.

    python -m benchmarks.verdicts.instructions PROMPTS VERDICTS [--loose] [--json]

`PROMPTS` are the rows of IFEval (`input_data.jsonl`) or IFBench: `prompt`, `instruction_id_list`,
`kwargs`. `VERDICTS` are what their evaluation writes (`eval_results_strict.jsonl`): `prompt`,
`response`, `follow_instruction_list`. Says how many of them are of other prompts. Ends with exit
code 1 if a verdict differs.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from assay.verifiers.instructions.definition import Instruction
from assay.verifiers.instructions.rules import follows
from benchmarks.harness.report import Report

SAID_CHARS_MAX = 100


class Verdict(NamedTuple):
    """One instruction of one response."""

    name: str
    published: bool
    own: bool | None
    """`None`: the instruction is not judged here."""
    response: str


def verdicts(prompts: Path, published: Path, *, loose: bool) -> Iterator[Verdict]:
    """Those of all responses whose prompt is known."""
    asked = {row["prompt"]: row for row in _rows(prompts)}
    for row in _rows(published):
        prompt = asked.get(row["prompt"])
        if prompt is None:
            continue
        pairs = zip(prompt["instruction_id_list"], prompt["kwargs"], strict=True)
        for (name, given), followed in zip(pairs, row["follow_instruction_list"], strict=True):
            own = _own(name, given, row["response"], loose=loose)
            yield Verdict(name, bool(followed), own, row["response"])


def without_prompt(prompts: Path, published: Path) -> int:
    """How many responses have a prompt that is not known."""
    asked = {row["prompt"] for row in _rows(prompts)}
    return sum(row["prompt"] not in asked for row in _rows(published))


def _own(name: str, given: dict[str, Any], response: str, *, loose: bool) -> bool | None:
    try:
        one = Instruction(id=name, kwargs=given)
    except ValidationError:
        return None
    return follows(one.rule, one.arguments, response, loose=loose)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def main() -> int:
    """Print the table; 1 if a verdict differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("prompts", type=Path, metavar="PROMPTS")
    parser.add_argument("verdicts", type=Path, metavar="VERDICTS")
    parser.add_argument("--loose", action="store_true", help="VERDICTS are of loose accuracy")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    told = list(verdicts(args.prompts, args.verdicts, loose=args.loose))
    strangers = without_prompt(args.prompts, args.verdicts)
    if strangers:
        print(f"not compared, because PROMPTS lacks their prompt: {strangers}", file=sys.stderr)
    columns = ("instruction", "verdicts", "same", "other", "not judged")
    report = Report(title="Verdicts on instructions beside published ones", columns=columns)
    for name in [*sorted({one.name for one in told}), "all"]:
        of_it = [one for one in told if name in (one.name, "all")]
        counts = Counter(
            "not judged" if one.own is None else "same" if one.own == one.published else "other"
            for one in of_it
        )
        cells = {column: counts[column] for column in columns[2:]}
        report.add(instruction=name, verdicts=len(of_it), **cells)
    others = [one for one in told if one.own not in (None, one.published)]
    report.show(as_json=args.json)
    for one in others:
        said = one.response[:SAID_CHARS_MAX]
        print(f"{one.name}: published {one.published}: {said!r}", file=sys.stderr)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
