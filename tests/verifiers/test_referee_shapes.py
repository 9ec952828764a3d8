"""Python's protocols between tests and program: right programs pass, and agreeing ones do not."""

import itertools
from collections.abc import Callable

import pytest
from tests.fuzz.verdicts.code.forgers import FORGERS, VALUE_TESTS, called
from tests.fuzz.verdicts.code.shapes import SHAPES, Shape

from assay.core.verdict import Ended

Judge = Callable[..., Ended]


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_a_right_program_passes_tests_that_use_it_as_python_allows(
    judge: Judge, shape: Shape
) -> None:
    for code in shape.tests:
        ended = judge("code.python", shape.program, {"asserts": {"code": [code]}}, extraction="raw")
        assert ended.reward == 1.0, (code, ended.evidence)


@pytest.mark.parametrize(
    ("program", "name"), list(zip(FORGERS, itertools.cycle(("f", "Find_Max")), strict=False))
)
def test_a_program_that_agrees_with_everything_passes_no_test_of_a_value(
    judge: Judge, program: str, name: str
) -> None:
    # A list of lists of lists takes all its CPU time in each test.
    tests = [called(test, name) for test in VALUE_TESTS[: 3 if "range(60)" in program else None]]
    ended = judge(
        "code.python",
        program.replace("{f}", name),
        {"asserts": {"code": tests}},
        extraction="raw",
        partial_credit=True,
        cpu_s=1.0,
    )
    assert ended.reward == 0.0, ended.evidence


def test_the_tests_of_a_value_pass_for_programs_that_return_it(judge: Judge) -> None:
    for value in ("4", "4.0"):
        tests = [called(test, "f") for test in VALUE_TESTS[:3]]
        ended = judge(
            "code.python",
            f"def f(*_): return {value}",
            {"asserts": {"code": tests}},
            extraction="raw",
        )
        assert ended.reward == 1.0, ended.evidence


def test_a_raw_program_that_is_no_utf8_is_judged_as_python_judges_it(judge: Judge) -> None:
    reference = {"calls": {"function": "f", "cases": [{"args": [1], "expected": 2}]}}
    program = b"# \xff\xfe\ndef f(x):\n    return x + 1\n"
    by_calls = judge("code.python", program, reference, extraction="raw")
    assert by_calls.evidence.verdict in {"pass", "runtime_error"}
    by_asserts = judge(
        "code.python", program, {"asserts": {"code": ["assert f(1) == 2"]}}, extraction="raw"
    )
    assert by_asserts.evidence.verdict == by_calls.evidence.verdict
