"""A stage that judges whole groups, on every store: when a group is served, and how it ends."""

import dataclasses
from collections.abc import Sequence

import pytest
from tests.store.driver import FIRST, SECOND, TASK, TENANT, Driver, eventually, request

from assay.core.errors import FailedPrecondition, InvalidRequest
from assay.core.ids import GroupId
from assay.core.outcome import Outcome
from assay.core.records import (
    Artifact,
    Claim,
    EndRequest,
    FailAttempt,
    FinishGroup,
    GroupRecord,
    HandOver,
    NewRequest,
    ResultRecord,
)
from assay.core.store_limits import GROUP_JUDGED_MAX
from assay.store.valkey import ValkeyStore
from assay.testing.queue_groups import JUDGED_WITHOUT

RIGHT = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
TO_GROUPS = HandOver(next_stage=SECOND, handover=b"measured", gathers=True)


@pytest.fixture
async def grouped(drive: Driver) -> Driver:
    """The second stage of the task judges whole groups."""
    task = dataclasses.replace(TASK, group_stage=SECOND)
    await drive.store.put_task(task)
    drive.task = task
    return drive


def group(name: str, *requests: str) -> list[NewRequest]:
    return [request(one, group=name) for one in requests]


def named(claim: Claim) -> list[str]:
    return [str(member.request_id) for member in claim.members]


def verdicts(claim: Claim, *rewards: float) -> FinishGroup:
    pairs = zip(claim.members, rewards, strict=True)
    return FinishGroup(
        members=tuple(
            (member.job_id, EndRequest(outcome=Outcome.SCORED, reward=reward, body=b""))
            for member, reward in pairs
        )
    )


async def pass_on(drive: Driver, count: int = 100) -> Sequence[Claim]:
    """Requests of the first stage reach the second."""
    claims = await drive.claim(count)
    await drive.finish(claims, TO_GROUPS)
    return claims


async def of(drive: Driver, name: str) -> ResultRecord:
    [found] = [result for result in await drive.results() if result.request_id == name]
    return found


async def test_a_group_is_served_when_its_last_member_has_arrived(grouped: Driver) -> None:
    await grouped.open(group_size=3)
    await grouped.submit(group("g", "a", "b"))
    await pass_on(grouped)
    assert not await grouped.claim(stage=SECOND)  # one can still be submitted
    await grouped.submit(group("g", "c"))
    assert not await grouped.claim(stage=SECOND)  # it is still at the first stage
    await pass_on(grouped)
    [claim] = await grouped.claim(stage=SECOND)
    assert (named(claim), claim.group_id, claim.submitted) == (["a", "b", "c"], "g", 3)
    assert {member.handover for member in claim.members} == {b"measured"}
    assert (await grouped.batch()).running == 3
    assert not await grouped.claim(stage=SECOND)


@pytest.mark.parametrize("size", [3, 100_000])
async def test_each_member_comes_with_its_transcript_and_its_files(
    grouped: Driver, size: int
) -> None:
    said, file = b"[" * size, Artifact("out/a.bin", b"\xff" * size)
    with_transcript = request("a", group="g", messages=said)
    with_file = request("b", group="g", messages=b"[]", artifacts=(file,))
    await grouped.open(group_size=2)
    await grouped.submit([with_transcript, with_file])
    await pass_on(grouped)
    [claim] = await grouped.claim(stage=SECOND)
    assert [(one.request_id, one.messages, one.artifacts) for one in claim.members] == [
        (one.request_id, one.messages, one.artifacts) for one in (with_transcript, with_file)
    ]


async def test_each_member_has_its_own_verdict_and_the_stage_its_own_timing(
    grouped: Driver,
) -> None:
    await grouped.open(size=2, group_size=2)
    await grouped.submit(group("g", "a", "b"))
    await pass_on(grouped)
    [claim] = await grouped.claim(stage=SECOND)
    finished = await grouped.finish([claim], verdicts(claim, 0.25, 0.75))
    assert len(finished.completed) == 1
    rewards = {result.request_id: result.reward for result in await grouped.results()}
    assert rewards == {"a": 0.25, "b": 0.75}
    one = await of(grouped, "a")
    assert [timing.stage for timing in one.stages] == [FIRST, SECOND]
    assert one.attempts == 2
    assert await grouped.groups() == [
        GroupRecord(group_id=GroupId("g"), rewards=(0.25, 0.75)),
    ]


async def test_members_that_ended_otherwise_are_not_waited_for(grouped: Driver) -> None:
    await grouped.open(group_size=4)
    await grouped.submit(group("g", "a", "b", "c", "d"))
    claims = await grouped.claim(3)
    await grouped.finish(claims[:1], RIGHT)
    await grouped.fail(claims[1:2], attempts_max=1)
    await grouped.finish(claims[2:], TO_GROUPS)
    assert not await grouped.claim(stage=SECOND)
    await grouped.cancel_requests(["d"])
    [claim] = await grouped.claim(stage=SECOND)
    assert (named(claim), claim.submitted) == (["c"], 4)


async def test_a_sealed_batch_serves_groups_as_they_are(grouped: Driver) -> None:
    await grouped.open()
    await grouped.submit(group("g", "a", "b") + group("h", "c"))
    await pass_on(grouped, 2)
    await grouped.seal()
    [claim] = await grouped.claim(stage=SECOND)
    assert named(claim) == ["a", "b"]
    await pass_on(grouped)
    [claim] = await grouped.claim(stage=SECOND)
    assert named(claim) == ["c"]


async def test_late_members_are_refused_and_name_their_field(grouped: Driver) -> None:
    await grouped.open(group_size=1)
    await grouped.submit(group("g", "a"))
    with pytest.raises(FailedPrecondition) as caught:
        await grouped.submit(group("g", "b"))
    assert caught.value.field == "requests[0].group_id"
    with pytest.raises(InvalidRequest) as without:
        await grouped.submit([*group("h", "c"), request("d")])
    assert without.value.field == "requests[1].group_id"
    assert (await grouped.batch()).submitted == 1


async def test_a_group_of_unknown_size_is_bounded_too(grouped: Driver) -> None:
    await grouped.open()
    names = [f"r{number}" for number in range(GROUP_JUDGED_MAX)]
    await grouped.submit(group("g", *names))
    with pytest.raises(FailedPrecondition) as caught:
        await grouped.submit(group("g", "one-more"))
    assert caught.value.field == "requests[0].group_id"


async def test_a_lost_lease_gives_the_whole_group_to_another(grouped: Driver) -> None:
    await grouped.open(group_size=2)
    await grouped.submit(group("g", "a", "b"))
    await pass_on(grouped)
    [lost] = await grouped.claim(stage=SECOND, lease_s=0.001)

    async def redelivered() -> bool:
        return (await grouped.reap(stage=SECOND)).redelivered == 1

    await eventually(redelivered)
    batch = await grouped.batch()
    assert (batch.queued, batch.running) == (2, 0)
    [again] = await grouped.claim(stage=SECOND)
    assert (named(again), again.attempt) == (["a", "b"], 2)
    stale = await grouped.finish([lost], verdicts(lost, 9.0, 9.0))
    assert [status.value for status in stale.statuses] == ["STALE"]
    await grouped.finish([again], verdicts(again, 1.0, 0.0))
    assert (await of(grouped, "a")).reward == 1.0


async def test_a_group_that_cannot_be_judged_gets_no_rewards_and_one_dead_letter(
    grouped: Driver,
) -> None:
    await grouped.open(group_size=2)
    await grouped.submit(group("g", "a", "b"))
    await pass_on(grouped)
    [claim] = await grouped.claim(stage=SECOND)
    await grouped.fail([claim], attempts_max=1)
    assert [result.reward for result in await grouped.results()] == [None, None]
    [letter] = await grouped.store.dead_letters(letters_max=9)
    assert (letter.request_id, letter.group_id) == ("", "g")

    assert await grouped.store.replay(letter.job_id)
    batch = await grouped.batch()
    assert (batch.ended, batch.queued) == (0, 2)
    [claim] = await grouped.claim(stage=SECOND)
    await grouped.finish([claim], verdicts(claim, 1.0, 0.5))
    assert (await grouped.groups())[-1].rewards == (1.0, 0.5)


async def test_a_member_that_fails_alone_leaves_the_group_without_a_reward(
    grouped: Driver,
) -> None:
    await grouped.open(size=3, group_size=3)
    await grouped.submit(group("g", "a", "b", "c"))
    await pass_on(grouped)
    [claim] = await grouped.claim(stage=SECOND)
    first, second, _ = claim.members
    said = ((first.job_id, RIGHT), (second.job_id, FailAttempt(error="no judge")))
    await grouped.finish([claim], FinishGroup(members=said))  # the third is not named
    found = {result.request_id: (result.reward, result.error) for result in await grouped.results()}
    assert found == {"a": (1.0, ""), "b": (None, "no judge"), "c": (None, JUDGED_WITHOUT)}
    assert (await grouped.batch()).outcomes == {Outcome.SCORED: 1, Outcome.INFRA_FAILED: 2}


async def test_members_continue_one_by_one_after_their_group(drive: Driver) -> None:
    drive.task = dataclasses.replace(TASK, group_stage=FIRST)
    await drive.store.put_task(drive.task)
    await drive.open(size=2, group_size=2)
    await drive.submit(group("g", "a"))
    assert not await drive.claim()
    await drive.submit(group("g", "b"))
    [claim] = await drive.claim()
    on = HandOver(next_stage=SECOND, handover=b"ranked")
    await drive.finish(
        [claim], FinishGroup(members=tuple((one.job_id, on) for one in claim.members))
    )
    singles = await drive.claim(stage=SECOND)
    assert [(one.request_id, one.handover) for one in singles] == [
        ("a", b"ranked"),
        ("b", b"ranked"),
    ]
    await drive.score(singles)
    assert (await drive.batch()).outcomes == {Outcome.SCORED: 2}


async def test_cancelled_members_leave_a_group_that_waits_or_runs(grouped: Driver) -> None:
    await grouped.open(group_size=3)
    await grouped.submit(group("g", "a", "b", "c"))
    await pass_on(grouped)
    await grouped.cancel_requests(["a"])
    [claim] = await grouped.claim(stage=SECOND)
    assert named(claim) == ["b", "c"]
    await grouped.cancel_requests(["b"])
    batch = await grouped.batch()
    assert (batch.running, batch.ended) == (1, 2)
    await grouped.finish([claim], verdicts(claim, 0.0, 1.0))
    assert (await of(grouped, "b")).outcome is Outcome.CANCELLED
    assert (await of(grouped, "c")).reward == 1.0


async def test_a_group_whose_members_are_all_cancelled_is_served_to_no_one(
    grouped: Driver,
) -> None:
    await grouped.open(group_size=2)
    await grouped.submit(group("g", "a", "b") + group("h", "c", "d"))
    await pass_on(grouped)
    [held] = await grouped.claim(1, stage=SECOND)
    await grouped.cancel_requests(groups=["g", "h"])
    assert not await grouped.claim(stage=SECOND)
    stale = await grouped.finish([held], verdicts(held, 1.0, 1.0))
    assert [status.value for status in stale.statuses] == ["STALE"]
    assert (await grouped.batch()).outcomes == {Outcome.CANCELLED: 4}


async def test_a_replayed_member_is_not_judged_after_its_group(grouped: Driver) -> None:
    """Compared with no one it would get a reward that means nothing."""
    await grouped.open(group_size=2)
    await grouped.submit(group("g", "a", "b"))
    first, second = await grouped.claim()
    await grouped.fail([first], attempts_max=1)
    [letter] = await grouped.store.dead_letters(letters_max=9)
    await grouped.finish([second], TO_GROUPS)
    [claim] = await grouped.claim(stage=SECOND)
    assert await grouped.store.replay(letter.job_id)
    await pass_on(grouped)  # it arrives while the others are judged
    assert (await grouped.results())[-1].error == JUDGED_WITHOUT
    await grouped.finish([claim], verdicts(claim, 1.0))
    assert not await grouped.claim(stage=SECOND)
    assert (await grouped.batch()).outcomes == {Outcome.SCORED: 1, Outcome.INFRA_FAILED: 1}


async def test_a_cancelled_batch_ends_its_groups(grouped: Driver) -> None:
    await grouped.open(group_size=2)
    await grouped.submit(group("g", "a", "b") + group("h", "c"))
    await pass_on(grouped)
    await grouped.store.cancel(TENANT, (await grouped.batch()).batch_id)
    assert (await grouped.batch()).outcomes == {Outcome.CANCELLED: 3}
    assert not await grouped.claim(stage=SECOND)


async def test_nothing_of_a_judged_group_stays_on_the_server(valkey_drive: Driver) -> None:
    drive = valkey_drive
    drive.task = dataclasses.replace(TASK, group_stage=SECOND)
    await drive.store.put_task(drive.task)
    await drive.open(size=4, group_size=2)
    await drive.submit(group("g", "a", "b") + group("h", "c", "d"))
    await pass_on(drive)
    [g, _] = await drive.claim(stage=SECOND)
    await drive.finish([g], verdicts(g, 1.0, 0.0))
    await drive.cancel_requests(groups=["h"])
    assert isinstance(drive.store, ValkeyStore)
    link = drive.store._link
    keys = await link.call("KEYS", link.prefix + "*")
    kinds = {key.decode().removeprefix(link.prefix).split(":")[0] for key in keys}
    assert kinds.isdisjoint({"j", "p", "o", "gm", "gn", "gw", "live", "quota"})
