"""How requests end on every store: groups, cancelled and overdue ones, dead letters.

Each test runs on the store in memory and on a real Valkey. Instants are each store's own, so
nothing here compares them with the test's clock; where time must pass, the test waits for what it
brings about.
"""

import pytest
from tests.store.driver import (
    FIRST,
    SECOND,
    Driver,
    MakeStore,
    reaped,
    request,
    requests,
)

from assay.core.advantages import zero_shift_micro
from assay.core.errors import FailedPrecondition, NotFound
from assay.core.ids import GroupId, JobId
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchState,
    EndRequest,
    FinishStatus,
    GroupRecord,
    Quota,
)

DONE, STALE = FinishStatus.DONE, FinishStatus.STALE


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
