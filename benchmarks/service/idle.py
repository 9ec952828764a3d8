"""What an idle platform costs: memory, CPU time and wakes of each of its processes.

    python -m benchmarks.service.idle [--seconds 30] [--plain] [--json]

Starts `assay up` on a terminal of its own, so its live table is drawn (not with `--plain`), waits
until its slots are ready, its planner leads and it is idle, and then looks for `--seconds`. Memory
is the proportional set size: a page that processes share counts once. `private` is what a process
alone has written; it is part of PSS. A wake is a voluntary switch of any of its threads.
"""

import argparse
import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.cli.operate.status_client import ask_planner, list_pools
from assay.cli.platform.addresses import planner_address, running
from assay.config.settings import Settings, load_settings
from assay.core.errors import NotFound
from benchmarks.harness.platform_run import FREE_PORTS, processes_below, until_idle
from benchmarks.harness.report import Report

READY_S_MAX: Final = 120.0
SETTLE_S_MAX: Final = 15.0
STOP_S_MAX: Final = 60.0
KINDS: Final = {
    "valkey-server": "store",
    "warden.py": "warden",
    "assay-warden": "warden",
    "assay.cli.platform.warm": "warm process",
    "-m assay.reward": "API",
    "-m assay.planner": "planner",
    "-m assay.worker.forking": "slots",
    "-m assay.worker": "worker host",
    "assay-zygote": "zygote",
    "assay up": "assay up",
}
"""Word of a command line -> role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a process has used so far, and what it holds."""

    role: str
    pss_kib: int
    private_kib: int
    threads: int
    cpu_ns: int
    wakes: int


def role_of(pid: int, command: str) -> str:
    """A process's role in the platform; slots and fork servers name themselves."""
    role = next((role for word, role in KINDS.items() if word in command), command[:40])
    if role == "slots":
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/comm").read_text().strip()
    return role


def use_of(pid: int, command: str) -> Use:
    """Look at one process.

    Raises:
        OSError: it is gone.
    """
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split()[0]: int(line.split()[1]) for line in rollup}
    cpu_ns = wakes = threads = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        cpu_ns += int((task / "schedstat").read_text().split()[0])
        status = (task / "status").read_text()
        wakes += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        threads += 1
    return Use(
        role=role_of(pid, command),
        pss_kib=sizes["Pss:"],
        private_kib=sizes["Private_Dirty:"],
        threads=threads,
        cpu_ns=cpu_ns,
        wakes=wakes,
    )


def look() -> Mapping[int, Use]:
    """All processes of the platform."""
    found = {}
    for pid, command in processes_below(os.getpid()).items():
        with contextlib.suppress(OSError):
            found[pid] = use_of(pid, command)
    return found


@contextlib.asynccontextmanager
async def assay_up(*, plain: bool) -> AsyncIterator[Settings]:
    """`assay up` as a user starts it, on free ports and in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="assay-idle-") as data_dir:
        os.environ.update({**FREE_PORTS, "ASSAY_DATA_DIR": data_dir, "TERM": "xterm-256color"})
        ours, theirs = pty.openpty()
        asyncio.get_running_loop().add_reader(ours, os.read, ours, 65_536)
        command = [str(Path(sys.executable).with_name("assay")), "up"]
        platform = subprocess.Popen(  # noqa: ASYNC220 - it lives as long as the block
            [*command, *(["--plain"] if plain else [])],
            stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        try:
            yield load_settings()
        finally:
            platform.send_signal(signal.SIGINT)
            await asyncio.to_thread(platform.wait, STOP_S_MAX)
            asyncio.get_running_loop().remove_reader(ours)
            os.close(ours)
            os.close(theirs)


async def until_serving(settings: Settings) -> None:
    """Wait for every slot that is wanted, and for a leading planner.

    Raises:
        TimeoutError: they do not come.
    """
    async with asyncio.timeout(READY_S_MAX):
        while True:
            await asyncio.sleep(0.5)
            try:
                pools = await list_pools(running(settings).control)
            except NotFound:
                continue
            ready = pools and all(pool.slots_ready >= pool.slots_desired for pool in pools.pools)
            if ready and "leading" in await ask_planner(planner_address(settings)):
                return


async def main(seconds: float, *, plain: bool, as_json: bool) -> None:
    """Start, wait, look twice, stop."""
    async with assay_up(plain=plain) as settings:
        await until_serving(settings)
        with contextlib.suppress(TimeoutError):  # its table alone may keep it busy
            async with asyncio.timeout(SETTLE_S_MAX):
                await until_idle()
        before, begun = look(), asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        after, took_s = look(), asyncio.get_running_loop().time() - begun
    report_of(before, after, took_s).show(as_json=as_json)


def report_of(before: Mapping[int, Use], after: Mapping[int, Use], took_s: float) -> Report:
    """One line per process that was there all the time, and their sum."""
    report = Report(
        title="Idle platform",
        columns=("part", "pid", "threads", "PSS MiB", "private MiB", "CPU % of a core", "wakes/s"),
    )
    sums = [0.0] * 5
    for pid, now in sorted(after.items(), key=lambda entry: -entry[1].pss_kib):
        if (then := before.get(pid)) is None:
            continue
        figures = (
            now.threads,
            now.pss_kib / 1024,
            now.private_kib / 1024,
            (now.cpu_ns - then.cpu_ns) / 1e7 / took_s,
            (now.wakes - then.wakes) / took_s,
        )
        sums = [one + more for one, more in zip(sums, figures, strict=True)]
        report.add(part=now.role, pid=pid, **dict(zip(report.columns[2:], figures, strict=True)))
    report.add(part="all", pid=len(report.rows), **dict(zip(report.columns[2:], sums, strict=True)))
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--plain", action="store_true", help="without the live table")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    asyncio.run(main(chosen.seconds, plain=chosen.plain, as_json=chosen.json))
