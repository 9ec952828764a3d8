"""Work on connections that takes turns: one of them per turn of the event loop.

A flood on many connections is found readable all at once. If each were examined then, every step of
all other calls would wait for all of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable


class PieceTurns:
    """Acts that wait, first come, first served; each is called once."""

    def __init__(self) -> None:
        """Nothing waits for its turn yet."""
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, act: Callable[[], None]) -> None:
        """Call `act` at its turn."""
        self._waiting.append(act)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    async def turn(self) -> None:
        """Return at the caller's turn."""
        has_turn = asyncio.Event()
        self.wait(has_turn.set)
        await has_turn.wait()

    def _next(self) -> None:
        act = self._waiting[0]
        try:
            act()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)
