"""A planner's door for tests: what it answers is given."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc

from assay.v1 import planner_pb2, planner_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(slots=True)
class StandIn(planner_pb2_grpc.PlannerServiceServicer):
    """A planner of one pool, planned at 7 slots, of which one was ready at its last step."""

    leading: bool = True
    refuses: grpc.StatusCode | None = None
    """How it answers `GetPools`, if it does not."""
    everywhere: planner_pb2.GetPoolsResponse = field(default_factory=planner_pb2.GetPoolsResponse)
    asked_for_pools: bool = False
    condition: str = ""
    holds: dict[str, asyncio.Event] = field(default_factory=dict)
    """By name, the calls that it answers no sooner than the event is set."""
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    """One of them has come."""

    @classmethod
    def with_hosts(cls, *names: str, condition: str = "") -> StandIn:
        """Two slots wanted on each host, of which one is ready and busy."""
        starts = planner_pb2.StartupTimes(measured=3, p50_s=0.25, p90_s=0.5)

        def pool(slots: int) -> planner_pb2.PoolOfStage:
            return planner_pb2.PoolOfStage(
                stage="noop", slots_desired=2 * slots, slots_ready=slots, slots_busy=slots,
                startup=starts,
            )  # fmt: skip

        hosts = [
            planner_pb2.WorkerHost(host=name, state="Counted", cores=8, pools=[pool(1)])
            for name in names
        ]
        everywhere = planner_pb2.GetPoolsResponse(
            leading=True, pools=[pool(len(names))], hosts=hosts, hosts_all=len(names)
        )
        return cls(everywhere=everywhere, condition=condition)

    async def _has_held(self, call: str) -> bool:
        if call not in self.holds:
            return False
        self.holding.set()
        await self.holds[call].wait()
        return True

    async def GetPlan(self, request: Any, context: Any) -> planner_pb2.GetPlanResponse:
        """Its pools as of the last step."""
        del request, context
        await self._has_held("GetPlan")
        sample = planner_pb2.PoolSample(
            stage="noop", slots_planned=7, slots_desired=7, slots_ready=1, slots_busy=0
        )
        conditions = [
            planner_pb2.PoolCondition(stage="noop", condition="x", details=self.condition)
            for _ in range(bool(self.condition))
        ]
        return planner_pb2.GetPlanResponse(
            leading=self.leading, ready=True, why="leading", pools=[sample], conditions=conditions
        )

    async def GetPools(self, request: Any, context: Any) -> planner_pb2.GetPoolsResponse:
        """Its pools now."""
        del request
        self.asked_for_pools = True
        if self.refuses is not None:
            await context.abort(self.refuses, "it does not")
        return self.everywhere

    async def ExplainPlan(self, request: Any, context: Any) -> planner_pb2.ExplainPlanResponse:
        """No plan is kept."""
        del request
        if await self._has_held("ExplainPlan"):
            return planner_pb2.ExplainPlanResponse(explanation=["as it was"])
        await context.abort(grpc.StatusCode.NOT_FOUND, "no batch")
        raise AssertionError

    async def WhatIf(self, request: Any, context: Any) -> planner_pb2.WhatIfResponse:
        """Nothing is planned."""
        del request, context
        return planner_pb2.WhatIfResponse()


@asynccontextmanager
async def address_of(planner: StandIn) -> AsyncIterator[str]:
    """Listen until the block ends."""
    server = grpc.aio.server()
    planner_pb2_grpc.add_PlannerServiceServicer_to_server(planner, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)
