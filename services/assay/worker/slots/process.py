"""The host's handle on one slot: its process and its channel.

Reports every frame to its owner, and its end exactly once, by the first sign of it: the channel
closes, the process dies, or it breaks the protocol (then it is killed).
"""

import asyncio
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast

from assay.sandbox.accounting.blocked import BlockedTime
from assay.worker.assignment import Assignment  # noqa: TC001 - seen by mypy and readers alike
from assay.worker.forking.processes import Condition
from assay.worker.slots import messages
from assay.worker.slots.frames import ProtocolError, SlotFrameReader, encode

GATHER_S: Final = 0.002
"""How long frames gather, in s, where a slot sends one per request and has more than one left."""
LAST_WORDS_S: Final = 1.0
"""How long a dead process's channel may stay open."""


class SlotState(enum.Enum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"


class Making(NamedTuple):
    """Leave to make an artifact."""

    key: str
    """As the slot calls it."""
    kept_as: str
    """Its key in the store."""


class ForkedSlot(Protocol):
    """A slot's process and the channel to it: the host's interface to the machine."""

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call `on_end` once the process has ended, until `close`."""

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Open the channel."""

    def kill(self) -> None:
        """Kill the process and all below it."""

    def close(self) -> None:
        """Release the handle of the process."""

    def cpu_ns(self) -> int:
        """CPU time that it has used."""

    def blocked_time(self) -> BlockedTime:
        """A meter of the time that it and all below it are blocked."""

    def condition(self) -> Condition:
        """How the kernel sees it."""


class SlotProcess(asyncio.Protocol):
    """The host's side of one slot: its process, the messages to and from it."""

    def __init__(
        self,
        forked: ForkedSlot,
        *,
        number: int,
        scratch: Path,
        asked_ns: int,
        on_frame: Callable[["SlotProcess", list[object]], None],
        on_gone: Callable[["SlotProcess", str], None],
    ) -> None:
        """Wrap a forked slot.

        Args:
            forked: its process and channel.
            number: unique in the pool.
            scratch: its folder.
            asked_ns: when it was asked for, as a monotonic clock has it.
            on_frame: the slot sent a frame; raises `ProtocolError` when it is not allowed now.
            on_gone: the slot has ended; called once.
        """
        self.number = number
        self.scratch = scratch
        self.asked_ns = asked_ns
        self.state = SlotState.STARTING
        self.assignment: Assignment | None = None
        self.ahead: Assignment | None = None
        """Sent already; it begins with this one when `assignment` is done."""
        self.served = 0
        self.is_retiring = False
        """Has sent RETIRE."""
        self.last_words = ""
        self.making: Making | None = None
        """The artifact that it has leave to make."""
        self._forked = forked
        self._on_frame, self._on_gone = on_frame, on_gone
        self._reader = SlotFrameReader()
        self._transport: asyncio.Transport | None = None
        self.is_gone = False
        self._loop = asyncio.get_running_loop()
        forked.watch(self._on_dead)

    async def connect(self) -> None:
        """Open the channel."""
        await self._forked.connect(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's call."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Asyncio's call."""
        try:
            for frame in self._reader.feed(data):
                if self.is_gone:
                    return
                self._on_frame(self, frame)
            if self.assignment is not None and self.assignment.sends_more:
                self._gather()
        except ProtocolError as error:
            self.kill(f"it broke the protocol: {error}")

    def _gather(self) -> None:
        """Read its next frames together, `GATHER_S` later: each read costs the loop a turn."""
        if self._transport is not None and not self.is_gone and self._transport.is_reading():
            self._transport.pause_reading()
            self._loop.call_later(GATHER_S, self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self.is_gone:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's call."""
        self._end("the channel closed")

    def send(self, *parts: object) -> None:
        """Send one frame; dropped if the slot is gone."""
        if self._transport is not None and not self.is_gone:
            self._transport.write(encode(*parts))

    def finish(self) -> None:
        """Ask it to close its handler and exit."""
        self.state = SlotState.ENDING
        self.send(messages.END)

    def kill(self, why: str) -> None:
        """Kill the whole process tree immediately."""
        if not self.is_gone:
            self._end(why)

    def cpu_ns(self) -> int:
        """CPU time that it has used."""
        return self._forked.cpu_ns()

    def blocked_time(self) -> BlockedTime:
        """A meter of the time that it and all below it are blocked."""
        return self._forked.blocked_time()

    def condition(self) -> Condition:
        """How the kernel sees it."""
        return self._forked.condition()

    def _on_dead(self) -> None:
        """Its last frames may still be in the channel, which closes next unless a child has it."""
        self._loop.call_later(LAST_WORDS_S, self._end, "the process died")

    def _end(self, why: str) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        # It, or a process that it started, may outlive its channel.
        self._forked.kill()
        self._forked.close()
        if self._transport is not None:
            self._transport.abort()
        self._on_gone(self, why)
