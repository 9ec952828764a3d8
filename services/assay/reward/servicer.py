"""reward.proto over gRPC: each method converts with `wire` and calls the service.

`assay.edge` turns exceptions into statuses. Method names are the proto's; those that the contract
alone defines are made by `assay.reward.derived`. The methods in `RAW` get
the bytes of their messages, those in `PARTS` the pieces of one message, which `Readers` parse
without blocking other calls.
"""
# ruff: noqa: N802

from __future__ import annotations

from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from assay.edge.calls import current_call
from assay.reward import derived, wire
from assay.reward.late import Late
from assay.reward.reading import Form
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import grpc

    from assay.core.records import Submitted
    from assay.reward.readers import Readers
    from assay.reward.service import RewardService

    Context = grpc.aio.ServicerContext[Any, Any]


RAW: Final = frozenset({"Submit", "SubmitStream", "Score"})
PARTS: Final = frozenset({"SubmitParts", "ScoreParts", "PutArtifact"})


class RewardServicer(reward_pb2_grpc.RewardServiceServicer):
    """The gRPC interface of `RewardService`."""

    def __init__(self, service: RewardService, readers: Readers) -> None:
        self._service = service
        self._readers = readers
        for name, method in derived.rpcs(service).items():
            setattr(self, name, method)
        self._pipelines = Late(
            lambda: reward_pb2.ListPipelinesResponse(
                pipelines=[wire.pipeline(definition) for definition in service.pipelines]
            )
        )

    async def RegisterTask(
        self, request: reward_pb2.RegisterTaskRequest, context: Context
    ) -> reward_pb2.RegisterTaskResponse:
        """Register a training job."""
        draft = wire.task_draft(request.task)
        record, created = await self._service.register_task(current_call().tenant, draft)
        return reward_pb2.RegisterTaskResponse(task=wire.task(record), created=created)

    async def OpenBatch(
        self, request: reward_pb2.OpenBatchRequest, context: Context
    ) -> reward_pb2.OpenBatchResponse:
        draft = wire.batch_draft(request)
        batch, created = await self._service.open_batch(current_call().tenant, draft)
        return reward_pb2.OpenBatchResponse(batch=wire.batch(batch), created=created)

    async def Submit(  # type: ignore[override]  # see RAW
        self, request: bytes, context: Context
    ) -> reward_pb2.SubmitResponse:
        """Accept a message of requests."""
        return wire.made(reward_pb2.SubmitResponse, await self._submit([request]))

    async def SubmitParts(  # type: ignore[override]  # see PARTS
        self, request_iterator: list[bytes], context: Context
    ) -> reward_pb2.SubmitResponse:
        """Accept a message of requests that was sent in parts."""
        return wire.made(reward_pb2.SubmitResponse, await self._submit(request_iterator))

    async def SubmitStream(  # type: ignore[override]  # see RAW
        self, request_iterator: AsyncIterator[bytes], context: Context
    ) -> reward_pb2.SubmitResponse:
        """Accept message after message."""
        total = reward_pb2.SubmitResponse()
        async for request in request_iterator:
            answer = await self._submit([request])
            total.accepted += answer.accepted
            total.duplicates += answer.duplicates
        return total

    async def PutArtifact(  # type: ignore[override]  # see PARTS
        self, request_iterator: list[bytes], context: Context
    ) -> reward_pb2.PutArtifactResponse:
        """Keep a file for requests that will refer to it."""
        found = await self._service.put_artifact(current_call().tenant, request_iterator)
        return wire.made(reward_pb2.PutArtifactResponse, found)

    async def StreamResults(
        self, request: reward_pb2.StreamResultsRequest, context: Context
    ) -> AsyncIterator[reward_pb2.StreamResultsResponse]:
        """Send results as they arrive."""
        tenant = current_call().tenant
        pages = self._service.stream(tenant, request.batch_id, cursor=request.cursor)
        async with aclosing(pages):
            async for page in pages:
                async with self._service.turn(tenant):
                    held = [await wire.results_page(page)]
                del page  # not held while it is sent: see `lifecycle.Collector`
                yield held.pop()

    async def Score(  # type: ignore[override]  # see RAW
        self, request: bytes, context: Context
    ) -> reward_pb2.ScoreResponse:
        """Submit and wait."""
        body = [request]
        del request  # the call may last long; release its bytes
        return await self._score(body, context)

    async def ScoreParts(  # type: ignore[override]  # see PARTS
        self, request_iterator: list[bytes], context: Context
    ) -> reward_pb2.ScoreResponse:
        """Submit a message that was sent in parts, and wait."""
        return await self._score(request_iterator, context)

    async def ListPipelines(
        self, request: reward_pb2.ListPipelinesRequest, context: Context
    ) -> reward_pb2.ListPipelinesResponse:
        """List the pipelines and their forms."""
        return await self._pipelines.get()

    async def _score(self, body: list[bytes], context: Context) -> reward_pb2.ScoreResponse:
        call = current_call()
        reading = await self._readers.read(Form.SCORE, body, call.tenant.tenant_id)
        body.clear()
        with closing(reading):
            draft = replace(reading.score, timeout_s=context.time_remaining())
            answer = await self._service.score(
                call.tenant, draft, reading.requests, stored=call.load.release
            )
        async with self._service.turn(call.tenant):
            return await wire.scored(answer)

    async def _submit(self, body: list[bytes]) -> Submitted:
        tenant = current_call().tenant
        reading = await self._readers.read(Form.SUBMIT, body, tenant.tenant_id)
        with closing(reading):
            return await self._service.submit(tenant, reading.batch_id, reading.requests)
