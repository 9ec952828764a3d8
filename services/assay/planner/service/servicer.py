"""`PlannerService`: what is planned, why, and what would be planned otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from assay.core.errors import NotFound
from assay.core.ids import BatchId, TenantId
from assay.planner.service import wire
from assay.planner.service.narrate import tell
from assay.planner.session.plan_view import unpack_record
from assay.v1 import planner_pb2, planner_pb2_grpc

if TYPE_CHECKING:
    import grpc

    from assay.planner.service.controller import Planner
    from assay.store.port import Store

    Context = grpc.aio.ServicerContext[Any, Any]

TENANT_DEFAULT: Final = "default"


class PlannerServicer(planner_pb2_grpc.PlannerServiceServicer):
    """Translates; errors are the edge's."""

    def __init__(self, planner: Planner, store: Store) -> None:
        self._planner = planner
        self._store = store

    async def GetPlan(  # noqa: N802 - the proto's names
        self, request: planner_pb2.GetPlanRequest, context: Context
    ) -> planner_pb2.GetPlanResponse:
        """The present plan."""
        del request, context
        planner = self._planner
        why = planner.why_not_ready
        return planner_pb2.GetPlanResponse(
            plan=wire.plan_message(planner.plan),
            leading=planner.leading,
            ready=not why,
            why=why or ("leading" if planner.leading else "standing by"),
            planning_process=planner.process.state,
            planning_process_restarts=planner.process.restarts,
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
            explanation=tell(records),
        )

    async def WhatIf(  # noqa: N802
        self, request: planner_pb2.WhatIfRequest, context: Context
    ) -> planner_pb2.WhatIfResponse:
        """Plan, and touch nothing."""
        del context
        plan = await self._planner.what_if(wire.change_of(request))
        return planner_pb2.WhatIfResponse(
            plan=wire.plan_message(plan), present=wire.plan_message(self._planner.plan)
        )
