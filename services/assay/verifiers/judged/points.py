"""Points that a judge gives, as testlib's `quitp` says them. Pure.

Exit code 7, and messages that begin with `points N`. The line must be the very first thing in the
messages: behind it a judge often quotes the program, which may have written such a line.
"""

import re
from typing import Final

GIVEN: Final = 7
"""testlib's exit code for points."""
_POINTS: Final = re.compile(
    rb"points[ \t]+"
    rb"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?)(?!\S)"
)


def share_of(messages: bytes, points_max: float | None) -> float | None:
    """The share of a test's points, from 0 to 1; `None` where the judge has given none.

    Args:
        messages: the beginning of the judge's standard error.
        points_max: of the test; `None` = this reference has no points.
    """
    found = _POINTS.match(messages)
    if found is None or points_max is None:
        return None
    return min(1.0, max(0.0, float(found[1]) / points_max))
