"""The decode loop makes no system call, no allocation and takes no page fault.

Run in a process of its own under `libassay_guard.so`, so that allocations are counted; the kernel
traps system calls (syscall user dispatch), and getrusage counts faults. Each detector is also shown
a violation that it must find.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import assay.rollout.binding as binding

NATIVE = Path(binding.__file__).parent / "native"
MODELS = Path(os.environ.get("ASSAY_MODELS", Path(__file__).parents[3] / "shared" / "models"))
CHECKPOINT = MODELS / "stories260K" / "stories260K.bin"
SCRIPT = """
import ctypes as ct, json, sys
from assay.rollout import ProbeEngine, Runtime, RuntimeOptions
from assay.rollout.binding import load
from assay.rollout.guard import watched

spoil = sys.argv[1]
if spoil.endswith(".bin"):
    from assay.rollout.models import DType, Engine, load_model
    from assay.rollout.models.engine import EngineSettings
    settings = EngineSettings(weight_dtype=DType.BF16, batch_max=16, threads=1)
    engine = Engine.create(load_model(spoil), settings)
else:
    how = {"": 0, "syscall": 1, "malloc": 2, "fault": 3}[spoil]
    engine = ProbeEngine(batch_max=16, misbehave=how)
with Runtime(engine, 64, RuntimeOptions(seq_len_max=400, prefill_chunk=64)) as runtime:
    def load_once(n):
        for i in range(4):
            runtime.submit(list(range(i, 70)), max_tokens=n, seeds=range(16), want_reward=False)
        return runtime.drain(30.0)
    load_once(8)
    with watched(runtime) as report:
        finished = load_once(300)
    print(json.dumps({"finished": len(finished), "steps": runtime.stats().steps, **report}))
"""


def guarded(spoil: str = "") -> dict[str, int]:
    environment = {**os.environ, "LD_PRELOAD": str(NATIVE / "libassay_guard.so")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, spoil], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, int] = json.loads(done.stdout)
    if not report["traps_syscalls"]:
        pytest.skip("this kernel has no syscall user dispatch")
    return report


def test_the_decode_loop_is_silent() -> None:
    assert_silent(guarded())


def test_the_decode_loop_of_a_real_model_is_silent() -> None:
    pytest.importorskip("numpy")
    if not CHECKPOINT.exists():
        pytest.skip(f"no {CHECKPOINT}; set ASSAY_MODELS")
    assert_silent(guarded(str(CHECKPOINT)))


def assert_silent(report: dict[str, int]) -> None:
    assert report["finished"] == 64
    assert report["sections"] > 1000
    assert report["threads"] == 1
    assert report["counts_allocations"] == 1
    assert (report["syscalls"], report["allocations"]) == (0, 0)
    assert (report["faults_minor"], report["faults_major"]) == (0, 0)


@pytest.mark.parametrize(
    ("spoil", "counter"),
    [("syscall", "syscalls"), ("malloc", "allocations"), ("fault", "faults_minor")],
)
def test_the_guard_finds_a_violation(spoil: str, counter: str) -> None:
    assert guarded(spoil)[counter] > 100
