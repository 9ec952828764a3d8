"""vLLM's adapter routes in front of an engine of ours, for tests.

Written after vLLM's documentation: an adapter is loaded from a path under a name, and a request
chooses it by `model`. Names end with the version. Our engine has one adapter at a time: a request
that names another one exchanges them, which is exact because the dialect retracts before.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from assay.core.errors import AssayError
from assay.rollout.models import Engine, read_adapter
from assay.rollout.server.app import Served, build_app

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI, Request

    from assay.rollout import Runtime


class _Load(BaseModel):
    lora_name: str
    lora_path: str
    load_inplace: bool = False


class _Unload(BaseModel):
    lora_name: str


def build(engine: Engine, runtime: Runtime, served: Served) -> FastAPI:
    """The application; `app.state.adapters` has what is loaded, and `unloaded` what was."""
    app = build_app(runtime, served)
    adapters: dict[str, str] = {}
    app.state.adapters, app.state.unloaded = adapters, []
    changing = asyncio.Lock()

    def refused(message: str) -> JSONResponse:
        return JSONResponse({"error": {"message": message, "code": 400}}, 400)

    def names() -> list[str]:
        return [served.name, *adapters]

    def stage(name: str) -> int:
        version = int(name.rpartition("-")[2])
        engine.stage_adapter(version, read_adapter(Path(adapters[name]), engine.config))
        return version

    def use(name: str) -> None:
        version = 0 if name == served.name else int(name.rpartition("-")[2])
        if engine.policy_version == version:
            return
        if version and engine.ready_version != version:
            stage(name)
        runtime.activate(version)

    @app.post("/v1/load_lora_adapter")
    async def load(body: _Load) -> Response:
        if body.lora_name in adapters and not body.load_inplace:
            return refused(f"the lora adapter {body.lora_name} has already been loaded")
        adapters[body.lora_name] = body.lora_path
        try:
            await asyncio.to_thread(stage, body.lora_name)
        except (AssayError, OSError) as error:
            del adapters[body.lora_name]
            return refused(str(error))
        return Response(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    @app.post("/v1/unload_lora_adapter")
    async def unload(body: _Unload) -> Response:
        if adapters.pop(body.lora_name, None) is None:
            return JSONResponse({"error": {"message": "not loaded", "code": 404}}, 404)
        app.state.unloaded.append(body.lora_name)
        return Response("Success")

    async def by_model(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.url.path == "/v1/models":
            listed = [{"id": name, "max_model_len": served.seq_len_max} for name in names()]
            return JSONResponse({"object": "list", "data": listed})
        if request.url.path == "/v1/completions":
            body: dict[str, Any] = await request.json()
            name = body["model"]
            if name not in names():
                return JSONResponse({"error": {"message": f"no model {name}"}}, 404)
            async with changing:
                await asyncio.to_thread(use, name)
            request._body = json.dumps({**body, "model": served.name}).encode()
        return await call_next(request)

    app.middleware("http")(by_model)
    return app
