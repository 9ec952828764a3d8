"""Receives a push and stages it into the engine's second slot while the first one decodes.

Whole weights are staged piece by piece as they arrive; an adapter, which is small, when all of it
has arrived. The staging thread checks and packs.

Invariants:
  - a push that is cut short, or that has one wrong tensor, leaves nothing that could be
  activated, and the active weights untouched;
  - one push at a time, from its first message to its last: a second one is refused before it has
  any memory;
  - at most `hand.ITEMS_AHEAD` messages wait for the staging thread, and an adapter's tensors have
  at most `ADAPTER_BYTES_MAX`;
  - a sender that stays silent for `SILENT_S_MAX` ends its push, so that it keeps no other out.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from assay.core.errors import FailedPrecondition
from assay.rollout.errors import InvalidWeights, WeightsNotReady, WeightsProblem
from assay.rollout.interface.checks import U32_MAX, check_integer, check_number
from assay.rollout.models.adapters import (
    Adapter,
    adapter_of,
    parse_config,
    projections_of,
)
from assay.rollout.models.errors import CorruptModel, ModelError
from assay.rollout.models.hugging_face import tensor_key
from assay.rollout.models.model import TensorKind
from assay.rollout.models.staging import SHARE_MIN
from assay.rollout.service.weights.folders import ServerFolder
from assay.rollout.service.weights.forms import AdapterForm, checked_sha256, has_form
from assay.rollout.service.weights.hand import (
    Begun,
    CutShort,
    Hand,
    Item,
    Whole,
    coming_tensor,
)
from assay.rollout.service.weights.parts import (
    Assembly,
    Begin,
    Head,
    Passage,
    PushKind,
    PushSpec,
    Receiver,
    WeightPart,
)
from assay.rollout.service.weights.shared import message_in, passing_in, tensors_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

    from assay.rollout.layout import PauseMode
    from assay.rollout.models.model import ModelConfig, Tensor, TensorKey
    from assay.rollout.models.staging import StagedWeights
    from assay.rollout.models.tensor_checks import AnyTensor

HAND_OVER_S_MAX: Final = 60.0
"""Time-out for the staging thread to take the next tensor."""
SILENT_S_MAX: Final = 60.0
ADAPTER_BYTES_MAX: Final = 1 << 32
IGNORED_SUFFIX: Final = "rotary_emb.inv_freq"


class WeightSlots(Protocol):
    """An engine that can stage weights; `models.engine.Engine` is one."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def ready_version(self) -> int | None: ...
    def stage(
        self, version: int, tensors: Iterable[AnyTensor], *, share_max: float = ...
    ) -> StagedWeights: ...
    def stage_adapter(
        self,
        version: int,
        adapter: Adapter,
        *,
        base_version: int | None = ...,
        share_max: float = ...,
    ) -> StagedWeights: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A completely staged push."""

    kind: PushKind
    weights: StagedWeights
    stage_s: float
    activate: bool
    mode: PauseMode | None
    """As the sender asks for it; see `PushSpec`."""


class Pushes:
    """The pushes to one engine; see the module."""

    def __init__(self, slots: WeightSlots | ServerFolder, shared_dir: Path | None = None) -> None:
        """Push to `slots`; files that a push may name are in `shared_dir`."""
        self._slots = slots
        self._shared_dir = shared_dir
        self._running = asyncio.Lock()
        self._form = LastForm()

    async def receive(self, parts: AsyncIterator[WeightPart]) -> Pushed:
        """Stage the tensors of these messages.

        Raises:
            InvalidRollout: the version or the share of a core is out of range.
            InvalidWeights: names the tensor; nothing is staged.
            FailedPrecondition: the push ended within a tensor, its messages are out of order, or
                its sender stayed silent.
            WeightsNotReady: another push is running.
        """
        if self._running.locked():
            raise WeightsNotReady("another push is running")
        async with self._running:
            messages = _in_order(_timely(parts))
            return await _receive(self._slots, messages, self._shared_dir, self._form)


async def _timely(parts: AsyncIterator[WeightPart]) -> AsyncIterator[WeightPart]:
    """The messages, as long as they come."""
    while True:
        try:
            async with asyncio.timeout(SILENT_S_MAX):
                part = await anext(parts, None)
        except TimeoutError:
            message = f"no message of the push came for {SILENT_S_MAX} s"
            raise FailedPrecondition(message, field="data") from None
        if part is None:
            return
        yield part


async def _in_order(parts: AsyncIterator[WeightPart]) -> AsyncIterator[WeightPart]:
    """The messages, if each is the one after the last: by checksums of their own alone, two that
    changed places would pass."""
    expected = 0
    async for part in parts:
        if part.number is not None and part.number != expected:
            detail = f"message {part.number} of the push came where {expected} is next"
            raise FailedPrecondition(detail, field="number")
        expected += 1
        yield part


async def _receive(
    slots: WeightSlots | ServerFolder,
    parts: AsyncIterator[WeightPart],
    shared_dir: Path | None,
    form: LastForm,
) -> Pushed:
    begun = time.perf_counter()
    first = await anext(parts, None)
    if first is None:
        raise FailedPrecondition("an empty push", field="tensor")
    push = first.push
    check_integer("policy_version", push.version, 0, U32_MAX)
    if push.core_share_max:
        check_number("core_share_max", push.core_share_max, SHARE_MIN, 1.0)
    if push.shared_file and (first.head is not None or await anext(parts, None) is not None):
        raise FailedPrecondition("tensors beside a shared file", field="tensor")
    if isinstance(slots, ServerFolder):
        weights = await slots.receive(push, _with(first, parts), shared_dir)
    elif push.shared_file:
        weights = await asyncio.to_thread(_stage_file, slots, push, shared_dir, form)
    elif push.kind is PushKind.FULL:
        weights = await _receive_whole(slots, push, _with(first, parts))
    else:
        weights = await _receive_adapter(slots, push, _with(first, parts), form)
    stage_s = time.perf_counter() - begun
    return Pushed(
        kind=push.kind, weights=weights, stage_s=stage_s, activate=push.activate, mode=push.mode
    )


async def _with(first: WeightPart, rest: AsyncIterator[WeightPart]) -> AsyncIterator[WeightPart]:
    yield first
    async for part in rest:
        yield part


# -- whole weights ---------------------------------------------------------------------------------
async def _receive_whole(
    slots: WeightSlots, push: PushSpec, parts: AsyncIterator[WeightPart]
) -> StagedWeights:
    hand = Hand()
    staging = asyncio.create_task(
        asyncio.to_thread(slots.stage, push.version, hand.tensors(), share_max=_share(push))
    )
    staging.add_done_callback(_end_is_known)
    receiver = Receiver(_beginning(slots.config))
    try:
        async for part in parts:
            if not await _all_given(hand, _items(receiver, part), staging):
                break
        else:
            receiver.end()
            await _given(hand, None, staging)
    except BaseException:
        await _give_up(hand, staging)
        raise
    return await staging


def _items(receiver: Receiver[Assembly | Passage], part: WeightPart) -> Iterator[Item]:
    """What a message has for the staging thread.

    Raises:
        FailedPrecondition, InvalidWeights: as `Receiver`.
    """
    found = receiver.take(part)
    for tensor in found if receiver.open is None else (receiver.open,):
        if isinstance(tensor, Passage):
            if part.head is not None:
                yield Begun(tensor)
            if part.data:
                yield part
            return
    whole = [one for one in found if isinstance(one, Assembly)]
    if whole:
        yield Whole(part, whole)


def _stage_whole_file(slots: WeightSlots, push: PushSpec, folder: Path | None) -> StagedWeights:
    beginning = _beginning(slots.config)
    with closing(passing_in(folder, push.shared_file, lambda head: beginning(head, None))) as found:
        coming = (coming_tensor(tensor, pieces) for tensor, pieces in found)
        return slots.stage(push.version, coming, share_max=_share(push))


def _share(push: PushSpec) -> float:
    return push.core_share_max or 1.0


def _beginning(config: ModelConfig) -> Begin[Assembly | Passage]:
    """Checks a tensor of whole weights before its bytes; `None` for one that is not needed."""
    shapes = {(kind, layer): shape for kind, layer, shape in config.tensor_shapes()}

    def begin(head: Head, data: memoryview | None) -> Assembly | Passage | None:
        key = tensor_key(head.name)
        if _is_redundant(head.name, key, config):
            return None
        if key is None or key not in shapes:
            raise InvalidWeights(head.where, WeightsProblem.UNKNOWN, "the model has none")
        shape = shapes[key]
        return Passage(head, shape) if data is None else Assembly(head, shape, data)

    return begin


def _is_redundant(name: str, key: TensorKey | None, config: ModelConfig) -> bool:
    """Tensors in trainers' state dicts that the model does not use."""
    tied = config.tied_embeddings and key == (TensorKind.LM_HEAD, 0)
    return tied or name.endswith(IGNORED_SUFFIX)


async def _all_given(
    hand: Hand, items: Iterable[Item], staging: asyncio.Task[StagedWeights]
) -> bool:
    """As `_given`, one after the other."""
    for one in items:
        if not await _given(hand, one, staging):
            return False
    return True


async def _given(hand: Hand, one: Item, staging: asyncio.Task[StagedWeights]) -> bool:
    """Whether the staging thread still takes tensors; if not, `staging` holds its error."""
    if not staging.done() and hand.give_at_once(one):
        return True
    giving = asyncio.create_task(asyncio.to_thread(hand.give, one, HAND_OVER_S_MAX))
    await asyncio.wait({giving, staging}, return_when=asyncio.FIRST_COMPLETED)
    if staging.done():
        hand.drain()
    await giving
    return not staging.done() or staging.exception() is None


async def _give_up(hand: Hand, staging: asyncio.Task[StagedWeights]) -> None:
    hand.drain()
    hand.give(CutShort(), 0)
    await asyncio.wait({staging})


def _end_is_known(staging: asyncio.Task[StagedWeights]) -> None:
    """Mark its error as retrieved: the push may have ended for another reason, and been cancelled
    before this."""
    if not staging.cancelled():
        staging.exception()


# -- adapters --------------------------------------------------------------------------------------
class _AdapterParts:
    """The tensors of one adapter."""

    def __init__(self, slots: WeightSlots, push: PushSpec) -> None:
        self._slots, self._push = slots, push
        self._tensors: dict[str, Tensor] = {}
        self._begun: set[str] = set()
        self._left = ADAPTER_BYTES_MAX
        self._projections = projections_of(slots.config)
        self._receiver: Receiver[Assembly] = Receiver(self.begin)
        with _typed("adapter.config_json"):
            given = parse_config(push.config_json)
            self._config = {"peft_type": push.kind.upper(), **given}
        if str(self._config["peft_type"]).lower() != push.kind:
            detail = f"peft_type {self._config['peft_type']} in a push of kind {push.kind}"
            raise InvalidWeights("adapter.config_json", WeightsProblem.UNKNOWN, detail)

    def begin(self, head: Head, data: memoryview | None) -> Assembly:
        """Check a tensor before its bytes."""
        if head.name not in self._projections.tensors:
            with _typed(head.where):
                self._projections.adapted_by(head.name)
        if head.name in self._begun:
            raise InvalidWeights(head.where, WeightsProblem.REPEATED, "came twice")
        self._left -= 4 * math.prod(head.shape)
        if len(head.shape) != 2 or self._left < 0:
            detail = f"two dimensions; an adapter has at most {ADAPTER_BYTES_MAX} bytes"
            raise InvalidWeights(head.where, WeightsProblem.SHAPE, detail)
        self._begun.add(head.name)
        return Assembly(head, head.shape, data)

    def take(self, part: WeightPart) -> None:
        """Keep the tensors that this message completes."""
        part.check(part.head.where if part.head is not None else "data")
        self.add(self._receiver.take(part))

    def add(self, found: Iterable[Assembly]) -> None:
        """Keep complete tensors, if their checksums are right."""
        for assembly in found:
            self._add(assembly)

    def _add(self, assembly: Assembly) -> None:
        found = checked_sha256(assembly.head, assembly.data)
        self._tensors[assembly.head.name] = assembly.tensor(found)

    def adapter(self) -> Adapter:
        """That of all of them."""
        self._receiver.end()
        with _typed("adapter"):
            return adapter_of(self._config, self._tensors, self._slots.config)

    def form(self, only: WeightPart, adapter: Adapter) -> AdapterForm | None:
        """That of the adapter of this one message, if it can be kept."""
        is_it = has_form(only) and len(only.together) == len(self._tensors)
        return AdapterForm(only, self._tensors, adapter.projections) if is_it else None

    def stage(self, last: WeightPart | None = None) -> StagedWeights:
        """Stage them all; `last`: the message that is still to be taken."""
        if last is not None:
            self.take(last)
        return _staged(self._slots, self._push, self.adapter())


def _staged(slots: WeightSlots, push: PushSpec, adapter: Adapter) -> StagedWeights:
    return slots.stage_adapter(
        push.version, adapter, base_version=push.base_version, share_max=_share(push)
    )


class LastForm:
    """The form of the adapter that came last, for the next one."""

    def __init__(self) -> None:
        self._form: AdapterForm | None = None

    def stage(self, slots: WeightSlots, only: WeightPart) -> StagedWeights:
        """Stage the adapter of one message."""
        form = self._form
        if form is not None and form.fits(only):
            return _staged(slots, only.push, form.filled(only))
        parts = _AdapterParts(slots, only.push)
        parts.take(only)
        adapter = parts.adapter()
        weights = _staged(slots, only.push, adapter)
        self._form = parts.form(only, adapter)
        return weights


async def _receive_adapter(
    slots: WeightSlots, push: PushSpec, parts: AsyncIterator[WeightPart], form: LastForm
) -> StagedWeights:
    """The last message is taken by the thread that stages: each change of threads interrupts one
    that decodes, and most adapters are one message."""
    adapter: _AdapterParts | None = None
    last = await anext(parts)
    async for part in parts:
        if adapter is None:
            adapter = await asyncio.to_thread(_AdapterParts, slots, push)
        await asyncio.to_thread(adapter.take, last)
        last = part
    if adapter is None:
        return await asyncio.to_thread(form.stage, slots, last)
    return await asyncio.to_thread(adapter.stage, last)


def _stage_file(
    slots: WeightSlots, push: PushSpec, folder: Path | None, form: LastForm
) -> StagedWeights:
    if push.kind is PushKind.FULL:
        return _stage_whole_file(slots, push, folder)
    if (only := message_in(folder, push)) is not None:
        return form.stage(slots, only)
    adapter = _AdapterParts(slots, push)
    for assembly in tensors_in(folder, push.shared_file, adapter.begin):
        adapter.add([assembly])
    return adapter.stage()


class _typed:  # noqa: N801 - reads as a statement
    """Makes the errors of adapter files those of weights."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModelError):
            wrong = isinstance(error, CorruptModel)
            problem = WeightsProblem.SHAPE if wrong else WeightsProblem.UNKNOWN
            raise InvalidWeights(self._where, problem, error.message) from None
