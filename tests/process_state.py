"""A pytest plugin: a test leaves this process as it found it.

Children inherit the state that is compared here: a blocked or ignored signal, a limit or a priority
that one test leaves behind makes another fail, much later and only in some orders.
"""

import gc
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

_STATUS = Path("/proc/self/status")
_LINES = ("SigBlk", "SigIgn", "Umask", "Cpus_allowed_list", "NoNewPrivs", "Seccomp")
_PYTESTS_OWN = "PYTEST_CURRENT_TEST"
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
_LIMITS = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}


def process_state() -> dict[str, object]:
    """What children of this process inherit, and which handlers it has."""
    lines = (line.partition(":\t") for line in _STATUS.read_text().splitlines())
    return {
        **{name: value for name, _, value in lines if name in _LINES},
        "directory": os.getcwd(),
        "collects garbage": gc.isenabled(),
        "recursion limit": sys.getrecursionlimit(),
        "excepthook": sys.excepthook,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        **{f"handler of {each}": signal.getsignal(each) for each in _HANDLED},
        **{name: resource.getrlimit(number) for name, number in _LIMITS.items()},
        **{f"${name}": value for name, value in os.environ.items() if name != _PYTESTS_OWN},
    }


def differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """What changed, one line each."""
    return [
        f"{name}: {before.get(name)} -> {after.get(name)}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


@pytest.fixture(autouse=True)
def unchanged_process() -> Iterator[None]:
    """Fail the test that changed it."""
    before = process_state()
    yield
    changed = differences(before, process_state())
    assert changed == [], "the test leaves another process behind than it found"
