"""The messages of a push, and the tensors that are put together from them.

Invariant: memory is allocated for a tensor only after its name and shape were checked. Tensors that
come whole keep the bytes of their message: they are not copied. A `Passage` has no memory: its
bytes are passed on as they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from assay.core.errors import FailedPrecondition
from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.library.binding import crc32
from assay.rollout.models.model import DType, Tensor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from assay.rollout.layout import PauseMode

_DTYPES: Final[dict[str, tuple[DType, np.dtype[Any]]]] = {
    "F32": (DType.F32, np.dtype("<f4")),
    "F16": (DType.F16, np.dtype("<f2")),
    "BF16": (DType.BF16, np.dtype("<u2")),
}


class PushKind(StrEnum):
    """What a push has."""

    FULL = "full"
    """Every tensor of the model."""
    LORA = "lora"
    OFT = "oft"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSpec:
    """What a push is; in its first message."""

    version: int = 0
    core_share_max: float = 0.0
    kind: PushKind = PushKind.FULL
    config_json: str = ""
    """Of an adapter: the content of peft's adapter_config.json."""
    base_version: int | None = None
    """Of an adapter: the version of the whole weights it belongs to; `None`: the active ones."""
    shared_file: str = ""
    """Name of a file in the shared folder that holds the tensors; empty: messages bring them."""
    activate: bool = False
    """They are activated once they are staged."""
    mode: PauseMode | None = None
    """How; `None`: as the open sessions say."""


class Head(NamedTuple):
    """A sender's description of a tensor, before its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str = ""

    @property
    def where(self) -> str:
        """The field that errors name."""
        return f"tensors.{self.name}"

    @property
    def size(self) -> int:
        """Bytes of the tensor.

        Raises:
            InvalidWeights: its dtype is not known, or its shape is not one.
        """
        if self.dtype not in _DTYPES:
            raise InvalidWeights(self.where, WeightsProblem.DTYPE, f"one of {', '.join(_DTYPES)}")
        if min(self.shape, default=0) <= 0:
            raise InvalidWeights(self.where, WeightsProblem.SHAPE, f"{self.shape}")
        return math.prod(self.shape) * _DTYPES[self.dtype][1].itemsize

    def is_all(self, data: bytes | memoryview) -> bool:
        """Whether these are all bytes of the tensor; false, if it belongs to no tensor."""
        known = self.dtype in _DTYPES and min(self.shape, default=0) > 0
        return known and len(data) == self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPart:
    """One message of a push."""

    push: PushSpec = field(default_factory=PushSpec)
    head: Head | None = None
    """A tensor begins; its bytes are in this message and in those that follow."""
    together: tuple[Head, ...] = ()
    """Whole tensors; their bytes follow each other in `data`."""
    data: bytes | memoryview = b""
    crc32: int | None = None
    """Of `data`, as its sender computed it, from `number` on; `None`: not checked."""
    number: int | None = None
    """Of this message in its push; `None`: not checked."""

    def check(self, where: str = "data") -> None:
        """Compare the CRC-32 of the bytes with the sender's, if there is one.

        Raises:
            InvalidWeights: they differ; names `where`.
        """
        if self.crc32 is not None and crc32(self.data, self.number or 0) != self.crc32:
            detail = "the CRC-32 of its bytes differs, or they belong to another place"
            raise InvalidWeights(where, WeightsProblem.CHECKSUM, detail)


T = TypeVar("T", bound="Assembly | Passage")
Begin = Callable[[Head, memoryview | None], T | None]
"""Checks a tensor before its bytes are taken, and makes its `Assembly`, over the bytes if all of
them are there, or its `Passage`; `None`: the tensor is not needed."""


def _stored(head: Head, shape: tuple[int, ...]) -> tuple[DType, np.dtype[Any]]:
    """How the tensor's elements are kept.

    Raises:
        InvalidWeights: its dtype is not known, or it is not of this shape.
    """
    if head.dtype not in _DTYPES:
        raise InvalidWeights(head.where, WeightsProblem.DTYPE, f"one of {', '.join(_DTYPES)}")
    differs = head.shape != shape and math.prod(head.shape) != math.prod(shape)
    if differs or min(head.shape, default=0) <= 0:
        found = f"{head.shape} where the model has {shape}"
        raise InvalidWeights(head.where, WeightsProblem.SHAPE, found)
    return _DTYPES[head.dtype]


class Passage:
    """One tensor whose bytes are passed on as they come."""

    def __init__(self, head: Head, shape: tuple[int, ...]) -> None:
        """Pass a tensor on.

        Raises:
            InvalidWeights: its dtype is not known, or it is not of this shape.
        """
        self.head, self.shape = head, shape
        self.dtype, stored = _stored(head, shape)
        self.size = math.prod(shape) * stored.itemsize
        """Bytes of all of it."""
        self._passed = 0

    @property
    def whole(self) -> bool:
        """Whether all its bytes have passed."""
        return self._passed == self.size

    def add(self, data: bytes | memoryview) -> None:
        """These bytes pass next.

        Raises:
            InvalidWeights: there are too many.
        """
        self._passed += len(data)
        if self._passed > self.size:
            raise _too_many(self.head, self.size)


class Assembly:
    """One tensor that is being received."""

    def __init__(self, head: Head, shape: tuple[int, ...], data: memoryview | None = None) -> None:
        """Allocate its memory; with `data`, which are all its bytes, keep those.

        Raises:
            InvalidWeights: its dtype is not known, or it is not of this shape.
        """
        self.head = head
        self._dtype, stored = _stored(head, shape)
        self._shape = shape
        if data is None:
            self._values = np.empty(math.prod(shape), dtype=stored)
            self._bytes = self._values.view(np.uint8).data
            self._filled = 0
        else:
            self._values, self._bytes = np.frombuffer(data, dtype=stored), data
            self._filled = len(data)
            if not self._values.flags.aligned:
                self._values = self._values.copy()

    @property
    def room(self) -> memoryview:
        """Where its next bytes go."""
        return self._bytes[self._filled :]

    @property
    def data(self) -> memoryview:
        """All its bytes."""
        return self._bytes

    @property
    def whole(self) -> bool:
        """Whether all its bytes have arrived."""
        return self._filled == len(self._bytes)

    def add(self, data: bytes | memoryview) -> None:
        """Append the next bytes.

        Raises:
            InvalidWeights: there are too many.
        """
        end = self._filled + len(data)
        if end > len(self._bytes):
            raise _too_many(self.head, len(self._bytes))
        self._bytes[self._filled : end] = data
        self._filled = end

    def filled(self, n: int) -> None:
        """`n` bytes were written to `room`."""
        self._filled += n

    def tensor(self, sha256: str = "") -> Tensor:
        """The complete tensor; `sha256`: of its bytes, if it was computed already."""
        return Tensor(self._values.reshape(self._shape), self._dtype, sha256)


def _too_many(head: Head, size: int) -> InvalidWeights:
    return InvalidWeights(head.where, WeightsProblem.SHAPE, f"more than {size} bytes")


class Receiver(Generic[T]):
    """Puts the tensors of a push together."""

    def __init__(self, begin: Begin[T]) -> None:
        """`begin` checks each tensor; those for which it returns `None` are skipped."""
        self._begin = begin
        self._assembly: T | None = None
        self._skipping = False

    @property
    def open(self) -> T | None:
        """The tensor that is not complete."""
        return self._assembly

    def take(self, part: WeightPart) -> list[T]:
        """The tensors that this message completes.

        Raises:
            FailedPrecondition: bytes without a tensor, or an incomplete tensor.
            InvalidWeights: `begin` refuses a tensor, or it has too many bytes.
        """
        if part.head is not None or part.together:
            if self._assembly is not None:
                message = "a tensor begins before the last one is complete"
                raise FailedPrecondition(message, field="tensor")
            self._skipping = False
        if part.together:
            return self._together(part)
        if part.head is not None:
            whole = part.head.is_all(part.data)
            self._assembly = self._begin(part.head, memoryview(part.data) if whole else None)
            self._skipping = self._assembly is None
            if whole and self._assembly is not None:
                assembly, self._assembly = self._assembly, None
                return [assembly]
        if self._skipping:
            return []
        if self._assembly is None:
            if part.data:
                raise FailedPrecondition("bytes without a tensor", field="data")
            return []
        self._assembly.add(part.data)
        if not self._assembly.whole:
            return []
        assembly, self._assembly = self._assembly, None
        return [assembly]

    def _together(self, part: WeightPart) -> list[T]:
        sizes = [head.size for head in part.together]
        if sum(sizes) != len(part.data):
            detail = f"{len(part.data)} bytes for tensors of {sum(sizes)}"
            raise FailedPrecondition(detail, field="data")
        found, data, at = [], memoryview(part.data), 0
        for head, size in zip(part.together, sizes, strict=True):
            assembly = self._begin(head, data[at : at + size])
            if assembly is not None:
                found.append(assembly)
            at += size
        return found

    def end(self) -> None:
        """The push has ended.

        Raises:
            FailedPrecondition: within a tensor.
        """
        if self._assembly is not None:
            raise FailedPrecondition("the push ended within a tensor", field="data")


async def whole_tensors(
    parts: AsyncIterator[WeightPart], begin: Begin[Assembly]
) -> AsyncIterator[list[Assembly]]:
    """Tensors as messages complete them.

    Raises:
        FailedPrecondition, InvalidWeights: as `Receiver`.
    """
    receiver = Receiver(begin)
    async for part in parts:
        part.check()
        if found := receiver.take(part):
            yield found
    receiver.end()
