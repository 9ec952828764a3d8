"""`assay` as a policy: plans at events, applies the plan, plans again when reality deviates."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.model.observation import Observation, OpenBatch, PoolView, Sizing, TaskView
from assay.model.policy import PoolPolicy
from assay.planner.core.coming import (
    Coming,
    Expected,
    Foreseen,
    Need,
    after_this,
    comes_before_a_start,
    coming,
    expect,
    foreseen,
    is_mostly_free,
    lead_ns,
    needed_ahead,
)
from assay.planner.core.demand import budget_ns, open_tasks
from assay.planner.core.plan import make_plan, over_caps
from assay.planner.core.prices import Damper, Keepers, nodes_at
from assay.planner.core.shape import Plan, spares_of, target_at

DEVIATION_SHARE: Final = 0.1
DEVIATION_SLOTS: Final = 2
"""Running requests may leave the plan's band by this share of it plus this many."""
ORDERS_KEPT: Final = 64
"""Orders of a pool that are remembered."""
SEARCHES_KEPT: Final = 3
"""A peak rises as far as two of this many searches agree."""
LATE_SLOTS: Final = 2
"""A peak of a late batch rises so far at once: most of a small pool, little of a large one."""
LAST_REQUESTS: Final = 5
"""While no more than these are to come, each finds a free slot: one of them decides when its batch
ends."""

BRIEF_SHARE: Final = 0.05
"""Of D: no slot is held for a wait as short as this."""


class Orders:
    """When the slots that are starting were ordered: the newest orders are those not ready yet."""

    def __init__(self) -> None:
        self.placed: dict[int, deque[tuple[int, int]]] = {}
        """By pool: (instant, slots), oldest first."""

    def add(self, observation: Observation, targets: Sequence[int]) -> None:
        """Remember what a decision orders."""
        for j, (target, pool) in enumerate(zip(targets, observation.pools, strict=True)):
            if target > pool.held:
                placed = self.placed.setdefault(j, deque(maxlen=ORDERS_KEPT))
                placed.append((observation.now_ns, target - pool.held))

    def aged(self, observation: Observation) -> Observation:
        """The observation, with the mean age of the slots that are starting."""
        now_ns = observation.now_ns
        pools = tuple(
            replace(pool, started_ago_ns=self.age_ns(j, pool, now_ns))
            for j, pool in enumerate(observation.pools)
        )
        return replace(observation, pools=pools)

    def age_ns(self, j: int, pool: PoolView, now_ns: int) -> int | None:
        """Mean age of the pool's slots that are starting; `None` where orders are not known."""
        left, total = pool.starting, 0
        for at_ns, slots in reversed(self.placed.get(j, ())):
            taken = min(slots, left)
            total += taken * (now_ns - at_ns)
            left -= taken
        return total // pool.starting if pool.starting and not left else None


class Assay(PoolPolicy):
    """Time-varying, chance-constrained, re-planned inside the batch."""

    name = "assay"

    def __init__(self, settings: PlanSettings | None = None) -> None:
        self.settings = settings or PlanSettings()
        self.plan: Plan | None = None
        self.searched_ns = 0
        self.searches: tuple[tuple[int, ...], ...] = ()
        self.orders = Orders()
        self.damper = Damper()
        self.keepers = Keepers()
        self.began_ns: int | None = None
        self.expected: dict[int, Expected] = {}
        """By the identity of the arrays that each was made from."""
        self.ends: dict[tuple[int, int], Foreseen] = {}
        """Of each open batch: the place of its task and its number."""
        self.awaited: tuple[Coming, ...] = ()
        """Batches that may open soon, as of the last decision."""

    def decide(self, observation: Observation) -> Sizing:
        """Plan again where there is a reason, else apply the present plan."""
        observation = self.orders.aged(observation)
        sizing = self.size(observation)
        self.orders.add(observation, sizing.targets)
        return sizing

    def size(self, observation: Observation) -> Sizing:
        """The sizing, from an observation with the ages of the slots that are starting."""
        plan, now_ns = self.plan, observation.now_ns
        if plan is None or now_ns < plan.now_ns or is_stale(plan, observation):
            return self.apply(self.replan(observation, search=True), observation)
        if deviates(plan, observation):
            return self.apply(self.replan(observation, search=True), observation)
        if not plan.batches:
            return self.apply(plan, observation)
        if now_ns - self.searched_ns >= to_ns(self.settings.search_s):
            return self.apply(self.replan(observation, search=True), observation)
        if now_ns - plan.now_ns >= to_ns(self.settings.replan_s):
            full = any(pool.waiting for pool in observation.pools)
            return self.apply(self.replan(observation, search=full), observation)
        return self.apply(plan, observation)

    def replan(self, observation: Observation, *, search: bool) -> Plan:
        """Make a plan. The search starts at the previous peaks."""
        previous = self.plan
        peaks = (
            [stage.wanted for stage in previous.stages] if previous and previous.batches else None
        )
        again = previous is not None and not is_stale(previous, observation)
        plan = make_plan(observation, self.settings, peaks_hint=peaks, search=search, kept=again)
        if search:
            self.searched_ns = observation.now_ns
            plan = self.confirmed(plan, observation, again=again)
        self.plan = plan
        return plan

    def confirmed(self, plan: Plan, observation: Observation, *, again: bool) -> Plan:
        """The plan with peaks that another search of the same batches found as well.

        A search depends on a few futures; one that asks for more than those before and after it
        would buy capacity that nothing needs. Peaks fall at once. They rise at once where a request
        is late by itself without a barrier, and by a few slots where one that waits now could make
        its batch late.
        """
        found = tuple(stage.wanted for stage in plan.stages)
        self.searches = (*(self.searches if again else ()), found)[-SEARCHES_KEPT:]
        alone = any(not task.barrier for task, _ in open_tasks(observation))
        if alone:
            return plan
        agreed = agreed_peaks(self.searches)
        if again and self.plan is not None and any_late(observation):
            agreed = raised(agreed, found, [stage.wanted for stage in self.plan.stages])
        if agreed == found:
            return plan
        less = make_plan(observation, self.settings, peaks_hint=agreed, search=False)
        return replace(less, order=plan.order) if over_caps(observation, agreed) else less

    @property
    def holds_on(self) -> bool:
        """Whether slots are held, or will be, for work that is not there yet."""
        return bool(self.awaited) or self.keepers.next_ns is not None

    def coming(self, plan: Plan, observation: Observation) -> list[Coming]:
        """The next batches of tasks, as far as slots are held for them."""
        if self.began_ns is None:
            self.began_ns = observation.now_ns
        waited_ns, found, known = observation.now_ns - self.began_ns, [], {}
        self.ends = {
            (batch.task, batch.number): foreseen(
                self.ends.get((batch.task, batch.number)),
                Foreseen(at_ns=observation.now_ns, ends_ns=batch.ends_ns),
                observation.pools,
            )
            for batch in plan.batches
        }
        for k, task in between_batches(self.ends, observation, self.settings):
            if not task.history or not self.settings.standby_share:
                continue
            origin = task.history[0].arrived_ns
            if id(origin) not in self.expected:
                self.expected[id(origin)] = expect(observation, k, self.settings)
            known[id(origin)] = self.expected[id(origin)]
            one = coming(task, known[id(origin)], observation.pools, waited_ns, self.settings)
            if one is not None:
                found.append(one)
        self.expected = known
        return found

    def apply(self, plan: Plan, observation: Observation) -> Sizing:
        """The sizing of the present plan at this moment, and of what comes next."""
        self.awaited = tuple(self.coming(plan, observation))
        sizing = self.apply_open(plan, observation)
        sizing = with_coming(sizing, plan, observation, self.awaited, self.settings)
        targets = self.keepers.targets(observation, sizing.targets, self.settings)
        if not plan.batches:
            self.damper.rest(observation.now_ns)
            times_ns = (at for at in (sizing.wake_ns, self.keepers.next_ns) if at is not None)
            return replace(sizing, targets=targets, wake_ns=min(times_ns, default=None))
        targets = self.damper.targets(observation, plan, targets, self.settings)
        return replace(sizing, targets=targets)

    def apply_open(self, plan: Plan, observation: Observation) -> Sizing:
        """The sizing for the open batches alone."""
        if not plan.batches:
            return Sizing(targets=tuple(0 for _ in observation.pools))
        offset_ns = observation.now_ns - plan.now_ns
        peaks, spare = [stage.peak for stage in plan.stages], [0] * len(plan.stages)
        if any_late(observation):
            spare = spares_of(peaks, observation.pools, self.settings)
        targets = [
            at_least(
                target_at(stage.slots_by_bin, offset_ns, pool, self.settings), pool, more, peak
            )
            for stage, pool, more, peak in zip(
                plan.stages, observation.pools, spare, peaks, strict=True
            )
        ]
        targets = [max(target, n) for target, n in zip(targets, least(observation), strict=True)]
        pairs = zip(plan.stages, observation.pools, strict=True)
        return Sizing(
            targets=tuple(targets),
            nodes=tuple(nodes_at(s.slots_by_bin, offset_ns, p, self.settings) for s, p in pairs),
            wake_ns=observation.now_ns + to_ns(self.settings.tick_s),
            order=plan.order if plan.now_ns == observation.now_ns else (),
        )


def between_batches(
    ends: Mapping[tuple[int, int], Foreseen], observation: Observation, settings: PlanSettings
) -> Iterator[tuple[int, TaskView]]:
    """Tasks that have no batch open, or whose open one may be followed sooner than slots start;
    these as if it had ended."""
    for k, task in enumerate(observation.tasks):
        if task.open is None:
            yield k, task
        elif (end := ends.get((k, task.open.number))) is not None:
            ended = after_this(task, end.ends_ns - observation.now_ns)
            if comes_before_a_start(ended, observation.pools, settings):
                yield k, ended


def with_coming(
    sizing: Sizing,
    plan: Plan,
    observation: Observation,
    batches: Sequence[Coming],
    settings: PlanSettings,
) -> Sizing:
    """The sizing with the slots that coming batches need before they can be ordered."""
    if not batches:
        return sizing
    offset_ns, targets, nodes = observation.now_ns - plan.now_ns, [], []
    for j, (stage, pool) in enumerate(zip(plan.stages, observation.pools, strict=True)):
        level = stage.slots_by_bin[offset_ns // to_ns(settings.tick_s) :]
        free = is_mostly_free(stage, settings)
        present = Need(after_ns=0, slots_by_bin=level, mostly_free=free)
        mine = [one.at(j) for one in batches]
        slots = needed_ahead(present, mine, pool.startup_ns, settings)
        targets.append(max(sizing.targets[j], min(slots, pool.cap)))
        held = sizing.nodes[j] if sizing.nodes else 0
        if pool.nodes is not None:
            slots = needed_ahead(present, mine, lead_ns(pool), settings)
            held = max(held, min(-(-slots // pool.nodes.slots), pool.nodes.cap))
        nodes.append(held)
    return replace(
        sizing,
        targets=tuple(targets),
        nodes=tuple(nodes),
        wake_ns=sizing.wake_ns or observation.now_ns + next_look_ns(observation, batches, settings),
    )


def next_look_ns(
    observation: Observation, batches: Sequence[Coming], settings: PlanSettings
) -> int:
    """From now until a slot may have to be ordered for a batch that has not opened; a tick at
    least."""
    tick_ns = to_ns(settings.tick_s)
    longest_ns = max(lead_ns(pool) for pool in observation.pools) + 2 * tick_ns
    return max(min(one.after_ns for one in batches) - longest_ns, tick_ns)


def agreed_peaks(searches: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Per stage, the newest peak, or less if no other search found as many."""
    return tuple(
        min(peaks[-1], sorted(peaks)[-2]) if len(peaks) > 1 else peaks[0]
        for peaks in zip(*searches, strict=True)
    )


def raised(agreed: Sequence[int], found: Sequence[int], last: Sequence[int]) -> tuple[int, ...]:
    """Per stage, the agreed peak, or up to `LATE_SLOTS` more than the last one if found so."""
    peaks = zip(agreed, found, last, strict=True)
    return tuple(max(one, min(new, old + LATE_SLOTS)) for one, new, old in peaks)


def is_stale(plan: Plan, observation: Observation) -> bool:
    """Whether a batch opened or ended since the plan was made.

    It compares states, because an event may
    have been missed while the store was unavailable.
    """
    now_open = {(k, t.open.number) for k, t in enumerate(observation.tasks) if t.open is not None}
    return now_open != {(batch.task, batch.number) for batch in plan.batches}


def is_late(task: TaskView, batch: OpenBatch, now_ns: int) -> bool:
    """Whether a request that waits now would make its batch late if it used all its timeouts."""
    return task.barrier and now_ns + int(task.timeout_ns.sum()) > batch.deadline_ns


def any_late(observation: Observation) -> bool:
    """Whether any open batch is late in that sense."""
    active = open_tasks(observation)
    return any(is_late(task, batch, observation.now_ns) for task, batch in active)


def least(observation: Observation) -> list[int]:
    """The fewest slots of each stage, even if no future says that a request will come there.

    A request of a late batch, one of the last of a batch, or one without a barrier finds a free
    slot at the stages before it: starting one would keep the whole batch, or the request, waiting.
    Not where the requests before it are done sooner than their wait could matter.
    Where requests wait, the plan and `at_least` decide, and one slot is enough.
    """
    slots = [0] * len(observation.pools)
    for task, batch in open_tasks(observation):
        brief = brief_stages(task)
        last = 0 < batch.size <= batch.arrived + LAST_REQUESTS
        if task.barrier and not last and not is_late(task, batch, observation.now_ns):
            continue
        first = int(batch.stage.min(initial=len(task.timeout_ns)))
        if batch.arrived < batch.size:
            first = -1
        for j in np.flatnonzero(task.timeout_ns):
            pool = observation.pools[j]
            if first < j and not pool.waiting and j not in brief:
                slots[j] = min(pool.running + 1, pool.cap)
            elif first <= j:
                slots[j] = max(slots[j], min(1, pool.cap))
    return slots


def brief_stages(task: TaskView) -> set[int]:
    """Stages at which a request that finds all slots busy waits for next to nothing: none of the
    task's newest batch took longer there than a small share of D."""
    if not task.history:
        return set()
    newest, most_ns = task.history[0], BRIEF_SHARE * budget_ns(task)
    longest = newest.service_ns.max(axis=0, initial=0)
    stages = range(len(longest)) if newest.columns is None else newest.columns
    pairs = zip(stages, longest, strict=True)
    return {int(j) for j, took in pairs if j >= 0 and 0 < took <= most_ns}


def at_least(target: int, pool: PoolView, spare: int, peak: int) -> int:
    """The target, and up to `spare` slots more for requests that wait in a late batch, no more than
    so many beyond the plan's peak.

    This is DistRS's timeout rule with a bound. The extra slots have work at once, so each costs no
    more than its start-up. Without the second bound, a queue that the plan means to drain with the
    slots of its peak would raise the pool at every tick. A slot beyond both is released when its
    request ends.
    """
    more = min(pool.running + min(pool.waiting, spare), peak + spare)
    return min(max(target, more), pool.cap)


def deviates(plan: Plan, observation: Observation) -> bool:
    """Whether the running requests have left the band that the plan's futures span."""
    at = (observation.now_ns - plan.now_ns) // plan.bin_ns
    if at == 0 or not plan.batches:
        return False
    for stage, pool in zip(plan.stages, observation.pools, strict=True):
        low = stage.busy_low[at] if at < len(stage.busy_low) else 0
        high = stage.busy_high[at] if at < len(stage.busy_high) else 0
        present = min(pool.running + pool.awaited, max(stage.peak, pool.running))
        if present > high * (1 + DEVIATION_SHARE) + DEVIATION_SLOTS:
            return True
        if pool.running < low * (1 - DEVIATION_SHARE) - DEVIATION_SLOTS:
            return True
    return False
