"""Single rules of verdicts, each shown by an answer that only this rule decides."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from assay.core.verdict import Ended
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import HeldUp, PythonRun, RunResult
from assay.verifiers.code.referee.equality import close
from assay.verifiers.code.scoring import TestOutcome, conclude
from assay.verifiers.code.settings import PythonSettings
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.verify import judge as compare
from assay.verifiers.total import total

Judge = Callable[..., Ended]
SETTINGS = MathSettings()


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "expected"),
    [
        (0.0, 0.5, 0.5, True),
        (0.0, 0.5000001, 0.5, False),
        (10.0, 11.0, 0.1, True),
        (10.0, 12.0, 0.1, False),
        (Fraction(1, 3), 1 / 3, 0.0, False),
    ],
)
def test_a_tolerance_is_of_the_greater_number_or_of_one(
    one: float, other: float, tolerance: float, expected: bool
) -> None:
    assert close(one, other, tolerance) is expected


@pytest.mark.parametrize(
    ("gold", "answer", "passes"),
    [
        ("0.12345649", "0.12345651", False),
        ("0.1234562", "0.1234564", True),
        (r"\frac{1}{3}", r"\frac{3333333}{10000000}", False),
        ("1:2", "-1:-2", False),
        ("1:2", "2:4", True),
        ("(1, 2)", "(1, 2, 3)", False),
    ],
)
def test_decimals_alone_are_rounded_and_ratios_keep_their_sign(
    gold: str, answer: str, passes: bool
) -> None:
    assert compare((gold,), answer, SETTINGS).passed is passes


def test_a_test_that_did_not_run_is_no_pass() -> None:
    ended = conclude(
        [TestOutcome(verdict="pass")], total=2, settings=PythonSettings(), extracted=""
    )
    assert (ended.reward, ended.evidence.verdict, ended.evidence.failed_test) == (0.0, "not_run", 1)


def test_a_machine_that_is_too_busy_finds_no_fault() -> None:
    def busy() -> str:
        raise HeldUp("no core")

    def control() -> None:
        pytest.fail("no control is run on a machine that is too busy")

    with pytest.raises(HeldUp):
        total(busy, control=control, at_fault=lambda _: "at fault")


def test_an_empty_gold_is_met_by_no_answer(judge: Judge) -> None:
    settings = {"strategies": ["boxed"]}
    assert judge("exact", "no box", {"answers": [""]}, **settings).reward == 1.0
    assert judge("exact", "no box", {"answers": ["x"]}, **settings).reward == 0.0


def _asserts(*code: str) -> dict[str, Any]:
    return {"asserts": {"code": list(code)}}


def test_an_expected_failure_that_passes_is_a_failure(judge: Judge) -> None:
    tests = _asserts(
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n"
        "    def test(self):\n        self.assertEqual(f(2), 5)\n"
        "    def test_number(self):\n        self.assertIn(f(2), (4, 5))\n"
    )
    for returned, reward in ((4, 1.0), (5, 0.0)):
        ended = judge("code.python", f"```python\ndef f(x): return {returned}\n```", tests)
        assert ended.reward == reward, ended.evidence


def test_what_is_in_a_programs_object_is_what_it_yields(judge: Judge) -> None:
    program = (
        "class T:\n    def __init__(self, n):\n        self.n = n\n"
        "    def __iter__(self):\n        return iter([1])\n"
        "    def __contains__(self, item):\n        return True\n"
        "def f(n):\n    return T(n)\n"
    )
    tests = _asserts("assert 5 in f(2)")
    assert judge("code.python", f"```python\n{program}```", tests).reward == 0.0


def test_out_of_memory_in_a_program_is_its_limit(judge: Judge) -> None:
    program = "```python\ndef f(x):\n    raise MemoryError\n```"
    ended = judge("code.python", program, _asserts("assert f(2) == 4"))
    assert ended.evidence.verdict == "memory_limit"


@pytest.mark.parametrize(
    ("gold", "answer", "passes"),
    [
        ("(3, 2)", "y = 2, x = 3", True),
        ("(3, 2)", "y = 3, x = 2", False),
        ("(3, 2, 1)", "z = 1, x = 3, y = 2", True),
    ],
)
def test_coordinates_with_names_are_in_the_order_of_the_axes(
    gold: str, answer: str, passes: bool
) -> None:
    assert compare((gold,), answer, SETTINGS).passed is passes


def test_an_option_that_is_judged_wrong_is_no_answer(judge: Judge) -> None:
    said = "Answer:\nA. Paris is wrong\nB. London is right"
    assert judge("choice", said, {"answer": "A", "choices": ["A", "B"]}).reward == 0.0


def test_tests_that_only_this_program_makes_unusable_are_its_own_fault(judge: Judge) -> None:
    """What the program returned goes back to it, in a list that is then nested too deep."""
    deep = "def f(n):\n    x = 4\n    for _ in range(99):\n        x = [x]\n    return x\n"
    program = f"```python\n{deep}def g(x):\n    return 4\n```"
    ended = judge("code.python", program, _asserts("assert g([[[f(2)]]]) == 4"))
    assert (ended.reward, ended.evidence.verdict) == (0.0, "broke_the_run"), ended.evidence


def test_no_test_is_run_after_the_sum_of_their_time_is_spent(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spent budget leaves later tests next to nothing, so only the number of runs shows it."""
    runs: list[PythonRun] = []
    run_python = ZygoteLauncher.run_python

    def counted(launcher: ZygoteLauncher, run: PythonRun) -> RunResult:
        runs.append(run)
        return run_python(launcher, run)

    monkeypatch.setattr(ZygoteLauncher, "run_python", counted)
    spin = "import time\ninput()\nwhile time.process_time() < 0.3:\n    pass\nprint(1)\n"
    tests = {"tests": [{"stdin": "1\n", "stdout": "1\n"}] * 12}
    limits = {"cpu_s": 0.5, "total_cpu_s": 0.5, "partial_credit": True}
    ended = judge("code.python", f"```python\n{spin}```", tests, **limits)
    assert ended.reward is not None
    assert 2 <= len(runs) <= 4


def test_calls_between_tests_and_program_nest_to_a_limit_of_their_own(judge: Judge) -> None:
    """Also where the interpreter's limit has been raised."""
    raised = "import sys\nsys.setrecursionlimit(20000)\n"
    program = f"```python\n{raised}def f(call, n):\n    return call(n - 1) if n else 0\n```"
    tests = (
        f"{raised}def call(n):\n    return f(call, n)\ntry:\n    call(500)\n"
        "except RecursionError as error:\n    assert 'between tests and program' in str(error)\n"
        "else:\n    raise AssertionError('no limit')\n"
    )
    reference = {"asserts": {"code": [tests], "functions": ["f"]}}
    ended = judge("code.python", program, reference)
    assert ended.reward == 1.0, ended.evidence


def test_a_question_ends_within_the_length_of_a_statement(judge: Judge) -> None:
    """A question mark further behind a label does not ask about it, so both labels are named."""
    reference = {"choices": ["A", "B", "C", "D"], "answer": "C"}
    said = {length: f"B {'as it was said before ' * length}? C" for length in (3, 40)}
    assert judge("choice", said[3], reference).evidence.verdict == "pass"
    assert judge("choice", said[40], reference).evidence.verdict == "ambiguous"
