"""Attacks on every call of the service, beside a session whose groups have to stay what they are.

After each attack: every error is typed and names a field, what the other tenant's session generates
is bit for bit what it was, and nothing of the attacker is left: no rollout, slot, credit, block of
keys and values, session, pause, push, reader, task or thread that waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
import threading
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest
from grpc import StatusCode

pytest.importorskip("numpy")

from tests.rollout.service.attacks import (
    ATTACKS,
    LEFT,
    Attacker,
    done_with,
    prompt,
    session,
    submission,
)
from tests.rollout.service.served import SHORT, SLOTS, leftovers, limits, rollouts
from tests.rollout.service.test_hostile_tenants import clients, tenant
from tests.rollout.service.test_service import S_MAX, SAMPLED
from tests.rollout.service.vanishing import NAME, begin
from tests.seeds import drawn_seed

from assay.client.rollouts import Prompt, RolloutClient
from assay.core.errors import (
    Conflict,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Saturated,
    TooLarge,
)
from assay.core.ids import TenantId
from assay.edge import grpc_edge
from assay.rollout.service import pauses, wire
from assay.rollout.service.records import Decoding, SessionSpec
from assay.rollout.service.servicer import RolloutServicer
from assay.v1.rollout_pb2 import CloseSessionRequest, RewardPlan

if TYPE_CHECKING:
    from tests.rollout.service.served import Rollouts, RunRollouts

    from assay.client.rollouts import RolloutSession

KEEPALIVES_S = 30.0
"""Half of what gRPC waits for the answer to a ping if it is not told."""
ROUNDS = 4
"""Each attack this many times."""
TYPED = (Conflict, FailedPrecondition, InvalidRequest, NotFound, Saturated, TooLarge)
TENANTS = {"honest": tenant("h", operate=True), "hostile": tenant("x", operate=True)}
VICTIM = "victim"
Said = list[tuple[bytes, bytes]]


def some_prompts(turn: int) -> list[Prompt]:
    return [Prompt(group_id=f"{turn}/{i}", prompt_ids=[1 + i, 2, 3], k=3, seed=i) for i in range(3)]


async def generated(session: RolloutSession, turn: int) -> Said:
    """Tokens and log-probs of groups that were submitted."""
    found: dict[str, Said] = {}
    async with asyncio.timeout(S_MAX):
        async for group in session.groups():
            session.acknowledge(group)
            found[group.group_id] = [
                (bytes(one.response_ids.tobytes()), bytes(one.rollout_logp.tobytes()))
                for one in group.trajectories
            ]
            if len(found) == 3:
                break
    assert sorted(found) == [one.group_id for one in some_prompts(turn)]
    return [said for name in sorted(found) for said in found[name]]


async def nothing_is_held(own: Rollouts, tasks: int) -> None:
    """Of a caller that is gone."""
    held = own.service.pauses
    async with asyncio.timeout(S_MAX):
        while held._asked:
            await asyncio.sleep(0.01)
        if LEFT in held._held:  # it held the engine, but its caller did not wait for the answer
            held.resume(LEFT)
        assert not held._held
        while own.engine._staging.locked() or own.service.tracer._readers:
            await asyncio.sleep(0.01)
        while len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.01)


async def test_no_attack_changes_what_others_generate_or_leaves_anything(
    run_rollouts: RunRollouts,
) -> None:
    own, rng = await run_rollouts(tenants=TENANTS), random.Random(drawn_seed())
    async with clients(own) as (honest, hostile):
        session = await honest.open_session(VICTIM, sampling=SAMPLED)
        await session.submit(some_prompts(0))
        expected = await generated(session, 0)
        connection = hostile._connection
        by = Attacker(
            hostile._stub,
            connection.channel,
            connection.metadata,
            rng,
            own.model.config.vocab_size,
            VICTIM,
            [],
        )
        await asyncio.sleep(0.1)
        tasks = len(asyncio.all_tasks())
        attacks = [attack for attack in ATTACKS for _ in range(ROUNDS)]
        rng.shuffle(attacks)
        for turn, attack in enumerate(attacks, 1):
            print(attack.__name__)
            await session.submit(some_prompts(turn))
            await attack(by)
            await done_with(by)
            await nothing_is_held(own, tasks)
            assert await generated(session, turn) == expected, attack.__name__
            wrong = [one for one in by.said if not isinstance(one[1], TYPED) or not one[1].field]
            assert not wrong
            assert own.engine.ready_version is None
            by.said.clear()
        await session.close()
    async with asyncio.timeout(S_MAX):
        while left := leftovers(own):
            await asyncio.sleep(0.02)
    assert not left
    assert own.service.why_not_ready == ""


async def other_groups_come(own: Rollouts) -> None:
    async with clients(own) as (honest, _):
        session = await honest.open_session("other", sampling=SAMPLED)
        await session.submit(some_prompts(0))
        await generated(session, 0)
        await session.close()


async def nothing_of_it_is_left(own: Rollouts) -> None:
    """Nothing but its session, which another caller of its tenant may take over."""
    async with asyncio.timeout(S_MAX):
        while own.service.pauses._asked or own.service.tracer._readers:
            await asyncio.sleep(0.02)
        while own.engine._staging.locked() or own.runtime.stats().in_flight:
            await asyncio.sleep(0.02)
    async with clients(own) as (_, hostile):
        stub: Any = hostile._stub
        shown = hostile._connection.metadata
        assert not (await stub.OpenSession(session(NAME), metadata=shown)).created
        await stub.CloseSession(CloseSessionRequest(session_id=NAME), metadata=shown)
    async with asyncio.timeout(S_MAX):
        while leftovers(own):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_process_that_is_killed_in_all_calls_at_once_leaves_nothing(
    run_rollouts: RunRollouts, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "HOLD_S", 0.2)
    own = await run_rollouts(tenants=TENANTS)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.rollout.service.vanishing", own.address, str(seed)),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(S_MAX):
        assert await process.stdout.readline() == b"begun\n"
        await asyncio.sleep(random.Random(seed).random() * 0.2)
        process.kill()
        await process.wait()
    await other_groups_come(own)
    await nothing_of_it_is_left(own)


class Frozen:
    """A relay that stops: neither side sees a connection end."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._moving = asyncio.Event()
        self._moving.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        """From now on no byte passes, in either direction."""
        self._moving.clear()

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, to = await asyncio.open_connection(self._host, int(self._port))
        self._writers += [back, to]
        for source, sink in ((near, to), (far, back)):
            self._tasks.append(asyncio.create_task(self._pass(source, sink)))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 14):
                await self._moving.wait()
                sink.write(data)
                await sink.drain()


async def test_a_caller_behind_a_connection_that_only_one_side_knows_is_let_go(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_edge, "KEEPALIVE_MS", 500)
    monkeypatch.setattr(pauses, "HOLD_S", 0.2)
    own = await run_rollouts(tenants=TENANTS)
    relay = Frozen(own.address)
    async with relay as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.rollout.service.vanishing", address, "3"),
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(S_MAX):
            assert await process.stdout.readline() == b"begun\n"
            while not own.service.tracer._readers:
                await asyncio.sleep(0.01)
        relay.stop()
        async with asyncio.timeout(KEEPALIVES_S):
            await other_groups_come(own)
            await nothing_of_it_is_left(own)
        process.kill()
        await process.wait()


async def test_a_service_that_stops_in_all_calls_at_once_ends_them_by_a_status() -> None:
    async with AsyncExitStack() as later:
        async with rollouts(tenants=TENANTS) as own:
            hostile = RolloutClient(own.address, token="x", backoff=SHORT)
            await later.enter_async_context(hostile)
            calls = await begin(hostile, random.Random(4))
            await asyncio.sleep(0.05)
        async with asyncio.timeout(S_MAX):
            ended = await asyncio.gather(*calls, return_exceptions=True)
    failed = [one for one in ended if isinstance(one, grpc.aio.AioRpcError)]
    assert failed
    statuses = {one.code() for one in failed}
    assert statuses <= {
        StatusCode.CANCELLED,
        StatusCode.UNAVAILABLE,
        StatusCode.FAILED_PRECONDITION,
    }


async def test_sessions_of_others_open_and_close_while_one_waits_for_its_reward_service(
    run_rollouts: RunRollouts,
) -> None:
    silent = socket.create_server(("127.0.0.1", 0))  # connects, and never answers
    own = await run_rollouts(f"127.0.0.1:{silent.getsockname()[1]}", tenants=TENANTS)
    async with clients(own) as (honest, hostile):
        shown: dict[str, Any] = {"metadata": hostile._connection.metadata}
        scored = session("scored", reward=RewardPlan(pipeline="noop"))
        waiting = [hostile._stub.OpenSession(scored, **shown) for _ in range(3)]
        async with asyncio.timeout(S_MAX):
            while not own.service._changing:
                await asyncio.sleep(0)
        for _ in range(3):
            mine = await honest.open_session("mine", sampling=SAMPLED)
            await mine.submit(some_prompts(0))
            await generated(mine, 0)
            await mine.close()
        assert not any(call.done() for call in waiting)
        for call in waiting:
            call.cancel()
        async with asyncio.timeout(S_MAX):
            while own.service._changing:
                await asyncio.sleep(0.01)
    assert own.service.status().sessions == 0
    silent.close()


async def test_texts_are_encoded_beside_other_calls_and_those_that_cannot_fit_are_not() -> None:
    may_end, begun, texts = threading.Event(), threading.Event(), list[str]()

    def encode(text: str) -> list[int]:
        begun.set()
        assert may_end.wait(S_MAX)
        texts.append(text)
        return [1, 2]

    given: dict[str, Any] = {"encode": encode, "encode_more": encode, "text_bytes_max": 100}
    served: Any = replace(limits(331, SLOTS), **given)
    servicer = RolloutServicer(
        cast("Any", None), served=served, weights=None, unsupported=(), shared_dir=None
    )
    request = submission("s", prompt(1, text="a", prompt_ids=b""), prompt(2, prompt_ids=b""))
    request.prompts[1].text = "x" * 101
    encoding = asyncio.create_task(servicer._encoded(request, TenantId("one")))
    async with asyncio.timeout(S_MAX):
        while not begun.is_set():
            await asyncio.sleep(0.001)
    assert not encoding.done()
    may_end.set()
    encoded = await encoding
    assert texts == ["a"]
    plain = Decoding(max_tokens=4)
    spec = SessionSpec(
        decoding=plain, reward=None, groups_open_max=9, staleness_max=None, retry_stale=False
    )
    with pytest.raises(TooLarge) as refused:
        wire.group_specs(request, spec, encoded, cast("Any", None))
    assert refused.value.field == "prompts[1].text"
    del request.prompts[1]
    assert wire.group_specs(request, spec, encoded, cast("Any", None))[0].prompt == (1, 2)
    many = submission("s", *[prompt(1)] * (served.groups_open_max + 1))
    with pytest.raises(TooLarge) as refused:
        wire.check_counts(many, served)
    assert refused.value.field == "prompts"
