"""The routes. Sessions are the trainer's; everything below `/sessions/{id}/v1` is the agent's.

The tenant comes from the token. An agent may show the key of its session instead, which opens
nothing else. Errors have OpenAI's form. Bodies are parsed and validated in one pass from bytes: a
conversation is sent whole with every turn, so a framework's general path would cost more than the
turn itself.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from assay.core.errors import InvalidRequest, Unauthenticated
from assay.edge import http_edge
from assay.edge.access.rules import GATEWAY
from assay.edge.calls import CallGuard, current_call
from assay.edge.http_edge import header
from assay.rollout.gateway import views
from assay.rollout.gateway.bodies import (
    AgentCompletionBody,
    ChatBody,
    EndBody,
    SessionBody,
    TrajectoriesQuery,
)
from assay.rollout.gateway.calls import Calls, Exchange, TurnBody, unless_gone
from assay.rollout.gateway.sessions import is_session_key, shown
from assay.rollout.server import answers
from assay.rollout.server.hub import disconnected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from assay.rollout.gateway.sessions import AgentSession, SessionCallers

PATHS: Final = http_edge.Paths(
    prefix="/sessions",
    payload=re.compile(r"/sessions(/[^/]+/(end|v1/(chat/)?completions))?"),
    stream=re.compile(r"/sessions/[^/]+/(v1/(chat/)?completions|trajectories)"),
    rule_of=GATEWAY.get,
)
PACKED: Final = "application/octet-stream"
JSON: Final = "application/json"
SESSION: Final = "/sessions/{session_id}"
_TURN: Final = re.compile(r"/sessions/([^/]+)/v1/((?:chat/)?completions)")
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class _Stream(StreamingResponse):
    """Closes its exchange even if the caller went before the first event."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.events(), media_type="text/event-stream")
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._exchange.close()


class Routes:
    """The handlers, each named as calls are in the metrics."""

    def __init__(self, calls: Calls, callers: SessionCallers) -> None:
        self._calls = calls
        self._sessions = calls.sessions
        self._callers = callers

    # -- of the trainer --------------------------------------------------------------------------
    async def open_session(self, request: Request) -> Response:
        _owner_only(request)
        body = await _body(request, SessionBody)
        token = shown(_authorization(request)) or None
        session = await self._sessions.open(current_call().tenant, body, token=token)
        base_url = str(request.base_url).rstrip("/")
        return JSONResponse(views.opened(session, base_url), status_code=201)

    async def read_session(self, request: Request) -> Response:
        return JSONResponse(views.state(self._trainer(request)))

    async def end_session(self, request: Request) -> Response:
        """No more turns."""
        session = self._trainer(request)
        self._sessions.end(session, await _body(request, EndBody, absent=EndBody()))
        return JSONResponse(views.state(session))

    async def close_session(self, request: Request) -> Response:
        """End a session and drop what is kept of it."""
        session = self._trainer(request)
        self._sessions.close(session)
        return JSONResponse(views.state(session))

    async def read_trajectories(self, request: Request) -> Response:
        """Its trajectories, when it has its reward or `wait_s` has passed."""
        session = self._trainer(request)
        query = _valid(TrajectoriesQuery.model_validate, dict(request.query_params))
        try:
            async with asyncio.timeout(query.wait_s):
                await session.settled.wait()
        except TimeoutError:
            pass  # the answer says how far it is
        if query.layout == "packed":
            return Response(views.packed(session), media_type=PACKED)
        return JSONResponse(views.trajectories(session, columns=query.columns))

    # -- of the agent ----------------------------------------------------------------------------
    async def chat_completions(self, request: Request) -> Response:
        """A turn of a conversation."""
        session = self._agent(request)
        return await self._completed(session, await _body(request, ChatBody), request)

    async def completions(self, request: Request) -> Response:
        """A turn of a text."""
        session = self._agent(request)
        return await self._completed(session, await _body(request, AgentCompletionBody), request)

    async def models(self, request: Request) -> Response:
        """The model, in a list."""
        self._agent(request)
        return JSONResponse({"object": "list", "data": [_model(self._calls)]})

    async def model(self, request: Request) -> Response:
        """The model, by any name."""
        self._agent(request)
        return JSONResponse(_model(self._calls))

    # -- common ----------------------------------------------------------------------------------
    def _trainer(self, request: Request) -> AgentSession:
        """The session, for its owner.

        Raises:
            Unauthenticated: by the key of a session.
            NotFound: no such session of this tenant.
        """
        _owner_only(request)
        return self._sessions.find(current_call().tenant.tenant_id, _session_id(request))

    def _agent(self, request: Request) -> AgentSession:
        """The session, for its owner and its agent.

        Raises:
            Unauthenticated: by the key of another session.
            NotFound: no such session of this tenant.
        """
        session = self._sessions.find(current_call().tenant.tenant_id, _session_id(request))
        authorization = _authorization(request)
        if is_session_key(authorization) and self._callers.session(authorization) is not session:
            raise Unauthenticated("authorization: the key of another session")
        return session

    async def _completed(self, session: AgentSession, body: TurnBody, request: Request) -> Response:
        current_call().load.release()  # a turn lasts much longer than its body

        async def whole() -> dict[str, Any]:
            return await (await self._calls.begin(session, body)).whole()

        gone = partial(disconnected, request.receive)
        if body.stream:
            exchange = await unless_gone(gone, partial(self._calls.begin, session, body))
            return _gone() if exchange is None else _Stream(exchange)
        answer = await unless_gone(gone, whole)
        if answer is None:
            return _gone()
        return Response(to_json(answer), media_type=JSON)


class _Turns:
    """Middleware: turns, which are nearly all calls, go to their handlers at once.

    The framework's layers between here and a route would cost a good part of the turn's own work.
    """

    def __init__(self, app: ASGIApp, turns: Sequence[Route]) -> None:
        self._app = app
        self._turns = {route.path.removeprefix(f"{SESSION}/v1/"): route for route in turns}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        post = scope["type"] == "http" and scope["method"] == "POST"
        found = _TURN.fullmatch(scope["path"]) if post else None
        if found is None:
            await self._app(scope, receive, send)
            return
        session_id, which = found.groups()
        scope["route"] = route = self._turns[which]
        scope["path_params"] = {"session_id": session_id}
        response = await route.endpoint(Request(scope, receive))
        await response(scope, receive, send)


def _session_id(request: Request) -> str:
    return str(request.path_params["session_id"])


def _authorization(request: Request) -> str:
    return http_edge.authorization(request.scope)


async def _body(request: Request, model: type[M], *, absent: M | None = None) -> M:
    """The body of a call; `absent` where there is none.

    Raises:
        InvalidRequest: it is not declared as JSON (a web page of any origin may send other types
            without asking), or not valid; names the field.
    """
    raw = await request.body()
    if not raw and absent is not None:
        return absent
    kind = header(request.scope, b"content-type").partition(";")[0].strip().lower()
    if raw and kind != JSON and not kind.endswith("+json"):
        raise InvalidRequest("body: not declared as application/json", field="body")
    return _valid(model.model_validate_json, raw)


def _valid(validate: Callable[[T], M], given: T) -> M:
    try:
        return validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise http_edge.malformed(faults) from None


def _owner_only(request: Request) -> None:
    if is_session_key(_authorization(request)):
        raise Unauthenticated("authorization: this call needs the tenant's token")


def _gone() -> Response:
    return Response(status_code=499)  # no one reads it


def build_app(
    calls: Calls, *, callers: SessionCallers, guard: CallGuard, body_bytes_max: int
) -> Starlette:
    """Build the ASGI application."""
    routes = Routes(calls, callers)
    turns = [
        Route(f"{SESSION}/v1/chat/completions", routes.chat_completions, methods=["POST"]),
        Route(f"{SESSION}/v1/completions", routes.completions, methods=["POST"]),
    ]
    app = Starlette(routes=[*turns, *_routes(routes)])
    app.add_middleware(_Turns, turns=turns)
    http_edge.install(
        app,
        guard=guard,
        paths=PATHS,
        body_bytes_max=body_bytes_max,
        error_body=answers.error_body,
    )
    return app


def _routes(routes: Routes) -> list[Route]:
    return [
        Route(f"{SESSION}/v1/models", routes.models),
        Route(f"{SESSION}/v1/models/{{model:path}}", routes.model),
        Route("/sessions", routes.open_session, methods=["POST"]),
        Route(SESSION, routes.read_session),
        Route(SESSION, routes.close_session, methods=["DELETE"]),
        Route(f"{SESSION}/end", routes.end_session, methods=["POST"]),
        Route(f"{SESSION}/trajectories", routes.read_trajectories),
    ]


def _model(calls: Calls) -> dict[str, Any]:
    served = calls.served
    return {
        "id": served.name,
        "object": "model",
        "created": 0,
        "owned_by": "assay",
        "max_model_len": served.tokens_max,
    }
