"""Possible futures of the open batches, drawn from the last batches of each task.

A future picks one past batch per task (newer ones more often) and fills in what is unknown by
drawing *whole* past requests, so that the durations of one request at different stages stay
together. What is known is kept: how much of the batch has arrived, where each request is, how long
it has run. A running request gets the rest of a past one that ran longer (its survival
distribution), so long requests are foreseen without treating every request as long. Past batches
are first brought to the pace and the transitions that the open batch itself shows (`learn.py`).

Each request uses the same random number in every plan of a batch (common random numbers): two plans
differ by what was learned in between, not by chance.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from assay.config.planning import PriorSettings
from assay.model.arrays import SECOND_NS, Floats, Ints, to_ns
from assay.model.jit import jit
from assay.model.observation import OpenBatch, PastBatch, TaskView, past_batch
from assay.model.queueing import Demand, by_stage
from assay.planner.core.demand import SEQUENCE_BITS, Future, Own, ranks, shares_of
from assay.planner.core.learn import adapted

RECENCY: Final = 0.6
"""Weight of a past batch relative to the next newer one."""
WARP_TRUST_SHARE: Final = 0.3
"""Share of the batch that must have arrived before its pace is fully trusted."""
WARP_MIN: Final = 0.5
WARP_MAX: Final = 2.0
CHANCE: Final = 2.0
"""A number of arrivals within this many standard deviations says nothing about the pace."""
PRIOR_ROWS: Final = 512
REUSED: Final = 997.0
"""A second random number from a first one: its digits behind this factor."""
NEAR_SHARE: Final = 0.5
"""Past requests whose rank by arrival differs by at most this share of the batch arrived alike."""
STRAGGLERS_NS: Final = to_ns(10.0)
"""Requests beyond all that history knows arrive within this time."""


def prior_batch(task: TaskView, prior: PriorSettings) -> PastBatch:
    """A past batch made up from the batch's size and the timeouts alone; the same every time."""
    rows = min(max(task.batch_size, 1), PRIOR_ROWS)
    random = np.random.default_rng(20260101)
    timeout = task.timeout_ns.astype(np.float64)
    spread = np.exp(prior.sigma * random.normal(size=(rows, len(timeout))))
    service = np.minimum(timeout * prior.median_share * spread, timeout)
    arrived = np.linspace(0, prior.span_s * SECOND_NS, rows)
    return past_batch(np.rint(arrived).astype(np.int64), np.rint(service).astype(np.int64))


def known_past(
    task: TaskView, others: Sequence[TaskView], prior: PriorSettings
) -> tuple[PastBatch, ...]:
    """The task's own history; else that of tasks with the same stages; else the prior."""
    own = tuple(batch for batch in task.history if len(batch.arrived_ns))
    if own:
        return own
    pooled = tuple(
        other.history[0]
        for other in others
        if other.history
        and len(other.history[0].arrived_ns)
        and np.array_equal(other.timeout_ns > 0, task.timeout_ns > 0)
    )
    return pooled or (prior_batch(task, prior),)


def recency_edges(count: int) -> Floats:
    """(count,): up to which share in [0, 1) of the recency-weighted history each of so many past
    batches, newest first, reaches."""
    weights = RECENCY ** np.arange(count, dtype=np.float64)
    edges: Floats = np.cumsum(weights) / weights.sum()
    return edges


class Source(NamedTuple):
    """An open batch, and what its futures are drawn from."""

    task: TaskView
    batch: OpenBatch
    past: tuple[PastBatch, ...]
    """Newest first, at the pace of the open batch."""
    edges: Floats
    """(past batches,): `recency_edges`."""
    luck: Floats
    """(futures, requests + 1): a number in [0, 1) per request, and one that chooses the past."""
    rank: int
    """Among the open batches."""
    size: int
    """Requests of the whole batch."""

    @property
    def open_requests(self) -> int:
        """Those in it and those to come."""
        return len(self.batch.stage) + max(self.size - self.batch.arrived, 0)


def draw_futures(
    now_ns: int,
    active: Sequence[tuple[TaskView, OpenBatch]],
    everyone: Sequence[TaskView],
    *,
    count: int,
    seed: int,
    prior: PriorSettings,
) -> list[Future]:
    """`count` futures of all open batches together."""
    rank = ranks([batch for _, batch in active])
    sources = []
    for (task, batch), mine in zip(active, rank, strict=True):
        past = tuple(
            adapted(one, batch, task.timeout_ns) for one in known_past(task, everyone, prior)
        )
        size = batch.size or max(batch.arrived, len(past[0].arrived_ns))
        random = np.random.default_rng([seed, batch.number, size])
        luck = random.random((count, max(size, batch.arrived) + 1))
        edges = recency_edges(len(past))
        sources.append(Source(task, batch, past, edges, luck, int(mine), size))
    shares = shares_of([task for task, _ in active])
    return [draw_future(now_ns, k, count, sources, shares) for k in range(count)]


def draw_future(
    now_ns: int, k: int, count: int, sources: Sequence[Source], shares: tuple[Ints, Floats]
) -> Future:
    """The k-th future; `shares` are the batches' tenants and the tenants' weights."""
    sizes = [source.open_requests for source in sources]
    batch_of = np.repeat(np.arange(len(sources)), sizes)
    tenant, weight = shares
    demand = Demand(
        release_ns=np.empty(len(batch_of), np.int64),
        service_ns=np.zeros((len(batch_of), len(sources[0].task.timeout_ns)), np.int64),
        key=np.empty(len(batch_of), np.int64),
        running=np.full(len(batch_of), -1, np.int64),
        tenant=tenant[batch_of] if len(tenant) else tenant,
        weight=weight,
    )
    natural = np.empty(len(sources), np.int64)
    earliest = np.empty(len(sources), np.int64)
    at = 0
    for b, source in enumerate(sources):
        rows = slice(at, at + sizes[b])
        at += sizes[b]
        natural[b], earliest[b] = draw_batch(now_ns, k, count, source, demand, rows)
    own = None
    if any(not source.task.barrier for source in sources):
        own = own_ends(sources, sizes, demand.release_ns, demand.service_ns.sum(axis=1))
    return Future(
        demand=by_stage(demand),
        batch_of=batch_of,
        natural_ns=natural,
        earliest_ns=earliest,
        own=own,
    )


def draw_batch(
    now_ns: int, k: int, count: int, source: Source, demand: Demand, rows: slice
) -> tuple[int, int]:
    """Draw one batch of the k-th future into its rows of `demand`.

    Returns:
        The end of the batch without any waiting, from its opening and from now on.
    """
    task, batch, past = source.task, source.batch, drawn_past(source, k, count)
    natural_ns, earliest_ns = fill(
        now_ns,
        batch_numbers(batch),
        batch.arrivals_ns,
        (batch.stage, batch.elapsed_ns, batch.natural_ns, batch.sequence),
        (past.arrived_ns, past.service_ns, past.by_service, task.timeout_ns),
        source.luck[k],
        (demand.release_ns[rows], demand.service_ns[rows], demand.key[rows], demand.running[rows]),
    )
    demand.key[rows] |= source.rank << SEQUENCE_BITS
    return natural_ns, earliest_ns


def drawn_past(source: Source, k: int, count: int) -> PastBatch:
    """The past batch of the k-th future; `count` futures spread evenly over the history."""
    nth = int(np.searchsorted(source.edges, (source.luck[k, -1] + k) / count, side="right"))
    return source.past[min(nth, len(source.past) - 1)]


def own_ends(
    sources: Sequence[Source],
    sizes: Sequence[int],
    release_ns: Ints,
    left_ns: Ints,
) -> Own:
    """Ends of single requests; of each batch first those that have arrived, then those to come."""
    natural, at = release_ns + left_ns, 0
    for source, size in zip(sources, sizes, strict=True):
        batch = source.batch
        there = slice(at, at + len(batch.stage))
        natural[there] = batch.opened_ns + batch.natural_ns + left_ns[there]
        at += size
    return Own(
        alone=np.repeat([not source.task.barrier for source in sources], sizes),
        natural_ns=natural,
        earliest_ns=release_ns + left_ns,
    )


def batch_numbers(batch: OpenBatch) -> tuple[int, int, int, int]:
    """What the loop needs of a batch besides its arrays."""
    return batch.opened_ns, batch.size, batch.arrived, batch.ended_natural_ns


@jit
def fitted(arrivals_ns: Ints, past_arrived: Ints, share: float) -> float:
    """Ratio of arrivals to those of the same rank in a past batch, of which `share` have arrived:
    the median of the later half, since a few ranks are a burst apart and the first ones say little
    about what comes; 1 where there are none."""
    count = len(arrivals_ns)
    if count == 0:
        return 1.0
    ratios = np.empty(count, np.float64)
    for i in range(count):
        rank = int((i + 0.5) * share * len(past_arrived) / count)
        then = max(past_arrived[min(rank, len(past_arrived) - 1)], 1)
        ratios[i] = max(arrivals_ns[i], 1) / then
    return float(np.median(ratios[count // 2 :]))


@jit
def chance(share: float, total: int, rows: int) -> int:
    """By how many of `rows` ranks a batch of `total` requests may be ahead of a past one or behind
    it by chance: where requests come in bursts, a few more or fewer are a burst apart."""
    return int(CHANCE * np.sqrt(total * share * (1 - share)) * rows / total)


@jit
def pace(
    seen_ns: int, last_ns: int, next_ns: int, arrived: int, size: int, guess: float = 1.0
) -> float:
    """Ratio of the batch's arrival times to those of the past batch: 1 = equally fast.

    By now as many have arrived as in the past batch between `last_ns` and `next_ns`: of the ratios
    that this allows, the one next to `guess`. In a lull nothing says that the batch is slow.
    """
    if last_ns <= 0 or size == 0:
        return 1.0
    seen = max(min(guess, seen_ns / last_ns), seen_ns / max(next_ns, last_ns))
    seen = min(max(seen, WARP_MIN), WARP_MAX)
    trust = min(1.0, arrived / (WARP_TRUST_SHARE * size))
    return 1.0 + trust * (seen - 1.0)


@jit
def first_longer(rows: Ints, service_ns: Ints, stage: int, elapsed_ns: int) -> int:
    """The first of `rows` (ascending by time at the stage) that took longer than `elapsed_ns`."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if service_ns[rows[middle], stage] > elapsed_ns:
            high = middle
        else:
            low = middle + 1
    return low


Batch = tuple[int, int, int, int]
"""Opening, size, arrived so far, latest natural end so far: `batch_numbers`."""
Present = tuple[Ints, Ints, Ints, Ints]
"""Of the requests that have arrived: stage, elapsed, natural time so far, sequence."""
Past = tuple[Ints, Ints, Ints, Ints]
"""Of the past batch: arrivals, service times, rows by service time; and the stages' timeouts."""
Out = tuple[Ints, Ints, Ints, Ints]
"""Output: of the future, release, service times, key, stage at which it runs."""


@jit
def outlive(service: Ints, past: Past, stage: int, elapsed: int, luck: float) -> None:
    """Write the rest of a request that has run longer than all of history.

    Each doubling of its time leaves half of such requests, up to the timeout; one that ends before
    it goes on like a past request that passed the stage.
    """
    _, past_service, by_service, timeout_ns = past
    rows = past_service.shape[0]
    limit = max(timeout_ns[stage] - elapsed, 1)
    rest = int(elapsed * (1.0 / max(1.0 - luck, 1e-9) - 1.0))
    service[stage] = min(max(rest, 1), limit)
    first = first_longer(by_service[stage], past_service, stage, 0)
    if rest < limit and first < rows:
        pick = by_service[stage][first + int((luck * REUSED) % 1.0 * (rows - first))]
        for j in range(stage + 1, past_service.shape[1]):
            service[j] = past_service[pick, j]


@jit
def fill_present(
    now_ns: int, present: Present, past: Past, luck: Floats, out: Out, natural_ns: int
) -> tuple[int, int]:
    """Write the requests that have arrived: each gets the rest of a past one that ran longer.

    Returns:
        Natural end after the opening, and the earliest end possible from now on.
    """
    stage_now, elapsed_ns, natural_so_far, sequence = present
    _, past_service, by_service, _ = past
    release, service, key, running = out
    rows, stages = past_service.shape
    earliest_ns = now_ns
    for i in range(len(stage_now)):
        stage = stage_now[i]
        elapsed = max(elapsed_ns[i], 0)
        first = first_longer(by_service[stage], past_service, stage, elapsed)
        if first < rows:
            pick = by_service[stage][first + int(luck[sequence[i]] * (rows - first))]
            for j in range(stage, stages):
                service[i, j] = past_service[pick, j]
            service[i, stage] -= elapsed
        else:
            outlive(service[i], past, stage, elapsed, luck[sequence[i]])
        left = 0
        for j in range(stage, stages):
            left += service[i, j]
        release[i] = now_ns
        key[i] = sequence[i]
        running[i] = stage if elapsed_ns[i] >= 0 else -1
        natural_ns = max(natural_ns, natural_so_far[i] + left)
        earliest_ns = max(earliest_ns, now_ns + left)
    return natural_ns, earliest_ns


@jit
def draw_rows(first: int, rows: int, luck: Floats, arrived: int, coming: int) -> Ints:
    """(rows,): how often each past request from `first` on represents one that is still to come."""
    tally = np.zeros(rows, np.int64)
    for i in range(coming):
        tally[first + int(luck[arrived + i] * (rows - first))] += 1
    return tally


@jit
def like(row: int, rows: int, luck: float) -> int:
    """The past request whose durations one gets that arrives like `row`.

    One of those that arrived about then: the few that ran until a timeout could have been others.
    """
    reach = int(rows * NEAR_SHARE)
    first, last = max(row - reach, 0), min(row + reach, rows - 1)
    return first + int((luck * REUSED) % 1.0 * (last - first + 1))


@jit
def pace_of(
    open_ns: int, batch: Batch, arrivals_ns: Ints, past_arrived: Ints, coming: int
) -> tuple[int, float]:
    """How the batch arrives compared with past ones.

    Returns:
        The first past request that stands for one to come, and by how much it comes later.
    """
    _, size, arrived, _ = batch
    rows = len(past_arrived)
    total = max(arrived + coming, 1)
    position = min(int(round(arrived * rows / total)), rows)  # noqa: RUF046 - a float under numba
    slack = chance(arrived / total, total, rows) if len(arrivals_ns) else 0
    last_ns = past_arrived[max(position - 1 - slack, 0)] if position > 0 else 0
    next_ns = past_arrived[min(position + slack, rows - 1)]
    guess = fitted(arrivals_ns, past_arrived, arrived / total)
    return position, pace(open_ns, last_ns, next_ns, arrived, size, guess)


@jit
def not_yet(position: int, past_arrived: Ints, factor: float, open_ns: int) -> int:
    """The first past request from `position` on that arrives later than now, at this pace.

    A batch can be behind by chance. What should have arrived does not come all at once: given how
    many have arrived, the others are spread like the rest of the curve. A burst that only the
    forecast knows would be planned for at every moment.
    """
    while position < len(past_arrived) and past_arrived[position] * factor <= open_ns:
        position += 1
    return position


@jit
def fill_coming(
    now_ns: int,
    batch: Batch,
    arrivals_ns: Ints,
    there: int,
    past: Past,
    luck: Floats,
    out: Out,
    natural_ns: int,
    earliest_ns: int,
) -> tuple[int, int]:
    """Write the requests to come, by arrival: whole past requests, at the batch's own pace.

    Returns:
        As `fill_present`.
    """
    opened_ns, _, arrived, _ = batch
    past_arrived, past_service, _, _ = past
    release, service, key, _ = out
    rows, stages = past_service.shape
    coming = len(release) - there
    open_ns = now_ns - opened_ns
    position, factor = pace_of(open_ns, batch, arrivals_ns, past_arrived, coming)
    late_ns = 0
    if arrived:
        position = not_yet(position, past_arrived, factor, open_ns)
    else:  # it has not begun
        late_ns = max(open_ns - past_arrived[0], 0)
    first = min(position, rows - 1)
    tally = draw_rows(first, rows, luck, arrived, coming)
    i = there
    for row in range(first, rows):
        for _ in range(tally[row]):
            after = int(past_arrived[row] * factor) + late_ns
            if position == rows:
                after = open_ns + (i - there + 1) * STRAGGLERS_NS // coming
            near = like(row, rows, luck[arrived + i - there])
            left = 0
            for j in range(stages):
                service[i, j] = past_service[near, j]
                left += past_service[near, j]
            release[i] = max(opened_ns + after, now_ns)
            key[i] = arrived + i - there
            natural_ns = max(natural_ns, after + left)
            earliest_ns = max(earliest_ns, release[i] + left)
            i += 1
    return natural_ns, earliest_ns


@jit
def fill(
    now_ns: int,
    batch: Batch,
    arrivals_ns: Ints,
    present: Present,
    past: Past,
    luck: Floats,
    out: Out,
) -> tuple[int, int]:
    """Write one future of one batch: first the requests that have arrived, then those to come.

    Returns:
        T as an instant, and the earliest end possible from now on.
    """
    natural_ns, earliest_ns = fill_present(now_ns, present, past, luck, out, batch[3])
    there = len(present[0])
    natural_ns, earliest_ns = fill_coming(
        now_ns, batch, arrivals_ns, there, past, luck, out, natural_ns, earliest_ns
    )
    return batch[0] + natural_ns, earliest_ns
