"""The simulated platform's inner loop, compiled by numba.

It does what `assay.sim.pools.reference.ReferenceWorld` does. At each instant, pool by pool in the
order of the stages: lost slots leave, claims end, started slots join, requests are
admitted, and idle slots start waiting requests. Nothing is allocated. What only several tenants
need is called for these alone.
"""

import numpy as np

from assay.core.ordering import COST_US_MIN
from assay.model.arrays import FAR_NS
from assay.model.heap import pop, pop_pair, push, push_pair
from assay.model.jit import in_place
from assay.sim.pools.state import ENDED, QUEUED, SEQUENCE_BITS, SEQUENCE_MASK, State


@in_place
def account(state: State, pool: int, now_ns: int) -> None:
    """Charge the slots held since the last change."""
    held = state.starting[pool] + state.idle[pool] + state.running[pool]
    state.held_ns[pool] += held * (now_ns - state.held_since_ns[pool])
    state.held_since_ns[pool] = now_ns


@in_place
def resize(state: State, pool: int, now_ns: int) -> None:
    """Order missing slots; release excess ones: starting ones first, then idle ones."""
    account(state, pool, now_ns)
    held = state.starting[pool] + state.idle[pool] + state.running[pool]
    while held < state.target[pool]:
        delay = state.startup_ns[pool, state.ordered[pool] % state.startup_ns.shape[1]]
        state.ready_ns[pool, state.starting[pool]] = now_ns + delay
        if now_ns + delay < state.next_ready_ns[pool]:
            state.next_ready_ns[pool] = now_ns + delay
        state.starting[pool] += 1
        state.ordered[pool] += 1
        held += 1
    surplus = held - state.target[pool]
    cancelled = min(max(surplus, 0), state.starting[pool])
    if cancelled > 0:
        state.starting[pool] -= cancelled
        find_next_ready(state, pool)
    released = min(max(surplus - cancelled, 0), state.idle[pool])
    state.idle[pool] -= released


@in_place
def find_next_ready(state: State, pool: int) -> None:
    """Recompute the smallest of the ready times."""
    smallest = FAR_NS
    for place in range(state.starting[pool]):
        smallest = min(smallest, state.ready_ns[pool, place])
    state.next_ready_ns[pool] = smallest


@in_place
def take_ready(state: State, pool: int, now_ns: int) -> None:
    """Ready slots join the idle ones."""
    if state.next_ready_ns[pool] > now_ns:
        return
    kept = 0
    for place in range(state.starting[pool]):
        if state.ready_ns[pool, place] <= now_ns:
            state.idle[pool] += 1
        else:
            state.ready_ns[pool, kept] = state.ready_ns[pool, place]
            kept += 1
    state.starting[pool] = kept
    find_next_ready(state, pool)


@in_place
def end_request(state: State, request: int, now_ns: int) -> None:
    """The request has ended; its batch may be complete."""
    batch = state.batch_of[request]
    state.stage_now[request] = ENDED
    state.since_ns[request] = QUEUED
    state.ended_ns[request] = now_ns
    state.remaining[batch] -= 1
    if state.remaining[batch] == 0:
        state.completed_ns[batch] = now_ns
        state.completions[0] += 1


@in_place
def next_stage(state: State, request: int, after: int) -> int:
    """The next stage with work for the request, or -1."""
    for stage in range(after + 1, state.service_ns.shape[1]):
        if state.service_ns[request, stage] > 0:
            return stage
    return -1


@in_place
def enqueue(state: State, request: int, stage: int, now_ns: int, fcfs: bool) -> None:  # noqa: FBT001 - numba has no keyword-only arguments
    """Put the request into the stage's queue, or end it when no stage is left (-1)."""
    if stage < 0:
        end_request(state, request, now_ns)
        return
    pool = state.pool_of[state.task_of[request], stage]
    rank = -(-now_ns // 1_000_000) if fcfs else state.rank[state.batch_of[request]]
    state.entry[request] = (rank << SEQUENCE_BITS) | request
    state.stage_now[request] = stage
    state.attempt[request] = 0
    wait_for_attempt(state, pool, request, fcfs)


@in_place
def wait_for_attempt(state: State, pool: int, request: int, fcfs: bool) -> None:  # noqa: FBT001 - as above
    """Put the request into its queue for its next attempt, in the order that it has there."""
    state.since_ns[request] = QUEUED
    state.attempt[request] += 1
    tenant = 0 if fcfs or state.virtual_us.shape[1] == 1 else join(state, pool, request)
    push(state.queue[pool, tenant], state.waiting_of[pool, tenant], state.entry[request])
    state.waiting_of[pool, tenant] += 1
    state.waiting[pool] += 1


@in_place
def join(state: State, pool: int, request: int) -> int:
    """One of several tenants gets one more waiting request (`Shares.join`); returns which."""
    tenant = state.tenant_of[state.task_of[request]]
    if state.waiting_of[pool, tenant] == 0:
        if state.waiting[pool] > 0 and state.since[pool] < 0:
            state.since[pool] = state.claims[pool]
        now_us = state.shares_now_us[pool]
        state.virtual_us[pool, tenant] = max(state.virtual_us[pool, tenant], now_us)
    if state.attempt[request] == 1:
        state.charged_us[request] = 0
    return int(tenant)


@in_place
def first_tenant(state: State, pool: int) -> int:
    """The tenant whose request is next (`Shares.first`)."""
    first = -1
    for tenant in range(state.waiting_of.shape[1]):
        if state.waiting_of[pool, tenant] > 0 and (
            first < 0 or state.virtual_us[pool, tenant] < state.virtual_us[pool, first]
        ):
            first = tenant
    return first


@in_place
def charge(state: State, pool: int, tenant: int, request: int) -> None:
    """The virtual time of one of several tenants moves by what the request takes, once per stage
    (`FairQueue.pop`)."""
    since = state.since[pool]
    if since < 0:
        state.charged_us[request] = 0
    elif state.charged_us[request] == 0 or state.claim[request] <= since:
        virtual_us = state.virtual_us[pool, tenant]
        state.shares_now_us[pool] = max(state.shares_now_us[pool], virtual_us)
        took_ns = state.service_ns[request, state.stage_now[request]]
        cost_us = max(took_ns // 1_000, COST_US_MIN)
        advance_us = int(np.ceil(cost_us / state.weight[state.task_of[request]]))
        state.charged_us[request] = advance_us
        state.virtual_us[pool, tenant] = virtual_us + advance_us
    state.claims[pool] += 1
    state.claim[request] = state.claims[pool]
    if state.waiting[pool] == 0:
        state.virtual_us[pool, :] = 0
        state.shares_now_us[pool] = 0
        state.since[pool] = -1


@in_place
def take_ends(state: State, pool: int, now_ns: int, fcfs: bool, attempts_max: int) -> None:  # noqa: FBT001 - as above
    """Claims that end now: hand over, or deliver again if the slot died."""
    while state.running[pool] > 0 and state.done_ns[pool, 0] <= now_ns:
        code = pop_pair(state.done_ns[pool], state.done_request[pool], state.running[pool])
        state.running[pool] -= 1
        request = code >> 1
        stage = state.stage_now[request]
        state.busy_ns[pool] += now_ns - state.since_ns[request]
        if code & 1 == 0:
            state.idle[pool] += 1
            state.finish_ns[request, stage] = now_ns
            enqueue(state, request, next_stage(state, request, stage), now_ns, fcfs)
            continue
        state.deaths[pool] += 1
        if state.attempt[request] >= attempts_max:
            state.lost[request] = 1
            end_request(state, request, now_ns)
            continue
        wait_for_attempt(state, pool, request, fcfs)


@in_place
def start_one(state: State, pool: int, now_ns: int, cold_ns: int) -> None:
    """The first of the queue starts to run."""
    several = state.virtual_us.shape[1] > 1
    tenant = first_tenant(state, pool) if several else 0
    request = pop(state.queue[pool, tenant], state.waiting_of[pool, tenant]) & SEQUENCE_MASK
    state.waiting_of[pool, tenant] -= 1
    state.waiting[pool] -= 1
    if several:
        charge(state, pool, tenant, request)
    stage = state.stage_now[request]
    state.since_ns[request] = now_ns
    state.start_ns[request, stage] = now_ns
    lasts = state.service_ns[request, stage]
    died = 0
    if state.deaths_ns.shape[0] > 0:
        after = state.deaths_ns[request, stage, state.attempt[request] - 1]
        if 0 <= after < lasts:
            lasts = after
            died = 1
    end_ns = now_ns + cold_ns + lasts
    place = state.running[pool]
    push_pair(state.done_ns[pool], state.done_request[pool], place, end_ns, 2 * request + died)
    state.running[pool] += 1


@in_place
def start_waiting(state: State, pool: int, now_ns: int, elastic: bool) -> None:  # noqa: FBT001 - as above
    """Idle slots take waiting requests; elastic pools create a slot for each."""
    if elastic:
        state.idle[pool] = 0
        while state.waiting[pool] > 0:
            draw = state.ordered[pool] % state.startup_ns.shape[1]
            state.ordered[pool] += 1
            start_one(state, pool, now_ns, state.startup_ns[pool, draw])
        return
    while state.idle[pool] > 0 and state.waiting[pool] > 0:
        state.idle[pool] -= 1
        start_one(state, pool, now_ns, 0)


@in_place
def next_instant(state: State) -> int:
    """Time of the next event."""
    soonest = FAR_NS
    for task in range(state.next_request.shape[0]):
        if state.next_request[task] < state.end_request[task]:
            soonest = min(soonest, state.arrived_ns[state.next_request[task]])
    for pool in range(state.target.shape[0]):
        soonest = min(soonest, state.next_ready_ns[pool])
        if state.running[pool] > 0:
            soonest = min(soonest, state.done_ns[pool, 0])
    return soonest


@in_place
def take_arrivals(state: State, now_ns: int, fcfs: bool) -> None:  # noqa: FBT001 - as above
    """Requests that arrive now join the queue of their first stage with work."""
    for task in range(state.next_request.shape[0]):
        request = state.next_request[task]
        while request < state.end_request[task] and state.arrived_ns[request] <= now_ns:
            enqueue(state, request, next_stage(state, request, -1), now_ns, fcfs)
            request += 1
        state.next_request[task] = request


@in_place
def advance(state: State, until_ns: int, fcfs: bool, elastic: bool, attempts_max: int) -> int:  # noqa: FBT001 - as above
    """Run up to and including `until_ns`; stop early after an instant in which a batch completed.

    Returns the instant reached.
    """
    completions = state.completions[0]
    while state.completions[0] == completions:
        now_ns = next_instant(state)
        if now_ns > until_ns:
            state.now_ns[0] = max(until_ns, state.now_ns[0])
            break
        state.now_ns[0] = now_ns
        run_instant(state, now_ns, fcfs, elastic, attempts_max)
    for pool in range(state.target.shape[0]):
        account(state, pool, state.now_ns[0])
    return int(state.now_ns[0])


@in_place
def run_instant(state: State, now_ns: int, fcfs: bool, elastic: bool, attempts_max: int) -> None:  # noqa: FBT001 - as above
    """Process all events at `now_ns`."""
    take_arrivals(state, now_ns, fcfs)
    for pool in range(state.target.shape[0]):
        ends = state.running[pool] > 0 and state.done_ns[pool, 0] <= now_ns
        if not (ends or state.waiting[pool] > 0 or state.next_ready_ns[pool] <= now_ns):
            continue
        account(state, pool, now_ns)
        take_ends(state, pool, now_ns, fcfs, attempts_max)
        take_ready(state, pool, now_ns)
        if not elastic:
            resize(state, pool, now_ns)
        start_waiting(state, pool, now_ns, elastic)


@in_place
def apply_target(state: State, pool: int, target: int) -> None:
    """Set the target to `target` slots from now on."""
    state.target[pool] = target
    resize(state, pool, state.now_ns[0])
