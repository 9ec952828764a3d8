"""The routes: completions, models, pause and resume, weights, health.

Routes and fields are vLLM's if vLLM has them; `/stage_weights`, `/activate_weights`,
`policy_versions` and `receipt` are ours. Errors have OpenAI's form: `{"error": {...}}`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
import uuid
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse

from assay.core import errors as core
from assay.rollout.layout import PauseMode, Stop
from assay.rollout.models.tokenizer import TextStream
from assay.rollout.rollouts import Progress
from assay.rollout.server.bodies import (
    PAUSE_MODES,
    ActivateBody,
    Choice,
    CompletionBody,
    StageBody,
    finish_reason,
)
from assay.rollout.server.hub import Hub, StreamingEngine, Ticket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.rollout_engine import Held
    from assay.rollout.rollouts import Completed

STATUS: dict[type[core.AssayError], tuple[int, str]] = {
    core.InvalidRequest: (400, "invalid_request_error"),
    core.FailedPrecondition: (409, "failed_precondition"),
    core.Saturated: (429, "saturated"),
    core.DeadlinePassed: (504, "timeout"),
    core.DependencyDown: (503, "unavailable"),
    core.Unauthenticated: (401, "authentication_error"),
}
MODES = {"keep": PauseMode.IN_PLACE, "wait": PauseMode.FINISH, "abort": PauseMode.RETRACT}
PAUSE_S_MAX = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Parameters of a server, beside its engine."""

    name: str
    """The model's name in `/v1/models`."""
    vocab_size: int
    seq_len_max: int
    tokenizer: Tokenizer | None = None
    stage: Callable[[int, str], None] | None = None
    """(version, path): stage the weights at `path`; blocks. None: weights cannot change."""
    api_key: str | None = None
    """Callers send it as a bearer token; None: every client has full access."""


class Server:
    """The state of the routes, on one event loop."""

    def __init__(self, engine: StreamingEngine, served: Served) -> None:
        self.engine, self.served = engine, served
        self.boot = uuid.uuid4().hex
        """Differs per process, so a client notices a replaced server."""
        self.hub: Hub | None = None
        self._held: Held | None = None
        self._lock = threading.Lock()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Run the hub for the lifetime of the event loop."""
        self.hub = Hub(self.engine)
        try:
            yield
        finally:
            self.hub.close()
            self.resume()

    async def ticket(self, body: CompletionBody) -> Ticket:
        """Accept a request.

        Raises:
            InvalidRollout: names the field.
            EngineSaturated: no room now.
        """
        if self.hub is None:
            raise core.DependencyDown("the server is starting")
        if body.model not in (None, self.served.name):
            raise core.FailedPrecondition(f"the model {body.model!r} is not served here")
        tokenizer = self.served.tokenizer
        return await self.hub.submit(body.token_ids(tokenizer), **body.options(tokenizer))

    def pause(self, mode: PauseMode, timeout_s: float) -> None:
        """Hold the engine until `resume`; a second pause has no effect."""
        with self._lock:
            if self._held is None:
                self._held = self.engine.pause(timeout_s, mode=mode).__enter__()

    def resume(self) -> None:
        """Resume; without a pause it has no effect."""
        with self._lock:
            if self._held is not None:
                self._held.resume()
            self._held = None

    @property
    def paused(self) -> bool:
        """Whether a `pause` is active."""
        return self._held is not None

    def stage(self, version: int, path: str) -> None:
        """Stage a version.

        Raises:
            FailedPrecondition: this server's weights cannot change.
        """
        if self.served.stage is None:
            raise core.FailedPrecondition("this server was given no place to read weights from")
        self.served.stage(version, path)


class Answer:
    """Turns one rollout into the chunks, or the single body, of a response."""

    def __init__(self, server: Server, body: CompletionBody) -> None:
        self._body, self._choice = body, Choice(body)
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "model": server.served.name,
            "system_fingerprint": server.boot,
        }
        tokenizer = server.served.tokenizer
        self._text = None if tokenizer is None else TextStream(tokenizer)

    def _push(self, tokens: Sequence[int]) -> str:
        return "" if self._text is None else "".join(map(self._text.push, tokens))

    def chunk(self, part: Progress) -> dict[str, Any]:
        """A chunk of new tokens."""
        return {**self._head, "choices": [self._choice.of(part, self._push(part.tokens))]}

    def end(self, whole: Completed, part: Progress) -> dict[str, Any]:
        """The last tokens, the finish reason, and the usage."""
        text = self._push(part.tokens) + ("" if self._text is None else self._text.flush())
        choice = self._choice.of(part, text)
        choice["finish_reason"] = finish_reason(whole.outcome, whole.stop)
        if whole.stop is Stop.ID and whole.tokens:
            choice["stop_reason"] = whole.tokens[-1]
        if self._body.return_receipt and whole.receipt is not None:
            choice["receipt"] = asdict(whole.receipt)
        n_prompt, n = len(whole.prompt), len(whole.tokens)
        usage = {"prompt_tokens": n_prompt, "completion_tokens": n, "total_tokens": n_prompt + n}
        return {**self._head, "choices": [choice], "usage": usage}


async def _events(server: Server, ticket: Ticket, answer: Answer) -> AsyncIterator[str]:
    """Server-sent events; an error in the middle of a stream is sent as an event."""
    if server.hub is None:
        raise core.DependencyDown("the server is stopping")
    try:
        async for part in server.hub.parts(ticket):
            yield f"data: {json.dumps(answer.chunk(part))}\n\n"
        yield f"data: {json.dumps(answer.end(ticket.done.result(), Progress.none()))}\n\n"
    except core.AssayError as error:
        yield f"data: {json.dumps(_error_body(error))}\n\n"
    yield "data: [DONE]\n\n"


async def _whole(server: Server, request: Request, ticket: Ticket, answer: Answer) -> Any:  # noqa: ANN401 - JSON
    """The response in one piece; cancelled when the caller disconnects."""
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        either: set[asyncio.Future[Any]] = {gone, ticket.done}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ticket.done.done():
            return JSONResponse({}, 499)  # the caller disconnected: no one reads this
        whole = ticket.done.result()
        everything = Progress(
            tokens=whole.tokens, logps=whole.logps, policy_versions=whole.policy_versions
        )
        return answer.end(whole, everything)
    finally:
        gone.cancel()
        if server.hub is not None:
            server.hub.give_up(ticket)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _error_body(error: core.AssayError) -> dict[str, Any]:
    _, kind = _status(error)
    param = error.field or None
    return {"error": {"message": str(error), "type": kind, "param": param, "code": None}}


def _status(error: core.AssayError) -> tuple[int, str]:
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500, "internal_error"


def _answer_error(error: core.AssayError) -> JSONResponse:
    status, _ = _status(error)
    retry_s = error.retry_after_s
    headers = {"Retry-After": f"{retry_s:.3f}"} if retry_s else {}
    return JSONResponse(_error_body(error), status, headers=headers)


def build_app(engine: StreamingEngine, served: Served) -> FastAPI:
    """Build the application; it neither opens nor closes the engine."""
    server = Server(engine, served)

    async def known(request: Request) -> None:
        key = served.api_key
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key is not None and not hmac.compare_digest(given.encode(), key.encode()):
            raise core.Unauthenticated("the API key is missing or wrong")

    app = FastAPI(title="assay rollout server", lifespan=server.lifespan)
    app.state.server = server
    guarded = [Depends(known)]

    @app.exception_handler(core.AssayError)
    async def typed(_: Request, error: core.AssayError) -> JSONResponse:
        return _answer_error(error)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:]) or "body"
        return JSONResponse(
            _error_body(core.InvalidRequest(f"{field}: {first['msg']}", field=field)), 400
        )

    @app.get("/health")
    async def health() -> dict[str, str]:
        engine.stats()
        return {"status": "ok"}

    @app.get("/v1/models", dependencies=guarded)
    async def models() -> dict[str, Any]:
        stats = engine.stats()
        model = {
            "id": served.name,
            "object": "model",
            "owned_by": "assay",
            "max_model_len": served.seq_len_max,
            "vocab_size": served.vocab_size,
            "policy_version": stats.policy_version,
            "boot": server.boot,
        }
        return {"object": "list", "data": [model]}

    @app.post("/v1/completions", dependencies=guarded, response_model=None)
    async def completions(body: CompletionBody, request: Request) -> Any:  # noqa: ANN401 - either form
        ticket = await server.ticket(body)
        answer = Answer(server, body)
        if body.stream:
            events = _events(server, ticket, answer)
            return StreamingResponse(events, media_type="text/event-stream")
        return await _whole(server, request, ticket, answer)

    @app.post("/pause", dependencies=guarded)
    async def pause(
        mode: PAUSE_MODES = "keep",
        timeout_s: Annotated[float, Query(gt=0, le=PAUSE_S_MAX)] = 10.0,
    ) -> dict[str, bool]:
        await asyncio.to_thread(server.pause, MODES[mode], timeout_s)
        return {"is_paused": True}

    @app.post("/resume", dependencies=guarded)
    async def resume() -> dict[str, bool]:
        await asyncio.to_thread(server.resume)
        return {"is_paused": False}

    @app.get("/is_paused", dependencies=guarded)
    async def is_paused() -> dict[str, bool]:
        return {"is_paused": server.paused}

    @app.post("/stage_weights", dependencies=guarded)
    async def stage_weights(body: StageBody) -> dict[str, int]:
        await asyncio.to_thread(server.stage, body.version, body.path)
        return {"version": body.version}

    @app.post("/activate_weights", dependencies=guarded)
    async def activate_weights(body: ActivateBody) -> dict[str, Any]:
        change = await asyncio.to_thread(
            engine.activate, body.version, mode=MODES[body.mode], timeout_s=body.timeout_s
        )
        return asdict(change)

    return app
