"""What ten `/run_code` calls for one C++ submission cost, sent at once, as verl sends them.

A platform is started in a folder of its own. Each round takes another program that includes
`<bits/stdc++.h>`, sends ten calls with different inputs at the same time, and measures the CPU time
of the platform and its boxes (a cgroup counts it), less what they use when idle for as long. It is
compared with one compilation by the same compiler and flags and ten runs without a sandbox.

    python -m benchmarks.service.run_code --rounds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CALLS = 10
START_S_MAX = 120.0
IDLE_CPU_S_MAX = 0.15
"""Of an idle platform in a second."""
SOURCE = """
#include <bits/stdc++.h>
volatile long long mark = {mark};
int main() {{
    std::map<long long, long long> counts;
    long long a, b;
    std::cin >> a >> b;
    for (long long i = 0; i < 1000; ++i) counts[i * a % 97] += b;
    std::cout << a * b << std::endl;
}}
"""
FLAGS = ("-std=c++17", "-O0", "-pipe", "-s", "-w")


class Account:
    """A cgroup, which counts the CPU time of all that ever ran in it and below: needs root."""

    def __init__(self) -> None:
        root = Path("/sys/fs/cgroup")
        self._is_v1 = (root / "cpuacct").is_dir()
        parent = root / "cpuacct" if self._is_v1 else root
        self.folder = parent / f"assay-benchmark-{os.getpid()}"
        self.folder.mkdir()

    def cpu_s(self) -> float:
        """CPU time so far."""
        if self._is_v1:
            return int((self.folder / "cpuacct.usage").read_text()) / 1e9
        fields = (self.folder / "cpu.stat").read_text().split()
        return int(fields[fields.index("usage_usec") + 1]) / 1e6

    def close(self) -> None:
        """Remove it, once nothing runs in it."""
        with suppress(OSError):
            self.folder.rmdir()


@asynccontextmanager
async def platform(account: Account) -> AsyncIterator[str]:
    """A running platform in the account; its HTTP address."""
    ports = {
        f"ASSAY_{name}": "0"
        for name in (
            "REWARD__GRPC_PORT",
            "REWARD__HTTP_PORT",
            "WORKER__CONTROL_PORT",
            "PLANNER__GRPC_PORT",
        )
    }
    with tempfile.TemporaryDirectory() as folder:
        join = f'echo $$ > {account.folder}/cgroup.procs; exec "$@"'
        command = (sys.executable, "-m", "assay.cli", "up", "--plain")
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", join, "sh", *command),
            env={**os.environ, **ports, "ASSAY_DATA_DIR": folder},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(START_S_MAX):
                await process.stdout.readline()
            addresses = json.loads((Path(folder) / "run" / "reward.json").read_text())
            yield addresses["http"]
        finally:
            process.send_signal(signal.SIGINT)
            await process.communicate()


def alone(source: str, folder: Path) -> float:
    """CPU time of one compilation and ten runs."""
    (folder / "program.cpp").write_text(source)

    def used() -> float:
        found = resource.getrusage(resource.RUSAGE_CHILDREN)
        return found.ru_utime + found.ru_stime

    before = used()
    command = ["g++", *FLAGS, "-o", "program", "program.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    for number in range(CALLS):
        subprocess.run(
            ["./program"],
            cwd=folder,
            input=f"{number} {number}\n".encode(),
            check=True,
            capture_output=True,
        )
    return used() - before


async def call(http: httpx.AsyncClient, source: str, number: int) -> bool:
    """One call; whether its answer is right."""
    body = {
        "compile_timeout": 60,
        "run_timeout": 60,
        "code": source,
        "stdin": f"{number} {number}\n",
        "memory_limit_MB": 1024,
        "language": "cpp",
        "files": {},
        "fetch_files": [],
    }
    found = (await http.post("/v1/sandboxfusion/run_code", json=body)).json()
    ran: dict[str, Any] = found["run_result"] or {}
    return bool(found["status"] == "Success" and ran["stdout"] == f"{number * number}\n")


async def settled(account: Account) -> None:
    """Wait until the platform is idle: slots and launchers are started beside the first calls."""
    deadline_s, spent_s = time.monotonic() + START_S_MAX, float("inf")
    while spent_s > IDLE_CPU_S_MAX and time.monotonic() < deadline_s:
        before_s = account.cpu_s()
        await asyncio.sleep(1.0)
        spent_s = account.cpu_s() - before_s


async def main(rounds: int) -> None:
    """Measure and print."""
    ratios, walls, right = [], [], 0
    account = Account()
    async with (
        platform(account) as url,
        httpx.AsyncClient(base_url=url, timeout=300) as http,
    ):
        warm = SOURCE.format(mark=0)  # at once, so that every slot and its launcher starts
        await asyncio.gather(*(call(http, warm, n) for n in range(CALLS)))
        await settled(account)
        for index in range(rounds):
            source = SOURCE.format(mark=time.time_ns())
            with tempfile.TemporaryDirectory() as folder:
                floor_s = await asyncio.to_thread(alone, source, Path(folder))
            before_s, began_s = account.cpu_s(), time.monotonic()
            answers = await asyncio.gather(*(call(http, source, n) for n in range(CALLS)))
            wall_s, used_s = time.monotonic() - began_s, account.cpu_s() - before_s
            idle_before_s = account.cpu_s()
            await asyncio.sleep(wall_s)
            idle_s = account.cpu_s() - idle_before_s
            right += sum(answers)
            walls.append(wall_s)
            ratios.append((used_s - idle_s) / floor_s)
            print(
                f"round {index}: {sum(answers)} of {CALLS} right, {wall_s:.2f} s, platform "
                f"{used_s:.2f} CPU-s (idle {idle_s:.2f}), alone {floor_s:.2f}, "
                f"ratio {ratios[-1]:.2f}",
                flush=True,
            )
    account.close()
    print(
        f"{right} of {rounds * CALLS} right; median ratio {statistics.median(ratios):.2f}, "
        f"median wall {statistics.median(walls):.2f} s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
