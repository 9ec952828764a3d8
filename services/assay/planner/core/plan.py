"""The plan: how many workers each stage needs over the rest of the open batches.

`make_plan` is a pure function of an observation. It draws futures (`futures.py`) and asks of a
choice of workers: in which share of them is every batch's extra delay d within its budget D?

1. Peaks: for each stage, dearest first, the fewest workers `peak` that keep P(d <= D) >= 1 - eps,
   given what is up now and a start-up delay before anything ordered now can help.
2. Shape: simulated under these peaks, how many workers are busy when. `N_j(t)` is a quantile over
   the futures of the busiest moment in each bin of time.
3. Now: a worker that is needed within the start-up delay must be ordered now; one that will be
   idle for less than it takes to start another is kept.

Stages and pools are the same thing here (pools are shared).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import FAR_NS, Floats, Ints, to_ns
from assay.model.observation import Observation, OpenBatch, PoolView, TaskView
from assay.model.queueing import (
    Limits,
    Scratch,
    Supply,
    make_scratch,
    release_all,
    serve,
    serve_all,
)
from assay.planner.core.demand import SEQUENCE_BITS, Future, budget_ns, open_tasks, ranks
from assay.planner.core.futures import Prior, draw_futures

REORDERED_MAX: Final = 6
"""Batches that are tried at other places when the caps bind."""
ORDER_GAIN_MIN: Final = 0.02
"""By this share another order must be better, lest orders flap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """How to plan."""

    futures: int = 20
    epsilon: float = 0.05
    """Share of batches that may miss their budget."""
    repeat_share: float = 0.4
    """Of epsilon that one plan may use up: re-planning repeats the gamble."""
    shape_quantile: float = 0.7
    """Of the busiest moment over the futures."""
    spare_workers: int = 5
    """Up to this many, workers are there if any future needs them: few enough to be cheap, and what
    the last requests of a batch wait for otherwise."""
    bin_s: float = 5.0
    bins_max: int = 256
    shape_futures: int = 10
    """Futures that are enough to look at the shape again under known peaks."""
    tick_s: float = 5.0
    """The plan is compared with what happens, and followed, this often."""
    replan_s: float = 15.0
    """A plan is made anew after this time at the latest, with known peaks ..."""
    search_s: float = 60.0
    """... and its peaks are searched for anew after this time, or when things go otherwise."""
    hold_s: float = 5.0
    """A worker is kept through a gap of this length even when starting takes less."""
    slack_s: float = 0.5
    """Where D cannot be kept whatever is ordered, this much above the best possible is good."""
    guard: float = 0.1
    """Share of D that is planned with; the rest is for what no future foresaw."""
    peak_factors: tuple[float, ...] = (1.0, 1.25)
    """Multiples of the fewest workers that are weighed against trainer time lost to d."""
    seed: int = 0
    prior: Prior = field(default_factory=Prior)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutlook:
    """What the plan means for one open batch."""

    task: int
    """Index into the observation's tasks."""
    number: int
    budget_ns: int
    late_share: float
    """Share of futures with d > D."""
    delay_mean_ns: int
    at_risk: bool
    """D is missed in more than eps of the futures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """Workers of one stage."""

    target: int
    """From now on."""
    peak: int
    """Most at any time."""
    wanted: int
    """What `peak` would be without the cap."""
    workers: tuple[int, ...]
    """N_j(t), one entry a bin from `Plan.now_ns` on."""
    busy_low: tuple[int, ...]
    busy_high: tuple[int, ...]
    """Between these, bin by bin, the number of running requests was in nearly all futures."""
    demand_s: float
    """Worker-seconds of work still to be done: the bound below which no plan can go (mean)."""
    planned_s: float
    """Worker-seconds under `workers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`N_j(t)` and what it was made from."""

    now_ns: int
    bin_ns: int
    stages: tuple[StagePlan, ...]
    batches: tuple[BatchOutlook, ...]
    order: tuple[int, ...]
    """Tasks, first served first, where the caps bind and another order than by deadline costs the
    trainers less; else empty."""
    futures: int
    simulations: int
    reason: str

    @property
    def targets(self) -> tuple[int, ...]:
        """Workers a stage from now on."""
        return tuple(stage.target for stage in self.stages)


class Trial:
    """The futures of one plan, and what becomes of them under a choice of workers."""

    def __init__(
        self,
        observation: Observation,
        active: Sequence[tuple[TaskView, OpenBatch]],
        futures: Sequence[Future],
        settings: PlanSettings,
    ) -> None:
        self.now_ns = observation.now_ns
        self.pools = observation.pools
        self.futures = futures
        self.settings = settings
        self.budgets = np.array([budget_ns(task) for task, _ in active], np.int64)
        self.stages = len(observation.pools)
        self.scratch: Scratch = make_scratch(
            max(len(f.batch_of) for f in futures), len(futures[0].demand.weight)
        )
        self.simulations = 0
        most = [(future.demand.service_ns > 0).sum(axis=0) for future in futures]
        self.most: Ints = np.max(most, axis=0)
        self.free = [self.no_limits(future) for future in futures]
        self.limits = [self.limit(k, future.earliest_ns) for k, future in enumerate(futures)]

    def supply(self, peaks: Ints) -> Supply:
        """What is up now; what is starting half a start-up later; `peaks` from a start-up on."""
        since = np.zeros((self.stages, 3), np.int64)
        workers = np.zeros((self.stages, 3), np.int64)
        for j, pool in enumerate(self.pools):
            up = pool.idle + pool.running
            since[j] = (0, self.now_ns + pool.startup_ns // 2, self.now_ns + pool.startup_ns)
            workers[j] = (up, up + pool.starting, peaks[j])
        return Supply(since_ns=since, workers=workers, steps=np.full(self.stages, 3, np.int64))

    def settle_for_best(self) -> None:
        """D cannot be kept: aim at what can, the ends if the most is ordered now."""
        supply = self.supply(self.most)
        for k, future in enumerate(self.futures):
            self.limits[k] = self.limit(k, self.run(future, supply, self.free[k])[1])

    def no_limits(self, future: Future) -> Limits:
        """To the end."""
        return Limits(
            finish_ns=np.full(len(future.batch_of), FAR_NS, np.int64),
            timeout_ns=np.zeros(self.stages, np.int64),
            timeouts=np.zeros(1, np.int64),
        )

    def limit(self, k: int, best: Ints) -> Limits:
        """d <= D, or next to the best where that cannot be had."""
        future, slack = self.futures[k], to_ns(self.settings.slack_s)
        guarded = (self.budgets * self.settings.guard).astype(np.int64)
        due = np.maximum(future.natural_ns + guarded, best + slack)
        return self.free[k]._replace(finish_ns=due[future.batch_of])

    def run(self, future: Future, supply: Supply, limits: Limits) -> tuple[bool, Ints]:
        """Simulate; whether the limits hold, and (batches,) the ends."""
        self.simulations += 1
        kept = serve_all(future.demand, supply, limits, self.scratch)
        ends = np.full(len(self.budgets), self.now_ns, np.int64)
        np.maximum.at(ends, future.batch_of, self.scratch.clock_ns[: len(future.batch_of)])
        return kept, ends

    def keeps(self, peaks: Ints, first: int | None = None) -> bool:
        """P(d <= D) >= 1 - eps, or as good as possible, over all futures or the first few."""
        supply = self.supply(peaks)
        share = self.settings.epsilon * self.settings.repeat_share
        allowed = int(share * len(self.futures))
        failed = 0
        for future, limits in zip(self.futures[:first], self.limits[:first], strict=True):
            self.simulations += 1
            failed += not serve_all(future.demand, supply, limits, self.scratch)
            if failed > allowed:
                return False
        return True

    def reorder(self, order: Sequence[int]) -> None:
        """Serve the batches in this order."""
        rank = np.zeros(len(order), np.int64)
        rank[list(order)] = np.arange(len(order))
        low = (1 << SEQUENCE_BITS) - 1
        for future in self.futures:
            key = future.demand.key
            key[:] = (rank[future.batch_of] << SEQUENCE_BITS) | (key & low)

    def measure(self, peaks: Ints) -> tuple[Ints, Floats]:
        """(futures, stages, bins) most busy workers; (futures, batches) extra delays in ns."""
        supply, bin_ns, now_ns = self.supply(peaks), to_ns(self.settings.bin_s), self.now_ns
        busy = np.zeros((len(self.futures), self.stages, self.settings.bins_max), np.int64)
        delays = np.zeros((len(self.futures), len(self.budgets)))
        for k, future in enumerate(self.futures):
            self.simulations += 1
            release_all(future.demand, self.scratch)
            served = True
            for j in range(self.stages):
                kept, free = busy[k, j], self.free[k]
                served &= serve(future.demand, j, supply, free, self.scratch, kept, now_ns, bin_ns)
            if not served:
                delays[k] = FAR_NS
                continue
            ends = np.zeros(len(self.budgets), np.int64)
            np.maximum.at(ends, future.batch_of, self.scratch.clock_ns[: len(future.batch_of)])
            delays[k] = np.maximum(ends - future.natural_ns, 0)
        return busy, delays


def find_peaks(trial: Trial, hint: Sequence[int] | None = None) -> Ints:
    """The fewest workers a stage, dearest first, that keep the chance constraint.

    `hint` (a former answer) is where the search starts.
    """
    peaks = trial.most.copy()
    order = sorted(range(trial.stages), key=lambda j: (-trial.pools[j].cost, j))
    for stage in order:
        if trial.most[stage] == 0:
            peaks[stage] = 0
            continue
        start = hint[stage] if hint else start_of_search(trial, peaks, stage)
        peaks[stage] = gallop(trial, peaks, stage, start)
        if peaks[stage] == trial.most[stage] and not trial.keeps(peaks):
            trial.settle_for_best()
            peaks[stage] = gallop(trial, peaks, stage, start)
    return peaks


def start_of_search(trial: Trial, peaks: Ints, stage: int) -> int:
    """The answer for the first future alone: near that for all of them, and much cheaper."""
    alone = peaks.copy()
    low, high = 0, int(trial.most[stage])
    while high - low > max(high // 25, 1):
        alone[stage] = (low + high) // 2
        if trial.keeps(alone, first=1):
            high = int(alone[stage])
        else:
            low = int(alone[stage])
    return high


def gallop(trial: Trial, peaks: Ints, stage: int, start: int) -> int:
    """Bracket the smallest number that keeps the constraint around `start`, then bisect."""
    trial_peaks = peaks.copy()

    def keeps(workers: int) -> bool:
        trial_peaks[stage] = workers
        return trial.keeps(trial_peaks)

    most = int(trial.most[stage])
    high = min(max(start, 1), most)
    step = max(high // 16, 1)
    if keeps(high):
        low = max(high - step, 0)
        while low > 0 and keeps(low):
            high, step = low, 2 * step
            low = max(high - step, 0)
    else:
        low, high = high, min(high + step, most)
        while high < most and not keeps(high):
            low, step = high, 2 * step
            high = min(high + step, most)
    exact = max(high // 25, 1)
    while high - low > exact:
        middle = (low + high) // 2
        if keeps(middle):
            high = middle
        else:
            low = middle
    return high


def make_plan(
    observation: Observation,
    settings: PlanSettings | None = None,
    *,
    peaks_hint: Sequence[int] | None = None,
    search: bool = True,
) -> Plan:
    """Plan from what is known now.

    Args:
        observation: history, state of the open batches, pools and costs.
        settings: how to plan.
        peaks_hint: peaks of the former plan, to start the search from.
        search: false = keep `peaks_hint` and only look at the shape again.
    """
    settings = settings or PlanSettings()
    check(observation, settings)
    active = open_tasks(observation)
    if not active:
        return empty_plan(observation, settings)
    search = search or peaks_hint is None
    futures = draw_futures(
        observation.now_ns,
        active,
        observation.tasks,
        count=settings.futures if search else settings.shape_futures,
        seed=settings.seed,
        prior=settings.prior,
    )
    trial = Trial(observation, active, futures, settings)
    if search:
        wanted = find_peaks(trial, peaks_hint)
        if len(active) > 1 and over_caps(observation, wanted):
            return plan_under_caps(observation, settings, trial, wanted)
    else:
        wanted = np.minimum(np.array(peaks_hint, np.int64), trial.most)
    factors = settings.peak_factors if search else (1.0,)
    return cheapest(observation, settings, trial, wanted, factors)


def cheapest(
    observation: Observation,
    settings: PlanSettings,
    trial: Trial,
    wanted: Ints,
    factors: Sequence[float],
) -> Plan:
    """The plan whose workers and lost trainer time together cost least.

    More workers than the constraint asks for cost little when they leave as soon as they are idle;
    a trainer that waits costs all its GPUs.
    """
    caps = np.array([pool.cap for pool in observation.pools], np.int64)
    rates = [task.trainer_cost for task, _ in open_tasks(observation)]
    best: tuple[float, Plan] | None = None
    for factor in factors:
        more = np.minimum(np.ceil(wanted * factor).astype(np.int64), trial.most)
        busy, delays = trial.measure(np.minimum(more, caps))
        plan = shape_plan(observation, settings, trial, more, np.minimum(more, caps), busy, delays)
        workers = sum(
            pool.cost * (stage.planned_s + stage.peak * pool.startup_ns / 1e9)
            for stage, pool in zip(plan.stages, observation.pools, strict=True)
        )
        total = workers + float(delays.mean(axis=0) @ np.array(rates)) / 1e9
        if best is None or total < best[0]:
            best = (total, plan)
    assert best is not None  # noqa: S101 - there is at least one factor
    return best[1]


def over_caps(observation: Observation, wanted: Ints) -> bool:
    """More is wanted than there can be."""
    return any(n > pool.cap for n, pool in zip(wanted, observation.pools, strict=True))


def plan_under_caps(
    observation: Observation, settings: PlanSettings, trial: Trial, wanted: Ints
) -> Plan:
    """The capacity is not enough for everybody: whose trainer should wait?

    Tried are the order of the deadlines and every batch moved to the front of it or to its end;
    taken is the one with the least weighted cost of waiting trainers.
    """
    caps = np.array([pool.cap for pool in observation.pools], np.int64)
    peaks = np.minimum(wanted, caps)
    active = open_tasks(observation)
    indices = [k for k, task in enumerate(observation.tasks) if task.open is not None]
    rates = np.array([task.weight * task.trainer_cost for task, _ in active])
    by_deadline = np.argsort(ranks([batch for _, batch in active])).tolist()
    best: tuple[float, list[int], Ints, Floats] | None = None
    for order in orders(by_deadline, [task.tenant for task, _ in active]):
        trial.reorder(order)
        busy, delays = trial.measure(peaks)
        lost = float(delays.mean(axis=0) @ rates)
        if best is None or lost < best[0] * (1 - ORDER_GAIN_MIN):
            best = (lost, order, busy, delays)
    assert best is not None  # noqa: S101 - the order of the deadlines is always tried
    _, order, busy, delays = best
    plan = shape_plan(observation, settings, trial, wanted, peaks, busy, delays)
    if order == by_deadline:
        return plan
    return replace(plan, order=tuple(indices[b] for b in order), reason="planned under caps")


def orders(by_deadline: list[int], tenants: Sequence[str]) -> list[list[int]]:
    """As it is; each of the first few to the front; each of them to the end. An order that serves
    every tenant's batches as one before it does is left out: no rank passes another tenant's
    share."""
    few = by_deadline[:REORDERED_MAX]
    front = [[b, *(o for o in by_deadline if o != b)] for b in few[1:]]
    back = [[*(o for o in by_deadline if o != b), b] for b in few[:-1]]
    distinct: dict[tuple[int, ...], list[int]] = {}
    for order in (by_deadline, *front, *back):
        distinct.setdefault(tuple(sorted(order, key=lambda b: tenants[b])), order)
    return list(distinct.values())


def check(observation: Observation, settings: PlanSettings) -> None:
    """Refuse what cannot be planned.

    Raises:
        InvalidRequest: naming the field.
    """
    if not 0 <= settings.epsilon < 1:
        raise InvalidRequest(f"epsilon is {settings.epsilon}", field="epsilon")
    if settings.futures < 1:
        raise InvalidRequest(f"{settings.futures} futures", field="futures")
    for p, pool in enumerate(observation.pools):
        if pool.cap < 0 or not np.isfinite(pool.cost) or pool.cost < 0 or pool.startup_ns < 0:
            raise InvalidRequest(f"{pool}", field=f"pools[{p}]")
    for k, task in enumerate(observation.tasks):
        if len(task.timeout_ns) != len(observation.pools):
            raise InvalidRequest("one timeout a stage", field=f"tasks[{k}].timeout_ns")
        if task.delay_budget_ns is not None and task.delay_budget_ns < 0:
            raise InvalidRequest("D is negative", field=f"tasks[{k}].delay_budget_ns")
        for past in task.history:
            if past.service_ns.shape[1] != len(observation.pools):
                raise InvalidRequest("one time a stage", field=f"tasks[{k}].history")


def empty_plan(observation: Observation, settings: PlanSettings) -> Plan:
    """Nothing is open: nobody is needed."""
    nothing = StagePlan(
        target=0,
        peak=0,
        wanted=0,
        workers=(),
        busy_low=(),
        busy_high=(),
        demand_s=0.0,
        planned_s=0.0,
    )
    return Plan(
        now_ns=observation.now_ns,
        bin_ns=to_ns(settings.bin_s),
        stages=tuple(nothing for _ in observation.pools),
        batches=(),
        order=(),
        futures=0,
        simulations=0,
        reason="no batch is open",
    )


def shape_plan(
    observation: Observation,
    settings: PlanSettings,
    trial: Trial,
    wanted: Ints,
    peaks: Ints,
    busy: Ints,
    delays: Floats,
) -> Plan:
    """From busy workers over the futures to `N_j(t)` and the target of now."""
    low, high = busy.min(axis=0), busy.max(axis=0)
    level = np.quantile(busy, settings.shape_quantile, axis=0, method="higher").astype(np.int64)
    level = np.maximum(level, np.minimum(high, settings.spare_workers))
    stages = []
    for j, pool in enumerate(observation.pools):
        work = np.mean([f.demand.service_ns[:, j].sum() for f in trial.futures]) / 1e9
        stages.append(
            StagePlan(
                target=target_at(level[j], 0, pool, settings),
                peak=int(peaks[j]),
                wanted=int(wanted[j]),
                workers=trim(level[j]),
                busy_low=trim(low[j]),
                busy_high=trim(high[j]),
                demand_s=float(work),
                planned_s=float(level[j].sum() * settings.bin_s),
            )
        )
    return Plan(
        now_ns=observation.now_ns,
        bin_ns=to_ns(settings.bin_s),
        stages=tuple(stages),
        batches=outlook(observation, settings, trial, delays),
        order=(),
        futures=len(trial.futures),
        simulations=trial.simulations,
        reason="planned",
    )


def target_at(
    level: Ints | tuple[int, ...], offset_ns: int, pool: PoolView, settings: PlanSettings
) -> int:
    """Workers wanted `offset_ns` after the plan was made: those needed within a start-up delay
    and a look, or again before another could start."""
    startup_s = pool.startup_ns / 1e9
    window_s = startup_s + settings.tick_s + max(startup_s, settings.hold_s)
    first = int(offset_ns / 1e9 / settings.bin_s)
    last = first + int(np.ceil(window_s / settings.bin_s)) + 1
    return min(max((int(n) for n in level[first:last]), default=0), pool.cap)


def trim(level: Ints) -> tuple[int, ...]:
    """Without the zeros at the end."""
    last = int(np.flatnonzero(level).max(initial=-1))
    return tuple(int(n) for n in level[: last + 1])


def outlook(
    observation: Observation, settings: PlanSettings, trial: Trial, delays: Floats
) -> tuple[BatchOutlook, ...]:
    """What the plan means batch by batch."""
    indices = [k for k, task in enumerate(observation.tasks) if task.open is not None]
    found = []
    for b, (task, (_, batch)) in enumerate(zip(indices, open_tasks(observation), strict=True)):
        late = float(np.mean(delays[:, b] > trial.budgets[b]))
        found.append(
            BatchOutlook(
                task=task,
                number=batch.number,
                budget_ns=int(trial.budgets[b]),
                late_share=late,
                delay_mean_ns=int(delays[:, b].mean()),
                at_risk=late > settings.epsilon,
            )
        )
    return tuple(found)
