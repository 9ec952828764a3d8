"""Generated sequences of calls on a rollout service, and what must hold after each of them.

An `Attack` keeps what the service has promised so far: open sessions, groups that were accepted,
groups that were read, the content of both slots. Each call's answer is compared with it; at the end
every group must have come once, and no slot, credit, block or pause may be left.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from tests.rollout.sequences.checks import Known, check, said
from tests.rollout.sequences.gate import Gate
from tests.rollout.service.pushing import pieces, serialized
from tests.rollout.service.served import SLOTS, TOKENS_MAX, Rollouts, leftovers, rollouts
from tests.rollout.service.test_service import weights_of

from assay.client import Backoff
from assay.client.rollouts import NextTurn, Prompt, RolloutClient, SamplingParams, StepBatch
from assay.client.rollouts.pushes import full_push
from assay.core.errors import (
    AssayError,
    Conflict,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Saturated,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from assay.client.rollouts import RolloutGroup, RolloutSession
    from assay.v1 import rollout_pb2

T = TypeVar("T")
Sequence = list[tuple[str, int]]
"""Names of calls, each with the number that chooses everything about it."""
S_MAX: Final = 240.0
"""For what must come."""
GLANCE_S: Final = 0.05
"""For what may come."""
VERSIONS: Final = 3
"""Sets of weights; a version number v has those of v % VERSIONS."""
PAUSES_MAX: Final = 3
SCORED: Final = 4
SLOW: Final = 0x700
"""Bits: a session with rewards is opened though the reward service is away, which takes seconds."""
SHORT: Final = Backoff(first_s=0.01, longest_s=0.05, total_s=0.5)


class Attack:
    """One service, and all that it was asked."""

    def __init__(self, own: Rollouts, gate: Gate) -> None:
        self._own, self._gate = own, gate
        self._client = own.client
        self._sessions: dict[str, Known] = {}
        self._gone: set[tuple[str, str]] = set()
        """Groups of closed sessions."""
        self._pauses: list[tuple[str, str]] = []
        """Those that are held, with their modes."""
        self._numbers = 0
        self._version = 0
        self._ready: int | None = None
        self._history = [0]
        """Versions in the order in which they were activated."""

    async def call(self, name: str, n: int) -> None:
        """One of `CALLS`; `n` chooses everything about it."""
        act: Callable[[int], Awaitable[None]] = getattr(self, f"do_{name}")
        await act(n)

    # -- sessions ------------------------------------------------------------------------------
    async def do_open(self, n: int) -> None:
        """Open a session, or open it again, or ask for another of the same name."""
        name = f"s{n % 3}"
        known = self._sessions.get(name)
        if self._gate.shut and n & SLOW != SLOW:
            n &= ~SCORED
        options: dict[str, object] = {
            "pipeline": "noop" if n & SCORED else "",
            "minority_min": n >> 3 & 1 if n & SCORED else 0,
            "staleness_max": None if n & 48 else 1,
            "retry_stale": not n & 48 and bool(n & 64),
        }
        opening = self._client.open_session(name, sampling=_sampled(n), **options)  # type: ignore[arg-type]
        if known is None:
            if self._gate.was_shut and options["pipeline"]:  # a channel waits before it tries again
                with suppress(DependencyDown):
                    self._sessions[name] = Known(await opening, options | {"n": _sampled(n)})
                return
            self._sessions[name] = Known(await opening, options | {"n": _sampled(n)})
        elif known.options == options | {"n": _sampled(n)}:
            known.session = await _moved(opening, known.session)
        else:
            await _refused(Conflict, opening)

    async def do_close(self, n: int) -> None:
        """Close a session; it is then unknown."""
        if (known := self._chosen(n)) is None:
            return
        name = known.session.session_id
        del self._sessions[name]
        self._gone |= {(name, group_id) for group_id in known.asked}
        await known.session.close()
        await _refused(NotFound, known.session.cancel())

    async def do_vanish(self, _n: int) -> None:
        """The trainer's connection is gone; another takes its sessions over."""
        if self._client is not self._own.client:
            await self._client._connection.close()
        self._client = RolloutClient(self._own.address, backoff=SHORT)
        for known in self._sessions.values():
            moved = _session_of(self._client, known.session)
            known.session = moved

    # -- groups --------------------------------------------------------------------------------
    async def do_submit(self, n: int) -> None:
        """Some groups; a size that the engine never has is refused by its field."""
        if (known := self._chosen(n)) is None:
            return
        made = [self._prompt(n + i, known) for i in range(1 + n % 4)]
        batches = [_batch(n)] if known.scored and n & 16 else []
        if n % 7 == 0:
            wrong = replace(made[-1], k=SLOTS + 1)
            await _refused(InvalidRequest, known.session.submit([*made[:-1], wrong]))
        with suppress(Saturated):
            assert await known.session.submit(made, batches=batches) == len(made)
            self._accepted(known, made)
            assert await known.session.submit(made) == 0

    async def do_conflict(self, n: int) -> None:
        """A group of the same name that differs: none of its message is accepted."""
        if (known := self._chosen(n)) is None or not known.asked:
            return
        taken = _pick(list(known.asked.values()), n)
        other = replace(taken, seed=taken.seed + 1)
        fresh = self._prompt(n, known)
        await _refused(Conflict, known.session.submit([fresh, other]))

    async def do_turns(self, n: int) -> None:
        """Continue a group that was read."""
        if (known := self._chosen(n)) is None or not known.read:
            return
        group = _pick(list(known.read.values()), n)
        k = len(group.trajectories)
        members = [(n + i) % k for i in range(1 + n % 3)]
        turns = [
            NextTurn(member=m, environment_ids=[1 + (n + m) % 50] * (1 + n % 5)) for m in members
        ]
        prompt = replace(
            self._prompt(n, known),
            k=len(members),
            prompt_ids=(),
            continues=group.group_id,
            turns=turns,
            scored=known.scored and bool(n & 2),
        )
        longest = max(
            len(group.prompt_ids) + len(group.trajectories[m].response_ids) for m in members
        )
        if longest + 5 + 10 > TOKENS_MAX or any(
            group.trajectories[m].finish_reason == "cancelled" for m in members
        ):
            with suppress(InvalidRequest, FailedPrecondition, Saturated):
                assert await known.session.submit([prompt]) == 1
                known.before[prompt.group_id] = group
                self._accepted(known, [prompt])
            return
        with suppress(Saturated):
            assert await known.session.submit([prompt]) == 1
            known.before[prompt.group_id] = group
            self._accepted(known, [prompt])

    async def do_cancel(self, n: int) -> None:
        """Some groups, or all."""
        if (known := self._chosen(n)) is not None:
            names = sorted(known.asked)
            await known.session.cancel(names[: n % 3] if n & 8 else [])

    async def do_read(self, n: int) -> None:
        """What is there, from what was acknowledged last: groups that were read come again."""
        if (known := self._chosen(n)) is None:
            return
        self._drop(known)  # a stream acknowledges as it begins
        again, came = list(known.read), []
        groups = known.session.groups()
        with suppress(TimeoutError):
            async with asyncio.timeout(GLANCE_S):
                async for group in groups:
                    came.append(group.group_id)
                    self._came(known, group)
                    if len(came) > n % 7:
                        break
        await groups.aclose()
        assert came[: len(again)] == again[: len(came)]

    async def do_acknowledge(self, n: int) -> None:
        """Some of what was read is handled."""
        if (known := self._chosen(n)) is None or not known.read:
            return
        upto = _pick(list(known.read.values()), n)
        known.session.acknowledge(upto)
        with suppress(Saturated):
            await known.session.submit([])
            self._drop(known)

    # -- weights -------------------------------------------------------------------------------
    async def do_push(self, n: int) -> None:
        """Whole weights, into the slot that is not in use."""
        self._version += 1
        await self._client.push_weights(self._version, weights_of(self._version % VERSIONS))
        self._ready = self._version

    async def do_push_beside(self, n: int) -> None:
        """While one push is running others are refused, and nothing of it can be activated."""
        self._version += 1
        version, begun, go_on = self._version, asyncio.Event(), asyncio.Event()
        every = await _messages(version, n)

        async def slowly() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
            yield every[0]
            begun.set()
            await go_on.wait()
            for one in every[1:]:
                yield one

        pushing = asyncio.create_task(self._client._push(serialized(slowly())))
        await begun.wait()
        while not (pushing.done() or self._own.engine._staging.locked()):
            await asyncio.sleep(0.01)
        other = self._client.push_weights(version + 1_000, weights_of(1))
        await _refused(FailedPrecondition, other)
        await _refused(FailedPrecondition, self._client.activate(version))
        go_on.set()
        await pushing
        self._ready = version

    async def do_push_wrong(self, n: int) -> None:
        """A tensor that is wrong, or too few: nothing can be activated."""
        self._version += 1
        weights = weights_of(1)
        name = _pick(sorted(weights), n)
        if n % 3 == 0:
            del weights[name]
        elif n % 3 == 1:
            weights[name] = replace(weights[name], shape=(3, *weights[name].shape))
        else:
            weights[f"{name}.more"] = weights[name]
        pushing = self._client.push_weights(self._version, weights)
        await _refused(InvalidRequest, pushing)
        await self._nothing_of(self._version)

    async def do_push_cut(self, n: int) -> None:
        """A sender that vanishes after some messages."""
        self._version += 1
        every, sent = await _messages(self._version, n), asyncio.Event()

        async def some() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
            for one in every[: 1 + n % (len(every) - 1)]:
                yield one
            sent.set()
            await asyncio.Event().wait()

        call = self._client._stub.PushWeights(some())
        await sent.wait()
        call.cancel()
        await self._idle()
        await self._nothing_of(self._version)

    async def do_activate(self, n: int) -> None:
        """Staged weights, those before, or others."""
        if n % 5 == 0:
            await _refused(FailedPrecondition, self._client.activate(self._version + 500))
            return
        await self._idle()
        version = self._history[-1] if self._ready is None else self._ready
        try:
            done = await self._client.activate(version, mode=_mode(n))
        except FailedPrecondition as refused:
            self._check_held_in_place(refused, _mode(n))
            assert await self._client.policy_version() == self._history[-1]
            return
        assert done.policy_version == version
        assert done.previous_version == self._history[-1]
        if version != self._history[-1]:
            self._ready = self._history[-1]
            self._history.append(version)
        assert await self._client.policy_version() == version

    # -- pauses --------------------------------------------------------------------------------
    async def do_pause(self, n: int) -> None:
        """Hold the engine, in each mode."""
        if len(self._pauses) < PAUSES_MAX:
            try:
                self._pauses.append((await self._client.pause(mode=_mode(n)), _mode(n)))
            except FailedPrecondition as refused:
                self._check_held_in_place(refused, _mode(n))

    def _check_held_in_place(self, refused: FailedPrecondition, mode: str) -> None:
        """Rollouts that are held where they are neither end nor are retracted."""
        assert refused.field == "mode"
        assert mode != "in_place"
        assert "in_place" in [held for _, held in self._pauses]

    async def do_resume(self, n: int) -> None:
        """One pause ends, once."""
        if not self._pauses:
            await _refused(FailedPrecondition, self._client.resume("none"))
            return
        pause, _ = self._pauses.pop(n % len(self._pauses))
        await self._client.resume(pause)
        await _refused(FailedPrecondition, self._client.resume(pause))

    # -- surroundings --------------------------------------------------------------------------
    async def do_reward_gone(self, _n: int) -> None:
        """No byte reaches the reward service from here on."""
        self._gate.close()

    async def do_reward_back(self, _n: int) -> None:
        """It can be reached again."""
        self._gate.shut = False

    async def do_status(self, _n: int) -> None:
        """The service's own counts agree with each other."""
        status = await self._client.status(rollouts=True)
        assert status.sessions == len(self._sessions)
        assert status.policy_version == self._history[-1]
        assert 0 <= status.engine["slots_free"] <= SLOTS
        places = [(one.session_id, one.group_id, one.member) for one in status.rollouts]
        assert len(set(places)) == len(places)
        assert len(places) <= SLOTS
        for session, group, member in places:
            known = self._sessions.get(session)
            if known is None or group not in known.asked:
                assert (session, group) in self._gone  # ends between two tokens
            else:
                assert member < known.asked[group].k

    # -- the end -------------------------------------------------------------------------------
    async def end(self) -> None:
        """Everything that must come comes, and nothing is left."""
        self._gate.shut = False
        for pause, _ in self._pauses:
            await self._client.resume(pause)
        for known in self._sessions.values():
            if known.complete:
                await self._all_read(known)
            await known.session.close()
        async with asyncio.timeout(S_MAX):
            while left := leftovers(self._own):
                await asyncio.sleep(0.02)
        assert not left
        await self.do_vanish(0)
        await self._client._connection.close()

    async def _all_read(self, known: Known) -> None:
        async with asyncio.timeout(S_MAX):
            self._drop(known)
            groups = known.session.groups()
            while len(known.read) < len(known.asked):
                self._came(known, await anext(groups))
            await groups.aclose()

    # -- what is known -------------------------------------------------------------------------
    def _chosen(self, n: int) -> Known | None:
        return _pick(list(self._sessions.values()), n) if self._sessions else None

    def _prompt(self, n: int, known: Known) -> Prompt:
        self._numbers += 1
        return Prompt(
            group_id=f"g{self._numbers}",
            prompt_ids=[1 + (n * i + n) % 60 for i in range(1 + n % 9)],
            k=1 + n % 6,
            seed=n,
            sampling=SamplingParams(max_tokens=1 + n % 10),
            reference={} if known.scored else b"",
            batch_id=f"b{n & 1}" if known.scored else "",
        )

    def _accepted(self, known: Known, made: list[Prompt]) -> None:
        known.asked |= {one.group_id: one for one in made}
        self._drop(known)

    @staticmethod
    def _drop(known: Known) -> None:
        """What is acknowledged is forgotten."""
        for name, group in list(known.read.items()):
            if group.cursor <= known.session._cursor:
                del known.read[name], known.asked[name]

    def _came(self, known: Known, group: RolloutGroup) -> None:
        """A group came: its own, whole, and the same when it comes again."""
        before = known.read.setdefault(group.group_id, group)
        assert said(before) == said(group)
        prompt = known.asked[group.group_id]
        assert [one.member for one in group.trajectories] == list(range(prompt.k))
        for one in group.trajectories:
            check(known, prompt, one, self._history, was_shut=self._gate.was_shut)

    async def _idle(self) -> None:
        """No push is running."""
        async with asyncio.timeout(S_MAX):
            while self._own.engine._staging.locked():
                await asyncio.sleep(0.01)

    async def _nothing_of(self, version: int) -> None:
        await self._idle()
        await _refused(FailedPrecondition, self._client.activate(version))
        ready = self._own.engine.ready_version
        assert ready in {None, self._ready}
        self._ready = ready


def _pick(some: list[T], n: int) -> T:
    return some[n % len(some)]


def _mode(n: int) -> str:
    return _pick(["in_place", "retract", "finish"], n)


def _sampled(n: int) -> SamplingParams:
    return SamplingParams(temperature=0.8 if n & 1 else 0.0)


def _batch(n: int) -> StepBatch:
    return StepBatch(batch_id=f"b{n & 1}", enough_groups=n >> 5 & 3, only_varied=bool(n & 128))


def _session_of(client: RolloutClient, session: RolloutSession) -> RolloutSession:
    moved = type(session)(
        session.session_id, client._connection, client._stub, tokens_max=session.tokens_max
    )
    moved._cursor = session._cursor
    return moved


async def _moved(opening: Awaitable[RolloutSession], before: RolloutSession) -> RolloutSession:
    session = await opening
    session._cursor = before._cursor
    return session


async def _messages(version: int, n: int) -> list[rollout_pb2.PushWeightsRequest]:
    """A push of whole weights, divided in some way; at least two messages."""
    divided = pieces(
        full_push(version, 0.0),
        weights_of(version % VERSIONS),
        together_bytes=(1, 10_000)[n & 1],
        piece_bytes=(5_000, 1 << 20)[n >> 1 & 1],
    )
    return [one async for one in divided]


async def _refused(kind: type[AssayError], call: Awaitable[object]) -> None:
    """The call ends with this error."""
    try:
        await call
    except kind:
        return
    message = f"expected {kind.__name__}"
    raise AssertionError(message)


CALLS: Final = sorted(name.removeprefix("do_") for name in dir(Attack) if name.startswith("do_"))


async def run(sequence: Sequence, reward_port: int) -> None:
    """One service from its start to its end."""
    gate = Gate(reward_port)
    address = await gate.start()
    async with AsyncExitStack() as stack:
        stack.callback(gate.stop)
        running = rollouts(address, desk_backoff=SHORT)
        own = await stack.enter_async_context(running)
        attack = Attack(own, gate)
        for name, n in sequence:
            await attack.call(name, n)
        await attack.end()
