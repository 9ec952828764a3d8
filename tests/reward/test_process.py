"""The service as a process: where it listens, its health, how it stops."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from assay.config.settings import StoreSettings
from assay.edge.auth import OpenToAllError
from assay.store.valkey import ValkeyStore
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import RunApi, Running, StartProcess


async def _serving(channel: grpc.aio.Channel, service: str = "assay.v1.RewardService") -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return int(answer.status)


async def test_it_listens_on_free_ports_says_where_and_stops_when_asked(
    start: StartProcess,
) -> None:
    process = await (await start()).up()
    async with grpc.aio.insecure_channel(process.grpc) as channel:
        assert await _serving(channel) == health_pb2.HealthCheckResponse.SERVING
        assert await _serving(channel, "") == health_pb2.HealthCheckResponse.SERVING
    async with httpx.AsyncClient(base_url=process.http) as http:
        assert (await http.get("/readyz")).status_code == 200
        assert "assay_store_call_seconds" in (await http.get("/metrics")).text
    process.process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    assert not process.sign.exists()


async def test_a_stop_sends_streams_elsewhere_at_once(start: StartProcess) -> None:
    process = await (await start(ASSAY_REWARD__DRAIN_S="25")).up()
    async with grpc.aio.insecure_channel(process.grpc) as channel:
        stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        task = reward_pb2.Task(task_id="t", pipeline="noop")
        await stub.RegisterTask(reward_pb2.RegisterTaskRequest(task=task))
        await stub.OpenBatch(reward_pb2.OpenBatchRequest(task_id="t", batch_id="b"))
        reading = asyncio.ensure_future(
            stub.StreamResults(reward_pb2.StreamResultsRequest(batch_id="b")).read()
        )
        # The stream is in progress once a call after it was answered.
        await stub.GetBatch(reward_pb2.GetBatchRequest(batch_id="b"))
        process.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await reading
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    async with asyncio.timeout(60):
        assert await process.wait() == 0


async def test_reflection_names_the_service(api: Running) -> None:
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        untyped: Any = channel
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(untyped)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        answer = await stub.ServerReflectionInfo(iter([request])).read()
        names = {service.name for service in answer.list_services_response.service}
        assert {"assay.v1.RewardService", "grpc.health.v1.Health"} <= names


async def test_without_its_store_it_is_up_but_not_ready(run_api: RunApi, tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nowhere.sock"
    api = await run_api(store=ValkeyStore(StoreSettings(url=url), url=url))
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        assert await _serving(channel) == health_pb2.HealthCheckResponse.NOT_SERVING
    async with httpx.AsyncClient(base_url=api.addresses.http) as http:
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200


async def test_a_service_that_stops_is_no_longer_ready(run_api: RunApi) -> None:
    api = await run_api(drain_s=30.0)  # streams are not cut before they have said so
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service="assay.v1.RewardService"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        stopping = asyncio.ensure_future(api.api.server.stop())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        await stopping


async def test_it_refuses_to_listen_to_the_network_without_tenants(run_api: RunApi) -> None:
    with pytest.raises(OpenToAllError):
        await run_api(host="0.0.0.0")


async def test_a_taken_port_is_said(run_api: RunApi, api: Running) -> None:
    for name, address in (("grpc_port", api.addresses.grpc), ("http_port", api.addresses.http)):
        with pytest.raises(OSError, match=r"cannot listen|in use"):
            await run_api(**{name: int(address.rpartition(":")[2])})
