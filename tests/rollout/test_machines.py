"""The C is not one machine's: it compiles for aarch64 without a warning, and runs there.

Method: cross-compile with the same flags, and run the core's stress and a decode under qemu's user
emulation; the logits are held to the float64 reference. The decode runs natively too, where its
program is what is tested. What qemu cannot show is weak memory order: it runs on this machine's.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.rollout.engine.exact import Exact, ids_for, random_model
from tests.rollout.engine.sources import ENGINE_SOURCES

import assay.rollout.library.binding as binding
from assay.rollout.models import DType, TensorKind
from assay.rollout.models.engine import EngineSettings, native_shape

if TYPE_CHECKING:
    from assay.rollout.models import Model

NATIVE = Path(binding.__file__).parents[1] / "native"
PROGRAMS = Path(__file__).parents[1] / "native"
CORE = ["arena", "bell", "clock", "contain", "core", "guard", "kv", "policy", "probe"]
CORE += ["mapping", "runtime", "worker", "worker_batch", "worker_memory", "worker_thread"]
FLAGS = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{NATIVE}"]


@dataclass(frozen=True)
class Machine:
    """How to compile for it, and what runs its programs."""

    compiler: str
    runner: tuple[str, ...] = ()

    def compile(self, sources: list[Path], target: Path, *flags: str) -> Path:
        if shutil.which(self.compiler) is None:
            pytest.skip(f"no {self.compiler}")
        paths = [str(source) for source in sources]
        command = [self.compiler, *FLAGS, *flags, *paths, "-o", str(target)]
        done = subprocess.run([*command, "-lm", "-ldl"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return target

    def run(self, program: Path, *arguments: str, given: bytes = b"") -> bytes:
        if self.runner and shutil.which(self.runner[0]) is None:
            pytest.skip(f"no {self.runner[0]}")
        command = [*self.runner, str(program), *arguments]
        done = subprocess.run(command, input=given, capture_output=True, timeout=110)
        assert done.returncode == 0, done.stderr
        return done.stdout


AARCH64 = Machine("aarch64-linux-gnu-gcc", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))
HERE = Machine(os.environ.get("CC", "cc"))


def test_every_source_compiles_for_aarch64_without_a_warning(tmp_path: Path) -> None:
    sources = [p for p in sorted(NATIVE.glob("*.c")) if p.stem != "guard_preload"]
    AARCH64.compile(sources, tmp_path / "libassay_rollout.so", "-fPIC", "-shared")
    AARCH64.compile([NATIVE / "guard_preload.c"], tmp_path / "guard.so", "-fPIC", "-shared")


def test_the_core_keeps_its_invariants_on_aarch64(tmp_path: Path) -> None:
    sources = [*(NATIVE / f"{name}.c" for name in CORE), PROGRAMS / "stress.c"]
    program = AARCH64.compile(sources, tmp_path / "stress")
    assert AARCH64.run(program, "2000") == b"ok\n"


def as_input(model: Model, ids: list[int]) -> bytes:
    """What engine_logits.c reads."""
    settings = EngineSettings(weight_dtype=DType.F32)
    frequencies, gain = model.rope()
    parts = [bytes(native_shape(model, settings, gain))]
    tensors = {key: tensor.to_float32() for key, tensor in model.tensors.items()}
    tensors[TensorKind.ROPE_INV_FREQ, 0] = frequencies
    for (kind, layer), values in tensors.items():
        rows, cols = values.shape if values.ndim == 2 else (1, values.size)
        parts += [struct.pack("<4I", kind, layer, rows, cols), values.tobytes()]
    parts.append(struct.pack(f"<2I{len(ids)}I", len(TensorKind), len(ids), *ids))
    return b"".join(parts)


@pytest.fixture(scope="module", params=[HERE, AARCH64], ids=["here", "aarch64"])
def decoder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Machine, Path]:
    machine: Machine = request.param
    sources = [*(NATIVE / f"{name}.c" for name in ENGINE_SOURCES), *NATIVE.glob("kernels_*.c")]
    target = tmp_path_factory.mktemp("native") / "logits"
    return machine, machine.compile([*sources, PROGRAMS / "engine_logits.c"], target)


@pytest.mark.parametrize("name", ["qwen3", "llama-biased-mha"])
def test_a_decode_without_python_gives_the_references_logits(
    name: str, decoder: tuple[Machine, Path]
) -> None:
    machine, program = decoder
    model = random_model(name)
    ids = ids_for(model, 40)
    found = np.frombuffer(machine.run(program, given=as_input(model, ids)), np.float32)
    wanted = Exact(model).logits(ids)
    assert np.abs(found.reshape(wanted.shape) - wanted).max() < 1e-4
