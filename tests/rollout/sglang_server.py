"""SGLang's API in front of an engine of ours: its routes, fields and event forms, for tests.

Written after SGLang's documentation. Events hold all tokens so far, or with `incremental` those
since the last one. `log_probs` changes what is reported, to stand for servers that report others.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from fastapi import FastAPI
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict

from assay.core.errors import AssayError
from assay.rollout import PauseMode, Sampling, Stop, WeightsNotReady
from assay.rollout.server.app import _answer_error
from assay.rollout.server.hub import Hub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from assay.rollout import Completed
    from assay.rollout.interface.rollout_engine import Held
    from assay.rollout.server.hub import StreamingEngine, Ticket

LogProbs = Literal["filtered", "unfiltered", "original"]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SamplingParams(_Body):
    max_new_tokens: int = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    sampling_seed: int = 0
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    no_stop_trim: bool = False


class GenerateBody(_Body):
    input_ids: list[int]
    sampling_params: SamplingParams
    return_logprob: bool = False
    logprob_start_len: int = -1
    stream: Literal[True]


class UpdateBody(_Body):
    model_path: str
    weight_version: str
    flush_cache: bool = True


class PauseBody(_Body):
    mode: Literal["abort", "in_place", "retract"] = "abort"


class State:
    def __init__(
        self,
        engine: StreamingEngine,
        stage: Callable[[int], None],
        *,
        incremental: bool,
        log_probs: LogProbs,
    ) -> None:
        self.engine, self.stage = engine, stage
        self.incremental, self.log_probs = incremental, log_probs
        self.weight_version = "default"
        self.hub: Hub | None = None
        self.held: Held | None = None

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self.hub = Hub(self.engine)
        yield
        self.hub.close()
        self.resume()

    def pause(self) -> None:
        if self.held is None:
            self.held = self.engine.pause(10.0, mode=PauseMode.IN_PLACE).__enter__()

    def resume(self) -> None:
        if self.held is not None:
            self.held.resume()
        self.held = None

    def update(self, body: UpdateBody) -> None:
        """A path that is a number is a version; another one has it in `weight_version`."""
        path = body.model_path
        version = int(path if path.isdecimal() else body.weight_version.rpartition("-")[2])
        try:
            self.engine.activate(version, mode=PauseMode.RETRACT)
        except WeightsNotReady:
            self.stage(version)
            self.engine.activate(version, mode=PauseMode.RETRACT)
        self.weight_version = body.weight_version

    def reported(self, logp: float, params: SamplingParams) -> float:
        filters = params.top_p < 1 or params.top_k > 0 or params.min_p > 0
        wrong = self.log_probs == "original" or (self.log_probs == "unfiltered" and filters)
        return logp - 0.5 if wrong else logp


def _finish(whole: Completed) -> dict[str, Any]:
    if whole.stop is Stop.LENGTH:
        return {"type": "length", "length": len(whole.tokens)}
    if whole.stop is Stop.ID:
        return {"type": "stop", "matched": whole.tokens[-1]}
    return {"type": "abort", "message": "cut short"}


async def _events(state: State, ticket: Ticket, body: GenerateBody) -> AsyncIterator[str]:
    rid, served_by = uuid.uuid4().hex, state.weight_version
    pairs: list[list[Any]] = []

    def event(new: int, reason: dict[str, Any] | None) -> str:
        shown = pairs[len(pairs) - new :] if state.incremental else pairs
        meta: dict[str, Any] = {
            "id": rid,
            "finish_reason": reason,
            "prompt_tokens": len(body.input_ids),
            "completion_tokens": len(pairs),
            "weight_version": served_by,
        }
        if body.return_logprob:
            meta["output_token_logprobs"] = shown
        ids = [pair[1] for pair in shown]
        return f"data: {json.dumps({'text': '', 'output_ids': ids, 'meta_info': meta})}\n\n"

    assert state.hub is not None
    async for _, part in state.hub.parts(ticket):
        for logp, token in zip(part.logps, part.tokens, strict=True):
            pairs.append([state.reported(logp, body.sampling_params), token, None])
        yield event(len(part.tokens), None)
    yield event(0, _finish(ticket.done.result()))
    yield "data: [DONE]\n\n"


def _sampling(how: SamplingParams) -> Sampling:
    return Sampling(
        temperature=how.temperature, top_k=max(how.top_k, 0), top_p=how.top_p, min_p=how.min_p
    )


def build(
    engine: StreamingEngine,
    stage: Callable[[int], None],
    *,
    incremental: bool = False,
    log_probs: LogProbs = "filtered",
) -> FastAPI:
    """The application; `stage` makes a version of the engine's weights ready."""
    state = State(engine, stage, incremental=incremental, log_probs=log_probs)
    app = FastAPI(lifespan=state.lifespan)
    app.state.sglang = state

    app.add_exception_handler(AssayError, _answer_error)

    @app.get("/model_info")
    async def model_info() -> dict[str, Any]:
        return {
            "model_path": "0",
            "is_generation": True,
            "weight_version": state.weight_version,
        }

    @app.post("/generate")
    async def generate(body: GenerateBody) -> StreamingResponse:
        how = body.sampling_params
        assert state.hub is not None
        [ticket] = state.hub.submit(
            body.input_ids,
            max_tokens=how.max_new_tokens,
            seeds=[how.sampling_seed % (1 << 64)],
            sampling=_sampling(how),
            stop_ids=how.stop_token_ids,
            want_reward=False,
        )
        events = _events(state, ticket, body)
        return StreamingResponse(events, media_type="text/event-stream")

    @app.post("/pause_generation")
    async def pause(body: PauseBody) -> dict[str, str]:
        assert body.mode == "in_place"
        await asyncio.to_thread(state.pause)
        return {"status": "ok", "message": "paused"}

    @app.post("/continue_generation")
    async def resume() -> dict[str, str]:
        await asyncio.to_thread(state.resume)
        return {"status": "ok", "message": "continued"}

    @app.post("/update_weights_from_disk")
    async def update(body: UpdateBody) -> JSONResponse:
        try:
            await asyncio.to_thread(state.update, body)
        except (AssayError, KeyError) as error:
            return JSONResponse({"success": False, "message": repr(error)}, 400)
        return JSONResponse({"success": True, "message": "ok", "num_paused_requests": 0})

    return app
