"""Whole weights as they come, tensor by tensor: which are needed, and whether one is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.models.model import DType, Tensor, TensorKind

if TYPE_CHECKING:
    from assay.rollout.models.model import ModelConfig

KEPT_AS: Final = {DType.F32: np.float32, DType.F16: np.float16, DType.BF16: np.uint16}


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


class ExpectedTensors:
    """Those of one model."""

    def __init__(self, config: ModelConfig) -> None:
        self._missing = {(kind, layer): shape for kind, layer, shape in config.tensor_shapes()}
        self._known = frozenset(self._missing)

    def check(self, one: StagedTensor) -> str:
        """Return how errors name it.

        Raises:
            InvalidWeights: it is unknown, came before, or has another dtype or shape.
        """
        where = where_of(one.kind, one.layer)
        if (one.kind, one.layer) not in self._known:
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, "the model has none")
        if (one.kind, one.layer) not in self._missing:
            raise InvalidWeights(where, WeightsProblem.REPEATED, "came twice")
        if not isinstance(one.tensor, Tensor) or one.tensor.data.dtype != KEPT_AS.get(
            one.tensor.dtype
        ):
            raise InvalidWeights(where, WeightsProblem.DTYPE, "F32, F16, or BF16 as its bits")
        shape = self._missing[one.kind, one.layer]
        if one.tensor.shape != shape:
            wrong = f"{one.tensor.shape} where the model has {shape}"
            raise InvalidWeights(where, WeightsProblem.SHAPE, wrong)
        return where

    def check_sum(self, one: StagedTensor, checksum: str) -> None:
        """Compare the SHA-256 of its bytes with the sender's, if there is one.

        Raises:
            InvalidWeights: they differ.
        """
        if one.sha256 is not None and checksum != one.sha256.lower():
            where = where_of(one.kind, one.layer)
            detail = "the checksum of its bytes differs"
            raise InvalidWeights(where, WeightsProblem.CHECKSUM, detail)

    def came(self, one: StagedTensor) -> None:
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
