"""What runs in the background takes its share from no other session."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.planner.process.child import NICE

SCRIPT = """
import os, time
from pathlib import Path
from assay.config.priority import run_in_background
run_in_background({niceness}, idle={idle})
group = Path("/proc/self/autogroup")
print(os.getsid(0) == os.getpid(), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
print(group.read_text() if group.exists() else "none")
"""


@pytest.mark.parametrize("idle", [False, True])
def test_a_process_leaves_the_session_of_its_parent_and_lowers_its_own(*, idle: bool) -> None:
    script = SCRIPT.format(niceness=7, idle=idle)
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    leads, scheduler, nice, *group = said.split()
    assert leads == "True"
    assert int(scheduler) == (os.SCHED_IDLE if idle else os.SCHED_OTHER)
    assert idle or int(nice) == 7
    assert group == ["none"] or group[-2:] == ["nice", "7"]


def test_the_planning_process_runs_in_the_background() -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "assay.planner.process.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        child.stdin.write(b"\xff" * 64)  # no frame: it ends
        child.stdin.close()
        watched = os.pidfd_open(child.pid)
        os.waitid(os.P_PIDFD, watched, os.WEXITED | os.WNOWAIT)
        os.close(watched)
        session = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[3]
        nice = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[16]
    child.wait()
    assert int(session) == child.pid
    assert int(nice) == NICE
