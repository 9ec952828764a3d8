"""Controls of code references: what must pass and what must not, judged by the real stages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.ids import PipelineName
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.code import definition
from assay.verifiers.code.python_stage import PythonRunHandler
from assay.verifiers.local import LocalPipelines
from assay.verifiers.port import Work

Judge = Callable[..., Ended]
GOLD = "def f(x):\n    return x + 1\n"
CALLS = {"calls": {"function": "f", "cases": [{"args": [1], "expected": 2}]}, "solution": GOLD}
SUM = {"tests": [{"stdin": "1 2\n", "stdout": "3\n"}]}
CPP_SUM = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }\n"


def unsound(
    bench: LocalPipelines, pipeline: str, reference: dict[str, Any], **settings: Any
) -> set[str]:
    """Names of the controls that go wrong."""
    settings["reference_audit"] = "off"
    work = bench.work(pipeline, "", reference, **settings)
    controls = bench.pipelines[PipelineName(pipeline)].controls(work.reference, work.settings)
    assert controls
    return {
        one.name
        for one in controls
        if (bench.judge(pipeline, one.response, reference, **settings).reward == 1.0) != one.passes
    }


@pytest.mark.parametrize("extraction", ["auto", "fenced", "raw"])
@pytest.mark.parametrize(
    ("pipeline", "reference"),
    [
        ("code.python", CALLS),
        ("code.python", {**SUM, "solution": "print(sum(map(int, input().split())))"}),
        ("code.python", {"asserts": {"code": ["assert f(1) == 2"]}, "solution": GOLD}),
        ("code.python", {"asserts": {"code": ["assert Solution().f(1) == 2"]},
                         "solution": "class Solution:\n    def f(self, x): return x + 1"}),
        ("code.python", {"test_list": ["assert f(1) == 2"], "solution": GOLD + "# ``` fence"}),
        ("code.cpp", {**SUM, "solution": CPP_SUM}),
    ],
)  # fmt: skip
def test_sound_references_pass_their_controls(
    bench: LocalPipelines, pipeline: str, reference: dict[str, Any], extraction: str
) -> None:
    assert unsound(bench, pipeline, reference, extraction=extraction) == set()


WEAK = [
    ({"tests": [{"stdin": "1\n", "stdout": "\n"}]}, {"empty_program"}),
    ({"asserts": {"code": ["assert True"]}}, {"empty_program"}),
    ({"asserts": {"code": ["f(1)"], "functions": ["f"]}}, None),
    ({"calls": {"function": "f", "cases": [{"args": [1], "expected": None}]}}, {"returns_none"}),
    ({"calls": {"function": "f", "cases": [{"args": [[]], "expected": []}]}},
     {"returns_empty_list", "returns_input"}),
    ({"calls": {"function": "f", "cases": [{"args": [7], "expected": 7}]}}, {"returns_input"}),
    ({"asserts": {"code": ["assert not is_odd(2)"]}},
     {"returns_none", "returns_zero", "returns_empty_text", "returns_false", "returns_empty_list"}),
    ({**CALLS, "solution": "def f(x):\n    return x"}, {"gold"}),
    ({**CALLS, "solution": "def g(x): return 2"}, {"gold"}),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "names"), WEAK)
def test_weak_and_wrong_references_fail_the_controls_that_show_it(
    bench: LocalPipelines, reference: dict[str, Any], names: set[str] | None
) -> None:
    found = unsound(bench, "code.python", reference)
    assert found == names if names is not None else len(found) >= 5


@pytest.mark.parametrize(("reference", "names"), WEAK[:2])
def test_a_response_by_a_reference_that_judges_no_one_gets_no_reward(
    judge: Judge, reference: dict[str, Any], names: set[str]
) -> None:
    assert names == {"empty_program"}
    for _ in range(2):  # the second time from memory
        ended = judge("code.python", "x = 1", reference)
        assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
        assert ended.evidence.verdict == "invalid_reference"
    told = judge("code.python", "x = 1", reference, reference_audit="report")
    assert (told.reward, "empty_program" in told.evidence.error) == (1.0, True)
    assert judge("code.python", "x = 1", reference, reference_audit="off").reward == 1.0


@pytest.mark.parametrize(
    ("reference", "settings", "runs"),
    [
        ({"calls": {"function": "f", "cases": [{"args": [1], "expected": 2}]}}, {}, 0),
        ({"tests": [{"stdin": "1", "stdout": "2"}]}, {}, 0),
        ({"tests": [{"stdin": "1", "stdout": "2"}]}, {"preamble_text": "print()"}, 1),
        ({"tests": [{"stdin": "1", "stdout": "2"}], "preamble": "import re"}, {}, 1),
        ({"asserts": {"code": ["assert f(1) == 2"]}}, {}, 1),
    ],
)
def test_an_empty_program_is_run_once_per_reference_and_only_where_it_might_pass(
    bench: LocalPipelines,
    monkeypatch: pytest.MonkeyPatch,
    reference: dict[str, Any],
    settings: dict[str, str],
    runs: int,
) -> None:
    seen: list[str] = []
    lets_pass = PythonRunHandler.lets_pass

    def counted(handler: PythonRunHandler, work: Work) -> bool | None:
        seen.append(work.reference.model_dump_json())
        return lets_pass(handler, work)

    monkeypatch.setattr(PythonRunHandler, "lets_pass", counted)
    right = GOLD if "tests" not in reference else "print(int(input()) + 1)"
    for _ in range(2):
        assert bench.judge("code.python", right, reference, **settings).reward == 1.0
    assert len(seen) == runs


@pytest.mark.parametrize("stage", ["python_stage.py", "cpp_stages.py", "referee/run.py"])
def test_no_stage_reads_the_solution_of_a_reference(stage: str) -> None:
    folder = Path(definition.__file__).parent
    assert ".solution" not in (folder / stage).read_text()
