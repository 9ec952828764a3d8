"""The first process of a container, to which the kernel gives no signal that it does not handle.

Elsewhere SIGTERM ends a process that is still importing. Here it would be ignored: a pod that is
taken away while it starts would go on, claim work, and be killed with it after its grace period.
The images have an init process, which is there sooner than an interpreter; this is for others.
Imported and called before everything else, so this imports nothing heavy.
"""

import os
import signal
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def end_on_signals() -> None:
    """Let signals end this process at once, as they end every other that does not handle them."""
    if os.getpid() != 1:
        return
    for number in SIGNALS:
        signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)
