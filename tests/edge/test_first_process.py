"""Services as the first process of a container, which gets no signal that it does not handle."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

WAIT_S_MAX = 60.0
ENDED_S_MAX = 15.0
NO_STORE = {"ASSAY_STORE__URL": "redis://127.0.0.1:1/0", "ASSAY_STORE__START_WAIT_S": "120"}
"""It is waited for, so that only a signal ends the start."""


@contextmanager
def as_first(folder: Path, *given: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The interpreter as process 1 of a namespace of its own; bubblewrap, and its pid outside."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("needs bubblewrap")
    command = [bwrap, "--dev-bind", "/", "/", "--unshare-pid", "--as-pid-1", "--die-with-parent"]
    process = subprocess.Popen(
        [*command, sys.executable, *given], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={"PATH": "/usr/bin:/bin", "ASSAY_DATA_DIR": str(folder), **NO_STORE},
    )  # fmt: skip
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: process.poll() is not None or bool(children.read_text()), "it is there")
        if process.poll() is not None:
            pytest.skip(f"bubblewrap makes no namespace here: {process.communicate()[0]}")
        yield process, int(children.read_text())
    finally:
        process.kill()
        process.communicate()


def until(done: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not done():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


@pytest.mark.parametrize("service", ["reward", "worker", "planner", "rollout"])
def test_a_service_that_is_told_to_stop_while_it_imports_ends_at_once(
    service: str, tmp_path: Path
) -> None:
    with as_first(tmp_path, "-m", f"assay.{service}") as (process, pid):
        status, maps = Path(f"/proc/{pid}/status"), Path(f"/proc/{pid}/maps")
        until(lambda: "/uvloop/" in maps.read_text(), "it imports")
        [inside] = re.findall(r"^NSpid:.*\t(\d+)$", status.read_text(), flags=re.M)
        assert inside == "1"
        os.kill(pid, signal.SIGTERM)
        assert process.wait(ENDED_S_MAX) == 128 + signal.SIGTERM
