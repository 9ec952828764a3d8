"""The whole platform of one seed: real services on simulated nodes, faults at given times.

Real: `RewardService`, `WorkerHost` with its supervisors and slot pools, and the planner's
controller, each on nodes of its own. Simulated: the clock, the store's server (the queue's model),
the network, the slots' processes, the trainers.
"""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from assay.config.settings import PlannerSettings, RewardSettings
from assay.core.errors import DependencyDown
from assay.core.hosts.record import HostRecord
from assay.core.ids import PipelineName, StageName, TenantId, WorkerId
from assay.core.records import Quota
from assay.edge.auth import Tenant
from assay.edge.metrics import Metrics
from assay.planner.service.controller import Controller
from assay.planner.service.leader import LeaderLease
from assay.reward.drafts import TaskDraft
from assay.reward.service import RewardService
from assay.sim.platform.faults import Fault, Kind
from assay.sim.platform.ledger.entries import Finding, require
from assay.sim.platform.ledger.ledger import Ledger
from assay.sim.platform.loop import VirtualLoop
from assay.sim.platform.nodes import Node
from assay.sim.platform.pipelines import GROUPED, GROUPS, STAGES, pipelines
from assay.sim.platform.planning import (
    SLOTS_MAX,
    Hosts,
    PlanningTroubles,
    SimPlanningProcess,
    SimScaler,
    stage_limits,
)
from assay.sim.platform.slots import SimForks, SlotWorld
from assay.sim.platform.store import NodeStore, SimulatedCall, StoreServer
from assay.sim.platform.tenants.honest import BatchPlan, Honest
from assay.sim.platform.tenants.others import Hostile, Scorer
from assay.sim.platform.tenants.trainer import Network
from assay.store.operations.hosts import take_back_all
from assay.store.port import Store
from assay.verifiers.port import PipelineDefinition
from assay.verifiers.registry import stages_of
from assay.worker.artifacts.broker import ArtifactBroker
from assay.worker.artifacts.cache import ArtifactCache
from assay.worker.host import BackgroundTasks, HostSettings, WorkerHost
from assay.worker.membership import Life, Membership
from assay.worker.parts import HostParts
from assay.worker.reuse import ReusePolicy
from assay.worker.store_health import StoreHealth
from assay.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.planner.session.session import Session

FAULTS_UNTIL_S: Final = 40.0
SETTLE_S_MAX: Final = 900.0
"""How long all honest work may take to finish after the last fault."""
ATTEMPTS_MAX: Final = 3
REAP_EVERY_S: Final = 1.0
DRAIN_S: Final = 3.0
SLOTS_AT_START: Final = 2
CROWDED_EVERY: Final = 5
"""In one of this many seeds several tenants send `CROWD` requests at once."""
CROWD: Final = 48
REPORTS_MAX: Final = 3
"""Reports in one call: so few that a host has more to send."""
LEASE_S: Final = 10.0
"""Lease of the leading planner."""


class SimLife(Life):
    """A life on a data directory without a disk; the world knows how the one before ended."""

    def __init__(self, predecessor: WorkerId | None) -> None:
        self.predecessor = predecessor

    def end(self) -> None: ...


class MemoryCache(ArtifactCache):
    """A host's disk."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._kept.get(key)

    def put(self, key: str, content: bytes) -> None:
        self._kept[key] = content


@dataclass(slots=True)
class HostNode:
    """One life of a worker host."""

    node: Node
    host: WorkerHost
    supervisors: dict[StageName, Supervisor]
    forks: SimForks
    serving: asyncio.Task[None]
    membership: Membership
    record: HostRecord
    is_stopping: bool = False


@dataclass(slots=True)
class PlannerNode:
    """One life of a planner."""

    node: Node
    controller: Controller
    lease: LeaderLease


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of a seed's platform."""

    apis: int
    hosts: int
    planners: int
    real_plans: bool
    together: bool
    """The slots of the first stage judge a batch at once."""
    groups: bool
    """Some trainers' groups are judged as a whole."""
    startup_s: float
    """Longest start-up time of a slot."""
    brisk: bool = False
    """Most works are so short that busy slots get the next one ahead."""


@dataclass(slots=True)
class World:
    """Everything of one run."""

    seed: int
    faults: Sequence[Fault]
    shape: Shape
    loop: VirtualLoop
    metrics: Metrics
    server: StoreServer = field(init=False)
    ledger: Ledger = field(init=False)
    network: Network = field(default_factory=Network)
    hosts: dict[str, HostNode] = field(default_factory=dict)
    planners: dict[str, PlannerNode] = field(default_factory=dict)
    reachable: Hosts = field(default_factory=Hosts)
    slots: SlotWorld = field(default_factory=SlotWorld)
    troubles: PlanningTroubles = field(default_factory=PlanningTroubles)
    honest: list[Honest] = field(default_factory=list)
    findings: list[BaseException] = field(default_factory=list)
    scorer: Scorer | None = None
    predecessors: dict[str, WorkerId] = field(default_factory=dict)
    """By life of a host: the life before it, which was killed."""
    lives: int = 0
    _pipelines: dict[PipelineName, PipelineDefinition] = field(init=False)
    striking: int = 0
    """Faults at work now."""
    calm_since_s: float = 0.0
    """When the last fault ended."""

    def __post_init__(self) -> None:
        """Create the store, which everything else needs."""
        self.ledger = Ledger(is_calm=self.is_calm)
        self.slots.warm_s_max = self.shape.startup_s
        self._pipelines = pipelines(together=self.shape.together, groups=self.shape.groups)
        self.slots.brisk = self.shape.brisk
        self.network.burns = not self.shape.together
        self.server = StoreServer(str(self.seed), self.loop, self._on_command)

    @property
    def stages(self) -> Sequence[StageName]:
        """All stages of this run."""
        return (*STAGES, GROUPS) if self.shape.groups else STAGES

    @property
    def is_calm(self) -> bool:
        """No faults, except what requests do."""
        return not self.faults

    @property
    def forgets(self) -> bool:
        """The store may forget what it acknowledged."""
        return any(fault.kind is Kind.FAIL_OVER for fault in self.faults)

    @property
    def jumps(self) -> bool:
        """Leases may expire although they are renewed in time."""
        kinds = {Kind.STORE_CLOCK_JUMP, Kind.FAIL_OVER}
        return any(fault.kind in kinds for fault in self.faults)

    def _on_command(self, command: SimulatedCall) -> None:
        try:
            self.ledger.take(command)
        except Finding as finding:
            self.findings.append(finding)

    def _node(self, name: str) -> Node:
        self.lives += 1
        return Node(f"{name}#{self.lives}", str(self.seed), self.loop)

    def _store(self, node: Node) -> Store:
        return cast("Store", NodeStore(node, self.server))

    # -- nodes ---------------------------------------------------------------------------------
    def start_api(self, name: str) -> None:
        node = self._node(name)
        ids = iter(range(10**9))
        service = RewardService(
            store=self._store(node),
            pipelines=self._pipelines,
            settings=RewardSettings(),
            clock=node.clock,
            metrics=self.metrics,
            new_id=lambda: f"{node.name.replace('#', '-')}-{next(ids)}",
        )
        self.network.apis[name] = (node, service)

    def start_host(self, name: str, *, predecessor: WorkerId | None = None) -> None:
        """Start a worker host; `predecessor`: the life before it on the same disk, if killed."""
        node = self._node(name)
        if predecessor is not None:
            self.predecessors[node.name] = predecessor
        node.begin(lambda: self._be_host(name, node))

    def _be_host(self, name: str, node: Node) -> None:
        store, forks = self._store(node), SimForks(node, self.slots)
        tasks, health = BackgroundTasks(), StoreHealth(node.clock)
        supervisors: dict[StageName, Supervisor] = {}
        host = WorkerHost(
            settings=HostSettings(
                slots=dict.fromkeys(self.stages, SLOTS_AT_START),
                slots_max=SLOTS_MAX,
                drain_s=DRAIN_S,
                reap_every_s=REAP_EVERY_S,
                sandbox_mode="simulated",
            ),
            supervisors=supervisors,
            store=store,
            health=health,
            forks=forks,
            clock=node.clock,
            metrics=self.metrics,
            tasks=tasks,
        )
        parts = HostParts(
            store=store,
            health=health,
            clock=node.clock,
            forks=forks,
            broker=ArtifactBroker(store=store, cache=MemoryCache(), metrics=self.metrics),
            metrics=self.metrics,
            tracer=None,
            worker=WorkerId(node.name),
            attempts_max=ATTEMPTS_MAX,
            scratch=Path("/nonexistent"),
            spawn=tasks.spawn,
            on_wanting=host.on_wanting,
            version_of=lambda pipeline, _: pipeline,
            reuse=ReusePolicy(self._pipelines),
            reports_max=REPORTS_MAX,
        )
        definitions = stages_of(self._pipelines)
        supervisors.update({stage: Supervisor(definitions[stage], parts) for stage in self.stages})
        serving = node.spawn(self._serve(tasks), name="serving")
        membership = Membership(
            store=store,
            stages=self.stages,
            life=SimLife(self.predecessors.get(node.name)),
            attempts_max=ATTEMPTS_MAX,
            clock=node.clock,
            metrics=self.metrics,
        )
        record = HostRecord(
            worker=WorkerId(node.name),
            address=f"{name}:1",
            stages=tuple(self.stages),
            cores=1,
            memory_bytes=1,
            slots_max=SLOTS_MAX,
        )
        self.hosts[name] = HostNode(node, host, supervisors, forks, serving, membership, record)
        self.reachable.running[name] = (node, host)
        host.start()
        membership.begin(record)

    async def _serve(self, tasks: BackgroundTasks) -> None:
        """A bug that ends the host is a finding."""
        self.findings.append(await tasks.failed)

    def start_planner(self, name: str) -> None:
        node = self._node(name)
        store = self._store(node)
        settings = PlannerSettings(lease_s=LEASE_S)
        lease = LeaderLease(store, planner=node.name, lease_s=LEASE_S, clock=node.clock)
        controller = Controller(
            store=store,
            scaler=SimScaler(node, self.reachable, self.stages),
            lease=lease,
            process=SimPlanningProcess(
                settings,
                node=node,
                metrics=self.metrics,
                troubles=self.troubles,
                planning=_real_planning(settings) if self.shape.real_plans else None,
            ),
            limits_of=lambda pools: stage_limits(pools, self.shape.startup_s),
            history_batches=6,
            clock=node.clock,
            metrics=self.metrics,
        )
        self.planners[name] = PlannerNode(node, controller, lease)
        node.spawn(self._plan(node, controller), name="planner")

    async def _plan(self, node: Node, controller: Controller) -> None:
        try:
            await controller.run()
        except Exception as error:  # noqa: BLE001 - any bug
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            if node.is_alive:
                self.findings.append(error)

    def start(self) -> None:
        for number in range(self.shape.apis):
            self.start_api(f"api{number}")
        for number in range(self.shape.hosts):
            self.start_host(f"host{number}")
        for number in range(self.shape.planners):
            self.start_planner(f"planner{number}")

    def nodes(self) -> list[Node]:
        """All nodes, also those that are down."""
        apis = [node for node, _ in self.network.apis.values()]
        return [
            *apis,
            *(one.node for one in self.hosts.values()),
            *(one.node for one in self.planners.values()),
        ]

    async def stop_host(self, life: HostNode) -> bool:
        """Drain it, and check that nothing is left; returns whether it ended in order."""
        life.is_stopping = True
        await asyncio.wait([life.node.spawn(life.membership.leave(), name="leave")])
        await asyncio.wait([life.node.spawn(life.host.stop(), name="stop")])
        life.serving.cancel()
        await asyncio.sleep(0.1)
        if life.node.is_alive:
            left = [task.get_name() for task in life.node.tasks if not task.done()]
            require(not left, "a host that stopped leaves tasks", tasks=left)
            require(not life.forks.slots, "a host that stopped leaves slots")
        in_order = life.node.is_alive
        life.node.kill()
        return in_order

    async def give_up_host(self, number: int) -> None:
        """A planner takes a host for dead that is alive: what it holds is given to others."""
        life = list(self.hosts.values())[number % len(self.hosts)]
        planners = [one.node for one in self.planners.values() if one.node.is_alive]
        if not life.node.is_alive or not planners:
            return
        node = planners[0]
        giving = node.spawn(self._give_up(node, life.record), name="give up")
        await asyncio.wait([giving])

    async def _give_up(self, node: Node, record: HostRecord) -> None:
        with contextlib.suppress(DependencyDown):  # then its leases run out
            await take_back_all(self._store(node), record, attempts_max=ATTEMPTS_MAX)

    def _pipeline(self, draw: random.Random, group: int) -> str:
        drawn = draw.choice(["sim.one", "sim.two", "sim.two"])
        return GROUPED if self.shape.groups and group else drawn

    # -- tenants -------------------------------------------------------------------------------
    def tenants(self) -> tuple[list[asyncio.Task[None]], list[asyncio.Task[None]]]:
        """Start the honest and the other tenants."""
        draw = random.Random(f"{self.seed}/tenants")  # noqa: S311 - to be repeated, not secret
        honest, others = [], []
        crowded = self.seed % CROWDED_EVERY == CROWDED_EVERY - 1
        for number in range(draw.randint(1 + crowded, 3)):
            tenant = Tenant(
                tenant_id=TenantId(f"tenant{number}"),
                quota=Quota(),
                weight=draw.choice([0.5, 1.0, 1.0, 4.0]),
            )
            group = draw.choice([0, 2, 4])
            requests = draw.randint(2, 6) * max(group, 1) + (0 if group else draw.randint(0, 8))
            if crowded:
                group, requests = 0, CROWD
            plan = BatchPlan(
                task=TaskDraft(
                    task_id=f"task{number}",
                    pipeline=self._pipeline(draw, group),
                    batch_size=requests,
                    delay_budget_ms=draw.choice([None, 500, 5_000]),
                ),
                batches=1 if crowded else draw.randint(1, 3),
                requests=requests,
                group=group,
                sized=draw.random() < 0.7,
                pause_s=draw.uniform(0.1, 4.0),
                span_s=0.2 if crowded else draw.uniform(0.2, 8.0),
                plain=crowded,
                hints=draw.random() < 0.3,
                cuts=not crowded and draw.random() < 0.3,
                bursts=draw.random() < 0.2,
            )
            own = random.Random(f"{self.seed}/tenant{number}")  # noqa: S311
            trainer = Honest(
                tenant, self.network, own, plan, is_calm=self.is_calm, forgets=self.forgets
            )
            self.honest.append(trainer)
            honest.append(self.loop.create_task(trainer.train(), name=f"tenant{number}"))
        if draw.random() < 0.6:
            self.scorer = scorer = Scorer(
                Tenant(tenant_id=TenantId("scorer"), quota=Quota()), self.network,
                random.Random(f"{self.seed}/scorer"),  # noqa: S311
            )  # fmt: skip
            others.append(self.loop.create_task(scorer.score(draw.randint(1, 6)), name="scorer"))
        if draw.random() < 0.5:
            quota = Quota(
                requests_open_max=16,
                bytes_open_max=draw.choice([400, 100_000]),  # either limit is reached first
                batches_open_max=4,
                tasks_max=2,
            )
            hostile = Hostile(
                Tenant(tenant_id=TenantId("hostile"), quota=quota), self.network,
                random.Random(f"{self.seed}/hostile"),  # noqa: S311
            )  # fmt: skip
            until_s = draw.uniform(5.0, 30.0)
            others.append(self.loop.create_task(hostile.attack(until_s), name="hostile"))
        return honest, others


def _real_planning(settings: PlannerSettings) -> "Callable[[], Session]":
    from assay.planner.session.session import Session  # numpy and numba: only if needed

    return lambda: Session(settings)
