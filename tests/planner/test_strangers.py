"""The gRPC ports of planner and worker host end what strangers send before gRPC parses it."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import grpc
import pytest
from google.protobuf.message import Message
from tests.planner.live import RunHost, RunPlanner

from assay.v1 import planner_pb2, planner_pb2_grpc, worker_pb2, worker_pb2_grpc

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, CONTINUATION = 1, 4, 9
FIELD = b"\x00\x01x" + b"\x7f\x81\x7c" + bytes(16_000)
"""A field of 16,000 bytes, which no table keeps."""
WAIT_S = 60.0

Ask = Callable[[grpc.aio.Channel], Awaitable[Message]]


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big") + payload


def of_pools(credential: str) -> Ask:
    def ask(channel: grpc.aio.Channel) -> Awaitable[Message]:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        metadata = (("authorization", f"Bearer {credential}"),)
        return stub.ListPools(worker_pb2.ListPoolsRequest(), metadata=metadata)

    return ask


def of_plans(channel: grpc.aio.Channel) -> Awaitable[Message]:
    return planner_pb2_grpc.PlannerServiceStub(channel).GetPlan(planner_pb2.GetPlanRequest())


@pytest.fixture(params=["worker host", "planner"])
async def port(
    request: pytest.FixtureRequest, run_host: RunHost, run_planner: RunPlanner
) -> tuple[str, Ask]:
    """Its address, and a call of it."""
    host = await run_host()
    if request.param == "worker host":
        addresses = json.loads((host.data_dir / "run" / "worker.json").read_text())
        return addresses["control"], of_pools(host.service.credential)
    return (await run_planner()).addresses["grpc"], of_plans


async def test_endless_headers_are_cut_while_the_operator_is_answered(
    port: tuple[str, Ask],
) -> None:
    address, ask = port
    name, _, number = address.rpartition(":")
    async with asyncio.timeout(WAIT_S), grpc.aio.insecure_channel(address) as channel:
        answered = await ask(channel)
        reader, writer = await asyncio.open_connection(name, int(number))
        writer.write(PREFACE + frame(SETTINGS, 0) + frame(HEADERS, 1, FIELD))
        sent = 0
        with suppress(ConnectionError):
            for _ in itertools.count():
                writer.write(frame(CONTINUATION, 1, FIELD))
                sent += len(FIELD)
                await writer.drain()
                if reader.at_eof():
                    break
                await asyncio.sleep(0)
        assert type(await ask(channel)) is type(answered)
        writer.close()
    assert sent < 64 * 1024**2
