"""The hot path of this tree against that of another checkout, in alternating rounds.

    git worktree add /path/to/base COMMIT     # with an environment of its own in .venv
    python -m benchmarks.service.paired --baseline /path/to/base [--rounds 8] [--only noop64 ...]

Both platforms run at the same time, with the same settings, on free ports; only one of them has
work at any instant, and the order changes each round. One client, that of this tree, sends to both;
to this tree it joins small submissions, as by default, to the baseline it does not.
Per kind of work and round:

* seconds, this tree over the baseline: needs a quiet machine
* CPU-seconds per 1,000 requests of API, store and worker host with all their processes: these
  vary much less with the load of the machine
* commands of the store per request, those within scripts included

A figure is the median of the rounds' ratios (minimum to maximum); above 1 this tree costs more.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from redis.asyncio import Redis

from assay.client import Client, Request
from assay.client.joining import JOIN_S
from benchmarks.harness.platform_run import FREE_PORTS, processes_below
from benchmarks.harness.report import Report, Spread
from benchmarks.harness.workloads import trivial_python

ROOT = Path(__file__).resolve().parents[2]
READY_S_MAX = 60.0
STOP_S_MAX = 60.0
IDLE_CPU_S_MAX = 0.04
"""Of an idle platform in a second; a slot that is warmed up takes most of one."""
WINDOW = 8
SINGLES_IN_FLIGHT = 16
MESSAGE = 64
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PARTS = {"API": "-m assay.reward", "store": "valkey-server", "host": "-m assay.worker"}
"""Part -> a word of the command line of its topmost process."""
SETTINGS = {
    **FREE_PORTS,
    "ASSAY_PLANNER__ENABLED": "false",
    "ASSAY_WORKER__STAGES": '["noop", "python.run", "extract", "math.verify"]',
    "ASSAY_WORKER__SLOTS": "2",
}
RESPONSES = 8
"""Per prompt: of one group and reference. Each slot audits a reference that it has not seen."""
now_s = time.perf_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One of the two."""

    client: Client
    store: Redis
    pid: int


# -- the work --------------------------------------------------------------------------------------
async def batch_of(platform: Platform, pipeline: str, requests: Sequence[Request]) -> None:
    """One batch, submitted in messages of `MESSAGE` with `WINDOW` of them in flight."""
    batch = await platform.client.open_batch(pipeline, size=len(requests))
    window = asyncio.Semaphore(WINDOW)

    async def submit(first: int) -> None:
        async with window:
            await batch.submit(requests[first : first + MESSAGE])

    async with asyncio.TaskGroup() as tasks:
        scores = tasks.create_task(batch.collect())
        for first in range(0, len(requests), MESSAGE):
            tasks.create_task(submit(first))
    rewards = scores.result().rewards
    if rewards != [1.0] * len(requests):
        raise SystemExit(f"{pipeline}: wrong rewards: {Counter(rewards)}")


async def noop64(platform: Platform, count: int) -> None:
    """No-op, 64 per message."""
    await batch_of(platform, "noop", noops(count))


async def noop1(platform: Platform, count: int) -> None:
    """No-op, one per message, 16 in flight."""
    batch = await platform.client.open_batch("noop", size=count)
    everything = iter(noops(count))

    async def submit() -> None:
        for request in everything:
            await batch.submit([request])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(batch.collect())
        for _ in range(SINGLES_IN_FLIGHT):
            tasks.create_task(submit())


async def score1(platform: Platform, count: int) -> None:
    """No-op, one per `Score` call, 16 in flight."""
    everything = iter(noops(count))

    async def score() -> None:
        for request in everything:
            await platform.client.score([request], pipeline="noop")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(SINGLES_IN_FLIGHT):
            tasks.create_task(score())


async def python(platform: Platform, count: int) -> None:
    """Trivial programs with one test, in the sandbox; eight responses per reference."""
    cases = [trivial_python(index // RESPONSES) for index in range(count)]
    requests = [
        Request(request_id=f"{index}", response=case.response, reference=case.reference)
        for index, case in enumerate(cases)
    ]
    await batch_of(platform, "code.python", requests)


async def math(platform: Platform, count: int) -> None:
    requests = [
        Request(
            request_id=f"{index}",
            response=f"So the answer is $\\boxed{{\\frac{{{index + 1}}}{{7}}}}$.",
            reference={"answers": [f"\\frac{{{index + 1}}}{{7}}"]},
        )
        for index in range(count)
    ]
    await batch_of(platform, "math", requests)


def noops(count: int) -> Sequence[Request]:
    """Ids are numbers."""
    return [
        Request(
            request_id=f"{index}",
            group_id=f"g{index // RESPONSES}",
            response=f"answer {index}",
            reference={},
        )
        for index in range(count)
    ]


Work = Callable[[Platform, int], Awaitable[None]]
KINDS: Mapping[str, tuple[Work, int]] = {
    "noop64": (noop64, 9_600),
    "noop1": (noop1, 2_000),
    "score1": (score1, 600),
    "python": (python, 192),
    "math": (math, 384),
}
"""Kind -> its work, and requests per round."""


# -- the platforms ---------------------------------------------------------------------------------
@asynccontextmanager
async def platform_of(checkout: Path, *, join_s: float = 0.0) -> AsyncIterator[Platform]:
    """Start the platform of a checkout with its own environment; `join_s` as in `Client`."""
    with tempfile.TemporaryDirectory(prefix="assay-paired-") as data_dir:
        environment = {**os.environ, **SETTINGS, "ASSAY_DATA_DIR": data_dir}
        command = (str(checkout / ".venv/bin/assay"), "up", "--plain", "--no-planner")
        process = await asyncio.create_subprocess_exec(
            *command, cwd=checkout, env=environment, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            addresses = await _ready(Path(data_dir) / "run", process)
            async with (
                Client(addresses["grpc"], join_s=join_s) as client,
                Redis.from_url(f"unix://{_socket_in(Path(data_dir))}") as store,
            ):
                await _settled(process.pid)
                yield Platform(client=client, store=store, pid=process.pid)
        finally:
            process.terminate()
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()


def _socket_in(data_dir: Path) -> Path:
    return next(path for path in data_dir.rglob("*") if path.is_socket() and "valkey" in str(path))


async def _ready(run: Path, process: asyncio.subprocess.Process) -> Mapping[str, str]:
    deadline_s = now_s() + READY_S_MAX
    while now_s() < deadline_s:
        if process.returncode is not None:
            raise SystemExit(f"the platform ended with status {process.returncode}")
        if (run / "worker.json").exists() and (run / "reward.json").exists():
            addresses: Mapping[str, str] = json.loads((run / "reward.json").read_text())
            return addresses
        await asyncio.sleep(0.1)
    raise SystemExit("the platform was not ready in time")


async def _settled(pid: int) -> None:
    """Wait until the platform is idle: slots are warmed up after it is ready."""
    deadline_s = now_s() + READY_S_MAX
    spent_s = float("inf")
    while spent_s > IDLE_CPU_S_MAX and now_s() < deadline_s:
        before_s = sum(cpu_s(pid).values())
        await asyncio.sleep(1.0)
        spent_s = sum(cpu_s(pid).values()) - before_s


def cpu_s(pid: int) -> Mapping[str, float]:
    """CPU-seconds of each part so far: its processes, and those that they have waited for."""
    used: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    below = processes_below(pid)
    parents = {each: int(_stat(each)[1]) for each in below if _stat(each)}
    for each in below:
        part = _part_of(each, below, parents)
        if part and (stat := _stat(each)):
            used[part] += _running_s(each) + sum(map(int, stat[13:15])) / TICKS_PER_S
    return used


def _part_of(pid: int, commands: Mapping[int, str], parents: Mapping[int, int]) -> str | None:
    found = None
    while pid in commands:
        found = next((part for part, word in PARTS.items() if word in commands[pid]), found)
        pid = parents.get(pid, 0)
    return found


def _running_s(pid: int) -> float:
    """CPU-seconds of a process, by the scheduler's clock: `stat` counts in ticks of 10 ms."""
    spent_ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            spent_ns += int(task.read_text().split()[0])
    return spent_ns / 1e9


def _stat(pid: int) -> Sequence[str]:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ()


async def commands(platform: Platform) -> Counter[str]:
    """Calls of each command of the store so far."""
    stats = await platform.store.info("commandstats")
    called: Counter[str] = Counter()
    for name, each in stats.items():
        called[name.removeprefix("cmdstat_")] = int(each["calls"])
    return called


# -- the measurement -------------------------------------------------------------------------------
async def measured(platform: Platform, work: Work, count: int) -> Mapping[str, float]:
    before, called = cpu_s(platform.pid), await commands(platform)
    begun = now_s()
    await work(platform, count)
    seconds = now_s() - begun
    after, calls = cpu_s(platform.pid), await commands(platform)
    figures = {
        f"{part} CPU-s/1,000": (after.get(part, 0.0) - before.get(part, 0.0)) * 1_000 / count
        for part in PARTS
    }
    figures["all CPU-s/1,000"] = sum(figures.values())
    figures["store commands"] = (calls - called).total() / count
    return {"s": seconds, **figures}


async def compared(
    ours: Platform, theirs: Platform, kind: str, *, rounds: int, scale: float, report: Report
) -> None:
    """All rounds of one kind of work."""
    work, count = KINDS[kind]
    count = max(MESSAGE, round(count * scale))
    for platform in (ours, theirs):
        await platform.client.register_task(kind_task(kind), pipeline=kind_task(kind))
        await work(platform, max(MESSAGE, count // 4))
    pairs: list[tuple[Mapping[str, float], Mapping[str, float]]] = []
    for number in range(rounds):
        found = {}
        for platform in (ours, theirs) if number % 2 else (theirs, ours):
            found[platform.pid] = await measured(platform, work, count)
        pairs.append((found[ours.pid], found[theirs.pid]))
    for what in pairs[0][0]:
        ratios = [mine[what] / other[what] for mine, other in pairs if other[what]]
        report.add(
            work=kind,
            what=what,
            baseline=statistics.median(other[what] for _, other in pairs),
            this=statistics.median(mine[what] for mine, _ in pairs),
            ratio=Spread.of(ratios) if ratios else "",
        )


def kind_task(kind: str) -> str:
    """Name of the task of a kind of work, and of its pipeline."""
    return {"python": "code.python", "math": "math"}.get(kind, "noop")


async def measure(options: argparse.Namespace) -> None:
    """Both platforms, all kinds."""
    report = Report(
        title="This tree over the baseline", columns=("work", "what", "baseline", "this", "ratio")
    )
    join_s = 0.0 if options.no_joining else JOIN_S
    async with (
        platform_of(ROOT, join_s=join_s) as ours,
        platform_of(options.baseline) as theirs,
    ):
        for kind in options.only:
            await compared(
                *(ours, theirs, kind), rounds=options.rounds, scale=options.scale, report=report
            )
        if options.commands:
            await _print_commands(ours, theirs, options.only[-1])
    report.show(as_json=options.json)


async def _print_commands(ours: Platform, theirs: Platform, kind: str) -> None:
    work, count = KINDS[kind]
    rows = []
    for platform in (ours, theirs):
        called = await commands(platform)
        await work(platform, count)
        rows.append(await commands(platform) - called)
    for name in sorted(rows[0] | rows[1]):
        print(f"{name:24} {rows[1][name] / count:8.3f} -> {rows[0][name] / count:8.3f}")


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--baseline", type=Path, required=True, help="a checkout with its .venv")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--scale", type=float, default=1.0, help="of the requests per round")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--commands", action="store_true", help="of the store, by name")
    parser.add_argument("--no-joining", action="store_true", help="the client joins no messages")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.baseline = options.baseline.resolve()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a text stream
    uvloop.run(measure(options))


if __name__ == "__main__":
    main()
