"""Time that a test decides: the running loop's clock stands, and jumps when a server is far enough.

What waits for a time limit waits for the test, not the test for it: limits can be those of
production, and what is due a moment later is not due.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

HANGS_S = 30.0
"""Against hanging, by the machine's clock."""


class Ahead:
    """The clock of the running loop; after the block it runs again, from where it is."""

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._of_loop = vars(loop)
        self._now_s = loop.time()
        self._of_loop["time"] = lambda: self._now_s
        return self

    def __exit__(self, *_: object) -> None:
        ahead_s = self._now_s - time.monotonic()
        self._of_loop["time"] = lambda: time.monotonic() + ahead_s

    def jump(self, seconds: float) -> None:
        """Have it be so much later."""
        self._now_s += seconds


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds.

    Raises:
        TimeoutError: it does not.
    """
    ends_s = time.monotonic() + HANGS_S
    while not holds():
        await asyncio.sleep(0)
        if time.monotonic() > ends_s:
            raise TimeoutError
