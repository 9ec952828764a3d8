"""An adapter that is pushed again with other values: what was found of its form still holds.

A trainer pushes the same tensors of the same config at each step. Looking at each of them again
costs a multiple of what their bytes cost, as decoding has filled the caches.

Invariants:
  - a form is one of an adapter that was staged whole from one message, and is used for the same
    config and the same names, dtypes and shapes in the same order only; anything else is looked
    at in full;
  - it has none of the values; their checksums are compared at every push.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.rollout.errors import InvalidWeights
from assay.rollout.models.adapters import AdaptedProjection, Adapter
from assay.rollout.models.model import DType, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assay.rollout.service.weights.parts import Head, PushKind, WeightPart

_F32: Final = "F32"


def checked_sha256(head: Head, data: memoryview) -> str:
    """SHA-256 of a tensor's bytes, hex.

    Raises:
        InvalidWeights: its sender says another.
    """
    found = hashlib.sha256(data).hexdigest()
    if head.sha256 and found != head.sha256.lower():
        raise InvalidWeights.of_checksum(head.where)
    return found


class AdapterForm:
    """See the module."""

    def __init__(
        self, part: WeightPart, tensors: Mapping[str, Tensor], made: Iterable[AdaptedProjection]
    ) -> None:
        """`made` of these `tensors`, which came in `part`."""
        self._of = _named(part)
        self._size = len(part.data)
        number = {id(tensors[head.name]): i for i, head in enumerate(part.together)}
        self._projections = [
            (_maker(one), number[id(one.a)], None if one.b is None else number[id(one.b)])
            for one in made
        ]

    def fits(self, part: WeightPart) -> bool:
        """Whether the message has an adapter of this form."""
        return len(part.data) == self._size and _named(part) == self._of

    def filled(self, part: WeightPart) -> Adapter:
        """The adapter of a message that fits.

        Raises:
            InvalidWeights: a checksum differs.
        """
        part.check()
        tensors = list(_tensors(part))
        return Adapter(
            tuple(
                make(a=tensors[a], b=None if b is None else tensors[b])
                for make, a, b in self._projections
            )
        )


def has_form(part: WeightPart) -> bool:
    """Whether a form can be kept of this message: all of its tensors are float32."""
    return bool(part.together) and all(head.dtype == _F32 for head in part.together)


def _named(part: WeightPart) -> tuple[PushKind, str, Sequence[tuple[object, ...]]]:
    return part.push.kind, part.push.config_json, [head[:3] for head in part.together]


def _maker(one: AdaptedProjection) -> Callable[..., AdaptedProjection]:
    """Like it but for its tensors, which are not kept."""
    return partial(
        AdaptedProjection,
        tensor=one.tensor,
        layer=one.layer,
        kind=one.kind,
        rows=one.rows,
        cols=one.cols,
        size=one.size,
        scale=one.scale,
        terms=one.terms,
    )


def _tensors(part: WeightPart) -> Iterable[Tensor]:
    values = np.frombuffer(part.data, "<f4")
    if not values.flags.aligned:
        values = values.copy()
    data, at = values.data.cast("B"), 0
    for head in part.together:
        rows, cols = head.shape
        own = data[4 * at : 4 * (at + rows * cols)]
        found = checked_sha256(head, own)
        yield Tensor(values[at : at + rows * cols].reshape(rows, cols), DType.F32, found)
        at += rows * cols
