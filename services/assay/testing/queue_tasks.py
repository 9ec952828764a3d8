"""Records of the store's model for tasks, hints and the leader of the planners."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from assay.core.ids import TaskId, TenantId
from assay.core.records import BatchHistory, HintRecord, Leadership, Quota, TaskRecord
from assay.core.store_limits import (
    HINTS_MAX,
    HINTS_PER_TENANT_MAX,
    NATURAL_SPANS_KEPT,
    no_task,
    other_task,
    too_many_tasks,
)
from assay.testing.queue_records import ModelBatch, TaskKey


class TaskBook:
    """Registered tasks, their hints, and the history of their last batches."""

    def __init__(self, *, hints_kept_ns: int, history_batches: int) -> None:
        self._hints_kept_ns = hints_kept_ns
        self._history_batches = history_batches
        self._tasks: dict[TaskKey, TaskRecord] = {}  # the last used is last
        self._opened: Counter[TaskKey] = Counter()
        self._hints: dict[TaskKey, HintRecord] = {}
        self._histories: dict[TaskKey, deque[BatchHistory]] = {}
        self._spans_ns: dict[TaskKey, deque[int]] = {}

    def put_task(
        self, task: TaskRecord, quota: Quota | None = None, *, replaces: TaskRecord | None = None
    ) -> bool:
        """See `Store.put_task`."""
        key = task.tenant, task.task_id
        if replaces is not None and self._tasks.get(key) == replaces:
            self._tasks[key] = task
        new = self.check_task(task, quota)
        self._tasks.setdefault(key, task)
        self.use(key)
        return new

    def check_task(self, task: TaskRecord, quota: Quota | None) -> bool:
        """Whether `put_task` would register it; raises what that raises."""
        there = self._tasks.get((task.tenant, task.task_id))
        if there is None:
            if quota and sum(t == task.tenant for t, _ in self._tasks) >= quota.tasks_max:
                raise too_many_tasks(quota)
        elif there != task:
            raise other_task(task.task_id)
        return there is None

    def opened(self, key: TaskKey) -> int:
        """Batches of the task opened so far."""
        return self._opened[key]

    def get_task(self, tenant: TenantId, task_id: TaskId) -> TaskRecord:
        """See `Store.get_task`."""
        try:
            return self._tasks[tenant, task_id]
        except KeyError:
            raise no_task(task_id) from None

    def use(self, key: TaskKey) -> None:
        """Move the task to the end of the list that `tasks` reverses."""
        self._tasks[key] = self._tasks.pop(key)

    def batch_opens(self, key: TaskKey) -> None:
        """A batch of the task opens."""
        self._opened[key] += 1
        self.use(key)
        self._hints.pop(key, None)

    def tasks(self, *, tasks_max: int) -> Sequence[TaskRecord]:
        """See `Store.tasks`; here none expires."""
        return list(reversed(self._tasks.values()))[:tasks_max]

    def hint(self, tenant: TenantId, task_id: TaskId, size: int, now_ns: int) -> None:
        """See `Store.hint`."""
        key = tenant, task_id
        self._hints.pop(key, None)
        self._hints[key] = HintRecord(tenant=tenant, task_id=task_id, size=size, hinted_ns=now_ns)
        own = [key for key in self._hints if key[0] == tenant]
        if len(own) > HINTS_PER_TENANT_MAX:
            del self._hints[own[0]]
        if len(self._hints) > HINTS_MAX:
            del self._hints[next(iter(self._hints))]

    def hints(self, now_ns: int) -> Sequence[HintRecord]:
        """See `Store.hints`."""
        kept_ns = self._hints_kept_ns
        self._hints = {k: h for k, h in self._hints.items() if now_ns < h.hinted_ns + kept_ns}
        return list(self._hints.values())

    def history(
        self, tenant: TenantId, task_id: TaskId, *, batches_max: int
    ) -> Sequence[BatchHistory]:
        """See `Store.history`."""
        kept = self._histories.get((tenant, task_id), ())
        return list(kept)[:batches_max]

    def natural_spans_ns(self, tenant: TenantId, task_id: TaskId) -> Sequence[int]:
        """See `Store.natural_spans_ns`."""
        return list(self._spans_ns.get((tenant, task_id), ()))

    def keep_history(self, batch: ModelBatch) -> None:
        """A batch of the task is complete."""
        key = batch.spec.tenant, batch.spec.task_id
        self.use(key)
        if batch.history:
            spans_ns = self._spans_ns.setdefault(key, deque(maxlen=NATURAL_SPANS_KEPT))
            spans_ns.append(batch.ended_natural_ns)
        kept = self._histories.setdefault(key, deque(maxlen=self._history_batches))
        kept.appendleft(
            BatchHistory(
                batch_id=batch.spec.batch_id,
                opened_ns=batch.opened_ns,
                completed_ns=batch.completed_ns,
                deadline_ns=batch.deadline_ns,
                requests=tuple(batch.history),
            )
        )


class PlannerLead:
    """The leader of the planners."""

    def __init__(self) -> None:
        self._now = Leadership(leads=False, planner="", fence=0, expires_ns=0)

    def lead(self, planner: str, *, lease_ns: int, now_ns: int) -> Leadership:
        """See `Store.lead`."""
        now = self._now
        free = not now.leads or now.expires_ns <= now_ns
        if not free and now.planner != planner:
            return replace(now, leads=False)
        self._now = Leadership(
            leads=True, planner=planner, fence=now.fence + free, expires_ns=now_ns + lease_ns
        )
        return self._now

    def resign(self, planner: str) -> bool:
        """See `Store.resign`; returns whether it was the leader."""
        if self._now.leads and self._now.planner == planner:
            self._now = replace(self._now, leads=False)
            return True
        return False
