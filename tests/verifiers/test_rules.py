"""Single rules of verdicts, each shown by an answer that only this rule decides."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from assay.core.verdict import Ended
from assay.sandbox.port import HeldUp
from assay.verifiers.code.definition import PythonSettings
from assay.verifiers.code.referee.equality import close
from assay.verifiers.code.scoring import TestOutcome, conclude
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
