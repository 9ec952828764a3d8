"""Which histories are sent to the planning process, and when.

A task's history when the task is first seen; its newest batches whenever one has ended, the last
one included; for a task without history, the last batch of tasks with the same stages.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from assay.core.ids import BatchId
from assay.core.records import OpenWork, TaskRecord
from assay.planner.session.messages import TaskHistory, TaskKey
from assay.store.port import Store

TASKS_MAX: Final = 64
"""Tasks remembered as sent; the planning process keeps as many."""
LENDERS_MAX: Final = 8
TASKS_LOOKED_AT_MAX: Final = 256


class HistoryFeed:
    """Reads the store only for what the planning process does not know."""

    def __init__(self, store: Store, *, batches_max: int) -> None:
        self._store = store
        self._batches_max = batches_max
        self._generation = -1
        self._open: OrderedDict[TaskKey, frozenset[BatchId]] = OrderedDict()
        self._records: dict[TaskKey, TaskRecord] = {}
        """Of the tasks in `_open`."""

    async def changed(
        self, work: Sequence[OpenWork], hinted: Sequence[TaskRecord], *, generation: int
    ) -> tuple[TaskHistory, ...]:
        """History that a planning process of this generation does not have yet.

        Raises:
            DependencyDown: the store cannot be reached; ask again later.
        """
        if generation != self._generation:
            self._generation = generation
            self.forget()
        open_now: dict[TaskKey, set[BatchId]] = {}
        tasks: dict[TaskKey, TaskRecord] = {}
        for task in (*(one.task for one in work), *hinted):
            key = task.tenant, task.task_id
            tasks[key] = task
            open_now.setdefault(key, set())
        for one in work:
            open_now[one.batch.tenant, one.batch.task_id].add(one.batch.batch_id)
        found: list[TaskHistory] = []
        try:
            for key, task in self._at_rest(tasks):
                if self._open[key]:
                    found.append(await self._last(task))
            for key, task in tasks.items():
                sent = await self._news(task, open_now[key])
                if sent is not None:
                    found.append(sent)
            found.extend(await self._lenders(found))
        except BaseException:
            self.forget()  # nothing was sent
            raise
        for key, _ in self._at_rest(tasks):
            self._open.pop(key)  # its batches are not counted while none is open
        while len(self._open) > TASKS_MAX:
            self._open.popitem(last=False)
        self._records = {key: tasks[key] for key in self._open}
        return tuple(found)

    def _at_rest(self, tasks: Mapping[TaskKey, TaskRecord]) -> list[tuple[TaskKey, TaskRecord]]:
        """Tasks that had an open batch or a hint at the last call and have none now."""
        return [(key, self._records[key]) for key in self._open if key not in tasks]

    async def _last(self, task: TaskRecord) -> TaskHistory:
        """All batches that are sent of a task whose last open batch has ended."""
        news = await self._store.history(task.tenant, task.task_id, batches_max=self._batches_max)
        return TaskHistory(task=task, batches=tuple(news))

    async def _news(self, task: TaskRecord, open_now: set[BatchId]) -> TaskHistory | None:
        key = task.tenant, task.task_id
        before = self._open.pop(key, None)
        if before is not None and before <= open_now:
            self._open[key] = frozenset(open_now)
            return None
        ended = len(before - open_now) if before is not None else self._batches_max
        news = await self._store.history(*key, batches_max=min(ended + 1, self._batches_max))
        self._open[key] = frozenset(open_now)
        return TaskHistory(task=task, batches=tuple(news))

    def forget(self) -> None:
        """The last message may not have arrived: send everything again."""
        self._open.clear()
        self._records.clear()

    async def _lenders(self, sent: Sequence[TaskHistory]) -> tuple[TaskHistory, ...]:
        """The last batch of other tasks with the same stages, for tasks without history."""
        poor = [one.task for one in sent if not one.batches]
        if not poor:
            return ()
        others = await self._store.tasks(tasks_max=TASKS_LOOKED_AT_MAX)
        stages = {frozenset(task.stages) for task in poor}
        chosen = [
            task
            for task in others
            if frozenset(task.stages) in stages and (task.tenant, task.task_id) not in self._open
        ]
        found: list[TaskHistory] = []
        for task in chosen:
            batches = await self._store.history(task.tenant, task.task_id, batches_max=1)
            if batches:
                found.append(TaskHistory(task=task, batches=tuple(batches)))
            if len(found) == LENDERS_MAX:
                break
        return tuple(found)
