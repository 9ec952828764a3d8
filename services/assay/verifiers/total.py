"""Total verdicts: everything that a response causes ends as a reward.

A handler that cannot explain how a run ended (a box that broke, a referee that did not finish, a
function that raised) does not assign fault: it raises. Here a *control* decides. A control is a
trusted and trivial response under the same reference, in the same kind of box, judged immediately
afterwards:

* the control also fails: the infrastructure or the reference is at fault, and its error is raised;
* the control succeeds: the response is retried, and after `RUNS_MAX` such pairs it is at fault.

A run that the machine delayed (`HeldUp`) is no one's fault and is raised unchanged: a control may
be short enough to pass where the response was not. So is what a handler knows to be the host's
fault (`HostAtFault`).

Handlers of confined stages have no controls of their own: their caller gives them some (`judged`).

So a transient fault costs no reward, and no response can make itself unscorable. Nothing is
classified by text that the response may have chosen.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from assay.core.verdict import TEXT_CHARS_MAX, Ended, Evidence, StageVerdict
from assay.sandbox.port import HeldUp
from assay.verifiers.port import StageHandler, TrustingHandler, Work, scored

_log = logging.getLogger(__name__)
RUNS_MAX: Final = 3
"""Number of failed runs, each followed by a successful control, that put the response at fault."""

TRIVIAL: Final = (("", True), ("", False), ("0", False))
"""Responses of controls in turn, where a stage has no trusted one of its own, and whether the
request keeps the hand-over that an earlier stage made of its response."""

JudgedT = TypeVar("JudgedT")


class HostAtFault(Exception):
    """The host lacks what every response needs, so no control has to show it."""


def total(
    judge: Callable[[], JudgedT],
    *,
    control: Callable[[], object],
    at_fault: Callable[[Exception], JudgedT],
    unblamed: tuple[type[Exception], ...] = (),
) -> JudgedT:
    """Return the result of `judge`, or of `at_fault` for its last error.

    Args:
        judge: judges the response; may raise any exception.
        control: judges the trusted response under the same conditions; raises if that fails.
        at_fault: the verdict for a response that fails where the control succeeds.
        unblamed: other exceptions that no response can cause; raised unchanged, without a control.

    Raises:
        HeldUp: the machine was too busy to judge the response.
        HostAtFault: raised by `judge`.
        Exception: the exception of `control`.
    """
    runs = 0
    while True:
        try:
            return judge()
        except (HeldUp, HostAtFault):
            raise
        except unblamed:
            raise
        except Exception as error:  # noqa: BLE001 - the one place that assigns fault
            runs += 1
            control()
            if runs == RUNS_MAX:
                _log.warning("a response breaks its runs, a control does not: %s", _short(error))
                return at_fault(error)


def judged(handler: StageHandler, work: Work) -> StageVerdict:
    """Judge one response by a handler that has no controls, with the trivial ones or its own.

    Raises:
        MemoryError: the caller knows what else used the memory.
        HostAtFault: see `total`.
        Exception: the last control's.
    """

    def judge() -> StageVerdict:
        [verdict] = handler.run([work])
        return verdict

    return total(
        judge,
        control=lambda: judge_trusted(handler, work, lambda one: handler.run([one])),
        at_fault=lambda error: broke_the_run(work, error),
        unblamed=(MemoryError,),
    )


def judge_trusted(handler: StageHandler, work: Work, run: Callable[[Work], object]) -> None:
    """Judge a control of `work` by `run`: the handler's own, or the trivial ones in turn.

    Raises:
        MemoryError: see `judged`.
        Exception: the last control's.
    """
    if isinstance(handler, TrustingHandler):
        run(handler.trusted(work))
        return
    *first, last = TRIVIAL
    for response, keeps in first:
        try:
            run(_trivial(work, response, keeps=keeps))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, S112 - one that is judged is enough; the last may raise
            continue
        return
    run(_trivial(work, last[0], keeps=last[1]))


def _trivial(work: Work, response: str, *, keeps: bool) -> Work:
    trivial = replace(work, response=response, messages=())
    return trivial if keeps else replace(trivial, handover=b"")


def broke_the_run(work: Work, error: Exception) -> Ended:
    """The verdict about a response that fails where a control does not."""
    told = f"{type(error).__name__}: {_text(error)}"[-TEXT_CHARS_MAX:]
    evidence = Evidence(verdict="broke_the_run", error=told)
    return scored(passed=False, settings=work.settings, evidence=evidence)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {_text(error)[:200]!r}"


def _text(error: Exception) -> str:
    """What the error says; some compute that from the response, which may fail as well."""
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - whatever an error's text raises
        return f"its text raises {type(problem).__name__}"
