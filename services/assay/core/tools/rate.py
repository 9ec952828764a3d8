"""A rate limit as a schedule of arrivals (GCRA), which one number per limit remembers. Pure.

The number is the time at which the limit would be free of all that was taken: each call moves it on
by the share of a minute that it costs. A call may come up to a minute's allowance early, so that
all of it may be used at once after a pause. The store computes the same in `scripts/permit.lua`.
"""

from typing import Final

MINUTE_S: Final = 60.0


def next_free_s(free_s: float, now_s: float, cost: float, per_minute: int) -> tuple[float, float]:
    """When the limit would be free after taking `cost`, and how long to wait before taking it.

    Args:
        free_s: when it would be free now.
        now_s: the time.
        cost: what is taken; more than a minute's allowance counts as all of it.
        per_minute: the allowance.
    """
    share_s = min(cost, per_minute) / per_minute * MINUTE_S
    begin_s = max(free_s, now_s)
    wait_s = begin_s + share_s - (now_s + MINUTE_S)
    return begin_s + share_s, max(0.0, wait_s)
