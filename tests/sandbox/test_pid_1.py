"""Pid 1 of a box is a small program of its own, out of reach, and programs are as they were."""

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from tests.sandbox.test_attacks_on_the_box import HELP, LIMITS, ON_PID_1
from tests.sandbox.ways import until

from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun, RunStatus

SLEEPS = b"import time; time.sleep(3)"
PAGES_MAX = 64
"""The program has a dozen; an interpreter has thousands."""
CORES = b"""
import ctypes, os
told = []
for core in sorted(os.sched_getaffinity(0)):
    os.sched_setaffinity(0, {core})
    told.append(ctypes.CDLL(None).sched_getcpu() == core)
print(all(told), len(told) > 0)
"""
IDS = b"""
import os, threading
ids = []
thread = threading.Thread(target=lambda: ids.append(threading.get_native_id()))
thread.start()
thread.join()
print(os.getpid(), os.getppid(), threading.get_native_id(), ids[0] > 2)
"""
only_here = pytest.mark.skipif(platform.machine() != "x86_64", reason="pid 1 is a fork elsewhere")


def _pids_1_of(launcher: ZygoteLauncher) -> list[int]:
    """Pid 1 of each box that has a program."""
    boxes = psutil.Process(launcher.zygote_pid).children()
    return [box.pid for box in boxes if box.children()]


@only_here
def test_pid_1_has_left_the_memory_to_the_program_and_most_rights_too(
    zygote: ZygoteLauncher,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(zygote.run_python, PythonRun(source=SLEEPS))
        [pid_1] = until(lambda: _pids_1_of(zygote), "no program")
        at = Path("/proc", str(pid_1))
        until(lambda: int((at / "statm").read_text().split()[0]) <= PAGES_MAX, "it is as large")
        lines = (at / "status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        mine = {name: int(status[name], 16) for name in ("CapPrm", "CapEff", "CapAmb")}
        is_hidden = (at / "fd").stat().st_uid != zygote.uid
        if os.geteuid() == 0:
            until(lambda: len(os.listdir(at / "fd")) <= 5, "0, 1, 2, its channel, the tasks")
            descriptors = [os.readlink(one)[:6] for one in (at / "fd").iterdir()]
            assert descriptors.count("socket") == 1
            assert len(descriptors) == 5
        else:
            with pytest.raises(PermissionError):
                os.listdir(at / "fd")
        assert running.result().status is RunStatus.EXITED
    assert set(mine.values()) == {1 << 23}, "CAP_SYS_NICE, which protects it"
    assert is_hidden, "other processes of its user could trace it"


def test_pid_1_that_stays_a_fork_is_out_of_reach_too(forked: ZygoteLauncher) -> None:
    for name, attack in ON_PID_1.items():
        source = (HELP + attack + "\nfound('alive')\n").encode()
        result = forked.run_python(PythonRun(source=source, limits=LIMITS))
        assert result.stdout.splitlines()[-1:] == [b"alive"], (name, result)
        assert b"DONE" not in result.stdout, (name, result.stdout.decode())


def test_a_program_is_a_process_as_any_other(
    zygote: ZygoteLauncher, forked: ZygoteLauncher
) -> None:
    """Its thread was created in the memory of another process, which the C library cannot know."""
    for launcher in (zygote, forked):
        assert launcher.run_python(PythonRun(source=CORES)).stdout == b"True True\n"
        assert launcher.run_python(PythonRun(source=IDS)).stdout == b"2 1 2 True\n"
