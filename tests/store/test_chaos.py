"""Workers that crash, pause beyond their leases and report late: each request has one result.

A seed makes the decisions of every worker; what they see still depends on the machine's timing, so
a seed is a way to look at the same mixture of faults again, not at the same run.
"""

import asyncio
import random
from collections import Counter

import pytest
from tests.store.driver import FIRST, SECOND, TASK, TENANT, Driver, request

from assay.config.settings import StoreSettings
from assay.core.ids import JobId, StageName, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchState,
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    FinishStatus,
    GiveBack,
    HandOver,
    StageReport,
)
from assay.store.port import Report
from assay.store.valkey import ValkeyStore

BATCHES, REQUESTS, GROUP = 20, 24, 4
LEASE_S = 0.08
ATTEMPTS_MAX = 60
"""So many that no request dies: what is lost here is lost by a fault of the store."""
CRASH, PAUSE, FAIL, GIVE_BACK = 0.04, 0.03, 0.04, 0.03
RUN_S_MAX = 60.0


class Workers:
    """A crowd with faults, until all batches are complete."""

    def __init__(self, drive: Driver, seed: int) -> None:
        self.drive = drive
        self.rng = random.Random(seed)
        self.statuses: Counter[FinishStatus] = Counter()
        self.completed: Counter[str] = Counter()
        self.claims: Counter[str] = Counter()
        self.newest: dict[JobId, int] = {}
        self.redelivered = 0

    @property
    def over(self) -> bool:
        return len(self.completed) == BATCHES

    def _finish(self, claim: Claim) -> Finish:
        luck = self.rng.random()
        if luck < FAIL:
            return FailAttempt(error="broken")
        if luck < FAIL + GIVE_BACK:
            return GiveBack()
        if claim.stage == FIRST:
            return HandOver(next_stage=SECOND, handover=claim.request_id.encode())
        assert claim.handover == claim.request_id.encode()
        return EndRequest(outcome=Outcome.SCORED, reward=len(claim.response) / 7, body=b"")

    async def _report(self, claims: list[Claim], worker: WorkerId) -> None:
        account = StageReport(worker=worker, started_after_ns=0, finished_after_ns=1)
        reports = [
            Report(lease=claim.lease, report=account, finish=self._finish(claim))
            for claim in claims
        ]
        lost = [claim.lease.fence < self.newest[claim.lease.job_id] for claim in claims]
        finished = await self.drive.store.finish(claims[0].stage, reports, ATTEMPTS_MAX)
        for was_lost, status in zip(lost, finished.statuses, strict=True):
            assert status is FinishStatus.STALE or not was_lost, "someone else has the request"
        self.statuses.update(finished.statuses)
        self.completed.update(one.batch_id for one in finished.completed)

    async def work(self, stage: StageName, number: int) -> None:
        """One worker: claims a few, and then works, crashes, or sleeps too long."""
        worker = WorkerId(f"worker-{number}")
        store = self.drive.store
        while not self.over:
            if await store.wait_for_work([stage], timeout_s=0.05) is None:
                continue
            claims = list(
                await store.claim(
                    stage, claims_max=self.rng.randint(1, 6), lease_s=LEASE_S, worker=worker
                )
            )
            self.newest |= {claim.lease.job_id: claim.lease.fence for claim in claims}
            self.claims.update(f"{c.batch_id}/{c.request_id}/{stage}" for c in claims)
            luck = self.rng.random()
            if not claims or luck < CRASH:
                continue  # it never reports
            if luck < CRASH + PAUSE:
                await asyncio.sleep(2 * LEASE_S)
            elif luck < 0.5:
                leases = [claim.lease for claim in claims]
                lost = set(await store.beat(stage, lease_s=LEASE_S, leases=leases))
                claims = [claim for claim in claims if claim.lease not in lost]
            if claims:
                await self._report(claims, worker)

    async def reap(self, stage: StageName) -> None:
        while not self.over:
            reaped = await self.drive.reap(stage=stage, attempts_max=ATTEMPTS_MAX)
            self.redelivered += reaped.redelivered
            await asyncio.sleep(LEASE_S / 4)

    async def submit(self, name: str) -> None:
        new = [request(f"r{i}", group=f"g{i // GROUP}", response=b"x" * i) for i in range(REQUESTS)]
        for first in range(0, REQUESTS, 6):
            await self.drive.submit(new[first : first + 6], name)
            if self.rng.random() < 0.3:  # the answer was lost, says the trainer
                await self.drive.submit(new[first : first + 6], name)


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_request_has_one_result_whatever_the_workers_do(
    store_settings: StoreSettings, seed: int
) -> None:
    store = ValkeyStore(store_settings, url=store_settings.url)
    drive = Driver(store)
    workers = Workers(drive, seed)
    names = [f"batch-{number}" for number in range(BATCHES)]
    for name in names:
        await drive.open(name, size=REQUESTS, group_size=GROUP)
    async with asyncio.timeout(RUN_S_MAX), asyncio.TaskGroup() as group:
        for stage in (FIRST, SECOND):
            group.create_task(workers.reap(stage))
            for number in range(4):
                group.create_task(workers.work(stage, number))
        for name in names:
            group.create_task(workers.submit(name))

    assert workers.completed == Counter(names), "each batch completes once"
    for name in names:
        batch = await drive.batch(name)
        assert (batch.state, batch.outcomes) == (BatchState.COMPLETE, {Outcome.SCORED: REQUESTS})
        results = await drive.results(name)
        assert sorted(r.request_id for r in results) == sorted(f"r{i}" for i in range(REQUESTS))
        assert all(r.reward == int(r.request_id[1:]) / 7 for r in results)
        groups = await drive.groups(name)
        assert Counter(g.group_id for g in groups) == {f"g{i}": 1 for i in range(REQUESTS // GROUP)}
    assert workers.statuses[FinishStatus.STALE] > 0, "the faults did happen"
    assert workers.redelivered > 0
    assert max(workers.claims.values()) > 1
    for depth in await store.depths([FIRST, SECOND]):
        assert (depth.queued, depth.running, depth.dead_letters) == (0, 0, 0)
    keys = await store._link.call("KEYS", f"{store._link.prefix}*")
    kinds = Counter(key.decode().split(":")[2] for key in keys)
    leftover = {"j", "p", "o", "q", "l", "live", "dead", "gp", "hb", "quota", "open", "due"}
    assert not leftover & kinds.keys(), kinds
    assert len(await store.history(TENANT, TASK.task_id, batches_max=99)) == BATCHES
    await store.close()
