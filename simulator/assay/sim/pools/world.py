"""The simulated platform: requests move through pools of workers until their batches are complete.

Two implementations of one `World`: `ReferenceWorld` drives the platform's own `StagePool` from the
event engine and is the one to read; `FastWorld` is the same in compiled loops. Tests hold their
timed logs equal. Both stop early, after the instant in which a batch completed, so that a policy
can answer; a policy's `set_target` takes effect at the instant it is called.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol

from assay.core.errors import InvalidRequest
from assay.core.ordering import OrderKey, cost_us, order_key
from assay.core.stage_pool import (
    Arrived,
    Event,
    Finished,
    GiveUp,
    Item,
    Lost,
    Order,
    Ready,
    Release,
    Resized,
    StagePool,
    Start,
)
from assay.model.arrays import FAR_NS, Ints
from assay.sim.pools import kernel
from assay.sim.pools.cluster import Pools
from assay.sim.pools.engine import Engine
from assay.sim.pools.state import ENDED, QUEUED, State, build_state
from assay.sim.pools.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a batch's requests stand in the arrays."""

    batch: int
    first: int
    end: int


def places(workload: Workload) -> tuple[tuple[Place, ...], ...]:
    """`places[task][iteration]`."""
    first = batch = 0
    table = []
    for task in workload.batches:
        row = []
        for load in task:
            end = first + len(load.arrived_ns)
            row.append(Place(batch=batch, first=first, end=end))
            first, batch = end, batch + 1
        table.append(tuple(row))
    return tuple(table)


class World(Protocol):
    """What the runner needs of a simulated platform."""

    state: State
    places: tuple[tuple[Place, ...], ...]

    @property
    def now_ns(self) -> int:
        """The present."""

    def open_batch(self, task: int, iteration: int, deadline_ns: int) -> None:
        """The rollouts of a batch start now."""

    def set_target(self, pool: int, target: int) -> None:
        """Want this many workers from now on."""

    def advance(self, until_ns: int) -> int:
        """Run up to and including `until_ns`, or to the completion of a batch."""


class BaseWorld:
    """What both implementations share: the arrays and the opening of batches."""

    def __init__(
        self,
        workload: Workload,
        pools: Pools,
        deaths_ns: Ints,
        *,
        attempts_max: int = 3,
        fcfs: bool = False,
    ) -> None:
        self.workload = workload
        self.pools = pools
        self.places = places(workload)
        self.state = build_state(workload, pools, deaths_ns)
        self.attempts_max = attempts_max
        self.fcfs = fcfs

    @property
    def now_ns(self) -> int:
        """The present."""
        return int(self.state.now_ns[0])

    def open_batch(self, task: int, iteration: int, deadline_ns: int) -> None:
        """The rollouts of a batch start now; one batch a task is open at a time."""
        state, place = self.state, self.places[task][iteration]
        if state.next_request[task] != state.end_request[task]:
            raise InvalidRequest(f"task {task} has an open batch", field="task")
        arrivals = self.workload.batches[task][iteration].arrived_ns
        state.arrived_ns[place.first : place.end] = self.now_ns + arrivals
        state.opened_ns[place.batch] = self.now_ns
        state.rank[place.batch] = order_key(deadline_ns=deadline_ns, sequence=0).deadline_ms
        state.next_request[task], state.end_request[task] = place.first, place.end

    def check_target(self, pool: int, target: int) -> None:
        """Refuse what no pool can have."""
        room = min(int(self.pools.caps[pool]), self.state.ready_ns.shape[1])
        if not 0 <= target <= room:
            message = f"pool {pool}: {target} workers are not in [0, {room}]"
            raise InvalidRequest(message, field="target")


class FastWorld(BaseWorld):
    """Compiled."""

    def set_target(self, pool: int, target: int) -> None:
        """Want this many workers from now on."""
        self.check_target(pool, target)
        kernel.apply_target(self.state, pool, target)

    def advance(self, until_ns: int) -> int:
        """Run up to and including `until_ns`, or to the completion of a batch."""
        elastic, attempts = self.pools.elastic, self.attempts_max
        return kernel.advance(self.state, until_ns, self.fcfs, elastic, attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An entry of the engine: a request comes, or something befalls a worker of a pool."""

    pool: int
    event: Event | None = None
    request: int = -1
    claim: int = -1
    """Of which start this is the end; a claim that was cut short leaves a stale entry."""


class ReferenceWorld(BaseWorld):
    """Readable: `StagePool` objects, driven by `Engine`. Not for elastic pools."""

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
        items_max = len(self.state.arrived_ns)
        self.stage_pools = [
            StagePool(items_max=items_max, attempts_max=attempts_max, workers_max=int(cap))
            for cap in pools.caps
        ]
        self.engine: Engine[Happening] = Engine()
        self.claims: list[dict[int, int]] = [{} for _ in self.stage_pools]
        self._claim_count = 0

    def open_batch(self, task: int, iteration: int, deadline_ns: int) -> None:
        """The rollouts of a batch start now."""
        super().open_batch(task, iteration, deadline_ns)
        place = self.places[task][iteration]
        for request in range(place.first, place.end):
            at_ns = int(self.state.arrived_ns[request])
            self.engine.schedule(at_ns, Happening(pool=-1, request=request))

    def set_target(self, pool: int, target: int) -> None:
        """Want this many workers from now on."""
        self.check_target(pool, target)
        self.state.target[pool] = target
        self.account(pool)
        self.handle(pool, [Resized(target=target)])

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
        for pool in range(len(self.stage_pools)):
            self.account(pool)
        return self.now_ns

    def run_instant(self, happenings: list[Happening]) -> None:
        """Pool by pool in the order of the stages; a hand-over joins its next pool in time."""
        inbox: dict[int, list[Event]] = defaultdict(list)
        for happening in happenings:
            if happening.event is None:
                self.state.next_request[self.state.task_of[happening.request]] += 1
                self.move_on(happening.request, -1, inbox)
            elif self.is_current(happening):
                inbox[happening.pool].append(happening.event)
        for pool in range(len(self.stage_pools)):
            if inbox[pool]:
                self.account(pool)
                self.take_ends(pool, inbox)
                self.handle(pool, inbox[pool])

    def is_current(self, happening: Happening) -> bool:
        """False for the end of a claim whose worker died before."""
        event = happening.event
        if happening.claim < 0 or not isinstance(event, Finished | Lost):
            return True
        return self.claims[happening.pool].get(event.worker) == happening.claim

    def take_ends(self, pool: int, inbox: dict[int, list[Event]]) -> None:
        """Write the ends of claims into the log and hand requests over."""
        running = self.stage_pools[pool].running
        for event in inbox[pool]:
            if not isinstance(event, Finished | Lost) or event.worker not in running:
                continue
            request = running[event.worker].key.sequence
            self.claims[pool].pop(event.worker)
            self.state.busy_ns[pool] += self.now_ns - self.state.since_ns[request]
            self.state.since_ns[request] = QUEUED
            if isinstance(event, Lost):
                self.state.deaths[pool] += 1
                continue
            stage = int(self.state.stage_now[request])
            self.state.finish_ns[request, stage] = self.now_ns
            self.move_on(request, stage, inbox)

    def move_on(self, request: int, after: int, inbox: dict[int, list[Event]]) -> None:
        """To the queue of the next stage with work, or to the end."""
        state = self.state
        following = range(after + 1, state.service_ns.shape[1])
        stage = next((j for j in following if state.service_ns[request, j] > 0), None)
        if stage is None:
            self.end(request)
            return
        state.stage_now[request] = stage
        pool = int(state.pool_of[state.task_of[request], stage])
        inbox[pool].append(Arrived(item=self.item(request, stage)))

    def item(self, request: int, stage: int) -> Item:
        """The request at a stage, with what its tenant is charged for it."""
        state, task = self.state, self.state.task_of[request]
        return Item(
            key=self.key(request),
            tenant=0 if self.fcfs else int(state.tenant_of[task]),
            weight=float(state.weight[task]),
            cost_us=cost_us(int(state.service_ns[request, stage])),
        )

    def key(self, request: int) -> OrderKey:
        """Earliest batch first, or first come, first served."""
        if self.fcfs:
            return order_key(deadline_ns=self.now_ns, sequence=request)
        deadline_ms = int(self.state.rank[self.state.batch_of[request]])
        return OrderKey(deadline_ms=deadline_ms, sequence=request)

    def end(self, request: int) -> None:
        """The request is over; its batch may be."""
        state, batch = self.state, self.state.batch_of[request]
        state.stage_now[request] = ENDED
        state.since_ns[request] = QUEUED
        state.ended_ns[request] = self.now_ns
        state.remaining[batch] -= 1
        if state.remaining[batch] == 0:
            state.completed_ns[batch] = self.now_ns
            state.completions[0] += 1

    def handle(self, pool: int, events: list[Event]) -> None:
        """Let the pool decide and carry its effects out."""
        for effect in self.stage_pools[pool].handle(events):
            if isinstance(effect, Start):
                self.start(pool, effect.worker, effect.item)
            elif isinstance(effect, Order):
                self.order(pool, effect.worker)
            elif isinstance(effect, GiveUp):
                self.state.lost[effect.item.key.sequence] = 1
                self.end(effect.item.key.sequence)
            elif not isinstance(effect, Release):
                raise InvalidRequest("the queue is full", field="items_max")
        self.show(pool)

    def order(self, pool: int, worker: int) -> None:
        """A new worker starts up."""
        startup = self.state.startup_ns[pool]
        delay = int(startup[self.state.ordered[pool] % len(startup)])
        self.state.ordered[pool] += 1
        self.engine.schedule(self.now_ns + delay, Happening(pool=pool, event=Ready(worker=worker)))

    def start(self, pool: int, worker: int, item: Item) -> None:
        """A claim begins; its end, or its worker's, is known to the simulation only."""
        state, request = self.state, item.key.sequence
        stage = int(state.stage_now[request])
        state.since_ns[request] = state.start_ns[request, stage] = self.now_ns
        state.attempt[request] = item.attempt
        lasts = self.holds_ns(request, stage)
        event: Event = Finished(worker=worker)
        if len(state.deaths_ns):
            after = int(state.deaths_ns[request, stage, item.attempt - 1])
            if 0 <= after < lasts:
                lasts, event = after, Lost(worker=worker)
        self._claim_count += 1
        self.claims[pool][worker] = self._claim_count
        happening = Happening(pool=pool, event=event, claim=self._claim_count)
        self.engine.schedule(self.now_ns + lasts, happening)

    def holds_ns(self, request: int, stage: int) -> int:
        """How long the claim will hold its worker."""
        return int(self.state.service_ns[request, stage])

    def show(self, pool: int) -> None:
        """Keep the arrays that policies look at in step with the pool."""
        stage_pool, state = self.stage_pools[pool], self.state
        state.idle[pool] = stage_pool.idle
        state.running[pool] = len(stage_pool.running)
        state.starting[pool] = stage_pool.starting
        state.waiting[pool] = len(stage_pool.waiting)
        state.next_ready_ns[pool] = FAR_NS

    def account(self, pool: int) -> None:
        """Charge the workers held since the last change."""
        state = self.state
        held = self.stage_pools[pool].held
        state.held_ns[pool] += held * (self.now_ns - state.held_since_ns[pool])
        state.held_since_ns[pool] = self.now_ns
