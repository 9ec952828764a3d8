"""Random adapters for tests: staged through the C interface, and merged in float64."""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.rollout.library.binding import load
from assay.rollout.models import DType, Model, Tensor, TensorKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from assay.rollout.models import Engine

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
K = TensorKind

LORA, CAYLEY, NEUMANN, EXPONENTIAL = range(4)
PROJECTIONS: Final = (K.WQ, K.WK, K.WV, K.WO, K.W_GATE, K.W_UP, K.W_DOWN)


class Piece(ct.Structure):
    """Mirror of `assay_adapter_piece`."""

    _fields_ = (
        ("tensor", ct.c_uint32),
        ("layer", ct.c_uint32),
        ("kind", ct.c_uint32),
        ("dtype", ct.c_uint32),
        ("rows", ct.c_uint32),
        ("cols", ct.c_uint32),
        ("size", ct.c_uint32),
        ("n_blocks", ct.c_uint32),
        ("terms", ct.c_uint32),
        ("scale", ct.c_float),
        ("a", ct.c_void_p),
        ("b", ct.c_void_p),
    )


@dataclass(frozen=True)
class Adapted:
    """One projection's adapter. LORA: a (rank, cols), b (rows, rank). OFT: a (blocks, upper)."""

    tensor: TensorKind
    layer: int
    kind: int
    rows: int
    cols: int
    size: int
    a: Floats
    b: Floats | None = None
    scale: float = 0.0
    terms: int = 0

    def piece(self, **changes: Any) -> Piece:
        """As C reads it; the arrays must outlive it."""
        fields = {
            "tensor": self.tensor,
            "layer": self.layer,
            "kind": self.kind,
            "dtype": DType.F32,
            "rows": self.rows,
            "cols": self.cols,
            "size": self.size,
            "n_blocks": 0 if self.kind == LORA else len(self.a),
            "terms": self.terms,
            "scale": self.scale,
            "a": self.a.ctypes.data,
            "b": None if self.b is None else self.b.ctypes.data,
        }
        return Piece(**{**fields, **changes})

    def merged(self, weight: Doubles) -> Doubles:
        """The projection's matrix with the adapter in it."""
        if self.b is not None:
            return weight + self.scale * (self.b.astype(np.float64) @ self.a.astype(np.float64))
        n_blocks = self.cols // self.size
        blocks = [self._rotation(self.a[i % len(self.a)]) for i in range(n_blocks)]
        turned = np.zeros((self.cols, self.cols))
        for i, block in enumerate(blocks):
            at = slice(i * self.size, (i + 1) * self.size)
            turned[at, at] = block
        made: Doubles = weight @ turned.T
        return made

    def _rotation(self, upper: Floats) -> Doubles:
        q = skew(upper, self.size)
        eye = np.eye(self.size)
        if self.kind == CAYLEY:
            return np.asarray(np.linalg.solve((eye + q).T, (eye - q).T).T)
        if self.kind == NEUMANN:
            powers = [np.linalg.matrix_power(q, n) for n in range(1, self.terms)]
            return np.asarray(eye + 2 * sum(powers[:-1], np.zeros_like(q)) + powers[-1])
        values, vectors = np.linalg.eigh(1j * q)
        return np.real((vectors * np.exp(-1j * values)) @ vectors.conj().T)


def skew(upper: Floats, n: int) -> Doubles:
    """The skew symmetric matrix with this upper triangle, given row by row."""
    q = np.zeros((n, n))
    q[np.triu_indices(n, 1)] = upper
    return q - q.T


def projections(model: Model) -> list[tuple[TensorKind, int, int, int]]:
    """(tensor, layer, rows, cols) of everything that can be adapted."""
    return [
        (kind, layer, shape[0], shape[1])
        for kind, layer, shape in model.config.tensor_shapes()
        if kind in PROJECTIONS
    ]


def lora(model: Model, seed: int, ranks: Sequence[int] = (8, 3, 17, 40)) -> list[Adapted]:
    """On every projection, of changing rank, large enough to move logits."""
    rng = np.random.default_rng(seed)
    made = []
    for i, (tensor, layer, rows, cols) in enumerate(projections(model)):
        rank = ranks[i % len(ranks)]
        a = rng.normal(0, cols**-0.5, (rank, cols)).astype(np.float32)
        b = rng.normal(0, 0.1, (rows, rank)).astype(np.float32)
        scale = 2.0 / rank**0.5
        made.append(Adapted(tensor, layer, LORA, rows, cols, rank, a, b, float(np.float32(scale))))
    return made


def oft(
    model: Model, seed: int, kind: int, size: int = 16, *, shared: bool = False
) -> list[Adapted]:
    """On every projection; blocks of `size` inputs, or one of all where it does not divide them."""
    rng = np.random.default_rng(seed)
    made = []
    for tensor, layer, rows, cols in projections(model):
        block = size if cols % size == 0 else cols
        n_blocks = 1 if shared else cols // block
        q = rng.normal(0, 0.5 / block**0.5, (n_blocks, block * (block - 1) // 2))
        terms = 5 if kind == NEUMANN else 0
        a = np.ascontiguousarray(q, dtype=np.float32)
        made.append(Adapted(tensor, layer, kind, rows, cols, block, a, terms=terms))
    return made


def merge(model: Model, adapter: Iterable[Adapted]) -> Model:
    """The model that the adapter is equal to; matrices in float32 as float64 rounds to them."""
    tensors = dict(model.tensors)
    for one in adapter:
        weight = model.tensors[one.tensor, one.layer].to_float32().astype(np.float64)
        tensors[one.tensor, one.layer] = Tensor.of(one.merged(weight).astype(np.float32))
    return Model(model.config, tensors, model.rope_divisors)


def begin(engine: Engine, pieces: Sequence[Piece]) -> int:
    """The status of `assay_engine_stage_adapter_begin`."""
    array = (Piece * max(1, len(pieces)))(*pieces)
    call = load().assay_engine_stage_adapter_begin
    call.argtypes = (ct.c_void_p, ct.c_void_p, ct.c_uint32)
    return int(call(engine.address, array, len(pieces)))


def give(engine: Engine, piece: Piece) -> int:
    """The status of `assay_engine_stage_adapter`."""
    call = load().assay_engine_stage_adapter
    call.argtypes = (ct.c_void_p, ct.c_void_p)
    return int(call(engine.address, ct.byref(piece)))


def end(engine: Engine) -> int:
    """The status of `assay_engine_stage_end`."""
    return int(load().assay_engine_stage_end(engine.address))


def swap(engine: Engine, version: int) -> int:
    """The status of `assay_engine_swap`."""
    return int(load().assay_engine_swap(engine.address, version))


def stage(engine: Engine, adapter: Sequence[Adapted]) -> None:
    """Into the inactive slot, whole."""
    assert begin(engine, [one.piece(a=None, b=None) for one in adapter]) == 0
    for one in adapter:
        assert give(engine, one.piece()) == 0
    assert end(engine) == 0


def adapted(engine: Engine, adapter: Sequence[Adapted], version: int = 1) -> Engine:
    """The engine with this adapter active."""
    stage(engine, adapter)
    assert swap(engine, version) == 0
    return engine
