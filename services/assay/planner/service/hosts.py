"""All worker hosts: their pools together, and slots placed on them.

The store has their records; where it has none, the host named by this machine's ready file is
asked. Hosts are looked at every `LOOK_EVERY_S` while the planner leads, idle ones less often.
Invariants: a host that does not answer loses nothing by it (it is not counted on); one whose
process is known to be gone gives its leases back at once; what a host says is checked before it
counts, and its slots count as long as the requests that it ends show that it has them
(`session.trust`).
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import structlog

from assay.core.errors import AssayError, DependencyDown, InvalidRequest
from assay.core.hosts.record import NAME_CHARS_MAX, HostRecord
from assay.core.ids import StageName, WorkerId
from assay.edge.auth import Operator
from assay.edge.clock import Clock
from assay.planner.service.host_calls import LOOK_S_MAX, HostConnections, refuses
from assay.planner.service.host_view import (
    HostView,
    checked,
    seen_as,
    startup_of,
    state_of,
    unregistered,
)
from assay.planner.session.conduct import patience_with
from assay.planner.session.messages import HostState, Machine, PoolState
from assay.planner.session.placement import HostSlots, place
from assay.planner.session.trust import Reading, Trust
from assay.store.operations.hosts import take_back_all
from assay.store.port import Store
from assay.v1 import worker_pb2

CALL_S_MAX: Final = 5.0
LOOK_EVERY_S: Final = 1.0
CALM_LOOK_EVERY_S: Final = 3.0
"""While no host is at work: one that registers wakes the planner, which then looks by itself."""
UNUSED_S_MAX: Final = 60.0
"""Hosts are not looked at when the planner did not ask for this long: it does not lead."""
CALLS_AT_ONCE_MAX: Final = 64
OTHERS_AT_ONCE_MAX: Final = 32
"""Looks at hosts that are not counted on: however many there are, they delay no others."""
NEW_S_MAX: Final = 0.25
"""How long a look waits for hosts that are not counted on, where others are."""
NAMED_MAX: Final = 5
"""Hosts named in a condition."""
ROUNDS_MAX: Final = 3
"""How often slots that a host did not take are placed on others, per resize."""

TIMEOUT_S: Final = 60.0
"""Of a stage whose pipeline is not installed here."""

PerStage = Callable[[StageName], float]
CostOf = Callable[[WorkerId], float | None]
"""Cost of a host's core-second in GPU-seconds; `None` = the common one."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHost:
    """The host of this machine, which may not register."""

    ready_file: Path
    """It names the address."""
    fallback: str
    """The address where there is no such file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What slots use and what that costs."""

    cores_of: PerStage
    """Cores that a slot of a stage uses."""
    timeout_of: PerStage = lambda _: TIMEOUT_S
    """Of a stage, in seconds."""
    core_cost_of: CostOf = lambda _: None
    core_cost: float = 0.0
    """Of all other hosts, in GPU-seconds per core-second."""


class HostsScaler:
    """Implements `Scaler` over all hosts."""

    def __init__(
        self,
        store: Store,
        *,
        local: LocalHost,
        operator: Operator,
        costs: Costs,
        attempts_max: int,
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,
        on_doubt: Callable[[StageName, int], None] = lambda *_: None,
    ) -> None:
        """Prepare without connecting.

        Args:
            store: of the platform.
            local: this machine's host, for one that does not register.
            operator: whose token that host requires.
            costs: of stages and hosts.
            attempts_max: see `Store.take_back`.
            clock: for times.
            on_change: called when a host comes or goes.
            on_doubt: called with a stage and how many hosts are doubted from now on.
        """
        self._store = store
        self._local = local
        self._costs = costs
        self._attempts_max = attempts_max
        self._clock = clock
        self.on_change = on_change
        self._on_doubt = on_doubt
        self._trust: dict[StageName, Trust] = {}
        self._trusted_ns = 0
        """When progress was looked at last."""
        self._views: dict[WorkerId, HostView] = {}
        self._patience_ns: dict[StageName, int] = {}
        """How long missing slots of a stage count, as of the last sums."""
        self._hosts = HostConnections(operator)
        self._asking: dict[WorkerId, asyncio.Task[None]] = {}
        self._looking = asyncio.Lock()
        self._few = asyncio.Semaphore(CALLS_AT_ONCE_MAX)
        self._few_others = asyncio.Semaphore(OTHERS_AT_ONCE_MAX)
        self._watching: asyncio.Task[None] | None = None
        self._asked_ns = 0
        self._why = ""
        self._told: set[WorkerId] | None = None
        """Hosts that were counted on at the last notice to the planner."""

    # -- the interface of a scaler -------------------------------------------------------------
    async def pools(self) -> Sequence[PoolState]:
        """Sums over the hosts that answer.

        Raises:
            DependencyDown: none does, or the store does not.
        """
        self._asked_ns = self._clock.monotonic_ns()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="worker hosts")
        await self._look()
        views = self._counted()
        if not views:
            raise DependencyDown(self._why or "no worker host is registered")
        stages = dict.fromkeys(stage for view in views for stage in view.pools)
        return [self._sum(stage, views) for stage in stages]

    async def resize(self, stage: StageName, slots: int) -> PoolState:
        """Place slots on hosts; those that one does not take are placed on others."""
        for _ in range(ROUNDS_MAX):
            views = {view.record.worker: view for view in self._serving(stage)}
            if not views:
                raise InvalidRequest(f"no worker host serves stage {stage!r}", field="stage")
            now_ns = self._clock.monotonic_ns()
            placed = place(slots, [self._slots_of(stage, one, now_ns) for one in views.values()])
            changes = [
                self._ask_for(view, stage, placed[worker])
                for worker, view in views.items()
                if view.is_to_be_asked(stage, placed[worker], now_ns)
            ]
            if all(await asyncio.gather(*changes)):
                break
        return self._sum(stage, self._counted())

    async def close(self) -> None:
        """Close the connections; pools stay as they are."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._asking.clear()
        await self._hosts.close()

    @property
    def views(self) -> Sequence[HostView]:
        """As last seen, by name."""
        return [self._views[worker] for worker in sorted(self._views)]

    def hosts(self) -> Sequence[HostState]:
        """As last seen, by name."""
        now_ns = self._clock.monotonic_ns()
        return [self._seen_as(view, now_ns) for view in self.views]

    def _seen_as(self, view: HostView, now_ns: int) -> HostState:
        worker = view.record.worker
        doubted = [stage for stage in view.pools if worker in self._doubted(stage)]
        return seen_as(view, now_ns, doubted=doubted, core_cost=self._costs.core_cost_of(worker))

    def counts(self, view: HostView) -> bool:
        """Whether a host's slots are counted on at present."""
        return view.counts(self._clock.monotonic_ns())

    # -- sums ----------------------------------------------------------------------------------
    def _counted(self) -> list[HostView]:
        now_ns = self._clock.monotonic_ns()
        return [view for _, view in sorted(self._views.items()) if view.counts(now_ns)]

    def _serving(
        self, stage: StageName, views: Sequence[HostView] | None = None
    ) -> Sequence[HostView]:
        """Hosts of a stage whose slots are counted on; where all are doubted, all of them."""
        counted = self._counted() if views is None else views
        serving = [view for view in counted if stage in view.pools]
        doubted = self._doubted(stage)
        return [one for one in serving if one.record.worker not in doubted] or serving

    def _doubted(self, stage: StageName) -> frozenset[WorkerId]:
        trust = self._trust.get(stage)
        return frozenset() if trust is None else trust.doubted

    def _sum(self, stage: StageName, views: Sequence[HostView]) -> PoolState:
        serving = self._serving(stage, views)
        known = [view.record for view in serving if view.record.cores]
        now_ns = self._clock.monotonic_ns()
        startup = startup_of([view.pools[stage] for view in serving])
        self._patience_ns[stage] = patience_with(startup)
        return PoolState(
            stage=stage,
            desired=sum(view.believed(stage) for view in serving),
            ready=sum(view.ready(stage, now_ns) for view in serving),
            busy=sum(min(view.pools[stage].busy, view.ready(stage, now_ns)) for view in serving),
            slots_max=sum(view.room(stage, now_ns) for view in serving) if known else None,
            startup_ns=startup.p90_ns if startup.measured else None,
            startup=startup,
            machines=tuple(
                Machine(cores=one.cores, memory_bytes=one.memory_bytes) for one in known
            ),
            condition=self._condition(stage, now_ns),
            core_cost=self._mean_core_cost(serving),
        )

    def _condition(self, stage: StageName, now_ns: int) -> str:
        doubted = sorted(self._doubted(stage))
        if doubted:
            hosts = ", ".join(doubted[:NAMED_MAX])
            return f"HostsDoubted: {len(doubted)} of {len(self._views)}, {hosts}"
        away = [one for one in self._views.values() if not one.counts(now_ns)]
        return f"HostsAway: {len(away)} of {len(self._views)}" if away else ""

    def _mean_core_cost(self, views: Sequence[HostView]) -> float | None:
        """By cores; `None`: no host has a cost of its own."""
        own = {one.record.worker: self._costs.core_cost_of(one.record.worker) for one in views}
        if all(cost is None for cost in own.values()):
            return None
        weighted = [(one.record.cores or 1, own[one.record.worker]) for one in views]
        total = sum(
            cores * (self._costs.core_cost if cost is None else cost) for cores, cost in weighted
        )
        return total / sum(cores for cores, _ in weighted)

    def _slots_of(self, stage: StageName, view: HostView, now_ns: int) -> HostSlots:
        cores = view.record.cores or 1
        cost = self._costs.core_cost_of(view.record.worker)
        others = sum(
            pool.desired * self._costs.cores_of(other)
            for other, pool in view.pools.items()
            if other != stage
        )
        return HostSlots(
            host=view.record.worker,
            slots=view.believed(stage),
            busy=view.pools[stage].busy,
            room=view.room(stage, now_ns),
            others=others / cores,
            share=self._costs.cores_of(stage) / cores,
            cost=self._costs.core_cost if cost is None else cost,
        )

    # -- looking -------------------------------------------------------------------------------
    async def _watch(self) -> None:
        while self._clock.monotonic_ns() - self._asked_ns < UNUSED_S_MAX * 1e9:
            now_ns = self._clock.monotonic_ns()
            calm = self._views and all(view.is_calm(now_ns) for view in self._views.values())
            await self._clock.sleep(CALM_LOOK_EVERY_S if calm else LOOK_EVERY_S)
            try:
                await self._look(calmly=True)
                await self._look_at_progress()
            except AssayError as error:
                self._why = error.message
                continue
            now = {view.record.worker for view in self._counted()}
            if self._told is not None and now != self._told:
                self.on_change()
            self._told = now

    async def _look_at_progress(self) -> None:
        """Compare what hosts say with what they end; one alone has nothing to be compared with."""
        views = {view.record.worker: view for view in self._counted()}
        if len(views) < 2:
            self._trust.clear()
            self._trusted_ns = 0
            return
        now_ns = self._clock.monotonic_ns()
        since_s = (now_ns - self._trusted_ns) / 1e9 if self._trusted_ns else 0.0
        stages = list(dict.fromkeys(stage for view in views.values() for stage in view.pools))
        ended = await self._store.ended_by(list(views))
        for depth in await self._store.depths(stages):
            stage = depth.stage
            trust = self._trust.setdefault(stage, Trust(timeout_s=self._costs.timeout_of(stage)))
            doubted = trust.doubted
            trust.look(
                [
                    Reading(worker, view.pools[stage].ready, ended[worker].get(stage, 0))
                    for worker, view in views.items()
                    if stage in view.pools
                ],
                now_s=now_ns / 1e9,
                waited_s=since_s if depth.queued and depth.oldest_age_s > since_s else 0.0,
            )
            if trust.doubted != doubted:
                log.warning("worker_hosts_doubted", stage=stage, workers=sorted(trust.doubted))
                self._on_doubt(stage, len(trust.doubted - doubted))
                self.on_change()
        self._trusted_ns = now_ns

    async def _look(self, *, calmly: bool = False) -> None:
        """`calmly`: hosts that are idle are asked less often."""
        async with self._looking:
            records = {record.worker: record for record in await self._store.hosts()}
            if not records and not any(view.is_registered for view in self._counted()):
                own = unregistered(self._address_in_file() or self._local.fallback)
                records = {own.worker: own}
            elif records:
                self._drop_unregistered()
            for worker, record in records.items():
                view = self._views.setdefault(worker, HostView(record=record))
                view.listed(record)
            for worker in self._views.keys() - records.keys():
                self._views[worker].grace_ns = 0  # nothing says that it lives but its answers
            await self._ask_all(calmly=calmly)
            await self._bury(records)

    async def _ask_all(self, *, calmly: bool) -> None:
        """Look at each host that is due; wait for those that usually answer."""
        now_ns = self._clock.monotonic_ns()
        for worker, view in self._views.items():
            if calmly and view.is_calm(now_ns):
                continue
            if worker not in self._asking and view.due_ns <= now_ns:
                self._asking[worker] = asyncio.create_task(self._ask(view), name="worker host")
        answers = {view.record.worker for view in self._counted()}
        looks = self._asking.items()
        for some, most_s in (
            ([task for worker, task in looks if worker in answers], LOOK_S_MAX),
            ([task for _, task in looks], NEW_S_MAX if answers else LOOK_S_MAX),
        ):
            if some:
                await asyncio.wait(some, timeout=most_s)
        for worker, task in list(self._asking.items()):
            if task.done():
                del self._asking[worker]
                task.result()  # a bug: raises it

    async def _ask(self, view: HostView) -> None:
        """One look at one host."""
        lane = self._few if view.counts(self._clock.monotonic_ns()) else self._few_others
        async with lane:
            sizes_asked = view.sizes_asked
            try:
                stub = self._hosts.stub(view.record)
                request = worker_pb2.ListPoolsRequest()
                answer = await stub.ListPools(
                    request, timeout=LOOK_S_MAX, metadata=self._hosts.shown_to(view.record)
                )
            except grpc.aio.AioRpcError as error:
                await self._missed(view, error)
                return
            now_ns = self._clock.monotonic_ns()
            if view.is_registered and not is_of(view.record.worker, answer.worker):
                view.refused_ns = view.refused_ns or now_ns  # its successor has its port
                return
            if view.sizes_asked == sizes_asked:
                view.said(checked(view.record, answer.pools), now_ns, self._patience_ns)
            view.sandbox_mode = answer.sandbox_mode[:NAME_CHARS_MAX]
            view.answered(now_ns)

    async def _missed(self, view: HostView, error: grpc.aio.AioRpcError) -> None:
        record, code = view.record, error.code()
        self._hosts.forget(record.worker)
        # A life never changes its credential: one that does not know it is another life.
        another = code is grpc.StatusCode.UNAUTHENTICATED and bool(record.credential)
        gone = another or (code is grpc.StatusCode.UNAVAILABLE and await refuses(record.address))
        view.missed(self._clock.monotonic_ns(), gone=gone)
        self._why = f"the worker host at {record.address} does not answer: {code.name}"

    def _drop_unregistered(self) -> None:
        """A host that has registered since is one host, not two: its slots would count twice."""
        for worker, view in list(self._views.items()):
            if not view.is_registered:
                del self._views[worker]
                self._hosts.forget(worker)

    async def _bury(self, records: Mapping[WorkerId, HostRecord]) -> None:
        """Forget hosts that are gone; those known to be dead give back what they hold."""
        now_ns = self._clock.monotonic_ns()
        for worker, view in list(self._views.items()):
            if view.is_dead(now_ns) and view.is_registered:
                log.warning("worker_host_dead", worker=worker, address=view.record.address)
                await take_back_all(self._store, view.record, attempts_max=self._attempts_max)
            elif worker in records or view.counts(now_ns):
                continue
            del self._views[worker]
            self._hosts.forget(worker)

    # -- calls ---------------------------------------------------------------------------------
    async def _ask_for(self, view: HostView, stage: StageName, slots: int) -> bool:
        """Returns whether it took the size."""
        async with self._few:
            view.sizes_asked += 1
            try:
                said = await self._answer_to(view, stage, slots)
            except grpc.aio.AioRpcError as error:
                await self._missed(view, error)
                view.did_not_resize(stage, self._clock.monotonic_ns())
                return False
            finally:
                view.sizes_asked += 1
            # A look may have learned meanwhile that it serves the stage no more.
            none = state_of(worker_pb2.StagePool(stage=stage))
            now = said or view.pools.get(stage, none)
            now_ns = self._clock.monotonic_ns()
            took = view.obeyed(stage, slots, now, now_ns, self._patience_ns)
            if not took:
                log.warning(
                    "size_not_taken", worker=view.record.worker, stage=stage, slots=slots,
                    desired=now.desired,
                )  # fmt: skip
            return took

    async def _answer_to(self, view: HostView, stage: StageName, slots: int) -> PoolState | None:
        """What it says to a new size; `None`: it refuses, or speaks of another stage.

        Raises:
            AioRpcError: it does not answer.
        """
        request = worker_pb2.ResizePoolRequest(stage=stage, slots=slots)
        stub = self._hosts.stub(view.record)
        shown = self._hosts.shown_to(view.record)
        try:
            answer = await stub.ResizePool(request, timeout=CALL_S_MAX, metadata=shown)
        except grpc.aio.AioRpcError as error:
            if error.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}:
                return None
            raise
        return state_of(answer.pool) if answer.pool.stage == stage else None

    def _address_in_file(self) -> str:
        try:
            return str(json.loads(self._local.ready_file.read_text(encoding="utf-8"))["control"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""


def is_of(worker: WorkerId, said: str) -> bool:
    """Whether the process that answers is this life. The API makes the name of one without access
    to the store longer (`NAME~...`), and one of an earlier release says none."""
    return not said or worker == said or worker.startswith(f"{said}~")
