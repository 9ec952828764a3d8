"""What the way by the API costs a worker: claims and reports on the store, and by `WorkService`.

    python -m benchmarks.service.work_port [--rounds 40] [--size 64]

Prints CPU microseconds per request, of the worker and the API together (they share this process;
the store has its own), for rounds that alternate between the two ways. A request here is one
claim, one renewal and one report; its response has 400 bytes.
"""

import argparse
import asyncio
import secrets
import statistics
import tempfile
import time
from pathlib import Path

from assay.config.settings import RewardSettings, Settings, StoreSettings
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
from assay.core.records import BatchSpec, EndRequest, NewRequest, Quota, StageReport, TaskRecord
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.edge.work.store import RemoteStore
from assay.edge.work.token_files import TokenFiles
from assay.edge.work.tokens import WorkerKeys, WorkerPass
from assay.reward.workers.build import open_work_port
from assay.store.embedded import EmbeddedValkey
from assay.store.port import Report, Store, WorkerStore
from assay.store.valkey import ValkeyStore

STAGE = StageName("match")
TENANT = TenantId("default")
WORKER = WorkerId("bench")
TASK = TaskRecord(
    tenant=TENANT, task_id=TaskId("t"), pipeline=PipelineName("exact"), stages=(STAGE,),
    settings_json=b"{}",
)  # fmt: skip


async def fill(store: Store, name: str, count: int) -> None:
    """A batch of requests that wait."""
    spec = BatchSpec(
        tenant=TENANT, batch_id=BatchId(name), task_id=TASK.task_id, size=count, group_size=0,
        deadline_after_ms=600_000,
    )  # fmt: skip
    await store.open_batch(spec, Quota())
    requests = [
        NewRequest(
            request_id=RequestId(f"r{number}"), group_id=GroupId(""), response=b"x" * 400,
            reference=b"{}",
        )
        for number in range(count)
    ]  # fmt: skip
    await store.submit(TENANT, BatchId(name), requests, Quota())


async def round_of(worker: WorkerStore, count: int) -> float:
    """Claim, renew and end all of them; returns CPU seconds of this process."""
    begun_s = time.process_time()
    claims = await worker.claim(STAGE, claims_max=count, lease_s=30.0, worker=WORKER)
    await worker.beat(STAGE, lease_s=30.0, leases=[claim.lease for claim in claims])
    times = StageReport(worker=WORKER, started_after_ns=1, finished_after_ns=2)
    end = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
    reports = [Report(lease=claim.lease, report=times, finish=end) for claim in claims]
    await worker.finish(STAGE, reports, 3)
    return time.process_time() - begun_s


async def measure(rounds: int, size: int) -> dict[str, list[float]]:
    """CPU seconds of each round by way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = EmbeddedValkey(folder / "data")
        await server.start()
        (folder / "keys").write_text(secrets.token_hex(32))
        reward = RewardSettings(worker_port=0, worker_key_file=folder / "keys")
        settings = Settings(
            data_dir=folder / "data", reward=reward, store=StoreSettings(url=server.url)
        )
        store = ValkeyStore(settings.store, url=server.url)
        port = open_work_port(settings, store, None, Clock(), Metrics())
        if port is None:
            raise RuntimeError("there is no port")
        one = WorkerPass(stages=(STAGE,), expires_ns=2**62, name="bench")
        keys = WorkerKeys.parsed((folder / "keys").read_bytes())
        (folder / "token").write_text(keys.mint(one))
        address = await port.start()
        remote = RemoteStore(
            [address], worker=WORKER, tokens=TokenFiles(folder / "token", folder / "kept"),
            authority=None, clock=Clock(),
        )  # fmt: skip
        await store.put_task(TASK)
        ways: dict[str, WorkerStore] = {"store": store, "API": remote}
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds + 2):
            for way, worker in ways.items():
                await fill(store, f"{way}{number}", size)
                cpu_s = await round_of(worker, size)
                if number >= 2:  # the first ones load code
                    spent[way].append(cpu_s)
        await remote.close()
        await port.stop()
        await store.close()
        await server.stop()
        return spent


def main() -> None:
    """See the head of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--size", type=int, default=64, help="requests per round")
    options = parser.parse_args()
    spent = asyncio.run(measure(options.rounds, options.size))
    medians = {way: statistics.median(found) / options.size * 1e6 for way, found in spent.items()}
    for way, median_us in medians.items():
        print(f"{way:6} {median_us:6.0f} us of CPU time per request (median of {options.rounds})")
    print(f"the way by the API: {medians['API'] / medians['store']:.1f} times")


if __name__ == "__main__":
    main()
