"""Cost of the store: server and client CPU per request, round trips, and wake-up latency.

    python -m benchmarks.store.calls [--json] [--requests 12800] [--repeats 3] [--open 16000]

An embedded Valkey (AOF everysec) and one client process, compared with bare PINGs over the same
connection. Each request: a 1 KB response, a 100-byte reference, groups of 16, a 200-byte body.
`open_work` is read from a batch of `--open` requests, half of them past the first of three stages;
its longest script call, as measured by the server, is how long it blocks other calls.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from assay.config.settings import StoreSettings
from assay.core.ids import (
    BatchId,
    GroupId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    Claim,
    EndRequest,
    Finish,
    HandOver,
    NewRequest,
    Quota,
    Report,
    StageReport,
    TaskRecord,
)
from assay.store.embedded import EmbeddedValkey
from assay.store.link import SLICE, Link
from assay.store.valkey import ValkeyStore, open_store
from benchmarks.harness.report import Report as Table
from benchmarks.harness.report import Spread, percentile

TENANT, STAGE, WORKER = TenantId("bench"), StageName("only"), WorkerId("bench/1")
TASK = TaskRecord(
    tenant=TENANT,
    task_id=TaskId("noop"),
    pipeline=PipelineName("noop"),
    stages=(STAGE,),
    settings_json=b"{}",
)
THREE = (StageName("one"), StageName("two"), StageName("three"))
LONG_TASK = replace(TASK, task_id=TaskId("three"), stages=THREE)
GROUP = 16
END = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"b" * 200)
PINGS = 2_000
LOOKS = 5
WAKES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Microseconds per request."""

    wall_us: float
    server_us: float
    client_us: float


class Meter:
    """CPU and wall time between two readings."""

    def __init__(self, server_pid: int) -> None:
        self._processes = psutil.Process(server_pid), psutil.Process()
        self._last = self._look()

    def _look(self) -> tuple[float, float, float]:
        server, client = (process.cpu_times() for process in self._processes)
        return time.perf_counter(), server.user + server.system, client.user + client.system

    def lap(self, requests: int) -> Cost:
        """Cost per request since the last lap."""
        before, self._last = self._last, self._look()
        wall, server, client = (
            (now - then) / requests * 1e6 for then, now in zip(before, self._last, strict=True)
        )
        return Cost(wall_us=wall, server_us=server, client_us=client)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[EmbeddedValkey, ValkeyStore]]:
    """A fresh server and a store on it."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedValkey(Path(folder))
        await server.start()
        store = open_store(StoreSettings(), data_dir=Path(folder))
        try:
            yield server, store
        finally:
            await store.close()
            await server.stop()


def _requests(count: int) -> Sequence[NewRequest]:
    return [
        NewRequest(
            request_id=RequestId(f"step12/prompt{index // GROUP}:k{index % GROUP}"),
            group_id=GroupId(f"prompt{index // GROUP}"),
            response=b"r" * 1_000,
            reference=b"{}" * 50,
        )
        for index in range(count)
    ]


async def _open(store: ValkeyStore, name: str, size: int, task: TaskRecord = TASK) -> BatchId:
    await store.put_task(task)
    batch_id = BatchId(name)
    spec = BatchSpec(
        tenant=TENANT,
        batch_id=batch_id,
        task_id=task.task_id,
        size=size,
        group_size=GROUP,
        deadline_after_ms=600_000,
    )
    await store.open_batch(spec, Quota())
    return batch_id


def _report(claim: Claim, finish: Finish = END) -> Report:
    return Report(
        lease=claim.lease,
        report=StageReport(worker=WORKER, started_after_ns=1_000, finished_after_ns=9_000),
        finish=finish,
    )


async def way(
    store: ValkeyStore, meter: Meter, name: str, *, count: int, message: int
) -> dict[str, Cost]:
    """Process `count` requests completely, `message` per call, one call after the other."""
    batch_id, requests = await _open(store, name, count), _requests(count)
    costs: dict[str, Cost] = {}
    meter.lap(count)
    for first in range(0, count, message):
        await store.submit(TENANT, batch_id, requests[first : first + message], Quota())
    costs["submit"] = meter.lap(count)
    held: list[Sequence[Claim]] = []
    while claims := await store.claim(STAGE, claims_max=message, lease_s=600, worker=WORKER):
        held.append(claims)
    costs["claim"] = meter.lap(count)
    for claims in held:
        await store.finish(STAGE, [_report(claim) for claim in claims], 3)
    costs["finish"] = meter.lap(count)
    cursor = 0
    while entries := await store.results(TENANT, batch_id, cursor=cursor, entries_max=message):
        cursor += len(entries)
    costs["results"] = meter.lap(count)
    return costs


async def looks(
    server: EmbeddedValkey, store: ValkeyStore, meter: Meter, name: str, *, count: int
) -> tuple[Sequence[Cost], Sequence[float]]:
    """Read the open work of a batch of `count`; costs, and microseconds of the longest calls."""
    batch_id, requests = await _open(store, name, count, LONG_TASK), _requests(count)
    for first in range(0, count, SLICE):
        await store.submit(TENANT, batch_id, requests[first : first + SLICE], Quota())
    on = HandOver(next_stage=THREE[1], handover=b"")
    for _ in range(count // 2 // SLICE):
        claims = await store.claim(THREE[0], claims_max=SLICE, lease_s=600, worker=WORKER)
        await store.finish(THREE[0], [_report(claim, on) for claim in claims], 3)
    costs, longest_us = [], []
    link = Link(server.url, prefix="", timeout_s=10.0)
    await link.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
    await link.call("CONFIG", "SET", "slowlog-max-len", 10_000)
    for _ in range(LOOKS):
        await link.call("SLOWLOG", "RESET")
        meter.lap(count)
        [work] = await store.open_work(batches_max=100, requests_max=count)
        costs.append(meter.lap(count))
        if len(work.requests) != count:
            raise SystemExit("some open work was not seen")
        longest_us.append(max(entry[2] for entry in await link.call("SLOWLOG", "GET", -1)))
    await link.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
    await link.close()
    await store.cancel(TENANT, batch_id)
    return costs, longest_us


async def pings(store: ValkeyStore, meter: Meter) -> Cost:
    """Bare round trips on the same connection."""
    meter.lap(1)
    for _ in range(PINGS):
        await store.ping()
    return meter.lap(PINGS)


async def wakes(store: ValkeyStore) -> Sequence[float]:
    """Milliseconds from before `submit` until a sleeping worker has its claim."""
    batch_id, delays_ms = await _open(store, "wakes", 0), []
    for index in range(WAKES):
        sleeper = asyncio.create_task(_wake(store))
        await asyncio.sleep(0.003)  # it sleeps by now
        before_s = time.perf_counter()
        one = NewRequest(
            request_id=RequestId(f"w{index}"),
            group_id=GroupId(""),
            response=b"",
            reference=b"",
        )
        await store.submit(TENANT, batch_id, [one], Quota())
        claimed_s, claims = await sleeper
        delays_ms.append((claimed_s - before_s) * 1e3)
        await store.finish(STAGE, [_report(claim) for claim in claims], 3)
    return delays_ms


async def _wake(store: ValkeyStore) -> tuple[float, Sequence[Claim]]:
    while True:
        if await store.wait_for_work([STAGE], timeout_s=5.0) is None:
            continue
        claims = await store.claim(STAGE, claims_max=1, lease_s=60, worker=WORKER)
        if claims:
            return time.perf_counter(), claims


async def measure(arguments: argparse.Namespace) -> Table:
    """Measure all rows."""
    columns = (
        "call",
        "requests per call",
        "wall us",
        "server cpu us",
        "client cpu us",
        "requests/s",
    )
    table = Table(title="Store: cost of a request", columns=columns)
    found: dict[tuple[str, int], list[Cost]] = {}
    longest_us: list[float] = []
    async with opened() as (server, store):
        if server.pid is None:
            raise SystemExit("the server died")
        meter = Meter(server.pid)
        await way(store, meter, "warm", count=256, message=64)
        for repeat in range(arguments.repeats):
            found.setdefault(("PING", 1), []).append(await pings(store, meter))
            for message, count in ((64, arguments.requests), (1, arguments.requests // 16)):
                name = f"{repeat}-{message}"
                costs = await way(store, meter, name, count=count, message=message)
                for call, cost in costs.items():
                    found.setdefault((call, message), []).append(cost)
            seen, calls_us = await looks(
                server, store, meter, f"{repeat}-open", count=arguments.open
            )
            found.setdefault(("open_work", arguments.open), []).extend(seen)
            longest_us += calls_us
        delays_ms = await wakes(store)
    for (call, message), laps in sorted(found.items(), key=lambda item: -item[0][1]):
        wall = Spread.of([lap.wall_us for lap in laps])
        table.add(
            **{
                "call": call,
                "requests per call": message,
                "wall us": wall,
                "server cpu us": Spread.of([lap.server_us for lap in laps]),
                "client cpu us": Spread.of([lap.client_us for lap in laps]),
                "requests/s": 1e6 / wall.median,
            }
        )
    whole_us = [cost.wall_us * arguments.open for cost in found["open_work", arguments.open]]
    for what, values_us in (("the whole call", whole_us), ("longest script call", longest_us)):
        row = {"call": f"open_work: {what}", "requests per call": arguments.open}
        table.add(**row, **{"wall us": Spread.of(values_us)})
    for share in (0.5, 0.99):
        table.add(
            **{
                "call": f"submit -> claimed by a sleeper, p{share * 100:.0f}",
                "requests per call": 1,
                "wall us": percentile(delays_ms, share) * 1e3,
            }
        )
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--requests", type=int, default=12_800)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--open", type=int, default=16_000)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments)).show(as_json=arguments.json)


if __name__ == "__main__":
    main()
