"""`PlannerService`: the plan, its reasons, and the plan under other conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from assay.core.errors import NotFound
from assay.core.ids import BatchId, TenantId
from assay.planner.service import wire
from assay.planner.service.narrate import narrate
from assay.planner.session.plan_view import unpack_record
from assay.v1 import planner_pb2, planner_pb2_grpc

if TYPE_CHECKING:
    import grpc

    from assay.planner.service.controller import Controller
    from assay.store.port import Store

    Context = grpc.aio.ServicerContext[Any, Any]

TENANT_DEFAULT: Final = "default"


class PlannerServicer(planner_pb2_grpc.PlannerServiceServicer):
    """Translates messages; the edge maps errors to statuses."""

    def __init__(self, controller: Controller, store: Store) -> None:
        self._controller = controller
        self._store = store

    async def GetPlan(  # noqa: N802 - the proto's names
        self, request: planner_pb2.GetPlanRequest, context: Context
    ) -> planner_pb2.GetPlanResponse:
        """The present plan."""
        del request, context
        controller = self._controller
        why = controller.why_not_ready
        return planner_pb2.GetPlanResponse(
            plan=wire.plan_message(controller.plan),
            leading=controller.leading,
            ready=not why,
            why=why or ("leading" if controller.leading else "standing by"),
            planning_process=controller.process.state,
            planning_process_restarts=controller.process.restarts,
            conditions=wire.condition_messages(controller.pools, controller.unserved),
            pools=wire.pool_messages(controller.pools, controller.plan),
        )

    async def GetPools(  # noqa: N802
        self, request: planner_pb2.GetPoolsRequest, context: Context
    ) -> planner_pb2.GetPoolsResponse:
        """The pools over all worker hosts."""
        del context
        controller = self._controller
        pools, hosts = await controller.look_at_pools()
        return planner_pb2.GetPoolsResponse(
            leading=controller.leading,
            pools=[wire.pool_message(one) for one in pools if request.stage in ("", one.stage)],
            **wire.host_messages(hosts, request.stage),
        )

    async def ExplainPlan(  # noqa: N802
        self, request: planner_pb2.ExplainPlanRequest, context: Context
    ) -> planner_pb2.ExplainPlanResponse:
        """All plans of a batch, from the store."""
        del context
        if not request.batch_id:
            raise NotFound("batch_id: name a batch", field="batch_id")
        tenant = TenantId(request.tenant or TENANT_DEFAULT)
        bodies = await self._store.plans(tenant, BatchId(request.batch_id))
        records = [record for body in bodies if (record := unpack_record(body)) is not None]
        return planner_pb2.ExplainPlanResponse(
            plans=[wire.plan_message(record.plan) for record in records],
            samples=[wire.sample_message(s) for record in records for s in record.samples],
            explanation=narrate(records),
        )

    async def WhatIf(  # noqa: N802
        self, request: planner_pb2.WhatIfRequest, context: Context
    ) -> planner_pb2.WhatIfResponse:
        """A plan under other conditions; changes nothing."""
        del context
        found = await self._controller.what_if(wire.change_of(request))
        return planner_pb2.WhatIfResponse(
            plan=wire.plan_message(found.plan), present=wire.plan_message(found.present)
        )
