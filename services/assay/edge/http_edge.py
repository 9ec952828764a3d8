"""The edge of an HTTP service: one ASGI middleware before the routes.

It reads the body itself, within its bound, and answers every error with the one table, those of the
framework (unknown path, body that is no JSON, field that is missing) included.
"""

from collections.abc import Sequence
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.core.errors import InvalidRequest, NotFound, TooLarge
from assay.edge.calls import Arrival, CallGuard, OpenCall
from assay.edge.status import STATUS, ErrorDetail, Status, detail_of

PATH_CHARS_MAX: Final = 256
"""Of a path in the logs."""
DISCARD_FACTOR: Final = 4
"""A body up to this many times too large is read to its end and thrown away, so that the answer
reaches a client that does not listen while it sends."""


def install(app: FastAPI, *, guard: CallGuard, prefix: str, body_bytes_max: int) -> None:
    """Put all of `app` under `prefix` behind the guard, and its errors into our form."""
    app.add_middleware(_HttpEdge, guard=guard, prefix=prefix, body_bytes_max=body_bytes_max)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework_error)


class _HttpEdge:
    def __init__(self, app: ASGIApp, *, guard: CallGuard, prefix: str, body_bytes_max: int) -> None:
        self._app = app
        self._guard = guard
        self._prefix = prefix
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        with self._guard.call(_arrival(scope)) as call:
            call.admit()
            body = await _read(receive, self._body_bytes_max)
            try:
                await self._app(scope, _replay(body, receive), sending)
            finally:
                call.method = _operation(scope)
        if call.error and not started:
            await _answer(call)(scope, receive, send)


async def _read(receive: Receive, bytes_max: int) -> bytes:
    """Read the whole body.

    Raises:
        TooLarge: it is over `bytes_max`.
    """
    parts: list[bytes] = []
    size = 0
    more = True
    while more and size <= DISCARD_FACTOR * bytes_max:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size <= bytes_max:
            parts.append(part)
        more = message["type"] == "http.request" and message.get("more_body", False)
    if size > bytes_max:
        message_text = f"body: more than {bytes_max} bytes"
        raise TooLarge(message_text, field="body")
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    handed_out = False

    async def replayed() -> Message:
        nonlocal handed_out
        if handed_out:
            return await receive()
        handed_out = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _answer(call: OpenCall) -> JSONResponse:
    error = call.error
    assert error is not None  # noqa: S101 for the checker: the caller looked
    headers = {**error.headers(), "X-Request-Id": call.call_id}
    return JSONResponse(error.body(), status_code=error.status.http, headers=headers)


def _arrival(scope: Scope) -> Arrival:
    headers = {
        key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]
    }
    return Arrival(
        method=f"{scope['method']} {scope['path']}"[:PATH_CHARS_MAX],
        authorization=headers.get("authorization", ""),
        call_id=headers.get("x-request-id", ""),
        traceparent=headers.get("traceparent", ""),
    )


def _operation(scope: Scope) -> str:
    return str(getattr(scope.get("route"), "name", "unknown"))


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """Raised out of the route, to be translated by the middleware with everything else."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 registered for this class
    first = error.errors()[0]
    field = "body" if first["type"] == "json_invalid" else _path(first["loc"])
    raise InvalidRequest(f"{field}: {first['msg']}", field=field)


async def _framework_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 registered for this class
    if error.status_code == 404:
        detail = detail_of(NotFound(f"no such path: {request.url.path}"))
    elif error.status_code == 400:  # the framework's word for a body that it could not read
        detail = detail_of(InvalidRequest("body: not JSON in UTF-8", field="body"))
    else:
        status = Status(grpc=STATUS[InvalidRequest].grpc, http=error.status_code)
        detail = ErrorDetail(status=status, reason=InvalidRequest.reason, message=str(error.detail))
    headers = {**detail.headers(), **(error.headers or {})}
    return JSONResponse(detail.body(), status_code=detail.status.http, headers=headers)


def _path(location: Sequence[str | int]) -> str:
    """`("body", "requests", 3, "response")` -> `requests[3].response`."""
    path = ""
    for step in location[1:] or location[:1]:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path
