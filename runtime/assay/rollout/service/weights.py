"""Weights received in messages, staged into the engine's second slot while it decodes.

Tensors are assembled one at a time; the staging thread checks and packs them.

Invariants:
  - memory is allocated for a tensor only after its name and shape matched the model's;
  - a push that is cut short, or that has one wrong tensor, leaves nothing that could be
  activated, and the active weights untouched;
  - at most `TENSORS_AHEAD` tensors wait for the staging thread.
"""

from __future__ import annotations

import asyncio
import math
import queue
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from assay.core.errors import FailedPrecondition
from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.models.hugging_face import tensor_key
from assay.rollout.models.model import DType, Tensor, TensorKind
from assay.rollout.models.staging import StagedTensor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from assay.rollout.models.model import ModelConfig, TensorKey
    from assay.rollout.models.staging import StagedWeights

TENSORS_AHEAD: Final = 2
HAND_OVER_S_MAX: Final = 60.0
"""Time-out for the staging thread to take the next tensor."""
_DTYPES: Final[dict[str, tuple[DType, np.dtype[Any]]]] = {
    "F32": (DType.F32, np.dtype("<f4")),
    "F16": (DType.F16, np.dtype("<f2")),
    "BF16": (DType.BF16, np.dtype("<u2")),
}
IGNORED_SUFFIX: Final = "rotary_emb.inv_freq"


class WeightSlots(Protocol):
    """An engine that can stage weights; `models.engine.Engine` is one."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def ready_version(self) -> int | None: ...
    def stage(
        self, version: int, tensors: Iterable[StagedTensor], *, share_max: float = ...
    ) -> StagedWeights: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A sender's description of a tensor, before its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message of a push."""

    version: int = 0
    core_share_max: float = 0.0
    head: Head | None = None
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A completely staged push."""

    weights: StagedWeights
    stage_s: float


class _CutShort(Exception):
    """The sender stopped, or was wrong: the staging thread ends."""


class _Hand:
    """From the event loop to the staging thread."""

    def __init__(self) -> None:
        self._tensors: queue.Queue[StagedTensor | _CutShort | None] = queue.Queue(TENSORS_AHEAD)

    def give(self, one: StagedTensor | _CutShort | None, timeout_s: float) -> None:
        """Add an item; blocks while the thread is behind.

        Raises:
            queue.Full: the thread did not take it in time.
        """
        self._tensors.put(one, timeout=timeout_s)

    def tensors(self) -> Iterator[StagedTensor]:
        """Items for the thread; ends after `None`."""
        while (one := self._tensors.get()) is not None:
            if isinstance(one, _CutShort):
                raise one
            yield one

    def drain(self) -> None:
        """Make room, so that no `give` waits for an ended thread."""
        while not self._tensors.empty():
            self._tensors.get_nowait()


class _Assembly:
    """One tensor that is being received."""

    def __init__(self, head: Head, key: TensorKey, config: ModelConfig) -> None:
        self._head, self._key = head, key
        where = f"tensors.{head.name}"
        if head.dtype not in _DTYPES:
            raise InvalidWeights(where, WeightsProblem.DTYPE, f"one of {', '.join(_DTYPES)}")
        self._dtype, stored = _DTYPES[head.dtype]
        wanted = next(
            (shape for kind, layer, shape in config.tensor_shapes() if (kind, layer) == key), None
        )
        if wanted is None:
            raise InvalidWeights(where, WeightsProblem.UNKNOWN, "the model has none")
        if math.prod(head.shape) != math.prod(wanted) or min(head.shape, default=0) <= 0:
            found = f"{head.shape} where the model has {wanted}"
            raise InvalidWeights(where, WeightsProblem.SHAPE, found)
        self._shape = wanted
        self._values = np.empty(math.prod(wanted), dtype=stored)
        self._bytes = self._values.view(np.uint8).data
        self._filled = 0

    @property
    def whole(self) -> bool:
        """Whether all its bytes have arrived."""
        return self._filled == len(self._bytes)

    def add(self, data: bytes) -> None:
        """Append the next bytes.

        Raises:
            InvalidWeights: there are too many.
        """
        end = self._filled + len(data)
        if end > len(self._bytes):
            where = f"tensors.{self._head.name}"
            raise InvalidWeights(where, WeightsProblem.SHAPE, f"more than {len(self._bytes)} bytes")
        self._bytes[self._filled : end] = data
        self._filled = end

    def staged(self) -> StagedTensor:
        """The complete tensor."""
        kind, layer = self._key
        return StagedTensor(
            kind=kind,
            layer=layer,
            tensor=Tensor(data=self._values.reshape(self._shape), dtype=self._dtype),
            sha256=self._head.sha256 or None,
        )


async def receive(slots: WeightSlots, parts: AsyncIterator[Part]) -> Pushed:
    """Stage the received tensors.

    Raises:
        InvalidWeights: names the tensor; nothing is staged.
        FailedPrecondition: the push ended within a tensor.
        WeightsNotReady: another push is running.
    """
    begun = time.perf_counter()
    first = await anext(parts, None)
    if first is None:
        raise FailedPrecondition("an empty push", field="tensor")
    hand = _Hand()
    share = first.core_share_max or 1.0
    staging = asyncio.create_task(
        asyncio.to_thread(slots.stage, first.version, hand.tensors(), share_max=share)
    )
    try:
        await _feed(slots.config, first, parts, hand, staging)
    except BaseException:
        await _give_up(hand, staging)
        raise
    return Pushed(weights=await staging, stage_s=time.perf_counter() - begun)


async def _feed(
    config: ModelConfig,
    first: Part,
    parts: AsyncIterator[Part],
    hand: _Hand,
    staging: asyncio.Task[StagedWeights],
) -> None:
    assembly: _Assembly | None = None
    ignoring = False
    async for part in _with(first, parts):
        if part.head is not None:
            if assembly is not None:
                raise FailedPrecondition("a tensor begins before the last one is complete")
            key = tensor_key(part.head.name)
            ignoring = _is_redundant(part.head.name, key, config)
            if not ignoring:
                assembly = _Assembly(part.head, _known(part.head.name, key), config)
        if ignoring:
            continue
        if assembly is None:
            if part.data:
                raise FailedPrecondition("bytes without a tensor", field="data")
            continue
        assembly.add(part.data)
        if assembly.whole:
            if not await _given(hand, assembly.staged(), staging):
                return
            assembly = None
    if assembly is not None:
        raise FailedPrecondition("the push ended within a tensor", field="data")
    await _given(hand, None, staging)


async def _with(first: Part, rest: AsyncIterator[Part]) -> AsyncIterator[Part]:
    yield first
    async for part in rest:
        yield part


async def _given(
    hand: _Hand, one: StagedTensor | None, staging: asyncio.Task[StagedWeights]
) -> bool:
    """Whether the staging thread still takes tensors; if not, `staging` holds its error."""
    giving = asyncio.create_task(asyncio.to_thread(hand.give, one, HAND_OVER_S_MAX))
    await asyncio.wait({giving, staging}, return_when=asyncio.FIRST_COMPLETED)
    if staging.done():
        hand.drain()
    await giving
    return not staging.done() or staging.exception() is None


async def _give_up(hand: _Hand, staging: asyncio.Task[StagedWeights]) -> None:
    hand.drain()
    hand.give(_CutShort(), 0)
    await asyncio.wait({staging})
    if not staging.cancelled():
        staging.exception()  # mark as retrieved: the reason is what ended the push


def _known(name: str, key: TensorKey | None) -> TensorKey:
    if key is None:
        raise InvalidWeights(f"tensors.{name}", WeightsProblem.UNKNOWN, "the model has none")
    return key


def _is_redundant(name: str, key: TensorKey | None, config: ModelConfig) -> bool:
    """Tensors in trainers' state dicts that the model does not use."""
    tied = config.tied_embeddings and key == (TensorKind.LM_HEAD, 0)
    return tied or name.endswith(IGNORED_SUFFIX)
