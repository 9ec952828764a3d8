"""How early a slot is ordered, from the start-up times that were measured. Pure."""

from typing import Final

SIGMAS_90: Final = 1.28
"""Standard deviations above the median at which nine in ten are below."""
SLOWER_MAX: Final = 1.5
"""Times the 0.9 quantile. Two quantiles that are farther apart are those of two kinds of starts."""


def startup_at(p50_ns: int, p90_ns: int, sigmas: float) -> int:
    """The time of a start that is so many standard deviations slower than the median one.

    The logarithms of start-up times are taken for normal.
    """
    if not 0 < p50_ns < p90_ns:
        return p90_ns
    longer: float = (p90_ns / p50_ns) ** (sigmas / SIGMAS_90 - 1)
    return round(p90_ns * min(longer, SLOWER_MAX))
