"""The gRPC ports of planner and worker host end what strangers send before gRPC parses it; whatever
a caller's message says is answered with a typed error."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable

import grpc
import pytest
from google.protobuf.message import Message
from tests.edge import every_call
from tests.edge.endless import SENT_MAX, send_endless_headers
from tests.planner.live import RunHost, RunPlanner

from assay.v1 import planner_pb2, planner_pb2_grpc, worker_pb2, worker_pb2_grpc

WAIT_S = 60.0
SEED = 20_261_130
MESSAGES = 40
"""Per method."""

Ask = Callable[[grpc.aio.Channel], Awaitable[Message]]


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
    async with asyncio.timeout(WAIT_S), grpc.aio.insecure_channel(address) as channel:
        answered = await ask(channel)
        sent = await send_endless_headers(address)
        assert type(await ask(channel)) is type(answered)
    assert sent < SENT_MAX


async def test_any_message_is_answered_with_a_typed_error(
    run_host: RunHost, run_planner: RunPlanner
) -> None:
    host = await run_host()
    addresses = json.loads((host.data_dir / "run" / "worker.json").read_text())
    ports = {
        "PlannerService": ((await run_planner()).addresses["grpc"], ""),
        "PoolService": (addresses["control"], host.service.credential),
    }
    chance, seen = random.Random(SEED), set()
    for method in every_call.methods():
        address, token = ports.get(method.containing_service.name, ("", ""))
        if not address:
            continue
        async with grpc.aio.insecure_channel(address) as channel:
            for message in every_call.drawn_messages(method, chance, MESSAGES):
                call = every_call.typed_end(channel, method, message, token, timeout_s=5.0)
                seen.add(await asyncio.wait_for(call, WAIT_S))
    assert {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT} <= seen
