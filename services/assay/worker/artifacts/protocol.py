"""The exchange between a slot that asks for artifacts, or for leave to call a provider, and the
host's broker.

Invariant: a slot that got leave to make an artifact and ends silently gives its leave back.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Final

from assay.core.errors import AssayError
from assay.verifiers.port import StageDefinition
from assay.worker.artifacts.broker import ArtifactReply
from assay.worker.artifacts.keys import ArtifactKeys
from assay.worker.parts import HostParts
from assay.worker.slots import messages
from assay.worker.slots.frames import ProtocolError
from assay.worker.slots.process import Making, SlotProcess

RETRY_S: Final = 1.0
"""Wait before a permit is asked for again, where the store did not answer."""
WORDS: Final = frozenset(
    {messages.FIND, messages.ASK, messages.MADE, messages.GIVEN_UP, messages.PERMIT}
)


class ArtifactProtocol:
    """One instance per stage."""

    def __init__(self, definition: StageDefinition, parts: HostParts) -> None:
        self._broker = parts.broker
        self._keys = ArtifactKeys(definition, parts.pipelines)
        self._health = parts.health
        self._spawn = parts.spawn

    def take(self, slot: SlotProcess, frame: list[object]) -> None:
        """Answer one of `WORDS` once the answer is available.

        Raises:
            ProtocolError: the request is not allowed now.
        """
        if frame[0] == messages.PERMIT:
            self._spawn(self._permit(slot, *messages.read_permit(frame)), name="permit")
            return
        key = messages.read_key(frame)
        if frame[0] == messages.FIND:
            work = self._answer(slot, key, self._broker.find)
        elif frame[0] == messages.ASK:
            work = self._answer(slot, key, self._broker.ask)
        else:
            work = self._end_making(slot, key, frame)
        self._spawn(work, name="artifact")

    async def _permit(
        self, slot: SlotProcess, tenant: str, provider: str, limits: Mapping[str, tuple[int, int]]
    ) -> None:
        """A slot has leave only in the name of a tenant whose work it does."""
        assignment = slot.assignment
        held = assignment.held if assignment is not None else ()
        own = next((one.claim.task.tenant for one in held if one.claim.task.tenant == tenant), None)
        try:
            wait_s = RETRY_S if own is None else await self._broker.permit(own, provider, limits)
        except AssayError as error:
            self._health.failed(error)
            wait_s = RETRY_S
        slot.send(messages.PERMITTED, wait_s)

    async def _answer(
        self, slot: SlotProcess, key: str, ask: Callable[[str], Awaitable[ArtifactReply]]
    ) -> None:
        kept_as = await self._keys.kept_as(slot.assignment, key)
        try:
            answer = ArtifactReply() if kept_as is None else await ask(kept_as)
        except AssayError as error:
            self._health.failed(error)
            answer = ArtifactReply()
        if answer.make and kept_as is not None:
            if slot.is_gone:
                await self._broker.given_up(kept_as)
                return
            slot.making = Making(key, kept_as)
        else:
            slot.making = None
        self._reply(slot, answer)

    def _end_making(
        self, slot: SlotProcess, key: str, frame: list[object]
    ) -> Coroutine[object, object, None]:
        making = slot.making
        if making is None or making.key != key:
            raise ProtocolError("it sent an artifact that it was not asked to make")
        content = messages.read_content(frame) if frame[0] == messages.MADE else None
        slot.making = None
        broker, kept_as = self._broker, making.kept_as
        done = broker.given_up(kept_as) if content is None else broker.made(kept_as, content)
        return self._confirm(slot, done)

    async def _confirm(self, slot: SlotProcess, done: Awaitable[None]) -> None:
        await done
        self._reply(slot, ArtifactReply())

    def _reply(self, slot: SlotProcess, answer: ArtifactReply) -> None:
        slot.send(messages.ARTIFACT, answer.content, answer.make)

    def on_ended(self, slot: SlotProcess) -> None:
        """The slot has ended."""
        if slot.making is not None:
            making, slot.making = slot.making, None
            self._spawn(self._broker.given_up(making.kept_as), name="give up")
