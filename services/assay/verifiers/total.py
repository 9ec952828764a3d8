"""Total verdicts: everything that a response causes ends as a reward.

A handler that cannot explain how a run ended (a box that broke, a referee that did not finish, a
function that raised) does not assign fault: it raises. Here a *control* decides. A control is a
trusted and trivial response under the same reference, in the same kind of box, judged immediately
afterwards:

* the control also fails: the infrastructure or the reference is at fault, and its error is raised;
* the control succeeds: the response is retried, and after `RUNS_MAX` such pairs it is at fault.

A run that the machine delayed (`HeldUp`) is no one's fault and is raised unchanged: a control may
be short enough to pass where the response was not.

So a transient fault costs no reward, and no response can make itself unscorable. Nothing is
classified by text that the response may have chosen.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from assay.sandbox.port import HeldUp

_log = logging.getLogger(__name__)
RUNS_MAX: Final = 3
"""Number of failed runs, each followed by a successful control, that put the response at fault."""

JudgedT = TypeVar("JudgedT")


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
        Exception: the exception of `control`.
    """
    runs = 0
    while True:
        try:
            return judge()
        except HeldUp:
            raise
        except unblamed:
            raise
        except Exception as error:  # noqa: BLE001 - the one place that assigns fault
            runs += 1
            control()
            if runs == RUNS_MAX:
                _log.warning("a response breaks its runs, a control does not: %s", _short(error))
                return at_fault(error)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]!r}"
