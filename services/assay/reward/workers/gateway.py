"""Work for hosts without access to the store: what a worker's token permits, on the real store.

Invariants: a token reaches its stages only; what was not leased to the worker that shows it is
neither renewed nor finished (a lease is sealed with its owner, stage and next stage); limits of
attempts are the platform's, not the worker's; a claim whose caller has gone away is given back. No
replica remembers anything about a worker.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from assay.core.errors import (
    DependencyDown,
    InvalidRequest,
    PermissionDenied,
    Saturated,
    Unauthenticated,
)
from assay.core.hosts.record import HostRecord
from assay.core.ids import JobId, PipelineName, StageName, TenantId, WorkerId
from assay.core.records import (
    Claim,
    CompletedBatch,
    GiveBack,
    Lease,
    Member,
    Reaped,
    Report,
    StageDepth,
    StageReport,
    payload_bytes,
)
from assay.core.store_limits import HELD_NAMED_MAX
from assay.edge.clock import Clock
from assay.edge.lifecycle import joined
from assay.edge.work.addresses import refuse_own_address
from assay.edge.work.tokens import NAME_FORM, WorkerKeys, WorkerPass
from assay.edge.work.wire import Next
from assay.reward.workers.scopes import ArtifactScopes
from assay.store.port import Store
from assay.verifiers.port import PipelineDefinition, StageDefinition

CLAIMS_MAX: Final = 256
LEFT_OUT_MAX: Final = 1_024
"""Tenants that a claim may leave out."""
CLAIMS_SLICE: Final = 16
"""Claims between two looks at the size of the answer."""
ANSWER_BYTES_MAX: Final = 4 * 1024**2
"""An answer that has reached this size gets no further claims."""
REPORTS_MAX: Final = 1_024
LEASES_MAX: Final = 8_192
WAIT_MS_MAX: Final = 30_000
LEASE_S_MAX: Final = 3_600.0
SWEEP_JOBS_MAX: Final = 1_000
SWEEPS_APART_S: Final = 0.5
RENEWED_S: Final = 3.0
"""After an outage of the store, the time in which all workers renew their leases."""
PREDECESSOR_AGE_NS_MAX: Final = 86_400 * 10**9
HOST_LEASE_S_MAX: Final = 60.0
WAITS_MAX: Final = 6_144
KEY_CHARS_MAX: Final = 1_024
WAIT_RETRY_S: Final = 5.0
CLOSE_S_MAX: Final = 2.0
ONLY_ENROLLS: Final = "this token permits only to enroll"
_PARTS: Final = 4

T = TypeVar("T")

log = structlog.get_logger(__name__)


class Claimed(NamedTuple):
    """Claims of one call, and what the worker shows for each."""

    stage: StageName | None
    """The stage that had work; `None`: none."""
    claims: Sequence[Claim]
    leases: Sequence[str]
    more: bool


class WorkGateway:
    """One per replica of the API."""

    def __init__(
        self,
        *,
        store: Store,
        pipelines: Mapping[PipelineName, PipelineDefinition],
        stages: Mapping[StageName, StageDefinition],
        keys: Callable[[], WorkerKeys],
        token_s: float,
        attempts_max: int,
        clock: Clock,
        on_completed: Callable[[CompletedBatch], None],
        sweeps_apart_s: float = SWEEPS_APART_S,
        waits_max: int = WAITS_MAX,
    ) -> None:
        """Prepare.

        Args:
            store: of the platform.
            pipelines: the installed ones.
            stages: theirs.
            keys: that sign, as they are now.
            token_s: how long a worker's own token is valid.
            attempts_max: of a request per stage.
            clock: for times.
            on_completed: called for each batch that a worker's call completed.
            sweeps_apart_s: a stage that was swept so recently is not swept again.
            waits_max: calls that may wait for work at once; those with one token, two thirds of
                them.
        """
        self._store = store
        self._stages = stages
        self._scopes = ArtifactScopes(pipelines)
        self._keys = keys
        self.token_s = token_s
        self.attempts_max = attempts_max
        self._clock = clock
        self._on_completed = on_completed
        self._sweeps_apart_ns = int(sweeps_apart_s * 1e9)
        self._waits_max = waits_max
        self._waits: Counter[str] = Counter()
        self._swept: dict[StageName, int] = {}
        self._no_sweep_before_ns = 0
        self._running: set[asyncio.Task[Any]] = set()

    # -- who -----------------------------------------------------------------------------------
    def enroll(self, caller: WorkerPass, name: str) -> tuple[str, WorkerPass]:
        """A token of a worker's own, or a later one of the same worker.

        Raises:
            InvalidRequest: the name has a wrong form.
        """
        worker = caller.worker
        if not worker:
            if not NAME_FORM.fullmatch(name):
                raise InvalidRequest("worker: 1 to 200 letters, digits, _.:~/-", field="worker")
            worker = WorkerId(f"{name}~{secrets.token_hex(8)}")
        found = WorkerPass(
            stages=caller.stages,
            expires_ns=self._clock.now_ns() + int(self.token_s * 1e9),
            name=caller.name,
            worker=worker,
        )
        return self._keys().mint(found), found

    def _stage(self, caller: WorkerPass, stage: str) -> StageName:
        name = StageName(stage)
        if not caller.worker:
            raise PermissionDenied(ONLY_ENROLLS)
        if name not in caller.stages:
            raise PermissionDenied(f"stage: this token does not permit {stage[:200]!r}")
        return name

    # -- leases --------------------------------------------------------------------------------
    def _shown(self, caller: WorkerPass, claim: Claim) -> str:
        """What the worker shows for the claim."""
        stages = claim.task.stages
        at = stages.index(claim.stage) + 1 if claim.stage in stages else len(stages)
        following = stages[at] if at < len(stages) else ""
        gathers = int(bool(following) and following == claim.task.group_stage)
        parts = (claim.lease.job_id, following, gathers)
        seal = self._keys().seal([caller.worker, claim.stage, claim.lease.fence, *parts])
        return "~".join([*map(str, parts), seal])

    def opened(
        self, caller: WorkerPass, stage: StageName, shown: str, fence: int
    ) -> tuple[JobId, Next] | None:
        """The request of a lease and the stage after this one; `None`: it was not leased to it."""
        parts = shown.split("~")
        if len(parts) != _PARTS:
            return None
        *said, seal = parts
        if not self._keys().is_sealed([caller.worker, stage, fence, *said], seal):
            return None
        job, following, gathers = said
        return JobId(job), (StageName(following), gathers == "1") if following else None

    # -- calls ---------------------------------------------------------------------------------
    async def claim(
        self,
        caller: WorkerPass,
        stages: Sequence[str],
        *,
        claims_max: int,
        lease_s: float,
        wait_ms: int,
        left_out: Sequence[TenantId] = (),
    ) -> Claimed:
        """Wait for work, lease it, or both, as `ClaimRequest` describes.

        Raises:
            PermissionDenied: the token does not permit one of the stages.
            InvalidRequest: a number is out of range, or there is no stage, or more than one without
                a wait.
            Saturated: too many calls wait, or too many with this token.
        """
        names = [self._stage(caller, stage) for stage in dict.fromkeys(stages)]
        in_range("claims_max", claims_max, 0, CLAIMS_MAX)
        in_range("wait_ms", wait_ms, 0, WAIT_MS_MAX)
        in_range("lease_s", lease_s, 0.001, LEASE_S_MAX)
        in_range("left_out", len(left_out), 0, LEFT_OUT_MAX)
        if not names or (len(names) > 1 and not wait_ms):
            raise InvalidRequest(
                "stages: name one stage, or several together with wait_ms", field="stages"
            )
        stage: StageName | None = names[0]
        if wait_ms:
            with self._waiting(caller.name or caller.worker):
                stage = await self._unless_gone(
                    self._store.wait_for_work(names, timeout_s=wait_ms / 1e3), self._pass_on
                )
        if stage is None or (wait_ms and not claims_max):
            return Claimed(stage, (), (), more=False)
        return await self._unless_gone(
            self._claim(caller, stage, claims_max, lease_s, left_out), self._give_back
        )

    @contextmanager
    def _waiting(self, owner: str) -> Iterator[None]:
        """One more call that waits. However many do, calls of other kinds have room, and so have
        those with another token."""
        of_one = self._waits[owner] >= max(1, self._waits_max * 2 // 3)
        if of_one or self._waits.total() >= self._waits_max:
            whose = " with this token" if of_one else ""
            message = f"too many calls wait for work{whose}"
            raise Saturated(message, retry_after_s=WAIT_RETRY_S)
        self._waits[owner] += 1
        try:
            yield
        finally:
            self._waits[owner] -= 1
            if not self._waits[owner]:
                del self._waits[owner]

    async def _claim(
        self,
        caller: WorkerPass,
        stage: StageName,
        claims_max: int,
        lease_s: float,
        left_out: Sequence[TenantId],
    ) -> Claimed:
        found: list[Claim] = []
        size, more = 0, True
        while more and size < ANSWER_BYTES_MAX:
            count = min(claims_max - len(found), CLAIMS_SLICE)
            try:
                some = await self._store.claim(
                    stage,
                    claims_max=count,
                    lease_s=lease_s,
                    worker=caller.worker,
                    left_out=left_out,
                )
            except DependencyDown:
                if not found:
                    raise
                break  # requests leased so far must reach their worker
            found += some
            size += sum(map(_bytes_of, some))
            more = len(some) == count and len(found) < claims_max
        shown = [self._shown(caller, claim) for claim in found]
        return Claimed(stage, found, shown, more=more)

    async def _pass_on(self, stage: StageName | None) -> None:
        """The caller that was woken is gone: wake another."""
        if stage is not None:
            await self._store.claim(stage, claims_max=0, lease_s=1.0, worker=WorkerId("gone"))

    async def _give_back(self, claimed: Claimed) -> None:
        if claimed.stage is None or not claimed.claims:
            return
        unused = StageReport(worker=WorkerId("gone"), started_after_ns=0, finished_after_ns=0)
        reports = [
            Report(lease=one.lease, report=unused, finish=GiveBack()) for one in claimed.claims
        ]
        await self._store.finish(claimed.stage, reports, self.attempts_max)

    async def _unless_gone(
        self, work: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]
    ) -> T:
        """Complete `work` even when its call is cancelled, and then undo it."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await joined(task)
        except asyncio.CancelledError:
            undoing = asyncio.create_task(_undone(task, undo))
            self._running.add(undoing)
            undoing.add_done_callback(self._running.discard)
            raise

    async def close(self) -> None:
        """Wait for what is being given back, not for work: the next sweep wakes another waiter."""
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSE_S_MAX)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def beat(
        self, caller: WorkerPass, stage: str, *, lease_s: float, leases: Sequence[tuple[str, int]]
    ) -> Sequence[int]:
        """Renew leases; returns the indexes of those that are lost, or are not the worker's."""
        name = self._stage(caller, stage)
        in_range("lease_s", lease_s, 0.001, LEASE_S_MAX)
        in_range("leases", len(leases), 0, LEASES_MAX)
        own: dict[Lease, int] = {}
        lost: list[int] = []
        for index, (shown, fence) in enumerate(leases):
            opened = self.opened(caller, name, shown, fence)
            if opened is None:
                lost.append(index)
            else:
                own[Lease(job_id=opened[0], fence=fence)] = index
        gone = await self._store.beat(name, lease_s=lease_s, leases=list(own))
        return sorted([*lost, *(own[lease] for lease in gone)])

    async def give_back_undelivered(
        self, caller: WorkerPass, stage: str, leases: Sequence[tuple[str, int]]
    ) -> int:
        """Give back what the worker's latest claims leased beside these leases; returns how many.

        Raises:
            PermissionDenied: the token does not permit the stage.
            InvalidRequest: too many leases.
        """
        name = self._stage(caller, stage)
        in_range("leases", len(leases), 0, HELD_NAMED_MAX)
        opened = ((self.opened(caller, name, *one), one[1]) for one in leases)
        held = [Lease(job_id=one[0], fence=fence) for one, fence in opened if one is not None]
        return await self._store.give_back_undelivered(name, worker=caller.worker, leases=held)

    async def finish(self, stage: StageName, reports: Sequence[Report]) -> Sequence[bool]:
        """Report the ends of claims that were opened; returns which took effect."""
        finished = await self._store.finish(stage, reports, self.attempts_max)
        for one in finished.completed:
            self._on_completed(one)
        return [status.value == "DONE" for status in finished.statuses]

    def stage_of(self, caller: WorkerPass, stage: str) -> StageName:
        """The stage of a call.

        Raises:
            PermissionDenied: the token does not permit it.
        """
        return self._stage(caller, stage)

    async def sweep(self, caller: WorkerPass, stage: str) -> tuple[Reaped | None, StageDepth]:
        """Take back expired leases, unless that was done just now; and count the queue."""
        name = self._stage(caller, stage)
        now_ns = self._clock.monotonic_ns()
        reaped = None
        (depth,) = await self._depths(name)
        is_due = name not in self._swept or now_ns - self._swept[name] >= self._sweeps_apart_ns
        if is_due and now_ns >= self._no_sweep_before_ns:
            self._swept[name] = now_ns
            reaped = await self._store.reap(
                name, attempts_max=self.attempts_max, jobs_max=SWEEP_JOBS_MAX
            )
            for one in reaped.completed:
                self._on_completed(one)
            (depth,) = await self._depths(name)
        return reaped, depth

    async def _depths(self, stage: StageName) -> Sequence[StageDepth]:
        """Of the queue. Where the store does not answer, leases run out that their workers could
        not renew: they get the time to."""
        try:
            return await self._store.depths([stage])
        except DependencyDown:
            self._no_sweep_before_ns = self._clock.monotonic_ns() + int(RENEWED_S * 1e9)
            raise

    async def join(
        self, caller: WorkerPass, host: HostRecord, *, lease_s: float, peer: str
    ) -> bool:
        """Keep the record of a host; `peer` = the IP address from which it calls.

        Raises:
            PermissionDenied: it names a stage that its token does not permit, or an address at
                which only another machine's own processes can be reached.
            Saturated: too many hosts, or too many with its token.
        """
        refuse_own_address(host.address, peer)
        for stage in host.stages:
            self._stage(caller, stage)
        in_range("lease_s", lease_s, 0.001, HOST_LEASE_S_MAX)
        owner = caller.name or caller.worker
        return await self._store.put_host(host, lease_s=lease_s, owner=owner)

    async def leave(self, caller: WorkerPass, predecessor: str) -> tuple[int, int]:
        """Forget the caller's host, or take back what a killed life of it held, as its token shows,
        at the stages of both tokens.

        Returns:
            How many requests are delivered again, and how many ended.

        Raises:
            PermissionDenied: the caller's token permits only to enroll.
            Unauthenticated: no key signed the predecessor's token, it is too old, or the two tokens
                have no stage in common.
        """
        if not caller.worker:
            raise PermissionDenied(ONLY_ENROLLS)
        if not predecessor:
            await self._store.drop_host(caller.worker)
            return 0, 0
        before = self._keys().read(predecessor)
        age_ns = self._clock.now_ns() - before.expires_ns
        stages = [stage for stage in before.stages if stage in caller.stages]
        is_earlier = before.worker and before.worker != caller.worker and stages
        if not is_earlier or age_ns > PREDECESSOR_AGE_NS_MAX:
            raise Unauthenticated("predecessor: not the token of an earlier life")
        redelivered = dead = 0
        for stage in stages:
            taken = await self._store.take_back(
                stage, before.worker, attempts_max=self.attempts_max
            )
            redelivered, dead = redelivered + taken.redelivered, dead + taken.dead
            for one in taken.completed:
                self._on_completed(one)
        await self._store.drop_host(before.worker)
        return redelivered, dead

    # -- artifacts and permits -----------------------------------------------------------------
    def artifact_keys(self, caller: WorkerPass, key: str) -> Sequence[str]:
        """Where the worker's artifact is, and where else it is to be kept: see `ArtifactScopes`."""
        if not caller.worker:
            raise PermissionDenied(ONLY_ENROLLS)
        in_range("key", len(key), 1, KEY_CHARS_MAX)
        return self._scopes.keys(caller.stages, key)

    @property
    def store(self) -> Store:
        """For artifacts, whose keys were made here."""
        return self._store

    async def permit(
        self,
        caller: WorkerPass,
        tenant: TenantId,
        provider: str,
        limits: Mapping[str, tuple[int, int]],
    ) -> float:
        """Leave for a call of a provider; not for hosts that run untrusted code.

        Raises:
            PermissionDenied: one of the token's stages does.
        """
        known = [self._stages[stage] for stage in caller.stages if stage in self._stages]
        if not caller.worker or not known or any(one.runs_untrusted_code for one in known):
            raise PermissionDenied("this token does not permit calls of providers")
        return await self._store.permit(tenant, provider, limits)


async def _undone(task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]) -> None:
    try:
        await undo(await task)
    except Exception as error:  # noqa: BLE001 its lease runs out then
        log.warning("not_given_back", why=str(error))


def _bytes_of(claim: Claim) -> int:
    parts: list[Claim | Member] = [claim, *claim.members]
    return sum(payload_bytes(one) + len(one.handover) for one in parts)


def in_range(field: str, value: float, least: float, most: float) -> None:
    """Refuse a number that is not within both bounds, or none at all (NaN).

    Raises:
        InvalidRequest: it names the field and its range.
    """
    if not least <= value <= most:
        raise InvalidRequest(f"{field}: {least:g} to {most:g}", field=field)
