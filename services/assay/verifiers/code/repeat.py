"""Runs that SIGKILL ended though they broke no limit.

The program may have done it to itself, or somebody outside did it (a kernel short of memory, an
operator), which must not cost a reward. Only running it again tells: what dies like that every time
does it by its own hand. Nothing that a program prints can make it look killed from outside.
"""

import signal
from collections.abc import Callable
from typing import Final, TypeVar

from assay.sandbox.port import RunResult, RunStatus

RUNS_MAX: Final = 3
"""A death by SIGKILL is believed after so many in a row."""

Result = TypeVar("Result")


def repeat_while_killed(run: Callable[[], Result], killed: Callable[[Result], bool]) -> Result:
    """Run until SIGKILL was not the end, at most `RUNS_MAX` times; return the last result.

    Each run has the same limits, so a program that kills itself uses `RUNS_MAX` times them at most.
    """
    result = run()
    for _ in range(RUNS_MAX - 1):
        if not killed(result):
            break
        result = run()
    return result


def was_killed(result: RunResult) -> bool:
    """True where SIGKILL ended the run itself."""
    return result.status is RunStatus.SIGNALED and result.exit_code == -signal.SIGKILL
