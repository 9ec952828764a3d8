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


class TenantTurns:
    """One act per turn of the event loop, of the tenants in rotation; an act alone does not wait.

    Invariant: `_next` is scheduled exactly while this turn of the loop is taken.
    """

    def __init__(self) -> None:
        """No one waits."""
        self._is_taken = False
        self._waiting: dict[str, deque[asyncio.Event]] = {}
        """Those of each tenant, first come, first served; no tenant without any."""

    async def turn(self, tenant: str) -> None:
        """Return at the caller's turn."""
        if not self._is_taken:
            self._take()
            return
        has_turn = asyncio.Event()
        self._waiting.setdefault(tenant, deque()).append(has_turn)
        await has_turn.wait()

    def _take(self) -> None:
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_taken = False
        if not self._waiting:
            return
        tenant = next(iter(self._waiting))
        waiting = self._waiting.pop(tenant)
        waiting.popleft().set()
        if waiting:
            self._waiting[tenant] = waiting  # behind all others
        self._take()
