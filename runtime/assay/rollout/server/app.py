"""The routes: completions, models, pause and resume, weights, health.

Routes and fields are vLLM's if vLLM has them; `/stage_weights`, `/activate_weights`,
`policy_versions` and `receipt` are ours. Errors have OpenAI's form: `{"error": {...}}`.
"""

from __future__ import annotations

import asyncio
import hmac
import threading
import uuid
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse

from assay.core import errors as core
from assay.edge.status import status_of
from assay.rollout.interface.rollouts import Progress
from assay.rollout.layout import PauseMode
from assay.rollout.server import answers
from assay.rollout.server.bodies import (  # noqa: TC001 - the framework reads the annotations
    PAUSE_MODES,
    ActivateBody,
    CompletionBody,
    StageBody,
)
from assay.rollout.server.hub import Hub, StreamingEngine, Ticket, disconnected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from assay.rollout.interface.rollout_engine import Held
    from assay.rollout.interface.rollouts import Completed
    from assay.rollout.models.tokenizer import Tokenizer

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
        [ticket] = self.hub.submit(body.token_ids(tokenizer), **body.options(tokenizer))
        return ticket

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
        self._body = body
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "model": server.served.name,
            "system_fingerprint": server.boot,
        }
        self._text = answers.Text(server.served.tokenizer, body)

    def chunk(self, part: Progress) -> dict[str, Any]:
        """A chunk of new tokens."""
        return {**self._head, "choices": [self._choice(part, self._text.push(part.tokens))]}

    def end(self, whole: Completed, part: Progress) -> dict[str, Any]:
        """The last tokens, the finish reason, and the usage."""
        text = self._text.push(part.tokens) + self._text.flush()
        choice = answers.ended(self._choice(part, text), whole)
        if self._body.return_receipt and whole.receipt is not None:
            choice["receipt"] = asdict(whole.receipt)
        usage = answers.usage(len(whole.prompt), len(whole.tokens))
        return {**self._head, "choices": [choice], "usage": usage}

    def _choice(self, part: Progress, text: str) -> dict[str, Any]:
        logprobs = self._body.logprobs is not None
        return answers.text_choice(self._body, part, text, logprobs=logprobs)


async def _events(server: Server, ticket: Ticket, answer: Answer) -> AsyncIterator[str]:
    """Server-sent events; an error in the middle of a stream is sent as an event."""
    if server.hub is None:
        raise core.DependencyDown("the server is stopping")
    try:
        async for _, part in server.hub.parts(ticket):
            yield answers.event(answer.chunk(part))
        yield answers.event(answer.end(ticket.done.result(), Progress.none()))
    except core.AssayError as error:
        yield answers.event(answers.error_of(error))
    yield answers.END


async def _whole(server: Server, request: Request, ticket: Ticket, answer: Answer) -> Any:  # noqa: ANN401 - JSON
    """The response in one piece; cancelled when the caller disconnects."""
    gone = asyncio.ensure_future(disconnected(request.receive))
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


async def _answer_malformed(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 registered for no other
    return _answer(answers.malformed(error.errors()))


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, core.AssayError)  # noqa: S101 registered for no other
    return _answer(error)


def _answer(error: core.AssayError) -> JSONResponse:
    retry_s = error.retry_after_s
    headers = {"Retry-After": f"{retry_s:.3f}"} if retry_s else {}
    return JSONResponse(answers.error_of(error), status_of(error).http, headers=headers)


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
    app.add_exception_handler(core.AssayError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_malformed)

    @app.get("/health")
    async def health() -> dict[str, str]:
        engine.stats()
        return {"status": "ok"}

    for routes in (_generation(server), _pauses(server), _weights(server)):
        app.include_router(routes, dependencies=[Depends(known)])
    return app


def _generation(server: Server) -> APIRouter:
    routes = APIRouter()

    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        model = {
            "id": server.served.name,
            "object": "model",
            "owned_by": "assay",
            "max_model_len": server.served.seq_len_max,
            "vocab_size": server.served.vocab_size,
            "policy_version": server.engine.stats().policy_version,
            "boot": server.boot,
        }
        return {"object": "list", "data": [model]}

    @routes.post("/v1/completions", response_model=None)
    async def completions(body: CompletionBody, request: Request) -> Any:  # noqa: ANN401 - either form
        ticket = await server.ticket(body)
        answer = Answer(server, body)
        if body.stream:
            events = _events(server, ticket, answer)
            return StreamingResponse(events, media_type="text/event-stream")
        return await _whole(server, request, ticket, answer)

    return routes


def _pauses(server: Server) -> APIRouter:
    routes = APIRouter()

    @routes.post("/pause")
    async def pause(
        mode: PAUSE_MODES = "keep",
        timeout_s: Annotated[float, Query(gt=0, le=PAUSE_S_MAX)] = 10.0,
    ) -> dict[str, bool]:
        await asyncio.to_thread(server.pause, MODES[mode], timeout_s)
        return {"is_paused": True}

    @routes.post("/resume")
    async def resume() -> dict[str, bool]:
        await asyncio.to_thread(server.resume)
        return {"is_paused": False}

    @routes.get("/is_paused")
    async def is_paused() -> dict[str, bool]:
        return {"is_paused": server.paused}

    return routes


def _weights(server: Server) -> APIRouter:
    routes = APIRouter()

    @routes.post("/stage_weights")
    async def stage_weights(body: StageBody) -> dict[str, int]:
        await asyncio.to_thread(server.stage, body.version, body.path)
        return {"version": body.version}

    @routes.post("/activate_weights")
    async def activate_weights(body: ActivateBody) -> dict[str, Any]:
        change = await asyncio.to_thread(
            server.engine.activate, body.version, mode=MODES[body.mode], timeout_s=body.timeout_s
        )
        return asdict(change)

    return routes
