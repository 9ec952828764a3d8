"""Comparison outside the sandbox: total, type-strict, with only the allowances that it names."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.code.compare import (
    OutputComparison,
    OutputRule,
    output_equal,
)
from assay.verifiers.code.referee.equality import value_equal

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ANY = st.recursive(
    JSON | st.floats() | st.binary() | st.complex_numbers(),
    lambda inner: (
        st.tuples(inner, inner)
        | st.frozensets(st.integers())
        | st.dictionaries(st.integers() | st.floats() | st.none() | st.binary(), inner, max_size=3)
    ),
    max_leaves=6,
)


def rule(
    name: str = "lines", *, ignore_case: bool = False, float_tolerance: float = 0.0
) -> OutputComparison:
    return OutputComparison(
        rule=OutputRule(name), ignore_case=ignore_case, float_tolerance=float_tolerance
    )


@pytest.mark.parametrize(
    ("actual", "expected", "comparison", "equal"),
    [
        (b"5\n", "5", rule(), True),
        (b"5  \n\n\n", "5\n", rule(), True),
        (b"5\r\n6\r\n", "5\n6", rule(), True),
        (b" 5", "5", rule(), False),
        (b"1 2", "1  2", rule(), False),
        (b"1\n2", "1 2", rule(), False),
        (b"\n5", "5", rule(), False),
        (b"Yes", "YES", rule(), False),
        (b"Yes", "YES", rule(ignore_case=True), True),
        (b"0.3333333", "0.33333333", rule(), False),
        (b"0.3333333", "0.33333333", rule(float_tolerance=1e-5), True),
        (b"a 0.3333333", "b 0.33333333", rule(float_tolerance=1e-5), False),
        (b"1", "b", rule(float_tolerance=1e-5), False),
        (b"b", "1", rule(float_tolerance=1e-5), False),
        (b"1e3", "1000.0", rule(float_tolerance=1e-9), True),
        (b"nan", "NaN", rule(float_tolerance=1e-5), False),
        (b"inf", "1e999", rule(float_tolerance=1.0), False),
        (b"1_000", "1000", rule(float_tolerance=1e-5), False),
        ("\N{ARABIC-INDIC DIGIT FIVE}".encode(), "5", rule(float_tolerance=1e-5), False),
        (b"1000000", "1000001", rule(float_tolerance=1e-5), False),
        (b"1000000", "1000001", rule(float_tolerance=1.0), True),
        (b"1000000.0", "1000001", rule(float_tolerance=1e-5), True),
        (b"12345678901234567890", "12345678901234567891", rule(float_tolerance=1e-6), False),
        (b"-0", "0", rule(float_tolerance=1e-6), True),
        (b"+7 007", "7 7", rule("tokens", float_tolerance=1e-6), True),
        (b" 1\n\n2 ", "1 2", rule("tokens"), True),
        (b"12", "1 2", rule("tokens"), False),
        (b"5\n", "5", rule("exact"), False),
        (b"5", "5", rule("exact"), True),
        (b"\xff", "\ufffd", rule(), False),
        (b"", "", rule(), True),
        (b"\n \n", "", rule(), True),
        (b"", "5", rule(), False),
    ],
)
def test_outputs(actual: bytes, expected: str, comparison: OutputComparison, equal: bool) -> None:
    assert output_equal(actual, expected, comparison) is equal


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.sampled_from(OutputRule))
def test_every_output_equals_itself(text: str, name: OutputRule) -> None:
    assert output_equal(text.encode(), text, rule(name))


@given(st.binary(), st.text(), st.sampled_from(OutputRule), st.floats(0, 1), st.booleans())
def test_any_output_is_judged(
    actual: bytes, expected: str, name: OutputRule, tolerance: float, ignore_case: bool
) -> None:
    comparison = rule(name, float_tolerance=tolerance, ignore_case=ignore_case)
    assert output_equal(actual, expected, comparison) in {True, False}


@given(JSON)
def test_every_value_equals_itself(value: Any) -> None:
    assert value_equal(value, value, 0.0)


@given(JSON, JSON)
def test_values_that_differ_as_json_are_different(one: Any, other: Any) -> None:
    if value_equal(one, other, 0.0):
        assert one == other
        assert isinstance(one, bool) == isinstance(other, bool)


@given(ANY, JSON, st.floats(0, 1))
def test_any_value_is_judged(actual: Any, expected: Any, tolerance: float) -> None:
    assert value_equal(actual, expected, tolerance) in {True, False}


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (True, 1),
        (1, True),
        (0, False),
        ("1", 1),
        (1, "1"),
        (b"a", "a"),
        (None, 0),
        (None, False),
        ([], {}),
        ({}, []),
        ([], ()),
        ("", []),
        ({1, 2}, [1, 2]),
        (frozenset([1]), [1]),
        (math.nan, 1.0),
        (math.inf, 1e308),
        (1 + 0j, 1),
        ([1, [2, True]], [1, [2, 1]]),
        ({"a": 1, 1: 2}, {"a": 1}),
        ({1: "x", "1": "y"}, {"1": "x"}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        (2**53 + 1, 2**53),
        ({10**5000: 1}, {"1": 1}),
    ],
)
def test_types_are_kept_apart(actual: Any, expected: Any) -> None:
    assert not value_equal(actual, expected, 1e-6)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ((1, 2), [1, 2]),
        (1.0, 1),
        (1, 1.0),
        ({1: 2, None: 3, 2.5: 4, False: 5}, {"1": 2, "null": 3, "2.5": 4, "false": 5}),
        (0.1 + 0.2, 0.3),
        (1e300 * (1 + 1e-9), 1e300),
    ],
)
def test_what_json_cannot_say_is_allowed(actual: Any, expected: Any) -> None:
    assert value_equal(actual, expected, 1e-6)


def test_deep_values_are_no_recursion() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert value_equal(deep, deep, 0.0)
    assert not value_equal(deep, [[[1]]], 0.0)


def test_two_keys_of_one_json_form_are_not_one_key() -> None:
    assert not value_equal({1: "a", "1": "a"}, {"1": "a"}, 0.0)
    assert not value_equal({None: 1, "null": 1}, {"null": 1}, 0.0)
    assert value_equal({1: "a"}, {"1": "a"}, 0.0)
