"""The readable simulation of pools; tests compare the compiled one with it.

Queues are `core.fair_queue.FairQueue`, as in the model of the store: the order of service depends
on `core.ordering` alone. All events of one instant take effect together, pool by pool in the order
of the stages: slots are lost, slots become free, pools are resized, requests are admitted, idle
slots start waiting requests. A request that is handed over reaches its next pool within
the instant.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heapify, heappop, heappush

from assay.core.errors import InvalidRequest
from assay.core.fair_queue import FairQueue, Price
from assay.core.ordering import OrderKey, cost_us, order_key
from assay.model.arrays import FAR_NS, Ints
from assay.sim.pools.cluster import Pools
from assay.sim.pools.engine import PoolEngine
from assay.sim.pools.state import ENDED, QUEUED
from assay.sim.pools.workload import Workload
from assay.sim.pools.world import BaseWorld


@dataclass(slots=True, kw_only=True)
class PoolJob:
    """A request at one stage."""

    request: int
    key: OrderKey
    """Its place among the requests of its tenant; kept when it is delivered again."""
    tenant: int
    price: Price
    attempt: int = 1
    """Claims at this stage, including the current one."""
    charged: int = 0
    """Charge to its tenant's virtual time ..."""
    claim: int = 0
    """... by the claim of this number."""


class ReferencePool:
    """One pool: its queue and its slots.

    Between two instants: nothing waits while a slot is idle, and idle slots above
    the target have left. Slot numbers count up and are never reused.
    """

    def __init__(self) -> None:
        self.target = 0
        self.waiting: FairQueue[int, PoolJob] = FairQueue()
        self.starting: list[int] = []
        self.idle: list[int] = []
        """A heap."""
        self.running: dict[int, PoolJob] = {}
        self._claims = 0
        self._next_slot = 0

    @property
    def held(self) -> int:
        """Paid slots: starting, idle and running."""
        return len(self.starting) + len(self.idle) + len(self.running)

    def lose(self, slot: int) -> PoolJob | None:
        """The slot is lost. Returns the job that it ran."""
        if slot in self.starting:
            self.starting.remove(slot)
        elif slot in self.idle:
            self.idle.remove(slot)
            heapify(self.idle)
        return self.running.pop(slot, None)

    def become_ready(self, slot: int) -> None:
        """The slot is ready, unless it was released while it started."""
        if slot in self.starting:
            self.starting.remove(slot)
            heappush(self.idle, slot)

    def finish(self, slot: int) -> None:
        """The slot has finished its job."""
        self.running.pop(slot)
        heappush(self.idle, slot)

    def wait(self, job: PoolJob) -> None:
        """The job joins the queue."""
        self.waiting.push(job.tenant, job.key, job, claims=self._claims)

    def resize(self) -> list[int]:
        """Release slots above the target, the newest first. Returns slots to start."""
        ordered = list(range(self._next_slot, self._next_slot + self.target - self.held))
        self._next_slot += len(ordered)
        self.starting += ordered
        while self.held > self.target and self.starting:
            self.starting.pop()
        while self.held > self.target and self.idle:
            self.idle.remove(max(self.idle))
            heapify(self.idle)
        return ordered

    def claim(self) -> tuple[int, PoolJob] | None:
        """An idle slot takes the next job; `None` = no slot is idle or nothing waits."""
        if not self.idle or not self.waiting:
            return None
        slot = heappop(self.idle)
        job, charged = self.waiting.pop(self._price)
        self._claims += 1
        job.charged = job.charged if charged is None else charged
        job.claim = self._claims
        self.running[slot] = job
        return slot, job

    def _price(self, job: PoolJob) -> Price | None:
        return None if self.waiting.shares.charged(job.charged, job.claim) else job.price


class HappeningKind(Enum):
    """Kinds of events."""

    ARRIVED = auto()
    READY = auto()
    FINISHED = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A request arrives, or an event of a slot of a pool."""

    kind: HappeningKind
    pool: int = -1
    slot: int = -1
    request: int = -1
    claim: int = -1
    """The claim that ends; -1 = none. An entry of a claim that was cut short is stale."""


@dataclass(slots=True, kw_only=True)
class Inbox:
    """Events of one pool at one instant."""

    lost: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    arrived: list[PoolJob] = field(default_factory=list)


Inboxes = defaultdict[int, Inbox]


class ReferenceWorld(BaseWorld):
    """Pools driven by a heap of events. Not for elastic pools."""

    def __init__(
        self,
        workload: Workload,
        pools: Pools,
        deaths_ns: Ints,
        *,
        attempts_max: int = 3,
        fcfs: bool = False,
    ) -> None:
        super().__init__(workload, pools, deaths_ns, attempts_max=attempts_max, fcfs=fcfs)
        if pools.elastic:
            raise InvalidRequest("the reference has no elastic pools", field="elastic")
        self.slot_pools = [ReferencePool() for _ in pools.caps]
        self.engine: PoolEngine[Happening] = PoolEngine()
        self.claims: list[dict[int, int]] = [{} for _ in self.slot_pools]
        self._claim_count = 0

    def open_batch(self, task: int, iteration: int, deadline_ns: int) -> None:
        """Open a batch: its rollouts start now."""
        super().open_batch(task, iteration, deadline_ns)
        place = self.places[task][iteration]
        for request in range(place.first, place.end):
            at_ns = int(self.state.arrived_ns[request])
            self.engine.schedule(at_ns, Happening(kind=HappeningKind.ARRIVED, request=request))

    def set_target(self, pool: int, target: int) -> None:
        """Hold this many slots from now on."""
        self.check_target(pool, target)
        self.state.target[pool] = self.slot_pools[pool].target = target
        self.account(pool)
        self.settle(pool, Inbox())

    def advance(self, until_ns: int) -> int:
        """Run up to and including `until_ns`, or to the completion of a batch."""
        completions = int(self.state.completions[0])
        while self.state.completions[0] == completions:
            next_ns = self.engine.next_ns
            if next_ns is None or next_ns > until_ns:
                self.state.now_ns[0] = max(until_ns, self.now_ns)
                self.engine.now_ns = self.now_ns
                break
            happenings = self.engine.pop_instant()
            self.state.now_ns[0] = self.engine.now_ns
            self.run_instant(happenings)
        for pool in range(len(self.slot_pools)):
            self.account(pool)
        return self.now_ns

    def run_instant(self, happenings: list[Happening]) -> None:
        """Process all events of now, pool by pool."""
        inboxes: Inboxes = defaultdict(Inbox)
        for happening in happenings:
            self.sort_in(happening, inboxes)
        for pool in range(len(self.slot_pools)):
            if pool in inboxes:
                self.account(pool)
                self.take_ends(pool, inboxes)
                self.settle(pool, inboxes[pool])

    def sort_in(self, happening: Happening, inboxes: Inboxes) -> None:
        """Put an event into the inbox of its pool."""
        match happening.kind:
            case HappeningKind.ARRIVED:
                self.state.next_request[self.state.task_of[happening.request]] += 1
                self.move_on(happening.request, -1, inboxes)
            case HappeningKind.READY:
                inboxes[happening.pool].ready.append(happening.slot)
            case HappeningKind.FINISHED if self.is_current(happening):
                inboxes[happening.pool].finished.append(happening.slot)
            case HappeningKind.LOST if self.is_current(happening):
                inboxes[happening.pool].lost.append(happening.slot)

    def is_current(self, happening: Happening) -> bool:
        """False for the end of a claim whose slot was lost before."""
        if happening.claim < 0:
            return True
        return self.claims[happening.pool].get(happening.slot) == happening.claim

    def take_ends(self, pool: int, inboxes: Inboxes) -> None:
        """Log the ends of claims, and hand finished requests over."""
        running, inbox = self.slot_pools[pool].running, inboxes[pool]
        for slot in inbox.lost:
            if slot in running:
                self.log_end(pool, slot)
                self.state.deaths[pool] += 1
        for slot in inbox.finished:
            request = self.log_end(pool, slot)
            stage = int(self.state.stage_now[request])
            self.state.finish_ns[request, stage] = self.now_ns
            self.move_on(request, stage, inboxes)

    def log_end(self, pool: int, slot: int) -> int:
        """The slot's claim has ended. Returns its request."""
        request = self.slot_pools[pool].running[slot].request
        self.claims[pool].pop(slot)
        self.state.busy_ns[pool] += self.now_ns - self.state.since_ns[request]
        self.state.since_ns[request] = QUEUED
        return request

    def settle(self, pool: int, inbox: Inbox) -> None:
        """Process the inbox, in the order that the module states."""
        slots = self.slot_pools[pool]
        for slot in inbox.lost:
            job = slots.lose(slot)
            if job is not None:
                self.deliver_again(slots, job)
        for slot in inbox.finished:
            slots.finish(slot)
        for slot in inbox.ready:
            slots.become_ready(slot)
        for slot in slots.resize():
            self.order(pool, slot)
        for job in sorted(inbox.arrived, key=lambda job: job.key):
            slots.wait(job)
        while (claimed := slots.claim()) is not None:
            self.start(pool, *claimed)
        self.show(pool)

    def deliver_again(self, slots: ReferencePool, job: PoolJob) -> None:
        """The job waits again, or its request ends as lost after its last attempt."""
        if job.attempt >= self.attempts_max:
            self.state.lost[job.request] = 1
            self.end(job.request)
            return
        job.attempt += 1
        self.state.attempt[job.request] = job.attempt
        slots.wait(job)

    def move_on(self, request: int, after: int, inboxes: Inboxes) -> None:
        """Hand the request to its next stage with work, or end it."""
        state = self.state
        following = range(after + 1, state.service_ns.shape[1])
        stage = next((j for j in following if state.service_ns[request, j] > 0), None)
        if stage is None:
            self.end(request)
            return
        state.stage_now[request] = stage
        state.attempt[request] = 1
        pool = int(state.pool_of[state.task_of[request], stage])
        inboxes[pool].arrived.append(self.job(request, stage))

    def job(self, request: int, stage: int) -> PoolJob:
        """The request at a stage, with its tenant's charge."""
        state, task = self.state, self.state.task_of[request]
        took_us = cost_us(int(state.service_ns[request, stage]))
        return PoolJob(
            request=request,
            key=self.key(request),
            tenant=0 if self.fcfs else int(state.tenant_of[task]),
            price=Price(took_us, float(state.weight[task])),
        )

    def key(self, request: int) -> OrderKey:
        """Earliest batch first, or first come, first served."""
        if self.fcfs:
            return order_key(deadline_ns=self.now_ns, sequence=request)
        deadline_ms = int(self.state.rank[self.state.batch_of[request]])
        return OrderKey(deadline_ms=deadline_ms, sequence=request)

    def end(self, request: int) -> None:
        """The request has ended; its batch may be complete."""
        state, batch = self.state, self.state.batch_of[request]
        state.stage_now[request] = ENDED
        state.since_ns[request] = QUEUED
        state.ended_ns[request] = self.now_ns
        state.remaining[batch] -= 1
        if state.remaining[batch] == 0:
            state.completed_ns[batch] = self.now_ns
            state.completions[0] += 1

    def order(self, pool: int, slot: int) -> None:
        """A new slot starts up."""
        startup = self.state.startup_ns[pool]
        delay = int(startup[self.state.ordered[pool] % len(startup)])
        self.state.ordered[pool] += 1
        happening = Happening(kind=HappeningKind.READY, pool=pool, slot=slot)
        self.engine.schedule(self.now_ns + delay, happening)

    def start(self, pool: int, slot: int, job: PoolJob) -> None:
        """A claim begins. Its end, or its slot's loss, is known to the simulation only."""
        state, request = self.state, job.request
        stage = int(state.stage_now[request])
        state.since_ns[request] = state.start_ns[request, stage] = self.now_ns
        lasts, kind = self.holds_ns(request, stage), HappeningKind.FINISHED
        if len(state.deaths_ns):
            after = int(state.deaths_ns[request, stage, job.attempt - 1])
            if 0 <= after < lasts:
                lasts, kind = after, HappeningKind.LOST
        self._claim_count += 1
        self.claims[pool][slot] = self._claim_count
        happening = Happening(kind=kind, pool=pool, slot=slot, claim=self._claim_count)
        self.engine.schedule(self.now_ns + lasts, happening)

    def holds_ns(self, request: int, stage: int) -> int:
        """Time that the claim will hold its slot."""
        return int(self.state.service_ns[request, stage])

    def show(self, pool: int) -> None:
        """Copy the counts into the arrays that policies see."""
        slots, state = self.slot_pools[pool], self.state
        state.idle[pool] = len(slots.idle)
        state.running[pool] = len(slots.running)
        state.starting[pool] = len(slots.starting)
        state.waiting[pool] = len(slots.waiting)
        state.next_ready_ns[pool] = FAR_NS

    def account(self, pool: int) -> None:
        """Charge the slots held since the last change."""
        state = self.state
        held = self.slot_pools[pool].held
        state.held_ns[pool] += held * (self.now_ns - state.held_since_ns[pool])
        state.held_since_ns[pool] = self.now_ns
