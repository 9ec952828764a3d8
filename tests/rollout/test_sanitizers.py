"""The core under ThreadSanitizer, and under AddressSanitizer with UBSan.

Method: compile the core and `tests/native/stress.c` with the sanitizer, run it, and read what it
says. Every report of a sanitizer is a failure (`halt_on_error`). A planted defect shows that it can
fail.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import assay.rollout.binding as binding

NATIVE = Path(binding.__file__).parent / "native"
STRESS = Path(__file__).parents[1] / "native" / "stress.c"
CORE = ["bell", "clock", "contain", "core", "guard", "kv", "policy", "probe", "runtime", "worker"]
FLAGS = [
    "-std=c11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
    "-fno-omit-frame-pointer",
]


def build(sanitize: str, folder: Path, native: Path = NATIVE) -> Path:
    program = folder / "stress"
    sources = [*(str(native / f"{name}.c") for name in CORE), str(STRESS)]
    command = ["cc", *FLAGS, f"-fsanitize={sanitize}", f"-I{native}", "-o", str(program)]
    done = subprocess.run([*command, *sources, "-lm", "-ldl"], capture_output=True, text=True)
    if "cannot find -l" in done.stderr or "unrecognized" in done.stderr:
        pytest.skip(f"this compiler has no {sanitize} sanitizer")
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, rounds: int) -> subprocess.CompletedProcess[str]:
    environment = {
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
        "ASAN_OPTIONS": "detect_leaks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    return subprocess.run(
        [str(program), str(rounds)], env=environment, capture_output=True, text=True, timeout=110
    )


@pytest.mark.parametrize("sanitize", ["thread", "address,undefined"])
def test_the_core_is_clean_under(sanitize: str, tmp_path: Path) -> None:
    done = run(build(sanitize, tmp_path), 20_000)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "ok\n"


def test_thread_sanitizer_finds_a_relaxed_publish(tmp_path: Path) -> None:
    """The same program with the rings' releases weakened is caught."""
    weak = tmp_path / "native"
    weak.mkdir()
    for file in (*NATIVE.glob("*.h"), *(NATIVE / f"{name}.c" for name in CORE)):
        text = file.read_text()
        if file.name == "assay_ring.h":
            text = text.replace("memory_order_release", "memory_order_relaxed")
        (weak / file.name).write_text(text)
    done = run(build("thread", tmp_path, weak), 2_000)
    assert "data race" in done.stderr
