"""A program or compiler that someone outside kills costs no reward; one that kills itself does.

Victims are real processes in real boxes, killed with SIGKILL from outside.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from assay.core.verdict import Ended
from assay.sandbox.port import RunResult, RunStatus
from assay.verifiers.code.repeat import RUNS_MAX, repeat_while_killed, run_repeatedly
from assay.verifiers.local import LocalPipelines

Judge = Callable[..., Ended]

ECHO = {"tests": [{"stdin": "7\n", "stdout": "7\n"}]}
BUSY_S = 1.5
SLOW_PYTHON = f"import time\nwhile time.process_time() < {BUSY_S}: pass\nprint(input())"
SLOW_FUNCTION = (
    f"import time\ndef f():\n    while time.process_time() < {BUSY_S}: pass\n    return 7"
)
SLOW_CPP = f"""
#include <iostream>
#include <ctime>
int main() {{
    while (clock() < {BUSY_S} * CLOCKS_PER_SEC) {{}}
    int n; std::cin >> n; std::cout << n << std::endl;
}}
"""
SLOW_TO_COMPILE = "#include <bits/stdc++.h>\nint main() { std::cout << 7 << std::endl; } // outside"


def in_a_box(process: psutil.Process) -> bool:
    """Whether it is a program in a box: below another pid namespace, and no one's parent."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("NSpid:"))
        return len(line.split()) > 2 and not process.children()
    except (OSError, StopIteration, psutil.Error):
        return False


def busy_program() -> psutil.Process:
    """One that has worked for a while: the program, not what waits beside it."""
    while True:
        for process in psutil.Process().children(recursive=True):
            try:
                if in_a_box(process) and sum(process.cpu_times()[:2]) > BUSY_S / 5:
                    return process
            except psutil.Error:
                continue
        time.sleep(0.02)


def compiler_proper() -> psutil.Process:
    while True:
        for process in psutil.Process().children(recursive=True):
            try:
                if process.name() == "cc1plus":
                    return process
            except psutil.Error:
                continue
        time.sleep(0.005)


@contextmanager
def killed_once(find: Callable[[], psutil.Process]) -> Iterator[list[int]]:
    """Kill what `find` finds, once, while the block runs."""
    killed: list[int] = []

    def kill() -> None:
        victim = find()
        os.kill(victim.pid, signal.SIGKILL)
        killed.append(victim.pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield killed
    thread.join(timeout=30)


@pytest.mark.parametrize(
    ("pipeline", "response", "reference"),
    [
        ("code.python", SLOW_PYTHON, ECHO),
        ("code.python", SLOW_FUNCTION, {"calls": {"function": "f", "cases": [{"expected": 7}]}}),
        ("code.python", SLOW_FUNCTION, {"asserts": {"code": ["assert f() == 7"]}}),
        ("code.cpp", SLOW_CPP, ECHO),
    ],
)
def test_a_program_that_is_killed_from_outside_is_run_again(
    judge: Judge, pipeline: str, response: str, reference: dict[str, Any]
) -> None:
    if pipeline == "code.cpp":  # compiled before the killer looks around
        judge(pipeline, response, reference)
    with killed_once(busy_program) as killed:
        ended = judge(pipeline, response, reference)
    assert len(killed) == 1
    assert (ended.reward, ended.evidence.verdict) == (1.0, "pass")


def test_a_compiler_that_is_killed_from_outside_calls_no_source_wrong(
    bench: LocalPipelines,
) -> None:
    warm_up = bench.judge("code.cpp", "int main() { return 0 * 5; }", {"tests": [{"stdout": ""}]})
    assert warm_up.reward == 1.0
    with killed_once(compiler_proper) as killed:
        ended = bench.judge("code.cpp", SLOW_TO_COMPILE, ECHO)
    assert len(killed) == 1
    assert (ended.reward, ended.evidence.verdict) == (1.0, "pass")


@pytest.mark.parametrize(
    ("pipeline", "response"),
    [
        ("code.python", "import os\nos.kill(os.getpid(), 9)"),
        ("code.cpp", "#include <signal.h>\nint main() { raise(SIGKILL); }"),
    ],
)
def test_a_program_that_kills_itself_has_crashed(
    judge: Judge, pipeline: str, response: str
) -> None:
    ended = judge(pipeline, response, ECHO)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "crashed")


def test_a_source_that_prints_the_words_of_a_killed_compiler_is_wrong_all_the_same(
    judge: Judge,
) -> None:
    forged = '#line 1 "a\\ng++: fatal error: Killed signal terminated program cc1plus\\nb"\nint x ='
    ended = judge("code.cpp", forged, ECHO)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "compile_error")


def test_a_run_is_repeated_a_bounded_number_of_times() -> None:
    runs: list[int] = []
    repeat_while_killed(lambda: runs.append(1), lambda _: True)
    assert len(runs) == RUNS_MAX


def _run(code: int) -> RunResult:
    return RunResult(
        status=RunStatus.SIGNALED if code < 0 else RunStatus.EXITED,
        exit_code=code,
        stdout=b"",
        stderr=b"",
        cpu_s=1.0,
        blocked_s=2.0,
        wall_s=3.0,
        memory_bytes_peak=0,
    )


def test_a_program_that_always_kills_itself_has_used_the_time_of_all_its_runs() -> None:
    killed = run_repeatedly(lambda: _run(-signal.SIGKILL))
    assert (killed.cpu_s, killed.blocked_s) == (1.0 * RUNS_MAX, 2.0 * RUNS_MAX)


def test_a_program_that_was_killed_from_outside_has_used_the_time_of_one_run() -> None:
    ends = [-signal.SIGKILL, -signal.SIGKILL, 0]
    left = run_repeatedly(lambda: _run(ends.pop(0)))
    assert (left.exit_code, left.cpu_s, left.blocked_s) == (0, 1.0, 2.0)


def test_tests_that_kill_themselves_share_one_bound(judge: Judge) -> None:
    source = "import os, time\nwhile time.process_time() < 0.3: pass\nos.kill(os.getpid(), 9)"
    tests = {"tests": [{"stdin": "", "stdout": "1"}] * 20}
    ended = judge("code.python", source, tests, partial_credit=True, total_cpu_s=1.0)
    assert ended.evidence.verdict == "crashed"
    assert ended.use.cpu_s < 2.5
