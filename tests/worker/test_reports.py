"""Reports of a stage: what is counted, what is dropped, how much one call holds."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from assay.core.errors import DependencyDown
from assay.core.ids import (
    BatchId,
    GroupId,
    JobId,
    PipelineName,
    RequestId,
    StageName,
    TaskId,
    TenantId,
    WorkerId,
)
from assay.core.outcome import Outcome
from assay.core.records import (
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    Finished,
    FinishGroup,
    FinishStatus,
    HandOver,
    Lease,
    Member,
    Report,
    StageReport,
    TaskRecord,
)
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.worker.assignment import HeldClaim
from assay.worker.reports import BYTES_MAX, GATHER_MAX, GATHER_S, Reports
from assay.worker.store_health import StoreHealth

if TYPE_CHECKING:
    from assay.store.port import WorkerStore

STAGE, AFTER = StageName("compare"), StageName("after")
TASK = TaskRecord(
    tenant=TenantId("acme"),
    task_id=TaskId("task"),
    pipeline=PipelineName("ranked"),
    stages=(STAGE, AFTER),
    settings_json=b"{}",
    group_stage=STAGE,
)
MEMBERS = tuple(
    Member(
        job_id=JobId(f"{number:016d}"),
        request_id=RequestId(f"r{number}"),
        response=b"",
        reference=b"{}",
    )
    for number in range(4)
)
RIGHT = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
LIMIT = EndRequest(outcome=Outcome.RESOURCE_LIMIT, reward=0.0, body=b"")
NOW = StageReport(worker=WorkerId("w"), started_after_ns=0, finished_after_ns=0)


class Clockwork(Clock):
    """Waiting takes no time, and is seen."""

    def __init__(self) -> None:
        self.ns = 0

    def monotonic_ns(self) -> int:
        return self.ns

    async def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)
        await asyncio.sleep(0)


class Store:
    """A store that is down for its first calls."""

    def __init__(self, down_calls: int = 0) -> None:
        self.calls: list[Sequence[Report]] = []
        self._down_calls = down_calls

    async def finish(
        self, stage: StageName, reports: Sequence[Report], attempts_max: int
    ) -> Finished:
        self.calls.append(reports)
        if len(self.calls) <= self._down_calls:
            raise DependencyDown("down")
        return Finished(statuses=(FinishStatus.DONE,) * len(reports), completed=())


def group(number: int = 0, attempt: int = 1) -> HeldClaim:
    claim = Claim(
        lease=Lease(job_id=JobId(f"g{number:015d}"), fence=number + 1),
        stage=STAGE,
        task=TASK,
        batch_id=BatchId("batch"),
        request_id=RequestId(""),
        group_id=GroupId(f"g{number}"),
        attempt=attempt,
        response=b"",
        reference=b"",
        handover=b"",
        enqueued_ns=0,
        claimed_ns=0,
        deadline_ns=0,
        members=MEMBERS,
        submitted=4,
    )
    return HeldClaim(claim=claim, claimed_ns=0, payload_bytes=0)


def reports_to(
    store: Store,
    metrics: Metrics,
    clock: Clock,
    *,
    settled: list[HeldClaim],
    more_soon: Callable[[], bool] = lambda: False,
) -> Reports:
    def spawn(work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(work, name=name)

    return Reports(
        stage=STAGE,
        store=cast("WorkerStore", store),
        health=StoreHealth(clock),
        clock=clock,
        metrics=metrics,
        attempts_max=3,
        spawn=spawn,
        more_soon=more_soon,
        on_settled=settled.append,
    )


async def reported(
    store: Store, metrics: Metrics, *reports: tuple[HeldClaim, Finish]
) -> list[HeldClaim]:
    """The claims that were settled."""
    settled: list[HeldClaim] = []
    sending = reports_to(store, metrics, Clockwork(), settled=settled)
    for held, finish in reports:
        sending.add(held, NOW, finish)
    await sending.flush()
    return settled


def counted(metrics: Metrics, outcome: Outcome) -> float:
    labels = {"tenant": "acme", "pipeline": "ranked", "outcome": outcome.value}
    return metrics.registry.get_sample_value("assay_requests_total", labels) or 0.0


def attempts(metrics: Metrics, result: str) -> float:
    labels = {"stage": STAGE, "result": result}
    return metrics.registry.get_sample_value("assay_attempts_total", labels) or 0.0


async def test_every_request_of_a_group_is_counted_by_its_own_end() -> None:
    metrics = Metrics()
    handed = HandOver(next_stage=AFTER, handover=b"")
    said: tuple[EndRequest | HandOver | FailAttempt, ...]
    said = (RIGHT, LIMIT, FailAttempt(error="no judge"), handed)
    members = tuple((one.job_id, said[place]) for place, one in enumerate(MEMBERS))
    await reported(Store(), metrics, (group(), FinishGroup(members=members)))
    assert [counted(metrics, one) for one in Outcome] == [
        {"SCORED": 1.0, "RESOURCE_LIMIT": 1.0, "INFRA_FAILED": 1.0}.get(one.value, 0.0)
        for one in Outcome
    ]
    assert attempts(metrics, "ended") == 1.0
    assert attempts(metrics, "given_back") == 0.0


@pytest.mark.parametrize(("attempt", "failed"), [(1, 0.0), (3, 4.0)])
async def test_a_group_whose_last_attempt_fails_ends_all_its_requests(
    attempt: int, failed: float
) -> None:
    metrics = Metrics()
    await reported(Store(), metrics, (group(attempt=attempt), FailAttempt(error="x")))
    assert counted(metrics, Outcome.INFRA_FAILED) == failed


async def test_a_report_that_waited_too_long_is_dropped_and_counted() -> None:
    metrics = Metrics()
    store = Store(down_calls=10_000)
    held = group()
    assert await reported(store, metrics, (held, FailAttempt(error="x"))) == [held]
    assert attempts(metrics, "dropped") == 1.0
    assert len(store.calls) > 1


async def test_a_call_holds_the_bodies_of_groups_within_its_bound() -> None:
    """As large as four requests, not as one: two of these are too much for one call."""
    body = b"x" * (BYTES_MAX // 6)
    one = dataclasses.replace(RIGHT, body=body)
    whole = FinishGroup(members=tuple((member.job_id, one) for member in MEMBERS))
    store = Store(down_calls=1)
    await reported(store, Metrics(), *((group(number), whole) for number in range(3)))
    assert [len(call) for call in store.calls[1:]] == [1, 1, 1]


class Stopped(Clockwork):
    """Waits last until they may end."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.may_end = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self.may_end.wait()


@pytest.mark.parametrize(
    ("more_soon", "count", "waits", "calls"),
    [(False, 3, [], [1, 2]), (True, 3, [GATHER_S], [3]), (True, GATHER_MAX + 1, [], [9])],
)
async def test_few_reports_wait_for_others_if_those_come_soon(
    *, more_soon: bool, count: int, waits: list[float], calls: list[int]
) -> None:
    store, clock, settled = Store(), Stopped(), list[HeldClaim]()
    soon = [more_soon]
    sending = reports_to(store, Metrics(), clock, settled=settled, more_soon=lambda: soon[0])
    first = 1 if count < GATHER_MAX else count
    for number in range(count):
        sending.add(group(number), NOW, RIGHT)
        if number + 1 == first:
            await asyncio.sleep(0)
    assert clock.waits == waits
    soon[0] = False
    clock.may_end.set()
    await sending.flush()
    assert [len(call) for call in store.calls] == calls
    assert len(settled) == count
