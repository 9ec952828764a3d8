"""What it costs to look at a large platform: a scrape of `/metrics`, and `assay status`.

    python -m benchmarks.service.scrape [--tenants 1000] [--tasks 2] [--batches 1000] [--repeats 7]

* scrape: metrics as processes leave them behind after each of the tenants had batches of its tasks
end in every way; the time to render them all (the second time and later), series and bytes
* status: a real platform with so many open batches of so many tenants, once its planner has read
them; the time of `assay status` as a process, its start included, and of a reading alone

Prints CPU time of this process for the scrape (it computes only), and wall time beside it.
"""

import argparse
import asyncio
import functools
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from assay.cli.operate.status_client import observe
from assay.cli.platform.addresses import planner_address
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchRecord, BatchSpec, BatchState, Quota, TaskRecord
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics, open_metrics
from assay.edge.scrape.exposition import text_of
from assay.store.port import Store
from assay.store.valkey import open_store
from benchmarks.harness.platform_run import local_platform

PIPELINES = ("math", "code.python")


def fill(metrics: Metrics, tenants: int, tasks: int) -> None:
    """Every tenant has requests of two pipelines, and a batch of each of its tasks."""
    for n in range(tenants):
        tenant = f"tenant-{n}"
        for pipeline in PIPELINES:
            for outcome in (Outcome.SCORED, Outcome.RESOURCE_LIMIT, Outcome.INFRA_FAILED):
                metrics.requests_ended(tenant=tenant, pipeline=pipeline, outcome=outcome.value)
        metrics.batch_at_risk(tenant=tenant)
        for task in range(tasks):
            metrics.batch_completed(ended_batch(tenant, f"task-{task}"), slack_s=task - 0.5)


def ended_batch(tenant: str, task: str) -> BatchRecord:
    """A batch with requests of every end."""
    outcomes = dict.fromkeys(Outcome, 1)
    return BatchRecord(
        tenant=TenantId(tenant),
        batch_id=BatchId("b"),
        task_id=TaskId(task),
        state=BatchState.COMPLETE,
        size=0,
        group_size=0,
        opened_ns=0,
        deadline_ns=0,
        completed_ns=1,
        submitted=len(outcomes),
        ended=len(outcomes),
        queued=0,
        running=0,
        outcomes=outcomes,
        grouped=4,
        shift_micro=1,
    )


def scrape(tenants: int, tasks: int, repeats: int) -> None:
    """Print what rendering costs."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = open_metrics(Path(folder))
        fill(metrics, tenants, tasks)
        walls, cpus, text = [], [], b""
        for _ in range(repeats):
            wall, cpu = time.perf_counter(), time.process_time()
            text = text_of(metrics.registry)
            cpus.append(time.process_time() - cpu)
            walls.append(time.perf_counter() - wall)
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    print(
        f"/metrics, {tenants} tenants, {tasks} tasks each: {series:,} series, "
        f"{len(text) / 1e6:.2f} MB; CPU {1e3 * min(cpus):.1f} ms at least, "
        f"{1e3 * median(cpus):.1f} ms median; wall {1e3 * median(walls):.1f} ms median"
    )


async def status(tenants: int, batches: int, repeats: int) -> None:
    """Print what `assay status` costs on a running platform."""
    async with local_platform() as run:
        store = open_store(run.settings.store, data_dir=run.settings.data_dir)
        try:
            await open_batches(store, tenants, batches)
            read = functools.partial(
                observe,
                store,
                run.addresses.control,
                clock=Clock(),
                planner=planner_address(run.settings),
                all_stages_served=True,
            )
            while "plans" not in (await read()).planner:
                await Clock().sleep(1)
            walls = []
            for _ in range(repeats):
                begun_s = time.perf_counter()
                await read()
                walls.append(time.perf_counter() - begun_s)
            print(f"a reading, {batches} open batches: {_ms(walls)}")
            for shown in ([], ["--json"]):
                print(await commands(["status", *shown], batches, repeats))
        finally:
            await store.close()


async def commands(arguments: Sequence[str], batches: int, repeats: int) -> str:
    """Wall and CPU time of a command as a process, its start included."""
    argv = [sys.executable, "-m", "assay.cli", *arguments]
    walls, cpus = [], []
    for _ in range(repeats):
        begun_s, before = time.perf_counter(), children_s()
        await asyncio.to_thread(subprocess.run, argv, check=True, capture_output=True)
        walls.append(time.perf_counter() - begun_s)
        cpus.append(children_s() - before)
    named = " ".join(["assay", *arguments])
    return f"{named}, {batches} open batches: {_ms(walls)}; CPU {_ms(cpus)}"


def children_s() -> float:
    """CPU time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ms(walls: list[float]) -> str:
    return f"{1e3 * min(walls):.0f} ms at least, {1e3 * median(walls):.0f} ms median"


async def open_batches(store: Store, tenants: int, batches: int) -> None:
    """So many batches, dealt out to the tenants."""
    for n in range(batches):
        tenant = TenantId(f"tenant-{n % tenants}")
        task = TaskRecord(
            tenant=tenant,
            task_id=TaskId("t"),
            pipeline="noop",  # type: ignore[arg-type]  # a name
            stages=(StageName("noop"),),
            settings_json=b"{}",
        )
        await store.put_task(task)
        spec = BatchSpec(
            tenant=tenant,
            batch_id=BatchId(f"b{n}"),
            task_id=TaskId("t"),
            size=8,
            group_size=0,
            deadline_after_ms=3_600_000,
        )
        await store.open_batch(spec, Quota())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    asyncio.run(status(given.tenants, given.batches, given.repeats))
    scrape(given.tenants, given.tasks, given.repeats)


if __name__ == "__main__":
    main()
