"""Whose fault it is that no verdict came: a control decides, never what the response says."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.sandbox.port import RunStatus, SandboxError
from assay.verifiers.code.control import trivial_program, walked
from assay.verifiers.local import LocalPipelines
from assay.verifiers.total import RUNS_MAX, total

Judge = Callable[..., Ended]


def runs(results: Iterator[str]) -> Callable[[], str]:
    def run() -> str:
        result = next(results)
        if result.startswith("fails"):
            raise SandboxError(result)
        return result

    return run


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=RUNS_MAX, max_size=RUNS_MAX))
def test_a_response_is_at_fault_only_after_controls_that_succeed(
    fails: list[tuple[bool, bool]],
) -> None:
    judge = runs("fails" if response else "verdict" for response, _ in fails)
    control = runs("fails too" if broken else "fine" for _, broken in fails)
    expected = "at fault"
    for response, broken in fails:
        if not response or broken:
            expected = "fails too" if response else "verdict"
            break
    try:
        found = total(judge, control=control, at_fault=lambda _: "at fault")
    except SandboxError as error:
        found = str(error)
    assert found == expected


@pytest.mark.parametrize(
    ("pipeline", "stage", "method", "reference"),
    [
        ("code.python", 0, "run_python", {"tests": [{"stdout": "4"}]}),
        ("code.python", 0, "run_harness", {"asserts": {"code": ["assert f(1) == 4"]}}),
        ("code.cpp", 1, "run", {"tests": [{"stdout": "4"}]}),
    ],
)
def test_a_response_that_breaks_its_own_box_every_time_is_wrong(
    bench: LocalPipelines,
    monkeypatch: pytest.MonkeyPatch,
    pipeline: str,
    stage: int,
    method: str,
    reference: dict[str, Any],
) -> None:
    definition = next(each for name, each in bench.pipelines.items() if name == pipeline)
    handler: Any = bench.handler(definition.stages[stage])
    carry_out = getattr(handler._launcher, method)

    def break_for_the_response(order: Any) -> Any:
        own = str(getattr(order, "source", "")) + str(getattr(order, "payload", ""))
        if "breaks" in own or (order.__class__.__name__ == "CommandRun" and order.files):
            raise SandboxError("the box ended without a word")
        return carry_out(order)

    monkeypatch.setattr(handler._launcher, method, break_for_the_response)
    source = "int main() { }" if pipeline == "code.cpp" else "# breaks\ndef f(x): return 4"
    ended = bench.judge(pipeline, source, reference, extraction="raw")
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "broke_the_run"
    assert "without a word" in ended.evidence.error


def test_a_referee_that_ends_early_for_one_program_only_is_that_programs_doing(
    bench: LocalPipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = next(each for name, each in bench.pipelines.items() if name == "code.python")
    handler: Any = bench.handler(definition.stages[0])
    run_harness = handler._launcher.run_harness

    def without_records(run: Any) -> Any:
        result = run_harness(run)
        if b"breaks" in run.payload:
            return replace(result, channel=b"", status=RunStatus.EXITED)
        return result

    monkeypatch.setattr(handler._launcher, "run_harness", without_records)
    reference = {"calls": {"function": "f", "cases": [{"expected": 1}]}}
    ended = bench.judge("code.python", "def f(): return 1  # breaks", reference)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "broke_the_run")


TOO_LARGE_TO_RETURN = {"asserts": {"code": ["x = f(1)\nassert g([x, x]) == 2"]}}


def test_a_value_that_cannot_be_sent_back_is_the_programs_fault(judge: Judge) -> None:
    program = "def f(n): return '\\u1234' * (4 << 20)\ndef g(x): return 1"
    ended = judge("code.python", program, TOO_LARGE_TO_RETURN)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended


UNSENDABLE = "import ctypes\nassert f(ctypes.c_int(3)) == 3"
UNSENDABLE_LATER = (
    "import ctypes\ndef check(c):\n    c(1)\n    assert c(ctypes.c_int(3)) == 3\ncheck(f)"
)


@pytest.mark.parametrize(
    ("program", "code", "outcome"),
    [
        ("def f(x): return x", UNSENDABLE, Outcome.REJECTED_INVALID),
        ("def f(x): return x", UNSENDABLE_LATER, Outcome.REJECTED_INVALID),
        ("def f(x): 1 / 0", UNSENDABLE_LATER, Outcome.SCORED),
        ("raise ValueError", UNSENDABLE, Outcome.SCORED),
    ],
)
def test_a_reference_is_refused_where_a_control_cannot_be_judged_either(
    judge: Judge, program: str, code: str, outcome: Outcome
) -> None:
    ended = judge("code.python", program, {"asserts": {"code": [code]}})
    assert ended.outcome is outcome, ended


def test_walked_tests_reach_all_statements() -> None:
    seen: list[int] = []
    code = "see(1)\nassert see(2) == 5\n1 / 0\nfor x in [3]:\n    assert not see(x)\nsee(4)"
    exec(walked(code), {"see": seen.append})
    assert seen == [1, 2, 3, 4]
    assert walked("def (") == "def ("


def test_a_trivial_program_has_the_entry_points() -> None:
    namespace: dict[str, Any] = {}
    exec(trivial_program(["f", "Stack"]), namespace)
    assert namespace["f"](1, x=2) is namespace["Stack"]() is None
