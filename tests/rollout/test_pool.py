"""A thread of the engine's pool that dies takes down neither the process nor the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import assay.rollout.library.binding as binding

NATIVE = Path(binding.__file__).parents[1] / "native"
PROGRAM = Path(__file__).parents[1] / "native" / "pool_crash.c"


@pytest.fixture(scope="module", params=["", "thread"], ids=["plain", "tsan"])
def pool_crash(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("native") / "pool_crash"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{NATIVE}"]
    if request.param:
        flags.append(f"-fsanitize={request.param}")
    sources = [
        PROGRAM,
        *(NATIVE / f"{name}.c" for name in ("pool", "pool_usage", "guard", "contain")),
    ]
    command = ["cc", *flags, *map(str, sources), "-ldl", "-o", str(target)]
    subprocess.run(command, check=True)
    return target


@pytest.mark.parametrize("victim", ["thread", "caller"])
def test_its_run_ends_later_runs_are_refused_and_the_pool_can_be_stopped(
    pool_crash: Path, victim: str
) -> None:
    command = [str(pool_crash), victim]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "contained\n"), done.stdout + done.stderr
