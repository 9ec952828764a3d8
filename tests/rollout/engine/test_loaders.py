"""Model files, tokenizers and stop strings."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.rollout.models import (
    CorruptModel,
    DType,
    Model,
    RopeScaling,
    TensorKind,
    UnsupportedModel,
    load_model,
    load_tokenizer,
)
from assay.rollout.models.gguf_file import open_gguf
from assay.rollout.models.hugging_face import parse_config, read_safetensors, tensor_key
from assay.rollout.models.model import unpermute_heads
from assay.rollout.models.tokenizer import StopStrings, TextStream

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 20,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "eos_token_id": [1, 2],
}
_HF_NAMES = {
    TensorKind.EMBED: "model.embed_tokens.weight",
    TensorKind.FINAL_NORM: "model.norm.weight",
    TensorKind.ATTN_NORM: "input_layernorm.weight",
    TensorKind.WQ: "self_attn.q_proj.weight",
    TensorKind.WK: "self_attn.k_proj.weight",
    TensorKind.WV: "self_attn.v_proj.weight",
    TensorKind.WO: "self_attn.o_proj.weight",
    TensorKind.FFN_NORM: "post_attention_layernorm.weight",
    TensorKind.W_GATE: "mlp.gate_proj.weight",
    TensorKind.W_UP: "mlp.up_proj.weight",
    TensorKind.W_DOWN: "mlp.down_proj.weight",
}


def write_safetensors(path: Path, tensors: dict[str, tuple[str, Any]]) -> None:
    """tensors: name -> (dtype as safetensors names it, array of matching element size)."""
    table, at, blobs = {}, 0, []
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        table[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [at, at + len(raw)],
        }
        at += len(raw)
        blobs.append(raw)
    head = json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))


def folder_of(tmp_path: Path, shards: int = 1) -> Path:
    """A tiny model's folder, its tensors spread over shards of differing dtypes."""
    config = parse_config(LLAMA)
    random = np.random.default_rng(0)
    shard: list[dict[str, tuple[str, Any]]] = [{} for _ in range(shards)]
    for i, (kind, layer, shape) in enumerate(config.tensor_shapes()):
        name = _HF_NAMES[kind]
        name = f"model.layers.{layer}.{name}" if kind.per_layer else name
        values = random.normal(size=shape).astype(np.float32)
        coded = {
            0: ("F32", values),
            1: ("F16", values.astype(np.float16)),
            2: ("BF16", (values.view(np.uint32) >> 16).astype(np.uint16)),
        }
        shard[i % shards][name] = coded[i % 3]
    for i, tensors in enumerate(shard):
        write_safetensors(tmp_path / f"model-{i}.safetensors", tensors)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def test_a_sharded_folder_of_mixed_dtypes_loads(tmp_path: Path) -> None:
    model = load_model(folder_of(tmp_path, 3))
    assert {tensor.dtype for tensor in model.tensors.values()} == set(DType)
    assert model.config.eos_ids == (1, 2)
    embed = model.tensors[TensorKind.EMBED, 0].to_float32()
    assert np.allclose(embed, np.random.default_rng(0).normal(size=(20, 32)), atol=1e-6)


def test_a_lost_shard_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 2)
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(CorruptModel, match="FINAL_NORM"):
        load_model(folder)


@pytest.mark.parametrize("keep", [0, 4, 9, 60, -1])
def test_a_file_cut_short_is_corrupt(tmp_path: Path, keep: int) -> None:
    path = folder_of(tmp_path) / "model-0.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptModel):
        read_safetensors(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "longrope"),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 32}, "sliding"),
        ({"partial_rotary_factor": 0.5}, "partial"),
    ],
)
def test_what_the_engine_lacks_is_said(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedModel, match=said):
        parse_config({**LLAMA, **change})


def test_old_and_new_rope_fields_mean_the_same() -> None:
    scaling = {"factor": 4.0, "original_max_position_embeddings": 32}
    old = {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", **scaling}}
    new = {"rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5, **scaling}}
    assert parse_config({**LLAMA, **old}) == parse_config({**LLAMA, **new})
    assert parse_config({**LLAMA, **old}).rope == RopeScaling(
        "yarn", factor=4.0, original_positions=32
    )


def test_unknown_tensor_names_are_not_guessed() -> None:
    assert tensor_key("model.layers.3.self_attn.q_proj.weight") == (TensorKind.WQ, 3)
    for name in ("model.layers.x.self_attn.q_proj.weight", "model.layers.1.mlp.gate.weight", "q"):
        assert tensor_key(name) is None


def test_unpermute_undoes_interleaving() -> None:
    head = np.array([[0], [2], [1], [3]])  # pairs (0, 2), (1, 3) interleaved
    assert unpermute_heads(np.vstack([head, head + 4]), 2).ravel().tolist() == [
        0, 1, 2, 3, 4, 5, 6, 7,
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_gguf_values_are_the_gguf_packages(smollm: Path) -> None:
    gguf = pytest.importorskip("gguf")
    ours = open_gguf(smollm)
    seen = set()
    for tensor in gguf.GGUFReader(str(smollm)).tensors[:12]:
        wanted = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(ours.values(tensor.name).to_float32(), wanted)
        seen.add(int(tensor.tensor_type))
    assert seen == {0, 3, 8}


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_1"])
@pytest.mark.filterwarnings("ignore")
def test_every_gguf_type_reads_back(kind: str, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    which = gguf.GGMLQuantizationType[kind]
    values = np.random.default_rng(1).normal(size=(6, 64)).astype(np.float32)
    packed = gguf.quantize(values, which)
    path = tmp_path / "one.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tensor("x", packed, raw_dtype=which)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = open_gguf(path).values("x").to_float32()
    assert np.array_equal(found, gguf.dequantize(packed, which))


@pytest.mark.parametrize("keep", [2, 12, 40, 3000])
def test_a_gguf_cut_short_is_corrupt(keep: int, smollm: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    with smollm.open("rb") as whole:
        path.write_bytes(whole.read(keep))
    with pytest.raises(CorruptModel):
        load_model(path)


@pytest.mark.parametrize("keep", [10, 28, 4000])
def test_a_checkpoint_cut_short_is_corrupt(keep: int, stories: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    path.write_bytes((stories / "stories260K.bin").read_bytes()[:keep])
    with pytest.raises(CorruptModel):
        load_model(path)


def test_a_path_that_is_no_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"\.gguf"):
        load_model(tmp_path / "x.onnx")


def test_llama2c_tokenizer_round_trips(stories: Path) -> None:
    tokenizer = load_tokenizer(stories / "tok512.bin")
    for text in ("Once upon a time", "a  b\n", "Zoë 中 \U0001f600", ""):
        ids = tokenizer.encode(text, bos=True)
        assert ids[0] == 1
        assert tokenizer.decode(ids) == text
    assert len(tokenizer.encode("Once upon a time")) < len("Once upon a time")


def test_smollm_tokenizer_is_llama_cpps(smollm: Path) -> None:
    llama_cpp = pytest.importorskip("llama_cpp")
    tokenizer: Any = load_tokenizer(smollm)
    theirs = llama_cpp.Llama(str(smollm), vocab_only=True, verbose=False)
    for text in (
        "Hello world, it's 12345 o'clock",
        "<|im_start|>user\nWhat?<|im_end|>\n",
        "  two  spaces\n\n\ttab",
        "naïve 中文 \U0001f600",
        "def f(x):\n    return x**2\n",
    ):
        ids = tokenizer.encode(text)
        assert ids == theirs.tokenize(text.encode(), add_bos=False, special=True)
        assert tokenizer.decode(ids) in (
            text,
            text.replace("<|im_start|>", "").replace("<|im_end|>", ""),
        )
    theirs.close()


class Bytes:
    """A tokenizer of single bytes."""

    vocab_size = 256
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()

    def encode(self, text: str, *, bos: bool = False) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")


@given(st.text())
def test_a_text_stream_says_each_character_once(text: str) -> None:
    stream = TextStream(Bytes())
    pieces = [stream.push(token) for token in text.encode()]
    said = "".join(pieces) + stream.flush()
    assert said == text
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text


@given(st.lists(st.text("abc", max_size=5)), st.lists(st.text("abc", min_size=1), max_size=3))
def test_stop_strings_are_found_across_pieces(pieces: list[str], stops: list[str]) -> None:
    matcher = StopStrings(stops)
    said = ""
    for piece in pieces:
        said += matcher.push(piece)
        for stop in stops:
            assert stop not in said
    said += "" if matcher.matched else matcher.flush()
    text = "".join(pieces)
    if matcher.matched is None:
        assert said == text
        assert not any(stop in text for stop in stops)
    else:
        assert text.startswith(said + matcher.matched)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings(["x", ""])


def test_a_model_knows_its_size(smollm: Path) -> None:
    model: Model = load_model(smollm)
    assert model.config.parameters == 134_515_008
