"""Pauses: one for each name, and none that waits for rollouts which another one holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from tests.rollout.service.test_service import S_MAX, prompts, take, weights_of

from assay.client.rollouts import SamplingParams
from assay.core.errors import Conflict, DeadlinePassed, FailedPrecondition, InvalidRequest
from assay.rollout.layout import PauseMode
from assay.rollout.service import pauses
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from tests.rollout.service.served import Rollouts, RunRollouts

    from assay.client.rollouts import RolloutSession

LONG = SamplingParams(temperature=0.8, max_tokens=80)


async def held_while_they_run(own: Rollouts, session: RolloutSession) -> tuple[str, int]:
    """A pause in place that holds running rollouts, and how many groups were submitted for it."""
    credits_free = own.runtime.stats().decode_available
    async with asyncio.timeout(S_MAX):
        for n in range(1, 1_000):
            await session.submit(prompts(n, k=4)[-1:])
            held = await own.client.pause()
            if own.runtime.stats().decode_available < credits_free:
                return held, n
            await own.client.resume(held)
    raise AssertionError("no rollout was ever running")


@pytest.mark.parametrize("mode", ["retract", "finish"])
async def test_what_cannot_come_while_rollouts_are_held_in_place_is_refused_by_its_field(
    run_rollouts: RunRollouts, mode: str
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=LONG)
    await own.client.push_weights(1, weights_of(1))
    held, n = await held_while_they_run(own, session)
    for refused in (own.client.pause(mode=mode), own.client.activate(1, mode=mode)):
        with pytest.raises(FailedPrecondition, match="continue it first") as found:
            await refused
        assert found.value.field == "mode"
    assert (await own.client.activate(1)).previous_version == 0  # in place it can be done
    await own.client.resume(held)
    await own.client.resume(await own.client.pause(mode=mode))
    assert len(await take(session, n)) == n


async def test_a_pause_that_is_asked_for_twice_by_its_name_is_one_pause(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=LONG)
    asked = rollout_pb2.PauseRequest(
        mode=rollout_pb2.PAUSE_MODE_FINISH, pause_id="once"
    )  # as by a caller that did not get the answer
    stub = own.client._stub
    both = await asyncio.gather(stub.Pause(asked), stub.Pause(asked))
    again = await stub.Pause(asked)
    assert {answer.pause_id for answer in (*both, again)} == {"once"}
    asked.mode = rollout_pb2.PAUSE_MODE_RETRACT
    with pytest.raises(Conflict):
        await own.client._connection.call(stub.Pause, asked)
    asked.pause_id = "not a name"
    with pytest.raises(InvalidRequest) as found:
        await own.client._connection.call(stub.Pause, asked)
    assert found.value.field == "pause_id"
    await session.submit(prompts(2))
    await own.client.resume("once")
    assert len(await take(session, 2)) == 2
    assert await own.client.pause() != await own.client.pause()


async def test_an_engine_that_is_not_held_in_time_is_the_answer_and_asked_once(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=LONG)
    held, n = await held_while_they_run(own, session)
    own.service.pauses._held[held].timer.cancel()
    unnamed = own.service.pauses._held.pop(held)  # as one of the process's own, which has no name
    monkeypatch.setattr(pauses, "HOLD_S_MAX", 0.1)
    with pytest.raises(DeadlinePassed, match="not held within"):
        await own.client.pause(mode="finish")
    unnamed.stack.close()
    assert len(await take(session, n)) == n


@pytest.mark.parametrize("mode", list(PauseMode))
async def test_a_pause_whose_caller_vanishes_before_it_holds_does_not_stay(
    run_rollouts: RunRollouts, mode: PauseMode
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=LONG)
    await session.submit(prompts(9, k=4))
    held = own.service.pauses
    callers = [asyncio.create_task(held.hold(mode)) for _ in range(4)]
    while len(held._asked) < len(callers):
        await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    async with asyncio.timeout(S_MAX):
        while held._asked:
            await asyncio.sleep(0.01)
    assert all(caller.cancelled() for caller in callers)
    assert not held._held
    assert len(await take(session, 9)) == 9
