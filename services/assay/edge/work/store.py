"""What a worker host needs of the store, by `WorkService` of the API, without access to the store.

One call is one RPC, as in `assay.store.valkey` one call is a few scripts; the host behaves the
same. Invariants: the worker is who its token says, whatever name its calls carry; a lease is opaque
here, its `job_id` is what the API wants to be shown; after an answer that did not come, the next
call goes to the next address.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import grpc

from assay.client.failures import error_of
from assay.core.errors import DeadlinePassed, DependencyDown, Saturated, Unauthenticated
from assay.core.hosts.record import BUSY_UNKNOWN, HostRecord
from assay.core.ids import StageName, TenantId, WorkerId
from assay.core.records import (
    Claim,
    Finished,
    FinishStatus,
    Lease,
    Reaped,
    Report,
    StageDepth,
)
from assay.core.store_limits import Fitness
from assay.edge.access.channels import LeftChannels
from assay.edge.clock import Clock
from assay.edge.work import wire
from assay.edge.work.token_files import RENEW_S_MIN, RENEW_SHARE, TokenFiles
from assay.v1 import worker_pb2, worker_pb2_grpc

CALL_S_MAX: Final = 20.0
ARTIFACT_S_MAX: Final = 60.0
WAIT_GRACE_S: Final = 10.0
WAIT_S_MAX: Final = 30.0
CLAIMS_MAX: Final = 256
REPORTS_MAX: Final = 512
LEASES_MAX: Final = 4_096
KEEPALIVE_MS: Final = 20_000


class RemoteStore:
    """Implements `assay.store.port.WorkerStore`."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        worker: WorkerId,
        tokens: TokenFiles,
        authority: bytes | None,
        clock: Clock,
        identity: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Prepare without connecting.

        Args:
            addresses: of the API's replicas, or of one name for all; `grpcs://` for TLS.
            worker: this life of the host; the API makes it unique.
            tokens: the worker's.
            authority: PEM certificates; `None` = the system's.
            clock: for the end of a token.
            identity: key and certificate chain in PEM, to show to an API that asks for them.
        """
        self._addresses = tuple(addresses)
        self._at = 0
        self._own = worker
        self._tokens = tokens
        self._authority = authority
        self._identity = identity or (None, None)
        self._clock = clock
        self._channel: grpc.aio.Channel | None = None
        self._session = ""
        self._renew_ns = 0
        self._enrolling = asyncio.Lock()
        self._left = LeftChannels(calls_s_max=ARTIFACT_S_MAX + WAIT_GRACE_S)
        self._depths: dict[StageName, StageDepth] = {}

    @property
    def session(self) -> str:
        """This worker's own token; empty before the first call."""
        return self._session

    # -- calls ---------------------------------------------------------------------------------
    async def _call(self, method: str, request: Any, *, timeout_s: float = CALL_S_MAX) -> Any:  # noqa: ANN401 messages
        """One call with the worker's token; a token that is refused is replaced once."""
        if self._clock.monotonic_ns() >= self._renew_ns:
            await self._enroll(self._session)
        try:
            return await self._send(method, request, self._session, timeout_s)
        except Unauthenticated:
            await self._enroll("")
            return await self._send(method, request, self._session, timeout_s)

    async def _enroll(self, session: str) -> None:
        """Renew `session`, or get one with the operator's token."""
        before = self._session
        async with self._enrolling:
            if self._session != before:
                return  # done by another call meanwhile
            request = worker_pb2.EnrollRequest(worker=self._own)
            token = session or self._tokens.given()
            try:
                found = await self._send("Enroll", request, token, CALL_S_MAX)
            except Unauthenticated:
                if not session:
                    raise
                found = await self._send("Enroll", request, self._tokens.given(), CALL_S_MAX)
            self._session = found.token
            valid_s = found.valid_s or (found.expires_ns - self._clock.now_ns()) / 1e9
            pause_s = max(valid_s * RENEW_SHARE, RENEW_S_MIN)
            self._renew_ns = self._clock.monotonic_ns() + int(pause_s * 1e9)
            self._tokens.keep(self._own, found.token)

    async def _send(self, method: str, request: Any, token: str, timeout_s: float) -> Any:  # noqa: ANN401 messages
        """Send a message.

        Raises:
            DependencyDown: no answer came, or the API cannot reach the store now.
            AssayError: what the API says.
        """
        channel = self._open()
        stub = worker_pb2_grpc.WorkServiceStub(channel)
        metadata = (("authorization", f"Bearer {token}"),)
        try:
            return await getattr(stub, method)(request, timeout=timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            found = error_of(error)
            if isinstance(found, (DependencyDown, DeadlinePassed)):
                place = self._addresses[self._at % len(self._addresses)]
                if channel is self._channel:
                    self._leave_channel()
                message = f"worker.api: {place}: {found.message}"
                raise DependencyDown(message, field="worker.api") from error
            if isinstance(found, Saturated):
                raise DependencyDown(found.message, retry_after_s=found.retry_after_s) from error
            raise found from error

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            address = self._addresses[self._at % len(self._addresses)]
            options = [
                ("grpc.max_receive_message_length", -1),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS),
                ("grpc.enable_retries", 0),
            ]
            scheme, _, rest = address.rpartition("://")
            if scheme == "grpcs":
                credentials = grpc.ssl_channel_credentials(self._authority, *self._identity)
                self._channel = grpc.aio.secure_channel(rest, credentials, options=options)
            else:
                self._channel = grpc.aio.insecure_channel(rest, options=options)
        return self._channel

    def _leave_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            self._at += 1
            self._left.leave(channel)

    # -- work ----------------------------------------------------------------------------------
    async def claim(
        self,
        stage: StageName,
        *,
        claims_max: int,
        lease_s: float,
        worker: WorkerId,
        left_out: Collection[TenantId] = (),
    ) -> Sequence[Claim]:
        """See `Store.claim`."""
        del worker
        found: list[Claim] = []
        while True:
            count = min(claims_max - len(found), CLAIMS_MAX)
            request = worker_pb2.ClaimRequest(
                stages=[stage], claims_max=count, lease_s=lease_s, left_out=left_out
            )
            try:
                answer = await self._call("Claim", request)
            except DependencyDown:
                if not found:
                    raise
                return found  # requests leased so far must reach their slots
            some = wire.claims_of(answer)
            found += some
            if len(found) >= claims_max or not some or not (answer.more or len(some) == count):
                return found

    async def beat(
        self, stage: StageName, *, lease_s: float, leases: Sequence[Lease]
    ) -> Sequence[Lease]:
        """See `Store.beat`."""
        lost: list[Lease] = []
        for first in range(0, len(leases), LEASES_MAX):
            some = leases[first : first + LEASES_MAX]
            request = worker_pb2.HeartbeatRequest(
                stage=stage, lease_s=lease_s, leases=wire.leases_message(some)
            )
            answer = await self._call("Heartbeat", request)
            lost += [some[index] for index in answer.lost]
        return lost

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        """See `Store.finish`; the API has its own limit of attempts, and notes what is complete."""
        del attempts_max
        statuses: list[FinishStatus] = []
        for first in range(0, len(reports), REPORTS_MAX):
            some = map(wire.report_message, reports[first : first + REPORTS_MAX])
            answer = await self._call("Finish", worker_pb2.FinishRequest(stage=stage, reports=some))
            statuses += [FinishStatus.DONE if one else FinishStatus.STALE for one in answer.done]
        return Finished(statuses=tuple(statuses), completed=())

    async def give_back_undelivered(
        self, stage: StageName, *, worker: WorkerId, leases: Sequence[Lease]
    ) -> int:
        """See `Store.give_back_undelivered`."""
        del worker
        held = worker_pb2.WorkHeld(leases=wire.leases_message(leases))
        request = worker_pb2.HeartbeatRequest(stage=stage, lease_s=1.0, held=held)
        return int((await self._call("Heartbeat", request)).given_back)

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        """See `Store.reap`; the API has its own limits."""
        del attempts_max, jobs_max
        answer = await self._call("Sweep", worker_pb2.SweepRequest(stage=stage))
        self._depths[stage] = StageDepth(
            stage=stage,
            queued=answer.queued,
            running=answer.running,
            oldest_age_s=answer.oldest_age_s,
            dead_letters=answer.dead_letters,
        )
        return Reaped(
            redelivered=answer.redelivered,
            dead=answer.dead,
            expired=answer.expired,
            completed=(),
        )

    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        """See `Store.wait_for_work`; no longer than `WAIT_S_MAX`."""
        timeout_s = min(timeout_s, WAIT_S_MAX)
        request = worker_pb2.ClaimRequest(
            stages=stages, lease_s=1.0, wait_ms=max(1, round(timeout_s * 1e3))
        )
        answer = await self._call("Claim", request, timeout_s=timeout_s + WAIT_GRACE_S)
        return StageName(answer.stage) if answer.stage else None

    async def depths(self, stages: Sequence[StageName]) -> Sequence[StageDepth]:
        """See `Store.depths`: as of the last `reap` of each, which a host calls all the time."""
        return [self._depths[stage] for stage in stages if stage in self._depths]

    # -- hosts ---------------------------------------------------------------------------------
    async def put_host(self, host: HostRecord, *, lease_s: float, owner: str = "") -> bool:
        """See `Store.put_host`; the API says whose it is."""
        del owner
        request = worker_pb2.JoinRequest(
            address=host.address,
            stages=host.stages,
            cores=host.cores,
            memory_bytes=host.memory_bytes,
            slots_max=host.slots_max,
            lease_s=lease_s,
            credential=host.credential,
            busy=None if host.busy == BUSY_UNKNOWN else host.busy,
        )
        answer = await self._call("Join", request)
        return bool(answer.is_new)

    async def drop_host(self, worker: WorkerId) -> None:
        """See `Store.drop_host`; an earlier life is dropped when its leases are taken back."""
        if worker == self._own:
            await self._call("Leave", worker_pb2.LeaveRequest())

    async def take_back(self, stage: StageName, worker: WorkerId, *, attempts_max: int) -> Reaped:
        """See `Store.take_back`; of all stages at once, and only of the life before this one."""
        del stage, attempts_max
        before, token = self._tokens.predecessor
        redelivered = dead = 0
        if token and worker == before:
            try:
                answer = await self._call("Leave", worker_pb2.LeaveRequest(predecessor=token))
                redelivered, dead = answer.redelivered, answer.dead
            except Unauthenticated:  # it is too old: its leases have run out
                pass
            self._tokens.predecessor = ("", "")
        return Reaped(redelivered=redelivered, dead=dead, expired=0, completed=())

    # -- artifacts -----------------------------------------------------------------------------
    async def _artifact(self, action: str, key: str, **fields: Any) -> Any:  # noqa: ANN401 messages
        kinds = worker_pb2.WorkArtifactRequest
        request = kinds(key=key, action=kinds.Action.Value(f"ACTION_{action}"), **fields)
        return await self._call("Artifact", request, timeout_s=ARTIFACT_S_MAX + WAIT_GRACE_S)

    async def artifact_get(self, key: str) -> bytes | None:
        """See `Store.artifact_get`."""
        return _content(await self._artifact("GET", key))

    async def artifact_begin(self, key: str, *, lease_s: float) -> bool:
        """See `Store.artifact_begin`."""
        return bool((await self._artifact("BEGIN", key, seconds=lease_s)).begun)

    async def artifact_put(self, key: str, content: bytes) -> None:
        """See `Store.artifact_put`."""
        await self._artifact("PUT", key, content=content)

    async def artifact_abandon(self, key: str) -> None:
        """See `Store.artifact_abandon`."""
        await self._artifact("ABANDON", key)

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        """See `Store.artifact_wait`."""
        return _content(await self._artifact("WAIT", key, seconds=timeout_s))

    async def permit(
        self, tenant: TenantId, provider: str, limits: Mapping[str, tuple[int, int]]
    ) -> float:
        """See `Store.permit`."""
        request = worker_pb2.PermitRequest(
            tenant=tenant, provider=provider, limits=wire.limits_message(limits)
        )
        return float((await self._call("Permit", request)).wait_s)

    # -- life cycle ----------------------------------------------------------------------------
    async def check(self) -> Fitness:
        """Enroll; the API has examined the store."""
        await self._enroll("")
        return Fitness(server="the API", appends=None, appendfsync="")

    async def ping(self) -> float:
        """See `Store.ping`: the token is renewed."""
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        await self._enroll(self._session)
        return loop.time() - before_s

    async def close(self) -> None:
        """Close the connections; the life has ended in order."""
        self._tokens.end()
        channel, self._channel = self._channel, None
        await self._left.close(channel)


def _content(answer: worker_pb2.WorkArtifactResponse) -> bytes | None:
    return answer.content if answer.HasField("content") else None
