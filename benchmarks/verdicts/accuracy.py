"""Agreement of rewards with labels: tables over real data, one row per data set.

    python -m benchmarks.verdicts.accuracy               all tables
    python -m benchmarks.verdicts.accuracy math_verify   every disagreement with its own tests
    python -m benchmarks.verdicts.accuracy second_judge  its verdict on every gsm8k answer
    python -m benchmarks.verdicts.accuracy gsm8k humaneval code_contests --json

Runs the pipelines' own handlers in this process, in the sandbox if they use one. The data lies
in `../shared/data`; the solutions of CodeContests problems in `tests/verifiers/solutions`.
"""

import argparse
import collections
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assay.core.verdict import SECOND_JUDGE
from assay.verifiers.local import LocalPipelines
from benchmarks.harness.report import Report

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
SOLUTIONS = ROOT / "tests" / "verifiers" / "solutions"
GRADERS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
FLOAT_TOLERANCE = {"p05": 1e-4}
"""Problems whose statement allows a numeric error."""
STRING_OPTIONS = ("A", "B", "C", "D")


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON Lines file."""
    text = path.read_bytes()
    if path.suffix == ".gz":
        text = gzip.decompress(text)
    for line in text.splitlines():
        yield json.loads(line)


class Agreement:
    """A data set's row: how often the reward agrees with the label."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.passed = 0
        self.disagreements: list[str] = []
        self._began_s = time.perf_counter()

    def add(self, what: str, *, passed: bool, label: bool) -> None:
        """Count one response."""
        self.rows += 1
        self.passed += passed
        if passed != label:
            self.disagreements.append(what)

    def report(self, table: Report) -> None:
        """Add the row to the table."""
        table.add(
            data=self.name,
            responses=self.rows,
            passed=self.passed,
            agree=self.rows - len(self.disagreements),
            disagree=", ".join(self.disagreements)[:200] or "none",
            seconds=round(time.perf_counter() - self._began_s, 1),
        )


def gsm8k(local: LocalPipelines, table: Report) -> None:
    """5,276 model answers with upstream labels."""
    agreement = Agreement("gsm8k")
    for index, row in enumerate(lines(DATA / "gsm8k" / "example_model_solutions.jsonl")):
        gold = row["ground_truth"].rsplit("A:", 1)[1].strip()
        for grader in GRADERS:
            ended = local.judge("math", row[grader]["solution"], {"answers": [gold]})
            label = row[grader]["is_correct"]
            agreement.add(f"{index}:{grader}", passed=ended.reward == 1.0, label=label)
    agreement.report(table)


def humaneval(local: LocalPipelines, table: Report) -> None:
    """164 canonical solutions pass; stubs that return nothing do not."""
    canonical, stubs = Agreement("humaneval canonical"), Agreement("humaneval stubs")
    for row in lines(DATA / "humaneval" / "HumanEval.jsonl.gz"):
        reference = {key: row[key] for key in ("prompt", "entry_point", "test")}
        ended = local.judge("code.python", row["canonical_solution"], reference, extraction="raw")
        canonical.add(row["task_id"], passed=ended.reward == 1.0, label=True)
        for stub in ("    return None\n", "    pass\n"):
            ended = local.judge("code.python", stub, reference, extraction="raw")
            stubs.add(row["task_id"], passed=ended.reward == 1.0, label=False)
    canonical.report(table)
    stubs.report(table)


def code_contests(local: LocalPipelines, table: Report) -> None:
    """Our right and wrong solutions, in two languages."""
    problems = list(lines(DATA / "sandboxfusion" / "code_eval_code_contests.jsonl"))
    for pipeline, suffix in (("code.python", ".py"), ("code.cpp", ".cpp")):
        agreement = Agreement(f"code_contests {suffix}")
        for path in sorted(SOLUTIONS.glob(f"*{suffix}")):
            reference = {"test": json.loads(problems[int(path.name[1:3])]["test"])}
            tolerance = FLOAT_TOLERANCE.get(path.name[:3], 0.0)
            ended = local.judge(
                pipeline,
                path.read_text(),
                reference,
                extraction="raw",
                stdout_float_tolerance=tolerance,
            )
            label = path.stem.endswith("_right")
            agreement.add(path.name, passed=ended.reward == 1.0, label=label)
        agreement.report(table)


def math_verify(local: LocalPipelines, table: Report) -> None:
    """math-verify's own tests, twice: the text as is, and with the default extraction."""
    cases = Report(
        title="Disagreements with math-verify's own tests",
        columns=("extraction", "row", "gold", "response", "expected", "verdict", "extracted"),
    )
    for name, more in (("whole text", {"strategies": ["whole"]}), ("defaults", {})):
        agreement = Agreement(f"math_verify, {name}")
        for index, row in enumerate(lines(DATA / "math_verify_tests" / "cases.jsonl")):
            label = bool(row["expected"] if "expected" in row else row["result"])
            settings = {**_settings_of(row), **more}
            ended = local.judge("math", row["pred"], {"answers": [row["gold"]]}, **settings)
            passed = ended.reward == 1.0
            agreement.add(str(index), passed=passed, label=label)
            if passed != label:
                cases.add(
                    extraction=name,
                    row=index,
                    gold=row["gold"][-80:],
                    response=row["pred"][-160:],
                    expected=label,
                    verdict=ended.evidence.verdict,
                    extracted=ended.evidence.extracted[-80:],
                )
        agreement.report(table)
    cases.show(as_json="--json" in sys.argv)


def _settings_of(row: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if "precision" in row:
        settings["float_rounding"] = row["precision"]
    for name in ("strict", "allow_set_relation_comp"):
        if name in row:
            settings[name] = bool(row[name])
    if "result" in row:
        settings["option_strings"] = STRING_OPTIONS
    return settings


def second_judge(local: LocalPipelines, table: Report) -> None:
    """The second judge's verdicts on the same answers, except responses without an answer."""
    began_s = time.perf_counter()
    said: collections.Counter[str] = collections.Counter()
    passed = 0
    for row in lines(DATA / "gsm8k" / "example_model_solutions.jsonl"):
        gold = row["ground_truth"].rsplit("A:", 1)[1].strip()
        for grader in GRADERS:
            ended = local.judge(
                "math", row[grader]["solution"], {"answers": [gold]}, second_judge_share=1.0
            )
            passed += ended.reward == 1.0
            if ended.evidence.error.startswith(SECOND_JUDGE):
                said[ended.evidence.error.removeprefix(SECOND_JUDGE)] += 1
    table.add(
        data="gsm8k, second judge",
        responses=said.total(),
        passed=passed,
        agree=said["agrees"],
        disagree=f"{said['disagrees']}, and abstains from {said['abstains']}",
        seconds=round(time.perf_counter() - began_s, 1),
    )


TABLES: dict[str, Callable[[LocalPipelines, Report], None]] = {
    "gsm8k": gsm8k,
    "humaneval": humaneval,
    "code_contests": code_contests,
    "math_verify": math_verify,
    "second_judge": second_judge,
}


def main() -> None:
    """Print the requested tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="default: all")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    table = Report(
        title="Rewards and labels",
        columns=("data", "responses", "passed", "agree", "disagree", "seconds"),
    )
    with tempfile.TemporaryDirectory() as scratch, LocalPipelines(scratch=Path(scratch)) as local:
        for name in wanted.tables or TABLES:
            TABLES[name](local, table)
    table.show(as_json=wanted.json)


if __name__ == "__main__":
    main()
