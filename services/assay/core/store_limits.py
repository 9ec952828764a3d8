"""Limits of every store, and its refusals: each is worded here, once for all implementations."""

from dataclasses import dataclass
from typing import Final

from assay.core.errors import (
    Conflict,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Saturated,
    TooLarge,
)
from assay.core.ids import BatchId, GroupId, RequestId, TaskId
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
GROUP_JUDGED_MAX: Final = 64
"""Requests of a group that one stage judges as a whole: a worker gets them all at once."""
DAY_HOURS: Final = 24
"""The day of `worker_s_per_day_max`: this hour and those before it."""
UPLOADS_MAX: Final = 100_000
"""Uploaded files of a tenant, however small: a file of one byte takes 440 in the server."""
LEASE_RAN_OUT: Final = "the lease ran out"
"""Error of an attempt whose worker was not heard of in time."""


ANSWERS_NOTED: Final = 16
"""Answers to a worker's claims of a stage that a store remembers, each of at most 64 requests."""
HELD_NAMED_MAX: Final = 1_024
"""Leases in a call of `give_back_undelivered`: those answers leased no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """A server that is fit, and what an operator should know about it."""

    server: str
    """Such as `valkey 9.1.0`; empty: not reported."""
    appends: bool | None
    """It has an append-only file; `None`: not reported."""
    appendfsync: str
    """Empty: not reported."""
    notes: tuple[str, ...] = ()
    """Risks that the settings accept, and facts that could not be determined."""


# -- tasks and batches -----------------------------------------------------------------------------
def no_task(task_id: TaskId) -> NotFound:
    """There is no such task."""
    return NotFound(f"no task {task_id}", field="task_id")


def no_batch(batch_id: BatchId) -> NotFound:
    """There is no such batch."""
    return NotFound(f"no batch {batch_id}", field="batch_id")


def other_task(task_id: TaskId) -> Conflict:
    """Another task has this name."""
    message = f"task {task_id} is registered with other content"
    return Conflict(message, field="task.task_id")


def other_batch(batch_id: BatchId) -> Conflict:
    """Another batch has this name."""
    message = f"batch {batch_id} has another task, size or group size"
    return Conflict(message, field="batch_id")


def too_many_tasks(quota: Quota) -> Saturated:
    """The error that `put_task` raises."""
    message = f"tasks_max: {quota.tasks_max} tasks of the tenant are registered"
    return Saturated(message, retry_after_s=RETRY_AFTER_S)


def too_many_batches(quota: Quota) -> Saturated:
    """The error that `open_batch` raises."""
    message = f"{quota.batches_open_max} batches are open"
    return Saturated(message, retry_after_s=RETRY_AFTER_S)


# -- requests --------------------------------------------------------------------------------------
def batch_closed(batch_id: BatchId) -> FailedPrecondition:
    """The batch is sealed or has ended."""
    message = f"batch {batch_id} takes no new requests"
    return FailedPrecondition(message, field="batch_id")


def batch_full(batch_id: BatchId) -> FailedPrecondition:
    """There would be more requests than the batch's size."""
    message = f"batch {batch_id} would exceed its size"
    return FailedPrecondition(message, field="requests")


def group_full(group_id: GroupId, index: int) -> FailedPrecondition:
    """There would be more requests than the batch's group size; `index` is the first of them."""
    message = f"group {group_id} would exceed the batch's group size"
    return FailedPrecondition(message, field=f"requests[{index}].group_id")


def no_group(index: int) -> InvalidRequest:
    """A request of a pipeline that judges whole groups names none."""
    field = f"requests[{index}].group_id"
    return InvalidRequest(f"{field}: missing; the pipeline judges whole groups", field=field)


def other_request(request_id: RequestId, index: int) -> Conflict:
    """The batch has another request of this id."""
    message = f"request {request_id} exists with other content"
    return Conflict(message, field=f"requests[{index}].request_id")


def never_fits(name: str, most: int, requests: int) -> TooLarge:
    """A message above a whole quota, which waiting does not help; several requests may fit one by
    one, and one is named."""
    field = "requests[0]" if requests == 1 else "message"
    message = f"{name}: the message is larger than the tenant's whole quota, {most}"
    return TooLarge(message, field=field)


def too_many_requests() -> Saturated:
    """The tenant has `requests_open_max`."""
    message = "the tenant's quota of open requests is used up"
    return Saturated(message, retry_after_s=RETRY_AFTER_S)


def too_many_bytes() -> Saturated:
    """The tenant has `bytes_open_max`."""
    message = "the tenant's quota of open payload bytes is used up"
    return Saturated(message, retry_after_s=RETRY_AFTER_S)


def too_many_uploads(quota: Quota, *, retry_after_s: float) -> Saturated:
    """The tenant has `uploads_bytes_max` or `UPLOADS_MAX`; its first file goes after that time."""
    most = f"{quota.uploads_bytes_max} bytes or {UPLOADS_MAX} files"
    message = f"uploads_bytes_max: the tenant's room for uploaded files is used up, {most}"
    return Saturated(message, retry_after_s=retry_after_s)


def upload_never_fits(quota: Quota, size: int) -> TooLarge:
    """A file above the tenant's whole `uploads_bytes_max`."""
    message = f"content: {size} bytes; uploads_bytes_max is {quota.uploads_bytes_max}"
    return TooLarge(message, field="content")


def too_much_worker_time(quota: Quota, *, retry_after_s: float) -> Saturated:
    """The tenant has used `worker_s_per_day_max` in the last day."""
    message = f"worker_s_per_day_max: {quota.worker_s_per_day_max:g} worker-seconds are used up"
    return Saturated(message, retry_after_s=retry_after_s)


# -- planners and artifacts ------------------------------------------------------------------------
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


def artifact_too_large(size: int, bytes_max: int) -> TooLarge:
    """The error that `artifact_put` raises."""
    return TooLarge(f"an artifact of {size} bytes is over {bytes_max}", field="artifact")
