"""Whose fault it is that no verdict came: a control decides, never what the response says."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, StageVerdict
from assay.sandbox.port import HeldUp, RunStatus, SandboxError
from assay.verifiers.code.control import trivial_program, walked
from assay.verifiers.local import LocalPipelines
from assay.verifiers.math import reading, verify
from assay.verifiers.port import Work
from assay.verifiers.total import RUNS_MAX, HostAtFault, judged, total

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


class Fails:
    """A handler that raises for some responses."""

    def __init__(self, error: Exception, *responses: str) -> None:
        self._error = error
        self._responses = responses
        self.asked: list[tuple[str, bytes]] = []

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        self.asked += [(work.response, work.handover) for work in works]
        if any(work.response in self._responses for work in works):
            raise self._error
        return [Ended(outcome=Outcome.SCORED, reward=1.0) for _ in works]

    def close(self) -> None:
        """Nothing is held."""


def work_of(bench: LocalPipelines, response: str) -> Work:
    return bench.work("exact", response, {"answers": ["a"]}, b"before", reward_fail=-1.0)


def test_a_response_that_a_handler_without_controls_fails_on_is_wrong(
    bench: LocalPipelines,
) -> None:
    handler = Fails(ValueError("what is this"), "odd")
    found = judged(handler, work_of(bench, "odd"))
    assert isinstance(found, Ended)
    assert (found.outcome, found.reward) == (Outcome.SCORED, -1.0)
    assert found.evidence.verdict == "broke_the_run"
    assert found.evidence.error == "ValueError: what is this"
    assert handler.asked == [("odd", b"before"), ("", b"before")] * RUNS_MAX


def test_a_handler_that_fails_on_trivial_responses_too_is_at_fault(bench: LocalPipelines) -> None:
    handler = Fails(ValueError("no table"), "odd", "", "0")
    with pytest.raises(ValueError, match="no table"):
        judged(handler, work_of(bench, "odd"))
    assert handler.asked == [("odd", b"before"), ("", b"before"), ("", b""), ("0", b"")]


@pytest.mark.parametrize("error", [MemoryError(), HostAtFault("no module"), HeldUp("busy")])
def test_what_no_response_causes_is_raised_as_it_is(
    bench: LocalPipelines, error: Exception
) -> None:
    handler = Fails(error, "odd")
    with pytest.raises(type(error)):
        judged(handler, work_of(bench, "odd"))
    assert handler.asked == [("odd", b"before")]


def test_an_answer_that_breaks_the_comparison_is_wrong(
    bench: LocalPipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reading.read_answer

    def fails(text: str, *rest: Any) -> Any:
        if "17" in text:
            raise RecursionError("too deep")
        return read(text, *rest)

    monkeypatch.setattr(verify, "read_answer", fails)
    ended = bench.judge("math", r"\boxed{17}", {"answers": ["4"]})
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "broke_the_run"


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


class WithoutText(Exception):
    """An error whose text cannot be made, as one about a value that is nested too deep."""

    def __str__(self) -> str:
        raise RecursionError("too deep")


def test_an_error_without_a_text_is_an_error_too(bench: LocalPipelines) -> None:
    found = judged(Fails(WithoutText(), "odd"), work_of(bench, "odd"))
    assert isinstance(found, Ended)
    assert found.reward == -1.0
    assert found.evidence.error == "WithoutText: its text raises RecursionError"
