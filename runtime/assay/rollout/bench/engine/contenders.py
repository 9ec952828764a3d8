"""The engines that decode the same weights. Only benches import this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.rollout.bench.engine.ctranslate import CTRANSLATE2
from assay.rollout.bench.engine.llama_cpp import LLAMA_CPP
from assay.rollout.bench.engine.onnx_genai import ONNX_GENAI
from assay.rollout.bench.engine.torch_twin import TORCH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from assay.rollout.bench.engine.rival import Opener
    from assay.rollout.bench.engine.work import Contender
    from assay.rollout.models.model import DType, Model

RIVALS = (LLAMA_CPP, TORCH, CTRANSLATE2, ONNX_GENAI)


def openers(
    model: Model,
    dtype: DType,
    scratch: Path,
    wanted: Collection[Contender],
    leave_out: Callable[[str, str], None],
) -> dict[str, Opener]:
    """The rows of the rivals that can decode this model here; `leave_out` gets the others."""
    found: dict[str, Opener] = {}
    for rival in RIVALS:
        if rival.contender not in wanted:
            continue
        refusal = rival.refusal(model)
        if refusal is None:
            folder = scratch / rival.contender.name
            folder.mkdir(parents=True)
            try:
                found |= rival.prepare(model, dtype, folder)
            except Exception as error:  # noqa: BLE001 - whatever another project's converter raises
                refusal = f"{type(error).__name__}: {error}"
        if refusal is not None:
            leave_out(rival.contender, refusal)
    return found
