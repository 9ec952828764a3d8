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


class _Adapters:
    def __init__(self, engine: Engine, runtime: Runtime, base: str) -> None:
        self.engine, self.runtime, self.base = engine, runtime, base
        self.paths: dict[str, str] = {}

    def names(self) -> list[str]:
        return [self.base, *self.paths]

    def stage(self, name: str) -> None:
        adapter = read_adapter(Path(self.paths[name]), self.engine.config)
        self.engine.stage_adapter(int(name.rpartition("-")[2]), adapter)

    def use(self, name: str) -> None:
        version = 0 if name == self.base else int(name.rpartition("-")[2])
        if self.engine.policy_version == version:
            return
        if version and self.engine.ready_version != version:
            self.stage(name)
        self.runtime.activate(version)


def build(engine: Engine, runtime: Runtime, served: Served) -> FastAPI:
    """The application; `app.state.unloaded` has the names that were unloaded."""
    app = build_app(runtime, served)
    own = _Adapters(engine, runtime, served.name)
    adapters, app.state.unloaded = own.paths, []
    changing = asyncio.Lock()

    def refused(message: str) -> JSONResponse:
        return JSONResponse({"error": {"message": message, "code": 400}}, 400)

    @app.post("/v1/load_lora_adapter")
    async def load(body: _Load) -> Response:
        if body.lora_name in adapters and not body.load_inplace:
            return refused(f"the lora adapter {body.lora_name} has already been loaded")
        adapters[body.lora_name] = body.lora_path
        try:
            await asyncio.to_thread(own.stage, body.lora_name)
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
            listed = [{"id": name, "max_model_len": served.seq_len_max} for name in own.names()]
            return JSONResponse({"object": "list", "data": listed})
        if request.url.path == "/v1/completions":
            body: dict[str, Any] = await request.json()
            name = body["model"]
            if name not in own.names():
                return JSONResponse({"error": {"message": f"no model {name}"}}, 404)
            async with changing:
                await asyncio.to_thread(own.use, name)
            request._body = json.dumps({**body, "model": served.name}).encode()
        return await call_next(request)

    app.middleware("http")(by_model)
    return app
