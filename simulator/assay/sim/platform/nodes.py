"""The processes of the simulated platform: each has tasks and a clock, and may die at any await.

A dead node does nothing more: its tasks are cancelled, and external calls of their clean-up are
refused, because every port calls `Node.check` first.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

from assay.edge.clock import Clock

EPOCH_NS: Final = 1_700_000_000 * 10**9
"""Unix time at the start of every run."""

T = TypeVar("T")

_NODE: ContextVar["Node | None"] = ContextVar("node", default=None)


class NodeClock(Clock):
    """A node's clock: monotonic time is the loop's, Unix time may be off."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset_ns = 0

    def now_ns(self) -> int:
        """Unix time according to this node."""
        return EPOCH_NS + self.monotonic_ns() + self.offset_ns

    def monotonic_ns(self) -> int:
        """Virtual time since the start of the run."""
        return round(self._loop.time() * 1e9)


class Node:
    """A process of the platform, which can be killed and cut off."""

    def __init__(self, name: str, seed: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.is_alive = True
        self.loop = loop
        self.clock = NodeClock(loop)
        self.random = random.Random(f"{seed}/{name}")  # noqa: S311 - to be repeated, not secret
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.crash_in: int | None = None
        """External awaits left until it dies; `None` = no crash is planned."""
        self.cuts = 0
        """Faults that keep it from reaching the store now."""
        self.events = 0
        """Grows with every external call and message."""
        self.died: asyncio.Event = asyncio.Event()

    def spawn(self, work: Coroutine[object, object, T], *, name: str) -> asyncio.Task[T]:
        """Run a coroutine as part of this node."""
        context = copy_context()
        context.run(_NODE.set, self)
        return self.loop.create_task(work, name=f"{self.name}: {name}", context=context)

    def begin(self, work: Callable[[], None]) -> None:
        """Run it now; the tasks that it starts are part of this node."""
        context = copy_context()
        context.run(_NODE.set, self)
        context.run(work)

    def check(self) -> None:
        """Count one external await; refuse calls of a dead node.

        Raises:
            CancelledError: the node is dead, or dies now.
        """
        self.events += 1
        if self.is_alive and self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                self.kill()
        if not self.is_alive:
            raise asyncio.CancelledError

    def kill(self) -> None:
        """Die now, in the middle of everything."""
        self.is_alive = False
        self.died.set()
        for task in list(self.tasks):
            task.cancel()


def task_factory(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, T],
    **options: Any,  # noqa: ANN401 - asyncio's own
) -> asyncio.Task[T]:
    """Assign each task to the node that creates it."""
    task: asyncio.Task[T] = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    node = context.get(_NODE) if context is not None else _NODE.get()
    if node is not None:
        node.tasks[task] = None
        task.add_done_callback(lambda done: node.tasks.pop(done, None))
        if not node.is_alive:
            task.cancel()
    return task
