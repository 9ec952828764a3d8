"""What every store takes in: tasks, batches and their requests, once and within quotas.

Each test runs on the store in memory and on a real Valkey.
"""

from dataclasses import replace

import pytest
from tests.store.driver import (
    FIRST,
    SECOND,
    TASK,
    TENANT,
    Driver,
    request,
    requests,
)

from assay.core.errors import Conflict, FailedPrecondition, NotFound, Saturated, TooLarge
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.records import (
    Artifact,
    BatchSpec,
    BatchState,
    NewRequest,
    Quota,
)

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


@pytest.mark.parametrize("group_stage", [None, SECOND])
async def test_a_task_takes_the_place_of_the_one_it_replaces(
    drive: Driver, group_stage: StageName | None
) -> None:
    """A batch that is opened later begins at its first stage."""
    before = replace(TASK, stages=(StageName("gone"), SECOND), group_stage=SECOND)
    await drive.store.put_task(before)
    with pytest.raises(Conflict):
        await drive.store.put_task(TASK, replaces=replace(before, batch_size=9))
    now = replace(TASK, group_stage=group_stage)
    for _ in range(2):
        assert not await drive.store.put_task(now, replaces=before)
    assert await drive.store.get_task(TENANT, TASK.task_id) == now
    drive.task = now
    await drive.open(size=2, group_size=2)
    await drive.submit([request(name, group="g") for name in "ab"])
    assert len(await drive.claim(stage=FIRST)) == 2


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


async def test_a_sealed_batch_takes_no_new_request_while_its_own_wait(drive: Driver) -> None:
    """A size does not matter here: the batch has room, and its seal alone closes it."""
    await drive.open()
    await drive.submit(requests("a"))
    assert (await drive.seal()).state is BatchState.SEALED
    with pytest.raises(FailedPrecondition):
        await drive.submit(requests("b"))
    again = await drive.submit(requests("a"))
    assert (again.accepted, again.duplicates) == (0, 1)


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
