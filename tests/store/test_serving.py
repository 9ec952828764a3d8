"""What every store hands out: the order of requests, their leases, and reports on them.

Each test runs on the store in memory and on a real Valkey. Instants are each store's own, so
nothing here compares them with the test's clock; where time must pass, the test waits for what it
brings about.
"""

import asyncio
import math

import pytest
from tests.store.driver import (
    FIRST,
    SECOND,
    SHORT_S,
    TENANT,
    WORKER,
    Driver,
    MakeStore,
    reaped,
    request,
    requests,
)

from assay.core.ids import BatchId
from assay.core.ordering import order_key
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchState,
    EndRequest,
    FinishStatus,
    GroupRecord,
    ResultRecord,
)

DONE, STALE = FinishStatus.DONE, FinishStatus.STALE


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
    async with asyncio.timeout(10.0):
        while not await drive.store.beat(FIRST, lease_s=600.0, leases=[held.lease]):
            await asyncio.sleep(0.02)
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
