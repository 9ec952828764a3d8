"""The host's handle on one slot: its process and its channel.

Tells its owner of every frame, and once of its end, whichever is seen first: the channel closes,
the process dies, or it talks nonsense (then it is killed).
"""

import asyncio
import contextlib
import enum
import os
from pathlib import Path
from typing import Final, Protocol, cast

from assay.sandbox.accounting.blocked import BlockedTime, tree
from assay.worker.assignment import Assignment  # noqa: TC001 - seen by mypy and readers alike
from assay.worker.forking import processes
from assay.worker.forking.client import Forked
from assay.worker.slots import messages
from assay.worker.slots.frames import FrameReader, ProtocolError, encode

LAST_WORDS_S: Final = 1.0
"""How long a dead process's channel may stay open."""


class SlotState(enum.Enum):
    """Where a slot stands."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"


class SlotOwner(Protocol):
    """Who is told."""

    def on_frame(self, slot: "SlotProcess", frame: list[object]) -> None:
        """The slot said something.

        Raises:
            ProtocolError: it may not say that now.
        """

    def on_gone(self, slot: "SlotProcess", why: str) -> None:
        """The slot is no more; called once."""


class SlotProcess(asyncio.Protocol):
    """One slot."""

    def __init__(self, forked: Forked, *, number: int, scratch: Path, owner: SlotOwner) -> None:
        self.pid = forked.pid
        self.number = number
        self.scratch = scratch
        self.state = SlotState.STARTING
        self.assignment: Assignment | None = None
        self.served = 0
        self.is_leaving = False
        """Busy, and not wanted any more when done."""
        self.is_retiring = False
        """Said RETIRE."""
        self.last_words = ""
        self.making: str | None = None
        """The artifact that it was told to make."""
        self._pidfd = forked.pidfd
        self._owner = owner
        self._reader = FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self.is_gone = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pidfd, self._on_dead)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's call."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Asyncio's call."""
        try:
            for frame in self._reader.feed(data):
                if self.is_gone:
                    return
                self._owner.on_frame(self, frame)
        except ProtocolError as nonsense:
            self.kill(f"it talked nonsense: {nonsense}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's call."""
        self._end("the channel closed")

    def send(self, *parts: object) -> None:
        """Send one frame; into nothing when the slot is gone."""
        if self._transport is not None and not self.is_gone:
            self._transport.write(encode(*parts))

    def finish(self) -> None:
        """Ask it to close its handler and exit."""
        self.state = SlotState.ENDING
        self.send(messages.END)

    def kill(self, why: str) -> None:
        """Kill the whole tree, at once."""
        if not self.is_gone:
            processes.kill_tree(self.pid, self._pidfd)
            self._end(why)

    def cpu_ns(self) -> int:
        """CPU time that it has used."""
        return processes.cpu_ns(self.pid)

    def blocked_time(self) -> BlockedTime:
        """A meter of the time that it and all below it are blocked."""
        return BlockedTime(lambda: tree(self.pid))

    def condition(self) -> processes.Condition:
        """How the kernel sees it."""
        return processes.condition(self.pid)

    def _on_dead(self) -> None:
        """Its last words may still be in the channel, whose end follows; unless an heir has it."""
        self._loop.remove_reader(self._pidfd)
        self._loop.call_later(LAST_WORDS_S, self._end, "the process died")

    def _end(self, why: str) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self._loop.remove_reader(self._pidfd)
        # It may have closed its channel and live on, and so may what it has started.
        processes.kill_tree(self.pid, self._pidfd)
        with contextlib.suppress(OSError):
            os.close(self._pidfd)
        if self._transport is not None:
            self._transport.abort()
        self._owner.on_gone(self, why)
