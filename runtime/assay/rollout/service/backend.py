"""The engine that the service decodes with: on a model's files by the CPU or a GPU, or remote on a
server.

They differ in what they can do beyond `RolloutEngine`; `Backend.unsupported` names the calls of the
service that are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.core.errors import FailedPrecondition
from assay.rollout.models.engine import EngineSettings
from assay.rollout.models.load import load_model, load_tokenizer
from assay.rollout.models.model import DType
from assay.rollout.server.local import Gpu, LocalOptions, find_gpu, open_local
from assay.rollout.service.weights import ServerFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from assay.config.rollouts import RolloutSettings
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.server.hub import StreamingEngine
    from assay.rollout.service.weights import WeightSlots

PUSHES: Final = "PushWeights"
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
    """Why it is not a GPU although one was looked for, or not the kernel made for its kind."""


def open_backend(
    rollout: RolloutSettings, gpu: Callable[[LocalOptions], Gpu] = find_gpu
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
    return _local(rollout, rollout.model, gpu)


def _local(rollout: RolloutSettings, path: Path, gpu: Callable[[LocalOptions], Gpu]) -> Backend:
    model, tokenizer = load_model(path), _tokenizer(rollout)
    vocab_size = model.config.vocab_size
    tokens_max = min(rollout.tokens_max, model.config.positions_max)
    options = LocalOptions(
        device=rollout.device,
        slots=rollout.slots,
        tokens_max=tokens_max,
        adapter_rank_max=rollout.adapter_rank_max,
        gpu_sm_max=rollout.gpu_sm_max,
        gpu_green_sms=rollout.gpu_green_sms,
        cpu=EngineSettings(
            weight_dtype=DType[rollout.weight_dtype.upper()],
            threads=rollout.threads,
            batch_max=rollout.batch_max,
            seq_len_max=rollout.tokens_max,
            second_slot_dir=rollout.second_slot_dir,
        ),
    )
    token_bytes = None if tokenizer is None else tokenizer.token_bytes(vocab_size)
    local = open_local(model, token_bytes, options, gpu)
    return Backend(
        engine=local.engine,
        weights=local.weights,
        model=path.name,
        vocab_size=vocab_size,
        tokens_max=tokens_max,
        tokenizer=tokenizer,
        unsupported=(),
        device=local.device,
        device_reason=local.device_reason,
        close=local.close,
    )


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
