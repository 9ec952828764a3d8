"""The kernel compiles with the oldest compiler that the extra `cuda` allows.

All other tests have the newest one; machines with GPUs often hold an older one. Needs pip's
registry.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from tests.rollout.cuda.test_compile import FRAME_BYTES_MAX, GENERAL_FRAME_BYTES_MAX

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 600
FRAME = {"sm_90a": FRAME_BYTES_MAX, "sm_80": GENERAL_FRAME_BYTES_MAX}


def oldest() -> dict[str, str]:
    """Package of the extra -> the oldest release that is allowed, without its patch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]["cuda"]
    found = [re.fullmatch(r"([a-z-]+)>=(\d+)(?:\.(\d+))?,<\d+", one) for one in wanted]
    return {match[1]: f"{match[2]}.{match[3] or 0}" for match in found if match}


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    packages = [f"{name}=={release}.*" for name, release in oldest().items()]
    done = subprocess.run(
        [*pip, "install", "-q", "numpy", *packages],
        check=False, timeout=SECONDS_MAX, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"pip could not install {packages}: {done.stderr[-300:]}")
    return python


@pytest.mark.parametrize("architecture", FRAME)
def test_the_kernel_compiles_with_the_oldest_compiler(
    other_python: Path, architecture: str, tmp_path: Path
) -> None:
    bare = {name: v for name, v in os.environ.items() if not name.startswith(("ASSAY_", "PYTHON"))}
    done = subprocess.run(
        [other_python, Path(__file__).with_name("compile_once.py"), architecture, tmp_path],
        env={**bare, "PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'runtime'}"},
        check=False, timeout=SECONDS_MAX, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout)
    assert ".".join(map(str, found["version"])) == oldest()["nvidia-cuda-nvrtc"]
    assert found["frame_bytes"] <= FRAME[architecture]
