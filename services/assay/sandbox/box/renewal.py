"""What modules do in a forked process, for forks of which the interpreter is not told.

The zygote loads this before any other module, so that it sees what each of them registers; it notes
that from then on. Standard library only, and little of it.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, Final

_PROGRAM_PID: Final = 2
"""In a box the program is the second process."""
_found: Final[list[Callable[[], object]]] = []


def _note_from_now_on() -> None:
    """Note what modules register with `os.register_at_fork`."""
    register = os.register_at_fork

    def note(*, after_in_child: Callable[[], object] | None = None, **others: Any) -> None:  # noqa: ANN401 - as the standard library has it
        if after_in_child is not None:
            _found.append(after_in_child)
            others["after_in_child"] = after_in_child
        register(**others)

    note.register = register  # type: ignore[attr-defined]  # for `note_no_more`
    os.register_at_fork = note


def note_no_more() -> None:
    """Leave `os` as it was: everything that programs share is loaded."""
    os.register_at_fork = os.register_at_fork.register  # type: ignore[attr-defined]
    threads: Any = sys.modules["threading"]
    # It forgets other threads and renews their locks: there are none.
    _found[:] = [one for one in _found if one is not threads._after_fork]  # noqa: SLF001 - as it registers itself
    threads.main_thread()._native_id = _PROGRAM_PID  # noqa: SLF001 - as in an interpreter that begins there


def renew() -> None:
    """Do in this process what modules do in a child, such as drawing another random seed."""
    for one in _found:
        one()


_note_from_now_on()
