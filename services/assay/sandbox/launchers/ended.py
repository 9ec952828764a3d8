"""Boxes whose program has ended, and whose pid 1 may not have.

What is left of such a box is a process of Assay's own that has nothing more to do, and the kernel's
work to take its namespaces apart. A run need not wait for that: the launcher does, after the next
run has begun. At most `KEPT_MAX` such boxes exist per launcher.
"""

import contextlib
import select
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from assay.sandbox.port import SandboxError

KEPT_MAX: Final = 64
_DIE_S: Final = 20.0
"""How long a pid 1 that has nothing more to do may take to end."""


class _Box(NamedTuple):
    pidfd: int
    died: Callable[[], object]
    held: contextlib.ExitStack
    """Closes the descriptors and removes the account."""


class EndedBoxes:
    """What is left of them, oldest first. Used from several threads."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._boxes: deque[_Box] = deque()

    def add(self, pidfd: int, held: contextlib.ExitStack, *, died: Callable[[], object]) -> None:
        """Take over a box; when its pid 1 has ended, `died` is called and `held` is closed."""
        with self._lock:
            self._boxes.append(_Box(pidfd, died, held))

    def remove(self) -> None:
        """Remove those that are dead, and wait for the oldest while there are too many.

        Raises:
            SandboxError: a box does not end, or what it held cannot be removed.
        """
        while (box := self._take()) is not None:
            _end(box)

    def close(self) -> None:
        """Wait for all and remove them.

        Raises:
            SandboxError: as `remove`; the others are removed.
        """
        with self._lock, contextlib.ExitStack() as every:
            while self._boxes:
                every.callback(_end, self._boxes.popleft())

    def _take(self) -> _Box | None:
        with self._lock:
            for box in self._boxes:
                if len(self._boxes) > KEPT_MAX or _is_dead(box, 0.0):
                    self._boxes.remove(box)
                    return box
        return None


def _is_dead(box: _Box, within_s: float) -> bool:
    poll = select.poll()
    poll.register(box.pidfd, select.POLLIN)
    return bool(poll.poll(within_s * 1e3))


def _end(box: _Box) -> None:
    with box.held:
        if not _is_dead(box, _DIE_S):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(box.pidfd, signal.SIGKILL)
            raise SandboxError("a box whose program has ended does not end")
        box.died()
