"""The planning process ends when its parent does, also in the middle of a plan.

A question that is never read again would show it only after the plan, which may take minutes and
gigabytes. So the kernel is asked to kill the process with its parent, and a thread waits for the
pipe of the questions to close, which also shows a parent that died before the kernel was asked.
"""

import ctypes
import os
import select
import signal
import threading
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent(questions: int) -> None:
    """From now on this process ends when its parent does, or closes the other end of the pipe.

    Args:
        questions: file descriptor of the pipe from the parent; it is watched, never read.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_wait_for_end, args=(questions,), name="lifeline", daemon=True).start()


def _wait_for_end(questions: int) -> None:
    watched = select.poll()
    watched.register(questions, 0)  # only that the other end was closed
    watched.poll()
    os._exit(0)
