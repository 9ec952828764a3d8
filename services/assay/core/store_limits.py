"""Limits of every store, and the errors raised beyond them."""

from typing import Final

from assay.core.errors import Saturated, TooLarge
from assay.core.records import Quota

RETRY_AFTER_S: Final = 1.0
PLANS_MAX: Final = 100
"""Plans kept per batch."""
PLAN_BYTES_MAX: Final = 1024**2
HINTS_MAX: Final = 1_000
"""Beyond that, the oldest is removed first."""
HINTS_PER_TENANT_MAX: Final = 100
"""Beyond that, the tenant's oldest is removed first."""
NATURAL_SPANS_KEPT: Final = 5
"""Batches per task from which the deadline of the next is estimated."""
BATCH_REQUESTS_MAX: Final = 1_000_000
"""Requests per batch, also of a batch without a size."""


def too_many_tasks(quota: Quota) -> Saturated:
    """The error that `put_task` raises."""
    message = f"tasks_max: {quota.tasks_max} tasks of the tenant are registered"
    return Saturated(message, retry_after_s=RETRY_AFTER_S)


def too_much_open_work(requests_max: int) -> Saturated:
    """The error that `open_work` raises."""
    message = f"more than {requests_max} requests have not ended"
    return Saturated(message, retry_after_s=RETRY_AFTER_S)


def check_plan(body: bytes) -> None:
    """Refuse a plan that is too large to keep.

    Raises:
        TooLarge: the plan is over `PLAN_BYTES_MAX`.
    """
    if len(body) > PLAN_BYTES_MAX:
        message = f"a plan of {len(body)} bytes is over {PLAN_BYTES_MAX}"
        raise TooLarge(message, field="plan")
