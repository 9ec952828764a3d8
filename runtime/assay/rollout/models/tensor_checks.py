"""Whole weights as they come, tensor by tensor: which are needed, and whether one is right."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.library.binding import sha256_pieces
from assay.rollout.models.model import DType, Tensor, TensorKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from assay.rollout.models.model import ModelConfig

KEPT_AS: Final = {DType.F32: np.float32, DType.F16: np.float16, DType.BF16: np.uint16}
HASHED_BYTES: Final = 1 << 12
"""See `TensorDigest`."""
PIECES_KEPT: Final = 3
"""See `ComingTensor.pieces`."""


def where_of(kind: TensorKind, layer: int) -> str:
    """How errors name a tensor."""
    label = kind.name if isinstance(kind, TensorKind) else repr(kind)
    return f"tensors.{label}.{layer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTensor:
    """One tensor to stage: `layer` is 0 for those that are not per layer."""

    kind: TensorKind
    layer: int
    tensor: Tensor
    sha256: str | None = None
    """SHA-256 of the tensor's bytes, hex, as the sender computed it; None: not checked."""

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns, or elements."""
        return self.tensor.shape

    @property
    def idle_core(self) -> bool:
        """As `ComingTensor.idle_core`."""
        return True

    @property
    def pieces(self) -> Iterable[memoryview]:
        return (bytes_of(self.tensor.data),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComingTensor:
    """One tensor to stage, whose bytes come one piece after the other: none waits in memory for the
    rest."""

    kind: TensorKind
    layer: int
    dtype: DType
    shape: tuple[int, ...]
    pieces: Iterable[memoryview]
    """Its bytes, in order. A piece keeps its content until `PIECES_KEPT` more have been taken."""
    sha256: str | None = None
    """As `StagedTensor.sha256`."""
    idle_core: bool = True
    """No thread makes the pieces meanwhile: a second one may compute their checksums."""

    def collected(self) -> StagedTensor:
        """All of it, in memory of its own."""
        values = np.empty(math.prod(self.shape), dtype=KEPT_AS[self.dtype])
        room, at = values.view(np.uint8), 0
        for piece in self.pieces:
            room[at : at + len(piece)] = piece
            at += len(piece)
        tensor = Tensor(values.reshape(self.shape), self.dtype)
        return StagedTensor(kind=self.kind, layer=self.layer, tensor=tensor, sha256=self.sha256)


AnyTensor = StagedTensor | ComingTensor


def in_memory(one: AnyTensor) -> StagedTensor:
    """The tensor as a whole."""
    return one.collected() if isinstance(one, ComingTensor) else one


def bytes_of(data: NDArray[Any]) -> memoryview:
    """An array's bytes, without a copy."""
    return data.reshape(-1).view(np.uint8).data


class TensorDigest:
    """Identifies a tensor's bytes: the SHA-256 of those of its parts of `HASHED_BYTES`.

    The SHA-256 of all bytes would be one chain of steps that each wait for the one before. The
    parts are hashed many at once, in less than half the time. The bytes come in any pieces.
    """

    def __init__(self) -> None:
        self._parts, self._part = hashlib.sha256(), hashlib.sha256()
        self._filled = 0
        """Bytes of the part that is not complete."""

    def update(self, data: memoryview) -> None:
        """Add the bytes that follow."""
        begun = min(len(data), HASHED_BYTES - self._filled) if self._filled else 0
        whole = begun + (len(data) - begun) // HASHED_BYTES * HASHED_BYTES
        self._add(data[:begun])
        self._parts.update(sha256_pieces(data[begun:whole], HASHED_BYTES))
        self._add(data[whole:])

    def _add(self, data: memoryview) -> None:
        self._part.update(data)
        self._filled += len(data)
        if self._filled == HASHED_BYTES:
            self._parts.update(self._part.digest())
            self._part, self._filled = hashlib.sha256(), 0

    def hexdigest(self) -> str:
        """The digest of all bytes so far."""
        parts = self._parts.copy()
        if self._filled:
            parts.update(self._part.digest())
        return parts.hexdigest()


def tensor_digest(data: NDArray[Any]) -> str:
    """The `TensorDigest` of an array."""
    digest = TensorDigest()
    digest.update(bytes_of(data))
    return digest.hexdigest()


class Checksums:
    """Of a tensor that comes piece by piece: what identifies it, and what its sender may have
    computed."""

    def __init__(self, one: AnyTensor) -> None:
        self._digest = TensorDigest()
        self._sha256 = hashlib.sha256() if one.sha256 else None
        self._one = one

    def update(self, data: memoryview) -> None:
        """Add the bytes that follow."""
        self._digest.update(data)
        if self._sha256 is not None:
            self._sha256.update(data)

    def checked(self) -> str:
        """All bytes have come: the digest that identifies them.

        Raises:
            InvalidWeights: their SHA-256 is not the sender's.
        """
        found = "" if self._sha256 is None else self._sha256.hexdigest()
        if found != (self._one.sha256 or "").lower():
            where = where_of(self._one.kind, self._one.layer)
            raise InvalidWeights.of_checksum(where)
        return self._digest.hexdigest()


class Rows:
    """Cuts bytes into whole rows: what comes may end within one."""

    def __init__(self, row_bytes: int) -> None:
        self._row_bytes = row_bytes
        self._begun = np.empty(0, dtype=np.uint8)
        """The bytes of a row that has not ended."""

    def cut(self, data: memoryview) -> Iterator[NDArray[np.uint8]]:
        """The rows that end with these bytes; views of them, but for one that began before."""
        found, at = np.frombuffer(data, dtype=np.uint8), 0
        if len(self._begun):
            at = min(len(found), self._row_bytes - len(self._begun))
            row = np.concatenate((self._begun, found[:at]))
            if len(row) < self._row_bytes:
                self._begun = row
                return
            yield row
        end = at + (len(found) - at) // self._row_bytes * self._row_bytes
        if end > at:
            yield found[at:end]
        self._begun = found[end:].copy()


class ExpectedTensors:
    """The tensors that a model of this shape has, and which have come."""

    def __init__(self, config: ModelConfig) -> None:
        self._missing = {(kind, layer): shape for kind, layer, shape in config.tensor_shapes()}
        self._known = frozenset(self._missing)

    def check(self, one: AnyTensor) -> str:
        """Return how errors name it.

        Raises:
            InvalidWeights: it is unknown, came before, or has another dtype or shape.
        """
        where = where_of(one.kind, one.layer)
        if (one.kind, one.layer) not in self._known:
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, "the model has none")
        if (one.kind, one.layer) not in self._missing:
            raise InvalidWeights(where, WeightsProblem.REPEATED, "came twice")
        if not _is_kept(one):
            raise InvalidWeights(where, WeightsProblem.DTYPE, "F32, F16, or BF16 as its bits")
        shape = self._missing[one.kind, one.layer]
        if one.shape != shape:
            wrong = f"{one.shape} where the model has {shape}"
            raise InvalidWeights(where, WeightsProblem.SHAPE, wrong)
        return where

    def came(self, one: AnyTensor) -> None:
        """Note a tensor that has come completely."""
        del self._missing[one.kind, one.layer]

    def end(self) -> None:
        """No more come.

        Raises:
            InvalidWeights: names one that is missing.
        """
        if self._missing:
            (kind, layer), shape = next(iter(self._missing.items()))
            where = where_of(kind, layer)
            raise InvalidWeights(where, WeightsProblem.MISSING, f"{shape} is needed")


def _is_kept(one: AnyTensor) -> bool:
    """Whether its elements are of a dtype that it may have."""
    if isinstance(one, ComingTensor):
        return one.dtype in KEPT_AS
    return isinstance(one.tensor, Tensor) and one.tensor.data.dtype == KEPT_AS.get(one.tensor.dtype)
