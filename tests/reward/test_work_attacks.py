"""The port of workers called by a hostile one, with a token of its own stage: each call that no
honest host makes is refused in words, and no request is lost by it."""

import dataclasses
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.store.driver import FIRST, SECOND, TASK, Driver, request, requests
from tests.store.remote import KEY, WorkPort, token_for

from assay.core.errors import InvalidRequest, PermissionDenied, Unauthenticated
from assay.core.ids import JobId, WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    Claim,
    EndRequest,
    Finish,
    FinishGroup,
    FinishStatus,
    HandOver,
    Report,
    StageReport,
)
from assay.core.store_limits import HELD_NAMED_MAX
from assay.edge.work.tokens import WorkerKeys, WorkerPass
from assay.reward.workers.gateway import CLAIMS_MAX, KEY_CHARS_MAX, LEASES_MAX, REPORTS_MAX
from assay.store.port import Store
from assay.v1 import common_pb2, worker_pb2, worker_pb2_grpc

RIGHT = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
LONG_S = 600.0


class Scene:
    """A platform, and a hostile worker of the first stage."""

    def __init__(self, store: Store, port: WorkPort) -> None:
        self.store, self.port, self.drive = store, port, Driver(store)
        self.hostile = port.worker(FIRST, SECOND, name="hostile")

    async def claim(self, stage: Any = FIRST, count: int = 9) -> Sequence[Claim]:
        return await self.hostile.claim(
            stage, claims_max=count, lease_s=LONG_S, worker=WorkerId("hostile")
        )

    async def finish(self, claim: Claim, finish: Finish) -> FinishStatus:
        times = StageReport(worker=WorkerId("w"), started_after_ns=1, finished_after_ns=2)
        report = Report(lease=claim.lease, report=times, finish=finish)
        (status,) = (await self.hostile.finish(claim.stage, [report], 3)).statuses
        return status

    async def raw(self, method: str, message: Any) -> str:
        """Answer of a call that the client of a host does not make, or its refusal."""
        if not self.hostile.session:
            await self.hostile.check()
        shown = (("authorization", f"Bearer {self.hostile.session}"),)
        async with grpc.aio.insecure_channel(self.port.address) as channel:
            stub = worker_pb2_grpc.WorkServiceStub(channel)
            try:
                await getattr(stub, method)(message, metadata=shown, timeout=30)
            except grpc.aio.AioRpcError as error:
                return f"{error.code().name} {error.details()}"
        return "OK"


@pytest.fixture
async def scene(store: Store, tmp_path: Path) -> AsyncIterator[Scene]:
    port = WorkPort(store, tmp_path)
    await port.start()
    found = Scene(store, port)
    yield found
    await found.hostile.close()
    await port.listener.stop()


# -- ends of another kind --------------------------------------------------------------------------


async def test_the_verdicts_of_a_group_end_no_single_request(scene: Scene) -> None:
    """The request would be dropped, and its batch would wait for it."""
    await scene.drive.open(size=1)
    await scene.drive.submit(requests("a"))
    (claim,) = await scene.claim()
    for members in ((), ((claim.lease.job_id, RIGHT),), ((JobId("0" * 16), RIGHT),)):
        with pytest.raises(InvalidRequest, match=r"reports\[0\].finish.group: .* one request"):
            await scene.finish(claim, FinishGroup(members=members))
    assert (await scene.drive.batch()).running == 1
    assert await scene.finish(claim, RIGHT) is FinishStatus.DONE
    assert len(await scene.drive.results()) == 1


@pytest.mark.parametrize("kind", ["end", "hand over"])
async def test_one_verdict_ends_no_group(scene: Scene, kind: str) -> None:
    """Its members would wait for good."""
    task = dataclasses.replace(TASK, group_stage=FIRST if kind == "hand over" else SECOND)
    await scene.store.put_task(task)
    scene.drive.task = task
    await scene.drive.open(size=2, group_size=2)
    await scene.drive.submit([request(name, group="g") for name in "ab"])
    if kind == "end":
        to_groups = HandOver(next_stage=SECOND, handover=b"", gathers=True)
        await scene.drive.finish(await scene.drive.claim(), to_groups)
    (claim,) = await scene.claim(SECOND if kind == "end" else FIRST)
    assert len(claim.members) == 2
    wrong = RIGHT if kind == "end" else HandOver(next_stage=SECOND, handover=b"")
    with pytest.raises(InvalidRequest, match=r"reports\[0\].finish: .* a group"):
        await scene.finish(claim, wrong)
    if kind == "end":
        members = tuple((one.job_id, RIGHT) for one in claim.members)
        assert await scene.finish(claim, FinishGroup(members=members)) is FinishStatus.DONE
        assert len(await scene.drive.results()) == 2


async def test_a_replayed_end_changes_nothing_even_when_the_request_is_leased_again(
    scene: Scene,
) -> None:
    await scene.drive.open()
    await scene.drive.submit(requests("a"))
    (first,) = await scene.claim()
    to_second = HandOver(next_stage=SECOND, handover=b"made")
    assert await scene.finish(first, to_second) is FinishStatus.DONE
    assert await scene.finish(first, to_second) is FinishStatus.STALE
    (second,) = await scene.claim(SECOND)
    assert await scene.finish(dataclasses.replace(first, stage=SECOND), RIGHT) is FinishStatus.STALE
    assert await scene.finish(second, RIGHT) is FinishStatus.DONE
    assert await scene.finish(second, RIGHT) is FinishStatus.STALE
    (result,) = await scene.drive.results()
    assert [timing.attempts for timing in result.stages] == [1, 1]


# -- amounts ---------------------------------------------------------------------------------------

LEASE = worker_pb2.WorkLease(lease="x", fence=1)
TOO_MUCH = {
    "claims": ("Claim", worker_pb2.ClaimRequest(
        stages=[FIRST], claims_max=CLAIMS_MAX + 1, lease_s=1.0)),
    "a negative number of claims": ("Claim", worker_pb2.ClaimRequest(
        stages=[FIRST], claims_max=-1, lease_s=1.0)),
    "a lease without end": ("Claim", worker_pb2.ClaimRequest(
        stages=[FIRST], claims_max=1, lease_s=float("inf"))),
    "a lease of no number": ("Heartbeat", worker_pb2.HeartbeatRequest(
        stage=FIRST, lease_s=float("nan"), leases=[LEASE])),
    "leases": ("Heartbeat", worker_pb2.HeartbeatRequest(
        stage=FIRST, lease_s=1.0, leases=[LEASE] * (LEASES_MAX + 1))),
    "held leases": ("Heartbeat", worker_pb2.HeartbeatRequest(
        stage=FIRST, lease_s=1.0, held=worker_pb2.WorkHeld(leases=[LEASE] * (HELD_NAMED_MAX + 1)))),
    "reports": ("Finish", worker_pb2.FinishRequest(
        stage=FIRST, reports=[worker_pb2.WorkReport(lease=LEASE)] * (REPORTS_MAX + 1))),
    "seconds of no number": ("Artifact", worker_pb2.WorkArtifactRequest(
        key="k", action=worker_pb2.WorkArtifactRequest.ACTION_BEGIN, seconds=float("nan"))),
    "the name of a provider": ("Permit", worker_pb2.PermitRequest(
        tenant="t", provider="x" * (KEY_CHARS_MAX + 1))),
    "the name of a limit": ("Permit", worker_pb2.PermitRequest(
        tenant="t", provider="p", limits={"x" * (KEY_CHARS_MAX + 1): worker_pb2.PermitCost()})),
    "a call that gives allowance back": ("Permit", worker_pb2.PermitRequest(
        tenant="t", provider="p", limits={"calls": worker_pb2.PermitCost(cost=-1)})),
    "a negative allowance": ("Permit", worker_pb2.PermitRequest(
        tenant="t", provider="p",
        limits={"calls": worker_pb2.PermitCost(allowance_per_minute=-1)})),
}  # fmt: skip


@pytest.mark.parametrize(("method", "message"), TOO_MUCH.values(), ids=TOO_MUCH)
async def test_more_than_a_call_may_hold_is_refused_by_name(
    scene: Scene, method: str, message: Any
) -> None:
    await scene.drive.open()
    await scene.drive.submit(requests("a"))
    said = await scene.raw(method, message)
    assert said.startswith("INVALID_ARGUMENT"), said
    assert (await scene.drive.depth()).queued == 1


async def test_a_message_beyond_all_bounds_is_refused_and_the_next_call_is_answered(
    scene: Scene,
) -> None:
    await scene.drive.open()
    await scene.drive.submit(requests("a"))
    (claim,) = await scene.claim()
    end = worker_pb2.WorkEnd(
        outcome=common_pb2.Outcome.OUTCOME_SCORED, reward=1.0, body=b"x" * (65 * 1024**2)
    )
    lease = worker_pb2.WorkLease(lease=claim.lease.job_id, fence=claim.lease.fence)
    finish = worker_pb2.WorkFinish(end=end)
    report = worker_pb2.WorkReport(lease=lease, finish=finish)
    said = await scene.raw("Finish", worker_pb2.FinishRequest(stage=FIRST, reports=[report]))
    assert said.startswith("INVALID_ARGUMENT"), said
    assert await scene.finish(claim, RIGHT) is FinishStatus.DONE


# -- whose leases ----------------------------------------------------------------------------------


async def test_leases_of_others_are_no_part_of_what_a_worker_holds_or_gives_back(
    scene: Scene,
) -> None:
    await scene.drive.open()
    await scene.drive.submit(requests(*"ab"))
    honest = scene.port.worker(FIRST, name="honest")
    theirs = await honest.claim(FIRST, claims_max=9, lease_s=LONG_S, worker=WorkerId("honest"))
    given = await scene.hostile.give_back_undelivered(
        FIRST, worker=WorkerId("honest"), leases=[one.lease for one in theirs]
    )
    assert given == 0
    assert (await scene.drive.batch()).running == 2
    one = scene.port.worker(FIRST)
    with pytest.raises(PermissionDenied):
        await one.give_back_undelivered(SECOND, worker=WorkerId("x"), leases=[])
    await honest.close()
    await one.close()


async def test_a_predecessor_is_taken_back_at_the_stages_of_the_callers_token_only(
    scene: Scene,
) -> None:
    """Tokens of earlier lives are good for a day after their end, for this alone."""
    await scene.drive.open()
    await scene.drive.submit(requests(*"ab"))
    await scene.drive.hand_over(await scene.drive.claim(1))
    both = scene.port.worker(FIRST, SECOND, name="both")
    for stage in (FIRST, SECOND):
        claimed = await both.claim(stage, claims_max=9, lease_s=LONG_S, worker=WorkerId("both"))
        assert len(claimed) == 1
    keys, gateway = WorkerKeys([KEY]), scene.port.gateway
    neither = WorkerPass(stages=("other",), expires_ns=2**62, name="x", worker=WorkerId("x"))  # type: ignore[arg-type]
    with pytest.raises(Unauthenticated, match="predecessor"):
        await gateway.leave(neither, both.session)
    unenrolled = keys.read(token_for(FIRST, SECOND))
    for predecessor in ("", both.session):
        with pytest.raises(PermissionDenied, match="only to enroll"):
            await gateway.leave(unenrolled, predecessor)
    assert (await scene.drive.batch()).running == 2
    first = WorkerPass(stages=(FIRST,), expires_ns=2**62, name="x", worker=WorkerId("x"))
    assert await gateway.leave(first, both.session) == (1, 0)
    assert (await scene.drive.batch()).running == 1
    await both.close()
