"""`python -m assay.planner.process.child`: the planning process.

Reads frames from standard input and answers each on standard output, in order, until the input
ends, or until its parent does, also in the middle of a plan. Only this process loads numpy and
numba. It plans a synthetic batch before it sends `READY`, so that no real batch waits for a
compiler. An error in one answer is sent as `Failed` and the process continues; what it prints goes
to the log, never into a frame.
"""

import os
import sys
import time
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final

import assay
from assay.config.planning import PlanSettings
from assay.config.priority import run_in_background
from assay.core.errors import AssayError, InvalidRequest
from assay.core.tools.framing import FramingError
from assay.planner.process import frames
from assay.planner.process.lifeline import end_with_parent
from assay.planner.process.shipped_code import unpack
from assay.planner.session.messages import READY, Change, Decision, Failed, Snapshot

if TYPE_CHECKING:
    from assay.planner.session.session import Session

NICE: Final = 5
"""Niceness of the process and of its session: judging has priority over planning."""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Settings first, then snapshots and changes, one at a time."""
    settings = frames.receive(requests)
    if not isinstance(settings, PlanSettings):
        return
    unpack(assay.__path__, os.environ)
    from assay.planner.process.warm_up import warm_up  # numpy, numba: a second and 100 MB
    from assay.planner.session.session import Session

    warm_up(Session(settings), settings.replan_s)
    session = Session(settings)
    answers.write(frames.encode(READY))
    answers.flush()
    run_in_background(NICE, idle=False)  # by now: a busy machine would delay its start by minutes
    while (question := frames.receive(requests)) is not None:
        answers.write(frames.encode(answer(session, question)))
        answers.flush()


def answer(session: "Session", question: object) -> object:
    """The answer to one question, or `Failed`."""
    begun_ns = time.perf_counter_ns()
    try:
        match question:
            case Snapshot():
                found = session.step(question)
                return timed(found, time.perf_counter_ns() - begun_ns)
            case Change():
                return session.what_if(question)
    except AssayError as error:
        return Failed(error=error)
    except Exception:  # noqa: BLE001 - the process survives a bug in one plan; its parent logs it
        return Failed(traceback=traceback.format_exc())
    return Failed(error=InvalidRequest(f"not a question: {type(question).__name__}"))


def timed(found: Decision, took_ns: int) -> Decision:
    """The decision with the time that it took."""
    plan = found.plan
    if plan is not None and found.made:
        plan = replace(plan, planning_s=took_ns / 1e9)
    return replace(found, plan=plan, planning_ns=took_ns)


def main() -> None:
    """Reserve standard output for frames; redirect printed text to standard error."""
    end_with_parent(sys.stdin.fileno())
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        serve(sys.stdin.buffer, answers)
    except FramingError as error:  # the planner died while it wrote
        sys.exit(f"planning process: {error}")


if __name__ == "__main__":
    main()
