"""Batches that are opened with all their requests: both or neither, in memory and on a real Valkey.

The reference is the two calls one after the other: what is allowed, stored and counted is the same.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.store.driver import (
    FIRST,
    TASK,
    TENANT,
    WORKER,
    Driver,
    MakeStore,
    request,
    requests,
)

from assay.core.errors import (
    AssayError,
    Conflict,
    FailedPrecondition,
    NotFound,
    Saturated,
    TooLarge,
)
from assay.core.ids import BatchId, TaskId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    BatchState,
    EndRequest,
    GroupRecord,
    LogEntry,
    NewRequest,
    Quota,
    ResultRecord,
)

OTHER = replace(TASK, task_id=TaskId("other"))
SPEC = BatchSpec(
    tenant=TENANT,
    batch_id=BatchId("b"),
    task_id=TASK.task_id,
    size=2,
    group_size=2,
    deadline_after_ms=600_000,
    requests_reserved=2,
    bytes_reserved=8,
)
TWO = [request("one", group="g"), request("two", group="g")]


async def left_nothing(drive: Driver) -> None:
    """No batch is there, nothing waits, and the whole quota is free."""
    with pytest.raises(NotFound):
        await drive.batch("b")
    assert not await drive.store.batches(batches_max=9)
    assert not await drive.claim()
    whole = Quota(batches_open_max=1, requests_open_max=2, bytes_open_max=8)
    await drive.store.put_task(TASK)
    await drive.store.open_filled(SPEC, TWO, whole)


async def test_a_filled_batch_is_sealed_queued_and_scored_like_any(drive: Driver) -> None:
    await drive.store.put_task(TASK)
    submitted = await drive.store.open_filled(SPEC, TWO, Quota())
    assert (submitted.accepted, submitted.duplicates, submitted.sealed) == (2, 0, True)
    batch = await drive.batch("b")
    assert (batch.state, batch.submitted, batch.queued) == (BatchState.SEALED, 2, 2)
    assert batch.deadline_ns - batch.opened_ns == 600_000 * 10**6
    claims = await drive.claim()
    assert [one.request_id for one in claims] == ["one", "two"]
    await drive.finish(claims, EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b""))
    assert (await drive.batch("b")).state is BatchState.COMPLETE
    entries = await drive.store.results(TENANT, BatchId("b"), cursor=0, entries_max=9)
    assert len(entries) == 3, "two results and their group"


@pytest.mark.parametrize("seed", range(6))
async def test_a_filled_batch_is_over_with_the_last_result_of_its_log(
    drive: Driver, seed: int
) -> None:
    """What `Score` relies on: when the log has each result, it has each group too."""
    randomness = random.Random(seed)
    groups = [randomness.choice(["", "g", "h"]) for _ in range(7)]
    rows = [request(f"r{n}", group=group) for n, group in enumerate(groups)]
    await drive.store.put_task(TASK)
    spec = replace(SPEC, size=7, group_size=0, requests_reserved=7, bytes_reserved=99)
    await drive.store.open_filled(spec, rows, Quota())
    claims = list(await drive.claim())
    randomness.shuffle(claims)
    found: list[LogEntry] = []
    while claims:
        some = [claims.pop() for _ in range(min(len(claims), randomness.randint(1, 3)))]
        await drive.finish(some, EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b""))
        found += await drive.store.results(TENANT, BatchId("b"), cursor=len(found), entries_max=99)
        results = [one for one in found if isinstance(one, ResultRecord)]
        whole = len(results) == len(rows)
        assert (await drive.batch("b")).over == whole
        if whole:
            told = {one.group_id for one in found if isinstance(one, GroupRecord)}
            assert told == set(groups) - {""}


async def test_the_task_comes_with_its_filled_batch(drive: Driver) -> None:
    spec = replace(SPEC, task_id=OTHER.task_id)
    with pytest.raises(NotFound):
        await drive.store.open_filled(spec, TWO, Quota())
    await drive.store.open_filled(spec, TWO, Quota(), implicit=OTHER)
    assert await drive.store.get_task(TENANT, OTHER.task_id) == OTHER


@pytest.mark.parametrize(
    ("quota", "refusal"),
    [
        (Quota(batches_open_max=0), Saturated),
        (Quota(requests_open_max=1), TooLarge),
        (Quota(bytes_open_max=7), TooLarge),
        (Quota(tasks_max=0), Saturated),
        (Quota(batches_open_max=0, bytes_open_max=7), TooLarge),
    ],
)
async def test_over_a_quota_neither_task_batch_nor_request_is_there(
    drive: Driver, quota: Quota, refusal: type[AssayError]
) -> None:
    """What no waiting can help is said first."""
    spec = replace(SPEC, task_id=OTHER.task_id)
    with pytest.raises(refusal):
        await drive.store.open_filled(spec, TWO, quota, implicit=OTHER)
    with pytest.raises(NotFound):
        await drive.store.get_task(TENANT, OTHER.task_id)
    await left_nothing(drive)


@pytest.mark.parametrize(
    ("spec", "new", "refusal", "field"),
    [
        (replace(SPEC, size=1), TWO, FailedPrecondition, None),
        (replace(SPEC, group_size=1), TWO, FailedPrecondition, "requests[1].group_id"),
        (
            SPEC,
            [TWO[0], request("one", group="g", response=b"x")],
            Conflict,
            "requests[1].request_id",
        ),
        (replace(SPEC, requests_reserved=0), TWO, TooLarge, "message"),
        (replace(SPEC, requests_reserved=1), TWO, Saturated, None),
        (replace(SPEC, bytes_reserved=0), TWO, TooLarge, "message"),
        (replace(SPEC, bytes_reserved=7), TWO, Saturated, None),
    ],
)
async def test_refused_requests_leave_no_batch_and_no_task(
    drive: Driver,
    spec: BatchSpec,
    new: Sequence[NewRequest],
    refusal: type[AssayError],
    field: str | None,
) -> None:
    """The quota is too small for the requests where the batch reserves less than these need."""
    spec = replace(spec, task_id=OTHER.task_id)
    tight = Quota(
        requests_open_max=2 if spec.requests_reserved == 2 else 1,
        bytes_open_max=8 if spec.bytes_reserved == 8 else 7,
    )
    with pytest.raises(refusal) as caught:
        await drive.store.open_filled(spec, new, tight, implicit=OTHER)
    if field is not None:
        assert caught.value.field == field
    with pytest.raises(NotFound):
        await drive.store.get_task(TENANT, OTHER.task_id)
    await left_nothing(drive)


async def test_into_a_batch_that_is_there_requests_go_as_by_submit(drive: Driver) -> None:
    await drive.store.put_task(TASK)
    spec = replace(SPEC, size=4)
    await drive.store.open_filled(spec, TWO, Quota())
    again = await drive.store.open_filled(spec, TWO, Quota())
    assert (again.accepted, again.duplicates, again.sealed) == (0, 2, False)
    more = await drive.store.open_filled(spec, requests("three"), Quota())
    assert (more.accepted, more.sealed) == (1, False)
    with pytest.raises(Conflict):
        await drive.store.open_filled(replace(spec, size=3), TWO, Quota())
    assert (await drive.batch("b")).submitted == 3


async def test_a_part_that_the_server_no_longer_keeps_is_sent_again(
    make_store: MakeStore,
) -> None:
    store = make_store(inline_bytes_max=64)
    drive = Driver(store)
    await store.put_task(TASK)
    long = request("long", response=b"r" * 1_000)
    one = replace(SPEC, size=1, group_size=0, requests_reserved=1, bytes_reserved=1_002)
    for name in ("b", "c"):  # the second time this process has uploaded it, and it is gone
        await store.open_filled(replace(one, batch_id=BatchId(name)), [long], Quota())
        [claim] = await store.claim(FIRST, claims_max=1, lease_s=60, worker=WORKER)
        assert claim.response == b"r" * 1_000
        await drive.score([claim])


@pytest.mark.parametrize("names", list(itertools.product("ab", repeat=3)))
async def test_names_that_repeat_are_counted_once(drive: Driver, names: tuple[str, ...]) -> None:
    await drive.store.put_task(TASK)
    spec = replace(SPEC, size=0, requests_reserved=3, bytes_reserved=12)
    submitted = await drive.store.open_filled(spec, requests(*names), Quota())
    assert submitted.accepted == len(set(names))
    assert submitted.duplicates == 3 - len(set(names))
    assert (await drive.batch("b")).queued == len(set(names))
