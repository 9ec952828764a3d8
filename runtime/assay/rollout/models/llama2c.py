"""llama2.c checkpoints (the legacy float32 format) and their tokenizers.

Checkpoint: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len; a
negative vocab_size means a separate output matrix), then float32 tensors in a fixed order.
Rotary pairs are interleaved in the file and converted to rotate-half order here. Tokenizer: int32
longest piece, then (float32 score, int32 length, bytes) per token.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.models.errors import CorruptModel
from assay.rollout.models.model import (
    Model,
    ModelConfig,
    Tensor,
    TensorKey,
    TensorKind,
    unpermute_heads,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_HEADER = struct.Struct("<7i")
_BOS, _EOS, _BYTES_AT = 1, 2, 3


def read_model(path: Path) -> Model:
    """Load the model of a checkpoint."""
    raw = path.read_bytes()
    if len(raw) < _HEADER.size:
        raise CorruptModel(f"{path.name} is shorter than a llama2.c header")
    config = _config(path, raw)
    values = np.frombuffer(raw, dtype="<f4", offset=_HEADER.size)
    tensors: dict[TensorKey, Tensor] = {}
    at = 0
    for kind, n_layers, shape in _order(config):
        count = n_layers * math.prod(shape)
        if at + count > len(values):
            raise CorruptModel(f"{path.name} ends inside {kind.name}")
        stack = values[at : at + count].reshape(n_layers, *shape)
        for layer in range(n_layers):
            tensors[kind, layer] = Tensor.of(_in_rotate_half(kind, stack[layer], config))
        at += count
        if kind is TensorKind.FINAL_NORM:
            at += config.positions_max * config.head_dim  # cos and sin tables
    return Model(config, tensors).check()


def _config(path: Path, raw: bytes) -> ModelConfig:
    dim, hidden, layers, heads, kv_heads, vocab, positions = _HEADER.unpack_from(raw)
    if min(dim, hidden, layers, heads, kv_heads, abs(vocab), positions) <= 0 or dim % heads:
        raise CorruptModel(f"{path.name} does not begin with a llama2.c header")
    return ModelConfig(
        dim=dim,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=kv_heads,
        head_dim=dim // heads,
        hidden_dim=hidden,
        vocab_size=abs(vocab),
        positions_max=positions,
        rms_eps=1e-5,
        tied_embeddings=vocab > 0,
        bos_id=_BOS,
        eos_ids=(_BOS, _EOS),  # llama2.c ends a story at either
    )


def _order(config: ModelConfig) -> list[tuple[TensorKind, int, tuple[int, ...]]]:
    """Tensors in file order: kind, number of layers, shape."""
    shapes = {kind: shape for kind, _, shape in config.tensor_shapes()}
    order = [
        TensorKind.EMBED,
        TensorKind.ATTN_NORM,
        TensorKind.WQ,
        TensorKind.WK,
        TensorKind.WV,
        TensorKind.WO,
        TensorKind.FFN_NORM,
        TensorKind.W_GATE,
        TensorKind.W_DOWN,
        TensorKind.W_UP,
        TensorKind.FINAL_NORM,
    ]
    if not config.tied_embeddings:
        order.append(TensorKind.LM_HEAD)
    return [(kind, config.n_layers if kind.per_layer else 1, shapes[kind]) for kind in order]


def _in_rotate_half(
    kind: TensorKind, values: NDArray[np.float32], config: ModelConfig
) -> NDArray[np.float32]:
    heads = {TensorKind.WQ: config.n_heads, TensorKind.WK: config.n_kv_heads}.get(kind)
    return values if heads is None else unpermute_heads(values, heads)


class Llama2cTokenizer:
    """Byte-fallback BPE that merges the pair with the best score first."""

    def __init__(self, pieces: list[bytes], scores: list[float]) -> None:
        self._pieces = pieces
        self._scores = scores
        self._ids = {piece: token for token, piece in reversed(list(enumerate(pieces)))}
        self.vocab_size = len(pieces)
        self.piece_bytes_max = max(map(len, pieces), default=1)
        self.bos_id: int | None = _BOS
        self.eos_ids: tuple[int, ...] = (_BOS, _EOS)

    def encode(self, text: str, *, bos: bool = False) -> list[int]:
        """Token ids; a leading space is added as SentencePiece does."""
        ids = [token for char in " " + text for token in self._of_char(char)] if text else []
        while (at := self._best_pair(ids)) is not None:
            merged = self._ids[self._pieces[ids[at]] + self._pieces[ids[at + 1]]]
            ids[at : at + 2] = [merged]
        return [_BOS, *ids] if bos else ids

    def decode(self, ids: list[int]) -> str:
        """Text of the tokens; the space that SentencePiece adds after BOS is dropped."""
        parts = []
        before = -1
        for token in ids:
            piece = b"" if token in (_BOS, _EOS) else self._bytes_of(token)
            parts.append(piece[1:] if before == _BOS and piece.startswith(b" ") else piece)
            before = token
        return b"".join(parts).decode("utf-8", errors="replace")

    def token_bytes(self, vocab_size: int) -> list[bytes]:
        """Bytes that each id adds to the text; empty for BOS, EOS and ids past the last piece."""
        said = [b"" if t in (_BOS, _EOS) else self._bytes_of(t) for t in range(self.vocab_size)]
        return said[:vocab_size] + [b""] * (vocab_size - self.vocab_size)

    def _of_char(self, char: str) -> list[int]:
        raw = char.encode()
        token = self._ids.get(raw)
        return [token] if token is not None else [byte + _BYTES_AT for byte in raw]

    def _best_pair(self, ids: list[int]) -> int | None:
        best, best_score = None, -math.inf
        for at in range(len(ids) - 1):
            token = self._ids.get(self._pieces[ids[at]] + self._pieces[ids[at + 1]])
            if token is not None and self._scores[token] > best_score:
                best, best_score = at, self._scores[token]
        return best

    def _bytes_of(self, token: int) -> bytes:
        piece = self._pieces[token]
        if len(piece) == 6 and piece.startswith(b"<0x"):
            return bytes([int(piece[3:5], 16)])
        return piece


def read_tokenizer(path: Path) -> Llama2cTokenizer:
    """Load the tokenizer of a tok*.bin file."""
    raw = path.read_bytes()
    pieces: list[bytes] = []
    scores: list[float] = []
    at = 4
    while at < len(raw):
        if at + 8 > len(raw):
            raise CorruptModel(f"{path.name} ends inside a token")
        score, length = struct.unpack_from("<fi", raw, at)
        at += 8
        if length < 0 or at + length > len(raw):
            raise CorruptModel(f"{path.name} ends inside a token")
        pieces.append(raw[at : at + length])
        scores.append(score)
        at += length
    return Llama2cTokenizer(pieces, scores)
