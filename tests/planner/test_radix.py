"""Sorting by digits: the order of a stable sort, whatever the numbers."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.model.radix import DIGIT_BITS_MAX, FEW, make_sorting, sort

DIGITS = 1 << DIGIT_BITS_MAX
NUMBERS = st.one_of(
    st.integers(-(2**62), 2**62 - 1),
    st.integers(0, 3),
    st.builds(lambda digit, of: digit * DIGITS**of, st.integers(0, DIGITS - 1), st.integers(0, 5)),
)
SORTING = make_sorting(4 * DIGITS)
"""Used again and again, as in a plan: what is left of one sort is nothing to the next."""


@given(
    st.lists(NUMBERS, min_size=1, max_size=2 * FEW),
    st.sampled_from([1, 3, 20]),
    st.integers(0, 10**9),
)
def test_numbers_are_sorted_as_by_a_stable_sort(
    some: Sequence[int], repeats: int, seed: int
) -> None:
    """Few are inserted, many are sorted by digits."""
    numbers = np.random.default_rng(seed).permutation(np.array([*some] * repeats, np.int64))
    count = len(numbers)
    SORTING.numbers[:count] = numbers
    sort(SORTING, count)
    assert SORTING.numbers[:count].tolist() == np.sort(numbers).tolist()
    assert SORTING.order[:count].tolist() == np.argsort(numbers, kind="stable").tolist()


def test_nothing_is_sorted_too() -> None:
    sort(make_sorting(0), 0)
