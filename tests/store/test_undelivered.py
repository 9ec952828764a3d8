"""Claims whose answers were lost: they go back without an attempt, and nothing else does."""

from collections.abc import Sequence

import pytest
from tests.store.driver import (
    FIRST,
    SECOND,
    TENANT,
    WORKER,
    Driver,
    MakeStore,
    eventually,
    requests,
)

from assay.core.ids import BatchId, StageName, WorkerId
from assay.core.records import Claim, FinishStatus
from assay.core.store_limits import ANSWERS_NOTED
from assay.store.link import SLICE

STALE, DONE = FinishStatus.STALE, FinishStatus.DONE
SHORT_S = 0.05


async def given_back(
    drive: Driver,
    held: Sequence[Claim] = (),
    *,
    stage: StageName = FIRST,
    worker: WorkerId = WORKER,
) -> int:
    leases = [one.lease for one in held]
    return await drive.store.give_back_undelivered(stage, worker=worker, leases=leases)


async def test_what_was_leased_and_not_delivered_goes_back_to_its_place_without_an_attempt(
    drive: Driver,
) -> None:
    await drive.open()
    await drive.submit(requests(*"abcdef"))
    held = await drive.claim(2)
    lost = await drive.claim(3)
    assert await given_back(drive, held) == 3
    batch = await drive.batch()
    assert (batch.queued, batch.running) == (4, 2)
    assert set((await drive.score(lost)).statuses) == {STALE}
    again = await drive.claim()
    assert [(one.request_id, one.attempt) for one in again] == [(name, 1) for name in "cdef"]
    assert set((await drive.score([*held, *again])).statuses) == {DONE}
    results = await drive.results()
    assert {timing.attempts for one in results for timing in one.stages} <= {1}


async def test_nothing_goes_back_that_is_held_was_reported_or_is_anothers(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests(*"abcd"))
    held, ended = await drive.claim(1), await drive.claim(1)
    other = WorkerId("host/2")
    theirs = await drive.store.claim(FIRST, claims_max=1, lease_s=600.0, worker=other)
    await drive.score(ended)
    assert await given_back(drive, held) == 0
    assert await given_back(drive, held, stage=SECOND) == 0
    assert await given_back(drive, worker=WorkerId("host/3")) == 0
    batch = await drive.batch()
    assert (batch.queued, batch.running) == (1, 2)
    assert set((await drive.score([*held, *theirs])).statuses) == {DONE}


async def test_a_lease_that_has_run_out_is_a_failed_attempt_after_all(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    await drive.claim(lease_s=SHORT_S)

    async def has_run_out() -> bool:
        return (await drive.reap()).redelivered == 1

    await eventually(has_run_out)
    assert await given_back(drive) == 0
    (again,) = await drive.claim()
    assert again.attempt == 2


async def test_a_request_that_was_leased_again_to_the_same_worker_is_known_by_its_fence(
    drive: Driver,
) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    first = await drive.claim()
    await drive.give_back(first)
    await drive.claim()
    assert await given_back(drive, first) == 1, "the second answer was lost"
    assert (await drive.batch()).queued == 1


@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_worker_may_name_the_lost_lease_of_a_request_beside_its_new_one(
    drive: Driver, *, newest_first: bool
) -> None:
    await drive.open()
    await drive.submit(requests("a"))
    lost = await drive.claim()
    await drive.give_back(lost)
    held = await drive.claim()
    named = [*held, *lost] if newest_first else [*lost, *held]
    assert await given_back(drive, named) == 0
    assert set((await drive.score(held)).statuses) == {DONE}


async def test_more_than_one_call_moves_all_go_back(make_store: MakeStore) -> None:
    drive = Driver(make_store())
    await drive.open()
    names = [f"r{number:03d}" for number in range(2 * SLICE + 3)]
    await drive.submit(requests(*names))
    assert len(await drive.claim(2 * SLICE + 3)) == 2 * SLICE + 3
    assert await given_back(drive) == 2 * SLICE + 3
    assert [one.attempt for one in await drive.claim(2 * SLICE + 3)] == [1] * (2 * SLICE + 3)


async def test_so_many_answers_are_remembered_and_no_more(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests(*(f"r{number}" for number in range(ANSWERS_NOTED + 2))))
    for _ in range(ANSWERS_NOTED + 2):
        await drive.claim(1)
    assert await given_back(drive) == ANSWERS_NOTED
    assert (await drive.batch()).running == 2


async def test_a_request_that_was_cancelled_meanwhile_stays_ended(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests(*"ab"))
    await drive.claim()
    await drive.store.cancel(TENANT, BatchId("step-1"))
    assert await given_back(drive) == 0
    assert not await drive.claim()


@pytest.mark.parametrize("lease_s", [SHORT_S])
async def test_what_is_remembered_of_answers_ends_with_their_leases(
    valkey_drive: Driver, lease_s: float
) -> None:
    await valkey_drive.open()
    await valkey_drive.submit(requests("a"))
    await valkey_drive.claim(lease_s=lease_s)
    link = valkey_drive.store._link  # type: ignore[attr-defined]

    async def is_forgotten() -> bool:
        return not await link.call("EXISTS", link.key("lc", FIRST, WORKER))

    await eventually(is_forgotten)
