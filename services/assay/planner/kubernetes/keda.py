"""Pools that KEDA sizes as the planner says: the same watches, but sizes are served, not patched.

KEDA asks for one metric, the planned pods of a stage, with a target of 1 per pod, so that its HPA
holds exactly that number. Only the leader knows it: a planner that stands by passes the question
on, once, and answers UNAVAILABLE where the leader is not known or does not answer; KEDA's
`fallback` then keeps what is there.

The port has a front, as the planner's own. KEDA has no token to show: a call that the port takes
makes its connection known, so with certificates nothing of a caller without one is read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc

from assay.config.access import TlsBranch
from assay.core.errors import DependencyDown, NotFound
from assay.core.ids import StageName
from assay.edge.access.channels import LeftChannels
from assay.edge.connections.port import FrontedPort
from assay.edge.grpc_edge import GrpcEdge, open_server, server_options
from assay.planner.kubernetes.scaler import KubernetesScaler
from assay.v1 import externalscaler_pb2, externalscaler_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from assay.edge.calls import CallGuard
    from assay.planner.kubernetes.pool import Pool, Target

    Context = grpc.aio.ServicerContext[Any, Any]

METRIC: Final = "assay-planned-pods"
MESSAGE_BYTES_MAX: Final = 64 * 1024
DRAIN_S: Final = 1.0
PASSED_ON: Final = "assay-passed-on"
"""Metadata of a question that another planner passed on: it is not passed on again."""
PASS_ON_S_MAX: Final = 5.0
LEAD_CHECK_S: Final = 2.0
"""How soon a stream notices that another planner leads now."""


class KedaScaler(KubernetesScaler):
    """Remembers sizes for KEDA to ask."""

    _changed: asyncio.Event | None = None

    def _marks(self, pool: Pool) -> bool:
        del pool
        return False  # the HPA sets the size, whenever it does

    def planned_pods(self, stage: str) -> int | None:
        """Pods that the plan wants, or the present ones before a plan; `None` = no such pool."""
        found = self._present().get(StageName(stage))
        if found is None:
            return None
        pool, target = found
        return pool.replicas(target)

    async def changed(self) -> None:
        """Wait for the next change of any size."""
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    async def _set(self, pool: Pool, replicas: int) -> None:
        pool.resized(replicas, "", self._clock.now_ns() / 1e9)
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    def _target_seen(self, by_name: Mapping[str, Pool], target: Target) -> None:
        """Its size is KEDA's, so no change of it is foreign."""


class Leader:
    """Which planner leads, and a connection to it where it is another one."""

    def __init__(
        self,
        *,
        is_here: Callable[[], bool],
        address: Callable[[], str],
        tls: TlsBranch | None = None,
        server_name: str = "",
    ) -> None:
        self.is_here = is_here
        self._address = address
        self._tls = tls or TlsBranch()
        self._server_name = server_name
        self._channel: grpc.aio.Channel | None = None
        self._to = ""
        self._left = LeftChannels()

    def __repr__(self) -> str:
        return f"Leader({self._address() or 'unknown'!r})"

    def there(self) -> externalscaler_pb2_grpc.ExternalScalerAsyncStub | None:
        """The leader's own answers; `None`: it is not known where it is."""
        address = self._address()
        if address != self._to:
            if self._channel is not None:
                self._left.leave(self._channel)
            self._to = address
            self._channel = self._connect(address) if address else None
        if self._channel is None:
            return None
        return externalscaler_pb2_grpc.ExternalScalerStub(self._channel)

    async def close(self) -> None:
        """Close the connection."""
        channel, self._channel = self._channel, None
        self._to = ""
        await self._left.close(channel)

    def _connect(self, address: str) -> grpc.aio.Channel:
        tls = self._tls
        if tls.tls_certificate is None or tls.tls_key is None:
            return grpc.aio.insecure_channel(address)
        authority = tls.tls_client_ca or tls.tls_certificate
        credentials = grpc.ssl_channel_credentials(
            authority.read_bytes(), tls.tls_key.read_bytes(), tls.tls_certificate.read_bytes()
        )
        name = [("grpc.ssl_target_name_override", self._server_name)] if self._server_name else []
        return grpc.aio.secure_channel(address, credentials, options=name)


class ExternalScaler(externalscaler_pb2_grpc.ExternalScalerServicer):
    """KEDA's questions; `scalerMetadata.stage` names the pool."""

    def __init__(self, scaler: KedaScaler, leader: Leader) -> None:
        self._scaler = scaler
        self._leader = leader

    async def close(self) -> None:
        """Close the connection to the leader."""
        await self._leader.close()

    async def IsActive(  # noqa: N802 - the proto's names
        self, request: externalscaler_pb2.ScaledObjectRef, context: Context
    ) -> externalscaler_pb2.IsActiveResponse:
        """Whether the plan wants any pod."""
        planned = await self._planned(request, context)
        return externalscaler_pb2.IsActiveResponse(result=planned > 0)

    async def StreamIsActive(  # noqa: N802
        self, request: externalscaler_pb2.ScaledObjectRef, context: Context
    ) -> AsyncIterator[externalscaler_pb2.IsActiveResponse]:
        """The same, now and whenever it changes."""
        before: bool | None = None
        while True:
            change = asyncio.ensure_future(self._scaler.changed())
            try:
                active = await self._planned(request, context) > 0
                if active != before:
                    before = active
                    yield externalscaler_pb2.IsActiveResponse(result=active)
                await asyncio.wait([change], timeout=LEAD_CHECK_S)
            finally:
                change.cancel()

    async def GetMetricSpec(  # noqa: N802
        self, request: externalscaler_pb2.ScaledObjectRef, context: Context
    ) -> externalscaler_pb2.GetMetricSpecResponse:
        """One metric, 1 per pod."""
        del request, context
        spec = externalscaler_pb2.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)
        return externalscaler_pb2.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(  # noqa: N802
        self, request: externalscaler_pb2.GetMetricsRequest, context: Context
    ) -> externalscaler_pb2.GetMetricsResponse:
        """The planned pods."""
        planned = await self._planned(request.scaledObjectRef, context)
        value = externalscaler_pb2.MetricValue(
            metricName=METRIC, metricValue=planned, metricValueFloat=float(planned)
        )
        return externalscaler_pb2.GetMetricsResponse(metricValues=[value])

    async def _planned(self, ref: externalscaler_pb2.ScaledObjectRef, context: Context) -> int:
        if not self._leader.is_here():
            return await self._asked_of_the_leader(ref, context)
        stage = ref.scalerMetadata.get("stage", "")
        planned = self._scaler.planned_pods(stage)
        if planned is None:
            raise _no_pool(stage)
        return planned

    async def _asked_of_the_leader(
        self, ref: externalscaler_pb2.ScaledObjectRef, context: Context
    ) -> int:
        passed_on = any(key == PASSED_ON for key, _ in context.invocation_metadata() or ())
        there = None if passed_on else self._leader.there()
        if there is None:
            raise DependencyDown("this planner does not lead")
        request = externalscaler_pb2.GetMetricsRequest(scaledObjectRef=ref, metricName=METRIC)
        try:
            answer = await there.GetMetrics(
                request, timeout=PASS_ON_S_MAX, metadata=((PASSED_ON, "1"),)
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise _no_pool(ref.scalerMetadata.get("stage", "")) from error
            raise DependencyDown(f"the leader: {error.details()}") from error
        return round(answer.metricValues[0].metricValueFloat)


def _no_pool(stage: str) -> NotFound:
    name = "scalerMetadata.stage"
    return NotFound(f"{name}: no pool of stage {stage!r}", field=name)


class KedaServer:
    """Listens for KEDA, which has no token to show: beyond loopback it needs a certificate."""

    def __init__(
        self,
        servicer: externalscaler_pb2_grpc.ExternalScalerServicer,
        *,
        guard: CallGuard,
        time_s: Callable[[], float],
        host: str,
        port: int,
        tls: TlsBranch | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls or TlsBranch()
        self._servicer = servicer
        self._front = FrontedPort(time_s=time_s)
        edge = GrpcEdge(
            guard=guard, message_bytes_max=MESSAGE_BYTES_MAX, connections=self._front.connections
        )
        self._grpc = open_server(edge, server_options(MESSAGE_BYTES_MAX, watched=True))
        externalscaler_pb2_grpc.add_ExternalScalerServicer_to_server(servicer, self._grpc)

    async def start(self) -> str:
        """Listen; returns the address.

        Raises:
            OSError: the port is taken, or the certificate or its key cannot be used.
        """
        setting = "planner.kubernetes.keda_port"
        return await self._front.open(
            self._grpc, self._host, self._port, setting=setting, tls=self._tls
        )

    async def stop(self) -> None:
        """End the streams."""
        await self._front.stop(self._grpc, DRAIN_S)
        if isinstance(self._servicer, ExternalScaler):
            await self._servicer.close()
