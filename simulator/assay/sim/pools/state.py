"""The state of a simulated platform, as arrays for a compiled loop.

Requests are numbered by task, then batch, then arrival; that number is their
`sequence`. Tenants are numbered in the order of their names and have one queue per pool. A
queue entry is one integer, `rank << SEQUENCE_BITS | sequence`, which sorts exactly as
`core.ordering.order_key`: `rank` is the batch's deadline in milliseconds under Earliest Batch First
and the time of joining the queue under first come, first served (where all are tenant 0).
"""

from typing import Final, NamedTuple

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import FAR_NS, Floats, Ints
from assay.sim.pools.cluster import Pools
from assay.sim.pools.workload import Workload

SEQUENCE_BITS: Final = 24
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1
FUTURE: Final = -1
"""`stage_now` of a request that has not arrived."""
ENDED: Final = 1_000
"""`stage_now` of a request that has ended."""
QUEUED: Final = -1
"""`since_ns` of a request that waits or has not arrived."""


class State(NamedTuple):
    """All mutable; indexed by request `r`, stage `j`, pool `p`, task `k` or batch `b`."""

    arrived_ns: Ints
    """r: absolute; FAR until the batch is opened."""
    service_ns: Ints
    """r, j"""
    deaths_ns: Ints
    """r, j, attempt; empty when no slot dies."""
    batch_of: Ints
    """r"""
    task_of: Ints
    """r"""
    stage_now: Ints
    """r: FUTURE, a stage, or ENDED."""
    since_ns: Ints
    """r: when the present stage started to run, or QUEUED."""
    entry: Ints
    """r: its entry in the queue of the present stage."""
    attempt: Ints
    """r: claims of the present stage."""
    lost: Ints
    """r: 1 = ended as INFRA_FAILED."""
    start_ns: Ints
    """r, j: start of the claim that counted; 0 = never."""
    finish_ns: Ints
    """r, j"""
    ended_ns: Ints
    """r"""
    next_request: Ints
    """k: the next to arrive."""
    end_request: Ints
    """k: one past the last of the open batch."""
    rank: Ints
    """b: deadline in milliseconds."""
    remaining: Ints
    """b: requests not ended."""
    completed_ns: Ints
    """b: 0 = not complete."""
    completions: Ints
    """One entry: batches completed so far."""
    opened_ns: Ints
    """b: -1 = not opened."""
    pool_of: Ints
    """k, j"""
    startup_ns: Ints
    """p, draw"""
    target: Ints
    """p: slots to hold."""
    idle: Ints
    """p"""
    running: Ints
    """p"""
    starting: Ints
    """p: entries of `ready_ns` in use."""
    ready_ns: Ints
    """p, place: when the slots being started are ready, in the order they were ordered."""
    next_ready_ns: Ints
    """p: the smallest of them."""
    ordered: Ints
    """p: slots ordered so far."""
    waiting: Ints
    """p: entries of `queue` in use."""
    queue: Ints
    """p, tenant, place: binary heap of queue entries."""
    waiting_of: Ints
    """p, tenant: how many of them."""
    tenant_of: Ints
    """k"""
    weight: Floats
    """k: the tenant's."""
    virtual_us: Ints
    """p, tenant: as in `core.ordering.Shares`, of tenants that wait and of those that do not."""
    shares_now_us: Ints
    """p: the virtual time at which tenants join."""
    since: Ints
    """p: starts after which tenants are charged; -1 = one tenant only has waited."""
    claims: Ints
    """p: starts so far."""
    charged_us: Ints
    """r: by how much its tenant's virtual time was moved for it at the present stage ..."""
    claim: Ints
    """r: ... by the start of this number."""
    done_ns: Ints
    """p, place: binary heap of the ends of running claims ..."""
    done_request: Ints
    """p, place: ... and whose they are, doubled; odd = the slot dies then."""
    held_ns: Ints
    """p: integral of held slots over time."""
    busy_ns: Ints
    """p: time that slots spent on claims."""
    held_since_ns: Ints
    """p: `held_ns` is complete up to here."""
    deaths: Ints
    """p: slots lost."""
    now_ns: Ints
    """One entry."""


def build_state(workload: Workload, pools: Pools, deaths_ns: Ints) -> State:
    """A platform at time 0, with no slots and no open batch."""
    flat = [batch for task in workload.batches for batch in task]
    sizes = np.array([len(batch.arrived_ns) for batch in flat], np.int64)
    requests, batches, count = int(sizes.sum()), len(flat), len(pools.stage_of)
    if requests > SEQUENCE_MASK:
        raise InvalidRequest(f"more than {SEQUENCE_MASK} requests", field="batches")
    task_of_batch = [k for k, task in enumerate(workload.batches) for _ in task]
    room = 1 + sum(max(len(b.arrived_ns) for b in task) for task in workload.batches)
    stages = len(workload.stages)
    names = sorted({task.tenant for task in workload.tasks})
    return State(
        arrived_ns=np.full(requests, FAR_NS, np.int64),
        service_ns=np.concatenate([batch.service_ns for batch in flat]),
        deaths_ns=deaths_ns,
        batch_of=np.repeat(np.arange(batches), sizes),
        task_of=np.repeat(np.array(task_of_batch, np.int64), sizes),
        stage_now=np.full(requests, FUTURE, np.int64),
        since_ns=np.full(requests, QUEUED, np.int64),
        entry=_zeros(requests),
        attempt=_zeros(requests),
        lost=_zeros(requests),
        start_ns=np.zeros((requests, stages), np.int64),
        finish_ns=np.zeros((requests, stages), np.int64),
        ended_ns=_zeros(requests),
        next_request=_zeros(len(workload.tasks)),
        end_request=_zeros(len(workload.tasks)),
        rank=_zeros(batches),
        remaining=sizes.copy(),
        completed_ns=_zeros(batches),
        completions=_zeros(1),
        opened_ns=np.full(batches, -1, np.int64),
        pool_of=pools.pool_of,
        startup_ns=pools.startup_ns,
        target=_zeros(count),
        idle=_zeros(count),
        running=_zeros(count),
        starting=_zeros(count),
        ready_ns=np.zeros((count, 4 * room), np.int64),
        next_ready_ns=np.full(count, FAR_NS, np.int64),
        ordered=_zeros(count),
        waiting=_zeros(count),
        queue=np.zeros((count, len(names), room), np.int64),
        waiting_of=np.zeros((count, len(names)), np.int64),
        tenant_of=np.array([names.index(task.tenant) for task in workload.tasks], np.int64),
        weight=np.array([task.weight for task in workload.tasks], np.float64),
        virtual_us=np.zeros((count, len(names)), np.int64),
        shares_now_us=_zeros(count),
        since=np.full(count, -1, np.int64),
        claims=_zeros(count),
        charged_us=_zeros(requests),
        claim=_zeros(requests),
        done_ns=np.zeros((count, 4 * room), np.int64),
        done_request=np.zeros((count, 4 * room), np.int64),
        held_ns=_zeros(count),
        busy_ns=_zeros(count),
        held_since_ns=_zeros(count),
        deaths=_zeros(count),
        now_ns=_zeros(1),
    )


def _zeros(count: int) -> Ints:
    return np.zeros(count, np.int64)
