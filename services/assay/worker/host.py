"""The worker host: all stages that this process serves.

A blocked connection waits for work of the stages that have idle slots; stages that become idle
during a wait get another one. A wait is never cancelled to change its stages: the store may have
answered it already, so every stage would have to be tried, and the connection would be lost. Each
stage is in one wait at most, so there are no more waits than stages. An unexpected exception here
is a bug: it is logged and the host ends, to be restarted by its supervisor.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from assay.core.errors import AssayError, InvalidRequest, NotFound
from assay.core.ids import StageName
from assay.core.records import StageDepth  # noqa: TC001 - seen by mypy and readers alike
from assay.edge.clock import Clock
from assay.edge.lifecycle import failure_of, wait_at_most
from assay.edge.metrics import Metrics
from assay.store.port import WorkerStore
from assay.worker.forking.client import SlotForks
from assay.worker.slots.pool import SlotCounts
from assay.worker.store_health import StoreHealth
from assay.worker.supervisor import Supervisor
from assay.worker.sweeps import SweepTurns

WAIT_S: Final = 5.0
"""Longest sleep in one wait for work."""
IDLE_RESTS: Final = 3
"""Queues without work are swept less often by this factor."""
CLOSE_S_MAX: Final = 15.0
"""Time for slots to close and reports to be delivered after the drain, in seconds; longer where the
drain itself took less than its time, as the store may be away together with this host's node."""

log = structlog.get_logger(__name__)


class HostFailed(Exception):
    """A bug ended the host."""


class BackgroundTasks:
    """Tasks that must not fail; the first failure is recorded."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], None] = {}
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def spawn(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        error = failure_of(task)
        if error is None:
            return
        log.error("task_failed", task=task.get_name(), exc_info=error)
        if not self.failed.done():
            self.failed.set_result(error)

    async def cancel(self) -> None:
        """End all that still run."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Configuration of the host."""

    slots: Mapping[StageName, int]
    """Number of slots per stage at start-up."""
    slots_max: int
    drain_s: float
    reap_every_s: float
    sandbox_mode: str
    followers: Mapping[StageName, Sequence[StageName]] = field(default_factory=dict)
    """Stages that start their slots with those of a stage, since its requests reach them next."""


class WorkerHost:
    """Starts, waits, drains. Built by `assay.worker.build`."""

    def __init__(
        self,
        *,
        settings: HostSettings,
        supervisors: Mapping[StageName, Supervisor],
        store: WorkerStore,
        health: StoreHealth,
        forks: SlotForks,
        clock: Clock,
        metrics: Metrics,
        tasks: BackgroundTasks,
    ) -> None:
        self._settings = settings
        self._supervisors = supervisors
        self._store = store
        self._health = health
        self._forks = forks
        self._clock = clock
        self._metrics = metrics
        self._tasks = tasks
        self._waited_for: set[StageName] = set()
        self._wanting = asyncio.Event()
        self._woken = asyncio.Event()
        """There was work since the last sweep."""
        self._failures = 0
        """Waits that failed since the last that did not."""
        self._is_draining = False
        self.store_unfit = ""
        """Why the store can no longer be trusted with work."""
        self._loops: list[asyncio.Task[None]] = []
        self._depths: dict[StageName, StageDepth] = {}
        """As the metrics show them."""

    # -- pools ---------------------------------------------------------------------------------
    @property
    def sandbox_mode(self) -> str:
        """How untrusted code is isolated here."""
        return self._settings.sandbox_mode

    def pools(self) -> Sequence[SlotCounts]:
        """Return all stages."""
        return [supervisor.state() for supervisor in self._supervisors.values()]

    def resize(self, stage: str, slots: int) -> SlotCounts:
        """Set the size of a stage's pool.

        Raises:
            NotFound: this host does not serve the stage.
            InvalidRequest: a negative number, or more than `slots_max`.
        """
        supervisor = self._supervisors.get(StageName(stage))
        if supervisor is None:
            raise NotFound(f"stage {stage} is not served here", field="stage")
        if not 0 <= slots <= self._settings.slots_max:
            message = f"slots are 0 to {self._settings.slots_max}"
            raise InvalidRequest(message, field="slots")
        if self._is_draining:
            return supervisor.state()
        log.info("pool_resized", stage=stage, slots=slots, before=supervisor.state().desired)
        return supervisor.resize(slots)

    @property
    def why_not_ready(self) -> str:
        """Why the host is not ready; empty if it can take work of every stage that it serves."""
        if self._is_draining:
            return "draining"
        if not self._health.is_up:
            return "the store does not answer"
        if self.store_unfit:
            return self.store_unfit
        for pool in self.pools():
            if pool.desired and not pool.ready:
                return f"no slot of stage {pool.stage} is ready"
        return ""

    # -- life ----------------------------------------------------------------------------------
    def start(self) -> None:
        """Start slots and begin to wait for work."""
        for stage, supervisor in self._supervisors.items():
            supervisor.resize(self._settings.slots[stage])
            self._loops.append(self._tasks.spawn(supervisor.beat(), name=f"beat {stage}"))
        self._loops.append(self._tasks.spawn(self._wait_for_work(), name="wait for work"))
        self._loops.append(self._tasks.spawn(self._reap(), name="reap"))

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until stopped.

        Raises:
            HostFailed: a bug; it is in the log.
        """
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((stopping, self._tasks.failed), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._tasks.failed.done():
            raise HostFailed(repr(self._tasks.failed.result()))

    def begin_drain(self) -> None:
        """Claim nothing more, from this instant on; what a claim in flight brings is given back."""
        if self._is_draining:
            return
        self._is_draining = True
        log.info("draining", drain_s=self._settings.drain_s)
        for supervisor in self._supervisors.values():
            supervisor.begin_drain()

    async def stop(self) -> None:
        """Drain, close the slots, release everything."""
        self.begin_drain()
        end_ns = self._clock.monotonic_ns() + int(self._settings.drain_s * 1e9)
        supervisors = self._supervisors.values()
        # Work continues to the next stage during the drain, so leases are renewed to the end.
        await asyncio.gather(
            *(supervisor.drain(self._settings.drain_s) for supervisor in supervisors)
        )
        left_s = max(CLOSE_S_MAX, (end_ns - self._clock.monotonic_ns()) / 1e9)
        try:
            async with asyncio.timeout(left_s):
                await asyncio.gather(*(supervisor.close() for supervisor in supervisors))
        except TimeoutError:
            log.warning("not_closed_in_time", seconds=round(left_s, 1))
        await self._tasks.cancel()
        await self._forks.close()

    # -- waking --------------------------------------------------------------------------------
    def on_wanting(self, stage: StageName) -> None:
        """A stage has idle slots and no known work."""
        if stage not in self._waited_for:
            self._wanting.set()

    async def _wait_for_work(self) -> None:
        while not self._is_draining:
            self._wanting.clear()
            stages = [
                stage
                for stage, supervisor in self._supervisors.items()
                if stage not in self._waited_for and supervisor.wants_waking
            ]
            if stages:
                self._waited_for.update(stages)
                self._tasks.spawn(self._wait(stages), name="blocked")
            await self._wanting.wait()

    async def _wait(self, stages: Sequence[StageName]) -> None:
        """One wait, and a claim for the stage that may have work."""
        woken: StageName | None = None
        try:
            woken = await self._store.wait_for_work(stages, timeout_s=WAIT_S)
            self._health.worked()
            self._failures = 0
        except AssayError as error:
            self._health.failed(error)
            await self._health.pause(self._failures)
            self._failures += 1
            # The answer that was lost may have been the only wake-up of work that waits.
            supervisors = [self._supervisors[stage] for stage in stages]
            await asyncio.gather(*(one.wake() for one in supervisors if not one.is_asleep))
        finally:
            self._waited_for.difference_update(stages)
            self._wanting.set()
        if woken is not None:
            self._woken.set()
            for following in self._settings.followers.get(woken, ()):
                if following in self._supervisors:
                    self._supervisors[following].rouse()
            await self._supervisors[woken].wake()

    # -- reaping -------------------------------------------------------------------------------
    async def _reap(self) -> None:
        turns = SweepTurns(list(self._supervisors))
        at_work: Sequence[StageName] = list(self._supervisors)
        while True:
            await self._rest(self._settings.reap_every_s, is_idle=not at_work)
            try:
                at_work = await self._look_at_queues()
            except AssayError:  # each sweep notes that
                at_work = list(self._supervisors)
            chosen = turns.next(at_work)
            found = await asyncio.gather(*(self._supervisors[stage].reap() for stage in chosen))
            if any(found):  # there may be more than one sweep takes
                for stage in sorted(self._supervisors.keys() - set(chosen)):
                    await self._supervisors[stage].reap()

    async def _rest(self, seconds: float, *, is_idle: bool) -> None:
        """Longer where there was no work, until there is."""
        if is_idle:
            self._woken.clear()
            await wait_at_most(seconds * (IDLE_RESTS - 1), self._woken)
        await self._clock.sleep(seconds)

    async def _look_at_queues(self) -> Sequence[StageName]:
        """Note the lengths of the queues; returns the stages that have work."""
        depths = await self._store.depths(list(self._supervisors))
        self._health.worked()  # an idle host has no other call that ends soon
        for depth in depths:
            if self._depths.get(depth.stage) == depth:
                continue  # an idle platform has dozens of empty queues
            self._depths[depth.stage] = depth
            self._metrics.queue_seen(
                stage=depth.stage,
                queued=depth.queued,
                running=depth.running,
                oldest_age_s=depth.oldest_age_s,
                dead_letters=depth.dead_letters,
            )
        return [depth.stage for depth in depths if depth.queued or depth.running]
