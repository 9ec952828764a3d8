"""Model files, tokenizers and stop strings."""

from __future__ import annotations

import json
import os
import random
import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.engine.exact import random_model
from tests.seeds import drawn_seed

from assay.core.tools.safetensors import Stored, packed
from assay.rollout.models import (
    CorruptModel,
    DType,
    Model,
    ModelError,
    RopeScaling,
    Tensor,
    TensorKind,
    UnsupportedModel,
    load_model,
    load_tokenizer,
)
from assay.rollout.models.gguf_file import _GLOBAL_NAMES, _LAYER_NAMES, open_gguf
from assay.rollout.models.hugging_face import parse_config, read_safetensors, tensor_key
from assay.rollout.models.model import unpermute_heads
from assay.rollout.models.tokenizer import StopStrings, TextStream, text_bytes_max

if TYPE_CHECKING:
    from collections.abc import Callable
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


INDEX = "model.safetensors.index.json"


def write_safetensors(path: Path, tensors: dict[str, tuple[str, Any]]) -> None:
    """tensors: name -> (dtype as safetensors names it, array of matching element size)."""
    stored = {n: Stored(dtype, a.shape, a.tobytes()) for n, (dtype, a) in tensors.items()}
    path.write_bytes(packed(stored))


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
    if shards > 1:
        places = {n: f"model-{i}.safetensors" for i, tensors in enumerate(shard) for n in tensors}
        index = json.dumps({"metadata": {}, "weight_map": places})
        (tmp_path / INDEX).write_text(index)
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
    with pytest.raises(CorruptModel, match="model-1"):
        load_model(folder)


def embedding(folder: Path) -> Any:
    return load_model(folder).tensors[TensorKind.EMBED, 0].to_float32()


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    "beside", ["model-9.safetensors", "zz.safetensors", "model-0-old.safetensors"]
)
def test_a_weight_file_that_the_index_does_not_name_changes_nothing(
    shards: int, beside: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, shards)
    right = np.array(embedding(folder))
    other = {name: ("F32", 7 + np.array(t.to_float32())) for name, t in everything(folder).items()}
    write_safetensors(folder / beside, other)
    if shards == 1:
        with pytest.raises(CorruptModel, match="2 weight files"):
            load_model(folder)
        (folder / "model-0.safetensors").rename(folder / "model.safetensors")
    assert np.array_equal(embedding(folder), right)


def everything(folder: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for file in folder.glob("*.safetensors"):
        found |= read_safetensors(file)
    return found


def test_an_adapter_beside_the_model_is_not_the_model(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    lora = np.ones((4, 32), np.float32)
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    write_safetensors(folder / "adapter_model.safetensors", {name: ("F32", lora)})
    load_model(folder)


def test_two_checkpoints_in_a_folder_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 2)
    write_safetensors(folder / "model.safetensors", {})
    with pytest.raises(CorruptModel, match="two checkpoints"):
        load_model(folder)


@pytest.mark.parametrize(
    "places",
    [
        {"model.norm.weight": "../secret.safetensors"},
        {"model.norm.weight": "/etc/passwd"},
        {"model.norm.weight": "model-7.safetensors"},
        {"model.norm.weight": None},
        {"model.nothing.weight": "model-0.safetensors"},
        {},
        [],
        None,
    ],
)
def test_an_index_that_lies_is_corrupt(places: Any, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 2)
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))
    with pytest.raises(CorruptModel):
        load_model(folder)


FORMS = ("folder", "sharded", "gguf", "checkpoint", "tokenizer.json", "tok.bin")
DAMAGED = int(os.environ.get("ASSAY_DAMAGED_FILES", "250"))
"""Of each form."""


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_file_is_a_model_error_or_a_model(
    form: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Bytes are changed, cut and repeated at random, mostly in headers. An error names the file."""
    rng = random.Random(drawn_seed())
    if form == "tokenizer.json":
        path: Path = request.getfixturevalue("tokenizer_folder")
    else:
        path = damageable(form, tmp_path)
    load = load_tokenizer if form.startswith("tok") else load_model
    files = [path] if path.is_file() else sorted(path.iterdir())
    whole = {file: file.read_bytes() for file in files}
    said: list[str] = []
    for _ in range(DAMAGED):
        file = rng.choice(files)
        file.write_bytes(damaged(rng, whole[file]))
        try:
            load(path)
        except ModelError as error:
            said.append(str(error))
        file.write_bytes(whole[file])
    load(path)
    assert len(said) > DAMAGED / 5
    names = {path.name, *(file.name for file in files)}
    assert [one for one in said if not any(name in one for name in names)] == []


def damageable(form: str, tmp_path: Path) -> Path:
    if form == "folder":
        return folder_of(tmp_path)
    if form == "sharded":
        return folder_of(tmp_path, 2)
    if form == "gguf":
        return gguf_llama(tmp_path)[0]
    if form == "tok.bin":
        return write_pieces(tmp_path / form)
    return write_checkpoint(tmp_path / "model.bin")


def write_pieces(path: Path) -> Path:
    """llama2.c's form: the longest piece's length, then score, length and bytes of each piece."""
    pieces = [
        b"<unk>",
        b"\n<s>\n",
        b"\n</s>\n",
        *(bytes([i]) for i in range(32, 127)),
        b"the",
        b" a",
    ]
    scored = (struct.pack("<fi", -float(i), len(p)) + p for i, p in enumerate(pieces))
    path.write_bytes(struct.pack("<i", 6) + b"".join(scored))
    return path


def damaged(rng: random.Random, whole: bytes) -> bytes:
    end = rng.choice((16, 64, 400, 4_000, len(whole)))
    at = rng.randrange(min(end, len(whole)))
    kind = rng.randrange(6)
    if kind == 0:
        return whole[:at]
    if kind == 1:
        return whole[:at] + bytes([rng.randrange(256)]) + whole[at + 1 :]
    if kind == 2:
        return whole[:at] + rng.choice((b"\xff" * 8, bytes(8), b"\x7f" * 4)) + whole[at + 8 :]
    if kind == 3:
        return whole[:at] + whole[at : at + 30] + whole[at:]
    if kind == 4:
        digit = rng.choice((b"-1", b"0", b"1e999", b"null", b"[]", b"99999999999", b'"x"'))
        return (
            re.sub(rb"(?<=: )\d+", lambda m: digit if rng.random() < 0.2 else m[0], whole[:end])
            + whole[end:]
        )
    return whole[at:]


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


def gguf_bytes(
    metadata: dict[str, Any], tensors: dict[str, tuple[int, tuple[int, ...], bytes]]
) -> bytes:
    """A GGUF file from the format's description; tensors: name -> (type, shape as numpy, data)."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        if isinstance(value, str):
            kind, raw = 8, text(value)
        else:
            is_whole = isinstance(value, int)
            kind, raw = (4, struct.pack("<I", value)) if is_whole else (6, struct.pack("<f", value))
        head += text(key) + struct.pack("<I", kind) + raw
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        data += bytes(-len(data) % 32)
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += raw
    return head + bytes(-len(head) % 32) + data


def half(raw: bytes) -> float:
    return float(struct.unpack("<e", raw)[0])


def q8_0(block: bytes) -> list[float]:
    return [half(block[:2]) * x for x in struct.unpack("<32b", block[2:])]


def nibbles(packed: bytes) -> list[int]:
    return [b & 15 for b in packed] + [b >> 4 for b in packed]


def q4_0(block: bytes) -> list[float]:
    return [half(block[:2]) * (x - 8) for x in nibbles(block[2:])]


def q4_1(block: bytes) -> list[float]:
    return [half(block[:2]) * x + half(block[2:4]) for x in nibbles(block[4:])]


def bf16(two: bytes) -> list[float]:
    return list(struct.unpack("<f", bytes(2) + two))


def f32(four: bytes) -> list[float]:
    return list(struct.unpack("<f", four))


def f16(two: bytes) -> list[float]:
    return [half(two)]


GGUF_TYPES: dict[str, tuple[int, int, Callable[[bytes], list[float]]]] = {
    "F32": (0, 4, f32),
    "F16": (1, 2, f16),
    "BF16": (30, 2, bf16),
    "Q4_0": (2, 18, q4_0),
    "Q4_1": (3, 20, q4_1),
    "Q8_0": (8, 34, q8_0),
}
"""Number, bytes of a block, and what a block stands for by the format's own formula."""


def finite_block(rng: random.Random, n: int) -> bytes:
    """A block that begins with two small halves (as float, as bf16: finite too)."""
    scales = struct.pack("<ee", rng.uniform(0.01, 1), rng.uniform(-1, -0.01))
    return (scales + rng.randbytes(n))[:n]


@pytest.mark.parametrize("name", GGUF_TYPES)
def test_a_gguf_block_reads_as_the_formats_formula_says(name: str, tmp_path: Path) -> None:
    kind, n_bytes, formula = GGUF_TYPES[name]
    rng = random.Random(1)
    blocks = [finite_block(rng, n_bytes) for _ in range(2 * 32)]
    wanted = np.array([formula(block) for block in blocks], np.float32).reshape(2, -1)
    path = tmp_path / "one.gguf"
    path.write_bytes(gguf_bytes({}, {"x": (kind, wanted.shape, b"".join(blocks))}))
    found = open_gguf(path).values("x").to_float32()
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=1e-6, atol=0)


def gguf_llama(tmp_path: Path) -> tuple[Path, dict[Any, Any]]:
    """Matrices in Q8_0, q and k with interleaved pairs, as llama.cpp's converter leaves them."""
    model = random_model("smollm")
    config = model.config
    names = {kind: name for name, kind in (_GLOBAL_NAMES | _LAYER_NAMES).items()}
    tensors: dict[str, tuple[int, tuple[int, ...], bytes]] = {}
    wanted = {}
    for (kind, layer), tensor in model.tensors.items():
        values = np.array(tensor.to_float32())
        heads = {TensorKind.WQ: config.n_heads, TensorKind.WK: config.n_kv_heads}.get(kind)
        stored = values if heads is None else interleave(values, heads)
        name = f"blk.{layer}.{names[kind]}" if kind.per_layer else names[kind]
        if values.ndim == 2 and values.shape[1] % 32 == 0:
            wanted[kind, layer] = to_q8_0(values)[1]
            tensors[name] = (8, values.shape, to_q8_0(stored)[0])
        else:
            wanted[kind, layer] = values
            tensors[name] = (0, values.shape, stored.tobytes())
    metadata: dict[str, str | int | float] = {
        "general.architecture": "llama",
        "llama.embedding_length": config.dim,
        "llama.block_count": config.n_layers,
        "llama.feed_forward_length": config.hidden_dim,
        "llama.attention.head_count": config.n_heads,
        "llama.attention.head_count_kv": config.n_kv_heads,
        "llama.attention.layer_norm_rms_epsilon": config.rms_eps,
        "llama.context_length": config.positions_max,
        "llama.rope.freq_base": config.rope_theta,
    }
    path = tmp_path / "whole.gguf"
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path, wanted


def test_a_gguf_llama_is_the_model_that_was_written(tmp_path: Path) -> None:
    path, wanted = gguf_llama(tmp_path)
    read = load_model(path)
    assert read.config.tied_embeddings
    assert read.tensors.keys() == wanted.keys()
    for key, tensor in read.tensors.items():
        assert np.allclose(tensor.to_float32(), wanted[key], atol=1e-6), key


def to_q8_0(values: Any) -> tuple[bytes, Any]:
    """Packed blocks, and the values they stand for."""
    blocks = values.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    codes = np.clip(np.rint(blocks / scale.astype(np.float32)), -127, 127).astype(np.int8)
    packed = b"".join(s.tobytes() + c.tobytes() for s, c in zip(scale, codes, strict=True))
    return packed, (scale.astype(np.float32) * codes).reshape(values.shape)


def interleave(values: Any, heads: int) -> Any:
    """Rotate-half order to pairs that stand together."""
    rows, cols = values.shape
    return values.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


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


TEXTS = ("Hello world", "  two  spaces\n\n\ttab", "naïve 中文 \U0001f600", "<s>")


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    """A byte-level BPE of a few merges as a Hugging Face folder has it."""
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["hello world, hello there"] * 8, trainer)
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": [1]}))
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    more = {"eos_token": {"content": "</s>"}, "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(more))
    return tmp_path


def test_a_tokenizer_json_brings_ids_text_and_chat(tokenizer_folder: Path) -> None:
    tokenizer: Any = load_tokenizer(tokenizer_folder)
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (0, (1,))
    for text in TEXTS[:3]:
        assert tokenizer.decode(tokenizer.encode(text, bos=True)) == text
    assert len(tokenizer.encode("hello")) == 1
    pytest.importorskip("jinja2")
    assert tokenizer.chat([{"role": "user", "content": "hi"}]) == "<user>hi"


def bytes_make_the_text(tokenizer: Any, vocab_size: int) -> None:
    """Joining the bytes of the ids is decoding them, special ids saying nothing."""
    table = tokenizer.token_bytes(vocab_size)
    assert len(table) == vocab_size
    for text in TEXTS:
        ids = tokenizer.encode(text)
        joined = b"".join(table[token] for token in ids).decode()
        assert joined.removeprefix(" ") == tokenizer.decode(ids).removeprefix(" ")


def test_token_bytes_join_to_the_text(tokenizer_folder: Path) -> None:
    bytes_make_the_text(load_tokenizer(tokenizer_folder), 400)


def test_llama2c_token_bytes_join_to_the_text(stories: Path) -> None:
    bytes_make_the_text(load_tokenizer(stories / "tok512.bin"), 512)


def test_smollm_token_bytes_join_to_the_text(smollm: Path) -> None:
    pytest.importorskip("tokenizers")
    bytes_make_the_text(load_tokenizer(smollm), 49152)


OWN: dict[str, Any] = {}


class Bytes:
    """A tokenizer of single bytes."""

    vocab_size = 256
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    piece_bytes_max = 1

    def encode(self, text: str, *, bos: bool = False) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")

    def token_bytes(self, vocab_size: int) -> list[bytes]:
        return [bytes([token]) for token in range(vocab_size)]


@given(st.text())
def test_a_text_stream_says_each_character_once(text: str) -> None:
    stream = TextStream(Bytes())
    pieces = [stream.push(token) for token in text.encode()]
    said = "".join(pieces) + stream.flush()
    assert said == text
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text


@given(st.binary(max_size=12), st.lists(st.integers(1, 4), max_size=6))
def test_a_text_stream_says_the_same_in_pieces_of_any_size(text: bytes, sizes: list[int]) -> None:
    one, many, at = TextStream(Bytes()), TextStream(Bytes()), 0
    alone = "".join(one.push(token) for token in text) + one.flush()
    said = ""
    for size in [*sizes, len(text)]:
        said += many.push(*text[at : at + size])
        at += size
    assert said + many.flush() == alone == text.decode(errors="replace")


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


@given(st.text(max_size=40))
def test_no_text_has_more_bytes_than_its_tokens_can_be(text: str) -> None:
    pytest.importorskip("tokenizers")
    from tests.rollout.gateway.models import tokenizer

    own = OWN.setdefault("tokenizer", tokenizer())
    assert len(text.encode()) <= text_bytes_max(own, len(own.encode(text)))
    assert own.encode(text * 400) == own._backend.encode(text * 400, add_special_tokens=False).ids


@pytest.mark.parametrize("said", [None, "", "{}", '{"version": "1.0"', "\udcff"])
def test_a_folder_without_a_tokenizer_names_the_file(tmp_path: Path, said: str | None) -> None:
    pytest.importorskip("tokenizers")
    if said is not None:
        (tmp_path / "tokenizer.json").write_text(said, "utf-8", "surrogateescape")
    with pytest.raises(UnsupportedModel if said is None else CorruptModel) as refused:
        load_tokenizer(tmp_path)
    assert "tokenizer.json" in str(refused.value)
    assert "Exception:" not in str(refused.value)
