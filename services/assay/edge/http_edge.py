"""The edge of an HTTP service: one ASGI middleware before the routes.

It admits a call before it reads the body, reads the body within its limits of size and time (in
pieces, as it arrives: a copy of it would block other calls), and translates every error with the
one table, including the framework's own (unknown path, body that is not JSON, missing field).
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.config.extras import left_out
from assay.core.errors import (
    DependencyDown,
    InvalidRequest,
    NotFound,
    TooLarge,
    field_path,
    not_json,
)
from assay.edge.access.rules import ANYONE, Rule, RuleOf, rule_of_operation
from assay.edge.auth import one_authorization
from assay.edge.calls import Arrival, Call, CallGuard, OpenCall
from assay.edge.connections.turns import TenantTurns
from assay.edge.door import DISCARD_FACTOR, LARGE_BYTES, READING, Kind, Load, Pieces, within
from assay.edge.grpc_edge import CONTROL_BYTES_MAX
from assay.edge.status import STATUS, ErrorDetail, Status, detail_of

NO_ROUTE: Final = "/-"
"""A path at which nothing is served."""
CERTIFICATE: Final = "assay.certificate"
"""The extension of an ASGI scope with the names in the caller's certificate."""
ANY_METHOD: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
PATH_CHARS_MAX: Final = 256
"""Characters of a path in the logs."""
CUT_SHORT: Final = "this service stopped before the call ended; make it again"
CONTROL_COMMAS_MAX: Final = 2_048
"""Bound of the values in a body without payloads, because it is parsed between other calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Which paths are guarded, and what they hold."""

    prefix: str
    """Paths behind the guard."""
    payload: re.Pattern[str]
    """Paths whose body may have `body_bytes_max`; others have `CONTROL_BYTES_MAX`."""
    stream: re.Pattern[str]
    """Paths that hold a stream slot."""
    rule_of: RuleOf = rule_of_operation
    """Which roles suffice for an operation, by its name."""


ErrorBody = Callable[[ErrorDetail], Mapping[str, Any]]


def install(
    app: Starlette,
    *,
    guard: CallGuard,
    paths: Paths,
    body_bytes_max: int,
    error_body: ErrorBody = ErrorDetail.body,
) -> None:
    """Put `app` behind the guard, and give its errors the form of `error_body`."""
    app.state.error_body = error_body
    app.add_middleware(
        _HttpEdge,
        guard=guard,
        paths=paths,
        body_bytes_max=body_bytes_max,
        error_body=error_body,
    )
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework_error)


@left_out("pydantic.v1")  # FastAPI imports it, megabytes, to see that no model is one of it
def make_routes(app: Starlette) -> None:
    """Have FastAPI make now what it would make when a request first comes to each router.

    There it takes 0.1 s of the event loop, in which no call of any tenant is answered.
    """
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": NO_ROUTE, "root_path": ""})


class _HttpEdge:
    def __init__(
        self,
        app: ASGIApp,
        *,
        guard: CallGuard,
        paths: Paths,
        body_bytes_max: int,
        error_body: ErrorBody,
    ) -> None:
        self._app = app
        self._error_body = error_body
        self._guard = guard
        self._paths = paths
        self._operations = Operations()
        self._body_bytes_max = body_bytes_max
        self._body_s_max = guard.door.limits.body_s_max
        self._turns = TenantTurns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self._paths.prefix):
            await self._app(scope, receive, send)
            return
        started = read = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await within(send(message), seconds=self._body_s_max, what=READING)

        arrival = self._arrival(scope)
        try:
            with self._guard.call(arrival) as call:
                admitted = await call.admit()
                # To find and to begin what is asked for takes up to a millisecond of the loop.
                await self._turns.turn(admitted.tenant.tenant_id)
                reading = self._read_in_turn(scope, receive, admitted)
                body = await within(reading, seconds=self._body_s_max, what="sending the body")
                read = True
                try:
                    await self._handled(scope, _replay(body, receive), sending, arrival)
                finally:
                    call.method = _operation(scope)
                    call.about.update(_named(scope))
        except asyncio.CancelledError:
            if not started:  # a caller that is gone hears nothing; one of a service that stops does
                call.error = detail_of(DependencyDown(CUT_SHORT, retry_after_s=1.0))
                await _answer(call, self._error_body, hang_up=True)(scope, receive, send)
            raise
        if call.error and not started:
            await self._guard.before_refusal(call)
            answer = _answer(call, self._error_body, hang_up=not read)
            await answer(scope, receive, send)

    async def _handled(self, scope: Scope, receive: Receive, send: Send, arrival: Arrival) -> None:
        if arrival.kind is not Kind.STREAM:
            await self._app(scope, receive, send)
            return
        async with self._guard.while_permitted(arrival):
            await self._app(scope, receive, send)

    async def _read_in_turn(self, scope: Scope, receive: Receive, admitted: Call) -> Pieces:
        declared = _declared_bytes(scope)
        if declared is not None and declared <= LARGE_BYTES:
            return await self._read(scope, receive, admitted.load, declared)
        tenant, door = admitted.tenant.tenant_id, self._guard.door
        if declared is not None and declared <= self._bytes_max(scope):
            admitted.load.add(declared)  # one that finds no room is refused unread
        async with door.turn_to_read(tenant):
            body = await self._read(scope, receive, admitted.load, declared)
            if body.size > LARGE_BYTES:  # the turn lasts this long: bodies of others continue
                await door.keep_pace(tenant, body.size)
            return body

    def _bytes_max(self, scope: Scope) -> int:
        if self._paths.payload.fullmatch(scope["path"]):
            return self._body_bytes_max
        return min(self._body_bytes_max, CONTROL_BYTES_MAX)

    async def _read(
        self, scope: Scope, receive: Receive, load: Load, declared: int | None
    ) -> Pieces:
        """Read the whole body. If it is large, `load` already holds its declared bytes.

        Raises:
            InvalidRequest: its caller is gone in the middle of it.
            TooLarge: it is over its limit.
            Saturated: too many bytes are in flight.
        """
        bytes_max = self._bytes_max(scope)
        held = declared is not None and LARGE_BYTES < declared <= bytes_max
        pieces = Pieces()
        size = 0
        more = True
        while more and size <= DISCARD_FACTOR * bytes_max:
            message = await receive()
            if message["type"] != "http.request":  # its caller is gone
                text = "body: the connection ended before it did"
                raise InvalidRequest(text, field="body")
            part = message.get("body", b"")
            size += len(part)
            if size <= bytes_max:
                if not held:
                    load.add(len(part))
                pieces.add(part)
            else:
                pieces.taken()
                load.release()
            more = message.get("more_body", False)
        if size > bytes_max:
            text = f"body: more than {bytes_max} bytes"
            raise TooLarge(text, field="body")
        if not self._paths.payload.fullmatch(scope["path"]):
            _bound_values(pieces)
        return pieces

    def _arrival(self, scope: Scope) -> Arrival:
        stream = self._paths.stream.fullmatch(scope["path"])
        return Arrival(
            method=f"{scope['method']} {scope['path']}"[:PATH_CHARS_MAX],
            authorization=authorization(scope),
            call_id=header(scope, b"x-request-id"),
            traceparent=header(scope, b"traceparent"),
            kind=Kind.STREAM if stream else Kind.CALL,
            rule=self._operations.rule(scope, self._paths.rule_of),
            certificate=scope.get("extensions", {}).get(CERTIFICATE, ()),
            peer="{}:{}".format(*(scope.get("client") or ("", ""))),
        )


class Operations:
    """Which operation of an application a request is for, known before it is routed."""

    def __init__(self) -> None:
        self._known: list[tuple[re.Pattern[str], frozenset[str], str]] | None = None

    def rule(self, scope: Scope, rule_of: RuleOf) -> Rule | None:
        """The rule of the operation that will answer; where there is none, the answer is an error
        that tells nothing, for anyone with a token."""
        if self._known is None:  # at the first call, when all routes are there
            self._known = [_operation_of(route) for route in every_route(scope["app"].routes)]
        for path, methods, name in self._known:
            if scope["method"] in methods and path.match(scope["path"]):
                return rule_of(name)
        return ANYONE


def every_route(routes: Iterable[Any]) -> Iterator[Any]:
    """The routes of an application, with those of the routers that it includes."""
    for route in routes:
        included = getattr(route, "effective_route_contexts", None)
        if included is None:
            yield route
        else:  # FastAPI of 2026 keeps an included router as one route
            yield from included()


def _operation_of(route: Any) -> tuple[re.Pattern[str], frozenset[str], str]:  # noqa: ANN401 as above
    methods = getattr(route, "methods", None)
    return (
        compile_path(route.path)[0],
        ANY_METHOD if methods is None else frozenset(methods),
        route.name,
    )


def _named(scope: Scope) -> dict[str, str]:
    """What a call is about: the names in its path."""
    return {name: str(value) for name, value in scope.get("path_params", {}).items()}


def header(scope: Scope, name: bytes) -> str:
    """The last value of a header, whose name is given in lower case; empty without one."""
    found = b""
    for key, value in scope["headers"]:
        if key == name:
            found = value
    return found.decode("latin-1")


def authorization(scope: Scope) -> str:
    """What a call shows of its caller."""
    shown = [value for key, value in scope["headers"] if key == b"authorization"]
    return one_authorization(value.decode("latin-1") for value in shown)


def _bound_values(pieces: Pieces) -> None:
    if pieces.count(b",") > CONTROL_COMMAS_MAX:
        text = f"body: more than {CONTROL_COMMAS_MAX} commas"
        raise TooLarge(text, field="body")


def _declared_bytes(scope: Scope) -> int | None:
    """Length that the header declares; `None` if there is no reliable one."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None


def _replay(body: Pieces, receive: Receive) -> Receive:
    """Return the body once and keep no copy: a call may last much longer than its body."""
    pieces = body.taken() or [b""]
    pieces.reverse()

    async def replayed() -> Message:
        if not pieces:
            return await receive()
        return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

    return replayed


def _answer(call: OpenCall, error_body: ErrorBody, *, hang_up: bool) -> JSONResponse:
    error = call.error
    assert error is not None  # noqa: S101 for the checker: the caller looked
    headers = {**error.headers(), "X-Request-Id": call.call_id}
    if hang_up:  # the rest of the body is not awaited
        headers["Connection"] = "close"
    return JSONResponse(error_body(error), status_code=error.status.http, headers=headers)


def _operation(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "name", "unknown"))


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """Raised from the route, so that the middleware translates it like every other error."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 registered for this class
    raise malformed([{**fault, "loc": fault["loc"][1:]} for fault in error.errors()[:1]])


def malformed(faults: Sequence[Mapping[str, Any]]) -> InvalidRequest:
    """The error of a body with these faults, in pydantic's form; it names the first field."""
    first = faults[0]
    field = ("" if first["type"] == "json_invalid" else field_path(first["loc"])) or "body"
    return InvalidRequest(f"{field}: {first['msg']}", field=field)


async def _framework_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 registered for this class
    if error.status_code == 404:
        detail = detail_of(NotFound(f"no such path: {request.url.path}"))
    elif error.status_code == 400:  # the framework's word for a body that it could not read
        detail = detail_of(not_json())
    else:
        status = Status(grpc=STATUS[InvalidRequest].grpc, http=error.status_code)
        detail = ErrorDetail(status=status, reason=InvalidRequest.reason, message=str(error.detail))
    headers = {**detail.headers(), **(error.headers or {})}
    body = request.app.state.error_body(detail)
    return JSONResponse(body, status_code=detail.status.http, headers=headers)
