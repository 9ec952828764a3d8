"""The planner's environment: its planning process and the connection to the worker hosts.

A planning process either makes real plans (`assay.planner.session`), or returns random permitted
decisions: any sizes, priorities and warnings. The controller must keep its invariants in both
cases, and when the process dies, hangs or starts slowly.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from assay.config.settings import PlannerSettings
from assay.core.errors import DependencyDown
from assay.core.ids import StageName
from assay.edge.metrics import Metrics
from assay.planner.process.parent import PlanningDown, PlanningProcess
from assay.planner.session.messages import (
    Decision,
    HostState,
    PoolState,
    SetPriority,
    SetRisk,
    SetSlots,
    Snapshot,
    StageLimits,
)
from assay.planner.session.placement import HostSlots, place
from assay.sim.platform.ledger.entries import require
from assay.sim.platform.nodes import Node
from assay.sim.platform.pipelines import TIMEOUT_S
from assay.worker.host import WorkerHost

if TYPE_CHECKING:
    from assay.planner.session.session import Session

THINK_S_MAX: Final = 0.3
START_S: Final = 0.5
CALL_S_MAX: Final = 0.02
SLOTS_MAX: Final = 6
LATE_PRIORITY_NS: Final = 60 * 10**9


@dataclass(slots=True)
class PlanningTroubles:
    """Faults of planning processes."""

    deaths: int = 0
    """Number of requests that crash it."""


class SimPlanningProcess(PlanningProcess):
    """Answers in virtual time."""

    def __init__(
        self,
        settings: PlannerSettings,
        *,
        node: Node,
        metrics: Metrics,
        troubles: PlanningTroubles,
        planning: "Callable[[], Session] | None",
    ) -> None:
        """`planning` makes real plans; `None` = random decisions of the seed."""
        super().__init__(settings, clock=node.clock, metrics=metrics)
        self._node = node
        self._troubles = troubles
        self._new_planning = planning
        self._session: Session | None = None
        self._is_up = False
        self.asked: list[Snapshot] = []

    async def up(self) -> None:
        if not self._is_up:
            await asyncio.sleep(START_S * self._node.random.random())
            self._node.check()
            self._is_up = True
            self.generation += 1
            self._session = self._new_planning() if self._new_planning is not None else None

    async def decide(self, snapshot: Snapshot) -> Decision:
        await self.up()
        await asyncio.sleep(THINK_S_MAX * self._node.random.random())
        self._node.check()
        if self._troubles.deaths:
            self._troubles.deaths -= 1
            self._is_up = False
            raise PlanningDown("simulated")
        if self._session is None:
            return any_decision(snapshot, self._node.random)
        decision = self._session.step(snapshot)
        orders_ahead(snapshot, decision)
        return replace(decision, planning_ns=int(self._node.random.random() * THINK_S_MAX * 1e9))

    async def rest(self) -> None: ...

    async def stop(self) -> None:
        self._is_up = False


def orders_ahead(snapshot: Snapshot, decision: Decision) -> None:
    """Check that what the plan needs within a start-up time is ordered now.

    Raises:
        Finding: it is not ordered.
    """
    if decision.plan is None or not decision.ready:
        return
    ordered = {pool.stage: pool.desired for pool in snapshot.pools}
    ordered |= {one.stage: one.slots for one in decision.slots}
    for stage in decision.plan.stages:
        facts = next(facts for facts in snapshot.stages if facts.stage == stage.stage)
        first = (snapshot.now_ns - decision.plan.made_ns) // decision.plan.bin_ns
        last = (snapshot.now_ns + facts.startup_ns - decision.plan.made_ns) // decision.plan.bin_ns
        needed = max(stage.slots_by_bin[first : last + 1], default=0)
        require(
            ordered[stage.stage] >= min(needed, facts.slots_max),
            "a slot is ordered later than its start-up time before it is needed",
            stage=stage.stage,
            ordered=ordered[stage.stage],
            needed=needed,
        )


def any_decision(snapshot: Snapshot, draw: random.Random) -> Decision:
    """A random decision that a plan could contain."""
    slots = tuple(
        SetSlots(stage=facts.stage, slots=draw.randint(facts.slots_min, facts.slots_max))
        for facts in snapshot.stages
        if draw.random() < 0.6
    )
    priorities, risks = [], []
    for work in snapshot.work:
        key = (work.batch.tenant, work.batch.batch_id)
        if draw.random() < 0.1:
            earlier_ns = work.batch.deadline_ns - draw.randrange(LATE_PRIORITY_NS)
            priorities.append(SetPriority(batch=key, deadline_ns=draw.choice([0, earlier_ns])))
        if draw.random() < 0.1:
            risks.append(SetRisk(batch=key, at_risk=draw.random() < 0.5, late_share=0.5))
    return Decision(
        ready=True,
        why="",
        wake_after_ns=int(draw.uniform(0.5, 5.0) * 1e9),
        slots=slots,
        priorities=tuple(priorities),
        risks=tuple(risks),
        planning_ns=int(draw.random() * THINK_S_MAX * 1e9),
    )


@dataclass(slots=True)
class Hosts:
    """The worker hosts that a scaler can reach, by name."""

    running: dict[str, tuple[Node, WorkerHost]] = field(default_factory=dict)


class SimScaler:
    """Implements `Scaler` over all hosts, with the platform's own placement."""

    def __init__(self, node: Node, hosts: Hosts, stages: Sequence[StageName]) -> None:
        self._node = node
        self._hosts = hosts
        self._stages = stages

    async def _reach(self) -> Sequence[tuple[Node, WorkerHost]]:
        self._node.check()
        await asyncio.sleep(self._node.random.random() * CALL_S_MAX)
        self._node.check()
        found = [(node, host) for node, host in self._hosts.running.values() if node.is_alive]
        if not found:
            raise DependencyDown("no worker host answers")
        return found

    async def pools(self) -> Sequence[PoolState]:
        """See `Scaler.pools`."""
        hosts = [host for _, host in await self._reach()]
        return [_sum(stage, hosts) for stage in self._stages]

    async def resize(self, stage: StageName, slots: int) -> PoolState:
        """See `Scaler.resize`."""
        found = await self._reach()
        placed = place(slots, [_slots_of(stage, node, host) for node, host in found])
        for node, host in found:
            wanted = placed[node.name]

            async def resized(host: WorkerHost = host, wanted: int = wanted) -> None:
                host.resize(stage, wanted)

            if node.is_alive:
                await asyncio.wait([node.spawn(resized(), name="resize")])
        return _sum(stage, [host for _, host in found])

    def hosts(self) -> Sequence[HostState]:
        """No one looks at them in a simulation."""
        return ()

    async def close(self) -> None:
        """See `Scaler.close`."""


def _slots_of(stage: StageName, node: Node, host: WorkerHost) -> HostSlots:
    pools = {pool.stage: pool for pool in host.pools()}
    others = sum(pool.desired for other, pool in pools.items() if other != stage)
    return HostSlots(
        host=node.name,
        slots=pools[stage].desired,
        busy=pools[stage].busy,
        room=SLOTS_MAX,
        others=others / SLOTS_MAX,
        share=1 / SLOTS_MAX,
    )


def _sum(stage: StageName, hosts: Sequence[WorkerHost]) -> PoolState:
    pools = [pool for host in hosts for pool in host.pools() if pool.stage == stage]
    return PoolState(
        stage=stage,
        desired=sum(pool.desired for pool in pools),
        ready=sum(pool.ready for pool in pools),
        busy=sum(pool.busy for pool in pools),
    )


def stage_limits(pools: Sequence[PoolState], startup_s: float) -> tuple[StageLimits, ...]:
    """Stage settings as an operator would write them."""
    return tuple(
        StageLimits(
            stage=pool.stage,
            timeout_ns=int(TIMEOUT_S * 1e9),
            slots_min=1,
            slots_max=SLOTS_MAX,
            cost=1.0,
            startup_ns=int(startup_s * 1e9),
        )
        for pool in pools
    )
