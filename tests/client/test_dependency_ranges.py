"""The client beside other versions of gRPC and protobuf, as trainers' environments hold them.

The newest versions are those that all other tests run with. Needs pip's registry.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.running import worker_process

if TYPE_CHECKING:
    from tests.running import StartProcess

    from assay.config.settings import StoreSettings

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 600
WARNINGS = ("-W", "error", "-W", "ignore:Protobuf gencode version:UserWarning")
"""Releases 6.x of protobuf warn of code that was generated for 5.x, which they accept."""
PACKAGES = ("grpcio", "protobuf")


def lower_bounds() -> tuple[str, ...]:
    """The oldest versions that `pyproject.toml` allows, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [re.match(r"([a-z]+)>=([\d.]+),", one) for one in project["dependencies"]]
    oldest = {match[1]: match[2] for match in found if match}
    return tuple(f"{name}=={oldest[name]}" for name in PACKAGES)


VERSIONS = {
    "oldest": lower_bounds(),
    "protobuf 5": ("grpcio==1.71.0", "protobuf==5.29.5"),
    "protobuf 6": ("grpcio==1.74.0", "protobuf==6.31.1"),
}


@pytest.fixture(scope="module", params=list(VERSIONS.values()), ids=list(VERSIONS))
def other_python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    install = [*pip, "install", "-q"]
    done = subprocess.run(
        [*install, *request.param], check=False, timeout=SECONDS_MAX, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"pip could not install {request.param}: {done.stderr[-300:]}")
    return python


async def test_the_client_scores_with_the_versions_that_it_allows(
    other_python: Path, start: StartProcess, store_settings: StoreSettings, tmp_path: Path
) -> None:
    api = await (await start()).up()
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "PYTHON"))}
    async with worker_process(store_settings, tmp_path, "match"):
        client = await asyncio.create_subprocess_exec(
            *(other_python, *WARNINGS, Path(__file__).with_name("score_once.py"), api.grpc),
            env={**bare, "PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'proto'}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(client.communicate(), SECONDS_MAX)
    assert client.returncode == 0, err.decode()
    found = json.loads(out)
    assert found["scored"] == [1.0, 0.0, 0.0, 0.0]
    assert found["streamed"] == {f"p/k{n}": float(n == 0) for n in range(4)}
