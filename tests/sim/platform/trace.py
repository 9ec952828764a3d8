"""One trace through both simulations: the compiled kernel of pools, and the real services.

A trace fixes everything that is random: when batches open, when their requests arrive, how long
each holds a slot at each stage, how many slots per stage has from when on, how long a slot takes to
start, and which slots die in whose hands. Both return when each request started and finished.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import structlog

from assay.config.settings import RewardSettings
from assay.core.codec import unpack_handover
from assay.core.ids import PipelineName, StageName, TenantId, WorkerId
from assay.core.ordering import cost_us
from assay.core.outcome import Outcome
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.core.records import NewRequest, Quota, ResultRecord
from assay.core.verdict import Ended, Evidence, HandedOver, ResourceUse
from assay.edge.auth import Tenant
from assay.edge.metrics import Metrics
from assay.reward.admission import RequestCheck
from assay.reward.drafts import BatchDraft, RequestDraft, TaskDraft
from assay.reward.operations.batches import Checked
from assay.reward.service import RewardService
from assay.sim.platform.loop import VirtualLoop
from assay.sim.platform.nodes import EPOCH_NS, Node, task_factory
from assay.sim.platform.pipelines import SlotScript
from assay.sim.platform.slots import SimForks, SimSlot, SlotWorld
from assay.sim.platform.store import NodeStore, StoreServer
from assay.sim.platform.world import MemoryCache
from assay.sim.pools.cluster import Pools
from assay.sim.pools.workload import SCORED, BatchLoad, Stage, TaskLoad, Workload
from assay.sim.pools.world import FastWorld
from assay.store.port import Store
from assay.verifiers.port import PipelineDefinition, StageDefinition
from assay.worker.artifacts.broker import ArtifactBroker
from assay.worker.host import BackgroundTasks, HostSettings, WorkerHost
from assay.worker.parts import HostParts
from assay.worker.reuse import ReusePolicy
from assay.worker.slots import messages
from assay.worker.store_health import StoreHealth
from assay.worker.supervisor import Supervisor

STAGES = tuple(StageName(f"trace.s{number}") for number in range(4))
ATTEMPTS_MAX = 3
SLOTS_MAX = 64
LONG_S = 3_600.0
NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBatch:
    """One batch of a task of its own."""

    tenant: str
    weight: float
    opened_ns: int
    deadline_ms: int
    """After it is opened."""
    arrived_ns: tuple[int, ...]
    """After it is opened; ascending."""
    service_ns: tuple[tuple[int, ...], ...]
    """[request][stage]; 0 = the stage is left out. No request skips a stage that comes before
    another of its own unless the whole batch does."""
    deaths_ns: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    """(request, stage, attempt from 0): after how long the slot dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Everything that happens from outside."""

    stages: int
    startup_ns: int
    batches: tuple[TraceBatch, ...]
    sizes: tuple[tuple[int, int, int], ...]
    """(instant, stage, slots from then on)."""
    hosts: int = 1

    @property
    def is_shared(self) -> bool:
        return len({batch.tenant for batch in self.batches}) > 1


@dataclass(frozen=True, slots=True)
class Times:
    """One request at one stage: its last attempt."""

    start_ns: int
    finish_ns: int | None
    """`None`: the slot died."""


Log = dict[tuple[int, int, int], Times]
"""By batch, request and stage."""


# -- the kernel --------------------------------------------------------------------------------
def _workload(trace: Trace) -> Workload:
    loads = tuple(
        (
            BatchLoad(
                arrived_ns=np.array(batch.arrived_ns, np.int64),
                service_ns=np.array(batch.service_ns, np.int64).reshape(-1, trace.stages),
                outcome=np.full(len(batch.arrived_ns), SCORED, np.int64),
            ),
        )
        for batch in trace.batches
    )
    return Workload(
        stages=tuple(Stage(name=f"s{j}", cost=1.0) for j in range(trace.stages)),
        tasks=tuple(
            TaskLoad(name=f"t{k}", stages=(), tenant=batch.tenant, weight=batch.weight)
            for k, batch in enumerate(trace.batches)
        ),
        batches=loads,
        past=tuple(() for _ in trace.batches),
    )


def _deaths(trace: Trace) -> np.ndarray:
    shape = (sum(len(b.arrived_ns) for b in trace.batches), trace.stages, ATTEMPTS_MAX)
    deaths = np.full(shape, NEVER, np.int64)
    first = 0
    for batch in trace.batches:
        for (request, stage, attempt), after_ns in batch.deaths_ns.items():
            deaths[first + request, stage, attempt] = after_ns
        first += len(batch.arrived_ns)
    return deaths


def by_kernel(trace: Trace) -> tuple[Log, int]:
    """The log of the compiled kernel, and when its last batch was complete."""
    stages = np.arange(trace.stages)
    pools = Pools(
        stage_of=stages,
        pool_of=np.tile(stages, (len(trace.batches), 1)),
        caps=np.full(trace.stages, SLOTS_MAX),
        startup_ns=np.full((trace.stages, 1), trace.startup_ns, np.int64),
    )
    world = FastWorld(_workload(trace), pools, _deaths(trace), attempts_max=ATTEMPTS_MAX)
    opens = [(batch.opened_ns, k, NEVER, 0) for k, batch in enumerate(trace.batches)]
    sizes = [(at_ns, NEVER, stage, slots) for at_ns, stage, slots in trace.sizes]
    for at_ns, batch, stage, slots in sorted([*opens, *sizes]):
        while world.advance(at_ns) < at_ns:
            pass
        if batch == NEVER:
            world.set_target(stage, slots)
        else:
            due_ns = at_ns + trace.batches[batch].deadline_ms * 1_000_000
            world.open_batch(batch, 0, due_ns)
    while not world.state.completed_ns.all():
        before_ns = world.now_ns
        if world.advance(before_ns + int(LONG_S * 1e9)) == before_ns + int(LONG_S * 1e9):
            break
    return _log_of(trace, world), int(world.state.ended_ns.max())


def _log_of(trace: Trace, world: FastWorld) -> Log:
    state, log, row = world.state, Log(), 0
    for number, batch in enumerate(trace.batches):
        for request in range(len(batch.arrived_ns)):
            for stage in range(trace.stages):
                if state.start_ns[row, stage]:
                    finish_ns = int(state.finish_ns[row, stage]) or None
                    log[number, request, stage] = Times(int(state.start_ns[row, stage]), finish_ns)
            row += 1
    return log


# -- the platform ------------------------------------------------------------------------------
@dataclass(slots=True, kw_only=True)
class TraceWorld(SlotWorld):
    """What the slots of all hosts know."""

    trace: Trace
    tries: Counter[tuple[int, int, int]] = field(default_factory=Counter)


class TraceForks(SimForks):
    """Slots that start when the trace says so."""

    async def fork_slot(self, stage: StageName, number: int) -> SimSlot:
        slot = TraceSlot(self._node, self._world, stage, self)
        self.slots[slot] = None
        return slot


class TraceSlot(SimSlot):
    """Does what the trace says about each request."""

    def warm_s(self) -> float:
        """The same for all slots."""
        return self._trace.startup_ns / 1e9

    @property
    def _trace(self) -> Trace:
        return cast("TraceWorld", self._world).trace

    async def _judge(
        self, script: SlotScript, wire: messages.WireWork, task: messages.WireTask
    ) -> tuple[object, ...] | None:
        batch, request = map(int, wire.response.split()[4:])
        stage = STAGES.index(self._stage)
        facts = self._trace.batches[batch]
        tries = cast("TraceWorld", self._world).tries
        attempt = tries[batch, request, stage]
        tries[batch, request, stage] += 1
        lasts_ns = facts.service_ns[request][stage]
        after_ns = facts.deaths_ns.get((request, stage, attempt), lasts_ns)
        await asyncio.sleep(min(after_ns, lasts_ns) / 1e9)
        if after_ns < lasts_ns:
            self.die()
            return None
        before = unpack_handover(wire.handover)[1]
        if any(facts.service_ns[request][stage + 1 :]):
            return messages.said_by(HandedOver(artifact=b"", use=ResourceUse()), before)
        ended = Ended(
            outcome=Outcome.SCORED, reward=0.0, evidence=Evidence(verdict=""), use=ResourceUse()
        )
        return messages.said_by(ended, before)


class Platform:
    """One API and some worker hosts, with no time lost between them."""

    reap_every_s: ClassVar[float] = 1.0

    def __init__(self, trace: Trace, loop: VirtualLoop) -> None:
        self.trace = trace
        self.loop = loop
        self.server = StoreServer("trace", loop, lambda _: None)
        self.server.weather.slow = 0.0
        self.slots = TraceWorld(trace=trace)
        self.hosts: list[WorkerHost] = []
        self._know_costs()
        stages = _stages(trace)
        node = Node("api", "trace", loop)
        self.service = RewardService(
            store=self._store(node),
            pipelines=_pipelines(trace, stages),
            settings=RewardSettings(),
            clock=node.clock,
            metrics=Metrics(),
            new_id=lambda: "never",
        )
        for number in range(trace.hosts):
            self.hosts.append(self._host(Node(f"host{number}", "trace", loop), stages))

    def _store(self, node: Node) -> Store:
        return cast("Store", NodeStore(node, self.server))

    def _know_costs(self) -> None:
        """The kernel charges what a request will cost; the store, what it has learnt to expect."""
        if self.trace.is_shared:
            for batch in self.trace.batches:
                for stage in range(self.trace.stages):
                    costs = self.server.model.stages.costs[STAGES[stage]].by_tenant_us
                    costs_ns = max(one[stage] for one in batch.service_ns)
                    known = costs.get(TenantId(batch.tenant), 0)
                    costs[TenantId(batch.tenant)] = max(known, cost_us(costs_ns))

    def _host(self, node: Node, stages: Mapping[StageName, StageDefinition]) -> WorkerHost:
        store, metrics, tasks = self._store(node), Metrics(), BackgroundTasks()
        health, forks = StoreHealth(node.clock), TraceForks(node, self.slots)
        supervisors: dict[StageName, Supervisor] = {}
        host = WorkerHost(
            settings=HostSettings(
                slots=dict.fromkeys(stages, 0), slots_max=SLOTS_MAX, drain_s=1.0,
                reap_every_s=self.reap_every_s, sandbox_mode="simulated",
            ),
            supervisors=supervisors, store=store, health=health, forks=forks, clock=node.clock,
            metrics=metrics, tasks=tasks,
        )  # fmt: skip
        parts = HostParts(
            store=store, health=health, clock=node.clock, forks=forks,
            broker=ArtifactBroker(store=store, cache=MemoryCache(), metrics=metrics),
            metrics=metrics, tracer=None, worker=WorkerId(node.name), attempts_max=ATTEMPTS_MAX,
            scratch=Path("/nonexistent"), spawn=tasks.spawn, on_wanting=host.on_wanting,
            version_of=lambda pipeline, _: pipeline,
            reuse=ReusePolicy({}),
        )  # fmt: skip
        supervisors.update({name: Supervisor(one, parts) for name, one in stages.items()})
        host.start()
        return host

    async def run(self, until_ns: int) -> Log:
        """Play the trace; read every result at `until_ns`."""
        playing = [asyncio.create_task(self._size(*size)) for size in self.trace.sizes]
        playing += [asyncio.create_task(self._send(n)) for n in range(len(self.trace.batches))]
        await asyncio.gather(*playing)
        await self._at(until_ns)
        log = Log()
        for number, batch in enumerate(self.trace.batches):
            page = await self.service.page(_tenant(batch), f"b{number}", cursor=0)
            for result in page.results:
                log.update(_times_of(number, result))
        return log

    async def _at(self, instant_ns: int) -> None:
        await asyncio.sleep(max(0.0, instant_ns / 1e9 - self.loop.time()))

    async def _size(self, at_ns: int, stage: int, slots: int) -> None:
        await self._at(at_ns)
        share, more = divmod(slots, len(self.hosts))
        for number, host in enumerate(self.hosts):
            host.resize(STAGES[stage], share + (number < more))

    async def _send(self, number: int) -> None:
        batch = self.trace.batches[number]
        tenant, task = _tenant(batch), f"t{number}"
        await self.service.register_task(tenant, TaskDraft(task_id=task, pipeline=_pipeline(batch)))
        await self._at(batch.opened_ns)
        draft = BatchDraft(
            task_id=task, batch_id=f"b{number}", size=len(batch.arrived_ns),
            deadline_ms=batch.deadline_ms,
        )  # fmt: skip
        await self.service.open_batch(tenant, draft)
        for request, after_ns in enumerate(batch.arrived_ns):
            await self._at(batch.opened_ns + after_ns)
            await self.service.submit(tenant, f"b{number}", _drafts(number, request))


def _drafts(batch: int, request: int) -> Checked:
    response = f"score 0 0 0 {batch} {request}".encode()  # a script that the slot does not follow

    async def checked(definition: PipelineDefinition) -> list[NewRequest]:
        drafts = [RequestDraft(f"r{request}", "", response, b"{}")]
        return RequestCheck(RewardSettings()).check(drafts, definition)

    return checked


def _tenant(batch: TraceBatch) -> Tenant:
    return Tenant(tenant_id=TenantId(batch.tenant), quota=Quota(), weight=batch.weight)


def _times_of(batch: int, result: ResultRecord) -> Log:
    log = Log()
    for at, timing in enumerate(result.stages):
        died = result.outcome is Outcome.INFRA_FAILED and at == len(result.stages) - 1
        log[batch, int(result.request_id[1:]), STAGES.index(timing.stage)] = Times(
            timing.started_ns - EPOCH_NS, None if died else timing.finished_ns - EPOCH_NS
        )
    return log


def _pipeline(batch: TraceBatch) -> str:
    """The stages that the batch's requests have."""
    used = [j for j in range(len(batch.service_ns[0])) if any(one[j] for one in batch.service_ns)]
    return "trace." + "".join(map(str, used))


def _stages(trace: Trace) -> dict[StageName, StageDefinition]:
    return {
        name: StageDefinition(
            spec=StageSpec(
                name=name, resources=Resources(cpu_cores=1.0), timeout_s=LONG_S, lease_s=30.0
            ),
            handler="assay.sim.platform:none",
            # Of a confined stage, a slot that ends is no death like another: a control runs then.
            runs_untrusted_code=True,
        )
        for name in STAGES[: trace.stages]
    }


def _pipelines(
    trace: Trace, stages: Mapping[StageName, StageDefinition]
) -> dict[PipelineName, PipelineDefinition]:
    found = {}
    for name in {_pipeline(batch) for batch in trace.batches}:
        mine = tuple(STAGES[int(digit)] for digit in name.removeprefix("trace."))
        spec = PipelineSpec(name=PipelineName(name), description="A trace.", stages=mine)
        definition = PipelineDefinition(spec=spec, stages=tuple(stages[one] for one in mine))
        found[spec.name] = definition
    return found


def by_platform(trace: Trace, until_ns: int, platform: type[Platform] = Platform) -> Log:
    """The log of the real services, read at `until_ns`."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    loop = VirtualLoop("trace", tie_s=0.0, thread_s_max=0.0)
    loop.set_task_factory(task_factory)  # type: ignore[arg-type]  # asyncio's stub has no context
    try:
        asyncio.set_event_loop(loop)

        async def play() -> Log:
            return await platform(trace, loop).run(until_ns)

        return loop.run_until_complete(play())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with contextlib.suppress(Exception):
            loop.run_until_complete(asyncio.sleep(0))
        asyncio.set_event_loop(None)
        loop.close()
