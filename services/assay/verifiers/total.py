"""The total verdict: everything that a response causes ends as a reward.

A handler that cannot explain how a run ended (a box that broke, a referee that did not finish, a
function that raised) does not say whose fault that was: it raises. Here a *control* decides, a
trusted and trivial response under the same reference, in the same kind of box, right afterwards:

* the control fails as well: the infrastructure is at fault, or the reference; its error is raised;
* the control succeeds: the response is tried again, and after `RUNS_MAX` such pairs it is at fault.

A run that the machine held up (`HeldUp`) is nobody's fault and is raised as it is: a control may be
short enough to pass where the response was not.

So a passing trouble costs no reward, and no response can make itself unscorable. Nothing is
classified by text that the response may have chosen.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from assay.sandbox.port import HeldUp

_log = logging.getLogger(__name__)
RUNS_MAX: Final = 3
"""Failed runs, each followed by a control that succeeded, after which the response is at fault."""

Result = TypeVar("Result")


def total(
    judge: Callable[[], Result],
    *,
    control: Callable[[], object],
    at_fault: Callable[[Exception], Result],
) -> Result:
    """Return what `judge` returns, or what `at_fault` makes of its last error.

    Args:
        judge: judges the response; may raise anything.
        control: judges the trusted response in the same conditions; raises where that fails.
        at_fault: the verdict for a response that fails where the control succeeds.

    Raises:
        HeldUp: the machine was too busy to say anything of the response.
        Exception: what `control` raised.
    """
    runs = 0
    while True:
        try:
            return judge()
        except HeldUp:
            raise
        except Exception as error:  # noqa: BLE001 - the one place that decides whose fault it is
            runs += 1
            control()
            if runs == RUNS_MAX:
                _log.warning("a response breaks its runs, a control does not: %s", _short(error))
                return at_fault(error)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]!r}"
