"""KEDA asks the planner for sizes, over gRPC, as its external scaler client does."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests import certificates
from tests.edge.endless import SENT_MAX, send_endless_headers
from tests.kubernetes.cluster import Cluster, until
from tests.kubernetes.relay import Server
from tests.kubernetes.scaling import RunScaler, Scaling

from assay.config.access import TlsBranch
from assay.config.settings import PlannerSettings
from assay.edge.auth import OpenToAllError
from assay.edge.clock import Clock
from assay.edge.connections.passage import STREAMS
from assay.edge.metrics import Metrics
from assay.planner.build import keda_guard, keda_server
from assay.planner.kubernetes.keda import ExternalScaler, KedaScaler, KedaServer, Leader
from assay.v1 import externalscaler_pb2 as pb
from assay.v1 import externalscaler_pb2_grpc as pb_grpc

RUN = "python.run"
REF = pb.ScaledObjectRef(name="so", namespace="assay", scalerMetadata={"stage": RUN})


class Asked:
    """A planner's door for KEDA."""

    leading = True

    def __init__(
        self, scaling: Scaling, stub: "pb_grpc.ExternalScalerAsyncStub", address: str
    ) -> None:
        self.scaling = scaling
        self.stub = stub
        self.address = address

    async def metric(self) -> float:
        request = pb.GetMetricsRequest(scaledObjectRef=REF, metricName="assay-planned-pods")
        answer = await self.stub.GetMetrics(request, timeout=20)
        return answer.metricValues[0].metricValueFloat


class _Active(pb_grpc.ExternalScalerServicer):
    """Wants a pod, whatever it is asked."""

    async def IsActive(self, request: Any, context: Any) -> pb.IsActiveResponse:
        return pb.IsActiveResponse(result=True)


def active() -> pb_grpc.ExternalScalerServicer:
    """Answers nothing else."""
    return _Active()  # type: ignore[abstract]  # the other calls are not made


def serving(servicer: pb_grpc.ExternalScalerServicer, **more: Any) -> KedaServer:
    """Of the planner: guard, front and all."""
    clock = Clock()
    return KedaServer(
        servicer,
        guard=keda_guard(clock, Metrics()),
        time_s=lambda: clock.monotonic_ns() / 1e9,
        host="127.0.0.1",
        port=0,
        **more,
    )


async def pushed(stream: Any) -> bool:
    """The next answer of a stream."""
    answer = await stream.read()
    assert isinstance(answer, pb.IsActiveResponse)
    return answer.result


@pytest.fixture
async def asked(cluster: Cluster, run_scaler: RunScaler) -> AsyncIterator[Asked]:
    """KEDA's client on a planner's server."""
    await cluster.deploy(RUN, replicas=2)
    scaling = run_scaler(RUN, keda=True, slots_per_pod=4)
    assert isinstance(scaling.scaler, KedaScaler)
    holder: list[Asked] = []
    leader = Leader(is_here=lambda: holder[0].leading, address=lambda: "")
    servicer = ExternalScaler(scaling.scaler, leader)
    server = serving(servicer)
    address = await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        holder.append(Asked(scaling, pb_grpc.ExternalScalerStub(channel), address))
        await scaling.pool(RUN)
        yield holder[0]
    await server.stop()


async def test_keda_is_told_the_planned_pods_and_no_size_is_patched(
    asked: Asked, server: Server, cluster: Cluster
) -> None:
    spec = (await asked.stub.GetMetricSpec(REF, timeout=20)).metricSpecs
    assert [(one.metricName, one.targetSizeFloat) for one in spec] == [("assay-planned-pods", 1.0)]
    assert await asked.metric() == 2, "before a plan: what is there"
    state = await asked.scaling.resize(RUN, 10)
    assert (state.desired, await asked.metric()) == (12, 3)
    assert [call for call in server.calls if call.query.get("fieldManager")] == []
    await cluster.scale("assay-python-run", 5, manager="kube-controller-manager")
    await until(lambda: asked.scaling.scaler.replicas_there(RUN) == 5, "the HPA's own size")
    assert await asked.metric() == 3, "the plan's"


async def test_activity_is_pushed_when_the_plan_wants_the_first_pod(asked: Asked) -> None:
    await asked.scaling.resize(RUN, 0)
    stream = asked.stub.StreamIsActive(REF, timeout=60)
    seen = [await pushed(stream)]
    await asked.scaling.resize(RUN, 4)
    seen.append(await pushed(stream))
    await asked.scaling.resize(RUN, 8)
    await asked.scaling.resize(RUN, 0)
    seen.append(await pushed(stream))
    stream.cancel()
    assert seen == [False, True, False]
    assert (await asked.stub.IsActive(REF, timeout=20)).result is False


async def test_a_planner_that_stands_by_leaves_the_answer_to_kedas_fallback(asked: Asked) -> None:
    asked.leading = False
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked.metric()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@asynccontextmanager
async def standing_by(
    run_scaler: RunScaler, leader: list[str], **more: Any
) -> AsyncIterator["pb_grpc.ExternalScalerAsyncStub"]:
    """Another planner, which knows who leads; KEDA's client on it."""
    scaler = run_scaler(RUN, keda=True).scaler
    assert isinstance(scaler, KedaScaler)
    servicer = ExternalScaler(
        scaler, Leader(is_here=lambda: False, address=lambda: leader[0], **more)
    )
    server = serving(servicer)
    address = await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        leader.append(address)
        yield pb_grpc.ExternalScalerStub(channel)
    await server.stop()


async def test_a_planner_that_stands_by_passes_kedas_questions_on_to_the_leader(
    asked: Asked, run_scaler: RunScaler
) -> None:
    await asked.scaling.resize(RUN, 10)
    leader = [asked.address]
    async with standing_by(run_scaler, leader) as stub:
        request = pb.GetMetricsRequest(scaledObjectRef=REF, metricName="assay-planned-pods")
        answer = await stub.GetMetrics(request, timeout=20)
        assert answer.metricValues[0].metricValueFloat == 3
        stream = stub.StreamIsActive(REF, timeout=90)
        assert await pushed(stream)
        await asked.scaling.resize(RUN, 0)
        assert not await pushed(stream)
        stream.cancel()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.IsActive(pb.ScaledObjectRef(scalerMetadata={"stage": "x"}), timeout=20)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        asked.leading = False
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.IsActive(REF, timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_two_planners_that_stand_by_do_not_ask_each_other_for_ever(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    await cluster.deploy(RUN, replicas=2)
    leader = [""]
    async with standing_by(run_scaler, leader) as stub:
        leader[0] = leader[1]  # itself
        with pytest.raises(grpc.aio.AioRpcError, match="does not lead") as caught:
            await stub.IsActive(REF, timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


class _Leading(pb_grpc.ExternalScalerServicer):
    """Plans so many pods, and says so once it may."""

    def __init__(self, pods: int) -> None:
        self.pods = pods
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def GetMetrics(self, request: Any, context: Any) -> pb.GetMetricsResponse:
        self.asked.set()
        await self.may_answer.wait()
        value = pb.MetricValue(metricValueFloat=self.pods)
        return pb.GetMetricsResponse(metricValues=[value])


async def test_a_change_of_leaders_ends_no_question_that_was_passed_on_to_the_former_one(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    """Its connection is closed when it has answered: KEDA would fall back for no reason."""
    await cluster.deploy(RUN, replicas=2)
    former, present = _Leading(1), _Leading(2)  # type: ignore[abstract]  # no other call is made
    servers = [serving(former), serving(present)]
    addresses = [await server.start() for server in servers]
    request = pb.GetMetricsRequest(scaledObjectRef=REF, metricName="assay-planned-pods")
    leader = addresses[:1]
    async with standing_by(run_scaler, leader) as stub:

        async def metric() -> float:
            answer = await stub.GetMetrics(request, timeout=60)
            return answer.metricValues[0].metricValueFloat

        asked = asyncio.create_task(metric())
        await former.asked.wait()
        leader[0] = addresses[1]
        present.may_answer.set()
        assert await metric() == 2
        former.may_answer.set()
        assert await asked == 1
    for server in servers:
        await server.stop()


async def test_a_stream_ends_when_its_planner_no_longer_leads(asked: Asked) -> None:
    await asked.scaling.resize(RUN, 4)
    stream = asked.stub.StreamIsActive(REF, timeout=90)
    assert await pushed(stream)
    asked.leading = False
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await pushed(stream)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_an_unknown_stage_is_named(asked: Asked) -> None:
    wrong = pb.ScaledObjectRef(name="so", scalerMetadata={"stage": "nothing"})
    with pytest.raises(grpc.aio.AioRpcError, match="'nothing'") as caught:
        await asked.stub.IsActive(wrong, timeout=20)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_only_a_caller_with_a_certificate_asks_a_port_of_others(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    ours = certificates.Authority(tmp_path, "ours")
    theirs = certificates.Authority(tmp_path / "theirs", "theirs")
    certificate, key = ours.signed("planner", "DNS:localhost", "IP:127.0.0.1")
    tls = TlsBranch(tls_certificate=certificate, tls_key=key, tls_client_ca=ours.certificate)
    servicer = active()
    server = serving(servicer, tls=tls)
    address = await server.start()
    keda = ours.signed("keda", "DNS:keda")
    for authority, shown, code in (
        (ours, keda, None),
        (ours, None, grpc.StatusCode.UNAVAILABLE),
        (ours, ours.signed("ended", "DNS:keda", days=-1), grpc.StatusCode.UNAVAILABLE),
        (ours, theirs.signed("keda", "DNS:keda"), grpc.StatusCode.UNAVAILABLE),
        (theirs, keda, grpc.StatusCode.UNAVAILABLE),
    ):
        chain, secret = (None, None) if shown is None else (one.read_bytes() for one in shown)
        credentials = grpc.ssl_channel_credentials(
            authority.certificate.read_bytes(), secret, chain
        )
        async with grpc.aio.secure_channel(address, credentials) as channel:
            asked = pb_grpc.ExternalScalerStub(channel).IsActive(REF, timeout=20)
            if code is None:
                assert (await asked).result
                continue
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await asked
            assert caught.value.code() is code, shown
    await server.stop()


async def test_endless_headers_are_cut_while_keda_is_answered() -> None:
    server = serving(active())
    address = await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        stub = pb_grpc.ExternalScalerStub(channel)
        assert (await stub.IsActive(REF, timeout=20)).result
        sent = await send_endless_headers(address)
        assert (await stub.IsActive(REF, timeout=20)).result
    await server.stop()
    assert sent < SENT_MAX


async def test_keda_asks_for_more_stages_at_once_than_a_stranger_may() -> None:
    """Its calls make its connection known, though they show no token."""
    server = serving(active())
    address = await server.start()
    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(60):
        stub = pb_grpc.ExternalScalerStub(channel)
        assert (await stub.IsActive(REF)).result
        began_s = time.perf_counter()
        assert all(one.result for one in await asyncio.gather(*map(stub.IsActive, [REF] * 200)))
        took_s = time.perf_counter() - began_s
    await server.stop()
    assert took_s < 200 / STREAMS[1] / 2, "a stranger has so many per second"


def test_a_port_of_others_asks_for_certificates_or_is_opened_on_purpose() -> None:
    no_planner: Any = None

    def serve(host: str, **kubernetes: object) -> None:
        settings = PlannerSettings.model_validate(
            {"host": host, "scaler": "keda", "kubernetes": kubernetes}
        )
        keda_server(settings, no_planner, no_planner, clock=no_planner, metrics=no_planner)

    with pytest.raises(OpenToAllError, match=r"planner\.kubernetes\.tls_client_ca"):
        serve("0.0.0.0")
    pair = {"tls_certificate": "a", "tls_key": "b"}
    with pytest.raises(OpenToAllError):
        serve("0.0.0.0", **pair)
    serve("0.0.0.0", **pair, tls_client_ca="c")
    serve("0.0.0.0", keda_open=True)
    serve("127.0.0.1")
