"""The kernel as machine code: its sources, compiled by NVRTC without CUDA headers and without a
driver.

A program is its sources, its sizes (`Sizes.defines`) and an architecture; the same three give the
same file of the cache. Cubins are made, never PTX: a driver older than the compiler refuses its
PTX.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.rollout.cuda.cubin import Resources, resources_of
from assay.rollout.errors.cuda import CompilerMissing, KernelRejected

if TYPE_CHECKING:
    from collections.abc import Mapping

KERNEL: Final = Path(__file__).parent / "kernel"
NATIVE: Final = Path(__file__).parent.parent / "native"
ENTRY: Final = "assay_decode"
ARCHITECTURES: Final = ("sm_90a", "sm_100a", "sm_103a")
"""Hopper, Blackwell, GB300."""
_SHARED = ("assay_ring.h", "assay_seam.h")
_INTEGERS = """#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;
typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
"""
_STANDARD: Final = {
    "stdint.h": _INTEGERS,
    "stdbool.h": "",
    "string.h": "",
    "stddef.h": "",
}
"""What the shared headers use of the C library, for a compiler that has none."""


@cache
def sources() -> dict[str, str]:
    """Name to text of every file of the kernel, the shared headers of the rings included."""
    files = {path.name: path for path in KERNEL.iterdir() if path.suffix in {".h", ".cu"}}
    files |= {name: NATIVE / name for name in _SHARED}
    return {name: path.read_text("utf-8") for name, path in sorted(files.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled kernel."""

    cubin: bytes
    architecture: str
    sha256: str
    """Of sources, sizes, architecture and compiler."""
    resources: Resources


def cache_folder() -> Path:
    """`$ASSAY_CUDA_CACHE`, or `assay/cuda` in the user's cache folder."""
    named = os.environ.get("ASSAY_CUDA_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay" / "cuda"


def options_of(architecture: str, defines: Mapping[str, str]) -> list[str]:
    """NVRTC's options."""
    fixed = ["--std=c++17", "--device-as-default-execution-space", "--diag-suppress=177"]
    named = [f"-D{name}={value}" for name, value in sorted(defines.items())]
    return [f"--gpu-architecture={architecture}", *fixed, *named]


def compile_program(
    defines: Mapping[str, str], architecture: str, *, folder: Path | None = None
) -> Program:
    """From the cache, or compiled and put there.

    Args:
        defines: `Sizes.defines`.
        architecture: such as `sm_90a`.
        folder: of the cache; None: `cache_folder()`.

    Raises:
        CompilerMissing: `nvidia-cuda-nvrtc` or `cuda-bindings` is not installed.
        KernelRejected: the compiler refused the sources; `log` is its output.
    """
    nvrtc = _nvrtc()
    options = options_of(architecture, defines)
    version = nvrtc.nvrtcVersion()[1:]
    key = hashlib.sha256(repr((sources(), options, version)).encode()).hexdigest()
    kept = (folder or cache_folder()) / f"{key}.cubin"
    if kept.exists():
        cubin = kept.read_bytes()
    else:
        files = dict(sources())
        cubin = compile_source(files.pop("kernel.cu"), options, files)
        with contextlib.suppress(OSError):  # without a cache every start compiles
            _keep(kept, cubin)
    return Program(
        cubin=cubin,
        architecture=architecture,
        sha256=key,
        resources=resources_of(cubin, ENTRY),
    )


def compile_source(
    text: str, options: list[str], headers: Mapping[str, str] | None = None, name: str = "kernel.cu"
) -> bytes:
    """One translation unit to a cubin.

    Raises:
        CompilerMissing, KernelRejected: as `compile_program`.
    """
    nvrtc = _nvrtc()
    files = {**_STANDARD, **(headers or {})}
    status, program = nvrtc.nvrtcCreateProgram(
        text.encode(),
        name.encode(),
        len(files),
        [body.encode() for body in files.values()],
        [header.encode() for header in files],
    )
    _check(nvrtc, status, "")
    try:
        (status,) = nvrtc.nvrtcCompileProgram(
            program, len(options), [option.encode() for option in options]
        )
        _check(nvrtc, status, _log(nvrtc, program))
        status, size = nvrtc.nvrtcGetCUBINSize(program)
        _check(nvrtc, status, "")
        cubin = _room(size)
        (status,) = nvrtc.nvrtcGetCUBIN(program, cubin)
        _check(nvrtc, status, "")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return cubin[:size]


def _room(size: int) -> bytes:
    """Bytes for NVRTC to write into; never one alone, which the whole process would share."""
    return bytes(size + 2)


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as problem:  # the loader of the library has an error type of its own
        raise CompilerMissing(
            f"NVRTC is not installed ({problem}): pip install 'assay[cuda]'"
        ) from problem
    return nvrtc


def _check(nvrtc: Any, status: Any, log: str) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise KernelRejected(str(status.name), log)


def _log(nvrtc: Any, program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = _room(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return str(log.rstrip(b"\0 \n").decode("utf-8", "replace"))


def _keep(path: Path, cubin: bytes) -> None:
    """Write whole or not at all: two processes may compile the same program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_bytes(cubin)
    scratch.replace(path)
