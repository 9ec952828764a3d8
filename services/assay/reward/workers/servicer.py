"""`WorkService` over `WorkGateway`: translates messages; the edge maps errors to statuses."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from assay.core.errors import InvalidRequest, Unauthenticated
from assay.core.hosts.record import BUSY_UNKNOWN, HostRecord
from assay.core.ids import StageName, TenantId
from assay.edge.calls import current_call
from assay.edge.grpc_edge import parsed_message
from assay.edge.work import wire
from assay.edge.work.addresses import peer_ip
from assay.edge.work.tokens import WorkerCaller, WorkerPass
from assay.reward.workers.gateway import KEY_CHARS_MAX, REPORTS_MAX, WorkGateway, in_range
from assay.v1 import worker_pb2, worker_pb2_grpc

if TYPE_CHECKING:
    import grpc

    Context = grpc.aio.ServicerContext[Any, Any]

RAW: Final = frozenset({"Heartbeat", "Finish", "Artifact"})
"""Their messages may be large; each is parsed here."""
SECONDS_MAX: Final = 60.0
LIMITS_MAX: Final = 16


def caller() -> WorkerPass:
    """Who calls.

    Raises:
        Unauthenticated: not a worker.
    """
    tenant = current_call().tenant
    if not isinstance(tenant, WorkerCaller):
        raise Unauthenticated("authorization: not the token of a worker")
    return tenant.work


class WorkServicer(worker_pb2_grpc.WorkServiceServicer):
    def __init__(self, gateway: WorkGateway) -> None:
        self._gateway = gateway

    async def Enroll(  # noqa: N802 - the proto's names
        self, request: worker_pb2.EnrollRequest, context: Context
    ) -> worker_pb2.EnrollResponse:
        """Return a token that names the worker."""
        del context
        token, found = self._gateway.enroll(caller(), request.worker)
        return worker_pb2.EnrollResponse(
            token=token,
            expires_ns=found.expires_ns,
            worker=found.worker,
            valid_s=self._gateway.token_s,
        )

    async def Claim(  # noqa: N802
        self, request: worker_pb2.ClaimRequest, context: Context
    ) -> worker_pb2.ClaimResponse:
        """Wait for work, lease it, or both."""
        del context
        found = await self._gateway.claim(
            caller(),
            request.stages,
            claims_max=request.claims_max,
            lease_s=request.lease_s,
            wait_ms=request.wait_ms,
            left_out=[TenantId(one) for one in request.left_out],
        )
        tasks = list(dict.fromkeys(claim.task for claim in found.claims))
        index = {task: at for at, task in enumerate(tasks)}
        return worker_pb2.ClaimResponse(
            stage=found.stage or "",
            tasks=map(wire.task_message, tasks),
            claims=[
                wire.claim_message(claim, lease=lease, task=index[claim.task])
                for claim, lease in zip(found.claims, found.leases, strict=True)
            ],
            more=found.more,
        )

    async def Heartbeat(  # type: ignore[override] # noqa: N802 raw
        self, request: bytes, context: Context
    ) -> worker_pb2.HeartbeatResponse:
        """Renew leases; answers with the indexes of those that are lost."""
        del context
        message = parsed_message(worker_pb2.HeartbeatRequest.FromString, request)
        who, stage = caller(), message.stage
        lost = await self._gateway.beat(
            who,
            stage,
            lease_s=message.lease_s,
            leases=[(one.lease, one.fence) for one in message.leases],
        )
        given_back = 0
        if message.HasField("held"):
            held = [(one.lease, one.fence) for one in message.held.leases]
            given_back = await self._gateway.give_back_undelivered(who, stage, held)
        return worker_pb2.HeartbeatResponse(lost=lost, given_back=given_back)

    async def Finish(  # type: ignore[override] # noqa: N802 raw
        self, request: bytes, context: Context
    ) -> worker_pb2.FinishResponse:
        """Report the ends of claims; those that are not the worker's are stale."""
        del context
        message = parsed_message(worker_pb2.FinishRequest.FromString, request)
        who = caller()
        stage = self._gateway.stage_of(who, message.stage)
        if len(message.reports) > REPORTS_MAX:
            raise InvalidRequest(f"reports: at most {REPORTS_MAX}", field="reports")
        done = [False] * len(message.reports)
        places, reports = [], []
        for place, one in enumerate(message.reports):
            opened = self._gateway.opened(who, stage, one.lease.lease, one.lease.fence)
            if opened is None:
                continue
            job_id, following = opened
            places.append(place)
            reports.append(
                wire.report_of(
                    one, job_id=job_id, worker=who.worker, following=following,
                    field=f"reports[{place}]",
                )
            )  # fmt: skip
        for place, took in zip(places, await self._gateway.finish(stage, reports), strict=True):
            done[place] = took
        return worker_pb2.FinishResponse(done=done)

    async def Sweep(  # noqa: N802
        self, request: worker_pb2.SweepRequest, context: Context
    ) -> worker_pb2.SweepResponse:
        """Take back expired leases."""
        del context
        reaped, depth = await self._gateway.sweep(caller(), request.stage)
        return worker_pb2.SweepResponse(
            redelivered=reaped.redelivered if reaped else 0,
            dead=reaped.dead if reaped else 0,
            expired=reaped.expired if reaped else 0,
            queued=depth.queued,
            running=depth.running,
            oldest_age_s=depth.oldest_age_s,
            dead_letters=depth.dead_letters,
        )

    async def Join(  # noqa: N802
        self, request: worker_pb2.JoinRequest, context: Context
    ) -> worker_pb2.JoinResponse:
        """Keep the record of the worker's host."""
        who = caller()
        host = HostRecord(
            worker=who.worker,
            address=request.address,
            stages=tuple(StageName(stage) for stage in request.stages),
            cores=request.cores,
            memory_bytes=request.memory_bytes,
            slots_max=request.slots_max,
            credential=request.credential,
            busy=request.busy if request.HasField("busy") else BUSY_UNKNOWN,
        )
        return worker_pb2.JoinResponse(
            is_new=await self._gateway.join(
                who, host, lease_s=request.lease_s, peer=peer_ip(str(context.peer()))
            )
        )

    async def Leave(  # noqa: N802
        self, request: worker_pb2.LeaveRequest, context: Context
    ) -> worker_pb2.LeaveResponse:
        """Forget the worker's host, or an earlier life of it."""
        del context
        redelivered, dead = await self._gateway.leave(caller(), request.predecessor)
        return worker_pb2.LeaveResponse(redelivered=redelivered, dead=dead)

    async def Artifact(  # type: ignore[override] # noqa: N802 raw
        self, request: bytes, context: Context
    ) -> worker_pb2.WorkArtifactResponse:
        """Shared results of the worker's pipelines."""
        del context
        message = parsed_message(worker_pb2.WorkArtifactRequest.FromString, request)
        key, *copies = self._gateway.artifact_keys(caller(), message.key)
        store, kinds = self._gateway.store, worker_pb2.WorkArtifactRequest
        in_range("seconds", message.seconds, -inf, inf)
        seconds = min(max(message.seconds, 0.001), SECONDS_MAX)
        content, begun = None, False
        match message.action:
            case kinds.ACTION_GET:
                content = await store.artifact_get(key)
            case kinds.ACTION_BEGIN:
                begun = await store.artifact_begin(key, lease_s=seconds)
            case kinds.ACTION_PUT:
                for one in (*copies, key):
                    await store.artifact_put(one, message.content)
            case kinds.ACTION_ABANDON:
                await store.artifact_abandon(key)
            case kinds.ACTION_WAIT:
                content = await store.artifact_wait(key, timeout_s=seconds)
            case _:
                raise InvalidRequest("action: missing", field="action")
        return worker_pb2.WorkArtifactResponse(content=content, begun=begun)

    async def Permit(  # noqa: N802
        self, request: worker_pb2.PermitRequest, context: Context
    ) -> worker_pb2.PermitResponse:
        """Leave for a call of a provider."""
        del context
        if len(request.limits) > LIMITS_MAX:
            raise InvalidRequest(f"limits: at most {LIMITS_MAX}", field="limits")
        in_range("tenant", len(request.tenant), 1, KEY_CHARS_MAX)
        in_range("provider", len(request.provider), 1, KEY_CHARS_MAX)
        limits = {}
        for kind, one in request.limits.items():
            in_range("limits", len(kind), 1, KEY_CHARS_MAX)
            in_range("limits.cost", one.cost, 0, inf)
            in_range("limits.allowance_per_minute", one.allowance_per_minute, 0, inf)
            limits[kind] = (one.cost, one.allowance_per_minute)
        wait_s = await self._gateway.permit(
            caller(), TenantId(request.tenant), request.provider, limits
        )
        return worker_pb2.PermitResponse(wait_s=wait_s)
