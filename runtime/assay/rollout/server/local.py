"""The engine of this machine for a model: a GPU if there is one that takes it, or else the CPU."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from assay.rollout.errors.cuda import CompilerMissing, CudaError
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime
from assay.rollout.models.engine import Engine, EngineSettings
from assay.rollout.models.errors import UnsupportedModel
from assay.rollout.models.model import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.cuda.machine import Machine
    from assay.rollout.cuda.sizes import Sizes, Tuning
    from assay.rollout.models.model import Model
    from assay.rollout.server.hub import StreamingEngine

PREFILL_CHUNK: Final = 128
"""Prompt tokens of a step on a GPU, beside its decode rows."""

Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Limits of the engine, whatever it runs on."""

    device: Device = "auto"
    slots: int = 64
    tokens_max: int = 1024
    """Prompt and response together."""
    adapter_rank_max: int = 32
    """On a GPU."""
    gpu_sm_max: int | None = None
    """Multiprocessors; None: all."""
    gpu_green_sms: int | None = None
    """Multiprocessors of a green context to run in; None: in none."""
    cpu: EngineSettings = field(default_factory=EngineSettings)
    """On the CPU; weights in float32 or on a disk choose it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngine:
    """An open engine, and what it runs on."""

    engine: StreamingEngine
    weights: Engine | CudaEngine
    """What weights are staged into."""
    device: str
    """What makes the tokens: "cpu", or the name of a GPU."""
    device_reason: str = ""
    """Why it is not a GPU although one was looked for, or not the kernel made for its kind."""
    close: Callable[[], None]
    """Free it; rollouts in flight are lost."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device that the CUDA kernel runs on."""

    machine: Callable[[Sizes], Machine]
    tuning: Tuning


def find_gpu(options: LocalOptions) -> Gpu:
    """The GPU of this machine.

    Raises:
        CudaError: there is none, or what it needs is not installed.
    """
    try:
        from assay.rollout.cuda.gpu import GpuMachine, describe
        from assay.rollout.cuda.sizes import Tuning
    except ImportError as problem:  # numpy
        raise CompilerMissing("pip install 'assay[cuda]'") from problem
    describe()
    machine = functools.partial(
        GpuMachine, sm_max=options.gpu_sm_max, green_sms=options.gpu_green_sms
    )
    return Gpu(machine, Tuning(adapter_rank=options.adapter_rank_max))


def open_local(
    model: Model,
    token_bytes: Sequence[bytes] | None,
    options: LocalOptions,
    gpu: Callable[[LocalOptions], Gpu] = find_gpu,
) -> LocalEngine:
    """An engine for a model.

    Args:
        model: with its weights.
        token_bytes: of each token; None: stop strings are refused.
        options: limits.
        gpu: looks for one.

    Raises:
        CudaError, UnsupportedModel: `device` is "cuda", and there is no GPU for this model.
    """
    if options.device == "cpu":
        return _on_cpu(model, token_bytes, options)
    try:
        return _on_gpu(model, token_bytes, options, gpu)
    except (CudaError, UnsupportedModel) as error:
        if options.device == "cuda":
            raise
        return replace(_on_cpu(model, token_bytes, options), device_reason=str(error))


def _on_gpu(
    model: Model,
    token_bytes: Sequence[bytes] | None,
    options: LocalOptions,
    find: Callable[[LocalOptions], Gpu],
) -> LocalEngine:
    if options.cpu.weight_dtype is not DType.BF16 or options.cpu.second_slot_dir is not None:
        raise UnsupportedModel("weight_dtype f32 and second_slot_dir are the CPU's")
    found = find(options)
    from assay.rollout.cuda.engine import CudaEngine  # needs what `find` has found
    from assay.rollout.cuda.options import CudaOptions

    limits = CudaOptions(
        slots=options.slots,
        seq_len_max=options.tokens_max,
        prefill_chunk=min(PREFILL_CHUNK, found.tuning.rows),
        tuning=found.tuning,
    )
    engine = CudaEngine(model, found.machine, limits, token_bytes=token_bytes)
    return LocalEngine(
        engine=engine,
        weights=engine,
        device=engine.machine.name,
        device_reason=engine.fallback,
        close=engine.close,
    )


def _on_cpu(
    model: Model, token_bytes: Sequence[bytes] | None, options: LocalOptions
) -> LocalEngine:
    with contextlib.ExitStack() as opened:
        engine = opened.enter_context(Engine.create(model, options.cpu))
        runtime = opened.enter_context(
            Runtime(
                engine,
                slots=options.slots,
                options=RuntimeOptions(seq_len_max=options.tokens_max),
                token_bytes=token_bytes,
            )
        )
        close = opened.pop_all().close
        return LocalEngine(engine=runtime, weights=engine, device="cpu", close=close)
