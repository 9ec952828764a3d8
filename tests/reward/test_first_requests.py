"""The first request to a path makes no route: its caller, and all others, would wait for that."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import fastapi.dependencies.utils
import fastapi.routing
import httpx
import pytest
from fastapi import FastAPI

from assay.config.settings import Settings
from assay.reward import build as reward
from assay.reward import http

PATHS = ("/healthz", "/-", "/v1/score", "/v1/batches/none/results", "/console/api/look", "/docs")


async def test_every_route_is_made_before_the_api_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "metrics"))
    made: list[FastAPI] = []
    dependants: list[str] = []
    get_dependant = fastapi.dependencies.utils.get_dependant

    def kept(*given: Any, **named: Any) -> FastAPI:
        made.append(http.build_app(*given, **named))
        return made[-1]

    def counted(**named: Any) -> Any:
        dependants.append(named["path"])
        return get_dependant(**named)

    monkeypatch.setattr(reward, "build_app", kept)
    monkeypatch.setattr(fastapi.routing, "get_dependant", counted)
    old_models = "pydantic.v1" in sys.modules
    reward.build(Settings.model_validate({"data_dir": tmp_path, "store": {"url": "unix:///no"}}))
    assert len(dependants) > 40
    at_start = len(dependants)
    transport = httpx.ASGITransport(made[0], raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        for path in PATHS:
            for method in ("GET", "POST"):
                await client.request(method, path)
    assert dependants[at_start:] == []
    assert ("pydantic.v1" in sys.modules) == old_models


STARTED = """
import asyncio, sys
from assay.config.settings import Settings
from assay.reward.build import build

async def main():
    ports = {"grpc_port": 0, "http_port": 0}
    store = {"url": "unix:///nowhere"}
    api = build(Settings(data_dir=sys.argv[1], store=store, reward=ports))
    await api.start()
    assert "anyio._backends._asyncio" in sys.modules
    await api.stop()

asyncio.run(main())
"""


def test_what_the_first_stream_needs_is_imported_before_the_api_serves(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
