"""Overhead of the platform: gRPC in, queue, worker, result out, with a stage that always accepts.

    python -m benchmarks.service.noop_path [--repeats 3] [--total 20000] [--rate 500] [--json]

* closed loop: messages of 64 requests, 8 messages in flight; requests per second from the
first submission to the last result
* open loop: single requests with random (Poisson) arrivals at a given rate, one per message;
milliseconds from the instant at which a request should have been sent to its result

Everything is real: the services and the embedded store are processes of their own; the client is
this process, on the same machine.
"""

import argparse
import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import Sequence

import uvloop

from assay.client import Batch, Client, Request
from benchmarks.harness.platform_run import local_platform
from benchmarks.harness.report import OUT, Report, Spread, bar_plot, percentile

MESSAGE = 64
WINDOW = 8
SUBMITTING_MAX = 256
SEED = 1
now_s = time.perf_counter


def requests(count: int) -> Sequence[Request]:
    """Ids are numbers; eight per group."""
    return [
        Request(request_id=f"{i}", group_id=f"g{i // 8}", response=f"answer {i}", reference={})
        for i in range(count)
    ]


async def closed_loop(client: Client, total: int) -> float:
    """Requests per second, with `WINDOW` messages in flight."""
    batch = await client.open_batch("noop", size=total, group_size=8)
    everything = requests(total)
    window = asyncio.Semaphore(WINDOW)
    left = [len(everything[first : first + MESSAGE]) for first in range(0, total, MESSAGE)]

    async def read() -> None:
        async for page in batch.pages():
            for result in page.results:
                message = int(result.request_id) // MESSAGE
                left[message] -= 1
                if not left[message]:
                    window.release()

    begun = now_s()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read())
        for first in range(0, total, MESSAGE):
            await window.acquire()
            tasks.create_task(_submit(batch, everything[first : first + MESSAGE]))
    return total / (now_s() - begun)


async def open_loop(client: Client, total: int, rate: float) -> list[float]:
    """Seconds of every request, at `rate` per second."""
    batch = await client.open_batch("noop", size=total)
    randomness = random.Random(SEED)
    due: list[float] = []
    instant = now_s() + 0.2
    for _ in range(total):
        instant += randomness.expovariate(rate)
        due.append(instant)
    latencies: list[float] = []

    async def read() -> None:
        async for page in batch.pages():
            arrived = now_s()
            latencies.extend(arrived - due[int(result.request_id)] for result in page.results)

    submitting = asyncio.Semaphore(SUBMITTING_MAX)

    async def submit(request: Request) -> None:
        async with submitting:
            await batch.submit([request])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read())
        for request in requests(total):
            pause_s = due[int(request.request_id)] - now_s()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            tasks.create_task(submit(request))
    return latencies


async def _submit(batch: Batch, chunk: Sequence[Request]) -> None:
    await batch.submit(chunk)


async def measure(options: argparse.Namespace) -> None:
    """Run both loops on one platform."""
    report = Report(
        title="No-op stage through the whole path",
        columns=("what", "requests/s", "p50 ms", "p99 ms", "max ms"),
    )
    bars: dict[str, float | Spread] = {}
    overrides = {
        "ASSAY_WORKER__STAGES": '["noop"]',
        "ASSAY_WORKER__SLOTS": str(options.slots),
    }
    async with local_platform(overrides) as run, Client(run.addresses.grpc) as client:
        await client.register_task("noop", pipeline="noop")
        await closed_loop(client, 2_000)
        rates = [await closed_loop(client, options.total) for _ in range(options.repeats)]
        closed = f"closed loop, {MESSAGE} per message, {WINDOW} in flight"
        report.add(what=closed, **{"requests/s": Spread.of(rates)})
        bars["closed loop"] = Spread.of(rates)
        rounds = [
            await open_loop(client, options.rate * options.seconds, options.rate)
            for _ in range(options.repeats)
        ]
        report.add(
            what=f"open loop, 1 per message, {options.rate}/s",
            **{
                "requests/s": options.rate,
                "p50 ms": Spread.of([statistics.median(r) * 1e3 for r in rounds]),
                "p99 ms": Spread.of([percentile(r, 0.99) * 1e3 for r in rounds]),
                "max ms": Spread.of([max(r) * 1e3 for r in rounds]),
            },
        )
    report.show(as_json=options.json)
    with contextlib.suppress(ImportError):  # the plot is optional
        bar_plot(OUT / "noop_path.png", report.title, "requests/s", bars)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--total", type=int, default=20_000, help="requests of a closed loop")
    parser.add_argument("--rate", type=int, default=500, help="requests per second, open loop")
    parser.add_argument("--seconds", type=int, default=10, help="length of the open loop")
    parser.add_argument("--slots", type=int, default=1, help="worker slots of the no-op stage")
    parser.add_argument("--json", action="store_true")
    uvloop.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
