"""When requests end, given the number of slots over time: the planner's most frequent question.

Stages feed forward, so they are simulated one after the other. The queue discipline is that of the
platform: tenants by weight, earliest batch first within one, slots are freed before requests are
admitted, no preemption. A tenant is charged what a request will take; the store charges what it
expects and corrects it at the end.
`assay.sim.pools.reference.ReferenceWorld` is the readable counterpart, and tests compare the two.
"""

from typing import Final, NamedTuple

import numpy as np

from assay.core.ordering import COST_US_MIN
from assay.model.agenda import (
    Agenda,
    add,
    clear,
    drop_soonest,
    ended,
    make_agenda,
    running,
    soonest_ns,
)
from assay.model.arrays import FAR_NS, Floats, Ints
from assay.model.heap import pop, push
from assay.model.jit import in_place, jit, part
from assay.model.radix import Sorting, make_sorting, sort

KEY_BITS: Final = 20
"""A queue entry is `key << KEY_BITS | request`; at most a million requests per simulation."""
PLACE_MASK: Final = (1 << KEY_BITS) - 1
NOTHING: Final = np.zeros(0, np.int64)
ONE_TENANT: Final = NOTHING
WEIGHT_1: Final = np.ones(1, np.float64)


class Demand(NamedTuple):
    """One possible future. Indexed by request `i`, stage `j`."""

    release_ns: Ints
    """i: when it joins the queue of its first stage with work."""
    service_ns: Ints
    """i, j: 0 = skipped."""
    key: Ints
    """i: smaller is served first; ties by index."""
    running: Ints
    """i: the stage at which it already runs at its release, or -1."""
    tenant: Ints = ONE_TENANT
    """i: index into `weight`; empty = all are tenant 0."""
    weight: Floats = WEIGHT_1
    """Per tenant: its share of each stage."""
    start: Ints = NOTHING
    """stages + 1: where each stage's entries begin in the arrays below; see `by_stage`."""
    member: Ints = NOTHING
    """entry: a request with work at the stage, ascending."""
    work_ns: Ints = NOTHING
    """entry: its time at the stage."""
    after_ns: Ints = NOTHING
    """entry: its time at all later stages."""


@jit
def index_of(service_ns: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """`start`, `member`, `work_ns` and `after_ns` of (requests, stages) times."""
    requests, stages = service_ns.shape
    start = np.zeros(stages + 1, np.int64)
    left = np.zeros(requests, np.int64)
    member = np.empty(requests * stages, np.int64)
    work, after = np.empty_like(member), np.empty_like(member)
    at = requests * stages
    for j in range(stages - 1, -1, -1):  # filled from the back
        end = at
        for i in range(requests - 1, -1, -1):
            own = service_ns[i, j]
            if own > 0:
                at -= 1
                member[at], work[at], after[at] = i, own, left[i]
                left[i] += own
        start[j + 1] = end - at
    for j in range(stages):
        start[j + 1] += start[j]
    return start, member[at:], work[at:], after[at:]


def by_stage(demand: Demand) -> Demand:
    """The demand with its entries listed by stage, as simulations need it: a stage then costs what
    its own requests cost, however many stages and requests there are."""
    start, member, work, after = index_of(demand.service_ns)
    return demand._replace(start=start, member=member, work_ns=work, after_ns=after)


class Supply(NamedTuple):
    """Slots by stage as a step function: `slots[j, s]` from `since_ns[j, s]` on."""

    since_ns: Ints
    slots: Ints
    steps: Ints
    """j: entries in use."""


class Constraints(NamedTuple):
    """Conditions under which to give up early; FAR = no constraint."""

    finish_ns: Ints
    """i: its end must not be later than this."""
    timeout_ns: Ints
    """j: 0 = unknown. DistRS section 5.1: what has queued must be able to use up all remaining
    timeouts without being late; checked at dispatch. Off where `timeouts` is 0."""
    timeouts: Ints
    """One entry: 1 = check the rule."""


class Scratch(NamedTuple):
    """Preallocated working memory, so that thousands of simulations allocate nothing."""

    clock_ns: Ints
    """i: when the request is done with the stages simulated so far."""
    reached: Sorting
    """When the requests of a stage reach it, and their places among its entries."""
    queue: Ints
    """tenant, place"""
    waiting: Ints
    """tenant: entries of `queue` in use."""
    virtual_us: Ints
    """tenant: as in `core.ordering.Shares`; the last entry is the time at which tenants join, -1
    while only one tenant has waited."""
    agenda: Agenda
    """When the requests end that run."""


class Instant(NamedTuple):
    """One instant at a stage."""

    at_ns: int
    running: int
    waiting: int
    capacity: int
    """Slots."""
    tail_ns: int
    """Timeouts of this stage and all later ones."""


def make_scratch(requests: int, tenants: int = 1) -> Scratch:
    """Allocate for up to `requests` requests."""
    return Scratch(
        clock_ns=np.zeros(requests, np.int64),
        reached=make_sorting(requests),
        queue=np.zeros((tenants, requests + 1), np.int64),
        waiting=np.zeros(tenants, np.int64),
        virtual_us=np.zeros(tenants + 1, np.int64),
        agenda=make_agenda(requests),
    )


def constant_supply(slots: Ints) -> Supply:
    """A constant number of slots."""
    return Supply(
        since_ns=np.zeros((len(slots), 1), np.int64),
        slots=slots.reshape(-1, 1).astype(np.int64),
        steps=np.ones(len(slots), np.int64),
    )


def unconstrained(requests: int, stages: int) -> Constraints:
    """Constraints that stop no simulation early."""
    return Constraints(
        finish_ns=np.full(requests, FAR_NS, np.int64),
        timeout_ns=np.zeros(stages, np.int64),
        timeouts=np.zeros(1, np.int64),
    )


class Peaks(NamedTuple):
    """The most requests that run at once, per bin of time."""

    busy: Ints
    """Empty = not recorded."""
    origin_ns: int
    bin_ns: int


@part
def spread(peaks: Peaks, reached: int, until_ns: int, level: int) -> int:
    """Raise the bins after `reached` that begin before `until_ns` to `level`; returns the last."""
    if peaks.busy.shape[0] == 0 or until_ns - peaks.origin_ns <= (reached + 1) * peaks.bin_ns:
        return reached  # most instants: divisions are a third of the time of a stage
    last = (until_ns - peaks.origin_ns - 1) // peaks.bin_ns
    last = min(last, peaks.busy.shape[0] - 1)
    while reached < last:
        reached += 1
        peaks.busy[reached] = max(peaks.busy[reached], level)
    return reached


@part
def mark(peaks: Peaks, reached: int, now_ns: int, level: int) -> None:
    """Raise the bin of this instant to `level`; the bins up to `reached` began before it."""
    if peaks.busy.shape[0] == 0:
        return
    here = reached
    if now_ns - peaks.origin_ns >= (reached + 1) * peaks.bin_ns:
        here = (now_ns - peaks.origin_ns) // peaks.bin_ns
    if 0 <= here < peaks.busy.shape[0]:
        peaks.busy[here] = max(peaks.busy[here], level)


@in_place
def sort_by_release(demand: Demand, stage: int, scratch: Scratch) -> None:
    """List the stage's entries, counted from its first, by the time at which their requests reach
    it."""
    begin, end = demand.start[stage], demand.start[stage + 1]
    for entry in range(begin, end):
        scratch.reached.numbers[entry - begin] = scratch.clock_ns[demand.member[entry]]
    sort(scratch.reached, end - begin)


@in_place
def serve_freely(
    demand: Demand, stage: int, supply: Supply, constraints: Constraints, scratch: Scratch
) -> int:
    """Run one stage where a slot is free for every request at any time.

    Returns 1 = done, 0 = a constraint is broken, -1 = a request might have to wait: nothing was
    changed.
    """
    begin, end = demand.start[stage], demand.start[stage + 1]
    soonest = FAR_NS
    for entry in range(begin, end):
        soonest = min(soonest, scratch.clock_ns[demand.member[entry]])
    for step in range(supply.steps[stage]):
        last = step + 1 == supply.steps[stage]
        if supply.slots[stage, step] < end - begin and (
            last or supply.since_ns[stage, step + 1] > soonest
        ):
            return -1
    for entry in range(begin, end):
        i = demand.member[entry]
        scratch.clock_ns[i] += demand.work_ns[entry]
        if scratch.clock_ns[i] + demand.after_ns[entry] > constraints.finish_ns[i]:
            return 0
    return 1


@part
def forget_shares(scratch: Scratch) -> None:
    """Reset: no request waits."""
    scratch.virtual_us[:] = 0
    scratch.virtual_us[-1] = -1


@part
def wait(demand: Demand, stage: int, scratch: Scratch, place: int, waiting: int) -> None:
    """The stage's entry at `place` joins its tenant's queue (`Shares.join`); `waiting` are in all
    queues."""
    i = demand.member[demand.start[stage] + place]
    key = -1 if demand.running[i] == stage else demand.key[i]
    entry = (key << KEY_BITS) | place
    if demand.tenant.shape[0] == 0:
        push(scratch.queue[0], waiting, entry)
        return
    tenant = demand.tenant[i]
    if scratch.waiting[tenant] == 0:
        if waiting > 0:
            scratch.virtual_us[-1] = max(scratch.virtual_us[-1], 0)
        joins_us = max(scratch.virtual_us[-1], 0)
        scratch.virtual_us[tenant] = max(scratch.virtual_us[tenant], joins_us)
    push(scratch.queue[tenant], scratch.waiting[tenant], entry)
    scratch.waiting[tenant] += 1


@part
def first_tenant(scratch: Scratch) -> int:
    """The tenant whose request is next: of those that run already, else `Shares.first`."""
    first = -1
    for tenant in range(scratch.waiting.shape[0]):
        if scratch.waiting[tenant] == 0:
            continue
        if scratch.queue[tenant, 0] < 0:
            return tenant
        if first < 0 or scratch.virtual_us[tenant] < scratch.virtual_us[first]:
            first = tenant
    return first


@part
def take_next(demand: Demand, stage: int, scratch: Scratch, tenant: int, waiting: int) -> int:
    """Remove the tenant's first entry from its queue and charge it (`FairQueue.pop`)."""
    if demand.tenant.shape[0] == 0:
        return int(demand.start[stage] + (pop(scratch.queue[0], waiting) & PLACE_MASK))
    entry = pop(scratch.queue[tenant], scratch.waiting[tenant])
    found = demand.start[stage] + (entry & PLACE_MASK)
    scratch.waiting[tenant] -= 1
    if waiting == 1:
        forget_shares(scratch)
    elif entry >= 0 and scratch.virtual_us[-1] >= 0:
        scratch.virtual_us[-1] = max(scratch.virtual_us[-1], scratch.virtual_us[tenant])
        cost_us = max(demand.work_ns[found] // 1_000, COST_US_MIN)
        scratch.virtual_us[tenant] += int(np.ceil(cost_us / demand.weight[tenant]))
    return int(found)


@part
def expect(demand: Demand, stage: int, scratch: Scratch) -> None:
    """Nothing runs yet at the stage, and its entries are listed by the time they reach it."""
    begin, end = demand.start[stage], demand.start[stage + 1]
    origin_ns = span_ns = 0
    if begin < end:
        longest = 0
        for entry in range(begin, end):
            longest = max(longest, demand.work_ns[entry])
        reached_ns = scratch.reached.numbers
        origin_ns, span_ns = reached_ns[0], reached_ns[end - begin - 1] - reached_ns[0] + longest
    clear(scratch.agenda, origin_ns, span_ns, end - begin)


@part
def next_event(supply: Supply, stage: int, step: int, scratch: Scratch) -> int:
    """When a slot becomes free or their number changes; FAR = never."""
    soonest = soonest_ns(scratch.agenda)
    if step + 1 < supply.steps[stage]:
        soonest = min(soonest, supply.since_ns[stage, step + 1])
    return int(soonest)


@part
def end_until(agenda: Agenda, until_ns: int, peaks: Peaks, reached: int) -> int:
    """End what is done by `until_ns`; returns the bin reached."""
    while ended(agenda, until_ns):
        reached = spread(peaks, reached, agenda.near_ns[0], running(agenda))
        drop_soonest(agenda)
    return reached


@part
def keeps(
    demand: Demand, entry: int, constraints: Constraints, scratch: Scratch, now: Instant
) -> bool:
    """Whether a request that starts now can still meet its constraints."""
    i = demand.member[entry]
    latest = constraints.finish_ns[i]
    if now.at_ns + demand.work_ns[entry] + demand.after_ns[entry] > latest:
        return False
    queued = scratch.clock_ns[i] < now.at_ns
    return not (constraints.timeouts[0] and queued and now.at_ns + now.tail_ns > latest)


@part
def start(
    demand: Demand, entry: int, constraints: Constraints, scratch: Scratch, now: Instant
) -> bool:
    """A slot takes a request; false = a constraint is broken."""
    if not keeps(demand, entry, constraints, scratch, now):
        return False
    i = demand.member[entry]
    scratch.clock_ns[i] = now.at_ns + demand.work_ns[entry]
    add(scratch.agenda, i, now.at_ns, scratch.clock_ns[i])
    return True


@part
def start_waiting(
    demand: Demand, stage: int, constraints: Constraints, scratch: Scratch, now: Instant
) -> int:
    """Free slots take waiting requests; returns how many, -1 = a constraint is broken."""
    several = demand.tenant.shape[0] > 0
    started = tenant = 0
    while started < now.waiting:
        if several:
            tenant = first_tenant(scratch)
        if now.running + started >= now.capacity and scratch.queue[tenant, 0] >= 0:
            break
        entry = take_next(demand, stage, scratch, tenant, now.waiting - started)
        if not start(demand, entry, constraints, scratch, now):
            return -1
        started += 1
    return started


@in_place
def serve_sorted(
    demand: Demand,
    stage: int,
    supply: Supply,
    constraints: Constraints,
    scratch: Scratch,
    peaks: Peaks,
) -> bool:
    """Run one stage, instant by instant: its entries are listed by the time they reach it."""
    count = demand.start[stage + 1] - demand.start[stage]
    tail_ns = 0
    for later in range(stage, constraints.timeout_ns.shape[0]):
        tail_ns += constraints.timeout_ns[later]
    step = waiting = at = 0
    reached = -1
    scratch.waiting[:] = 0
    forget_shares(scratch)
    expect(demand, stage, scratch)
    reached_ns, order = scratch.reached.numbers, scratch.reached.order
    while at < count or waiting > 0:
        now_ns = reached_ns[at] if at < count else FAR_NS
        if waiting > 0:
            now_ns = min(now_ns, next_event(supply, stage, step, scratch))
            if now_ns == FAR_NS:
                return False
        reached = end_until(scratch.agenda, now_ns, peaks, reached)
        busy = running(scratch.agenda)
        reached = spread(peaks, reached, now_ns, busy)
        while step + 1 < supply.steps[stage] and supply.since_ns[stage, step + 1] <= now_ns:
            step += 1
        capacity = supply.slots[stage, step]
        if waiting == 0 and busy < capacity and (at + 1 == count or reached_ns[at + 1] > now_ns):
            now = Instant(now_ns, busy, 0, capacity, tail_ns)  # it is alone, and a slot is free
            if not start(demand, demand.start[stage] + order[at], constraints, scratch, now):
                return False
            mark(peaks, reached, now_ns, busy + 1)
            at += 1
            continue
        while at < count and reached_ns[at] == now_ns:
            wait(demand, stage, scratch, order[at], waiting)
            waiting += 1
            at += 1
        now = Instant(now_ns, busy, waiting, capacity, tail_ns)
        started = start_waiting(demand, stage, constraints, scratch, now)
        if started < 0:
            return False
        waiting -= started
        mark(peaks, reached, now_ns, busy + started)
    if peaks.busy.shape[0] > 0:
        end_until(scratch.agenda, FAR_NS, peaks, reached)
    return True


@jit
def serve(
    demand: Demand,
    stage: int,
    supply: Supply,
    constraints: Constraints,
    scratch: Scratch,
    busy: Ints,
    origin_ns: int,
    bin_ns: int,
) -> bool:
    """Run one stage: `scratch.clock_ns` holds release times on entry and finish times on return.

    `busy` receives the peak number of running requests per bin of time; empty = do not record it.
    Returns false as soon as a constraint is broken or work is left that no slot will ever take.
    """
    if demand.start.shape[0] == 0:
        raise ValueError("not by_stage")
    if busy.shape[0] == 0:
        free = serve_freely(demand, stage, supply, constraints, scratch)
        if free >= 0:
            return free == 1
    sort_by_release(demand, stage, scratch)
    peaks = Peaks(busy, origin_ns, bin_ns)
    return serve_sorted(demand, stage, supply, constraints, scratch, peaks)


@in_place
def release_all(demand: Demand, scratch: Scratch) -> None:
    """Reset: nothing has been served yet."""
    for i in range(demand.release_ns.shape[0]):
        scratch.clock_ns[i] = demand.release_ns[i]


@jit
def serve_from(
    demand: Demand, first: int, supply: Supply, constraints: Constraints, scratch: Scratch
) -> bool:
    """Run every stage from `first` on; false as soon as a constraint is broken.

    On entry `scratch.clock_ns` holds when each request is done with the stages before.
    """
    nothing = np.zeros(0, np.int64)
    for stage in range(first, demand.service_ns.shape[1]):
        if not serve(demand, stage, supply, constraints, scratch, nothing, 0, 1):
            return False
    return True


@jit
def serve_all(demand: Demand, supply: Supply, constraints: Constraints, scratch: Scratch) -> bool:
    """Run every stage; false as soon as a constraint is broken."""
    release_all(demand, scratch)
    return serve_from(demand, 0, supply, constraints, scratch)
