"""The store and the network to it: one server for all nodes, each command atomic at its instant.

The server is the queue's model behind `MemoryStore`; every command that it executes is logged
with its time, its arguments and its result. A node reaches it through a `NodeStore`; a request or
its response may be lost, late, or refused because the server is down. A failover returns to the
state of a moment ago: it executes the log again up to that point, so later acknowledged writes
are lost.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from assay.core.errors import AssayError, DependencyDown
from assay.core.ids import BatchId, StageName
from assay.sim.platform.nodes import EPOCH_NS, Node
from assay.testing.memory_store import MemoryStore
from assay.testing.queue_model import QueueLimits, QueueModel

LIMITS: Final = QueueLimits(
    batch_overdue_ns=600 * 10**9,
    results_kept_ns=3_600 * 10**9,
    history_batches=6,
    dead_letters_max=40,
    dead_letters_per_tenant_max=25,
)
ANSWER_S_MAX: Final = 0.004
"""Longest delay of a command, and of its response."""
TIMEOUT_S: Final = 1.0
"""Delay after a lost request or response."""


class SimulatedCall(NamedTuple):
    """One executed command."""

    now_ns: int
    """By the server's clock."""
    node: str
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    answer: Any
    """The result, or the error that was raised."""


OnCommand = Callable[[SimulatedCall], None]


class Witness:
    """Sees what nodes ask, and the answers that reach them."""

    def on_call(self, node: str, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """The node asks now."""

    def on_command(self, command: SimulatedCall) -> None:
        """The server has executed it, now."""

    def on_answer(self, command: SimulatedCall) -> None:
        """The answer reaches the node that asked, now."""


class ServerClock:
    """The server's time; while the log is executed again, the log's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset_ns = 0
        self.fixed_ns: int | None = None

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        if self.fixed_ns is not None:
            return self.fixed_ns
        return EPOCH_NS + round(self._loop.time() * 1e9) + self.offset_ns


@dataclass(slots=True)
class Weather:
    """State of the network and the disk, for all nodes."""

    slow: float = 1.0
    """Factor on all durations."""
    lose_requests: float = 0.0
    lose_answers: float = 0.0
    """Probabilities."""


class StoreServer:
    """The store's server."""

    def __init__(self, seed: str, loop: asyncio.AbstractEventLoop, on_command: OnCommand) -> None:
        self.clock = ServerClock(loop)
        self.memory = MemoryStore(self.clock, LIMITS)
        self.weather = Weather()
        self.is_up = True
        self.log: list[SimulatedCall] = []
        self.random = random.Random(f"{seed}/store")  # noqa: S311 - to be repeated, not secret
        self.blocked: dict[asyncio.Task[StageName | None], None] = {}
        self._on_command = on_command
        self.witness = Witness()

    @property
    def model(self) -> QueueModel:
        """The state, for inspection."""
        return self.memory.model

    def carry_out(
        self, node: str, name: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> SimulatedCall:
        """Execute one command, atomically; its answer may be an error."""
        answer = run(self.memory, name, args, options)
        command = SimulatedCall(self.clock.now_ns(), node, name, args, options, answer)
        self.log.append(command)
        self.witness.on_command(command)
        self._on_command(command)
        return command

    def go_down(self) -> None:
        """Stop answering; blocked calls fail."""
        self.is_up = False
        for waiting in list(self.blocked):
            waiting.cancel()

    def come_up(self) -> None:
        """Answer again, from the same state."""
        self.is_up = True
        self.memory.restore(self.memory.model)

    def fail_over(self, lose_s: float) -> list[SimulatedCall]:
        """Continue from an earlier state; return the commands that are kept."""
        until_ns = self.clock.now_ns() - int(lose_s * 1e9)
        kept = [command for command in self.log if command.now_ns <= until_ns]
        other = MemoryStore(self.clock, LIMITS)
        for command in kept:
            self.clock.fixed_ns = command.now_ns
            run(other, command.name, command.args, command.options)
        self.clock.fixed_ns = None
        self.log = kept
        self.memory.restore(other.model)
        return kept


def run(memory: MemoryStore, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> object:
    """Execute one command, which never waits."""
    work = getattr(memory, name)(*args, **options)
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    except AssayError as error:
        return error
    message = f"{name} waits"
    raise RuntimeError(message)


class NodeStore:
    """One node's connection to the server; has every method of `Store`."""

    def __init__(self, node: Node, server: StoreServer) -> None:
        self._node = node
        self._server = server

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Every command takes the same path."""
        if name.startswith("_"):
            raise AttributeError(name)

        async def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - any command
            return await self._call(name, args, options)

        return call

    async def _call(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> object:
        node, server, weather = self._node, self._server, self._server.weather
        node.check()
        server.witness.on_call(node.name, name, args, options)
        await asyncio.sleep(self._way_s())
        node.check()
        if not server.is_up:
            raise DependencyDown("the store is down")
        if node.cuts or server.random.random() < weather.lose_requests:
            await self._time_out()
        command = server.carry_out(node.name, name, args, options)
        if server.random.random() < weather.lose_answers:
            await self._time_out()
        await asyncio.sleep(self._way_s())
        node.check()
        if node.cuts:
            await self._time_out()
        server.witness.on_answer(command)
        if isinstance(command.answer, AssayError):
            raise command.answer
        return command.answer

    def _way_s(self) -> float:
        return self._server.random.random() * ANSWER_S_MAX / 2 * self._server.weather.slow

    async def _time_out(self) -> None:
        await asyncio.sleep(TIMEOUT_S)
        self._node.check()
        raise DependencyDown("no answer from the store")

    # -- what waits ----------------------------------------------------------------------------
    async def wait_for_work(
        self, stages: Sequence[StageName], *, timeout_s: float
    ) -> StageName | None:
        """See `Store.wait_for_work`; fails when the server goes down in the meantime."""
        node, server = self._node, self._server
        node.check()
        await asyncio.sleep(self._way_s())
        node.check()
        if not server.is_up:
            raise DependencyDown("the store is down")
        if node.cuts:
            await self._time_out()
        waiting = asyncio.ensure_future(server.memory.wait_for_work(stages, timeout_s=timeout_s))
        server.blocked[waiting] = None
        try:
            await asyncio.wait([waiting])
        finally:
            server.blocked.pop(waiting, None)
            waiting.cancel()
        node.check()
        if waiting.cancelled():
            raise DependencyDown("the store went down")
        if node.cuts:
            await self._time_out()
        return waiting.result()

    async def artifact_wait(self, key: str, *, timeout_s: float) -> bytes | None:
        """See `Store.artifact_wait`."""
        self._node.check()
        found = await self._server.memory.artifact_wait(key, timeout_s=timeout_s)
        self._node.check()
        if not self._server.is_up:
            raise DependencyDown("the store is down")
        return found

    async def watch(self, batch_id: BatchId) -> AsyncGenerator[None, None]:
        """See `Store.watch`."""
        async with aclosing(self._server.memory.watch(batch_id)) as changes:
            async for _ in changes:
                await asyncio.sleep(self._way_s())
                self._node.check()
                yield

    async def watch_planning(self) -> AsyncGenerator[None, None]:
        """See `Store.watch_planning`."""
        async with aclosing(self._server.memory.watch_planning()) as changes:
            async for _ in changes:
                await asyncio.sleep(self._way_s())
                self._node.check()
                yield

    async def close(self) -> None:
        """See `Store.close`."""
