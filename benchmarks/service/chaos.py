"""Crash recovery: requests while workers, the API and the store are killed with SIGKILL.

    python -m benchmarks.service.chaos [--requests 10000] [--seed N] [--json]

Sends requests with known rewards in batches, kills worker hosts, their children and sandboxed
programs at random during the run, kills the API once and the store once, and then checks: every
request has exactly one result, every reward is correct, the store holds nothing of them after
the results' retention, and no part has logged a traceback. Exits non-zero when a check fails, when
a kind of kill did not happen, or when the platform gave up.
"""

import argparse
import asyncio
import itertools
import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis

from assay.client import Backoff, Client, Request, Result
from benchmarks.harness.platform_run import Run, local_platform, processes_below
from benchmarks.harness.report import Report
from benchmarks.harness.service_logs import Logged
from benchmarks.harness.workloads import Case, exact, gsm8k, ten_test_cpp, trivial_python

BATCH = 500
RESULTS_KEPT_S = 15
LASTING = frozenset(
    {"t", "tt", "h", "used", "cost", "seq", "fence", "tasks", "ev", "pev", "lead", "leads"}
    | {"a", "ax", "at", "az", "am"}
)
"""Keys that belong to no request or batch: tasks and their history, recent costs of requests,
counters, events, the planner's lease, and artifacts, which are kept for later requests."""
KILL_EVERY_S = 0.5
FORK_SERVER = "assay.worker.forking.server"
HOST, WORKER, BOXED, API, STORE = (
    "worker host",
    "worker process",
    "process in a box",
    "API",
    "store",
)
TURNS = (*3 * (WORKER,), BOXED, HOST, *4 * (*9 * (WORKER,), BOXED))
"""Targets of the kills, in turn. A host is hit every 22 s, so that it can do some work: its start,
including the forks of eight stages, takes up to 6 s on two busy cores."""
API_KILL_SHARE, STORE_KILL_SHARE = 0.2, 0.5
"""Share of results after which the API, and the store, are killed."""


@dataclass(slots=True)
class Tally:
    """Counts of the run."""

    results: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    redelivered: int = 0


def cases(count: int) -> Sequence[Case]:
    """Mostly cheap cases, with real programs and real mathematics among them."""
    maths = list(gsm8k())[: count // 10]
    programs = [trivial_python(index) for index in range(count // 10)]
    # Four requests per source, so that a compilation is shared while its worker is killed.
    compiled = [ten_test_cpp(index // 4) for index in range(count // 500)]
    cheap = count - len(maths) - len(programs) - len(compiled)
    return [*maths, *programs, *compiled, *(exact(index) for index in range(cheap))]


async def score(client: Client, pipeline: str, todo: Sequence[Case], tally: Tally) -> None:
    """Send one pipeline's cases, one batch after the other, and check the results."""
    task = await client.register_task(f"chaos-{pipeline}", pipeline=pipeline)
    for first in range(0, len(todo), BATCH):
        part = todo[first : first + BATCH]
        expected = {f"{pipeline}/{first + i}": case.reward for i, case in enumerate(part)}
        batch = await client.open_batch(task, size=len(part))
        await batch.submit(
            Request(request_id=name, response=case.response, reference=case.reference)
            for name, case in zip(expected, part, strict=True)
        )
        async for result in batch.results():
            check(result, expected[result.request_id], tally)


def check(result: Result, expected: float, tally: Tally) -> None:
    """Count one result."""
    tally.results[result.request_id] += 1
    tally.outcomes[result.outcome.value] += 1
    tally.redelivered += result.attempts > len(result.stages)
    if result.reward is not None and result.reward != expected:
        told = f"{result.evidence.verdict} {result.evidence.error} {result.evidence.stderr_tail}"
        tally.wrong.append(f"{result.request_id}: {result.reward}, not {expected}: {told}")


async def kill_workers(rng: random.Random, tally: Tally) -> None:
    """Kill worker hosts, processes below them, and sandboxed processes, repeatedly."""
    for kind in itertools.cycle(TURNS):
        await asyncio.sleep(rng.uniform(0.3, 1.7) * KILL_EVERY_S)
        if victims := victims_of(kind):
            kill(rng.choice(victims), kind, tally)


def victims_of(kind: str) -> list[int]:
    """Processes that such a kill may hit now; a host is spared until it has probed its machine."""
    tree = processes_below(os.getpid())
    hosts = [pid for pid, command in tree.items() if command.endswith("-m assay.worker")]
    below = {host: processes_below(host) for host in hosts}
    up = [host for host in hosts if any(FORK_SERVER in name for name in below[host].values())]
    if kind == HOST:
        return up
    return [pid for host in up for pid in below[host] if in_a_box(pid) == (kind == BOXED)]


def in_a_box(pid: int) -> bool:
    """Whether it is in another pid namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(line.startswith("NSpid:") and len(line.split()) > 2 for line in status.splitlines())


async def kill_once(word: str, what: str, after: int, tally: Tally) -> None:
    """Kill the process whose command has `word`, once `after` requests have a result."""
    while True:
        await asyncio.sleep(0.02)
        if tally.results.total() < after:
            continue
        for pid, command in processes_below(os.getpid()).items():
            if word in command:
                kill(pid, what, tally)
                return


def kill(pid: int, what: str, tally: Tally) -> None:
    """Send SIGKILL, if the process still exists."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    tally.kills[what] += 1


async def leftovers(run: Run) -> list[str]:
    """Keys of requests and batches that remain after the results' retention."""
    async with Redis.from_url(run.addresses.store) as redis:
        end = time.monotonic() + 2 * RESULTS_KEPT_S
        while True:
            keys = [key.decode() async for key in redis.scan_iter(count=1000)]
            left = [key for key in keys if key.split(":")[2] not in LASTING]
            if not left or time.monotonic() > end:
                return left
            await asyncio.sleep(0.5)


async def main(requests: int, seed: int, *, as_json: bool) -> int:
    """Run everything; return the exit status."""
    print(f"seed {seed}", file=sys.stderr)
    rng = random.Random(seed)
    tally = Tally()
    todo = cases(requests)
    overrides = {
        "ASSAY_STORE__RESULTS_KEPT_S": str(RESULTS_KEPT_S),
        "ASSAY_STORE__ATTEMPTS_MAX": "10",
    }
    started = time.monotonic()
    async with local_platform(overrides) as run:
        backoff = Backoff(total_s=120.0)
        async with Client(run.addresses.grpc, backoff=backoff) as client:
            killers = [
                asyncio.create_task(kill_workers(rng, tally)),
                asyncio.create_task(
                    kill_once("assay.reward", API, int(API_KILL_SHARE * requests), tally)
                ),
                asyncio.create_task(
                    kill_once("valkey-server", STORE, int(STORE_KILL_SHARE * requests), tally)
                ),
            ]
            pipelines = sorted({case.pipeline for case in todo})
            async with asyncio.TaskGroup() as tasks:
                for name in pipelines:
                    part = [case for case in todo if case.pipeline == name]
                    tasks.create_task(score(client, name, part, tally))
            elapsed_s = time.monotonic() - started
            for killer in killers:
                killer.cancel()
            await asyncio.gather(*killers, return_exceptions=True)
        left = await leftovers(run)
        logged = Logged.of(run.settings.data_dir)
    return tell(requests, tally, left, elapsed_s, logged, as_json=as_json)


def tell(
    requests: int,
    tally: Tally,
    left: Sequence[str],
    elapsed_s: float,
    logged: Logged,
    *,
    as_json: bool,
) -> int:
    """Print the counts; non-zero when a check failed."""
    twice = sum(1 for count in tally.results.values() if count > 1)
    report = Report(title="Chaos", columns=("what", "count"))
    report.add(what="requests", count=requests)
    report.add(what="with a result", count=len(tally.results))
    report.add(what="with more than one result", count=twice)
    report.add(what="wrong rewards", count=len(tally.wrong))
    for outcome, count in sorted(tally.outcomes.items()):
        report.add(what=f"outcome {outcome}", count=count)
    report.add(what="delivered more than once", count=tally.redelivered)
    for what, count in sorted(tally.kills.items()):
        report.add(what=f"kill -9: {what}", count=count)
    report.add(what="keys left over", count=len(left))
    report.add(what="tracebacks and the like", count=logged.faults.total())
    report.add(what="log KB", count=round(logged.size_bytes / 1e3))
    report.add(what="seconds", count=round(elapsed_s, 1))
    report.show(as_json=as_json)
    for line in [*tally.wrong[:10], *left[:10], *list(logged.faults)[:10]]:
        print(line, file=sys.stderr)
    spared = {API, STORE, *TURNS} - set(tally.kills)
    if spared:
        print(f"not killed: {', '.join(sorted(spared))}", file=sys.stderr)
    lost = len(tally.results) != requests
    wrong = bool(tally.wrong or left or spared or logged.faults)
    return int(lost or twice > 0 or wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.requests, chosen.seed, as_json=chosen.json)))
