"""All worker hosts: their pools together, and slots placed on them.

The store has their records; where it has none, the host named by this machine's ready file is
asked. Hosts are looked at every `LOOK_EVERY_S` while the planner leads. Invariants: a host that
does not answer loses nothing by it (it is not counted on); one whose process is known to be gone
gives its leases back at once; what a host says is checked before it counts.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
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
from assay.planner.service.host_view import HostView, checked, state_of, unregistered
from assay.planner.session.messages import Machine, PoolState
from assay.planner.session.placement import HostSlots, place
from assay.store.operations.hosts import take_back_all
from assay.store.port import Store
from assay.v1 import worker_pb2

CALL_S_MAX: Final = 5.0
LOOK_EVERY_S: Final = 1.0
UNUSED_S_MAX: Final = 60.0
"""Hosts are not looked at when the planner did not ask for this long: it does not lead."""
CALLS_AT_ONCE_MAX: Final = 64
OTHERS_AT_ONCE_MAX: Final = 32
"""Looks at hosts that are not counted on: however many there are, they delay no others."""
NEW_S_MAX: Final = 0.25
"""How long a look waits for hosts that are not counted on, where others are."""
ROUNDS_MAX: Final = 3
"""How often slots that a host did not take are placed on others, per resize."""

CoresOf = Callable[[StageName], float]

log = structlog.get_logger(__name__)


class HostsScaler:
    """Implements `Scaler` over all hosts."""

    def __init__(
        self,
        store: Store,
        *,
        ready_file: Path,
        fallback: str,
        operator: Operator,
        cores_of: CoresOf,
        attempts_max: int,
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare without connecting.

        Args:
            store: of the platform.
            ready_file: of this machine's host, for one that does not register.
            fallback: its address, where there is no such file.
            operator: whose token this machine's host requires, if it does not register.
            cores_of: cores that a slot of a stage uses.
            attempts_max: see `Store.take_back`.
            clock: for times.
            on_change: called when a host comes or goes.
        """
        self._store = store
        self._ready_file = ready_file
        self._fallback = fallback
        self._cores_of = cores_of
        self._attempts_max = attempts_max
        self._clock = clock
        self.on_change = on_change
        self._views: dict[WorkerId, HostView] = {}
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
            views = {view.record.worker: view for view in self._counted() if stage in view.pools}
            if not views:
                raise InvalidRequest(f"no worker host serves stage {stage!r}", field="stage")
            now_ns = self._clock.monotonic_ns()
            placed = place(slots, [self._slots_of(stage, one, now_ns) for one in views.values()])
            changes = [
                self._ask_for(view, stage, placed[worker])
                for worker, view in views.items()
                if placed[worker] != view.pools[stage].desired
            ]
            if all(await asyncio.gather(*changes)):
                break
        return self._sum(stage, [one for one in self._counted() if stage in one.pools])

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
    def hosts(self) -> Sequence[HostView]:
        """As last seen, by name."""
        return [self._views[worker] for worker in sorted(self._views)]

    def counts(self, view: HostView) -> bool:
        """Whether a host's slots are counted on at present."""
        return view.counts(self._clock.monotonic_ns())

    # -- sums ----------------------------------------------------------------------------------
    def _counted(self) -> list[HostView]:
        now_ns = self._clock.monotonic_ns()
        return [view for _, view in sorted(self._views.items()) if view.counts(now_ns)]

    def _sum(self, stage: StageName, views: Sequence[HostView]) -> PoolState:
        serving = [view for view in views if stage in view.pools]
        known = [view.record for view in serving if view.record.cores]
        now_ns = self._clock.monotonic_ns()
        away = [one for one in self._views.values() if not one.counts(now_ns)]
        return PoolState(
            stage=stage,
            desired=sum(view.pools[stage].desired for view in serving),
            ready=sum(view.pools[stage].ready for view in serving),
            busy=sum(view.pools[stage].busy for view in serving),
            slots_max=sum(view.room(stage, now_ns) for view in serving) if known else None,
            machines=tuple(
                Machine(cores=one.cores, memory_bytes=one.memory_bytes) for one in known
            ),
            condition=f"HostsAway: {len(away)} of {len(self._views)}" if away else "",
        )

    def _slots_of(self, stage: StageName, view: HostView, now_ns: int) -> HostSlots:
        cores = view.record.cores or 1
        others = sum(
            pool.desired * self._cores_of(other)
            for other, pool in view.pools.items()
            if other != stage
        )
        return HostSlots(
            host=view.record.worker,
            slots=view.pools[stage].desired,
            busy=view.pools[stage].busy,
            room=view.room(stage, now_ns),
            others=others / cores,
            share=self._cores_of(stage) / cores,
        )

    # -- looking -------------------------------------------------------------------------------
    async def _watch(self) -> None:
        while self._clock.monotonic_ns() - self._asked_ns < UNUSED_S_MAX * 1e9:
            await self._clock.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except AssayError as error:
                self._why = error.message
                continue
            now = {view.record.worker for view in self._counted()}
            if self._told is not None and now != self._told:
                self.on_change()
            self._told = now

    async def _look(self) -> None:
        async with self._looking:
            records = {record.worker: record for record in await self._store.hosts()}
            if not records:
                own = unregistered(self._address_in_file() or self._fallback)
                records = {own.worker: own}
            now_ns = self._clock.monotonic_ns()
            for worker, record in records.items():
                view = self._views.setdefault(worker, HostView(record=record))
                view.record, view.listed_ns = record, now_ns
            await self._ask_all()
            await self._bury(records)

    async def _ask_all(self) -> None:
        """Look at each host that is due; wait for those that usually answer."""
        now_ns = self._clock.monotonic_ns()
        for worker, view in self._views.items():
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
            try:
                stub = await self._hosts.stub(view.record)
                request = worker_pb2.ListPoolsRequest()
                answer = await stub.ListPools(
                    request, timeout=LOOK_S_MAX, metadata=self._hosts.shown_to(view.record)
                )
            except grpc.aio.AioRpcError as error:
                await self._missed(view, error)
                return
            now_ns = self._clock.monotonic_ns()
            if view.record.stages and not is_of(view.record.worker, answer.worker):
                view.refused_ns = view.refused_ns or now_ns  # its successor has its port
                return
            view.pools = checked(view.record, answer.pools)
            view.sandbox_mode = answer.sandbox_mode[:NAME_CHARS_MAX]
            view.answered(now_ns)

    async def _missed(self, view: HostView, error: grpc.aio.AioRpcError) -> None:
        record, code = view.record, error.code()
        await self._hosts.forget(record.worker)
        # A life never changes its credential: one that does not know it is another life.
        another = code is grpc.StatusCode.UNAUTHENTICATED and bool(record.credential)
        gone = another or (code is grpc.StatusCode.UNAVAILABLE and await refuses(record.address))
        view.missed(self._clock.monotonic_ns(), gone=gone)
        self._why = f"the worker host at {record.address} does not answer: {code.name}"

    async def _bury(self, records: Mapping[WorkerId, HostRecord]) -> None:
        """Forget hosts that are gone; those known to be dead give back what they hold."""
        now_ns = self._clock.monotonic_ns()
        for worker, view in list(self._views.items()):
            if view.is_dead(now_ns) and view.record.stages:
                log.warning("worker_host_dead", worker=worker, address=view.record.address)
                await take_back_all(self._store, view.record, attempts_max=self._attempts_max)
            elif worker in records or view.counts(now_ns):
                continue
            del self._views[worker]
            await self._hosts.forget(worker)

    # -- calls ---------------------------------------------------------------------------------
    async def _ask_for(self, view: HostView, stage: StageName, slots: int) -> bool:
        """Returns whether it took the size."""
        async with self._few:
            request = worker_pb2.ResizePoolRequest(stage=stage, slots=slots)
            try:
                stub = await self._hosts.stub(view.record)
                answer = await stub.ResizePool(
                    request, timeout=CALL_S_MAX, metadata=self._hosts.shown_to(view.record)
                )
            except grpc.aio.AioRpcError as error:
                if error.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}:
                    now = view.pools[stage]
                else:
                    await self._missed(view, error)
                    view.answered_ns = 0  # not counted on before it answers again
                    return False
            else:
                now = state_of(answer.pool)
            took = view.obeyed(stage, slots, now, self._clock.monotonic_ns())
            if not took:
                log.warning(
                    "size_not_taken", worker=view.record.worker, stage=stage, slots=slots,
                    desired=now.desired,
                )  # fmt: skip
            return took

    def _address_in_file(self) -> str:
        try:
            return str(json.loads(self._ready_file.read_text(encoding="utf-8"))["control"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""


def is_of(worker: WorkerId, said: str) -> bool:
    """Whether the process that answers is this life. The API makes the name of one without access
    to the store longer (`NAME~...`), and one of an earlier release says none."""
    return not said or worker == said or worker.startswith(f"{said}~")
