"""Serve a model file over HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack
from enum import Enum
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assay.rollout.errors import InvalidRollout
from assay.rollout.errors.cuda import CudaError
from assay.rollout.models.errors import UnsupportedModel

KEEP_ALIVE_S: Final = 75
"""For a connection without a call; clients must be the first to close theirs."""

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.models import Engine, Model
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.server.local import LocalEngine, LocalOptions


class DeviceName(Enum):
    """What makes the tokens."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


API_KEY_VARIABLE = "ASSAY_ROLLOUT_API_KEY"


def _tokenizer(model: Path) -> Tokenizer | None:
    from assay.rollout.models import ModelError, load_tokenizer

    try:
        return load_tokenizer(model)
    except (ModelError, OSError, ImportError) as error:
        typer.echo(f"no text, token ids only: {error}", err=True)
        return None


def _stage_below(root: Path, engine: Engine | CudaEngine) -> Callable[[int, str], None]:
    """Stages model files and adapter folders; a path that leaves `root` is refused."""
    from assay.rollout.models import load_model, read_adapter, tensors_of

    root = root.resolve()

    def stage(version: int, path: str) -> None:
        place = (root / path).resolve()
        if not place.is_relative_to(root):
            raise InvalidRollout("path", f"outside {root}")
        if (place / "adapter_config.json").is_file():
            engine.stage_adapter(version, read_adapter(place, engine.config))
        else:
            engine.stage(version, tensors_of(load_model(place)))

    return stage


def _opened(
    model: Model, token_bytes: Sequence[bytes] | None, options: LocalOptions
) -> LocalEngine:
    """The engine; says what it runs on, or ends with what is missing."""
    from assay.rollout.server.local import open_local

    try:
        local = open_local(model, token_bytes, options)
    except (CudaError, UnsupportedModel) as error:
        typer.echo(f"--device {options.device}: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"device: {local.device} {local.device_reason}".rstrip(), err=True)
    return local


def serve(
    model: Annotated[Path, typer.Argument(exists=True, help="Folder, .gguf or .bin.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    slots: Annotated[int, typer.Option(min=1, max=1 << 16, help="Rollouts at a time.")] = 64,
    seq_len: Annotated[int, typer.Option(min=2, help="Prompt and response, in tokens.")] = 1024,
    threads: Annotated[int, typer.Option(min=0, help="0: chosen by the model's size.")] = 0,
    name: Annotated[str | None, typer.Option(help="Default: the file's name.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Folder that /stage_weights may read from.")
    ] = None,
    device: Annotated[
        DeviceName, typer.Option(help="auto: a GPU if there is one that takes the model.")
    ] = DeviceName.AUTO,
    adapter_rank: Annotated[
        int, typer.Option(min=0, max=256, help="Highest rank of a LoRA adapter on a GPU.")
    ] = 32,
) -> None:
    """Serve MODEL with an OpenAI-compatible API: /v1/completions, /v1/models, pause, weights.

    The API key is read from ASSAY_ROLLOUT_API_KEY; without one, everyone who can connect may do
    everything.
    """
    import uvicorn

    from assay.rollout.models import load_model
    from assay.rollout.models.engine import EngineSettings
    from assay.rollout.server.app import Served, build_app
    from assay.rollout.server.local import LocalOptions

    tokenizer = _tokenizer(model)
    with ExitStack() as stack:
        loaded = load_model(model)
        seq_len = min(seq_len, loaded.config.positions_max)
        vocab_size = loaded.config.vocab_size
        token_bytes = None if tokenizer is None else tokenizer.token_bytes(vocab_size)
        options = LocalOptions(
            device=device.value,
            slots=slots,
            tokens_max=seq_len,
            adapter_rank_max=adapter_rank,
            cpu=EngineSettings(threads=threads, seq_len_max=seq_len),
        )
        local = _opened(loaded, token_bytes, options)
        stack.callback(local.close)
        served = Served(
            name=name or model.stem,
            vocab_size=vocab_size,
            seq_len_max=seq_len,
            tokenizer=tokenizer,
            stage=None if weights is None else _stage_below(weights, local.weights),
            api_key=os.environ.get(API_KEY_VARIABLE),
        )
        uvicorn.run(
            build_app(local.engine, served),
            host=host,
            port=port,
            log_level="warning",
            timeout_keep_alive=KEEP_ALIVE_S,
        )


def main() -> None:
    """The command of `python -m assay.rollout.server`."""
    typer.run(serve)
