"""How long a quiet tenant's requests wait while another floods the same stage.

    python -m benchmarks.tenants.fairness [--json] [--flood 10000] [--requests 200]
                                         [--plot FILE.png]

A real store (embedded Valkey) and workers that hold each claim for 20 ms. The quiet tenant submits
20 requests per second, one by one, with a deadline of ten minutes: first alone, then while the
other has 10,000 requests queued in a batch with a deadline of 1 ms. `one tenant` is the same flood
by the quiet tenant itself: plain Earliest Batch First, without shares per tenant.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from assay.config.settings import StoreSettings
from assay.core.ids import BatchId, GroupId, RequestId, TenantId
from assay.core.records import BatchSpec, NewRequest, Quota, Report, StageReport
from assay.store.embedded import EmbeddedValkey
from assay.store.link import SLICE
from assay.store.valkey import ValkeyStore, open_store
from benchmarks.harness.report import Report as Table
from benchmarks.harness.report import Spread, percentile
from benchmarks.store.calls import END, STAGE, TASK, WORKER

QUIET, LOUD = TenantId("quiet"), TenantId("loud")
WORKERS = 4
SERVICE_S = 0.02
EVERY_S = 0.05
"""Interval of the quiet tenant's requests: a quarter of the workers' capacity."""


def _requests(prefix: str, first: int, count: int) -> list[NewRequest]:
    return [
        NewRequest(
            request_id=RequestId(f"{prefix}{first + k}"),
            group_id=GroupId(""),
            response=b"r" * 200,
            reference=b"{}",
        )
        for k in range(count)
    ]


@asynccontextmanager
async def opened() -> AsyncIterator[ValkeyStore]:
    """A separate store."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedValkey(Path(folder))
        await server.start()
        store = open_store(StoreSettings(), data_dir=Path(folder))
        try:
            yield store
        finally:
            await store.close()
            await server.stop()


async def work(store: ValkeyStore, waits_s: dict[str, float]) -> None:
    """One worker; records how long each request waited."""
    while True:
        claims = await store.claim(STAGE, claims_max=1, lease_s=60, worker=WORKER)
        if not claims:
            await store.wait_for_work([STAGE], timeout_s=1.0)
        for claim in claims:
            waits_s[claim.request_id] = (claim.claimed_ns - claim.enqueued_ns) / 1e9
            await asyncio.sleep(SERVICE_S)
            held = StageReport(
                worker=WORKER, started_after_ns=0, finished_after_ns=int(SERVICE_S * 1e9)
            )
            await store.finish(STAGE, [Report(lease=claim.lease, report=held, finish=END)], 3)


async def _open(store: ValkeyStore, tenant: TenantId, name: str, deadline_after_ms: int) -> BatchId:
    await store.put_task(replace(TASK, tenant=tenant))
    spec = BatchSpec(
        tenant=tenant,
        batch_id=BatchId(name),
        task_id=TASK.task_id,
        size=0,
        group_size=0,
        deadline_after_ms=deadline_after_ms,
    )
    await store.open_batch(spec, Quota())
    return spec.batch_id


async def quiet_waits_s(loud: TenantId | None, *, flood: int, requests: int) -> Sequence[float]:
    """Waiting times of the quiet tenant's requests; unserved ones count to the end."""
    async with opened() as store:
        waits_s: dict[str, float] = {}
        own = await _open(store, QUIET, "quiet", 600_000)
        if loud is not None:
            batch = await _open(store, loud, "flood", 1)
            for first in range(0, flood, SLICE):
                some = _requests("loud", first, min(SLICE, flood - first))
                await store.submit(loud, batch, some, Quota())
        workers = [asyncio.create_task(work(store, waits_s)) for _ in range(WORKERS)]
        sent_s: list[float] = []
        for k in range(requests):
            sent_s.append(time.perf_counter())
            await store.submit(QUIET, own, _requests("quiet", k, 1), Quota())
            await asyncio.sleep(max(0.0, sent_s[0] + (k + 1) * EVERY_S - time.perf_counter()))
        await asyncio.sleep(1.0)
        ended_s = time.perf_counter()
        for worker in workers:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker
        return [waits_s.get(f"quiet{k}", ended_s - sent) for k, sent in enumerate(sent_s)]


async def measure(arguments: argparse.Namespace) -> tuple[Table, dict[str, Sequence[float]]]:
    """Measure all rows."""
    columns = ("other load", "requests", "wait ms", "p50 ms", "p99 ms", "p99 / p99 alone")
    table = Table(title="Fairness: waiting time of a quiet tenant", columns=columns)
    found: dict[str, Sequence[float]] = {}
    for name, loud in (("none", None), ("a flood", LOUD), ("a flood, one tenant", QUIET)):
        found[name] = await quiet_waits_s(loud, flood=arguments.flood, requests=arguments.requests)
        alone_s = percentile(found["none"], 0.99)
        table.add(
            **{
                "other load": name,
                "requests": arguments.requests,
                "wait ms": Spread.of([wait * 1e3 for wait in found[name]]),
                "p50 ms": percentile(found[name], 0.5) * 1e3,
                "p99 ms": percentile(found[name], 0.99) * 1e3,
                "p99 / p99 alone": percentile(found[name], 0.99) / alone_s,
            }
        )
    return table, found


def plot(found: dict[str, Sequence[float]], path: Path) -> None:
    """Waiting times in the order of submission."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.5))
    for name, waits_s in found.items():
        axes.semilogy([max(wait * 1e3, 0.1) for wait in waits_s], label=f"other load: {name}")
    axes.set_xlabel("request of the quiet tenant")
    axes.set_ylabel("wait, ms")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--flood", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    table, found = asyncio.run(measure(arguments))
    table.show(as_json=arguments.json)
    if arguments.plot:
        plot(found, arguments.plot)


if __name__ == "__main__":
    main()
