"""A group of which a member never comes, is cancelled, comes twice or is refused: who is judged,
when, and with whom. Service, store and worker host are real; no one waits forever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.running import worker_process

from assay.client import Client, Outcome, Request
from assay.core.errors import Conflict, FailedPrecondition, InvalidRequest
from assay.core.ids import StageName

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import RunApi

    from assay.client import Batch, Scores, Task
    from assay.config.settings import StoreSettings
    from assay.store.port import Store

WAIT_S = 60.0
STAGES = tuple(map(StageName, ("math.measure", "relative.length")))
OVERDUE_S = 1.0
RIGHT, LONG = "\\boxed{2}", 20 * "so " + "\\boxed{2}"
BOTH = {"a": 1.25, "b": 0.75}
"""Rewards of a right short and a right long response, with any other member missing."""


@pytest.fixture
def store_settings(store_settings: StoreSettings) -> StoreSettings:
    """Batches that are not closed by their trainer end soon after their deadline."""
    return store_settings.model_copy(update={"batch_overdue_s": OVERDUE_S})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """A client with its task, and the store behind the service."""

    client: Client
    task: Task
    store: Store

    async def open(self, **fields: Any) -> Batch:
        return await self.client.open_batch(self.task, **fields)

    async def until_waiting(self, batch: Batch, count: int) -> None:
        """Until so many have passed the first stage and wait for their group."""
        async with asyncio.timeout(WAIT_S):
            while (await batch.status()).queued != count or any(
                depth.queued or depth.running for depth in await self.store.depths(STAGES)
            ):
                await asyncio.sleep(0.01)


def _member(name: str, response: str = RIGHT, group: str = "g") -> Request:
    return Request(request_id=name, group_id=group, response=response, reference={"answers": ["2"]})


PAIR = [_member("a"), _member("b", LONG)]


def _rewards(scores: Scores) -> dict[str, float | None]:
    return {result.request_id: result.reward for result in scores.results}


def _outcomes(scores: Scores) -> dict[str, str]:
    return {result.request_id: result.outcome.value for result in scores.results}


async def _until_ended(batch: Batch, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while (await batch.status()).ended < count:
            await asyncio.sleep(0.01)


async def _collected(batch: Batch) -> Scores:
    async with asyncio.timeout(WAIT_S):
        return await batch.collect()


async def _one_that_never_comes_is_not_waited_for_once_the_batch_is_sealed(drive: Drive) -> None:
    batch = await drive.open(group_size=3)
    await batch.submit(PAIR)
    await drive.until_waiting(batch, 2)
    assert not (await batch.status()).ended, "the third may still come"
    await batch.seal()
    scores = await _collected(batch)
    assert _rewards(scores) == BOTH
    [summary] = scores.groups
    assert summary.group_id == "g"


async def _of_a_batch_that_no_one_seals_all_expire_and_none_has_a_reward(drive: Drive) -> None:
    """Some seconds after its deadline, by the setting; a member that comes later is refused."""
    batch = await drive.open(group_size=3, deadline_s=0.5)
    await batch.submit(PAIR)
    scores = await _collected(batch)
    assert _rewards(scores) == {"a": None, "b": None}
    assert set(_outcomes(scores).values()) == {Outcome.EXPIRED.value}
    with pytest.raises(FailedPrecondition):
        await batch.submit([_member("c")])


async def _a_cancelled_member_leaves_the_others_their_group(drive: Drive) -> None:
    """Before it is measured or while it waits; what has a verdict is not taken back."""
    batch = await drive.open(group_size=3)
    await batch.submit([*PAIR, _member("c", group="h"), _member("d", group="h")])
    await drive.until_waiting(batch, 4)
    assert await batch.cancel_requests(["c"]) == 1
    await batch.submit([_member("e"), _member("f", group="h")])
    await _until_ended(batch, 6)  # both groups have their three: no seal is needed
    assert await batch.cancel_requests(["a"]) == 0
    assert await batch.cancel_requests(group_ids=["g", "h", "unknown"]) == 0
    await batch.seal()
    scores = await _collected(batch)
    rewards = _rewards(scores)
    assert rewards.pop("c") is None
    assert _outcomes(scores).pop("c") == Outcome.CANCELLED.value
    assert rewards == {"a": 1.25, "e": 1.25, "b": 0.75, "d": 1.0, "f": 1.0}


async def _a_member_that_is_cancelled_before_it_came_may_still_come(
    drive: Drive,
) -> None:
    batch = await drive.open(group_size=2)
    await batch.submit(PAIR[:1])
    assert await batch.cancel_requests(["b"]) == 0
    await batch.submit(PAIR[1:])
    await _until_ended(batch, 2)
    await batch.seal()
    assert _rewards(await _collected(batch)) == BOTH


async def _a_group_that_is_cancelled_ends_and_takes_no_further_member(drive: Drive) -> None:
    """A member that comes afterwards finds no one to be compared with, and does not wait."""
    batch = await drive.open(group_size=3)
    await batch.submit(PAIR)
    assert await batch.cancel_requests(group_ids=["g"]) == 2
    await batch.submit([_member("c")])
    await _until_ended(batch, 3)
    await batch.seal()
    assert _rewards(await _collected(batch)) == {"a": None, "b": None, "c": 1.0}


async def _a_member_that_comes_twice_is_one(drive: Drive) -> None:
    batch = await drive.open(group_size=2)
    await batch.submit(PAIR[:1])
    again = await batch.submit(PAIR[:1])
    assert (again.accepted, again.duplicates) == (0, 1)
    with pytest.raises(Conflict):
        await batch.submit([_member("a", LONG)])
    with pytest.raises(Conflict):
        await batch.submit([_member("a", group="other")])
    await drive.until_waiting(batch, 1)
    await batch.submit([PAIR[0], PAIR[1]])
    await _until_ended(batch, 2)
    assert (await batch.submit(PAIR)).duplicates == 2, "also after its verdict"
    await batch.seal()
    assert _rewards(await _collected(batch)) == BOTH


async def _a_group_of_one_is_judged_by_itself_and_at_once(drive: Drive) -> None:
    batch = await drive.open(group_size=1)
    await batch.submit([_member("a", group="g"), _member("b", LONG, group="h")])
    await _until_ended(batch, 2)
    with pytest.raises(FailedPrecondition) as caught:
        await batch.submit([_member("c", group="g")])
    assert caught.value.field == "requests[0].group_id"
    await batch.seal()
    scores = await _collected(batch)
    assert _rewards(scores) == {"a": 1.0, "b": 1.0}
    assert {one.group_id: one.mean for one in scores.groups} == {"g": 1.0, "h": 1.0}


async def _a_member_that_is_refused_takes_no_place_in_its_group(drive: Drive) -> None:
    """Its whole message is refused, so that it may be sent again without it or with it mended."""
    batch = await drive.open(group_size=3)
    bad = Request(request_id="c", group_id="g", response=RIGHT, reference={"answers": []})
    for message, field in (
        ([*PAIR, bad], "requests[2].reference.answers"),
        ([PAIR[0], _member("x", group="")], "requests[1].group_id"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            await batch.submit(message)
        assert caught.value.field == field
    assert (await batch.status()).submitted == 0
    await batch.submit(PAIR)
    with pytest.raises(InvalidRequest):
        await batch.submit([bad])
    await drive.until_waiting(batch, 2)
    assert not (await batch.status()).ended
    await batch.submit([_member("c")])
    await _until_ended(batch, 3)
    await batch.seal()
    assert _rewards(await _collected(batch)) == {"a": 1.25, "c": 1.25, "b": 0.75}


async def test_no_one_waits_for_a_member_that_does_not_come(
    run_api: RunApi, store_settings: StoreSettings, store: Store, tmp_path: Path
) -> None:
    """One service and one worker for all cases: a worker takes seconds to start."""
    api = await run_api(deadline_min_s=0.0)
    async with (
        worker_process(store_settings, tmp_path, *STAGES),
        Client(api.addresses.grpc) as client,
    ):
        task = await client.register_task("concise", pipeline="math.concise")
        drive = Drive(client=client, task=task, store=store)
        for case in (
            _one_that_never_comes_is_not_waited_for_once_the_batch_is_sealed,
            _of_a_batch_that_no_one_seals_all_expire_and_none_has_a_reward,
            _a_cancelled_member_leaves_the_others_their_group,
            _a_member_that_is_cancelled_before_it_came_may_still_come,
            _a_group_that_is_cancelled_ends_and_takes_no_further_member,
            _a_member_that_comes_twice_is_one,
            _a_group_of_one_is_judged_by_itself_and_at_once,
            _a_member_that_is_refused_takes_no_place_in_its_group,
        ):
            await case(drive)
