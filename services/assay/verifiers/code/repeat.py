"""Repeats runs that were ended by SIGKILL although they broke no limit.

Either the program killed itself, or it was killed from outside (a kernel short of memory, an
operator), which must not cost a reward. Running it again decides: a program that dies this way
every time kills itself. No output of a program can make it look killed from outside.
"""

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from assay.sandbox.port import RunResult, RunStatus

RUNS_MAX: Final = 3
"""Number of consecutive deaths by SIGKILL after which the program is at fault."""

ResultT = TypeVar("ResultT")


def repeat_while_killed(run: Callable[[], ResultT], killed: Callable[[ResultT], bool]) -> ResultT:
    """Run until SIGKILL does not end the run, at most `RUNS_MAX` times; return the last result.

    Each run has the same limits, so a program that kills itself uses at most `RUNS_MAX` times as
    much in one test; see `run_repeatedly` for all tests together.
    """
    result = run()
    for _ in range(RUNS_MAX - 1):
        if not killed(result):
            break
        result = run()
    return result


def run_repeatedly(run: Callable[[], RunResult]) -> RunResult:
    """As `repeat_while_killed`. A program that kills itself each time has used the time of all its
    runs; one that was killed from outside has not."""
    runs: list[RunResult] = []

    def once() -> RunResult:
        runs.append(run())
        return runs[-1]

    last = repeat_while_killed(once, was_killed)
    if not was_killed(last):
        return last
    return replace(
        last,
        cpu_s=sum(one.cpu_s for one in runs),
        blocked_s=sum(one.blocked_s for one in runs),
    )


def was_killed(result: RunResult) -> bool:
    """True if SIGKILL ended the run itself."""
    return result.status is RunStatus.SIGNALED and result.exit_code == -signal.SIGKILL
