"""The same operations as JSON under `/v1/...`, for people, scripts and small users.

Results are read page by page (`GET .../results?cursor=`) or streamed as NDJSON
(`.../results/stream?cursor=`): one page per line, the last one with `last: true`, or
`{"error": ...}` if the stream breaks off; both resume from a cursor. A `score` call is cancelled
when its caller disconnects.
"""

import asyncio
import json
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, closing
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Query, Request, Response, Security
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPBearer
from prometheus_client import CollectorRegistry

from assay.config.extras import left_out
from assay.config.settings import RewardSettings
from assay.console.page import API as CONSOLE_API
from assay.core.answers import StoredArtifact
from assay.core.errors import AssayError
from assay.core.group import GroupSummary
from assay.core.records import ResultRecord
from assay.edge import http_edge
from assay.edge.access.open_paths import OpenPaths
from assay.edge.auth import MetricsReader, Tenant
from assay.edge.calls import CallGuard, current_call
from assay.edge.door import DoorLimits, limited
from assay.edge.scrape.exposition import answer_of
from assay.edge.status import detail_of
from assay.reward import derived, docs_page
from assay.reward.bodies import answers, incoming
from assay.reward.bodies.base import Body
from assay.reward.drafts import ResultsPage, Scored
from assay.reward.endpoints import mounting
from assay.reward.endpoints.calling import Kept, read_message, while_connected
from assay.reward.endpoints.ors_sessions import Shelf
from assay.reward.late import Late
from assay.reward.operations.results import PAGE_RESULTS_MAX
from assay.reward.readers import Readers
from assay.reward.reading import Form
from assay.reward.service import RewardService

PATHS: Final = http_edge.Paths(
    prefix="/v1/",
    payload=re.compile(rf"/v1/(score|batches/[^/]+/requests|artifacts/[^/]+|{mounting.PAYLOADS})"),
    stream=re.compile(r"/v1/batches/[^/]+/results/stream"),
)
PROBES: Final = frozenset({"/healthz", "/readyz"})
JSON: Final = "application/json"
OCTETS: Final = "application/octet-stream"
RESULTS_AT_ONCE: Final = 8
"""Results converted without a pause: half a millisecond."""
NDJSON = "application/x-ndjson"
Ping = Callable[[], Awaitable[float]]
Cursor = Annotated[int, Query(description="0, or the cursor of the last page that was handled")]


@left_out("pydantic.v1")  # FastAPI imports it, megabytes, to see that no model is one of it
def build_app(
    service: RewardService,
    *,
    readers: Readers,
    guard: CallGuard,
    ping: Ping,
    registry: CollectorRegistry,
    metrics_reader: MetricsReader,
    body_bytes_max: int,
    kept: Kept,
    shelf: Shelf,
    settings: RewardSettings,
) -> FastAPI:
    """Build the ASGI application.

    Args:
        service: what it serves.
        readers: read and check messages.
        guard: admits calls.
        ping: asks the store.
        registry: the metrics.
        metrics_reader: who may read them.
        body_bytes_max: largest body.
        kept: returns a report that a stage has made.
        shelf: where sessions are kept for other API processes.
        settings: of the service.
    """
    app = FastAPI(
        title="Assay reward service",
        version="1",
        description=__doc__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # its address is made of the caller's headers, and may be http
        responses={"default": {"model": answers.ErrorBody, "description": "Why not."}},
    )
    app.include_router(_operations(service))
    app.include_router(derived.operations(service, _router()))
    app.include_router(_payloads(service, readers))
    app.include_router(_results(service, guard.door.limits))
    app.include_router(_observation(ping, registry, metrics_reader))
    mounting.mount(app, service, readers, kept, shelf, settings)
    docs_page.install(app)
    http_edge.install(app, guard=guard, paths=PATHS, body_bytes_max=body_bytes_max)
    app.add_middleware(OpenPaths, guarded=(PATHS.prefix, CONSOLE_API), probes=PROBES)
    mounting.speak_dialects(app)
    return app


def _router() -> APIRouter:
    # The scheme is for the OpenAPI page; the edge has already checked the token.
    return APIRouter(
        prefix=PATHS.prefix.rstrip("/"), dependencies=[Security(HTTPBearer(auto_error=False))]
    )


def _tenant() -> Tenant:
    return current_call().tenant


def _operations(service: RewardService) -> APIRouter:
    router = _router()
    pipelines = Late(
        lambda: answers.PipelinesBody(
            pipelines=[answers.PipelineBody.of(definition) for definition in service.pipelines]
        ).model_dump_json()
    )

    @router.get("/pipelines", name="ListPipelines", response_model=answers.PipelinesBody)
    async def list_pipelines() -> Response:
        """The pipelines, with the form of their settings and references."""
        return Response(await pipelines.get(), media_type=JSON)

    @router.post("/tasks", name="RegisterTask")
    async def register_task(body: incoming.TaskBody) -> answers.RegisteredBody:
        """Register a training job; repeating it with the same content is no error."""
        record, created = await service.register_task(_tenant(), body.draft())
        return answers.RegisteredBody(task=incoming.TaskBody.of(record), created=created)

    @router.post("/batches", name="OpenBatch")
    async def open_batch(body: incoming.OpenBatchBody) -> answers.OpenedBody:
        """Open a batch; opening the same batch twice gives the same batch."""
        batch, created = await service.open_batch(_tenant(), body.draft())
        return answers.OpenedBody(batch=answers.BatchBody.of(batch), created=created)

    return router


def _payloads(service: RewardService, readers: Readers) -> APIRouter:
    """The operations with large bodies: read by `readers`, not by the framework."""
    router = _router()

    @router.post(
        "/batches/{batch_id}/requests",
        name="Submit",
        openapi_extra=_described(incoming.SubmitBody),
    )
    async def submit(batch_id: str, request: Request) -> answers.SubmittedBody:
        """Accept all requests or none; durable when answered."""
        reading = await read_message(request, readers, Form.SUBMIT_JSON)
        with closing(reading):
            answer = await service.submit(_tenant(), batch_id, reading.requests)
        return answers.SubmittedBody.of(answer)

    @router.put(
        "/artifacts/{sha256}",
        name="PutArtifact",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )
    async def put_artifact(sha256: str, request: Request) -> StoredArtifact:
        """Keep a file for requests that will refer to it by its SHA-256 (hex)."""
        body = [await request.body()]
        return await service.put_artifact(_tenant(), body, sha256=sha256)

    @router.post(
        "/score",
        name="Score",
        openapi_extra=_described(incoming.ScoreBody),
        response_model=answers.ScoredBody,
    )
    async def score(request: Request) -> Response:
        """Submit and wait; the work is cancelled when the caller disconnects."""
        reading = await read_message(request, readers, Form.SCORE_JSON)
        with closing(reading):
            tenant = _tenant()
            scoring = service.score(
                tenant, reading.score, reading.requests, stored=current_call().load.release
            )
            answer = await while_connected(request, scoring)
        async with service.turn(tenant):
            return Response(await _scored(answer), media_type=JSON)

    return router


async def _scored(answer: Scored) -> str:
    """Make a `ScoredBody`, yielding to other calls."""
    results = await _results_json(answer.results)
    return f'{{"results":[{results}],"groups":[{_groups_json(answer.groups)}]}}'


async def _page(page: ResultsPage) -> str:
    """Make a `ResultsBody`, yielding to other calls."""
    results, groups = await _results_json(page.results), _groups_json(page.groups)
    batch = answers.BatchBody.of(page.batch).model_dump_json()
    last = "true" if page.last else "false"
    return (
        f'{{"results":[{results}],"groups":[{groups}],"cursor":{page.cursor},'
        f'"batch":{batch},"last":{last}}}'
    )


async def _results_json(records: Sequence[ResultRecord]) -> str:
    results = []
    for first in range(0, len(records), RESULTS_AT_ONCE):
        for result in records[first : first + RESULTS_AT_ONCE]:
            results.append(answers.result_json(result))
        await asyncio.sleep(0)
    return ",".join(results)


def _groups_json(groups: Sequence[GroupSummary]) -> str:
    return ",".join(answers.GroupBody.of(group).model_dump_json() for group in groups)


def _described(body: type[Body]) -> dict[str, Any]:
    """OpenAPI description of a body that the framework does not read."""
    schema = body.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(node: Any) -> Any:  # noqa: ANN401 JSON
        if isinstance(node, dict):
            if "$ref" in node:
                return whole(parts[node["$ref"].rpartition("/")[2]])
            return {key: whole(child) for key, child in node.items()}
        return [whole(child) for child in node] if isinstance(node, list) else node

    return {"requestBody": {"required": True, "content": {JSON: {"schema": whole(schema)}}}}


def _results(service: RewardService, limits: DoorLimits) -> APIRouter:
    router = _router()

    @router.get(
        "/batches/{batch_id}/results", name="ListResults", response_model=answers.ResultsBody
    )
    async def results(
        batch_id: str,
        cursor: Cursor = 0,
        results_max: Annotated[int, Query()] = PAGE_RESULTS_MAX,
    ) -> Response:
        """The results that there are from `cursor` on, without waiting."""
        tenant = _tenant()
        page = await service.page(tenant, batch_id, cursor=cursor, results_max=results_max)
        async with service.turn(tenant):
            return Response(await _page(page), media_type=JSON)

    @router.get(
        "/batches/{batch_id}/results/stream",
        name="StreamResults",
        response_class=StreamingResponse,
        responses={
            200: {"content": {NDJSON: {}}, "description": "Pages of results, one per line."}
        },
    )
    async def stream(batch_id: str, cursor: Cursor = 0) -> StreamingResponse:
        """Results as they arrive, until the batch is complete."""
        tenant = _tenant()
        # Errors of the call itself are raised before the first line, while a status can be sent.
        await service.page(tenant, batch_id, cursor=cursor, results_max=1)
        pages = limited(service.stream(tenant, batch_id, cursor=cursor), limits)
        return StreamingResponse(ndjson(pages, partial(service.turn, tenant)), media_type=NDJSON)

    return router


def _observation(
    ping: Ping, registry: CollectorRegistry, metrics_reader: MetricsReader
) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/readyz", include_in_schema=False)
    async def readyz() -> JSONResponse:
        try:
            round_trip_s = await ping()
        except AssayError as error:
            detail = detail_of(error)
            return JSONResponse(detail.body(), status_code=detail.status.http)
        return JSONResponse({"status": "ok", "store_round_trip_s": round_trip_s})

    @router.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        try:
            metrics_reader.admit(http_edge.authorization(request.scope))
        except AssayError as error:
            detail = detail_of(error)
            return JSONResponse(
                detail.body(), status_code=detail.status.http, headers=detail.headers()
            )
        text, kind = answer_of(registry, request.headers.get("accept", ""))
        return Response(text, headers={"content-type": kind})

    return router


async def ndjson(
    pages: AsyncGenerator[ResultsPage, None], turn: Callable[[], AbstractAsyncContextManager[None]]
) -> AsyncGenerator[str, None]:
    async with aclosing(pages):
        try:
            async for page in pages:
                async with turn():
                    line = await _page(page) + "\n"
                del page  # not held while it is sent: see `lifecycle.Collector`
                yield line
        except AssayError as error:  # the status line is already sent; the last line reports it
            yield json.dumps(detail_of(error).body()) + "\n"
