"""What an operator sees of the engine: places of rollouts, and its trace."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from assay.core.errors import FailedPrecondition
from assay.rollout.errors import RolloutGone

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from assay.edge.clock import Clock
    from assay.rollout.interface.rollouts import Progress, RolloutRef
    from assay.rollout.layout import TraceRecord

ROLLOUTS_LISTED_MAX: Final = 1_024
TRACE_EVERY_S: Final = 0.1
TRACE_PAGE_MAX: Final = 8_192


class QueueName(StrEnum):
    """The queue that owns a rollout."""

    PREFILL = "prefill"
    DECODE = "decode"
    REWARD = "reward"
    TRAJECTORY = "trajectory"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlace:
    """A rollout, and the queue that owns it."""

    session_id: str
    group_id: str
    member: int
    queue: QueueName
    submitted_ns: int
    decoded_ns: int
    ref: RolloutRef


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePage:
    """Events in order, and how many before them were overwritten."""

    records: Sequence[TraceRecord]
    lost: int


@runtime_checkable
class Peeked(Protocol):
    """An engine that shows tokens of running rollouts."""

    def peek(self, ref: RolloutRef, start: int = ..., n: int = ...) -> Progress: ...


@runtime_checkable
class Traced(Protocol):
    """An engine with a trace ring."""

    def set_trace(self, *, on: bool) -> None: ...
    def read_trace(self, start: int = ...) -> tuple[list[TraceRecord], int, int]: ...


@runtime_checkable
class Remote(Protocol):
    """Counts of an engine that is a server."""

    @property
    def away(self) -> str: ...
    @property
    def last_error(self) -> str: ...


def server_away(stats: object) -> str:
    """Why the engine's server does not serve now; empty: it does, or there is none."""
    return stats.away if isinstance(stats, Remote) else ""


def last_error(stats: object) -> str:
    """Why the engine's server lost a request; empty: it lost none, or there is none."""
    return stats.last_error if isinstance(stats, Remote) else ""


def queue_of(engine: object, ref: RolloutRef) -> QueueName:
    """The queue of a rollout that has not finished decoding."""
    if not isinstance(engine, Peeked):
        return QueueName.DECODE
    try:
        return QueueName.DECODE if engine.peek(ref, 0, 1).tokens else QueueName.PREFILL
    except RolloutGone:
        return QueueName.TRAJECTORY


class TraceReaders:
    """The trace of one engine, for any number of readers; it is recorded while there is one."""

    def __init__(self, engine: object, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._readers = 0
        self._closed = False

    def close(self) -> None:
        """Let every reader end."""
        self._closed = True

    async def read(self) -> AsyncGenerator[TracePage, None]:
        """Events from now on, until `close`.

        Raises:
            FailedPrecondition: the engine has no trace.
        """
        engine = self._engine
        if not isinstance(engine, Traced):
            raise FailedPrecondition("this engine records no trace")
        _, position, _ = await asyncio.to_thread(engine.read_trace)
        self._readers += 1
        try:
            engine.set_trace(on=True)
            while not self._closed:
                await self._clock.sleep(TRACE_EVERY_S)
                found = await asyncio.to_thread(engine.read_trace, position)
                records, position, lost = found
                for first in range(0, len(records), TRACE_PAGE_MAX):
                    yield TracePage(records=records[first : first + TRACE_PAGE_MAX], lost=lost)
                    lost = 0
        finally:
            self._readers -= 1
            if self._readers == 0:
                engine.set_trace(on=False)
