"""`python -m assay.planner.process.child`: the planning process.

Reads frames from standard input and answers each on standard output, in order, until the input
ends. It alone loads numpy and numba; it plans once for practice before it says `READY`, so that no
real batch waits for a compiler. What goes wrong in one answer is told as a `Failed` and the process
goes on; what it prints goes to the log, never into a frame.
"""

import os
import sys
import time
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final

from assay.config.settings import PlannerSettings
from assay.core.errors import AssayError, InvalidRequest
from assay.planner.process import frames
from assay.planner.session.messages import READY, Answer, Change, Failed, Look

if TYPE_CHECKING:
    from assay.planner.session.session import Planning

NICE: Final = 5
"""Rewards come before plans."""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Settings first, then looks and changes, one at a time."""
    settings = frames.receive(requests)
    if not isinstance(settings, PlannerSettings):
        return
    from assay.planner.process.settings import new_planning  # numpy, numba: a second and 100 MB
    from assay.planner.process.warm_up import practise

    practise(new_planning(settings), settings.replan_s)
    planning = new_planning(settings)
    answers.write(frames.encode(READY))
    answers.flush()
    while (question := frames.receive(requests)) is not None:
        answers.write(frames.encode(answer(planning, question)))
        answers.flush()


def answer(planning: "Planning", question: object) -> object:
    """One question."""
    begun_ns = time.perf_counter_ns()
    try:
        match question:
            case Look():
                found = planning.step(question)
                return timed(found, time.perf_counter_ns() - begun_ns)
            case Change():
                return planning.what_if(question)
    except AssayError as error:
        return Failed(error=error)
    except Exception:  # noqa: BLE001 - the process outlives a bug in one plan; its parent logs it
        return Failed(traceback=traceback.format_exc())
    return Failed(error=InvalidRequest(f"no question: {type(question).__name__}"))


def timed(found: Answer, took_ns: int) -> Answer:
    """With how long it took."""
    plan = found.plan
    if plan is not None and found.made:
        plan = replace(plan, planning_s=took_ns / 1e9)
    return replace(found, plan=plan, planning_ns=took_ns)


def main() -> None:
    """Keep standard output for frames; whatever prints is sent to standard error."""
    os.nice(NICE)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
