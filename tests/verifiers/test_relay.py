"""The process between a program and its interactor: an end is seen behind all that was said.

On a busy machine the interactor's end and its last words are there together. A program that was not
given them broke, and a right one got the verdict of a wrong one.
"""

import fcntl
import os
import subprocess
import sys

import pytest

from assay.verifiers.judged import harness

READS_ALL = """
import sys, time
time.sleep({sleep_s})
raise SystemExit(len(sys.stdin.read()) != {expected})
"""
SAYS = "import sys; sys.stdout.write('=' * {count})"


def side(source: str) -> harness._Side:
    """A Python program as the harness sees it."""
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdin is not None
    assert started.stdout is not None
    found = harness._Side()
    found.pid = started.pid
    found.stdin, found.stdout = os.dup(started.stdin.fileno()), os.dup(started.stdout.fileno())
    os.set_blocking(found.stdin, False)
    started.stdin.close()
    started.stdout.close()
    started.returncode = 0  # the harness waits for it
    return found


@pytest.mark.parametrize("count", [1, 60_000])
@pytest.mark.parametrize("sleep_s", [0, 0.5])
def test_what_an_interactor_said_before_its_end_reaches_the_program(
    count: int, sleep_s: float
) -> None:
    interactor = side(SAYS.format(count=count))
    os.waitid(os.P_PID, interactor.pid, os.WEXITED | os.WNOWAIT)
    program = side(READS_ALL.format(sleep_s=sleep_s, expected=count))
    fcntl.fcntl(program.stdin, fcntl.F_SETPIPE_SZ, 4_096)
    errors, errors_in = os.pipe()
    os.close(errors_in)
    harness._relay(program, interactor, errors, 1 << 20)
    os.close(errors)
    assert (interactor.code, program.code) == (0, 0)


@pytest.mark.parametrize("count", [1, 60_000])
def test_what_a_program_said_before_its_end_reaches_the_interactor(count: int) -> None:
    program = side(SAYS.format(count=count))
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    interactor = side(READS_ALL.format(sleep_s=0.2, expected=count))
    fcntl.fcntl(interactor.stdin, fcntl.F_SETPIPE_SZ, 4_096)
    errors, errors_in = os.pipe()
    os.close(errors_in)
    harness._relay(program, interactor, errors, 1 << 20)
    os.close(errors)
    assert (program.code, interactor.code) == (0, 0)


def test_an_interactor_that_leaves_its_output_to_another_process_has_ended() -> None:
    """Where no namespace ends what it has started."""
    sleeper = "import subprocess; subprocess.Popen(['sleep', '5'])"
    interactor, program = side(sleeper), side(READS_ALL.format(sleep_s=0, expected=0))
    errors, errors_in = os.pipe()
    os.close(errors_in)
    harness._relay(program, interactor, errors, 1 << 20)
    os.close(errors)
    assert (interactor.code, program.code) == (0, 0)
