"""The one place that reads the machine's clock; all other code takes a `Clock` as an argument.

Tests and the simulator pass an object of the same shape with its own time.
Slots and their servers use it too, which have no event loop: what that takes, a megabyte or two, is
imported by the first who sleeps.
"""

import time


class Clock:
    """The real clock of this machine."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds. For people and records; may jump."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back; for durations only."""
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        """Yield to other tasks for `seconds`."""
        from asyncio import sleep

        await sleep(seconds)
