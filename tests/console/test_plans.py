"""What the console makes of a planner's answers, over real gRPC."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from tests.console.planner import StandIn, address_of

from assay.config.access import OperatorSettings
from assay.console.look import HOSTS_SHOWN_MAX, Look, shown
from assay.console.plans import PlannerClient
from assay.console.viewer import Viewer
from assay.core.errors import NotFound
from assay.core.ids import BatchId, TenantId
from assay.edge.auth import Operator
from assay.v1 import planner_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def client_of(planner: StandIn) -> AsyncIterator[PlannerClient]:
    async with address_of(planner) as address:
        client = PlannerClient(lambda: address, Operator(OperatorSettings()))
        yield client
        await client.close()


async def test_slots_are_those_of_all_hosts_now_and_the_plan_that_of_the_last_step() -> None:
    async with client_of(StandIn.with_hosts("a", "b")) as client:
        look = await client.look()
    assert look is not None
    [pool] = look.pools
    wanted = {"stage": "noop", "planned": 7, "desired": 4, "ready": 2, "busy": 2}
    assert {name: pool[name] for name in wanted} == wanted
    assert pool["startup_p90_s"] == 0.5
    assert [host["host"] for host in look.hosts] == ["a", "b"]


@pytest.mark.parametrize("code", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE])
async def test_a_planner_that_tells_of_no_hosts_still_has_its_pools(code: grpc.StatusCode) -> None:
    async with client_of(StandIn(refuses=code)) as client:
        look = await client.look()
    assert look is not None
    assert [(pool["ready"], pool["planned"]) for pool in look.pools] == [(1, 7)]
    assert not look.hosts


async def test_one_that_stands_by_is_not_asked_for_hosts() -> None:
    planner = StandIn(leading=False)
    async with client_of(planner) as client:
        assert await client.look() is not None
    assert not planner.asked_for_pools


async def test_a_look_that_leaves_a_planner_which_stands_by_ends_no_question_to_it() -> None:
    """A task whose call is cancelled under it ends as if it had been cancelled itself."""
    may_explain = asyncio.Event()
    planner = StandIn(leading=False, holds={"ExplainPlan": may_explain})
    async with client_of(planner) as client, asyncio.timeout(60):
        asked = asyncio.create_task(client.explain(TenantId("red"), BatchId("b")))
        await planner.holding.wait()
        assert await client.look() is not None
        may_explain.set()
        assert (await asked)["explanation"] == ["as it was"]


async def test_a_look_goes_on_at_the_planner_to_which_another_question_has_moved() -> None:
    may_plan = asyncio.Event()
    first, second = StandIn(holds={"GetPlan": may_plan}), StandIn.with_hosts("a")
    async with address_of(first) as before, address_of(second) as after, asyncio.timeout(60):
        address = before
        client = PlannerClient(lambda: address, Operator(OperatorSettings()))
        looking = asyncio.create_task(client.look())
        await first.holding.wait()
        address = after
        with pytest.raises(NotFound):
            await client.explain(TenantId("red"), BatchId("b"))
        may_plan.set()
        look = await looking
        await client.close()
    assert look is not None
    assert [host["host"] for host in look.hosts] == ["a"]


async def test_hosts_in_trouble_are_shown_first_and_a_bounded_number() -> None:
    planner = StandIn.with_hosts(*(f"h{n:04}" for n in range(300)))
    planner.everywhere.hosts[250].state = "Doubted"
    async with client_of(planner) as client:
        look = await client.look()
    part = shown(Look(at_ns=1, planner=look), Viewer(None))["planner"]
    assert part["hosts_all"] == 300
    names = [host["host"] for host in part["hosts"]]
    assert names == ["h0250", *(f"h{n:04}" for n in range(HOSTS_SHOWN_MAX - 1))]
    assert shown(Look(at_ns=1, planner=look), Viewer("red"))["planner"] is None  # type: ignore[arg-type]
    assert planner_pb2.GetPoolsResponse.FromString(planner.everywhere.SerializeToString())
