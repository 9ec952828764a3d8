"""What runs in the background takes its share from no other session."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.config.settings import PlannerSettings
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.process.child import NICE
from assay.planner.process.parent import PlanningProcess
from assay.worker.forking.processes import children

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


async def test_a_planning_process_that_is_up_runs_in_the_background() -> None:
    process = PlanningProcess(PlannerSettings(), clock=Clock(), metrics=Metrics())
    others = set(children(os.getpid()))
    try:
        await process.up()
        (child,) = set(children(os.getpid())) - others
        group = Path(f"/proc/{child}/autogroup")
        async with asyncio.timeout(60):
            while os.getsid(child) != child or os.getpriority(os.PRIO_PROCESS, child) != NICE:
                await asyncio.sleep(0.01)
        assert not group.exists() or group.read_text().split()[-1] == str(NICE)
    finally:
        await process.stop()
