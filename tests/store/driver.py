"""A store behind a driver that fills in what no test cares about."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

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
    Artifact,
    BatchRecord,
    BatchSpec,
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    Finished,
    GiveBack,
    GroupRecord,
    HandOver,
    LogEntry,
    NewRequest,
    Quota,
    Reaped,
    ResultRecord,
    StageDepth,
    StageReport,
    Submitted,
    TaskRecord,
)
from assay.store.port import Report, Store

TENANT = TenantId("acme")
TASK = TaskRecord(
    tenant=TENANT,
    task_id=TaskId("gsm8k"),
    pipeline=PipelineName("code.cpp"),
    stages=(StageName("compile"), StageName("run")),
    settings_json=b'{"limit": 1}',
    batch_size=8,
    delay_budget_ms=500,
    trainer_cost_rate=2.5,
)
FIRST, SECOND = TASK.stages
WORKER = WorkerId("host/1")
PATIENCE_S = 60.0
SHORT_S = 0.001
"""A lease that is over at once; tests wait for what `reap` makes of it."""
T = TypeVar("T")
ENTRIES_MAX = 100_000


def request(
    name: str,
    *,
    group: str = "",
    response: bytes = b"42",
    reference: bytes = b"{}",
    messages: bytes = b"",
    artifacts: tuple[Artifact, ...] = (),
) -> NewRequest:
    """A request; only its name matters unless the test says more."""
    return NewRequest(
        request_id=RequestId(name),
        group_id=GroupId(group),
        response=response,
        reference=reference,
        messages=messages,
        artifacts=artifacts,
    )


def requests(*names: str) -> list[NewRequest]:
    return [request(name) for name in names]


class Driver:
    """A store with the arguments that no test cares about filled in."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.task = TASK
        self.lease_s = 600.0

    async def open(
        self,
        name: str = "step-1",
        *,
        size: int = 0,
        group_size: int = 0,
        deadline_after_ms: int = 600_000,
        deadline_ns: int = 0,
        quota: Quota | None = None,
        requests_reserved: int = 0,
        bytes_reserved: int = 0,
    ) -> BatchRecord:
        await self.store.put_task(self.task)
        spec = BatchSpec(
            tenant=TENANT,
            batch_id=BatchId(name),
            task_id=TASK.task_id,
            size=size,
            group_size=group_size,
            deadline_after_ms=deadline_after_ms,
            deadline_ns=deadline_ns,
            requests_reserved=requests_reserved,
            bytes_reserved=bytes_reserved,
        )
        batch, _ = await self.store.open_batch(spec, quota or Quota())
        return batch

    async def submit(
        self, new: Sequence[NewRequest], name: str = "step-1", quota: Quota | None = None
    ) -> Submitted:
        return await self.store.submit(TENANT, BatchId(name), new, quota or Quota())

    async def claim(
        self, claims_max: int = 100, *, stage: StageName = FIRST, lease_s: float | None = None
    ) -> Sequence[Claim]:
        lease_s = self.lease_s if lease_s is None else lease_s
        return await self.store.claim(stage, claims_max=claims_max, lease_s=lease_s, worker=WORKER)

    async def finish(
        self, claims: Iterable[Claim], finish: Finish, *, attempts_max: int = 3
    ) -> Finished:
        claims = list(claims)
        report = StageReport(worker=WORKER, started_after_ns=1_000, finished_after_ns=5_000)
        reports = [Report(lease=claim.lease, report=report, finish=finish) for claim in claims]
        stage = claims[0].stage if claims else FIRST
        return await self.store.finish(stage, reports, attempts_max)

    async def score(self, claims: Iterable[Claim], reward: float = 1.0) -> Finished:
        end = EndRequest(outcome=Outcome.SCORED, reward=reward, body=b"evidence")
        return await self.finish(claims, end)

    async def hand_over(self, claims: Iterable[Claim], artifact: bytes = b"binary") -> Finished:
        return await self.finish(claims, HandOver(next_stage=SECOND, handover=artifact))

    async def fail(self, claims: Iterable[Claim], *, attempts_max: int = 3) -> Finished:
        return await self.finish(claims, FailAttempt(error="broken"), attempts_max=attempts_max)

    async def give_back(self, claims: Iterable[Claim]) -> Finished:
        return await self.finish(claims, GiveBack())

    async def kill(self, name: str = "step-1") -> None:
        """Claim all that is queued and let it run out of attempts."""
        await self.fail(await self.claim(), attempts_max=1)

    async def reap(
        self, *, stage: StageName = FIRST, attempts_max: int = 3, jobs_max: int = 100
    ) -> Reaped:
        return await self.store.reap(stage, attempts_max=attempts_max, jobs_max=jobs_max)

    async def batch(self, name: str = "step-1") -> BatchRecord:
        batch = await self.store.get_batch(TENANT, BatchId(name))
        assert batch.submitted == batch.ended + batch.queued + batch.running
        assert batch.ended == sum(batch.outcomes.values())
        return batch

    async def seal(self, name: str = "step-1") -> BatchRecord:
        return await self.store.seal(TENANT, BatchId(name))

    async def cancel(self, name: str = "step-1") -> tuple[BatchRecord, int]:
        return await self.store.cancel(TENANT, BatchId(name))

    async def cancel_requests(
        self, ids: Sequence[str] = (), groups: Sequence[str] = (), name: str = "step-1"
    ) -> tuple[BatchRecord, int]:
        return await self.store.cancel_requests(
            TENANT,
            BatchId(name),
            request_ids=[RequestId(one) for one in ids],
            group_ids=[GroupId(one) for one in groups],
        )

    async def log(self, name: str = "step-1", cursor: int = 0) -> Sequence[LogEntry]:
        return await self.store.results(
            TENANT, BatchId(name), cursor=cursor, entries_max=ENTRIES_MAX
        )

    async def results(self, name: str = "step-1") -> list[ResultRecord]:
        return [entry for entry in await self.log(name) if isinstance(entry, ResultRecord)]

    async def groups(self, name: str = "step-1") -> list[GroupRecord]:
        return [entry for entry in await self.log(name) if isinstance(entry, GroupRecord)]

    async def depth(self, stage: StageName = FIRST) -> StageDepth:
        return (await self.store.depths([stage]))[0]


async def eventually(holds: Callable[[], Awaitable[T | None]]) -> T:
    """Wait until the awaitable check gives something true; fail when it takes too long."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await holds()):
            await asyncio.sleep(0.002)
    return found


MakeStore = Callable[..., Store]


async def reaped(drive: Driver, *, attempts_max: int = 3, jobs_max: int = 100) -> Reaped:
    """The first sweep that finds something."""

    async def sweep() -> Reaped | None:
        found = await drive.reap(attempts_max=attempts_max, jobs_max=jobs_max)
        return found if found.redelivered or found.dead or found.expired else None

    return await eventually(sweep)
