"""The futures of one plan, simulated under a choice of slots, and the fewest slots that suffice.

A choice suffices when in at least `1 - epsilon` of the futures every batch's extra delay d stays
within its budget D.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import FAR_NS, Floats, Ints, to_ns
from assay.model.observation import Observation, OpenBatch, PoolView, TaskView
from assay.model.queueing import (
    NOTHING,
    Constraints,
    Scratch,
    Supply,
    make_scratch,
    release_all,
    serve,
    serve_all,
    serve_from,
)
from assay.planner.core.demand import SEQUENCE_BITS, Future, budget_ns

HEADROOM_SHARE: Final = 0.2
"""Slots of a stage beyond the fewest, where cheaper stages are still to be sized."""
STRICT: Final = 0.2
"""Of what a plan may leave to later ones, the least share where these come too late to mend it."""
STEPS_MAX: Final = 5
"""Changes of a pool's slots that a trial foresees."""


def startup_of(pool: PoolView) -> int:
    """Time from ordering a slot until it is ready, where it needs a new node."""
    return pool.startup_ns + (pool.nodes.startup_ns if pool.nodes is not None else 0)


def trust_in_later_plans(pools: Sequence[PoolView], settings: PlanSettings) -> float:
    """The share of later decisions that a plan relies on, from `STRICT` to 1. It is the time until
    the next plan is applied, over the longest start-up: what later plans order may be too late."""
    next_ns = to_ns(settings.replan_s + settings.tick_s)
    longest_ns = max((startup_of(pool) for pool in pools), default=0)
    return min(max(next_ns / max(longest_ns, 1), STRICT), 1.0)


def soon_ns(pool: PoolView) -> int:
    """Time until those that are starting are ready: the rest of a start-up, a tenth of it at least
    where they take longer than that; half of one where it is not known when they were ordered."""
    if pool.started_ago_ns is None:
        return pool.startup_ns // 2
    return max(pool.startup_ns - pool.started_ago_ns, pool.startup_ns // 10)


def slots_over_time(pool: PoolView, peak: int) -> list[tuple[int, int]]:
    """Slots of a pool that may grow to `peak` from now on: (nanoseconds from now, slots)."""
    up, startup_ns = pool.idle + pool.running, pool.startup_ns
    course = [(0, up), (soon_ns(pool), up + pool.starting)]
    if pool.nodes is None:
        return [*course, (startup_ns, peak)]
    nodes = pool.nodes
    both = nodes.room + nodes.starting * nodes.slots
    return [
        *course,
        (startup_ns, min(peak, max(nodes.room, up + pool.starting))),
        (startup_ns + nodes.startup_ns // 2, min(peak, max(both, up + pool.starting))),
        (startup_ns + nodes.startup_ns, min(peak, nodes.cap * nodes.slots)),
    ]


class Trial:
    """The futures of one plan, simulated under a choice of slots."""

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
        known = all(task.history for task, _ in active)
        self.trust = trust_in_later_plans(self.pools, settings) if known else STRICT
        self.risk = settings.repeat_share
        """Share of epsilon that a choice may use."""
        self.scratch: Scratch = make_scratch(
            max(len(f.batch_of) for f in futures), len(futures[0].demand.weight)
        )
        self.simulations = 0
        starts = np.array([future.demand.start for future in futures])
        self.most: Ints = (starts[:, 1:] - starts[:, :-1]).max(axis=0)
        self.free = [self.unconstrained(future) for future in futures]
        self.due = [future.ends_due() for future in futures]
        self.order = list(range(len(futures)))
        """Futures, first those that failed last: they show soonest that a choice does not do."""
        self.searched = 0
        self.known: dict[tuple[int, ...], tuple[int, bool]] = {}
        """By choice in this search: how many futures failed, and whether all were tried."""
        self.reached: list[Ints | None] = [None] * len(futures)
        """(requests,) by future: when each is done with the stages before `searched`; empty = a
        batch is late there already; `None` = not known."""

    @cached_property
    def constraints(self) -> list[Constraints]:
        """By future: when each request must have ended; only a search for peaks asks for them."""
        return [self.constrain(k, one.ends_possible()) for k, one in enumerate(self.futures)]

    def supply(self, peaks: Ints) -> Supply:
        """Slots over time: the present ones; those starting, half a start-up time later; `peaks`
        from one start-up time on, as far as there are nodes for them."""
        since = np.zeros((self.stages, STEPS_MAX), np.int64)
        slots = np.zeros((self.stages, STEPS_MAX), np.int64)
        steps = np.zeros(self.stages, np.int64)
        for j, pool in enumerate(self.pools):
            course = slots_over_time(pool, int(peaks[j]))
            steps[j] = len(course)
            since[j, : len(course)] = [after and self.now_ns + after for after, _ in course]
            slots[j, : len(course)] = [count for _, count in course]
        return Supply(since_ns=since, slots=slots, steps=steps)

    def settle_for_best(self) -> None:
        """D cannot be met: aim at the ends reached with the largest useful number of slots."""
        supply = self.supply(self.most)
        for k, future in enumerate(self.futures):
            self.constraints[k] = self.constrain(k, self.best(k, future, supply))

    def unconstrained(self, future: Future) -> Constraints:
        """Constraints that stop no simulation early."""
        return Constraints(
            finish_ns=np.full(len(future.batch_of), FAR_NS, np.int64),
            timeout_ns=np.zeros(self.stages, np.int64),
            timeouts=np.zeros(1, np.int64),
        )

    def constrain(self, k: int, best: Ints) -> Constraints:
        """Finish within the budget, or within `slack_s` of the best achievable end.

        Args:
            k: the future.
            best: (n,) the best end of each request or, with a barrier, of its batch.
        """
        future, slack = self.futures[k], to_ns(self.settings.slack_s)
        guarded = (self.budgets * self.settings.guard * self.trust).astype(np.int64)
        due = np.maximum(self.due[k] + guarded[future.batch_of], best + slack)
        return self.free[k]._replace(finish_ns=due)

    def best(self, k: int, future: Future, supply: Supply) -> Ints:
        """(n,) the end of each request or, with a barrier, of its batch, without constraints."""
        self.simulations += 1
        serve_all(future.demand, supply, self.free[k], self.scratch)
        clock = self.scratch.clock_ns[: len(future.batch_of)].copy()
        ends = np.full(len(self.budgets), self.now_ns, np.int64)
        np.maximum.at(ends, future.batch_of, clock)
        whole = ends[future.batch_of]
        return whole if future.own is None else np.where(future.own.alone, clock, whole)

    def begin_search(self, peaks: Ints, stage: int) -> None:
        """Only `peaks[stage]` changes from now on: simulate the stages before it once."""
        supply, self.searched = self.supply(peaks), stage
        self.reached, self.known = [], {}
        for k, future in enumerate(self.futures):
            release_all(future.demand, self.scratch)
            kept = all(
                serve(future.demand, j, supply, self.constraints[k], self.scratch, NOTHING, 0, 1)
                for j in range(stage)
            )
            clock = self.scratch.clock_ns[: len(future.batch_of)].copy()
            self.reached.append(clock if kept else NOTHING)

    def keeps(self, peaks: Ints, first: int | None = None) -> bool:
        """Whether P(d <= D) >= 1 - epsilon, over all futures or the first few."""
        share = self.settings.epsilon * self.risk * self.trust
        tried = self.order.copy() if first is None else range(first)
        allowed, failed = int(share * len(tried)), 0
        choice = (len(tried), *peaks.tolist())
        at_least, all_tried = self.known.get(choice, (0, False))
        if all_tried or at_least > allowed:
            return at_least <= allowed
        supply = self.supply(peaks)
        for k in tried:
            if self.serves(k, supply):
                continue
            failed += 1
            self.order.remove(k)
            self.order.insert(0, k)
            if failed > allowed:
                self.known[choice] = (failed, False)
                return False
        self.known[choice] = (failed, True)
        return True

    def serves(self, k: int, supply: Supply) -> bool:
        """Simulate a future, from the searched stage on where those before it are known."""
        self.simulations += 1
        demand, reached, constraints = self.futures[k].demand, self.reached[k], self.constraints[k]
        if reached is None:
            return serve_all(demand, supply, constraints, self.scratch)
        if len(reached) < len(demand.release_ns):
            return False
        self.scratch.clock_ns[: len(reached)] = reached
        return serve_from(demand, self.searched, supply, constraints, self.scratch)

    def reorder(self, order: Sequence[int]) -> None:
        """Serve the batches in this order from now on."""
        rank = np.zeros(len(order), np.int64)
        rank[list(order)] = np.arange(len(order))
        low = (1 << SEQUENCE_BITS) - 1
        for future in self.futures:
            key = future.demand.key
            key[:] = (rank[future.batch_of] << SEQUENCE_BITS) | (key & low)

    def measure(self, peaks: Ints) -> tuple[Ints, Floats]:
        """(futures, stages, bins) most requests at once; (futures, batches) extra delays in ns."""
        supply, bin_ns, now_ns = self.supply(peaks), to_ns(self.settings.tick_s), self.now_ns
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
            self.add_delays(k, delays[k])
        return busy, delays

    def delays(self, peaks: Ints, first: int) -> Floats:
        """(first, batches) extra delays in ns, in the first few futures alone."""
        supply = self.supply(peaks)
        delays = np.zeros((first, len(self.budgets)))
        for k in range(first):
            self.simulations += 1
            if serve_all(self.futures[k].demand, supply, self.free[k], self.scratch):
                self.add_delays(k, delays[k])
            else:
                delays[k] = FAR_NS
        return delays

    def add_delays(self, k: int, delays: Floats) -> None:
        """Raise a future's delays to those of the requests that were just served."""
        batch_of = self.futures[k].batch_of
        late = self.scratch.clock_ns[: len(batch_of)] - self.due[k]
        # As floats, as `delays` are: with mixed types `at` takes twenty times as long.
        np.maximum.at(delays, batch_of, late.astype(np.float64))


def find_peaks(trial: Trial, hint: Sequence[int] | None = None, *, kept: bool = False) -> Ints:
    """(stages,) fewest slots that keep the chance constraint, the most expensive stage first.

    The search starts at `hint`, the result of an earlier one. `kept`: that one was of the same
    batches, and its slots are there already (`settled`).
    """
    peaks = trial.most.copy()
    order = sorted(range(trial.stages), key=lambda j: (-trial.pools[j].cost, j))
    search = settled if hint and kept else gallop
    for stage in order:
        if trial.most[stage] == 0:
            peaks[stage] = 0
            continue
        trial.begin_search(peaks, stage)
        start = hint[stage] if hint else start_of_search(trial, peaks, stage)
        peaks[stage] = search(trial, peaks, stage, start)
        if peaks[stage] == trial.most[stage] and not trial.keeps(peaks):
            trial.settle_for_best()
            trial.begin_search(peaks, stage)
            peaks[stage] = search(trial, peaks, stage, start)
        if stage != order[-1]:
            last = hint[stage] if hint else 0
            peaks[stage] = with_headroom(int(peaks[stage]), int(trial.most[stage]), last)
    trial.begin_search(peaks, 0)
    return peaks


def settled(trial: Trial, peaks: Ints, stage: int, last: int) -> int:
    """The slots of the last search as long as they may do, else the fewest that may do.

    Each plan sees other futures. If each bought what it needs to be as safe as the first, the most
    cautious of them all would decide the peak: so more is bought only where more than `rise_share`
    of epsilon fails. While requests wait, nothing is given back: all slots are busy, and fewer now
    are more later.
    """
    present = peaks.copy()
    present[stage] = min(max(last, 1), trial.most[stage])
    first_risk, trial.risk = trial.risk, max(trial.settings.rise_share, trial.risk)
    does = trial.keeps(present)
    if not does:
        least = gallop(trial, peaks, stage, last)
    trial.risk = first_risk
    if not does:
        return least
    if trial.pools[stage].waiting or not trial.keeps(present):
        return int(present[stage])
    return gallop(trial, peaks, stage, last)


def with_headroom(least: int, most: int, last: int = 0) -> int:
    """The fewest slots of a stage and a few more; those of the last search if they are so many.

    With the very fewest, found while no cheaper stage made anything wait, a cheaper stage would
    have to hand over everything at its earliest: a fifth more of the one can save a third of the
    other. A fifth of one or two slots, which free themselves one by one anyway, is no slot. What a
    search adds is not added again by the next one.
    """
    more = min(least + round(HEADROOM_SHARE * least), most)
    return last if least <= last <= more else more


def start_of_search(trial: Trial, peaks: Ints, stage: int) -> int:
    """The result for the first future alone: close to that for all of them, and much cheaper."""
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
    """The smallest number that keeps the constraint: bracketed from `start` on, then bisected."""
    trial_peaks = peaks.copy()

    def keeps(slots: int) -> bool:
        trial_peaks[stage] = slots
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
