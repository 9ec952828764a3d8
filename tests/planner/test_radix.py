"""Sorting by digits: the order of a stable sort, whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.model.radix import DIGITS, FEW, order_of

NUMBERS = st.one_of(
    st.integers(-(2**62), 2**62 - 1),
    st.integers(0, 3),
    st.builds(lambda digit, of: digit * DIGITS**of, st.integers(0, DIGITS - 1), st.integers(0, 6)),
)


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(0, 10**9), st.booleans())
def test_numbers_are_listed_as_a_stable_sort_lists_them(
    some: list[int], seed: int, many: bool
) -> None:
    """Few are compared, many are sorted by digits."""
    repeats = -(-(FEW + 1) // len(some)) if many else 1
    numbers = np.random.default_rng(seed).permutation(np.array(some * repeats, np.int64))
    assert order_of(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()


@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1])
def test_equal_numbers_keep_their_order(count: int) -> None:
    assert order_of(np.full(count, 7, np.int64)).tolist() == list(range(count))
