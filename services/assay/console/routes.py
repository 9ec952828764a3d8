"""`/console/api/...`: what the page asks. `/v1` is the interface of programs."""

import re
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Header, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse

from assay.config.extras import left_out
from assay.console import page
from assay.console.feed import Feed, event
from assay.console.lookup import Lookup
from assay.console.viewer import Viewer, viewer_of
from assay.core.errors import AssayError, PermissionDenied
from assay.edge import http_edge
from assay.edge.access.rules import CONSOLE
from assay.edge.calls import CallGuard, current_call
from assay.edge.door import Door, DoorLimits, limited
from assay.edge.status import detail_of

BODY_BYTES_MAX: Final = 1_024
"""Its calls have no bodies."""
PATHS: Final = http_edge.Paths(
    prefix=page.API,
    payload=re.compile(r"(?!)"),
    stream=re.compile(re.escape(page.API) + "stream"),
    rule_of=CONSOLE.get,
)
PRIVATE: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
OWN_HEADER: Final = "x-assay-console"
"""A header that another site's page cannot send here unasked, so that a browser on this machine is
not made to change something where no token is required."""

Named = Annotated[str, Query(alias="tenant", max_length=128)]


class _Private(JSONResponse):
    """An answer that no cache may keep."""

    def __init__(self, content: Any) -> None:  # noqa: ANN401 JSON
        super().__init__(content, headers=PRIVATE)


@left_out("pydantic.v1")  # see `assay.reward.http.build_app`
def install(app: FastAPI, *, feed: Feed, lookup: Lookup, guard: CallGuard) -> None:
    """Serve the page, and behind `guard` what it asks."""
    app.include_router(_router(feed, lookup, guard.door))
    page.install(app)
    http_edge.install(app, guard=guard, paths=PATHS, body_bytes_max=BODY_BYTES_MAX)


def _viewer() -> Viewer:
    return viewer_of(current_call().tenant)


def _router(feed: Feed, lookup: Lookup, door: Door) -> APIRouter:
    router = APIRouter(prefix=page.API.rstrip("/"), include_in_schema=False)

    @router.get("/stream", name="ConsoleStream")
    async def stream() -> StreamingResponse:
        """What the platform does, now and again."""
        return StreamingResponse(
            _events(feed, _viewer(), door.limits),
            media_type="text/event-stream",
            headers={**PRIVATE, "x-accel-buffering": "no"},
        )

    @router.get("/batches/{batch_id}", name="ConsoleBatch")
    async def batch(batch_id: str, tenant: Named = "") -> Response:
        """State of a batch, its stages and its failures."""
        return _Private(await lookup.batch(_viewer(), tenant, batch_id))

    @router.get("/batches/{batch_id}/plan", name="ConsolePlan")
    async def plan(batch_id: str, tenant: Named = "") -> Response:
        """Why its pools had their sizes."""
        return _Private(await lookup.plan(_viewer(), tenant, batch_id))

    @router.get("/batches/{batch_id}/results", name="ConsoleResults")
    async def results(
        batch_id: str, tenant: Named = "", kind: str = "failed", before: int | None = None
    ) -> Response:
        """A batch's results of one kind."""
        async with _turn(door):
            return _Private(
                await lookup.results(_viewer(), tenant, batch_id, kind=kind, before=before)
            )

    @router.get("/batches/{batch_id}/request", name="ConsoleRequest")
    async def request(batch_id: str, request_id: str, tenant: Named = "") -> Response:
        """State or result of one request of a batch."""
        async with _turn(door):
            return _Private(await lookup.request(_viewer(), tenant, batch_id, request_id))

    @router.get("/dead-letters", name="ConsoleDeadLetters")
    async def dead_letters() -> Response:
        """Requests that ran out of attempts."""
        return _Private(await lookup.dead_letters(_viewer()))

    @router.post("/dead-letters/{job_id}/replay", name="ConsoleReplay")
    async def replay(job_id: str, own: Annotated[str, Header(alias=OWN_HEADER)] = "") -> Response:
        """Put a dead letter back into its queue."""
        if not own:
            raise PermissionDenied(f"{OWN_HEADER}: the header is missing")
        return _Private(await lookup.replay(_viewer(), job_id))

    return router


def _turn(door: Door) -> AbstractAsyncContextManager[None]:
    """Few long reads of a viewer at a time."""
    return door.turn_to_answer(current_call().tenant.tenant_id)


async def _events(feed: Feed, viewer: Viewer, limits: DoorLimits) -> AsyncGenerator[bytes, None]:
    events = limited(feed.watch(viewer), limits)
    async with aclosing(events):
        try:
            async for one in events:
                yield one
        except AssayError as error:  # the status line is already sent
            yield event("ended", detail_of(error).body())
