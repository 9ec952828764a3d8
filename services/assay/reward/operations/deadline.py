"""Deadline of a batch that names none: its opening + T + D. Pure.

T is the natural span of the task's recent batches: from the opening to the last
`t_i = arrival_i + sum of its stages' service times`, as if nothing had ever queued. The longest of
them counts: a deadline that would already have been missed in the past is useless.
"""

from collections.abc import Sequence
from typing import Final

DELAY_BUDGET_DEFAULT_MS: Final = 5_000
"""D of a task that names none."""
NS_PER_MS: Final = 1_000_000


def deadline_after_ms(
    spans_ns: Sequence[int], *, delay_budget_ms: int | None, default_ms: int
) -> int:
    """Estimate T + D in milliseconds from T of the last batches; `default_ms` without any."""
    if not spans_ns:
        return default_ms
    budget_ms = DELAY_BUDGET_DEFAULT_MS if delay_budget_ms is None else delay_budget_ms
    return max(1, -(-max(spans_ns) // NS_PER_MS) + budget_ms)
