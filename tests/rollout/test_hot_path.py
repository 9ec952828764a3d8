"""The decode loop makes no system call, no allocation and takes no page fault.

Run in a process of its own under `libassay_guard.so`, so that allocations are counted; the kernel
traps system calls (syscall user dispatch), and getrusage counts faults. Each detector is also shown
a violation that it must find.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.rollout.checkpoints import write_checkpoint

import assay.rollout.library.binding as binding

if TYPE_CHECKING:
    from collections.abc import Callable

NATIVE = Path(binding.__file__).parents[1] / "native"
POOL_GUARD = Path(__file__).parents[1] / "native" / "pool_guard.c"
TRIES = 5
SCRIPT = """
import ctypes as ct, json, sys, time
from pathlib import Path
from assay.rollout import ProbeEngine, Runtime, RuntimeOptions
from assay.rollout.library.binding import load
from assay.rollout.local.guard import watched

def reach(runtime, tokens):
    for _ in range(10_000):
        if runtime.stats().decode_tokens >= tokens:
            return
        time.sleep(0.002)
    raise RuntimeError("the worker stands still")

spoil = sys.argv[1]
if spoil.endswith(".bin"):
    from assay.rollout.models import DType, Engine, load_model
    from assay.rollout.models.engine import EngineSettings
    settings = EngineSettings(weight_dtype=DType.BF16, batch_max=16, threads=int(sys.argv[2]))
    engine = Engine.create(load_model(spoil), settings)
else:
    how = {"": 0, "syscall": 1, "malloc": 2, "fault": 3}[spoil]
    engine = ProbeEngine(batch_max=16, misbehave=how)
with Runtime(engine, 64, RuntimeOptions(seq_len_max=400, prefill_chunk=64)) as runtime:
    def load_once(n):
        for i in range(4):
            runtime.submit(list(range(i, 70)), max_tokens=n, seeds=range(16), want_reward=False)
        return runtime.drain(30.0)
    def stolen():
        return int(Path("/proc/stat").read_text().split()[8])
    load_once(8)
    busy = len(sys.argv) == 4  # the window opens and closes while steps follow each other
    before = stolen()
    if busy:
        for i in range(4):
            runtime.submit([i], max_tokens=399, seeds=range(16), want_reward=False)
        reach(runtime, 400)
    with watched(runtime) as report:
        if busy:
            reach(runtime, 5_000)
        else:
            finished = load_once(300)
    report["stolen_ticks"] = stolen() - before
    if busy:
        finished = runtime.drain(30.0)
    print(json.dumps({"finished": len(finished), "steps": runtime.stats().steps, **report}))
"""


def guarded(spoil: str = "", threads: int = 1, *more: str) -> dict[str, int]:
    return report_of([sys.executable, "-c", SCRIPT, spoil, str(threads), *more])


def report_of(command: list[str], preexec: Callable[[], None] | None = None) -> dict[str, int]:
    environment = {**os.environ, "LD_PRELOAD": str(NATIVE / "libassay_guard.so")}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, preexec_fn=preexec
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, int] = json.loads(done.stdout)
    return report


def needs_traps(report: dict[str, int], spoil: str) -> None:
    """Only where a system call is what has to be found."""
    if spoil == "syscall" and report["threads"] and not report["traps_syscalls"]:
        pytest.skip("this kernel has no syscall user dispatch")


def test_the_decode_loop_is_silent() -> None:
    assert_silent(guarded())


@pytest.mark.parametrize(("threads", "window"), [(1, ""), (2, "busy"), (2, "")])
def test_the_decode_loop_of_a_transformer_is_silent_on_all_its_threads(
    threads: int, window: str, tmp_path: Path
) -> None:
    """`busy`: the window lies inside a run of steps; else the first step after idle is in it.

    On a machine without a free core a thread parks while the one that it waits for has no core. The
    guard tells those system calls from the step's own, of which there is none under any load. A
    hypervisor can take a core away and count the time as the thread's own; what the step itself
    causes comes in every run, so one run of TRIES without a wait is the proof.
    """
    pytest.importorskip("numpy")
    path = write_checkpoint(tmp_path / "some.bin", dim=64, hidden=176, layers=3, positions=512)
    for _ in range(TRIES):
        report = guarded(str(path), threads, *([window] if window else []))
        if report["waits_unforced"] == 0:
            break
    assert report["waits_unforced"] == 0
    assert report["syscalls"] == report["waits"]
    if threads == 1 or not (report["preempted"] or report["stolen_ticks"]):
        assert report["waits"] == 0
    assert_silent({**report, "syscalls": 0}, threads)


def test_a_wait_for_a_thread_that_has_its_core_is_told_from_one_that_has_none(
    pool_guard: Path,
) -> None:
    """An item computes for longer than a wait spins; both threads have real-time priority."""
    report = report_of([str(pool_guard), "compute"], preexec=to_real_time)
    assert report["waits"] >= 200
    if report["preempted"] and report["waits_unforced"] <= 50:
        # The machine took cores away: how many waits were forced by that, no one can tell here.
        pytest.skip(f"no core was free: {report}")
    assert report["waits_unforced"] > 50
    assert report_of([str(pool_guard), "sleep"])["waits_unforced"] == 0


def to_real_time() -> None:
    """Free cores on a busy machine, where that is permitted."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def test_waiting_for_a_pool_thread_is_counted_as_a_system_call(pool_guard: Path) -> None:
    """The caller gives up spinning while the other thread sleeps inside its item."""
    report = report_of([str(pool_guard), "sleep"])
    assert report["waits"] >= 200
    assert report["syscalls"] >= report["waits"]


def test_a_run_after_idling_wakes_the_parked_thread_by_a_system_call(pool_guard: Path) -> None:
    assert report_of([str(pool_guard), "idle"])["waits"] >= 20


def test_a_pool_that_was_roused_makes_no_system_call_in_the_first_run(pool_guard: Path) -> None:
    for _ in range(TRIES):
        report = report_of([str(pool_guard), "roused"], preexec=to_real_time)
        assert report["threads"] == 2
        assert report["syscalls"] == report["waits"]
        if report["waits"] == 0:
            return
    if not report["preempted"] or report["waits_unforced"]:
        pytest.fail(f"a roused pool waits in each run: {report}")
    pytest.skip(f"no core was free: {report}")


def assert_silent(report: dict[str, int], threads: int = 1) -> None:
    assert report["finished"] == 64
    assert report["sections"] > 400
    assert report["threads"] == threads
    assert report["counts_allocations"] == 1
    assert (report["syscalls"], report["allocations"]) == (0, 0)
    assert (report["faults_minor"], report["faults_major"]) == (0, 0)


@pytest.mark.parametrize(
    ("spoil", "counter"),
    [("syscall", "syscalls"), ("malloc", "allocations"), ("fault", "faults_minor")],
)
def test_the_guard_finds_a_violation(spoil: str, counter: str) -> None:
    report = guarded(spoil)
    needs_traps(report, spoil)
    assert report[counter] > 100


@pytest.fixture(scope="module")
def pool_guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pool of two threads, of which the second can be told to misbehave."""
    program = tmp_path_factory.mktemp("native") / "pool_guard"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{NATIVE}"]
    names = ("pool", "pool_usage", "guard", "contain")
    sources = [POOL_GUARD, *(NATIVE / f"{name}.c" for name in names)]
    command = ["cc", *flags, *map(str, sources), "-ldl", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def test_a_pool_thread_that_only_works_is_silent(pool_guard: Path) -> None:
    report = report_of([str(pool_guard), "nothing"])
    assert (report["threads"], report["counts_allocations"]) == (1, 1)
    assert report["sections"] >= 200
    assert (report["allocations"], report["faults_minor"]) == (0, 0)
    assert report["syscalls"] == report["waits"]


@pytest.mark.parametrize(
    ("misbehaviour", "counter"),
    [("syscall", "syscalls"), ("malloc", "allocations"), ("fault", "faults_minor")],
)
def test_the_guard_finds_a_violation_by_a_pool_thread(
    pool_guard: Path, misbehaviour: str, counter: str
) -> None:
    report = report_of([str(pool_guard), misbehaviour])
    needs_traps(report, misbehaviour)
    assert report[counter] >= 200
