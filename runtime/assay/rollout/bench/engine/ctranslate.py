"""CTranslate2 on the same weights, converted here."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.rollout.bench.engine.rival import Decoder, Load, Opener, Rival, prompt_of
from assay.rollout.bench.engine.work import Contender
from assay.rollout.models.model import DType, Model, TensorKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

INT8 = "ctranslate2, int8"
"""Its bf16 needs a GPU: beside bf16 weights it has int8 weights, half of their bytes."""


def _specification(model: Model) -> Any:  # noqa: ANN401 - ctranslate2 is an extra
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        config.n_layers,
        config.n_heads,
        activation=common_spec.Activation.SWISH,
        pre_norm=True,
        ffn_glu=True,
        rms_norm=True,
        rotary_dim=0,
        rotary_interleave=False,
        rotary_base=config.rope_theta,
        num_heads_kv=None if config.n_kv_heads == config.n_heads else config.n_kv_heads,
        head_dim=config.head_dim,
    )
    tokens = [_token(i) for i in range(config.vocab_size)]
    spec.register_vocabulary(tokens)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = tokens[0]
    spec.config.layer_norm_epsilon = config.rms_eps
    return spec


def _token(token_id: int) -> str:
    return f"<{token_id}>"


def _fill(spec: Any, model: Model) -> None:  # noqa: ANN401
    def values(kind: TensorKind, layer: int = 0) -> NDArray[np.float32]:
        return np.array(model.tensors[kind, layer].to_float32())

    tied = model.config.tied_embeddings
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = values(TensorKind.EMBED)
    decoder.layer_norm.gamma = values(TensorKind.FINAL_NORM).reshape(-1)
    decoder.projection.weight = values(TensorKind.EMBED if tied else TensorKind.LM_HEAD)
    for i, layer in enumerate(decoder.layer):
        attention, mlp = layer.self_attention, layer.ffn
        attention.layer_norm.gamma = values(TensorKind.ATTN_NORM, i).reshape(-1)
        mlp.layer_norm.gamma = values(TensorKind.FFN_NORM, i).reshape(-1)
        attention.linear[0].weight = np.concatenate(
            [values(kind, i) for kind in (TensorKind.WQ, TensorKind.WK, TensorKind.WV)]
        )
        attention.linear[1].weight = values(TensorKind.WO, i)
        mlp.linear_0.weight = values(TensorKind.W_GATE, i)
        mlp.linear_0_noact.weight = values(TensorKind.W_UP, i)
        mlp.linear_1.weight = values(TensorKind.W_DOWN, i)


@contextlib.contextmanager
def _open(folder: Path, compute: str, load: Load) -> Iterator[Decoder]:
    """Greedy, sampling included; times are taken when a step's last token arrives."""
    import ctranslate2

    generator = ctranslate2.Generator(
        str(folder), device="cpu", compute_type=compute, inter_threads=1, intra_threads=load.threads
    )
    context = [_token(i) for i in prompt_of(load)]

    def decode(n: int) -> float:
        arrived: dict[int, float] = {}

        def note(result: Any) -> bool:  # noqa: ANN401
            arrived[result.step] = time.perf_counter()
            return False

        generator.generate_batch(
            [[_token(1)]] * load.batch,
            static_prompt=context,
            cache_static_prompt=True,
            include_prompt_in_result=False,
            max_length=n + 1,
            min_length=n + 1,
            sampling_topk=1,
            callback=note,
        )
        return arrived[n] - arrived[0]

    yield decode


def _prepare(model: Model, dtype: DType, folder: Path) -> dict[str, Opener]:
    spec = _specification(model)
    _fill(spec, model)
    spec.validate()
    name, compute = ("ctranslate2", "float32") if dtype is DType.F32 else (INT8, "int8_float32")
    spec.optimize(quantization="float32" if dtype is DType.F32 else "int8_float32")
    spec.save(str(folder))
    return {name: partial(_open, folder, compute)}


CTRANSLATE2 = Rival(Contender.CTRANSLATE2, (("ctranslate2", "ctranslate2"),), _prepare)
