"""Agreement of rewards with the labels of published model answers: one row per file.

    python -m benchmarks.verdicts.labelled outputs/gsm8k/7b.jsonl --label result
    python -m benchmarks.verdicts.labelled mathgpt/70b.jsonl --pipeline choice --label result
    python -m benchmarks.verdicts.labelled math_cot_100.jsonl --gold answer --response code \
        --label score --failures 20

Takes files of JSON Lines. A field with a list holds several responses to one question, and so does
its label. Rows whose gold the pipeline refuses are counted as such. `--failures` prints the ends of
responses whose reward differs from their label: published labels are often wrong themselves.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import InvalidRequest
from assay.verifiers.local import LocalPipelines
from benchmarks.harness.report import Report
from benchmarks.verdicts.accuracy import lines

ENDING_CHARS_MAX = 160


class Labelled(NamedTuple):
    """One response as its publisher judged it."""

    gold: str
    response: str
    label: bool


def labelled_of(path: Path, *, gold: str, response: str, label: str) -> Iterator[Labelled]:
    """The responses of one file.

    Raises:
        KeyError: a row lacks one of the fields.
    """
    for row in lines(path):
        said, judged = row[response], row[label]
        pairs = zip(said, judged, strict=True) if isinstance(said, list) else [(said, judged)]
        for text, right in pairs:
            yield Labelled(str(row[gold]).strip(), text, bool(right))


def reference_of(pipeline: str, gold: str) -> dict[str, Any]:
    """The gold in the form of the pipeline's reference."""
    return {"answers": [gold]} if pipeline == "math" else {"answer": gold}


def measure(local: LocalPipelines, table: Report, args: argparse.Namespace, path: Path) -> None:
    """Add one file's row."""
    fields = {"gold": args.gold, "response": args.response, "label": args.label}
    rows = list(labelled_of(path, **fields))
    if args.sample and args.sample < len(rows):
        rows = random.Random(args.seed).sample(rows, args.sample)
    agree = refused = right_refused = wrong_passed = 0
    for row in rows:
        reference = reference_of(args.pipeline, row.gold)
        try:
            ended = local.judge(args.pipeline, row.response, reference)
        except InvalidRequest:
            refused += 1
            continue
        passed = ended.reward == 1.0
        agree += passed == row.label
        right_refused += row.label and not passed
        wrong_passed += passed and not row.label
        if passed != row.label and right_refused + wrong_passed <= args.failures:
            shown = (path.stem, row.gold, row.label, ended.evidence.verdict)
            print(*shown, json.dumps(row.response[-ENDING_CHARS_MAX:]), sep=" | ", file=sys.stderr)
    table.add(
        data="/".join(path.with_suffix("").parts[-2:]),
        responses=len(rows),
        refused=refused,
        agree=agree,
        labelled_right=right_refused,
        labelled_wrong=wrong_passed,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--pipeline", default="math", choices=["math", "choice", "exact"])
    parser.add_argument("--gold", default="gold", help="name of the field with the right answer")
    parser.add_argument("--response", default="response", help="field with the response")
    parser.add_argument("--label", default="label", help="field that says whether it is right")
    parser.add_argument("--sample", type=int, default=0, help="responses per file, by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=int, default=0, help="disagreements to print per file")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    table = Report(
        title=f"Rewards of {args.pipeline} and published labels",
        columns=("data", "responses", "refused", "agree", "labelled_right", "labelled_wrong"),
    )
    with tempfile.TemporaryDirectory() as scratch, LocalPipelines(scratch=Path(scratch)) as local:
        for path in args.files:
            measure(local, table, args, path)
    table.show(as_json=args.json)


if __name__ == "__main__":
    main()
