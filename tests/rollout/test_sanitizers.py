"""The core under ThreadSanitizer, and under AddressSanitizer with UBSan.

Method: compile the core with a program of `tests/native` and the sanitizer, run it, and read its
output. Every report of a sanitizer is a failure (`halt_on_error`). A planted defect shows that the
test can fail.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import assay.rollout.library.binding as binding

NATIVE = Path(binding.__file__).parents[1] / "native"
OWN = Path(__file__).parents[1] / "native"
CORE = ["arena", "bell", "clock", "contain", "core", "guard", "host", "kv", "policy", "probe"]
CORE += ["mapping", "runtime", "worker", "worker_batch", "worker_memory", "worker_thread"]
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


Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Makes a program; what several share in sources, headers and sanitizer is compiled once."""
    objects = tmp_path_factory.mktemp("objects")

    def compiled(source: Path, native: Path, sanitize: str) -> Path:
        texts = [source, *sorted(native.glob("*.h"))]
        content = b"".join(path.read_bytes() for path in texts)
        made = objects / f"{hashlib.sha256(sanitize.encode() + content).hexdigest()}.o"
        if not made.exists():
            cc(sanitize, f"-I{native}", "-c", str(source), "-o", str(made))
        return made

    def build(sanitize: str, folder: Path, native: Path = NATIVE, main: str = "stress") -> Path:
        sources = [*(native / f"{name}.c" for name in CORE), OWN / f"{main}.c"]
        parts = [str(compiled(source, native, sanitize)) for source in sources]
        cc(sanitize, *parts, "-o", str(folder / main), "-lm", "-ldl")
        return folder / main

    return build


def cc(sanitize: str, *arguments: str) -> None:
    command = ["cc", *FLAGS, f"-fsanitize={sanitize}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if "cannot find -l" in done.stderr or "unrecognized" in done.stderr:
        pytest.skip(f"this compiler has no {sanitize} sanitizer")
    assert done.returncode == 0, done.stderr


LIVES = int(os.environ.get("ASSAY_LIVES", "150"))
SECONDS_PER_LIFE = 1.0


def run(program: Path, *arguments: int, timeout_s: float = 110) -> subprocess.CompletedProcess[str]:
    environment = {
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
        "ASAN_OPTIONS": "detect_leaks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    return subprocess.run(
        [str(program), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


@pytest.mark.parametrize("sanitize", ["thread", "address,undefined"])
def test_the_core_is_clean_under(sanitize: str, build: Build, tmp_path: Path) -> None:
    done = run(build(sanitize, tmp_path), 20_000)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "ok\n"


@pytest.mark.parametrize("sanitize", ["thread", "address,undefined"])
def test_runtimes_that_are_closed_beside_calls_are_clean_under(
    sanitize: str, build: Build, tmp_path: Path
) -> None:
    """`make lives` runs 10,000."""
    seed = random.randrange(1, 1 << 32)
    print("seed", seed, "lives", LIVES)
    program = build(sanitize, tmp_path, main="lives")
    done = run(program, seed, LIVES, timeout_s=max(110, LIVES * SECONDS_PER_LIFE))
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "ok\n"


def test_a_close_that_does_not_wait_for_calls_is_found(build: Build, tmp_path: Path) -> None:
    """The same lives with the wait for callers taken out are caught."""
    weak = tmp_path / "native"
    weak.mkdir()
    for file in (*NATIVE.glob("*.h"), *(NATIVE / f"{name}.c" for name in CORE)):
        text = file.read_text()
        if file.name == "host.c":
            assert "if (!empty(p, until)) return ASSAY_STALLED;" in text
            text = text.replace("if (!empty(p, until)) return ASSAY_STALLED;", "(void)empty;")
        (weak / file.name).write_text(text)
    done = run(build("address,undefined", tmp_path, weak, "lives"), 5, 200)
    assert done.returncode != 0


def test_thread_sanitizer_finds_a_relaxed_publish(build: Build, tmp_path: Path) -> None:
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
