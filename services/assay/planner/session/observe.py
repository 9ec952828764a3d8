"""From the store's records to what policies see. Pure: values in, values out.

Tolerant by design, because the loop must survive whatever the store holds:

* a past batch that cannot be read is left out and named;
* a request at a stage without a pool is left out (no slot here can serve it);
* counters that were read after the requests are adjusted to them;
* a clock behind the store's gives durations of 0.

Instants count from `Snapshot.origin_ns`, because Unix time in ns is beyond `FAR_NS`. A batch
without requests so far counts as opened no earlier than its history allows, so that pools stay
warm for a trainer that is late.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from math import isfinite
from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.records import BatchHistory, BatchState, HintRecord, InFlight, OpenWork, TaskRecord
from assay.model.arrays import Ints, to_ns
from assay.model.observation import (
    Cause,
    Observation,
    OpenBatch,
    PastBatch,
    PoolView,
    TaskView,
)
from assay.planner.core.demand import SEQUENCE_BITS
from assay.planner.core.thin import rows_of
from assay.planner.session.messages import HINTED, PoolState, Snapshot, StageLimits, TaskKey
from assay.planner.session.past_batches import past_of
from assay.planner.session.plan_view import BatchKey
from assay.planner.session.progress import Progress, StageTimes

NS_PER_MS: Final = 1_000_000
SPAN_NS_MAX: Final = to_ns(30 * 24 * 3600.0)
"""A longer time in a record is treated as an error."""
REQUESTS_MAX: Final = 1 << SEQUENCE_BITS
"""Limit of all open batches together, requests to come included; further batches get the floors."""
PAST_ROWS_MAX: Final = 12_000
"""Rows of a past batch that are remembered; of a larger one, every k-th."""
HINT_SPAN_NS: Final = to_ns(300.0)
"""How long a hint is valid without history; with history, twice the last batch's span."""
DEADLINE_NS: Final = to_ns(600.0)
"""Deadline of a batch that a hint announced, without history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBatch:
    """A finished batch, read once; its columns are the pipeline's stages."""

    batch_id: BatchId
    opened_ns: int
    completed_ns: int
    past: PastBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPast:
    """The history of a task."""

    task: TaskRecord
    batches: tuple[KnownBatch, ...]
    """Newest first; only those with scored requests."""
    unread: tuple[str, ...] = ()
    """Batches that could not be read, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an index of `Observation.tasks` stands for."""

    task: TaskRecord
    batch_id: BatchId
    work: OpenWork | None
    """`None`: announced by a hint, or no batch is open."""
    size: int
    history: tuple[BatchId, ...]

    @property
    def key(self) -> BatchKey:
        """The store's key."""
        return self.task.tenant, self.batch_id


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """An observation, and the names of what it contains."""

    observation: Observation
    subjects: tuple[Subject, ...]
    """By index of `observation.tasks`."""
    stages: tuple[StageLimits, ...]
    """By index of `observation.pools`."""
    origin_ns: int
    """Unix time of the observation's instant 0."""


def read_history(
    task: TaskRecord,
    batches: Sequence[BatchHistory],
    before: Sequence[KnownBatch],
    *,
    batches_max: int,
) -> TaskPast:
    """Put new records of the store (newest first) before what was read earlier."""
    read = {one.batch_id: one for one in before}
    known: list[KnownBatch] = []
    unread: list[str] = []
    for record in batches:
        try:
            batch = read.pop(record.batch_id, None) or read_batch(record, task.stages)
        except InvalidRequest as error:
            unread.append(f"{record.batch_id}: {error.field}: {error.message}")
            continue
        if len(batch.past.arrived_ns):
            known.append(batch)
    known.extend(read.values())
    return TaskPast(task=task, batches=tuple(known[:batches_max]), unread=tuple(unread))


def read_batch(record: BatchHistory, pipeline: Sequence[StageName]) -> KnownBatch:
    """One finished batch.

    Raises:
        InvalidRequest: the record is not valid.
    """
    try:
        past = past_of(record, pipeline, pipeline)
    except (TypeError, ValueError, OverflowError) as error:  # NaN, texts, numbers beyond 64 bits
        raise InvalidRequest(str(error), field="requests") from error
    longest = max(past.arrived_ns.max(initial=0), past.service_ns.max(initial=0))
    if longest > SPAN_NS_MAX:
        raise InvalidRequest(
            f"a time of {longest} ns, at most {SPAN_NS_MAX} are accepted", field="requests"
        )
    past = rows_of(past, -(-len(past.arrived_ns) // PAST_ROWS_MAX))
    return KnownBatch(
        batch_id=record.batch_id,
        opened_ns=record.opened_ns,
        completed_ns=record.completed_ns,
        past=past,
    )


def gaps_of(batches: Sequence[KnownBatch]) -> tuple[int, ...]:
    """Times from the end of a batch to the opening of the next one, newest first. Batches that
    overlap tell nothing about the time between batches."""
    ends = sorted(batches, key=lambda one: one.opened_ns, reverse=True)
    gaps = (later.opened_ns - before.completed_ns for later, before in pairwise(ends))
    return tuple(gap for gap in gaps if 0 < gap <= SPAN_NS_MAX)


def rested_ns(batches: Sequence[KnownBatch], now_ns: int) -> int | None:
    """Since the task's last batch ended; `None` without one."""
    ended_ns = max((one.completed_ns for one in batches), default=None)
    return None if ended_ns is None else max(now_ns - ended_ns, 0)


def in_columns(
    past: PastBatch, pipeline: Sequence[StageName], stages: Sequence[StageName]
) -> PastBatch:
    """The same batch, its columns named by their place among the stages that have a pool.

    A stage that the pipeline no longer has is left out; one that it gained has no work.
    """
    if tuple(pipeline) == tuple(stages):
        return past
    place = {stage: j for j, stage in enumerate(stages)}
    return replace(past, columns=np.array([place.get(one, -1) for one in pipeline], np.int64))


def observation_of(
    snapshot: Snapshot,
    known: Mapping[TaskKey, TaskPast],
    budget_ns: int | None,
    progress: Progress | None = None,
    no_barrier: Sequence[str] = (),
) -> Scene:
    """What a policy sees.

    Args:
        snapshot: the platform at one instant.
        known: histories of the tasks.
        budget_ns: D of tasks that name none; `None` = the policy's default.
        progress: what became of the requests of open batches; `None` = not known.
        no_barrier: patterns of the tasks whose trainers use rewards as they come.
    """
    weights = {work.task.tenant: sane_weight(work.weight) for work in snapshot.work}
    placed = []
    for task, what in tasks_of(snapshot, known):
        past = known.get((task.tenant, task.task_id))
        weight = weights.get(task.tenant, 1.0)
        view = view_with_past(task, what, snapshot, past, budget_ns, weight)
        if view is None:
            continue
        view = replace(view, barrier=has_barrier(task, no_barrier))
        if progress is not None and isinstance(what, OpenWork):
            stages = tuple(limits.stage for limits in snapshot.stages)
            view = with_times(view, progress.stage_times(what, stages))
            view = with_arrivals(view, progress.arrivals_ns(what))
        ids = tuple(one.batch_id for one in past.batches) if past is not None else ()
        placed.append((subject_of(task, what, view, ids), view))
    observation = Observation(
        now_ns=snapshot.now_ns - snapshot.origin_ns,
        cause=Cause.WAKE,
        pools=pool_views(snapshot.stages, snapshot.pools, snapshot.work),
        tasks=tuple(view for _, view in placed),
    )
    subjects = tuple(subject for subject, _ in placed)
    return Scene(
        observation=observation,
        subjects=subjects,
        stages=snapshot.stages,
        origin_ns=snapshot.origin_ns,
    )


def tasks_of(
    snapshot: Snapshot, known: Mapping[TaskKey, TaskPast]
) -> list[tuple[TaskRecord, OpenWork | HintRecord | None]]:
    """Tasks to plan for: those with open work, with a hint, and with a history alone."""
    entries: list[tuple[TaskRecord, OpenWork | HintRecord | None]] = [
        (work.task, work) for work in in_order(snapshot.work)
    ]
    entries += [(task, hint) for hint, task in snapshot.hints]
    seen = {(task.tenant, task.task_id) for task, _ in entries}
    entries += [(past.task, None) for key, past in known.items() if key not in seen]
    return entries


def view_with_past(
    task: TaskRecord,
    what: OpenWork | HintRecord | None,
    snapshot: Snapshot,
    past: TaskPast | None,
    budget_ns: int | None,
    weight: float,
) -> TaskView | None:
    """The task with its history; `None` = it has no stage with a pool."""
    batches = past.batches if past is not None else ()
    past_stages = past.task.stages if past is not None else ()
    stages = tuple(limits.stage for limits in snapshot.stages)
    history = tuple(in_columns(one.past, past_stages, stages) for one in batches)
    view = view_of(task, what, snapshot, history, budget_ns, weight)
    if view is None:
        return None
    return replace(view, gaps_ns=gaps_of(batches), rested_ns=rested_ns(batches, snapshot.now_ns))


def with_times(view: TaskView, found: StageTimes | None) -> TaskView:
    """The view, with the times of its batch's requests."""
    if view.open is None or found is None:
        return view
    batch = replace(view.open, passed_ns=found.passed_ns, reached=found.reached)
    return replace(view, open=batch)


def with_arrivals(view: TaskView, arrivals_ns: Ints) -> TaskView:
    """The view, with the times at which its batch's requests arrived."""
    if view.open is None:
        return view
    return replace(view, open=replace(view.open, arrivals_ns=arrivals_ns))


def has_barrier(task: TaskRecord, no_barrier: Sequence[str]) -> bool:
    """Whether the task's trainer waits for whole batches: no pattern names it."""
    name = f"{task.tenant}/{task.task_id}"
    return not any(fnmatchcase(name, pattern) for pattern in no_barrier)


def sane_weight(weight: float) -> float:
    """The weight; 1 where it is not a positive number."""
    return weight if isfinite(weight) and weight > 0 else 1.0


def view_of(
    task: TaskRecord,
    what: OpenWork | HintRecord | None,
    snapshot: Snapshot,
    history: tuple[PastBatch, ...],
    budget_ns: int | None,
    weight: float = 1.0,
) -> TaskView | None:
    """The task with one batch of it; `None` where none of its stages has a pool."""
    timeout = timeouts(task, snapshot.stages)
    if not timeout.any():
        return None
    batch: OpenBatch | None = None
    if isinstance(what, OpenWork):
        batch = open_batch(what, snapshot, history)
    elif isinstance(what, HintRecord):
        batch = hinted_batch(what, task, snapshot, history)
    budget_ms = task.delay_budget_ms
    return TaskView(
        pool_of=np.arange(len(snapshot.stages)),
        timeout_ns=timeout,
        batch_size=batch.size if batch is not None and batch.size else max(task.batch_size, 0),
        delay_budget_ns=budget_ns if budget_ms is None else budget_ms * NS_PER_MS,
        weight=weight,
        tenant=task.tenant,
        trainer_cost=cost_rate(task),
        history=history,
        open=batch,
    )


def subject_of(
    task: TaskRecord,
    what: OpenWork | HintRecord | None,
    view: TaskView,
    history: tuple[BatchId, ...],
) -> Subject:
    """The names of a view."""
    work = what if isinstance(what, OpenWork) else None
    return Subject(
        task=task,
        batch_id=work.batch.batch_id if work is not None else HINTED,
        work=work,
        size=view.open.size if view.open is not None else 0,
        history=history,
    )


def in_order(work: Iterable[OpenWork]) -> list[OpenWork]:
    """As many as can be planned, by opening: a batch keeps its place while others arrive."""
    taken: list[OpenWork] = []
    requests = 0
    for one in sorted(work, key=lambda w: (w.order_deadline_ns, w.batch.tenant, w.batch.batch_id)):
        requests += max(len(one.requests), one.batch.size, one.task.batch_size)
        if requests < REQUESTS_MAX:
            taken.append(one)
    return sorted(taken, key=lambda w: (w.batch.opened_ns, w.batch.tenant, w.batch.batch_id))


def timeouts(task: TaskRecord, stages: Sequence[StageLimits]) -> Ints:
    """(stages,): 0 = not in the task's pipeline."""
    return np.array(
        [max(limits.timeout_ns, 1) if limits.stage in task.stages else 0 for limits in stages],
        np.int64,
    )


def cost_rate(task: TaskRecord) -> float:
    """Cost of a second of its trainer; 0 where it is not a positive number."""
    rate = task.trainer_cost_rate
    return rate if isfinite(rate) and rate > 0 else 0.0


def number_of(tenant: TenantId, task_id: TaskId, number: int) -> int:
    """A number specific to the batch, so that each plan of it draws the same random numbers."""
    return zlib.crc32(f"{tenant}/{task_id}/{number}".encode())


def open_batch(work: OpenWork, snapshot: Snapshot, history: Sequence[PastBatch]) -> OpenBatch:
    """What the plan needs of an open batch: who has arrived, who runs since when, who has ended."""
    batch, now_ns, requests = work.batch, snapshot.now_ns, work.requests
    arrived = min(batch.submitted, batch.ended + len(requests))
    arrived = max(arrived, len(requests))
    column = {limits.stage: j for j, limits in enumerate(snapshot.stages)}
    stage = np.array([column.get(one.stage, -1) for one in requests], np.int64)
    here = np.flatnonzero(stage >= 0)
    claimed = np.array([one.claimed_ns for one in requests], np.int64)[here]
    elapsed = np.where(claimed != 0, np.maximum(now_ns - claimed, 0), -1)
    before = before_ns(requests)[here]
    return OpenBatch(
        number=number_of(batch.tenant, batch.task_id, work.number),
        opened_ns=opened_ns(batch.opened_ns, now_ns, arrived, history) - snapshot.origin_ns,
        deadline_ns=work.order_deadline_ns - snapshot.origin_ns,
        size=expected_size(work, arrived),
        arrived=arrived,
        ended_natural_ns=work.ended_natural_ns,
        stage=stage[here],
        elapsed_ns=elapsed,
        natural_ns=before + np.maximum(elapsed, 0),
        sequence=arrived - len(requests) + here,
    )


def expected_size(work: OpenWork, arrived: int) -> int:
    """Requests that the batch will have when it is complete; 0 = not known."""
    if work.batch.state is not BatchState.OPEN:
        return arrived
    announced = work.batch.size or work.task.batch_size
    return max(announced, arrived) if announced > 0 else 0


def before_ns(requests: Sequence[InFlight]) -> Ints:
    """(n,) arrivals, after the opening, plus the times at the stages that each has passed."""
    arrived = np.fromiter((one.arrived_after_ns for one in requests), np.int64)
    lengths = np.fromiter((len(one.service_ns) for one in requests), np.int64)
    times = np.fromiter((took for one in requests for took in one.service_ns), np.int64)
    total = np.concatenate([[0], np.cumsum(np.maximum(times, 0))])
    ends = np.cumsum(lengths)
    spent: Ints = total[ends] - total[ends - lengths]
    return np.maximum(arrived, 0) + spent


def opened_ns(opened_ns: int, now_ns: int, arrived: int, history: Sequence[PastBatch]) -> int:
    """When the batch opened; later if its first request is late compared with the history."""
    if arrived:
        return opened_ns
    first_ns = int(history[0].arrived_ns[0]) if history and len(history[0].arrived_ns) else 0
    return max(opened_ns, now_ns - first_ns)


def hinted_batch(
    hint: HintRecord, task: TaskRecord, snapshot: Snapshot, history: Sequence[PastBatch]
) -> OpenBatch | None:
    """The batch that a hint announced; `None` when the hint is too old."""
    now_ns = snapshot.now_ns
    span_ns = history[0].natural_ns if history else 0
    if now_ns - hint.hinted_ns > max(2 * span_ns, HINT_SPAN_NS):
        return None
    none = np.zeros(0, np.int64)
    return OpenBatch(
        number=number_of(hint.tenant, hint.task_id, -1),
        opened_ns=opened_ns(hint.hinted_ns, now_ns, 0, history) - snapshot.origin_ns,
        deadline_ns=hint.hinted_ns + (span_ns or DEADLINE_NS) - snapshot.origin_ns,
        size=max(hint.size or task.batch_size, 0),
        arrived=0,
        ended_natural_ns=0,
        stage=none,
        elapsed_ns=none,
        natural_ns=none,
        sequence=none,
    )


def pool_views(
    stages: Sequence[StageLimits], pools: Sequence[PoolState], work: Sequence[OpenWork]
) -> tuple[PoolView, ...]:
    """Pools in the order of the stages."""
    by_stage = {pool.stage: pool for pool in pools}
    waiting = Counter(
        request.stage for one in work for request in one.requests if not request.claimed_ns
    )
    views = []
    for j, limits in enumerate(stages):
        pool = by_stage.get(limits.stage)
        ready, busy, desired = (pool.ready, pool.busy, pool.desired) if pool else (0, 0, 0)
        views.append(
            PoolView(
                stage=j,
                target=desired,
                idle=max(ready - busy, 0),
                running=busy,
                starting=max(desired - ready, 0),
                waiting=waiting[limits.stage],
                cap=max(limits.slots_max, 0),
                cost=limits.cost,
                startup_ns=limits.startup_ns,
                batch_max=limits.batch_max,
            )
        )
    return tuple(views)
