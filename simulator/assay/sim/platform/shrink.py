"""Fewer faults that still break the same promise: delta debugging (Zeller, Hildebrandt: TSE 2002).

Source of the algorithm: `ddmin`, without the step to subsets, which complements include.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

RUNS_MAX: Final = 200

T = TypeVar("T")


def shrink(
    faults: Sequence[T], still_fails: Callable[[Sequence[T]], bool], *, runs_max: int = RUNS_MAX
) -> Sequence[T]:
    """Leave out what is not needed.

    Args:
        faults: with which it fails.
        still_fails: whether it fails with these.
        runs_max: how often that may be asked.

    Returns:
        A list in the same order, of which no single fault can be left out unless `runs_max` was
        reached.
    """
    left, parts, runs = list(faults), 1, 0
    while left and runs < runs_max:
        size = -(-len(left) // parts)
        for begin in range(0, len(left), size):
            fewer = left[:begin] + left[begin + size :]
            runs += 1
            if still_fails(fewer):
                left, parts = fewer, max(parts - 1, 1)
                break
            if runs >= runs_max:
                return left
        else:
            if size == 1:
                return left
            parts = min(2 * parts, len(left))
    return left
