"""Whole weights as they come, tensor by tensor: which are needed, and whether one is right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.models.model import DType, Tensor, TensorKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from assay.rollout.models.model import ModelConfig

KEPT_AS: Final = {DType.F32: np.float32, DType.F16: np.float16, DType.BF16: np.uint16}
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
        """Of its elements."""
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns, or elements."""
        return self.tensor.shape

    @property
    def pieces(self) -> Iterable[memoryview]:
        """Its bytes."""
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
    """Those of one model."""

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

    def check_sum(self, one: AnyTensor, checksum: str) -> None:
        """Compare the SHA-256 of its bytes with the sender's, if there is one.

        Raises:
            InvalidWeights: they differ.
        """
        if one.sha256 is not None and checksum != one.sha256.lower():
            where = where_of(one.kind, one.layer)
            detail = "the checksum of its bytes differs"
            raise InvalidWeights(where, WeightsProblem.CHECKSUM, detail)

    def came(self, one: AnyTensor) -> None:
        """It is complete."""
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
