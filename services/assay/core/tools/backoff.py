"""Pause before the next attempt, after a number of failures in a row. Pure."""

from typing import Final

DOUBLINGS_MAX: Final = 60
"""Keeps the power finite; `longest_s` is reached long before."""


def pause_s(failures: int, *, first_s: float, longest_s: float) -> float:
    """`first_s` after the first failure, twice as long after each further one, up to `longest_s`.

    Args:
        failures: failures in a row so far; 0 = no pause.
        first_s: pause after one failure, in seconds.
        longest_s: no pause is longer, in seconds.
    """
    if failures <= 0:
        return 0.0
    return min(longest_s, first_s * 2.0 ** min(failures - 1, DOUBLINGS_MAX))
