"""From the event loop to the thread that stages: tensors, or the pieces of one as they come.

At most `ITEMS_AHEAD` messages wait for the thread. What a sender's CRC-32 is of is checked here, by
that thread, before it is used.
"""

from __future__ import annotations

import contextlib
import queue
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.core.errors import FailedPrecondition
from assay.rollout.models.hugging_face import tensor_key
from assay.rollout.models.tensor_checks import AnyTensor, ComingTensor, StagedTensor
from assay.rollout.service.weights.parts import Assembly, Passage, WeightPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ITEMS_AHEAD: Final = 4


class CutShort(Exception):
    """The sender stopped, or was wrong: the staging thread ends."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Tensors that came in one message."""

    part: WeightPart
    tensors: Sequence[Assembly]


@dataclass(frozen=True, slots=True)
class Begun:
    """A tensor whose pieces follow."""

    tensor: Passage


Item = Whole | Begun | WeightPart | CutShort | None


class Hand:
    """See the module."""

    def __init__(self) -> None:
        self._items: queue.Queue[Item] = queue.Queue(ITEMS_AHEAD)

    def give_at_once(self, one: Item) -> bool:
        """Add an item if there is room."""
        try:
            self._items.put_nowait(one)
        except queue.Full:
            return False
        return True

    def give(self, one: Item, timeout_s: float) -> None:
        """Add an item; blocks while the thread is behind.

        Raises:
            FailedPrecondition: the thread did not take it in time.
        """
        try:
            self._items.put(one, timeout=timeout_s)
        except queue.Full:
            message = f"with its share of a core, staging took no tensor within {timeout_s} s"
            raise FailedPrecondition(message, field="core_share_max") from None

    def tensors(self) -> Iterator[AnyTensor]:
        """For the thread; ends after `None`. All pieces of a tensor are taken before the next one.

        Raises:
            InvalidWeights: a checksum differs.
        """
        while (one := self._next()) is not None:
            if isinstance(one, Begun):
                yield coming_tensor(one.tensor, self._pieces(one.tensor), idle_core=False)
            elif isinstance(one, Whole):
                where = one.tensors[0].head.where if len(one.tensors) == 1 else "data"
                one.part.check(where)
                yield from map(staged, one.tensors)

    def drain(self) -> None:
        """Make room, so that no `give` waits for an ended thread.

        The thread may take the last item itself meanwhile, which is as good.
        """
        with contextlib.suppress(queue.Empty):
            while True:
                self._items.get_nowait()

    def _pieces(self, tensor: Passage) -> Iterator[memoryview]:
        left = tensor.size
        while left:
            piece = self._next()
            assert isinstance(piece, WeightPart)  # noqa: S101 - the next tensor begins after it
            piece.check(tensor.head.where)
            left -= len(piece.data)
            yield memoryview(piece.data)

    def _next(self) -> Item:
        one = self._items.get()
        if isinstance(one, CutShort):
            raise one
        return one


def staged(assembly: Assembly) -> StagedTensor:
    """A tensor that is complete."""
    key = tensor_key(assembly.head.name)
    assert key is not None  # noqa: S101 - checked when it began
    return StagedTensor(
        kind=key[0],
        layer=key[1],
        tensor=assembly.tensor(),
        sha256=assembly.head.sha256 or None,
    )


def coming_tensor(
    tensor: Passage, pieces: Iterator[memoryview], *, idle_core: bool = True
) -> ComingTensor:
    """A tensor that passes in these pieces; `idle_core`: see there."""
    key = tensor_key(tensor.head.name)
    assert key is not None  # noqa: S101 - checked when it began
    return ComingTensor(
        kind=key[0],
        layer=key[1],
        dtype=tensor.dtype,
        shape=tensor.shape,
        pieces=pieces,
        sha256=tensor.head.sha256 or None,
        idle_core=idle_core,
    )
