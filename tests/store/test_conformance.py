"""What every store does; run on the memory of this process and on a real Valkey.

Instants are each store's own, so nothing here compares them with the test's clock; where time must
pass, the test waits for what it brings about.
"""

import asyncio
import math
from dataclasses import replace

import pytest
from tests.store.driver import (
    FIRST,
    PATIENCE_S,
    SECOND,
    TASK,
    TENANT,
    WORKER,
    Driver,
    MakeStore,
    eventually,
    request,
    requests,
)

from assay.core.advantages import zero_shift_micro
from assay.core.errors import Conflict, FailedPrecondition, NotFound, Saturated, TooLarge
from assay.core.ids import BatchId, GroupId, JobId, TaskId, TenantId
from assay.core.ordering import order_key
from assay.core.outcome import Outcome
from assay.core.records import (
    Artifact,
    BatchSpec,
    BatchState,
    EndRequest,
    FinishStatus,
    GroupRecord,
    NewRequest,
    Quota,
    Reaped,
    ResultRecord,
)

DONE, STALE = FinishStatus.DONE, FinishStatus.STALE
SHORT_S = 0.001
"""A lease that is over at once; tests wait for what `reap` makes of it."""


async def reaped(drive: Driver, *, attempts_max: int = 3, jobs_max: int = 100) -> Reaped:
    """The first sweep that finds something."""

    async def sweep() -> Reaped | None:
        found = await drive.reap(attempts_max=attempts_max, jobs_max=jobs_max)
        return found if found.redelivered or found.dead or found.expired else None

    return await eventually(sweep)


# -- tasks ---------------------------------------------------------------------------------------


async def test_a_task_is_registered_once_and_comes_back_as_it_was(drive: Driver) -> None:
    assert await drive.store.put_task(TASK)
    assert not await drive.store.put_task(TASK)
    assert await drive.store.get_task(TENANT, TASK.task_id) == TASK


async def test_a_task_of_that_name_with_other_content_is_a_conflict(drive: Driver) -> None:
    await drive.store.put_task(TASK)
    other = type(TASK)(
        tenant=TENANT,
        task_id=TASK.task_id,
        pipeline=TASK.pipeline,
        stages=TASK.stages,
        settings_json=b"{}",
    )
    with pytest.raises(Conflict):
        await drive.store.put_task(other)


async def test_a_task_of_another_tenant_is_not_found(drive: Driver) -> None:
    await drive.store.put_task(TASK)
    with pytest.raises(NotFound):
        await drive.store.get_task(TenantId("other"), TASK.task_id)


# -- batches -------------------------------------------------------------------------------------


async def test_a_batch_is_opened_once(drive: Driver) -> None:
    first = await drive.open(size=4, group_size=2)
    again = await drive.open(size=4, group_size=2)
    assert first == again
    assert first.state is BatchState.OPEN
    assert first.deadline_ns - first.opened_ns == 600_000 * 10**6


@pytest.mark.parametrize(("size", "group_size"), [(5, 2), (4, 3)])
async def test_a_batch_of_that_name_with_another_form_is_a_conflict(
    drive: Driver, size: int, group_size: int
) -> None:
    await drive.open(size=4, group_size=2)
    with pytest.raises(Conflict):
        await drive.open(size=size, group_size=group_size)


async def test_a_batch_of_an_unknown_task_is_not_found(drive: Driver) -> None:
    batch = await drive.open()
    spec = BatchSpec(
        tenant=TENANT,
        batch_id=BatchId("b"),
        task_id=TaskId("none"),
        size=0,
        group_size=0,
        deadline_after_ms=1,
    )
    with pytest.raises(NotFound):
        await drive.store.open_batch(spec, Quota())
    assert [one.batch_id for one in await drive.store.batches(batches_max=9)] == [batch.batch_id]


async def test_open_batches_are_limited_by_the_quota(drive: Driver) -> None:
    quota = Quota(batches_open_max=2)
    await drive.open("a", quota=quota)
    await drive.open("b", quota=quota)
    with pytest.raises(Saturated) as caught:
        await drive.open("c", quota=quota)
    assert caught.value.retry_after_s > 0
    await drive.open("a", quota=quota)
    await drive.seal("a")
    await drive.open("c", quota=quota)


async def test_batches_that_are_not_over_are_listed_by_deadline(drive: Driver) -> None:
    await drive.open("late", deadline_after_ms=9_000_000)
    await drive.open("soon", deadline_after_ms=1_000_000)
    await drive.open("over")
    await drive.seal("over")
    listed = await drive.store.batches(batches_max=10)
    assert [batch.batch_id for batch in listed] == ["soon", "late"]
    assert len(await drive.store.batches(batches_max=1)) == 1


async def test_a_deadline_may_be_an_instant_and_is_never_before_the_earliest(
    drive: Driver,
) -> None:
    first = await drive.open("first", deadline_after_ms=1_000)
    due_ns = first.opened_ns + 3_600 * 10**9
    due = await drive.open("due", deadline_after_ms=1_000, deadline_ns=due_ns)
    assert due.deadline_ns == due_ns
    past = await drive.open("past", deadline_after_ms=1_000, deadline_ns=first.opened_ns)
    assert past.deadline_ns == past.opened_ns + 10**9
    listed = await drive.store.batches(batches_max=10)
    assert [batch.batch_id for batch in listed] == ["first", "past", "due"]


@pytest.mark.parametrize("call", ["get_batch", "seal", "cancel"])
async def test_what_is_asked_of_an_unknown_batch_is_not_found(drive: Driver, call: str) -> None:
    with pytest.raises(NotFound):
        await getattr(drive.store, call)(TENANT, BatchId("none"))


async def test_an_unknown_batch_has_no_results_and_takes_no_requests(drive: Driver) -> None:
    with pytest.raises(NotFound):
        await drive.log("none")
    with pytest.raises(NotFound):
        await drive.submit(requests("a"), "none")


async def test_an_empty_batch_is_complete_when_it_is_sealed(drive: Driver) -> None:
    await drive.open()
    assert (await drive.seal()).state is BatchState.COMPLETE
    assert (await drive.seal()).state is BatchState.COMPLETE


# -- submit --------------------------------------------------------------------------------------


async def test_a_request_sent_twice_is_one_request(drive: Driver) -> None:
    await drive.open()
    first = await drive.submit(requests("a", "b"))
    again = await drive.submit(requests("b", "c", "c"))
    assert (first.accepted, first.duplicates) == (2, 0)
    assert (again.accepted, again.duplicates) == (1, 2)
    assert (await drive.batch()).submitted == 3


@pytest.mark.parametrize(
    "changed",
    [
        request("b", response=b"43"),
        request("b", reference=b"[]"),
        request("b", group="g"),
        request("b", response=b"4", reference=b"2{}"),
    ],
    ids=["response", "reference", "group", "border"],
)
async def test_a_request_id_with_other_content_is_a_conflict_that_names_it(
    drive: Driver, changed: NewRequest
) -> None:
    await drive.open()
    await drive.submit(requests("b"))
    with pytest.raises(Conflict) as caught:
        await drive.submit([request("a"), changed])
    assert caught.value.field == "requests[1].request_id"
    assert (await drive.batch()).submitted == 1, "all or none"


async def test_two_contents_under_one_id_in_one_message_are_a_conflict(drive: Driver) -> None:
    await drive.open()
    with pytest.raises(Conflict):
        await drive.submit([request("a"), request("a", response=b"43")])
    assert (await drive.batch()).submitted == 0


async def test_reaching_its_size_seals_a_batch(drive: Driver) -> None:
    await drive.open(size=2)
    assert not (await drive.submit(requests("a"))).sealed
    assert (await drive.submit(requests("b"))).sealed
    assert (await drive.batch()).state is BatchState.SEALED


async def test_a_sealed_batch_takes_nothing_new_but_may_be_sent_what_it_has(drive: Driver) -> None:
    await drive.open(size=2)
    await drive.submit(requests("a", "b"))
    with pytest.raises(FailedPrecondition):
        await drive.submit(requests("a", "c"))
    again = await drive.submit(requests("a", "b"))
    assert (again.accepted, again.duplicates, again.sealed) == (0, 2, True)


async def test_more_than_its_size_is_refused_whole(drive: Driver) -> None:
    await drive.open(size=2)
    await drive.submit(requests("a"))
    with pytest.raises(FailedPrecondition):
        await drive.submit(requests("b", "c"))
    assert (await drive.batch()).submitted == 1


async def test_more_than_a_group_holds_is_refused_whole_and_named(drive: Driver) -> None:
    await drive.open(group_size=2)
    await drive.submit([request("a", group="g")])
    with pytest.raises(FailedPrecondition) as caught:
        await drive.submit([request("x", group="h"), *(request(n, group="g") for n in "bcd")])
    assert caught.value.field == "requests[2].group_id"
    assert (await drive.batch()).submitted == 1


@pytest.mark.parametrize("quota", [Quota(requests_open_max=3), Quota(bytes_open_max=14)])
async def test_a_quota_holds_over_all_batches_and_is_freed_by_ends(
    drive: Driver, quota: Quota
) -> None:
    await drive.open("a")
    await drive.open("b")
    await drive.submit(requests("1", "2"), "a", quota)  # four bytes each
    with pytest.raises(Saturated) as caught:
        await drive.submit(requests("3", "4"), "b", quota)
    assert caught.value.retry_after_s > 0
    await drive.submit(requests("3"), "b", quota)
    await drive.score(await drive.claim(1))
    await drive.submit(requests("4"), "b", quota)


@pytest.mark.parametrize("quota", [Quota(requests_open_max=3), Quota(bytes_open_max=14)])
@pytest.mark.parametrize("held", [0, 2])
async def test_more_than_a_whole_quota_is_no_matter_of_waiting(
    drive: Driver, quota: Quota, held: int
) -> None:
    """Also while the quota is used up, and beyond what the batch has already or has reserved."""
    await drive.open("a")
    await drive.submit(requests("1", "2")[:held], "a", quota)
    four = requests("3", "4", "5", "6")  # four bytes each
    await drive.open("b")
    with pytest.raises(TooLarge, match=r"^(requests|bytes)_open_max: ") as caught:
        await drive.submit(four, "b", quota)
    assert caught.value.field == "message"
    with pytest.raises(TooLarge) as caught:
        await drive.submit([request("9", response=b"x" * 14)], "b", Quota(bytes_open_max=14))
    assert caught.value.field == "requests[0]"
    with pytest.raises(TooLarge):
        await drive.open("c", quota=quota, requests_reserved=4, bytes_reserved=16)
    with pytest.raises(NotFound):
        await drive.batch("c")
    assert (await drive.batch("b")).submitted == 0
    await drive.store.cancel(TENANT, BatchId("a"))
    await drive.submit(four[:3], "b", quota)
    with pytest.raises(Saturated):  # it has three of them: the fourth waits
        await drive.submit(four, "b", quota)


@pytest.mark.parametrize("quota", [Quota(requests_open_max=3), Quota(bytes_open_max=12)])
async def test_what_a_batch_reserves_is_its_own_until_it_ends(drive: Driver, quota: Quota) -> None:
    await drive.open("a", quota=quota, requests_reserved=2, bytes_reserved=8)
    await drive.open("a", quota=quota, requests_reserved=2, bytes_reserved=8)  # repeated
    await drive.open("b", quota=quota)
    with pytest.raises(Saturated):
        await drive.submit(requests("3", "4"), "b", quota)  # four bytes each
    with pytest.raises(Saturated):
        await drive.open("c", quota=quota, requests_reserved=2, bytes_reserved=8)
    with pytest.raises(NotFound):
        await drive.batch("c")
    await drive.submit(requests("3"), "b", quota)
    await drive.submit(requests("1"), "a", quota)
    with pytest.raises(Saturated):
        await drive.submit(requests("4"), "b", quota)
    await drive.store.cancel(TENANT, BatchId("a"))  # one of its two never came
    await drive.submit(requests("4", "5"), "b", quota)


async def test_a_task_that_comes_with_its_batch_is_refused_with_it(drive: Driver) -> None:
    await drive.open("a")
    other = replace(TASK, task_id=TaskId("other"))
    spec = BatchSpec(
        tenant=TENANT,
        batch_id=BatchId("b"),
        task_id=other.task_id,
        size=0,
        group_size=0,
        deadline_after_ms=1_000,
        requests_reserved=2,
        bytes_reserved=2,
    )
    for quota, refusal in (
        (Quota(batches_open_max=1), Saturated),
        (Quota(requests_open_max=1), TooLarge),
        (Quota(bytes_open_max=1), TooLarge),
        (Quota(tasks_max=1), Saturated),
    ):
        with pytest.raises(refusal):
            await drive.store.open_batch(spec, quota, implicit=other)
        with pytest.raises(NotFound):
            await drive.store.get_task(TENANT, other.task_id)
    assert (await drive.store.open_batch(spec, Quota(), implicit=other))[1]
    assert await drive.store.get_task(TENANT, other.task_id) == other
    again = replace(spec, batch_id=BatchId("c"))
    with pytest.raises(Conflict):
        await drive.store.open_batch(again, Quota(), implicit=replace(other, batch_size=7))
    assert (await drive.store.open_batch(again, Quota(), implicit=other))[1]


async def test_payloads_come_back_byte_for_byte(drive: Driver) -> None:
    response = bytes(range(256)) * 3 + "\N{SNOWMAN}".encode()
    await drive.open()
    await drive.submit([request("a", group="g", response=response, reference=b"")])
    [claim] = await drive.claim()
    assert (claim.request_id, claim.group_id) == ("a", "g")
    assert (claim.response, claim.reference, claim.handover) == (response, b"", b"")
    assert (claim.task, claim.batch_id, claim.stage) == (TASK, "step-1", FIRST)


@pytest.mark.parametrize("size", [3, 200_000])
async def test_a_transcript_and_artifacts_come_back_and_count(drive: Driver, size: int) -> None:
    said, file = b"[" * size, Artifact("out/a.bin", b"\xff" * size)
    attached = [
        request("a", messages=said),
        request("b", artifacts=(file, Artifact("b", b""))),
        request("c", response=b"", messages=said, artifacts=(file,)),
    ]
    more = sum(one.payload_bytes for one in attached)
    assert more == 2 * len(b"42") + 3 * len(b"{}") + 4 * size
    await drive.open()
    with pytest.raises(TooLarge):
        await drive.submit(attached, quota=Quota(bytes_open_max=more - 1))
    await drive.submit(attached, quota=Quota(bytes_open_max=more))
    assert (await drive.submit(attached)).duplicates == 3
    for other in (
        request("a", messages=said + b"]"),
        request("b", artifacts=(file,)),
        request("b", artifacts=(file, Artifact("c", b""))),
        request("c", response=b"", artifacts=(file,)),
    ):
        with pytest.raises(Conflict):
            await drive.submit([other])
    claims = await drive.claim(3)
    assert [(claim.request_id, claim.messages, claim.artifacts) for claim in claims] == [
        (one.request_id, one.messages, one.artifacts) for one in attached
    ]


async def test_large_parts_come_back_too_and_are_told_apart(drive: Driver) -> None:
    large, other = b"x" * 200_000, b"y" * 200_000
    await drive.open()
    await drive.submit([request(n, response=large, reference=other) for n in "ab"])
    assert (await drive.submit([request("a", response=large, reference=other)])).duplicates == 1
    with pytest.raises(Conflict):
        await drive.submit([request("a", response=large, reference=large)])
    claims = await drive.claim()
    assert [(c.response, c.reference) for c in claims] == [(large, other)] * 2


# -- order ---------------------------------------------------------------------------------------


async def test_the_earliest_batch_is_served_first_and_arrival_orders_it_inside(
    drive: Driver,
) -> None:
    await drive.open("late", deadline_after_ms=9_000_000)
    await drive.open("soon", deadline_after_ms=1_000_000)
    await drive.submit(requests("a", "b"), "late")
    await drive.submit(requests("c", "d"), "soon")
    await drive.submit(requests("e"), "late")
    claims = [*await drive.claim(3), *await drive.claim(3)]
    assert [claim.request_id for claim in claims] == ["c", "d", "a", "b", "e"]
    keys = [order_key(deadline_ns=c.deadline_ns, sequence=int(c.lease.job_id)) for c in claims]
    assert keys == sorted(keys)


async def test_a_request_that_is_delivered_again_takes_its_old_place(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b", "c", "d"))
    a, b = await drive.claim(2)
    await drive.fail([b])
    await drive.give_back([a])
    assert [claim.request_id for claim in await drive.claim()] == ["a", "b", "c", "d"]


async def test_the_next_stage_is_served_by_the_same_order(drive: Driver) -> None:
    await drive.open("late", deadline_after_ms=9_000_000)
    await drive.open("soon", deadline_after_ms=1_000_000)
    await drive.submit(requests("a", "b"), "late")
    await drive.submit(requests("c"), "soon")
    c, a, b = await drive.claim()
    for claim in (b, a, c):
        await drive.hand_over([claim])
    second = await drive.claim(stage=SECOND)
    assert [claim.request_id for claim in second] == ["c", "a", "b"]


# -- leases --------------------------------------------------------------------------------------


async def test_what_is_claimed_is_nobody_elses(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b", "c"))
    assert len(await drive.claim(2)) == 2
    assert len(await drive.claim(2)) == 1
    assert await drive.claim(2) == []
    batch = await drive.batch()
    assert (batch.queued, batch.running) == (0, 3)


async def test_fences_only_grow(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b"))
    claims = list(await drive.claim())
    await drive.give_back(claims)
    claims += await drive.claim()
    fences = [claim.lease.fence for claim in claims]
    assert fences == sorted(set(fences))


async def test_a_lost_lease_is_delivered_again_and_its_late_report_changes_nothing(
    drive: Driver,
) -> None:
    await drive.open(size=1)
    await drive.submit(requests("a"))
    paused = await drive.claim(lease_s=SHORT_S)
    found = await reaped(drive)
    assert (found.redelivered, found.dead) == (1, 0)
    [again] = await drive.claim()
    assert again.attempt == 2
    assert (await drive.score(paused, 0.0)).statuses == (STALE,)
    assert (await drive.score([again], 1.0)).statuses == (DONE,)
    assert (await drive.score(paused, 0.0)).statuses == (STALE,)
    assert [result.reward for result in await drive.results()] == [1.0]


async def test_a_beat_renews_what_is_held_and_names_what_is_lost(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b", "c"))
    a, b, c = await drive.claim()
    await drive.score([b])
    leases = [a.lease, b.lease, c.lease]
    assert await drive.store.beat(FIRST, lease_s=600.0, leases=leases) == [b.lease]
    assert await drive.store.beat(SECOND, lease_s=600.0, leases=[a.lease]) == [a.lease]


async def test_a_beat_moves_the_end_of_a_lease_both_ways(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b"))
    a, b = await drive.claim(lease_s=0.2)
    await drive.store.beat(FIRST, lease_s=600.0, leases=[a.lease])
    await drive.store.beat(FIRST, lease_s=SHORT_S, leases=[b.lease])
    assert (await reaped(drive)).redelivered == 1
    assert [claim.request_id for claim in await drive.claim()] == ["b"]
    assert await drive.store.beat(FIRST, lease_s=1.0, leases=[a.lease, b.lease]) == [b.lease]


async def test_a_worker_that_renews_without_end_loses_its_claim_all_the_same(
    make_store: MakeStore,
) -> None:
    drive = Driver(make_store(held_s_max=0.6))
    await drive.open(size=1)
    await drive.submit(requests("a"))
    [held] = await drive.claim(lease_s=600.0)
    assert await drive.store.beat(FIRST, lease_s=600.0, leases=[held.lease]) == []
    await asyncio.sleep(0.7)
    assert await drive.store.beat(FIRST, lease_s=600.0, leases=[held.lease]) == [held.lease]
    assert (await reaped(drive)).redelivered == 1
    [again] = await drive.claim()
    assert (again.request_id, again.attempt) == ("a", 2)
    assert (await drive.score([held], 0.0)).statuses == (STALE,)
    assert (await drive.score([again], 1.0)).statuses == (DONE,)


async def test_a_sweep_takes_back_no_more_than_it_was_told(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b", "c"))
    await drive.claim(lease_s=SHORT_S)
    assert [(await reaped(drive, jobs_max=2)).redelivered for _ in range(2)] == [2, 1]


# -- finish --------------------------------------------------------------------------------------


async def test_a_result_says_how_the_request_ended_and_where_it_went(drive: Driver) -> None:
    await drive.open(size=1)
    await drive.submit([request("a", group="g")])
    await drive.hand_over(await drive.claim(), b"binary")
    [second] = await drive.claim(stage=SECOND)
    assert (second.handover, second.attempt) == (b"binary", 1)
    end = EndRequest(outcome=Outcome.RESOURCE_LIMIT, reward=-0.1, body=b"\x00evidence")
    await drive.finish([second], end)
    [result] = await drive.results()
    assert (result.request_id, result.group_id) == ("a", "g")
    assert (result.outcome, result.reward) == (Outcome.RESOURCE_LIMIT, -0.1)
    assert (result.body, result.error, result.attempts) == (b"\x00evidence", "", 2)
    compile_, run = result.stages
    assert (compile_.stage, run.stage) == (FIRST, SECOND)
    for timing in result.stages:
        assert timing.worker.startswith(WORKER)
        assert timing.enqueued_ns <= timing.claimed_ns <= timing.released_ns
        assert timing.started_ns == timing.claimed_ns + 1_000
        assert timing.finished_ns == timing.claimed_ns + 5_000
    assert compile_.released_ns == run.enqueued_ns


@pytest.mark.parametrize("reward", [0.1, 1 / 3, -0.0, 1e-300, 5e300, 2**53 + 1.0])
async def test_a_reward_comes_back_as_the_very_number(drive: Driver, reward: float) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    await drive.score(await drive.claim(), reward)
    [result] = await drive.results()
    assert result.reward == reward
    assert math.copysign(1, result.reward) == math.copysign(1, reward)


async def test_an_end_without_a_reward_has_none(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    end = EndRequest(outcome=Outcome.REJECTED_INVALID, reward=None, body=b"")
    await drive.finish(await drive.claim(), end)
    [result] = await drive.results()
    assert (result.outcome, result.reward) == (Outcome.REJECTED_INVALID, None)


async def test_one_list_of_reports_may_tell_of_several_ends(drive: Driver) -> None:
    await drive.open("a", size=1)
    await drive.open("b", size=1)
    await drive.submit(requests("x"), "a")
    await drive.submit(requests("x"), "b")
    claims = await drive.claim()
    finished = await drive.score([*claims, claims[0]])
    assert finished.statuses == (DONE, DONE, STALE)
    assert sorted(one.batch_id for one in finished.completed) == ["a", "b"]


async def test_work_given_back_costs_no_attempt(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    for _ in range(5):
        [claim] = await drive.claim()
        assert claim.attempt == 1
        await drive.give_back([claim])
    await drive.score(await drive.claim())
    assert [result.attempts for result in await drive.results()] == [1]


async def test_the_last_attempt_that_fails_ends_the_request_and_is_kept(drive: Driver) -> None:
    await drive.open(size=1)
    await drive.submit(requests("a"))
    for attempt in (1, 2):
        [claim] = await drive.claim()
        assert claim.attempt == attempt
        assert (await drive.fail([claim], attempts_max=3)).completed == ()
    finished = await drive.fail(await drive.claim(), attempts_max=3)
    assert [one.batch_id for one in finished.completed] == ["step-1"]
    [result] = await drive.results()
    assert (result.outcome, result.reward) == (Outcome.INFRA_FAILED, None)
    assert (result.error, result.attempts) == ("broken", 3)
    [letter] = await drive.store.dead_letters(letters_max=10)
    assert (letter.request_id, letter.stage, letter.attempts) == ("a", FIRST, 3)
    assert (letter.tenant, letter.batch_id, letter.error) == (TENANT, "step-1", "broken")


async def test_leases_that_run_out_again_and_again_end_the_request(drive: Driver) -> None:
    await drive.open(size=1)
    await drive.submit(requests("a"))
    await drive.claim(lease_s=SHORT_S)
    assert (await reaped(drive, attempts_max=2)).redelivered == 1
    await drive.claim(lease_s=SHORT_S)
    found = await reaped(drive, attempts_max=2)
    assert (found.redelivered, found.dead) == (0, 1)
    assert [one.batch_id for one in found.completed] == ["step-1"]
    [result] = await drive.results()
    assert (result.outcome, result.attempts) == (Outcome.INFRA_FAILED, 2)
    assert "lease" in result.error
    assert [timing.attempts for timing in result.stages] == [2]


async def test_attempts_are_counted_for_each_stage(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    await drive.fail(await drive.claim())
    await drive.hand_over(await drive.claim())
    [claim] = await drive.claim(stage=SECOND)
    assert claim.attempt == 1
    await drive.score([claim])
    [result] = await drive.results()
    assert result.attempts == 3
    assert [timing.attempts for timing in result.stages] == [2, 1]


async def test_a_batch_completes_once_with_its_slack(drive: Driver) -> None:
    await drive.open(size=2, deadline_after_ms=1_000_000)
    await drive.submit(requests("a", "b"))
    first, second = await drive.claim()
    assert (await drive.score([first])).completed == ()
    [completed] = (await drive.score([second])).completed
    assert (completed.tenant, completed.batch_id) == (TENANT, "step-1")
    batch = await drive.batch()
    assert batch.state is BatchState.COMPLETE
    assert completed.slack_ms == (batch.deadline_ns - batch.completed_ns) // 10**6
    assert batch.outcomes == {Outcome.SCORED: 2}


async def test_an_open_batch_waits_for_its_seal(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    assert (await drive.score(await drive.claim())).completed == ()
    assert (await drive.batch()).state is BatchState.OPEN
    assert (await drive.seal()).state is BatchState.COMPLETE


async def test_the_cursor_is_the_index_of_the_log(drive: Driver) -> None:
    await drive.open(size=3, group_size=3)
    await drive.submit([request(name, group="g") for name in "abc"])
    await drive.score(await drive.claim())
    whole = await drive.log()
    assert [type(entry) for entry in whole] == [ResultRecord] * 3 + [GroupRecord]
    for cursor in range(5):
        for count in range(1, 6):
            part = await drive.store.results(
                TENANT, BatchId("step-1"), cursor=cursor, entries_max=count
            )
            assert list(part) == list(whole[cursor : cursor + count])


# -- groups --------------------------------------------------------------------------------------


async def test_a_group_of_known_size_is_told_with_its_last_result(drive: Driver) -> None:
    await drive.open(group_size=2)
    await drive.submit([request(n, group=g) for n, g in zip("abcd", "ghgh", strict=True)])
    a, b, c, d = await drive.claim()
    await drive.score([a], 0.5)
    await drive.score([b], 0.0)
    assert await drive.groups() == []
    await drive.score([c], 1.0)
    assert await drive.groups() == [GroupRecord(group_id=GroupId("g"), rewards=(0.5, 1.0))]
    await drive.score([d], 0.0)
    assert [group.group_id for group in await drive.groups()] == ["g", "h"]


async def test_a_group_of_unknown_size_is_told_when_no_more_can_come(drive: Driver) -> None:
    await drive.open()
    await drive.submit([request("a", group="g"), request("b", group="h")])
    a, b = await drive.claim()
    await drive.score([a], 1.0)
    assert await drive.groups() == []
    await drive.seal()
    assert await drive.groups() == [GroupRecord(group_id=GroupId("g"), rewards=(1.0,))]
    await drive.score([b], 0.0)
    assert [group.group_id for group in await drive.groups()] == ["g", "h"]
    assert (await drive.batch()).state is BatchState.COMPLETE


async def test_a_group_that_grew_after_all_its_requests_had_ended_is_told_once(
    drive: Driver,
) -> None:
    await drive.open()
    await drive.submit([request("a", group="g")])
    await drive.score(await drive.claim(), 1.0)
    await drive.submit([request("b", group="g")])
    await drive.seal()
    assert await drive.groups() == []
    await drive.score(await drive.claim(), 0.0)
    assert await drive.groups() == [GroupRecord(group_id=GroupId("g"), rewards=(1.0, 0.0))]


async def test_a_smaller_group_is_told_too_when_the_batch_is_sealed(drive: Driver) -> None:
    await drive.open(group_size=4)
    await drive.submit([request("a", group="g")])
    await drive.score(await drive.claim(), 1.0)
    assert (await drive.seal()).state is BatchState.COMPLETE
    assert await drive.groups() == [GroupRecord(group_id=GroupId("g"), rewards=(1.0,))]


async def test_reaching_the_size_by_submit_tells_the_groups_that_waited(drive: Driver) -> None:
    await drive.open(size=2)
    await drive.submit([request("a", group="g")])
    await drive.score(await drive.claim(), 1.0)
    await drive.submit([request("b", group="h")])
    assert [group.group_id for group in await drive.groups()] == ["g"]


async def test_requests_that_end_without_a_reward_stand_in_their_group_as_such(
    drive: Driver,
) -> None:
    await drive.open(size=3, group_size=3)
    await drive.submit([request(name, group="g") for name in "abc"])
    a, b, c = await drive.claim()
    await drive.fail([a], attempts_max=1)
    await drive.score([b], 0.25)
    await drive.finish([c], EndRequest(outcome=Outcome.EXPIRED, reward=None, body=b""))
    assert await drive.groups() == [GroupRecord(group_id=GroupId("g"), rewards=(None, 0.25, None))]


async def test_requests_without_a_group_make_none(drive: Driver) -> None:
    await drive.open(size=2, group_size=2)
    await drive.submit(requests("a", "b"))
    await drive.score(await drive.claim())
    assert await drive.groups() == []


# -- cancel and expiry ---------------------------------------------------------------------------


async def test_cancelling_ends_what_has_not_ended(drive: Driver) -> None:
    await drive.open(size=4)
    await drive.submit([request(name, group="g") for name in "abcd"])
    a, b = await drive.claim(2)
    await drive.score([a])
    batch, ended = await drive.cancel()
    assert (batch.state, ended) == (BatchState.CANCELLED, 3)
    assert batch.outcomes == {Outcome.SCORED: 1, Outcome.CANCELLED: 3}
    assert (batch.queued, batch.running) == (0, 0)
    assert batch.completed_ns > 0
    assert await drive.store.beat(FIRST, lease_s=9.0, leases=[b.lease]) == [b.lease]
    assert (await drive.score([b])).statuses == (STALE,)
    assert await drive.claim() == []
    assert [group.rewards for group in await drive.groups()] == [(1.0, None, None, None)]
    with pytest.raises(FailedPrecondition):
        await drive.submit(requests("e"))


async def test_cancelling_again_ends_nothing(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    assert (await drive.cancel())[1] == 1
    batch, ended = await drive.cancel()
    assert (batch.state, ended) == (BatchState.CANCELLED, 0)
    assert len(await drive.results()) == 1


async def test_a_complete_batch_is_not_cancelled(drive: Driver) -> None:
    await drive.open(size=1)
    await drive.submit(requests("a"))
    await drive.score(await drive.claim())
    batch, ended = await drive.cancel()
    assert (batch.state, ended) == (BatchState.COMPLETE, 0)


async def test_cancelling_frees_the_quota(drive: Driver) -> None:
    quota = Quota(requests_open_max=2, batches_open_max=1)
    await drive.open("a", quota=quota)
    await drive.submit(requests("1", "2"), "a", quota)
    await drive.claim(1)
    await drive.cancel("a")
    await drive.open("b", quota=quota)
    assert (await drive.submit(requests("1", "2"), "b", quota)).accepted == 2


async def test_cancelling_some_requests_ends_those_and_no_other(drive: Driver) -> None:
    await drive.open(group_size=2)
    await drive.submit(
        [request(f"{group}{i}", group=group) for group in "abc" for i in range(2)]
        + requests("alone")
    )
    running = (await drive.claim(3))[2]  # b0, after both of a
    batch, ended = await drive.cancel_requests(["alone", "a0", "nothing"], ["b", "none"])
    assert (batch.state, ended) == (BatchState.OPEN, 4)
    assert batch.outcomes == {Outcome.CANCELLED: 4}
    assert (batch.queued, batch.running) == (2, 1)
    assert await drive.store.beat(FIRST, lease_s=9.0, leases=[running.lease]) == [running.lease]
    assert (await drive.score([running])).statuses == (STALE,)
    assert {result.request_id for result in await drive.results()} == {"a0", "alone", "b0", "b1"}
    assert [(g.group_id, g.rewards) for g in await drive.groups()] == [("b", (None, None))]
    assert (await drive.cancel_requests(["alone", "a0"], ["b"]))[1] == 0
    assert (await drive.submit([request("b0", group="b")])).duplicates == 1
    assert {claim.request_id for claim in await drive.claim()} == {"c0", "c1"}


async def test_a_batch_completes_when_the_rest_of_it_is_cancelled(drive: Driver) -> None:
    await drive.open()
    await drive.submit([request("a", group="g"), request("b", group="g")])
    await drive.score(await drive.claim(1))
    assert (await drive.seal()).state is BatchState.SEALED
    batch, ended = await drive.cancel_requests(groups=["g"])
    assert (batch.state, ended) == (BatchState.COMPLETE, 1)
    assert [group.rewards for group in await drive.groups()] == [(1.0, None)]
    assert (await drive.cancel_requests(groups=["g"]))[1] == 0
    with pytest.raises(NotFound):
        await drive.cancel_requests(["a"], name="other")


async def test_cancelling_some_of_many_requests_frees_their_quota(drive: Driver) -> None:
    quota = Quota(requests_open_max=2_500)
    await drive.open(quota=quota)
    names = [f"r{index}" for index in range(2_500)]
    await drive.submit([request(name, group=name[:3]) for name in names], quota=quota)
    chosen = {name for name in names if name[:3] == "r12"}
    batch, ended = await drive.cancel_requests(groups=["r12"])
    assert (ended, batch.queued) == (len(chosen), 2_500 - len(chosen))
    assert {result.request_id for result in await drive.results()} == chosen
    more = requests(*(f"more{i}" for i in range(len(chosen))))
    assert (await drive.submit(more, quota=quota)).accepted == len(chosen)


async def test_cancelling_a_large_batch_ends_all_of_it(drive: Driver) -> None:
    await drive.open()
    names = [f"r{index}" for index in range(2_500)]
    await drive.submit([request(name, group=name) for name in names])
    await drive.claim(700)
    batch, ended = await drive.cancel()
    assert (batch.state, ended) == (BatchState.CANCELLED, 2_500)
    assert {result.request_id for result in await drive.results()} == set(names)
    assert len(await drive.groups()) == 2_500
    depth = await drive.depth()
    assert (depth.queued, depth.running) == (0, 0)


async def test_sealing_a_batch_of_many_groups_tells_all_of_them(drive: Driver) -> None:
    await drive.open()
    await drive.submit([request(f"r{index}", group=f"g{index}") for index in range(2_500)])
    await drive.score(await drive.claim(2_500) or [])
    while claims := await drive.claim(1_000):
        await drive.score(claims)
    assert await drive.groups() == []
    assert (await drive.seal()).state is BatchState.COMPLETE
    assert len({group.group_id for group in await drive.groups()}) == 2_500


async def test_a_batch_long_past_its_deadline_expires(make_store: MakeStore) -> None:
    drive = Driver(make_store(batch_overdue_s=0.001))
    await drive.open(deadline_after_ms=1)
    await drive.submit([request(name, group="g") for name in "abc"])
    a, *_ = await drive.claim(2)
    await drive.score([a])
    found = await reaped(drive)
    assert (found.expired, [one.batch_id for one in found.completed]) == (2, ["step-1"])
    assert found.completed[0].slack_ms < 0
    batch = await drive.batch()
    assert batch.state is BatchState.COMPLETE
    assert batch.outcomes == {Outcome.SCORED: 1, Outcome.EXPIRED: 2}
    assert [group.rewards for group in await drive.groups()] == [(1.0, None, None)]
    assert (await drive.reap()).expired == 0


async def test_an_overdue_batch_expires_in_steps_of_what_a_sweep_may_do(
    make_store: MakeStore,
) -> None:
    drive = Driver(make_store(batch_overdue_s=0.001))
    await drive.open(deadline_after_ms=1)
    await drive.submit(requests("a", "b", "c"))
    steps = [await reaped(drive, jobs_max=2) for _ in range(2)]
    assert [step.expired for step in steps] == [2, 1]
    assert [len(step.completed) for step in steps] == [0, 1]


# -- dead letters --------------------------------------------------------------------------------


async def test_a_dead_letter_is_replayed_with_fresh_attempts(drive: Driver) -> None:
    await drive.open()
    await drive.submit([request(name, group="g") for name in "ab"])
    a, b = await drive.claim()
    await drive.fail([a], attempts_max=1)
    [letter] = await drive.store.dead_letters(letters_max=10)
    assert await drive.store.replay(letter.job_id)
    assert not await drive.store.replay(letter.job_id)
    assert await drive.store.dead_letters(letters_max=10) == []
    batch = await drive.batch()
    assert (batch.ended, batch.queued, batch.outcomes) == (0, 1, {})
    [again] = await drive.claim()
    assert (again.request_id, again.attempt) == ("a", 1)
    await drive.score([again, b], 1.0)
    await drive.seal()
    assert [result.outcome for result in await drive.results()] == [
        Outcome.INFRA_FAILED,
        Outcome.SCORED,
        Outcome.SCORED,
    ]
    assert [group.rewards for group in await drive.groups()] == [(1.0, 1.0)]
    assert (await drive.batch()).outcomes == {Outcome.SCORED: 2}


async def test_a_replay_in_a_complete_batch_adds_a_final_result_and_group(drive: Driver) -> None:
    await drive.open(size=2, group_size=2)
    await drive.submit([request(name, group="g") for name in "ab"])
    a, b = await drive.claim()
    await drive.fail([a], attempts_max=1)
    await drive.score([b], 0.5)
    first = await drive.log()
    completed_ns = (await drive.batch()).completed_ns
    [letter] = await drive.store.dead_letters(letters_max=10)
    assert await drive.store.replay(letter.job_id)
    finished = await drive.score(await drive.claim(), 1.0)
    assert finished.completed == (), "a batch completes once"
    batch = await drive.batch()
    assert (batch.state, batch.completed_ns) == (BatchState.COMPLETE, completed_ns)
    assert batch.outcomes == {Outcome.SCORED: 2}
    second = (await drive.log())[len(first) :]
    assert (batch.unjudged, batch.grouped, batch.shift_micro) == ({}, 2, 0)
    assert [getattr(entry, "reward", None) for entry in second] == [1.0, None]
    assert second[1] == GroupRecord(group_id=GroupId("g"), rewards=(1.0, 0.5))


async def test_a_batch_says_what_zeros_would_have_done_to_its_advantages(drive: Driver) -> None:
    told = {"full": [0.1, 0.7], "cut": [1.0, 0.0, 0.0], "none": [], "huge": [1.7e308, 1.6e308]}
    lost = {"cut": 1, "none": 2, "huge": 1}
    await drive.open()
    for group, rewards in told.items():
        names = [f"{group}{n}" for n in range(len(rewards) + lost.get(group, 0))]
        await drive.submit([request(name, group=group) for name in names])
    await drive.submit(requests("alone"))
    for claim in await drive.claim(20):
        rewards = told.get(claim.group_id, [])
        if rewards:
            await drive.score([claim], rewards.pop())
        else:
            await drive.fail([claim], attempts_max=1)
    before = await drive.batch()
    assert (before.grouped, before.bias_avoided) == (0, 0.0), "no group has ended"
    batch = await drive.seal()
    assert batch.unjudged == {Outcome.INFRA_FAILED: 5 / 12}
    shift = zero_shift_micro([1.0, 0.0, 0.0, None])
    assert shift == 1_154_701
    assert (batch.grouped, batch.shift_micro) == (11, shift)
    assert batch.bias_avoided == shift / 1e6 / 11


async def test_two_dead_letters_of_a_complete_batch_are_replayed(drive: Driver) -> None:
    await drive.open(size=2)
    await drive.submit(requests("a", "b"))
    await drive.kill()
    await drive.kill()
    letters = await drive.store.dead_letters(letters_max=2)
    assert [await drive.store.replay(letter.job_id) for letter in letters] == [True, True]
    assert (await drive.batch()).queued == 2


async def test_a_replayed_request_may_die_again(drive: Driver) -> None:
    await drive.open(size=1)
    await drive.submit([request("a", group="g")])
    await drive.kill()
    [letter] = await drive.store.dead_letters(letters_max=1)
    await drive.store.replay(letter.job_id)
    await drive.kill()
    [again] = await drive.store.dead_letters(letters_max=1)
    assert again.job_id == letter.job_id
    assert (await drive.batch()).outcomes == {Outcome.INFRA_FAILED: 1}
    assert [group.rewards for group in await drive.groups()] == [(None,), (None,)]


async def test_a_replay_in_the_second_stage_goes_on_there(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    await drive.hand_over(await drive.claim(), b"binary")
    await drive.fail(await drive.claim(stage=SECOND), attempts_max=1)
    assert [letter.stage for letter in await drive.store.dead_letters(letters_max=1)] == [SECOND]
    [letter] = await drive.store.dead_letters(stage=SECOND, letters_max=1)
    assert await drive.store.dead_letters(stage=FIRST, letters_max=1) == []
    assert await drive.store.replay(letter.job_id)
    [claim] = await drive.claim(stage=SECOND)
    assert claim.handover == b"binary"
    await drive.score([claim])
    assert [len(result.stages) for result in await drive.results()] == [2, 2]


async def test_only_dead_letters_of_batches_that_live_are_replayed(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b"))
    await drive.fail(await drive.claim(1), attempts_max=1)
    [letter] = await drive.store.dead_letters(letters_max=1)
    await drive.cancel()
    assert not await drive.store.replay(letter.job_id)
    assert not await drive.store.replay(JobId("0" * 16))


async def test_a_queued_request_is_no_dead_letter(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    [claim] = await drive.claim()
    assert not await drive.store.replay(claim.lease.job_id)
    await drive.give_back([claim])
    assert not await drive.store.replay(claim.lease.job_id)


async def test_dead_letters_are_bounded_and_listed_newest_first(make_store: MakeStore) -> None:
    drive = Driver(make_store(dead_letters_max=2))
    await drive.open()
    for name in "abc":
        await drive.submit(requests(name))
        await drive.kill()
    letters = await drive.store.dead_letters(letters_max=10)
    assert [letter.request_id for letter in letters] == ["c", "b"]
    assert (await drive.depth()).dead_letters == 2
    assert len(await drive.store.dead_letters(letters_max=1)) == 1
    assert (await drive.batch()).outcomes == {Outcome.INFRA_FAILED: 3}


# -- what is kept --------------------------------------------------------------------------------


async def gone(drive: Driver, name: str = "step-1") -> bool:
    try:
        await drive.batch(name)
    except NotFound:
        return True
    return False


async def test_a_finished_batch_is_forgotten_with_its_dead_letters(make_store: MakeStore) -> None:
    drive = Driver(make_store(results_kept_s=0.05))
    await drive.open(size=2)
    await drive.submit(requests("a", "b"))
    a, b = await drive.claim()
    await drive.fail([a], attempts_max=1)
    await drive.score([b])
    await eventually(lambda: gone(drive))
    with pytest.raises(NotFound):
        await drive.log()
    await drive.reap()
    assert await drive.store.dead_letters(letters_max=1) == []
    await drive.open(size=2)
    assert (await drive.submit(requests("a"))).accepted == 1


async def test_a_batch_is_kept_until_its_replayed_request_has_ended_again(
    make_store: MakeStore,
) -> None:
    drive = Driver(make_store(results_kept_s=0.1))
    await drive.open("a", size=1)
    await drive.submit(requests("x"), "a")
    await drive.kill()
    [letter] = await drive.store.dead_letters(letters_max=1)
    assert await drive.store.replay(letter.job_id)
    await drive.open("b", size=0)
    await drive.seal("b")
    await eventually(lambda: gone(drive, "b"))
    await drive.reap()
    assert (await drive.batch("a")).queued == 1
    await drive.score(await drive.claim())
    await eventually(lambda: gone(drive, "a"))


async def test_finished_batches_become_the_history_of_their_task(make_store: MakeStore) -> None:
    drive = Driver(make_store(history_batches=2))
    for name in ("a", "b", "c"):
        await drive.open(name, size=2)
        await drive.submit(requests("x", "y"), name)
        x, y = await drive.claim()
        await drive.hand_over([x])
        await drive.score(await drive.claim(stage=SECOND))
        await drive.fail([y], attempts_max=1)
    history = await drive.store.history(TENANT, TASK.task_id, batches_max=10)
    assert [batch.batch_id for batch in history] == ["c", "b"]
    batch = await drive.batch("c")
    newest = history[0]
    assert (newest.opened_ns, newest.completed_ns) == (batch.opened_ns, batch.completed_ns)
    assert newest.deadline_ns == batch.deadline_ns
    good, bad = newest.requests
    assert (good.outcome, good.service_ns) == (Outcome.SCORED, (4_000, 4_000))
    assert (bad.outcome, bad.service_ns) == (Outcome.INFRA_FAILED, (4_000, 0))
    assert 0 <= good.arrived_after_ns <= bad.arrived_after_ns < PATIENCE_S * 1e9
    spans_ns = await drive.store.natural_spans_ns(TENANT, TASK.task_id)
    assert len(spans_ns) == 3
    assert {batch.natural_span_ns for batch in history} <= set(spans_ns)
    assert await drive.store.natural_spans_ns(TENANT, TaskId("none")) == []
    assert len(await drive.store.history(TENANT, TASK.task_id, batches_max=1)) == 1
    assert await drive.store.history(TENANT, TaskId("none"), batches_max=1) == []


async def test_a_cancelled_batch_is_no_history(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    await drive.cancel()
    assert await drive.store.history(TENANT, TASK.task_id, batches_max=10) == []
    assert await drive.store.natural_spans_ns(TENANT, TASK.task_id) == []


async def test_depths_count_what_waits_runs_and_died(drive: Driver) -> None:
    await drive.open("late", deadline_after_ms=9_000_000)
    await drive.open("soon", deadline_after_ms=1_000_000)
    await drive.submit(requests("a"), "late")
    await drive.submit(requests("b", "c", "d"), "soon")
    b, _ = await drive.claim(2)
    await drive.fail([b], attempts_max=1)
    first, second = await drive.store.depths([FIRST, SECOND])
    assert (first.stage, first.queued, first.running, first.dead_letters) == (FIRST, 2, 1, 1)
    assert (second.queued, second.running, second.oldest_age_s) == (0, 0, 0.0)
    older = await eventually(lambda: older_than(drive, first.oldest_age_s))
    assert older < PATIENCE_S


async def older_than(drive: Driver, age_s: float) -> float | None:
    now_s = (await drive.depth()).oldest_age_s
    return now_s if now_s > age_s else None


# -- waking --------------------------------------------------------------------------------------


async def test_a_sleeping_worker_is_woken_by_work(drive: Driver) -> None:
    await drive.open()
    sleeper = asyncio.create_task(drive.store.wait_for_work([SECOND, FIRST], timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    await drive.submit(requests("a"))
    assert await sleeper == FIRST


async def test_work_that_is_there_wakes_at_once_and_none_times_out(drive: Driver) -> None:
    assert await drive.store.wait_for_work([FIRST], timeout_s=0.01) is None
    await drive.open()
    await drive.submit(requests("a"))
    assert await drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S) == FIRST


@pytest.mark.parametrize("how", ["hand_over", "fail", "give_back", "reap", "replay"])
async def test_whatever_puts_work_in_a_queue_wakes(drive: Driver, how: str) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    stage = SECOND if how == "hand_over" else FIRST
    claims = await drive.claim(lease_s=SHORT_S if how == "reap" else 600.0)
    assert await drive.store.wait_for_work([FIRST, SECOND], timeout_s=0.01) is None
    sleeper = asyncio.create_task(drive.store.wait_for_work([stage], timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    match how:
        case "reap":
            await reaped(drive)
        case "replay":
            await drive.fail(claims, attempts_max=1)
            [letter] = await drive.store.dead_letters(letters_max=1)
            await drive.store.replay(letter.job_id)
        case _:
            await getattr(drive, how)(claims)
    assert await sleeper == stage


async def test_who_is_woken_in_vain_wakes_another(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    assert await drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S) == FIRST
    sleeper = asyncio.create_task(drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    assert await drive.claim(0) == []
    assert await sleeper == FIRST
    assert len(await drive.claim(1)) == 1
    assert await drive.claim(0) == []
    assert await drive.store.wait_for_work([FIRST], timeout_s=0.01) is None


async def test_each_sleeper_that_finds_more_work_wakes_the_next(drive: Driver) -> None:
    await drive.open()

    async def work() -> str:
        assert await drive.store.wait_for_work([FIRST], timeout_s=PATIENCE_S) == FIRST
        [claim] = await drive.claim(1)
        return claim.request_id

    sleepers = [asyncio.create_task(work()) for _ in range(4)]
    await asyncio.sleep(0)
    await drive.submit(requests("a", "b", "c", "d"))
    assert sorted(await asyncio.gather(*sleepers)) == ["a", "b", "c", "d"]


async def test_a_watcher_sees_every_change_of_its_batch(drive: Driver) -> None:
    await drive.open(size=2)
    await drive.submit(requests("a", "b"))
    changes = drive.store.watch(BatchId("step-1"))
    await anext(changes)
    for number in (1, 2):
        await drive.score(await drive.claim(1))
        while len(await drive.results()) < number:
            await anext(changes)
    await changes.aclose()


async def test_many_watchers_are_woken_by_one_change(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))

    async def watch() -> None:
        changes = drive.store.watch(BatchId("step-1"))
        async for _ in changes:
            if await drive.results():
                break
        await changes.aclose()

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(watch())
        await drive.score(await drive.claim())


# -- rate limits ---------------------------------------------------------------------------------


async def test_a_rate_limit_is_shared_per_tenant_and_provider(drive: Driver) -> None:
    store = drive.store
    a, b = TenantId("a"), TenantId("b")
    limits = {"requests": (1, 3), "tokens": (10, 1_000)}
    assert [await store.permit(a, "p", limits) for _ in range(3)] == [0.0] * 3
    wait_s = await store.permit(a, "p", limits)
    assert 15.0 < wait_s <= 20.0
    assert await store.permit(b, "p", limits) == 0.0
    assert await store.permit(a, "other", limits) == 0.0
    assert await store.permit(a, "p", {"requests": (1, 0)}) == 0.0


async def test_a_call_that_one_limit_refuses_takes_nothing_of_the_other(drive: Driver) -> None:
    store = drive.store
    tenant = TenantId("a")
    assert await store.permit(tenant, "p", {"requests": (1, 2), "tokens": (100, 100)}) == 0.0
    for _ in range(5):
        assert await store.permit(tenant, "p", {"requests": (1, 2), "tokens": (100, 100)}) > 0.0
    assert await store.permit(tenant, "p", {"requests": (1, 2)}) == 0.0


# -- artifacts -----------------------------------------------------------------------------------


async def test_an_artifact_has_one_maker_and_wakes_all_who_wait(drive: Driver) -> None:
    store = drive.store
    assert await store.artifact_get("sha") is None
    assert await store.artifact_begin("sha", lease_s=60.0)
    assert not await store.artifact_begin("sha", lease_s=60.0)
    waiting = [
        asyncio.create_task(store.artifact_wait("sha", timeout_s=PATIENCE_S)) for _ in range(8)
    ]
    await asyncio.sleep(0)
    await store.artifact_put("sha", b"\x7fELF")
    assert await asyncio.gather(*waiting) == [b"\x7fELF"] * 8
    assert await store.artifact_get("sha") == b"\x7fELF"
    assert not await store.artifact_begin("sha", lease_s=60.0)
    assert await store.artifact_wait("sha", timeout_s=0.01) == b"\x7fELF"


async def test_an_empty_artifact_is_an_artifact(drive: Driver) -> None:
    await drive.store.artifact_begin("sha", lease_s=60.0)
    await drive.store.artifact_put("sha", b"")
    assert await drive.store.artifact_get("sha") == b""


async def test_an_abandoned_artifact_wakes_those_who_wait_and_may_be_begun_again(
    drive: Driver,
) -> None:
    store = drive.store
    await store.artifact_begin("sha", lease_s=60.0)
    waiting = asyncio.create_task(store.artifact_wait("sha", timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    await store.artifact_abandon("sha")
    assert await waiting is None
    assert await store.artifact_begin("sha", lease_s=60.0)
    await store.artifact_put("sha", b"x")
    assert await store.artifact_wait("sha", timeout_s=1.0) == b"x"


async def test_the_artifact_of_a_maker_that_died_may_be_begun_again(drive: Driver) -> None:
    store = drive.store
    await store.artifact_begin("sha", lease_s=0.02)
    assert await store.artifact_wait("sha", timeout_s=PATIENCE_S) is None
    assert await eventually(lambda: store.artifact_begin("sha", lease_s=60.0))


async def test_waiting_for_an_artifact_ends_at_the_time_out(drive: Driver) -> None:
    await drive.store.artifact_begin("sha", lease_s=60.0)
    assert await drive.store.artifact_wait("sha", timeout_s=0.02) is None


# -- the rest ------------------------------------------------------------------------------------


async def test_a_store_answers_a_ping_and_takes_a_hint(drive: Driver) -> None:
    await drive.store.put_task(TASK)
    await drive.store.hint(TENANT, TASK.task_id, 512)
    assert await drive.store.ping() >= 0.0
    assert await drive.store.round_trip() >= 0.0
