"""Deterministic simulation testing: the real planner loop and stage pools, with faults, in virtual
time, checked after every instant. One seed always gives the same run.

Faults: slots crash, nodes are lost (many slots at once), slots start slowly, reports come
late, the planner's clock jumps, the store is down, leadership is lost. Each run disables some kinds
at random (swarm testing).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.core.ids import TaskId
from assay.model.arrays import SECOND_NS, to_ns
from assay.model.observation import Observation, Sizing
from assay.model.policy import PoolPolicy
from assay.planner.core.loop import (
    Effect,
    Observed,
    PlannerLoop,
    Readiness,
    Reorder,
    Resize,
    StoreDown,
    Wake,
)
from assay.planner.core.policy import Assay
from assay.sim.pools.cluster import Cluster, StartUp
from assay.sim.pools.reference import Happening, HappeningKind, PoolJob, ReferenceWorld
from assay.sim.pools.runner import Options, Runner
from assay.sim.pools.state import ENDED, FUTURE
from assay.sim.pools.workload import Drift, Stage, StageLoad, TaskLoad, draw_workload, steady
from assay.sim.pools.world import PoolWorld

DECISIONS_MAX: Final = 20_000
"""Limit on instants; a run that reaches it makes no progress."""


class PoolFault(StrEnum):
    """Kinds of faults."""

    CRASH = "crash"
    NODE_LOSS = "node_loss"
    SLOW_START = "slow_start"
    LATE_REPORT = "late_report"
    CLOCK_JUMP = "clock_jump"
    STORE_OUTAGE = "store_outage"
    LEASE_LOST = "lease_lost"


NODE_SLOTS: Final = 8
"""Slots that are lost with a node."""


class Broken(AssertionError):
    """An invariant is violated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyRun:
    """Result of a run."""

    seed: int
    faults: tuple[PoolFault, ...]
    instants: int
    strikes: int
    outages: int
    requests: int
    lost: int
    """Ended as INFRA_FAILED."""
    digest: str
    """Hash of the timed log: equal for equal seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike(Happening):
    """Several slots of a pool are lost at once."""

    count: int


class FaultyWorld(ReferenceWorld):
    """The reference world with faults, checked after every instant."""

    random: np.random.Generator
    faults: frozenset[PoolFault]
    instants = 0
    strikes = 0

    def arm(self, random: np.random.Generator, faults: frozenset[PoolFault], span_s: float) -> None:
        """Draw the times of faults."""
        self.random = random
        self.faults = faults
        self.log = hashlib.sha256()
        self.ended_once: set[int] = set()
        for kind, count in ((PoolFault.CRASH, 60), (PoolFault.NODE_LOSS, 4)):
            if kind not in faults:
                continue
            for at_s in random.uniform(0, span_s, count):
                pool = int(random.integers(len(self.slot_pools)))
                lost = 1 if kind is PoolFault.CRASH else NODE_SLOTS
                self.engine.schedule(
                    to_ns(at_s), Strike(kind=HappeningKind.LOST, pool=pool, count=lost)
                )

    def run_instant(self, happenings: list[Happening]) -> None:
        """Faults first, then the normal events, then the checks."""
        others = [h for h in happenings if not isinstance(h, Strike)]
        for strike in happenings:
            if isinstance(strike, Strike):
                others += self.victims(strike, others)
        super().run_instant(others)
        self.instants += 1
        check(self)

    def victims(self, strike: Strike, already: list[Happening]) -> list[Happening]:
        """Slots of the pool that are lost now; one that reports at this instant is skipped."""
        spared = {h.slot for h in already if h.kind is not HappeningKind.ARRIVED}
        there = sorted(set(self.slots(strike.pool)) - spared)
        self.random.shuffle(there)
        self.strikes += 1
        return [
            Happening(kind=HappeningKind.LOST, pool=strike.pool, slot=slot)
            for slot in there[: strike.count]
        ]

    def slots(self, pool: int) -> list[int]:
        """All held slots."""
        held = self.slot_pools[pool]
        return [*held.running, *held.starting, *held.idle]

    def order(self, pool: int, slot: int) -> None:
        """Some slots start slowly."""
        if PoolFault.SLOW_START in self.faults and self.random.random() < 0.1:
            delay = int(self.random.uniform(10, 120) * SECOND_NS)
            happening = Happening(kind=HappeningKind.READY, pool=pool, slot=slot)
            self.engine.schedule(self.now_ns + delay, happening)
            return
        super().order(pool, slot)

    def start(self, pool: int, slot: int, job: PoolJob) -> None:
        """Check that starts come in order."""
        waiting = [other.key for other in self.slot_pools[pool].waiting]
        if waiting and min(waiting) < job.key:
            raise Broken(f"pool {pool}: {job.key} started before {min(waiting)}")
        super().start(pool, slot, job)
        self.log.update(f"{self.now_ns} {pool} {slot} {job.key};".encode())

    def holds_ns(self, request: int, stage: int) -> int:
        """Some reports come late."""
        late_ns = 0
        if PoolFault.LATE_REPORT in self.faults and self.random.random() < 0.02:
            late_ns = int(self.random.uniform(1, 30) * SECOND_NS)
        return super().holds_ns(request, stage) + late_ns

    def end(self, request: int) -> None:
        """Check that each request ends once."""
        if request in self.ended_once:
            raise Broken(f"request {request} ended twice")
        self.ended_once.add(request)
        self.log.update(f"{self.now_ns} end {request};".encode())
        super().end(request)


def check(world: FaultyWorld) -> None:
    """Check the invariants after an instant.

    Raises:
        Broken: one is violated.
    """
    state, now_ns = world.state, world.now_ns
    running = waiting = 0
    for p, pool in enumerate(world.slot_pools):
        if pool.target > world.pools.caps[p]:
            raise Broken(f"{now_ns}: pool {p} has target {pool.target} above its cap")
        if pool.held > pool.target and (pool.starting or pool.idle):
            raise Broken(f"{now_ns}: pool {p} holds slots without work above its target")
        if len(pool.waiting) and pool.idle:
            raise Broken(f"{now_ns}: pool {p} has idle slots and waiting requests")
        running += len(pool.running)
        waiting += len(pool.waiting)
    present = (state.stage_now != FUTURE) & (state.stage_now != ENDED)
    if running + waiting != int(present.sum()):
        raise Broken(f"{now_ns}: {running} + {waiting} requests in pools, {present.sum()} present")
    ended = int((state.stage_now == ENDED).sum())
    if ended != len(world.ended_once) or int(state.remaining.sum()) != len(present) - ended:
        raise Broken(f"{now_ns}: {ended} requests ended, the batches count otherwise")
    if (state.held_ns < state.busy_ns).any():
        raise Broken(f"{now_ns}: slots were busy for longer than they were held")


def _resizes(effects: Iterable[Effect]) -> bool:
    return any(isinstance(effect, Resize) for effect in effects)


class LoopPolicy(PoolPolicy):
    """The planner loop behind the simulator's interface, with a store and a clock that fail."""

    name = "loop"

    def __init__(self, random: np.random.Generator, faults: frozenset[PoolFault]) -> None:
        self.random = random
        self.faults = faults
        settings = PlanSettings(
            futures=6, shape_futures=4, spare_slots=5, tick_s=5.0, peak_factors=(1.0,)
        )
        self.loop = PlannerLoop(Assay(settings))
        self.outages = 0
        self.targets: tuple[int, ...] = ()

    def decide(self, observation: Observation) -> Sizing:
        """One step of the loop, as the service would take it."""
        seen = replace(observation, now_ns=max(observation.now_ns + self.clock_error_ns(), 0))
        targets = [pool.target for pool in observation.pools]
        wake_ns = None
        order: tuple[int, ...] = ()
        for effect in self.effects_of(seen):
            match effect:
                case Resize():
                    targets[effect.pool] = effect.target
                case Reorder():
                    order = effect.tasks
                case Wake():
                    wake_ns = observation.now_ns + max(effect.at_ns - seen.now_ns, to_ns(1.0))
        if wake_ns is None:
            raise Broken("the loop does not ask to be woken")
        return Sizing(targets=tuple(targets), wake_ns=wake_ns, order=order)

    def effects_of(self, seen: Observation) -> Sequence[Effect]:
        """What the loop asks for: nothing but to be woken, if it may not or cannot know."""
        if PoolFault.STORE_OUTAGE in self.faults and self.random.random() < 0.05:
            return self.blind(seen.now_ns)
        leader = PoolFault.LEASE_LOST not in self.faults or self.random.random() > 0.05
        effects = self.loop.step(Observed(observation=seen, leader=leader))
        if not leader and _resizes(effects):
            raise Broken("a planner without the lease resized a pool")
        return effects

    def blind(self, now_ns: int) -> Sequence[Effect]:
        """A step while the store is down."""
        self.outages += 1
        why = "the store cannot be reached"
        effects = self.loop.step(StoreDown(now_ns=now_ns, why=why))
        if _resizes(effects):
            raise Broken("a blind planner resized a pool")
        if Readiness(ready=False, why=why) not in effects:
            raise Broken("a blind planner says that it is ready")
        return effects

    def clock_error_ns(self) -> int:
        """Sometimes the planner's clock is wrong."""
        if PoolFault.CLOCK_JUMP in self.faults and self.random.random() < 0.05:
            return int(self.random.uniform(-120, 120) * SECOND_NS)
        return 0


class FaultyRunner(Runner):
    """Runs the policy against the faulty world."""

    def build_world(self, cluster: Cluster) -> PoolWorld:
        """Armed by the policy's own random source."""
        policy = self.policy
        assert isinstance(policy, LoopPolicy)  # noqa: S101 - built together
        none = np.zeros((0, len(self.workload.stages), 3), np.int64)
        world = FaultyWorld(self.workload, self.pools, none, attempts_max=8)
        world.arm(policy.random, policy.faults, span_s=700.0)
        return world


def small_task(random: np.random.Generator, number: int) -> TaskLoad:
    """A small task that is simulated quickly."""
    return TaskLoad(
        name=TaskId(f"task-{number}"),
        stages=tuple(
            StageLoad(
                stage=stage,
                median_s=Drift(first=float(random.uniform(1, 20)), last=10.0),
                sigma=0.6,
                timeout_s=40.0,
                hang_share=steady(0.03),
                fail_share=steady(float(random.uniform(0, 0.4))),
            )
            for stage in range(int(random.integers(1, 4)))
        ),
        batch_size=int(random.integers(1, 120)),
        skip_share=steady(0.1),
        arrival_stretch=steady(0.3),
        gap_s=float(random.uniform(5, 60)),
        starts_after_s=float(random.uniform(0, 60)),
    )


def run_seed(seed: int) -> FaultyRun:
    """One run.

    Raises:
        Broken: an invariant is violated; the seed replays it.
    """
    random = np.random.default_rng([seed, 3])
    faults = frozenset(fault for fault in PoolFault if random.random() < 0.6)
    tasks = tuple(small_task(random, k) for k in range(int(random.integers(1, 4))))
    stages = tuple(Stage(name=name, cost=1.0) for name in ("compile", "execute", "judge"))
    past = int(random.integers(0, 3))
    workload = draw_workload(tasks, stages, iterations=2, seed=seed, past=past)
    cluster = Cluster(
        startup=(StartUp(median_s=float(random.uniform(0, 20)), sigma=0.5),),
        caps=tuple(int(n) for n in random.integers(1, 60, 3)),
    )
    policy = LoopPolicy(random, faults)
    options = Options(seed=seed, decisions_max=DECISIONS_MAX)
    runner = FaultyRunner(workload, cluster, policy, options)
    runner.run()
    world = runner.world
    assert isinstance(world, FaultyWorld)  # noqa: S101 - built above
    if int(world.state.remaining.sum()) or len(world.ended_once) != len(world.state.stage_now):
        raise Broken("requests are left without an outcome")
    return FaultyRun(
        seed=seed,
        faults=tuple(sorted(faults)),
        instants=world.instants,
        strikes=world.strikes,
        outages=policy.outages,
        requests=len(world.state.stage_now),
        lost=int(world.state.lost.sum()),
        digest=world.log.hexdigest(),
    )
