"""The planning process ends with its parent, in the middle of a plan too."""

import os
import select
import signal
import subprocess
import sys

import pytest

BUSY = """
import signal
from assay.planner.process.lifeline import end_with_parent
signal.alarm(300)
end_with_parent(0)
print("planning", flush=True)
while True:
    pass
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
sys.stdin.readline()
child.stdin.close()
child.wait()
"""
WAIT_S = 120.0


def ended(output: int) -> bool:
    """Whether the last process that holds the other end of the pipe goes within the time."""
    ready, _, _ = select.select([output], [], [], WAIT_S)
    return bool(ready) and os.read(output, 1) == b""


@pytest.mark.parametrize("how", ["the parent is killed", "the parent closes the pipe"])
def test_a_planning_process_that_is_busy_ends_when(how):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        try:
            output = parent.stdout.fileno()
            assert parent.stdout.readline() == b"planning\n"
            if how == "the parent is killed":
                parent.send_signal(signal.SIGKILL)
            else:
                parent.stdin.write(b"close\n")
                parent.stdin.flush()
            assert ended(output)
        finally:
            parent.kill()
            parent.wait()
