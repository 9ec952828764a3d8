"""Rewards agree with labels on real programs; the whole tables are `benchmarks.verdicts.accuracy`.

Here every right solution meets the first tests of its problem, every wrong one all of them.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.verdict import Ended

Judge = Callable[..., Ended]
SOLUTIONS = sorted(Path(__file__).with_name("solutions").glob("p*.py"))
TESTS_OF_RIGHT = 5


def code_contests(shared_data: Path) -> list[dict[str, Any]]:
    path = shared_data / "sandboxfusion" / "code_eval_code_contests.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_hand_checked_solutions(judge: Judge, shared_data: Path, path: Path) -> None:
    tests = json.loads(code_contests(shared_data)[int(path.stem[1:3])]["test"])
    is_right = path.stem.endswith("_right")
    reference = {"test": tests[:TESTS_OF_RIGHT] if is_right else tests}
    tolerance = 1e-4 if path.stem.startswith("p05") else 0.0
    ended = judge(
        "code.python",
        path.read_text(),
        reference,
        extraction="raw",
        stdout_float_tolerance=tolerance,
    )
    assert ended.reward == float(is_right), ended.evidence


def test_there_are_solutions_of_at_least_ten_problems_in_both_languages() -> None:
    folder = Path(__file__).with_name("solutions")
    for suffix in (".py", ".cpp"):
        problems = {path.stem[:3] for path in folder.glob(f"*{suffix}")}
        assert len(problems) >= 10
        for problem in problems:
            words = {path.stem.rpartition("_")[2] for path in folder.glob(f"{problem}*{suffix}")}
            assert words == {"right", "wrong"}


@pytest.mark.parametrize("every", [8])
def test_canonical_solutions_of_humaneval_pass_and_stubs_do_not(
    judge: Judge, shared_data: Path, every: int
) -> None:
    text = gzip.decompress((shared_data / "humaneval" / "HumanEval.jsonl.gz").read_bytes())
    for line in text.splitlines()[::every]:
        row = json.loads(line)
        reference = {key: row[key] for key in ("prompt", "entry_point", "test")}
        ended = judge("code.python", row["canonical_solution"], reference, extraction="raw")
        assert ended.reward == 1.0, (row["task_id"], ended.evidence)
        ended = judge("code.python", "    pass\n", reference, extraction="raw")
        assert ended.reward == 0.0, (row["task_id"], ended.evidence)


@pytest.mark.parametrize("strategies", [None, ["whole"]], ids=["default", "whole text"])
def test_math_verifys_own_tests_but_for_the_explained_rows(
    strategies: list[str] | None, judge: Judge, shared_data: Path
) -> None:
    contradict_themselves = {158, 160, 161, 164, 174, 175}  # such as `x = 5+5+1 = 7 = 11`
    explained = {21, 22, 264, *contradict_themselves}
    text = (shared_data / "math_verify_tests" / "cases.jsonl").read_text()
    disagreements = set()
    for index, line in enumerate(text.splitlines()):
        row = json.loads(line)
        settings: dict[str, Any] = {
            name: row[key]
            for name, key in (
                ("float_rounding", "precision"),
                ("strict", "strict"),
                ("allow_set_relation_comp", "allow_set_relation_comp"),
            )
            if key in row
        }
        if "result" in row:
            settings["option_strings"] = ["A", "B", "C", "D"]
        if strategies is not None:
            settings["strategies"] = strategies
        ended = judge("math", row["pred"], {"answers": [row["gold"]]}, **settings)
        if (ended.reward == 1.0) != bool(row.get("expected", row.get("result"))):
            disagreements.add(index)
    assert disagreements == explained
