"""The order of many whole numbers by digits, in the form that numba compiles.

A sort by comparisons guesses wrongly at every second one of them where numbers have no pattern:
it takes nine times as long, and took half of the time of a plan. Counting digits from the lowest
on (Knuth, The Art of Computer Programming, volume 3, 5.2.5) guesses nothing.
"""

from typing import Final, NamedTuple

import numpy as np

from assay.model.arrays import Ints
from assay.model.jit import in_place

DIGIT_BITS_MAX: Final = 10
BITS: Final = 63
"""Of the largest range."""
FEW: Final = 48
"""Up to this many numbers, counting digits takes longer than inserting one by one."""


class Sorting(NamedTuple):
    """Working memory of `sort`, and its result."""

    numbers: Ints
    """What is sorted."""
    order: Ints
    """Where each number was."""
    other_numbers: Ints
    other_order: Ints
    ends: Ints
    """digit: where the next number with it goes."""


def make_sorting(count: int) -> Sorting:
    """Allocate for up to `count` numbers."""
    return Sorting(
        numbers=np.zeros(count, np.int64),
        order=np.zeros(count, np.int64),
        other_numbers=np.zeros(count, np.int64),
        other_order=np.zeros(count, np.int64),
        ends=np.zeros(1 << DIGIT_BITS_MAX, np.int64),
    )


@in_place
def sort(sorting: Sorting, count: int) -> None:
    """Sort the first `count` of `numbers`, the lowest first and equal ones in their order, and say
    in `order` where each was. The range of the numbers must be below 2**63."""
    numbers, order = sorting.numbers, sorting.order
    least = most = numbers[0] if count > 0 else 0
    ascending = True
    for k in range(count):
        order[k] = k
        ascending &= numbers[k] >= most
        least, most = min(least, numbers[k]), max(most, numbers[k])
    if ascending:
        return
    if count <= FEW:
        insert_each(numbers, order, count)
        return
    digit_bits = 5  # about as many digits as numbers
    while digit_bits < DIGIT_BITS_MAX and 2 << digit_bits <= count:
        digit_bits += 1
    shift, ends = 0, sorting.ends[: 1 << digit_bits]
    other, other_order = sorting.other_numbers, sorting.other_order
    while shift < BITS and (most - least) >> shift > 0:
        by_digit(numbers, order, other, other_order, ends, count, least, shift)
        shift = min(shift + digit_bits, BITS)
        by_digit(other, other_order, numbers, order, ends, count, least, shift)
        shift += digit_bits


@in_place
def insert_each(numbers: Ints, order: Ints, count: int) -> None:
    """Sort a few numbers with their places."""
    for k in range(1, count):
        number, place, at = numbers[k], order[k], k
        while at > 0 and numbers[at - 1] > number:
            numbers[at], order[at] = numbers[at - 1], order[at - 1]
            at -= 1
        numbers[at], order[at] = number, place


@in_place
def by_digit(
    numbers: Ints,
    order: Ints,
    to: Ints,
    to_order: Ints,
    ends: Ints,
    count: int,
    least: int,
    shift: int,
) -> None:
    """Write the numbers, by one digit of what each exceeds the least by; equal digits keep their
    order."""
    ends[:] = 0
    mask = ends.shape[0] - 1
    for k in range(count):
        ends[((numbers[k] - least) >> shift) & mask] += 1
    before = 0
    for digit in range(ends.shape[0]):
        before, ends[digit] = before + ends[digit], before
    for k in range(count):
        digit = ((numbers[k] - least) >> shift) & mask
        at = ends[digit]
        ends[digit] = at + 1
        to[at], to_order[at] = numbers[k], order[k]
