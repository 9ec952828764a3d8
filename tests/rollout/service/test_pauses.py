"""Pauses: one for each name, and none that waits for rollouts which another one holds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest

pytest.importorskip("numpy")

from tests.rollout.chaos.remote import Relay
from tests.rollout.service.served import SHORT
from tests.rollout.service.test_service import S_MAX, prompts, take, weights_of
from tests.unheard import leave

from assay.client.rollouts import RolloutClient, SamplingParams
from assay.core.errors import Conflict, DeadlinePassed, FailedPrecondition, InvalidRequest
from assay.rollout.errors import WorkerStalled
from assay.rollout.layout import PauseMode
from assay.rollout.service import pauses
from assay.v1 import rollout_pb2, rollout_pb2_grpc

if TYPE_CHECKING:
    from tests.rollout.service.served import Rollouts, RunRollouts

    from assay.client.rollouts import RolloutSession
    from assay.rollout.interface.rollout_engine import RolloutEngine

SHORTLY_S = 0.2
SOON_S = 20.0
"""For what comes at once, on a busy machine."""
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
    timer = own.service.pauses._held[held].timer
    assert timer is None  # its client keeps it
    unnamed = own.service.pauses._held.pop(held)  # as one of the process's own, which has no name
    monkeypatch.setattr(pauses, "ENGINE_S_MAX", 0.1)
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


async def ended(own: Rollouts, pause_id: str) -> None:
    """Wait until it holds no longer."""
    async with asyncio.timeout(SOON_S):
        while pause_id in own.service.pauses._held:
            await asyncio.sleep(0.01)
    with pytest.raises(FailedPrecondition) as found:
        await own.client.resume(pause_id)
    assert found.value.field == "pause_id"


async def test_a_pause_that_no_stream_keeps_ends_after_its_time(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=LONG)
    held = await own.client.pause(hold_s=0.1)
    await session.submit(prompts(2))
    await ended(own, held)
    assert len(await take(session, 2)) == 2


async def test_each_call_for_a_pause_says_again_how_long_it_holds(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    stub, loop = own.client._stub, asyncio.get_running_loop()
    for hold_s in (60.0, 3_600.0, 60.0):
        asked = rollout_pb2.PauseRequest(pause_id="p", hold_ms=round(1000 * hold_s))
        before = loop.time()
        await stub.Pause(asked)
        timer = own.service.pauses._held["p"].timer
        assert timer is not None
        assert before + hold_s <= timer.when() <= loop.time() + hold_s
    await stub.Pause(rollout_pb2.PauseRequest(pause_id="p", hold_ms=1))
    await ended(own, "p")


@pytest.mark.parametrize("hold_ms", [-1, pauses.HOLD_MS_MAX + 1])
async def test_a_time_out_of_range_is_refused_by_its_field(
    run_rollouts: RunRollouts, hold_ms: int
) -> None:
    own = await run_rollouts()
    asked = rollout_pb2.PauseRequest(pause_id="q", hold_ms=hold_ms)
    with pytest.raises(InvalidRequest) as found:
        await own.client._connection.call(own.client._stub.Pause, asked)
    assert found.value.field == "hold_ms"
    for hold_s in (hold_ms / 1000, float("nan"), float("inf")):
        with pytest.raises(InvalidRequest):
            await own.client.pause(hold_s=hold_s)
    assert not own.service.pauses._held


async def test_a_pause_is_held_while_any_of_its_streams_is_open_and_they_end_with_it(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    stub = own.client._stub
    asked = rollout_pb2.PauseRequest(pause_id="p", hold_ms=100)
    kept = rollout_pb2.KeepPausedRequest(pause_id="p")
    await stub.Pause(asked)
    streams = [stub.KeepPaused(kept) for _ in range(2)]
    for stream in streams:
        await stream.read()
    held = own.service.pauses._held["p"]
    assert (held.keepers, held.timer) == (2, None)
    await stub.Pause(asked)
    assert held.timer is None  # a call beside the streams does not count down
    streams.pop().cancel()
    async with asyncio.timeout(S_MAX):
        while held.keepers > 1:
            await asyncio.sleep(0.01)
    assert held.timer is None
    await own.client.resume("p")
    async with asyncio.timeout(SOON_S):  # a stream of an ended pause may not stay
        assert await streams[0].read() is grpc.aio.EOF
        assert await streams[0].code() is grpc.StatusCode.OK
    with pytest.raises(grpc.aio.AioRpcError) as gone:
        await stub.KeepPaused(kept).read()
    assert gone.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    await stub.Pause(asked)
    last = stub.KeepPaused(kept)
    await last.read()
    last.cancel()
    await ended(own, "p")


BLOCKED = """
import asyncio, sys, time
from assay.client.rollouts import RolloutClient
async def main():
    async with RolloutClient(sys.argv[1]) as client:
        print(await client.pause(), flush=True)
        time.sleep(600)  # as a training step does
asyncio.run(main())
"""


async def test_a_pause_is_its_processs_also_if_that_is_busy_and_ends_when_it_is_killed(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "HOLD_S", SHORTLY_S)
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=LONG)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BLOCKED, own.address, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(S_MAX):
        held = (await process.stdout.readline()).decode().strip()
    await session.submit(prompts(2))
    await asyncio.sleep(5 * SHORTLY_S)
    assert held in own.service.pauses._held
    process.kill()
    await process.wait()
    await ended(own, held)
    assert len(await take(session, 2)) == 2


async def test_a_pause_survives_a_connection_that_is_lost(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await run_rollouts()
    relay = Relay(int(own.address.rpartition(":")[2]))
    through = (await relay.start()).removeprefix("http://")
    async with RolloutClient(through, backoff=SHORT) as client:
        pause_id = await client.pause()
        pauses = own.service.pauses
        held, keepers, count_down = pauses._held[pause_id], [], pauses._count_down

        def noted(pause_id: str, held: Any) -> None:
            keepers.append(held.keepers)
            count_down(pause_id, held)

        monkeypatch.setattr(pauses, "_count_down", noted)
        relay.reset()
        async with asyncio.timeout(S_MAX):
            while len(keepers) < 2 or held.keepers != 1:  # a stream leaves, and another comes
                await asyncio.sleep(0.01)
        assert held.timer is None
        await client.resume(pause_id)
    await relay.stop()


async def test_a_service_that_stops_ends_the_streams_of_pauses(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    pause_id = await own.client.pause()
    own.service.end_streams()
    held = own.service.pauses._held[pause_id]
    async with asyncio.timeout(S_MAX):
        while held.keepers:
            await asyncio.sleep(0.01)
    assert held.timer is not None  # it holds, so that what is sent again finds it
    await own.client.resume(pause_id)


class _Older:
    """A server that does not have `KeepPaused`, as services of earlier releases."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        for one in handlers:
            del one._method_handlers["/assay.v1.RolloutService/KeepPaused"]
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, *_: object) -> None:
        """They are found by their names."""


async def test_a_pause_on_a_service_of_an_earlier_release_holds_and_says_for_how_long(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add = rollout_pb2_grpc.add_RolloutServiceServicer_to_server
    monkeypatch.setattr(
        rollout_pb2_grpc,
        "add_RolloutServiceServicer_to_server",
        lambda servicer, server: add(servicer, cast("grpc.Server", _Older(server))),
    )
    own = await run_rollouts()
    held = await own.client.pause()
    assert f"pause {held} ends after ten minutes" in caplog.text
    await own.client.resume(held)
    with pytest.raises(FailedPrecondition):  # it held until here
        await own.client.resume(held)


class Stalled:
    """An engine that is not held in time."""

    def pause(self, wait_s: float, *, mode: PauseMode) -> None:
        raise WorkerStalled(f"{mode}: no token in {wait_s} s")


async def test_a_pause_that_fails_when_its_caller_has_left_writes_no_error_to_the_log() -> None:
    held = pauses.Pauses(cast("RolloutEngine", Stalled()), lambda: "id")
    await leave(held.hold(PauseMode.FINISH))
    async with asyncio.timeout(SOON_S):
        with pytest.raises(FailedPrecondition):
            await anext(held.keep("id"))
