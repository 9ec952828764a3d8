"""One tenant does what it can: the others' sessions go on, and nothing of it is left.

A tenant has tokens of its own; it knows the names of the other's sessions, groups and versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
import pytest

pytest.importorskip("numpy")

from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.service.pushing import pieces
from tests.rollout.service.served import SHORT, leftovers
from tests.rollout.service.test_service import SAMPLED, prompts, take, weights_of
from tests.seeds import drawn_seed

from assay.client.failures import error_of
from assay.client.rollouts import Prompt, RolloutClient
from assay.client.rollouts.pushes import bodies, full_push
from assay.config.access import TenantSettings
from assay.core.errors import (
    AssayError,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    Saturated,
)
from assay.core.ids import TenantId
from assay.rollout.service.flights import Start
from assay.rollout.service.records import SessionKey
from assay.rollout.service.sessions import Room, Turns
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.rollout.service.served import Rollouts, RunRollouts
    from tests.running import Running

S_MAX = 240.0
PUSH_WEIGHTS = "/assay.v1.RolloutService/PushWeights"


def tenant(token: str, *, operate: bool) -> TenantSettings:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return TenantSettings.model_validate({"token_sha256": digest, "operate": operate})


TENANTS = {"honest": tenant("h", operate=True), "hostile": tenant("x", operate=False)}


@contextlib.asynccontextmanager
async def clients(own: Rollouts) -> AsyncIterator[tuple[RolloutClient, RolloutClient]]:
    """The honest tenant's, and the hostile one's."""
    async with (
        RolloutClient(own.address, token="h", backoff=SHORT) as honest,
        RolloutClient(own.address, token="x", backoff=SHORT) as hostile,
    ):
        yield honest, hostile


async def nothing_is_left(own: Rollouts) -> None:
    async with asyncio.timeout(S_MAX):
        while found := leftovers(own):
            await asyncio.sleep(0.02)
            assert own.service.why_not_ready == "", found
    assert not own.service.flights._held


async def test_what_is_anothers_is_not_there_or_not_permitted(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts(tenants=TENANTS)
    async with clients(own) as (honest, hostile):
        session = await honest.open_session("s", sampling=SAMPLED)
        await session.submit(prompts(2))
        await honest.push_weights(1, weights_of(1))
        stub: Any = hostile._stub
        metadata = hostile._connection.metadata
        named: dict[str, Any] = {"session_id": "s"}
        for call, request in (
            (stub.SubmitPrompts, rollout_pb2.SubmitPromptsRequest(**named)),
            (stub.CancelRollouts, rollout_pb2.CancelRolloutsRequest(**named)),
            (stub.CloseSession, rollout_pb2.CloseSessionRequest(**named)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(request, metadata=metadata)
            assert isinstance(error := error_of(refused.value), NotFound)
            assert error.field == "session_id"
        stream = stub.StreamGroups(rollout_pb2.StreamGroupsRequest(**named), metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stream.read()
        assert isinstance(error_of(refused.value), NotFound)
        for operating in (
            hostile.activate(1),
            hostile.activate(0),
            hostile.pause(),
            hostile.resume("pause0"),
            hostile.push_weights(2, weights_of(2)),
        ):
            with pytest.raises(PermissionDenied):
                await operating
        assert not (await hostile.status(rollouts=True)).rollouts
        assert (await honest.activate(1)).policy_version == 1
        assert len(await take(session, 2)) == 2
        await session.close()
    await nothing_is_left(own)


async def test_thousands_of_sessions_are_refused_and_others_still_open_theirs(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts(tenants=TENANTS, room=Room(sessions_max=64, tenants=lambda: 2))
    async with clients(own) as (honest, hostile):
        opened, refused = [], 0
        for i in range(1_000):
            try:
                opened.append(
                    await hostile._stub.OpenSession(
                        rollout_pb2.OpenSessionRequest(
                            session=rollout_pb2.Session(session_id=f"s{i}")
                        ),
                        metadata=hostile._connection.metadata,
                    )
                )
            except grpc.aio.AioRpcError as failed:
                error = error_of(failed)
                assert isinstance(error, Saturated)
                assert error.field == "session.session_id"
                refused += 1
        assert (len(opened), refused) == (32, 968)
        for i in range(32):
            session = await honest.open_session(f"h{i}", sampling=SAMPLED)
            await session.submit([Prompt(group_id="g", prompt_ids=[1], k=2, seed=i)])
            assert len(await take(session, 1)) == 1
            await session.close()
        for i in range(32):
            request = rollout_pb2.CloseSessionRequest(session_id=f"s{i}")
            await hostile._stub.CloseSession(request, metadata=hostile._connection.metadata)
        await (await hostile.open_session("again")).close()
    await nothing_is_left(own)


async def submitted(client: RolloutClient, name: str, reference: bytes) -> AssayError | None:
    """The error of a prompt, which is sent once."""
    request = rollout_pb2.SubmitPromptsRequest(session_id="greedy")
    request.prompts.add(group_id=name, prompt_ids=b"\1\0\0\0", k=1, reference_json=reference)
    try:
        await client._stub.SubmitPrompts(request, metadata=client._connection.metadata)
    except grpc.aio.AioRpcError as failed:
        return error_of(failed)
    return None


async def test_sessions_that_were_left_make_room_and_those_in_use_stay(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await run_rollouts(room=Room(sessions_max=3))
    left, read, named = [await own.client.open_session(name, sampling=SAMPLED) for name in "abc"]
    await left.submit(prompts(2))
    await read.submit(prompts(1))
    async with asyncio.timeout(60), contextlib.aclosing(read.groups()) as reading:
        read.acknowledge(await anext(reading))
        monkeypatch.setattr("assay.rollout.service.sessions.IDLE_S_MAX", 0.5)
        monkeypatch.setattr("assay.rollout.service.server.READINESS_EVERY_S", 0.02)
        watching = asyncio.create_task(own.server.watch_readiness())
        while own.service.status().sessions > 2:
            await named.submit([])
            await asyncio.sleep(0.01)
        watching.cancel()
        with pytest.raises(NotFound):
            await left.submit([])
        await named.close()
        monkeypatch.setattr("assay.rollout.service.sessions.IDLE_S_MAX", 0.0)
        own.service.close_idle()
        monkeypatch.setattr("assay.rollout.service.sessions.IDLE_S_MAX", 60.0)
        again = await own.client.open_session("a", sampling=SAMPLED)
        await read.submit(prompts(2))
        read.acknowledge(await anext(reading))
        await again.submit(prompts(1))
        assert len(await take(again, 1)) == 1
    for session in (read, again):
        await session.close()
    assert own.service.status().sessions == 0


async def test_groups_that_no_one_reads_take_a_share_of_the_memory_and_no_more(
    run_rollouts: RunRollouts,
) -> None:
    room = Room(groups_bytes_max=16 << 20, tenants=lambda: 2)
    own = await run_rollouts(tenants=TENANTS, room=room)
    large = {"a": "x" * (1 << 19)}
    async with clients(own) as (honest, hostile):
        greedy = await hostile.open_session("greedy", sampling=SAMPLED)
        accepted, error = 0, None
        while error is None and accepted < 32:
            error = await submitted(hostile, f"g{accepted}", b'{"a":"%s"}' % (b"x" * (1 << 19)))
            accepted += error is None
        assert isinstance(error, Saturated)
        assert error.field == "prompts"
        assert accepted == 15  # half of 16 MiB, with their responses
        session = await honest.open_session("s", sampling=SAMPLED)
        for turn in range(3):  # what is acknowledged is free again
            many = [
                Prompt(group_id=f"{turn}/{i}", prompt_ids=[1], k=1, seed=i, reference=large)
                for i in range(10)
            ]
            await session.submit(many)
            assert len(await take(session, 10)) == 10
        await greedy.close()
        await session.close()
    await nothing_is_left(own)


async def test_responses_whose_rewards_never_come_keep_no_more_than_a_share_of_the_slots(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc, tenants=TENANTS)
    async with clients(own) as (honest, hostile):
        waiting = await honest.open_session("waiting", sampling=SAMPLED, pipeline="noop")
        await waiting.submit(prompts(1, k=1, reference={}))  # no worker judges anything here
        stuck = await hostile.open_session(
            "stuck", sampling=SAMPLED, pipeline="noop", reward_wait_s=600.0
        )
        await stuck.submit(prompts(30, k=4, reference={}))
        working = await honest.open_session("s", sampling=SAMPLED)
        await working.submit(prompts(30, k=2))
        assert len(await take(working, 30)) == 30
        await waiting.close()
        async with asyncio.timeout(S_MAX):  # alone, it may have all of them
            while own.runtime.stats().slots_free:
                await asyncio.sleep(0.02)
        await stuck.close()
        await working.close()
    await nothing_is_left(own)


async def test_no_session_waits_for_rewards_longer_than_the_operator_allows(
    run_rollouts: RunRollouts, api: Running
) -> None:
    own = await run_rollouts(api.addresses.grpc)  # allows 600 s
    for wait_s in (600.001, 7 * 86_400.0):
        with pytest.raises(InvalidRequest) as refused:
            await own.client.open_session("s", pipeline="noop", reward_wait_s=wait_s)
        assert refused.value.field == "session.reward.wait_ms_max"
        assert "rollout.reward_wait_s_max" in refused.value.message
    assert own.service.status().sessions == 0
    await own.client.open_session("s", pipeline="noop", reward_wait_s=600.0)


KEYS = st.tuples(st.sampled_from("abc"), st.integers(0, 5)).map(
    lambda key: SessionKey(TenantId(key[0]), str(key[1]))
)


@given(keys=st.lists(KEYS, min_size=1, unique=True), gone=st.sets(st.integers(0, 17)))
def test_tenants_take_turns_whatever_number_of_sessions_each_has(
    keys: list[SessionKey], gone: set[int]
) -> None:
    turns = Turns()
    for key in keys:
        turns.add(key)
    for i in sorted(gone, reverse=True):
        if i < len(keys):
            turns.remove(keys.pop(i))
    assert turns.first(lambda _key: False) is None
    found = []
    for _ in range(60 if keys else 0):
        next_one = turns.first(lambda _key: True)
        assert next_one is not None
        assert turns.first(lambda _key: True) == next_one  # until its turn is over
        found.append(next_one)
        turns.taken()
    tenants = {key.tenant_id for key in keys}
    for at in range(0, len(found) - len(tenants), max(1, len(tenants))):
        assert {key.tenant_id for key in found[at : at + len(tenants)]} == tenants
    for tenant_id in tenants:
        own = [key for key in found if key.tenant_id == tenant_id]
        mine = [key for key in keys if key.tenant_id == tenant_id]
        assert set(own[: len(mine)]) == set(mine)


async def test_streams_that_are_cancelled_at_any_moment_lose_no_group(
    run_rollouts: RunRollouts,
) -> None:
    own, rng = await run_rollouts(), random.Random(drawn_seed())
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(12))
    for _ in range(60):
        call = own.client._stub.StreamGroups(rollout_pb2.StreamGroupsRequest(session_id="s"))
        reading = asyncio.ensure_future(call.read())
        for _ in range(rng.randrange(8)):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([reading])
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            reading.result()
    assert {group.group_id for group in await take(session, 12)} == {
        one.group_id for one in prompts(12)
    }
    await session.close()
    await nothing_is_left(own)


async def push_raw(own: Rollouts, sent: list[bytes]) -> AssayError | None:
    """The error of a push of these bytes."""

    async def all_of_them() -> AsyncIterator[bytes]:
        for one in sent:
            yield one

    push: Any = own.client._connection.channel.stream_unary(PUSH_WEIGHTS)
    try:
        await push(all_of_them())
    except grpc.aio.AioRpcError as failed:
        return error_of(failed)
    return None


async def test_a_push_whose_messages_end_at_any_byte_leaves_nothing_to_activate(
    run_rollouts: RunRollouts,
) -> None:
    own, rng = await run_rollouts(), random.Random(drawn_seed())
    divided = bodies(full_push(1, 0.0), weights_of(1), together_bytes=4_000, piece_bytes=4_000)
    every = [one async for one in divided]
    first = every[0]
    head = len(first) - len(rollout_pb2.PushWeightsRequest.FromString(first).data)
    cuts = [(0, n) for n in range(1, head)]
    cuts += [(at := rng.randrange(len(every)), rng.randrange(len(every[at]))) for _ in range(60)]
    for at, n in cuts:
        error = await push_raw(own, [*every[:at], every[at][:n]])
        assert isinstance(error, InvalidRequest | FailedPrecondition), (at, n, error)
        assert own.engine.ready_version is None, (at, n)
    assert await push_raw(own, every) is None
    assert (await own.client.activate(1)).policy_version == 1


class Cut:
    """A relay that passes a number of bytes on and then resets the connection."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self.left = 0

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, to = await asyncio.open_connection(self._host, int(self._port))

        async def answers() -> None:
            while data := await far.read(1 << 16):
                back.write(data)

        answering = asyncio.create_task(answers())
        while self.left > 0 and (data := await near.read(min(1 << 12, self.left))):
            self.left -= len(data)
            to.write(data)
            await to.drain()
        answering.cancel()
        to.transport.abort()
        back.transport.abort()


async def test_a_push_whose_connection_is_cut_at_any_byte_leaves_nothing_and_frees_the_slot(
    run_rollouts: RunRollouts,
) -> None:
    own, rng = await run_rollouts(), random.Random(drawn_seed())
    weights = weights_of(1)
    size = sum(len(one.data) for one in weights.values())
    for _ in range(12):
        relay = Cut(own.address)
        relay.left = rng.randrange(100, size)
        async with relay as address, RolloutClient(address, backoff=SHORT) as client:
            with pytest.raises(AssayError):
                await client.push_weights(1, weights)
        async with asyncio.timeout(S_MAX):
            while own.engine._staging.locked():
                await asyncio.sleep(0.005)
        assert own.engine.ready_version is None
    async with asyncio.timeout(S_MAX):
        while isinstance(await push_raw(own, await whole(weights)), FailedPrecondition):
            await asyncio.sleep(0.01)
    assert (await own.client.activate(1)).policy_version == 1


async def whole(weights: Any) -> list[bytes]:
    return [one.SerializeToString() async for one in pieces(full_push(1, 0.0), weights)]


async def test_a_tensor_that_comes_twice_is_named(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    sizes: Any = {"together_bytes": 1, "checksums": False}
    every = [one async for one in pieces(full_push(1, 0.0), weights_of(1), **sizes)]
    name = every[0].tensor.name
    for one in every:
        one.ClearField("number")
    error = await push_raw(own, [one.SerializeToString() for one in (every[0], *every)])
    assert isinstance(error, InvalidRequest)
    assert error.field == "tensors.EMBED.0" or name in error.field
    assert own.engine.ready_version is None


class Visited(dict[SessionKey, Any]):
    """Sessions, and how many of them were looked at."""

    visits = 0

    def __getitem__(self, key: SessionKey) -> Any:
        self.visits += 1
        return super().__getitem__(key)

    def items(self) -> Any:
        for pair in super().items():
            self.visits += 1
            yield pair


async def test_the_sessions_of_a_tenant_over_its_share_are_looked_at_in_linear_time(
    run_rollouts: RunRollouts,
) -> None:
    """Each waits, none may start, and the tenant that keeps them from it comes last."""
    flights: Any = (await run_rollouts()).service.flights
    waits = SimpleNamespace(groups=SimpleNamespace(waiting=[SimpleNamespace(k=1)], running=[]))
    runs = SimpleNamespace(groups=SimpleNamespace(waiting=[], running=[object()]))
    visits = []
    for count in (50, 100, 200):
        hostile = [SessionKey(TenantId("hostile"), f"s{number}") for number in range(count)]
        honest = SessionKey(TenantId("honest"), "s")
        flights._sessions = Visited({**dict.fromkeys(hostile, waits), honest: runs})
        flights._turns = Turns()
        for key in flights._sessions:
            flights._turns.add(key)
        flights._held[TenantId("hostile")] = flights._share
        assert flights._start_group() is Start.NONE_WAITS
        visits.append(flights._sessions.visits)
    assert visits[2] - visits[1] == 2 * (visits[1] - visits[0])
    assert visits[2] <= 3 * 200
    flights._sessions.clear()
    flights._turns, flights._held = Turns(), Counter()
