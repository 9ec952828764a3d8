"""Throughput of real work, compared with common methods without a platform, in one run.

    python -m benchmarks.service.throughput [python|cpp|math|first ...] [--repeats 3]
        [--planner] [--json]

* python: trivial programs through `Score`, closed loop, fully isolated, against a bare `python -c`
* cpp: a ten-test `<bits/stdc++.h>` submission, CPU-seconds of the whole platform for it
* math: real answers, against calling math-verify directly in as many processes
* first: the first request of stages that sleep until then, and the median of those after it
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from assay.cli.operate.status_client import ask_planner, list_pools
from assay.cli.platform.addresses import planner_address
from assay.client import Client, Request
from benchmarks.harness.platform_run import (
    Run,
    local_platform,
    processes_below,
    until_idle,
)
from benchmarks.harness.report import OUT, Report, Spread, bar_plot, percentile
from benchmarks.harness.workloads import Case, exact, gsm8k, ten_test_cpp, trivial_python

MATHS = 2_000
SLOTS = 2
LATER = 9
"""Requests after the first."""
READY_S_MAX = 60.0
now_s = time.perf_counter
Step = Callable[[int], Awaitable[None]]


async def closed_loop(step: Step, *, total: int, concurrency: int) -> tuple[float, list[float]]:
    """Run `total` steps, `concurrency` at a time; steps per second, and the seconds of each."""
    numbers = iter(range(total))
    latencies: list[float] = []

    async def caller() -> None:
        for number in numbers:
            begun = now_s()
            await step(number)
            latencies.append(now_s() - begun)

    begun = now_s()
    await asyncio.gather(*(caller() for _ in range(concurrency)))
    return total / (now_s() - begun), latencies


async def score_one(client: Client, case: Case, number: int) -> None:
    """Judge one request and compare the result with its known reward."""
    request = Request(request_id=f"r{number}", response=case.response, reference=case.reference)
    scores = await client.score([request], pipeline=case.pipeline)
    if scores.rewards != [case.reward]:
        raise SystemExit(f"wrong: {scores.results[0]}")


async def bare_spawn(number: int) -> None:
    """Without a platform: no isolation, no limits."""
    code = f"print(int(input()) + {number})"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    await process.communicate(b"1\n")


async def python(run: Run, repeats: int) -> Report:
    report = Report(
        title="Trivial Python programs, closed loop",
        columns=("what", "concurrency", "requests/s", "p50 ms", "p99 ms"),
    )
    bars: dict[str, float | Spread] = {}
    async with Client(run.addresses.grpc) as client:

        async def isolated(number: int) -> None:
            await score_one(client, trivial_python(number), number)

        await closed_loop(isolated, total=50, concurrency=4)
        for concurrency, total in ((1, 100), (4, 300), (16, 600)):
            for what, step in (("bare python -c", bare_spawn), ("assay, isolated", isolated)):
                rounds = [
                    await closed_loop(step, total=total, concurrency=concurrency)
                    for _ in range(repeats)
                ]
                rate = Spread.of([rate for rate, _ in rounds])
                report.add(
                    what=what,
                    concurrency=concurrency,
                    **{
                        "requests/s": rate,
                        "p50 ms": Spread.of([statistics.median(r[1]) * 1e3 for r in rounds]),
                        "p99 ms": Spread.of([percentile(r[1], 0.99) * 1e3 for r in rounds]),
                    },
                )
                bars[f"{what}, {concurrency} at once"] = rate
    bar_plot(OUT / "python.png", "Trivial Python programs", "requests/s", bars)
    return report


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of all processes below `pid`, including children already reaped."""
    ticks = 0
    for one in processes_below(pid):
        try:
            fields = (Path("/proc") / str(one) / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


async def cpp(run: Run, repeats: int) -> Report:
    """One new source, ten tests."""
    report = Report(
        title="Ten-test <bits/stdc++.h> submission",
        columns=("what", "platform CPU s", "request CPU s", "wall s"),
    )
    whole, own, wall, shared = [], [], [], []
    async with Client(run.addresses.grpc) as client:
        await score_one(client, ten_test_cpp(0), 0)
        for repeat in range(1, repeats + 1):
            case = ten_test_cpp(repeat)
            before, begun = tree_cpu_s(os.getpid()), now_s()
            request = Request(request_id="r", response=case.response, reference=case.reference)
            scores = await client.score([request], pipeline="code.cpp")
            whole.append(tree_cpu_s(os.getpid()) - before)
            wall.append(now_s() - begun)
            own.append(scores.results[0].resource_use.cpu_s)
            before = tree_cpu_s(os.getpid())
            await score_one(client, case, repeat)
            shared.append(tree_cpu_s(os.getpid()) - before)
    columns = ("platform CPU s", "request CPU s", "wall s")
    values = (Spread.of(whole), Spread.of(own), Spread.of(wall))
    report.add(what="new source", **dict(zip(columns, values, strict=True)))
    report.add(what="same source again", **{"platform CPU s": Spread.of(shared)})
    return report


def verify_directly(pair: tuple[str, str]) -> bool:
    """The function that the math pipeline wraps."""
    from math_verify import parse, verify  # type: ignore[import-untyped]  # in the child only

    gold, answer = pair
    return bool(verify(parse(f"${gold}$"), parse(f"${answer}$")))


async def math(run: Run, repeats: int) -> Report:
    """Real answers, by both methods."""
    cases = list(gsm8k())[:MATHS]
    pairs = [
        (case.reference["answers"][0], case.response.rsplit("A:", 1)[-1].strip()) for case in cases
    ]
    direct, ours = [], []
    async with Client(run.addresses.grpc) as client:
        task = await client.register_task("bench-math", pipeline="math")
        with multiprocessing.get_context("spawn").Pool(SLOTS) as pool:
            pool.map(verify_directly, pairs[:50])
            for repeat in range(repeats):
                begun = now_s()
                await asyncio.to_thread(pool.map, verify_directly, pairs, chunksize=20)
                direct.append(len(pairs) / (now_s() - begun))
                begun = now_s()
                batch = await client.open_batch(task, size=len(cases))
                await batch.submit(
                    Request(request_id=f"{repeat}/{i}", response=c.response, reference=c.reference)
                    for i, c in enumerate(cases)
                )
                count = 0
                async for result in batch.results():
                    count += result.reward is not None
                ours.append(count / (now_s() - begun))
    report = Report(title="Mathematics, real answers", columns=("what", "answers/s", "ratio"))
    report.add(what=f"math-verify directly, {SLOTS} processes", **{"answers/s": Spread.of(direct)})
    ratio = Spread.of([d / o for d, o in zip(direct, ours, strict=True)])
    report.add(what=f"assay, {SLOTS} slots", **{"answers/s": Spread.of(ours), "ratio": ratio})
    return report


async def until_all_run(run: Run) -> None:
    """Wait for every slot, and for a leading planner."""
    async with asyncio.timeout(READY_S_MAX):
        while True:
            pools = await list_pools(run.addresses.control)
            awake = [p for p in pools.pools if p.slots_desired] if pools else []
            ready = awake and all(p.slots_ready >= p.slots_desired for p in awake)
            if ready and "leading" in await ask_planner(planner_address(run.settings)):
                return
            await asyncio.sleep(0.2)


async def first(run: Run, _repeats: int) -> Report:
    """How long the first request takes where it wakes its stage."""
    await until_all_run(run)
    await until_idle()
    report = Report(title="First requests", columns=("pipeline", "first ms", "later ms"))
    async with Client(run.addresses.grpc) as client:
        for make in (noop, exact):
            took_ms = []
            for number in range(1 + LATER):
                begun = now_s()
                case = make(number)
                await score_one(client, case, number)
                took_ms.append((now_s() - begun) * 1e3)
            later = statistics.median(took_ms[1:])
            report.add(
                pipeline=case.pipeline, **{"first ms": f"{took_ms[0]:.0f}", "later ms": later}
            )
    return report


def noop(number: int) -> Case:
    """Every response passes."""
    return Case(pipeline="noop", response=f"answer {number}", reference={}, reward=1.0)


PARTS = {"python": python, "cpp": cpp, "math": math, "first": first}


async def main(parts: Sequence[str], repeats: int, *, planner: bool, as_json: bool) -> None:
    """Measure each part on a separate platform, with fixed slots unless the planner is enabled."""
    for part in parts:
        planned = planner or part == "first"
        overrides = {
            "ASSAY_WORKER__SLOTS": str(SLOTS),
            "ASSAY_PLANNER__ENABLED": str(planned).lower(),
        }
        async with local_platform(overrides) as run:
            (await PARTS[part](run, repeats)).show(as_json=as_json)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    # Checked here: `choices` and an empty list exclude each other in Python 3.11.
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--planner", action="store_true", help="let it size the pools")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    parts = chosen.parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    asyncio.run(main(parts, chosen.repeats, planner=chosen.planner, as_json=chosen.json))
