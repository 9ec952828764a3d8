"""OFT on this side: `y = W (x R)` is `(W R^T) x`, so a rotation becomes part of whole weights.

R comes from the CPU engine's own code, in double; the product is in float32, rounded to bf16 once.
"""

from __future__ import annotations

import ctypes as ct
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.cuda.weights.packed import Packed, check_finite, rounded
from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.library.binding import load
from assay.rollout.models.adapters import AdapterKind, projections_of
from assay.rollout.models.tensor_checks import where_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.rollout.cuda.sizes import Sizes
    from assay.rollout.models.adapters import AdaptedProjection, Adapter
    from assay.rollout.models.model import ModelConfig


def check_shapes(config: ModelConfig, adapter: Adapter) -> None:
    """Refuse an adapter that does not fit the model.

    Raises:
        InvalidWeights: names the projection.
    """
    shapes, came = projections_of(config).shapes, set()
    for one in adapter.projections:
        where = where_of(one.tensor, one.layer)
        if one.key not in shapes:
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, "the model has none")
        if one.key in came:
            raise InvalidWeights(where, WeightsProblem.REPEATED, "came twice")
        came.add(one.key)
        if (one.rows, one.cols) != shapes[one.key] or not _fits(one):
            raise InvalidWeights(where, WeightsProblem.SHAPE, "parts of other shapes")


def _fits(one: AdaptedProjection) -> bool:
    if one.b is not None:
        parts = one.a.shape, one.b.shape
        return one.kind is AdapterKind.LORA and parts == (
            (one.size, one.cols),
            (one.rows, one.size),
        )
    if one.kind is AdapterKind.LORA or one.size < 2 or one.cols % one.size:
        return False
    upper = one.size * (one.size - 1) // 2
    return one.a.shape in {(1, upper), (one.cols // one.size, upper)}


class Rotated:
    """Merges rotations into packed whole weights."""

    def __init__(self, sizes: Sizes, packed: NDArray[np.uint8]) -> None:
        self._to = Packed(sizes, packed)

    def put(self, one: AdaptedProjection) -> int:
        """One projection, of the model's shape; return its bytes as received.

        Raises:
            InvalidWeights: it is no OFT, or a value is not finite.
        """
        where = where_of(one.tensor, one.layer)
        if one.b is not None:
            detail = "one adapter is LoRA or OFT, not both"
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, detail)
        bits = self._to.take(one.tensor, one.layer, (one.rows, one.cols))
        wide = (bits.astype(np.uint32) << 16).view(np.float32)
        blocks = wide.reshape(one.rows, one.cols // one.size, one.size).swapaxes(0, 1)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            turned = np.matmul(blocks, rotations(one, where).swapaxes(1, 2))
        merged = rounded(turned.swapaxes(0, 1).reshape(one.rows, one.cols))
        self._to.put_bits(one.tensor, one.layer, check_finite(merged, where))
        return one.a.data.nbytes


def rotations(one: AdaptedProjection, where: str) -> NDArray[np.float32]:
    """R of each block, or one of all: (n, size, size).

    Raises:
        InvalidWeights: a value is not finite.
    """
    library = load()
    uppers = one.a.to_float32().astype(np.float64)
    room = np.empty(library.assay_rotation_room(one.size), dtype=np.float64)
    made = np.empty((len(uppers), one.size, one.size), dtype=np.float32)
    for upper, to in zip(uppers, made, strict=True):
        at = library.assay_rotation(
            upper.ctypes.data, one.size, one.kind, one.terms, room.ctypes.data
        )
        if at is None:
            raise InvalidWeights(where, WeightsProblem.NOT_FINITE, "its rotation is not finite")
        to[:] = np.ctypeslib.as_array(
            (ct.c_double * (one.size * one.size)).from_address(at)
        ).reshape(to.shape)
    return made
