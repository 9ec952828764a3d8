"""Registering tasks and opening batches."""

from typing import Final, NoReturn

from assay.config.settings import StoreSettings
from assay.core.records import BatchRecord, BatchSpec, Quota, TaskRecord
from assay.core.store_limits import (
    never_fits,
    no_task,
    other_batch,
    other_task,
    too_many_batches,
    too_many_bytes,
    too_many_requests,
    too_many_tasks,
)
from assay.store import codec
from assay.store.link import Argument, Link, Reply
from assay.store.script import load_script

TASK_KEPT_S: Final = 30 * 86_400.0
"""How long a task stays registered after its last use."""


class Opening:
    """The calls of a store that register tasks and open batches."""

    def __init__(self, link: Link, settings: StoreSettings) -> None:
        self._link = link
        self._settings = settings
        self._put_task = load_script("put_task")
        self._open_batch = load_script("open_batch")

    async def put_task(
        self, task: TaskRecord, quota: Quota, replaces: TaskRecord | None = None
    ) -> bool:
        """See `Store.put_task`."""
        reply = await self._link.run(
            self._put_task,
            *(task.tenant, task.task_id, codec.pack_task(task), task.stages[0]),
            task.group_stage or "",
            *(quota.tasks_max, int(TASK_KEPT_S * 1000)),
            "" if replaces is None else codec.pack_task(replaces),
        )
        if reply[0] == b"SATURATED":
            raise too_many_tasks(quota)
        if reply[0] == b"CONFLICT":
            raise other_task(task.task_id)
        return bool(reply[0] == b"NEW")

    async def open(
        self, spec: BatchSpec, quota: Quota, implicit: TaskRecord | None
    ) -> tuple[BatchRecord, bool]:
        reply = await self._link.run(self._open_batch, *self.arguments(spec, quota, implicit))
        if reply[0] not in {b"NEW", b"THERE"}:
            refuse_batch(reply[0], spec, quota)
        return codec.batch_record(reply[1]), reply[0] == b"NEW"

    def arguments(
        self, spec: BatchSpec, quota: Quota, implicit: TaskRecord | None
    ) -> tuple[Argument, ...]:
        """What a script needs to open a batch, as `scripts/opening.lua` lists it."""
        task: tuple[Argument, ...] = ("", "", 0, 0)
        gathers = ""
        if implicit is not None:
            kept_ms = int(self._settings.implicit_tasks_kept_s * 1000)
            packed, first = codec.pack_task(implicit), implicit.stages[0]
            task = (packed, first, quota.tasks_max, kept_ms)
            gathers = implicit.group_stage or ""
        return (
            *(spec.tenant, spec.batch_id, spec.task_id, spec.size, spec.group_size),
            *(spec.deadline_after_ms, quota.batches_open_max),
            int(self._settings.batch_overdue_s * 1000),
            int(self._settings.results_kept_s * 1000),
            self._settings.history_batches,
            repr(spec.weight),
            quota.results_kept_max,
            *(spec.requests_reserved, spec.bytes_reserved),
            *(quota.requests_open_max, quota.bytes_open_max, *task),
            *(spec.deadline_ns // codec.US, gathers),
        )


def refuse_batch(refusal: Reply, spec: BatchSpec, quota: Quota) -> NoReturn:
    """Raise the error for a refusal of `scripts/opening.lua`."""
    match refusal:
        case b"NOT_FOUND":
            raise no_task(spec.task_id)
        case b"OTHER_TASK":
            raise other_task(spec.task_id)
        case b"CONFLICT":
            raise other_batch(spec.batch_id)
        case b"OVER_REQUESTS":
            most = quota.requests_open_max
            raise never_fits("requests_open_max", most, spec.requests_reserved)
        case b"OVER_BYTES":
            raise never_fits("bytes_open_max", quota.bytes_open_max, spec.requests_reserved)
        case b"QUOTA_REQUESTS":
            raise too_many_requests()
        case b"QUOTA_BYTES":
            raise too_many_bytes()
        case b"QUOTA_TASKS":
            raise too_many_tasks(quota)
    raise too_many_batches(quota)
