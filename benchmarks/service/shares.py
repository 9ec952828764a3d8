"""Where the CPU time of a request goes: parts of the platform, their boxes, the client.

    python -m benchmarks.service.shares [batch calls lone math noop] [--count 128] [--repeats 7]

* batch: trivial Python programs in one batch; calls: by `Score`, 16 at once; lone: one at a time
* math: real answers in one batch, each repeat the next ones
* noop: a stage that does nothing, in one batch (`--count` up to 4,096)

A process is counted by the scheduler's clock. Boxes end before they could be asked: they are what a
cgroup counts beyond the others, so this needs root. CPU time varies much less with other load than
rates do.
"""

import argparse
import asyncio
import itertools
import json
import os
import statistics
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from assay.client import Client, Request
from benchmarks.harness.platform_run import local_platform, processes_below, until_idle
from benchmarks.harness.report import Report, Spread
from benchmarks.harness.workloads import Case, gsm8k, trivial_python
from benchmarks.service.peers import STAGES, counted
from benchmarks.service.run_code import Account

AT_ONCE: Final = 16
KINDS: Final = ("batch", "calls", "lone", "math", "noop")
PARTS: Final = {
    "valkey": "store",
    "-m assay.reward": "API",
    "-m assay.worker.forking": "slots",
    "-m assay.worker": "worker host",
    "-m assay.planner": "planner",
    "assay-zygote": "zygotes",
}
"""Word of a command line -> part."""
PLATFORM: Final = {"ASSAY_WORKER__STAGES": json.dumps([*STAGES, "noop"])}
NOOP: Final = Case(pipeline="noop", response="x", reference={}, reward=1.0)
Work = Callable[[], Awaitable[None]]


def spent_ms() -> Mapping[int, tuple[str, float]]:
    """Part and CPU time so far of every process of the platform, and of this one."""
    found = {os.getpid(): ("client", _ms_of(os.getpid()))}
    for pid, command in processes_below(os.getpid()).items():
        part = next((part for word, part in PARTS.items() if word in command), "others")
        if part == "slots":
            with suppress(OSError):
                part = Path(f"/proc/{pid}/comm").read_text().strip()
        found[pid] = (part, _ms_of(pid))
    return found


def _ms_of(pid: int) -> float:
    spent_ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            spent_ns += int(task.read_text().split()[0])
    return spent_ns / 1e6


async def score(client: Client, cases: list[Case]) -> None:
    """Score them in one call, and compare with their known rewards."""
    requests = [
        Request(request_id=str(number), response=case.response, reference=case.reference)
        for number, case in enumerate(cases)
    ]
    found = await client.score(requests, pipeline=cases[0].pipeline)
    if found.rewards != [case.reward for case in cases]:
        raise SystemExit("wrong rewards")


def works(client: Client, count: int) -> Mapping[str, Work]:
    """What is done once per repeat, by kind."""
    answers = itertools.cycle(gsm8k())
    free = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with free:
            await score(client, [trivial_python(number)])

    async def lone() -> None:
        for number in range(count):
            await score(client, [trivial_python(number)])

    async def calls() -> None:
        await asyncio.gather(*(one(number) for number in range(count)))

    return {
        "batch": lambda: score(client, [trivial_python(number) for number in range(count)]),
        "calls": calls,
        "lone": lone,
        "math": lambda: score(client, list(itertools.islice(answers, count))),
        "noop": lambda: score(client, [NOOP] * count),
    }


async def repeat(work: Work, count: int, account: Account) -> Mapping[str, float]:
    """CPU time by part, in ms per request."""
    before, whole_s = spent_ms(), account.cpu_s()
    await work()
    whole_ms, after = (account.cpu_s() - whole_s) * 1e3, spent_ms()
    parts: dict[str, float] = {}
    for pid, (part, ms) in after.items():
        earlier_ms = before[pid][1] if pid in before else 0.0
        parts[part] = parts.get(part, 0.0) + (ms - earlier_ms) / count
    parts["boxes"] = whole_ms / count - sum(parts.values())
    return {"all": whole_ms / count, **parts}


async def measure(options: argparse.Namespace) -> None:
    """All kinds on one platform."""
    report = Report(
        title=f"CPU time per request, load {os.getloadavg()[0]:.1f}",
        columns=("work", "part", "ms"),
    )
    with counted() as account:
        if account is None:
            raise SystemExit("a cgroup counts the boxes: this needs root")
        async with local_platform(PLATFORM) as run, Client(run.addresses.grpc) as client:
            for kind in options.kinds or KINDS[:3]:
                work = works(client, options.count)[kind]
                await work()
                await until_idle()
                rows = [await repeat(work, options.count, account) for _ in range(options.repeats)]
                parts = {part for row in rows for part in row}
                found = {part: [row.get(part, 0.0) for row in rows] for part in parts}
                for part, each in sorted(found.items(), key=lambda one: -statistics.median(one[1])):
                    if statistics.median(each) >= options.least_ms:
                        report.add(work=kind, part=part, ms=Spread.of(each))
    report.show(as_json=options.json)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    # Checked here: `choices` and an empty list exclude each other in Python 3.11.
    parser.add_argument(
        "kinds", nargs="*", help=f"of {', '.join(KINDS)}; default: {', '.join(KINDS[:3])}"
    )
    parser.add_argument("--count", type=int, default=128, help="requests per repeat")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--least-ms", type=float, default=0.005, help="parts that are left out")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"no such work: {', '.join(sorted(unknown))}")
    asyncio.run(measure(options))


if __name__ == "__main__":
    main()
