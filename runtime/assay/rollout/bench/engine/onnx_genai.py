"""onnxruntime-genai on the same weights, converted by its own model builder."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.bench.engine.rival import Decoder, Load, Opener, Rival, prompt_of
from assay.rollout.bench.engine.torch_twin import torch_twin
from assay.rollout.bench.engine.work import Contender
from assay.rollout.models.model import DType, Model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INT8 = "onnxruntime-genai, int8"
"""Its bf16 needs a GPU: beside bf16 weights it has int8 weights, half of their bytes."""


def _build(model: Model, precision: str, folder: Path) -> Path:
    """The ONNX model and its configuration, in a folder."""
    source, built = folder / "source", folder / "built"
    torch_twin(model).save_pretrained(source)
    _save_tokenizer(model, source)
    builder = "onnxruntime_genai.models.builder"
    command = [sys.executable, "-m", builder, "-i", str(source), "-o", str(built)]
    command += ["-p", precision, "-e", "cpu", "-c", str(folder / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if not (built / "genai_config.json").is_file():
        raise RuntimeError(f"its builder failed: {(done.stderr or done.stdout).strip()[-200:]}")
    return built


def _save_tokenizer(model: Model, folder: Path) -> None:
    """The builder copies a tokenizer; decoding uses ids alone, so any of that size serves."""
    import tokenizers
    import transformers

    ids = {f"<{i}>": i for i in range(model.config.vocab_size)}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="<0>"))  # noqa: S106
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)


def _use_threads(folder: Path, threads: int) -> None:
    path = folder / "genai_config.json"
    config = json.loads(path.read_text())
    options = config["model"]["decoder"].setdefault("session_options", {})
    options["intra_op_num_threads"] = threads
    path.write_text(json.dumps(config))


@contextlib.contextmanager
def _open(folder: Path, load: Load) -> Iterator[Decoder]:
    """Greedy, sampling included. The context is prefilled again for each run, outside the time."""
    import onnxruntime_genai as og

    _use_threads(folder, load.threads)
    model = og.Model(str(folder))
    ids = np.array([[*prompt_of(load), 1]] * load.batch, dtype=np.int32)

    def decode(n: int) -> float:
        length = ids.shape[1] + n + 1
        params = og.GeneratorParams(model)
        params.set_search_options(
            batch_size=load.batch, do_sample=False, max_length=length, min_length=length
        )
        generator = og.Generator(model, params)
        generator.append_tokens(ids)
        generator.generate_next_token()
        begun = time.perf_counter()
        for _ in range(n):
            generator.generate_next_token()
        return time.perf_counter() - begun

    yield decode


def _prepare(model: Model, dtype: DType, folder: Path) -> dict[str, Opener]:
    name, precision = ("onnxruntime-genai", "fp32") if dtype is DType.F32 else (INT8, "int8")
    return {name: partial(_open, _build(model, precision, folder))}


ONNX_GENAI = Rival(
    Contender.ONNX_GENAI,
    (
        ("onnxruntime_genai", "onnxruntime-genai"),
        ("onnx_ir", "onnx-ir"),
        ("torch", "torch"),
        ("transformers", "transformers"),
    ),
    _prepare,
)
