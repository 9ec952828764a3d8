"""From the store's records to what policies see. Pure: values in, values out.

Tolerant by design, for the loop must outlive whatever the store holds: a past batch that cannot be
read is left out and named, a request at a stage without a pool is left out (nobody here can serve
it), counters that were read an instant after the requests are brought to agree with them, a clock
behind the store's gives durations of 0. Instants count from `Look.origin_ns`, for the simulations'
`FAR_NS` is nearer than 1970 is far. A batch of which nothing has come yet counts as opened no
earlier than fits the history, so that pools stay warm for a trainer that is late.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    past_batch,
)
from assay.planner.core.demand import SEQUENCE_BITS
from assay.planner.session.messages import HINTED, Look, PoolFacts, StageFacts, TaskKey
from assay.planner.session.past_batches import past_of
from assay.planner.session.plan_view import BatchKey

NS_PER_MS: Final = 1_000_000
SPAN_NS_MAX: Final = to_ns(30 * 24 * 3600.0)
"""A time in a record above this is nonsense."""
REQUESTS_MAX: Final = 1 << SEQUENCE_BITS
"""Of all open batches together, present and to come; batches beyond are left to the floors."""
HINT_SPAN_NS: Final = to_ns(300.0)
"""How long a hint stands without history; with it, twice the last batch's span."""
DEADLINE_NS: Final = to_ns(600.0)
"""Of a batch that a hint announced, without history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBatch:
    """A finished batch, read once; its columns are the pipeline's stages."""

    batch_id: BatchId
    opened_ns: int
    past: PastBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPast:
    """What is known of a task."""

    task: TaskRecord
    batches: tuple[KnownBatch, ...]
    """Newest first; those with requests that were judged."""
    unread: tuple[str, ...] = ()
    """Why others could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who stands at an index of `Observation.tasks`."""

    task: TaskRecord
    batch_id: BatchId
    work: OpenWork | None
    """`None`: announced by a hint, or nothing is open."""
    size: int
    history: tuple[BatchId, ...]

    @property
    def key(self) -> BatchKey:
        """As the store names it."""
        return self.task.tenant, self.batch_id


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scene:
    """An observation, and the names of what stands in it."""

    observation: Observation
    subjects: tuple[Subject, ...]
    """By index of `observation.tasks`."""
    stages: tuple[StageFacts, ...]
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
    """Put what the store has newly told (newest first) before what was read before."""
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
        InvalidRequest: it is not what the store should keep.
    """
    try:
        past = past_of(record, pipeline, pipeline)
    except (TypeError, ValueError, OverflowError) as error:  # NaN, texts, numbers beyond 64 bits
        raise InvalidRequest(str(error), field="requests") from error
    longest = max(past.arrived_ns.max(initial=0), past.service_ns.max(initial=0))
    if longest > SPAN_NS_MAX:
        raise InvalidRequest(f"a time of {longest} ns", field="requests")
    return KnownBatch(batch_id=record.batch_id, opened_ns=record.opened_ns, past=past)


def in_columns(
    past: PastBatch, pipeline: Sequence[StageName], stages: Sequence[StageName]
) -> PastBatch:
    """The same batch with a column for each stage that has a pool. One that the pipeline lost is
    left out, one that it gained has no work."""
    if tuple(pipeline) == tuple(stages):
        return past
    service = np.zeros((len(past.arrived_ns), len(stages)), np.int64)
    for j, stage in enumerate(stages):
        if stage in pipeline:
            service[:, j] = past.service_ns[:, pipeline.index(stage)]
    return past_batch(past.arrived_ns, service)


Columns = dict[tuple[TaskKey, BatchId], PastBatch]
"""Past batches `in_columns` of the present stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What the operator says of tasks that do not say it themselves."""

    delay_budget_ns: int | None = None
    """D; `None` = the policy's own default."""


def observation_of(
    look: Look,
    known: Mapping[TaskKey, TaskPast],
    columns: Columns,
    assumed: Assumed,
) -> Scene:
    """What a policy sees.

    Args:
        look: one look at the platform.
        known: what was read of the tasks' histories.
        columns: the same batches in the columns of `look.stages`.
        assumed: what tasks do not say.
    """
    entries: list[tuple[TaskRecord, OpenWork | HintRecord | None]] = [
        (work.task, work) for work in in_order(look.work)
    ]
    entries += [(task, hint) for hint, task in look.hints]
    weights = {work.task.tenant: sane_weight(work.weight) for work in look.work}
    seen = {(task.tenant, task.task_id) for task, _ in entries}
    entries += [(past.task, None) for key, past in known.items() if key not in seen]
    placed = []
    for task, what in entries:
        past = known.get((task.tenant, task.task_id))
        batches = past.batches if past is not None else ()
        key = task.tenant, task.task_id
        history = tuple(columns[key, one.batch_id] for one in batches)
        view = view_of(task, what, look, history, assumed, weights.get(task.tenant, 1.0))
        if view is not None:
            ids = tuple(one.batch_id for one in batches)
            placed.append((subject_of(task, what, view, ids), view))
    observation = Observation(
        now_ns=look.now_ns - look.origin_ns,
        cause=Cause.WAKE,
        pools=pool_views(look.stages, look.pools, look.work),
        tasks=tuple(view for _, view in placed),
    )
    subjects = tuple(subject for subject, _ in placed)
    return Scene(
        observation=observation, subjects=subjects, stages=look.stages, origin_ns=look.origin_ns
    )


def sane_weight(weight: float) -> float:
    """Nonsense counts as 1."""
    return weight if isfinite(weight) and weight > 0 else 1.0


def view_of(
    task: TaskRecord,
    what: OpenWork | HintRecord | None,
    look: Look,
    history: tuple[PastBatch, ...],
    assumed: Assumed,
    weight: float = 1.0,
) -> TaskView | None:
    """The task with one batch of it; `None` where none of its stages has a pool."""
    timeout = timeouts(task, look.stages)
    if not timeout.any():
        return None
    batch: OpenBatch | None = None
    if isinstance(what, OpenWork):
        batch = open_batch(what, look, history)
    elif isinstance(what, HintRecord):
        batch = hinted_batch(what, task, look, history)
    budget_ms = task.delay_budget_ms
    return TaskView(
        pool_of=np.arange(len(look.stages)),
        timeout_ns=timeout,
        batch_size=batch.size if batch is not None and batch.size else max(task.batch_size, 0),
        delay_budget_ns=assumed.delay_budget_ns if budget_ms is None else budget_ms * NS_PER_MS,
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
    """The names to a view."""
    work = what if isinstance(what, OpenWork) else None
    return Subject(
        task=task,
        batch_id=work.batch.batch_id if work is not None else HINTED,
        work=work,
        size=view.open.size if view.open is not None else 0,
        history=history,
    )


def in_order(work: Iterable[OpenWork]) -> list[OpenWork]:
    """By opening, so that a batch keeps its place while others come; as many as can be planned."""
    taken: list[OpenWork] = []
    requests = 0
    for one in sorted(work, key=lambda w: (w.order_deadline_ns, w.batch.tenant, w.batch.batch_id)):
        requests += max(len(one.requests), one.batch.size, one.task.batch_size)
        if requests < REQUESTS_MAX:
            taken.append(one)
    return sorted(taken, key=lambda w: (w.batch.opened_ns, w.batch.tenant, w.batch.batch_id))


def timeouts(task: TaskRecord, stages: Sequence[StageFacts]) -> Ints:
    """(stages,): 0 = not in the task's pipeline."""
    return np.array(
        [max(facts.timeout_ns, 1) if facts.stage in task.stages else 0 for facts in stages],
        np.int64,
    )


def cost_rate(task: TaskRecord) -> float:
    """Of a second of its trainer; nonsense counts as nothing."""
    rate = task.trainer_cost_rate
    return rate if isfinite(rate) and rate > 0 else 0.0


def number_of(tenant: TenantId, task_id: TaskId, number: int) -> int:
    """A number that stays the batch's own, so that each plan of it draws the same chances."""
    return zlib.crc32(f"{tenant}/{task_id}/{number}".encode())


def open_batch(work: OpenWork, look: Look, history: Sequence[PastBatch]) -> OpenBatch:
    """A batch under way."""
    batch, now_ns = work.batch, look.now_ns
    arrived = min(batch.submitted, batch.ended + len(work.requests))
    column = {facts.stage: j for j, facts in enumerate(look.stages)}
    present = [
        (index, column[request.stage], request)
        for index, request in enumerate(work.requests)
        if request.stage in column
    ]
    arrived = max(arrived, len(work.requests))
    elapsed = np.array([elapsed_ns(request, now_ns) for _, _, request in present], np.int64)
    before = np.array([before_ns(request) for _, _, request in present], np.int64)
    first = arrived - len(work.requests)
    return OpenBatch(
        number=number_of(batch.tenant, batch.task_id, work.number),
        opened_ns=opened_ns(batch.opened_ns, now_ns, arrived, history) - look.origin_ns,
        deadline_ns=work.order_deadline_ns - look.origin_ns,
        size=expected_size(work, arrived),
        arrived=arrived,
        ended_natural_ns=work.ended_natural_ns,
        stage=np.array([stage for _, stage, _ in present], np.int64),
        elapsed_ns=elapsed,
        natural_ns=before + np.maximum(elapsed, 0),
        sequence=np.array([first + index for index, _, _ in present], np.int64),
    )


def expected_size(work: OpenWork, arrived: int) -> int:
    """Requests that the batch will have had; 0 = not known."""
    if work.batch.state is not BatchState.OPEN:
        return arrived
    said = work.batch.size or work.task.batch_size
    return max(said, arrived) if said > 0 else 0


def elapsed_ns(request: InFlight, now_ns: int) -> int:
    """At its present stage; -1 = queued."""
    return max(now_ns - request.claimed_ns, 0) if request.claimed_ns else -1


def before_ns(request: InFlight) -> int:
    """Arrival plus the stages behind it."""
    return max(request.arrived_after_ns, 0) + sum(max(took, 0) for took in request.service_ns)


def opened_ns(opened_ns: int, now_ns: int, arrived: int, history: Sequence[PastBatch]) -> int:
    """Of a batch of which nothing has come, so much later as it is late."""
    if arrived:
        return opened_ns
    first_ns = int(history[0].arrived_ns[0]) if history and len(history[0].arrived_ns) else 0
    return max(opened_ns, now_ns - first_ns)


def hinted_batch(
    hint: HintRecord, task: TaskRecord, look: Look, history: Sequence[PastBatch]
) -> OpenBatch | None:
    """The batch that a hint announced; `None` when it has waited for too long."""
    now_ns = look.now_ns
    span_ns = history[0].natural_ns if history else 0
    if now_ns - hint.hinted_ns > max(2 * span_ns, HINT_SPAN_NS):
        return None
    none = np.zeros(0, np.int64)
    return OpenBatch(
        number=number_of(hint.tenant, hint.task_id, -1),
        opened_ns=opened_ns(hint.hinted_ns, now_ns, 0, history) - look.origin_ns,
        deadline_ns=hint.hinted_ns + (span_ns or DEADLINE_NS) - look.origin_ns,
        size=max(hint.size or task.batch_size, 0),
        arrived=0,
        ended_natural_ns=0,
        stage=none,
        elapsed_ns=none,
        natural_ns=none,
        sequence=none,
    )


def pool_views(
    stages: Sequence[StageFacts], pools: Sequence[PoolFacts], work: Sequence[OpenWork]
) -> tuple[PoolView, ...]:
    """Pools in the stages' order."""
    by_stage = {pool.stage: pool for pool in pools}
    waiting = Counter(
        request.stage for one in work for request in one.requests if not request.claimed_ns
    )
    views = []
    for j, facts in enumerate(stages):
        pool = by_stage.get(facts.stage)
        ready, busy, desired = (pool.ready, pool.busy, pool.desired) if pool else (0, 0, 0)
        views.append(
            PoolView(
                stage=j,
                target=desired,
                idle=max(ready - busy, 0),
                running=busy,
                starting=max(desired - ready, 0),
                waiting=waiting[facts.stage],
                cap=max(facts.slots_max, 0),
                cost=facts.cost,
                startup_ns=facts.startup_ns,
            )
        )
    return tuple(views)
