"""Tokens that rotate, expire and change hands, quotas that change, and calls in flight meanwhile.

A machine of random steps drives one real API on a real store: it writes the file of tenants, moves
the clock, and calls. A model knows each token's tenant, roles and end, each tenant's quota, and
which requests were accepted. Between steps everything is exact: who may call, what is refused, what
the store holds. A call that races a change is answered as before the change or as after it, whole
or not at all, and never otherwise. Streams that are open go on exactly as long as their token.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.e2e.every_port import digest
from tests.running import own_shard, running_api

from assay.config.access import Role
from assay.edge import calls
from assay.edge.clock import Clock
from assay.edge.door import Kind
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Iterable
    from pathlib import Path

    from tests.running import Running

    from assay.store.embedded import EmbeddedValkey

EXAMPLES, STEPS = 25, 25
PHASES = [Phase.explicit, Phase.generate] if "MACHINE_UNSHRUNK" in os.environ else list(Phase)
LOOK_S = 2
"""More than the service takes to look at the file again, by its own clock."""
HANGS_S = 30.0
NAMES = ("red", "blue")
OK, STRANGER, FORBIDDEN, FULL = "OK", "UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"
ROLES = st.sampled_from([{Role.SUBMIT}, {Role.READ}, {Role.SUBMIT, Role.READ}])
PLACES = st.integers(0, 10**6)
"""Of a token, among all that ever were."""
BATCH = "batch"


class Shifted(Clock):
    """The machine's clock, and what was added to it."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def now_ns(self) -> int:
        return super().now_ns() + self.ahead_ns

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.ahead_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """As the file has it."""

    text: str
    tenant: str
    roles: frozenset[Role]
    expires_ns: int | None = None


@dataclass(frozen=True, slots=True)
class World:
    """What the file says."""

    tokens: dict[str, Token]
    open_max: dict[str, int]

    def verdict(self, token: str, role: Role, now_ns: int) -> str:
        """How a call for this role is answered at the door."""
        known = self.tokens.get(token)
        if known is None or (known.expires_ns is not None and now_ns >= known.expires_ns):
            return STRANGER
        return OK if role in known.roles else FORBIDDEN

    def content(self) -> str:
        """The file's text."""
        tenants: dict[str, Any] = {
            name: {"requests_open_max": most, "tokens": []} for name, most in self.open_max.items()
        }
        for one in self.tokens.values():
            tenants[one.tenant]["tokens"].append(_listed(one))
        return json.dumps(tenants)


def _listed(one: Token) -> dict[str, Any]:
    listed: dict[str, Any] = {"sha256": digest(one.text), "roles": sorted(one.roles)}
    if one.expires_ns is not None:
        whole_s, rest_ns = divmod(one.expires_ns, 10**9)
        assert rest_ns == 0
        listed["expires"] = whole_s
    return listed


@dataclass(frozen=True, slots=True)
class Stream:
    """A call that stays open."""

    token: str
    tenant: str
    role: Role
    call: Any


class Rig:
    """One API for all examples, its file, its clock and its loop."""

    def __init__(self, running: Running, channel: grpc.aio.Channel, file: Path, clock: Shifted):
        self.running = running
        self.stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        self.file = file
        self.clock = clock
        self.looked: set[int] = set()
        """Streams that have looked at their token."""
        guard: Any = running.api.server._guard
        permitted = guard._permitted

        def looking(arrival: Any) -> Any:
            self.looked.add(id(arrival))
            return permitted(arrival)

        guard._permitted = looking

    def write(self, text: str) -> None:
        """Replace the file; seen at the next call."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.file)
        self.clock.ahead_ns += LOOK_S * 10**9

    async def call(self, method: str, message: Any, token: str) -> tuple[str, Any]:
        """The status and the answer."""
        shown = (("authorization", f"Bearer {token}"),)
        try:
            answer = await getattr(self.stub, method)(message, metadata=shown, timeout=HANGS_S)
        except grpc.aio.AioRpcError as failed:
            return failed.code().name, failed
        return OK, answer


class Races(RuleBasedStateMachine):
    """See the module."""

    rig: Rig
    runner: asyncio.Runner
    examples = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(work, HANGS_S))

    @initialize(most=st.tuples(st.integers(1, 4), st.integers(1, 4)))
    def begin(self, most: tuple[int, int]) -> None:
        """Two tenants with a task and a batch each, a token that stays and one that may not."""
        type(self).examples += 1
        self.own = {name: f"{name}-{type(self).examples}" for name in NAMES}
        self.made = 0
        self.accepted: dict[str, set[str]] = {one: set() for one in self.own.values()}
        self.ended: dict[str, set[str]] = {one: set() for one in self.own.values()}
        self.streams: list[Stream] = []
        both = frozenset({Role.SUBMIT, Role.READ})
        self.ever = [f"first-{one}" for one in self.own.values()]
        kinds = [(kind, one) for kind in ("root", "first") for one in self.own.values()]
        roots = [Token(text=f"{kind}-{one}", tenant=one, roles=both) for kind, one in kinds]
        self.world = World(
            {one.text: one for one in roots}, dict(zip(self.own.values(), most, strict=True))
        )
        self.rig.write(self.world.content())
        for one in self.own.values():
            self.run(self._opened(one))

    async def _opened(self, tenant: str) -> None:
        task = reward_pb2.Task(task_id="task", pipeline="noop")
        for method, message in (
            ("RegisterTask", reward_pb2.RegisterTaskRequest(task=task)),
            ("OpenBatch", reward_pb2.OpenBatchRequest(task_id="task", batch_id=BATCH)),
        ):
            code, answer = await self.rig.call(method, message, f"root-{tenant}")
            assert code == OK, answer

    # -- what operators do -----------------------------------------------------------------------
    def change(self, world: World) -> None:
        """Have the file say this; open streams that may go on do, and no others."""
        self.world = world
        self.rig.write(world.content())
        self.settle()

    def settle(self) -> None:
        """Wait for the streams that must end."""
        for stream in list(self.streams):
            if self._goes_on(stream):
                continue
            self.streams.remove(stream)
            code = self.run(_end_of(stream.call))
            assert code in {STRANGER, FORBIDDEN}, code

    def _goes_on(self, stream: Stream) -> bool:
        known = self.world.tokens.get(stream.token)
        verdict = self.world.verdict(stream.token, stream.role, self.rig.clock.now_ns())
        return verdict == OK and known is not None and known.tenant == stream.tenant

    @rule(tenant=st.sampled_from(NAMES), roles=ROLES, lasts_s=st.sampled_from([None, 50, 5_000]))
    def issue(self, tenant: str, roles: set[Role], lasts_s: int | None) -> None:
        self.made += 1
        text = f"token-{self.own[tenant]}-{self.made}"
        until = None
        if lasts_s is not None:
            until = (self.rig.clock.now_ns() // 10**9 + lasts_s) * 10**9
        one = Token(text=text, tenant=self.own[tenant], roles=frozenset(roles), expires_ns=until)
        self.ever.append(text)
        self.change(replace(self.world, tokens={**self.world.tokens, text: one}))

    @rule(place=PLACES)
    def revoke(self, place: int) -> None:
        tokens = dict(self.world.tokens)
        tokens.pop(self._any(place), None)
        self.change(replace(self.world, tokens=tokens))

    @rule(place=PLACES)
    def rotate(self, place: int) -> None:
        """A successor with the same rights, in the same write."""
        old = self.world.tokens.get(self._any(place))
        if old is None:
            return
        self.made += 1
        new = replace(old, text=f"token-{old.tenant}-{self.made}")
        self.ever.append(new.text)
        tokens = {k: v for k, v in self.world.tokens.items() if k != old.text}
        self.change(replace(self.world, tokens={**tokens, new.text: new}))

    @rule(place=PLACES)
    def change_hands(self, place: int) -> None:
        """A token becomes the other tenant's."""
        old = self.world.tokens.get(self._any(place))
        if old is not None:
            [other] = set(self.own.values()) - {old.tenant}
            moved = replace(old, tenant=other)
            self.change(replace(self.world, tokens={**self.world.tokens, old.text: moved}))

    @rule(tenant=st.sampled_from(NAMES), most=st.integers(1, 4))
    def set_quota(self, tenant: str, most: int) -> None:
        quotas = {**self.world.open_max, self.own[tenant]: most}
        self.change(replace(self.world, open_max=quotas))

    @rule(text=st.sampled_from(["", "{", '{"red": {}}', '{"red": {"tokens": [{}]}}']))
    def spoil(self, text: str) -> None:
        """The last good file counts."""
        self.rig.write(text)
        self.settle()

    @rule(seconds=st.sampled_from([1, 60, 6_000]))
    def pass_time(self, seconds: int) -> None:
        self.rig.clock.ahead_ns += seconds * 10**9
        self.settle()

    # -- what tenants do -------------------------------------------------------------------------
    def _any(self, place: int) -> str:
        return self.ever[place % len(self.ever)]

    def _owner(self, token: str) -> str:
        return self.world.tokens[token].tenant

    def _names(self, count: int) -> list[str]:
        self.made += count
        return [f"r{self.made - index}" for index in range(count)]

    def _open(self, tenant: str) -> int:
        return len(self.accepted[tenant] - self.ended[tenant])

    @rule(place=PLACES, count=st.integers(1, 4))
    def submit(self, place: int, count: int) -> None:
        token, names = self._any(place), self._names(count)
        expected = self.world.verdict(token, Role.SUBMIT, self.rig.clock.now_ns())
        tenant = self._owner(token) if expected == OK else ""
        if tenant and self._open(tenant) + count > self.world.open_max[tenant]:
            expected = FULL
        code, answer = self.run(self.rig.call("Submit", submitted(names), token))
        assert code == expected, answer
        if code == OK:
            assert answer.accepted == count
            self.accepted[tenant] |= set(names)

    @rule(tenant=st.sampled_from(NAMES), count=st.integers(1, 4))
    def cancel(self, tenant: str, count: int) -> None:
        """Some end, and leave room."""
        own = self.own[tenant]
        names = sorted(self.accepted[own] - self.ended[own])[:count]
        if not names:
            return
        message = reward_pb2.CancelRequestsRequest(batch_id=BATCH, request_ids=names)
        code, answer = self.run(self.rig.call("CancelRequests", message, f"root-{own}"))
        assert (code, answer.cancelled) == (OK, len(names))
        self.ended[own] |= set(names)

    @rule(
        places=st.lists(PLACES, min_size=2, max_size=6),
        lost=PLACES,
        tenant=st.sampled_from(NAMES),
        most=st.integers(1, 4),
        turns=st.integers(0, 30),
    )
    def race(self, places: list[int], lost: int, tenant: str, most: int, turns: int) -> None:
        """Calls in flight while a token goes and a quota changes."""
        tokens = dict(self.world.tokens)
        tokens.pop(self._any(lost), None)
        quotas = {**self.world.open_max, self.own[tenant]: most}
        sent = [(self._any(place), self._names(2)) for place in places]
        before, self.world = self.world, World(tokens, quotas)
        began_ns = self.rig.clock.now_ns()
        answers = self.run(self._raced(sent, turns))
        now_ns = self.rig.clock.now_ns()
        moments = ((before, began_ns), (before, now_ns), (self.world, now_ns))
        limits = {
            one: sorted(world.open_max[one] for world, _ in moments) for one in self.own.values()
        }
        held = {one: self._open(one) for one in self.own.values()}
        wanted = dict(held)
        for token, names in sent:
            if token in before.tokens:
                wanted[before.tokens[token].tenant] += len(names)
        for (token, names), (code, answer) in zip(sent, answers, strict=True):
            door = {world.verdict(token, Role.SUBMIT, at_ns) for world, at_ns in moments}
            if code == FULL:
                own = before.tokens[token].tenant
                assert OK in door
                assert wanted[own] > limits[own][0], answer
            else:
                assert code in door, (door, answer)
            if code == OK:
                assert answer.accepted == len(names)
                self.accepted[before.tokens[token].tenant] |= set(names)
        for one in self.own.values():
            assert self._open(one) <= max(limits[one][-1], held[one])
        self.settle()

    async def _raced(self, sent: list[tuple[str, list[str]]], turns: int) -> list[tuple[str, Any]]:
        flying = [
            asyncio.create_task(self.rig.call("Submit", submitted(names), token))
            for token, names in sent
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        self.rig.write(self.world.content())
        return await asyncio.gather(*flying)

    # -- streams ---------------------------------------------------------------------------------
    def _able(self, role: Role) -> list[str]:
        """Tokens that open streams, by their age."""
        now_ns = self.rig.clock.now_ns()
        return [one for one in self.ever if self.world.verdict(one, role, now_ns) == OK]

    @precondition(lambda self: len(self.streams) < 6 and self._able(Role.READ))
    @rule(place=PLACES)
    def read_results(self, place: int) -> None:
        able = self._able(Role.READ)
        token = able[place % len(able)]
        call = self.rig.stub.StreamResults(
            reward_pb2.StreamResultsRequest(batch_id=BATCH), metadata=_shown(token)
        )
        self.streams.append(Stream(token, self._owner(token), Role.READ, call))
        self.run(self._let_in(Kind.STREAM, Role.READ))

    @precondition(lambda self: len(self.streams) < 6 and self._able(Role.SUBMIT))
    @rule(place=PLACES, quotas=st.lists(st.integers(1, 4), min_size=1, max_size=4))
    def send_requests(self, place: int, quotas: list[int]) -> None:
        """A stream that sends, one request under each quota; it stays open if it is not refused."""
        able = self._able(Role.SUBMIT)
        token = able[place % len(able)]
        stream = Stream(
            token,
            self._owner(token),
            Role.SUBMIT,
            self.rig.stub.SubmitStream(metadata=_shown(token)),
        )
        self.streams.append(stream)
        self.run(self._let_in(Kind.UPLOAD, Role.SUBMIT))
        for most in quotas:
            if stream in self.streams:
                self._send(stream, most)

    @precondition(lambda self: any(one.role is Role.SUBMIT for one in self.streams))
    @rule(place=PLACES, most=st.integers(1, 4))
    def send_more(self, place: int, most: int) -> None:
        """One more by an old one."""
        sending = [one for one in self.streams if one.role is Role.SUBMIT]
        self._send(sending[place % len(sending)], most)

    def _send(self, stream: Stream, most: int) -> None:
        """Its request is accepted by the quota as it is now."""
        own = stream.tenant
        self.change(replace(self.world, open_max={**self.world.open_max, own: most}))
        self.run(self._looked())
        [name] = self._names(1)
        self.run(stream.call.write(submitted([name])))
        expected = OK if self._open(own) + 1 <= most else FULL
        assert self.run(self._taken(stream, len(self.accepted[own]) + 1)) == expected
        if expected == OK:
            self.accepted[own].add(name)
        else:
            self.streams.remove(stream)

    async def _let_in(self, kind: Kind, role: Role) -> None:
        """Until each of them has its place."""
        door = self.rig.running.api.server._guard.door
        while door.held(kind) < sum(one.role is role for one in self.streams):
            await asyncio.sleep(0)

    async def _looked(self) -> None:
        """Until each open stream has looked at its token again."""
        self.rig.looked.clear()
        while len(self.rig.looked) < len(self.streams):
            await asyncio.sleep(0)

    async def _taken(self, stream: Stream, count: int) -> str:
        """Whether what a stream sent is there, so that there are `count`, or how it ended."""
        while not stream.call.done():
            if (await self._batch(stream.tenant)).submitted == count:
                return OK
        return await _end_of(stream.call)

    # -- what always holds -----------------------------------------------------------------------
    async def _batch(self, tenant: str) -> Any:
        message = reward_pb2.GetBatchRequest(batch_id=BATCH)
        code, answer = await self.rig.call("GetBatch", message, f"root-{tenant}")
        assert code == OK, answer
        return answer.batch

    @invariant()
    def each_token_is_what_the_file_says(self) -> None:
        self.run(self._each_token(self.ever))

    async def _each_token(self, tokens: Iterable[str]) -> None:
        message = reward_pb2.SealBatchRequest(batch_id="none")
        for token in tokens:
            expected = self.world.verdict(token, Role.SUBMIT, self.rig.clock.now_ns())
            code, answer = await self.rig.call("SealBatch", message, token)
            assert code == ("NOT_FOUND" if expected == OK else expected), answer

    @invariant()
    def the_store_holds_what_was_accepted(self) -> None:
        for tenant in self.own.values():
            batch = self.run(self._batch(tenant))
            assert batch.submitted == len(self.accepted[tenant])
            assert batch.ended == len(self.ended[tenant])

    @invariant()
    def nothing_is_held_at_the_door_but_open_streams(self) -> None:
        door = self.rig.running.api.server._guard.door
        held = {role: sum(one.role is role for one in self._streams()) for role in Role}
        assert door.held(Kind.CALL) == 0
        assert door.held(Kind.STREAM) == held[Role.READ]
        assert door.held(Kind.UPLOAD) == held[Role.SUBMIT]
        assert door.refusals_held == 0
        assert door.bytes_held == 0 or self._streams(), "a stream keeps its first message"

    def _streams(self) -> list[Stream]:
        return getattr(self, "streams", [])

    def teardown(self) -> None:
        for stream in self._streams():
            stream.call.cancel()
        self.run(self._quiet())

    async def _quiet(self) -> None:
        door = self.rig.running.api.server._guard.door
        while door.held(Kind.STREAM) or door.held(Kind.UPLOAD):
            await asyncio.sleep(0.001)


def submitted(names: Iterable[str]) -> reward_pb2.SubmitRequest:
    """Submit requests with these names."""
    made = [
        reward_pb2.RewardRequest(request_id=name, response=b"x", reference_json=b"{}")
        for name in names
    ]
    return reward_pb2.SubmitRequest(batch_id=BATCH, requests=made)


def _shown(token: str) -> tuple[tuple[str, str]]:
    return (("authorization", f"Bearer {token}"),)


async def _end_of(call: Any) -> str:
    """The status with which a stream ends; it comes behind what has not been read yet."""
    with suppress(grpc.aio.AioRpcError):
        while isinstance(call, grpc.aio.UnaryStreamCall) and await call.read() is not grpc.aio.EOF:
            pass
    code: grpc.StatusCode = await call.code()
    return code.name


async def _next(rigs: AsyncGenerator[Rig, None]) -> Rig:
    return await anext(rigs)


async def _running(valkey: EmbeddedValkey, folder: Path) -> AsyncGenerator[Rig, None]:
    file, clock = folder / "tenants.json", Shifted()
    file.write_text("{}")
    api = running_api(
        own_shard(valkey), folder, clock=clock, tenants_file=file, tenant_calls_per_s_max=1e6
    )
    async with api as running, grpc.aio.insecure_channel(running.addresses.grpc) as channel:
        yield Rig(running, channel, file, clock)


@pytest.mark.skipif(
    "ASSAY_TOKEN_RACES" not in os.environ,
    reason="run by ASSAY_TOKEN_RACES=1: it takes up to some minutes",
)
def test_tokens_and_quotas_change_under_calls_in_flight(
    valkey: EmbeddedValkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "CHECK_AGAIN_S", 0.01)
    with asyncio.Runner() as runner:
        serving = _running(valkey, tmp_path)
        Races.rig = runner.run(_next(serving))
        Races.runner = runner
        try:
            run_state_machine_as_test(
                Races,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    phases=PHASES,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(serving.aclose())
