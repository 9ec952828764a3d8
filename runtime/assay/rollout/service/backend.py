"""The engine that the service decodes with: on a model's files by the CPU or a GPU, or remote on a
server.

They differ in what they can do beyond `RolloutEngine`; `Backend.unsupported` names the calls of the
service that are refused.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from assay.core.errors import FailedPrecondition
from assay.rollout.cuda.errors import CompilerMissing, CudaError
from assay.rollout.models.engine import Engine, EngineSettings
from assay.rollout.models.errors import UnsupportedModel
from assay.rollout.models.load import load_model, load_tokenizer
from assay.rollout.models.model import DType
from assay.rollout.options import RuntimeOptions
from assay.rollout.runtime import Runtime
from assay.rollout.service.weights import ServerFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.config.rollouts import RolloutSettings
    from assay.rollout.cuda.machine import Machine
    from assay.rollout.cuda.sizes import Sizes, Tuning
    from assay.rollout.models.model import Model
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.server.hub import StreamingEngine
    from assay.rollout.service.weights import WeightSlots

PUSHES: Final = "PushWeights"
PREFILL_CHUNK: Final = 128
"""Prompt tokens of a step on a GPU, beside its decode rows."""
REMOTE_UNSUPPORTED: Final = ("StreamTrace",)
"""Calls that no remote engine serves: its server has no trace ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """An open engine, and what the service has to know of it."""

    engine: StreamingEngine
    weights: WeightSlots | ServerFolder | None
    """Where weights are staged; `None`: pushes are refused."""
    model: str
    vocab_size: int
    tokens_max: int
    """Prompt and response together."""
    tokenizer: Tokenizer | None
    unsupported: tuple[str, ...]
    """Calls of the API that this engine cannot serve."""
    device: str
    """What makes the tokens: "cpu", the name of a GPU, or "server"."""
    close: Callable[[], None]
    """Free the engine; rollouts in flight are lost."""
    device_reason: str = ""
    """Why it is not a GPU although one was looked for."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device that the CUDA kernel runs on."""

    machine: Callable[[Sizes], Machine]
    tuning: Tuning


def find_gpu(rollout: RolloutSettings) -> Gpu:
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
    machine = functools.partial(GpuMachine, sm_max=rollout.gpu_sm_max)
    return Gpu(machine, Tuning(adapter_rank=rollout.adapter_rank_max))


def open_backend(
    rollout: RolloutSettings, gpu: Callable[[RolloutSettings], Gpu] = find_gpu
) -> Backend:
    """Load the model, or connect to the server.

    Raises:
        FailedPrecondition: neither or both are set, or the server cannot serve as an engine.
        DependencyDown: the server does not answer.
        CorruptModel, UnsupportedModel: the model's files are wrong.
        CudaError: `rollout.device` is "cuda", and there is no GPU for this model.
    """
    if rollout.engine_url and rollout.model is not None:
        raise FailedPrecondition(
            "rollout.model and rollout.engine_url exclude each other", field="rollout.engine_url"
        )
    if rollout.engine_url:
        return _remote(rollout)
    if rollout.model is None:
        raise FailedPrecondition(
            "rollout.model: the path of a model, or rollout.engine_url: the address of a server",
            field="rollout.model",
        )
    model = load_model(rollout.model)
    if rollout.device == "cpu":
        return _on_cpu(rollout, model)
    try:
        return _on_gpu(rollout, model, gpu)
    except (CudaError, UnsupportedModel) as error:
        if rollout.device == "cuda":
            raise
        return replace(_on_cpu(rollout, model), device_reason=str(error))


def _on_gpu(
    rollout: RolloutSettings, model: Model, find: Callable[[RolloutSettings], Gpu]
) -> Backend:
    if rollout.weight_dtype != "bf16" or rollout.second_slot_dir is not None:
        raise UnsupportedModel("weight_dtype f32 and second_slot_dir are the CPU's")
    found = find(rollout)
    from assay.rollout.cuda.engine import CudaEngine  # needs what `find` has found
    from assay.rollout.cuda.options import CudaOptions

    tokenizer, tokens_max = _tokenizer(rollout), _tokens_max(rollout, model)
    engine = CudaEngine(
        model,
        found.machine,
        CudaOptions(
            slots=rollout.slots,
            seq_len_max=tokens_max,
            prefill_chunk=min(PREFILL_CHUNK, found.tuning.rows),
            tuning=found.tuning,
        ),
        token_bytes=_token_bytes(tokenizer, model),
    )
    return _backend(rollout, model, tokenizer, engine, engine, engine.machine.name, engine.close)


def _on_cpu(rollout: RolloutSettings, model: Model) -> Backend:
    tokenizer, tokens_max = _tokenizer(rollout), _tokens_max(rollout, model)
    settings = EngineSettings(
        weight_dtype=DType[rollout.weight_dtype.upper()],
        threads=rollout.threads,
        batch_max=rollout.batch_max,
        seq_len_max=rollout.tokens_max,
        second_slot_dir=rollout.second_slot_dir,
    )
    with contextlib.ExitStack() as opened:
        engine = opened.enter_context(Engine.create(model, settings))
        runtime = opened.enter_context(
            Runtime(
                engine,
                slots=rollout.slots,
                options=RuntimeOptions(seq_len_max=tokens_max),
                token_bytes=_token_bytes(tokenizer, model),
            )
        )
        close = opened.pop_all().close
        return _backend(rollout, model, tokenizer, runtime, engine, "cpu", close)


def _backend(
    rollout: RolloutSettings,
    model: Model,
    tokenizer: Tokenizer | None,
    engine: StreamingEngine,
    weights: WeightSlots,
    device: str,
    close: Callable[[], None],
) -> Backend:
    assert rollout.model is not None  # noqa: S101 - for the type checker
    return Backend(
        engine=engine,
        weights=weights,
        model=rollout.model.name,
        vocab_size=model.config.vocab_size,
        tokens_max=_tokens_max(rollout, model),
        tokenizer=tokenizer,
        unsupported=(),
        device=device,
        close=close,
    )


def _tokens_max(rollout: RolloutSettings, model: Model) -> int:
    return min(rollout.tokens_max, model.config.positions_max)


def _token_bytes(tokenizer: Tokenizer | None, model: Model) -> Sequence[bytes] | None:
    return None if tokenizer is None else tokenizer.token_bytes(model.config.vocab_size)


def _remote(rollout: RolloutSettings) -> Backend:
    try:
        from assay.rollout.remote.connect import connect  # its HTTP client is an extra
    except ImportError as error:
        message = f"rollout.engine_url: pip install 'assay[rollout-server]' ({error})"
        raise FailedPrecondition(message, field="rollout.engine_url") from error
    tokenizer = _tokenizer(rollout)
    engine = connect(rollout, tokenizer_size=None if tokenizer is None else tokenizer.vocab_size)
    folder, near = rollout.engine_weights_dir, rollout.tokenizer
    model_folder = near if near is None or near.is_dir() else near.parent
    weights = None if folder is None else ServerFolder(engine, folder, model_folder)
    return Backend(
        engine=engine,
        weights=weights,
        model=engine.greeting.model,
        vocab_size=engine.vocab_size,
        tokens_max=rollout.tokens_max,
        tokenizer=tokenizer,
        unsupported=REMOTE_UNSUPPORTED if weights else (PUSHES, *REMOTE_UNSUPPORTED),
        device="server",
        close=engine.close,
    )


def _tokenizer(rollout: RolloutSettings) -> Tokenizer | None:
    path = rollout.tokenizer or rollout.model
    if path is None or (rollout.tokenizer is None and path.suffix == ".bin"):
        return None
    return load_tokenizer(path)
