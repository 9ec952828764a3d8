"""The rollout service: sessions, groups, rewards and weights on one engine.

Everything here runs on one event loop. The engine's calls are short and never wait, except pauses
and activations, which wait in a thread.

Invariants:
  - each accepted group is returned by `read` with K trajectories, each with one outcome,
    and a reward only if a judge gave one;
  - a rollout keeps its slot in the engine until its reward arrives, is given up, or is not needed:
  a slow reward service is back-pressure, bounded by `wait_s_max`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from assay.core.errors import (
    AssayError,
    Conflict,
    DependencyDown,
    InvalidRequest,
    NotFound,
    Saturated,
)
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.rollout.errors import EngineSaturated, InvalidRollout, RolloutGone, WorkerCrashed
from assay.rollout.layout import PauseMode, RolloutOutcome
from assay.rollout.service.groups import Groups, Member, Running
from assay.rollout.service.pauses import HOLD_S_MAX, Pauses
from assay.rollout.service.pump import Pump
from assay.rollout.service.records import (
    NOT_ASKED,
    NOT_DECODED,
    Decoded,
    GroupSpec,
    Judged,
    RewardBatch,
    SessionKey,
    SessionSpec,
)
from assay.rollout.service.rewards import Response, infra_failed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from assay.edge.clock import Clock
    from assay.rollout.rollout_engine import RolloutEngine
    from assay.rollout.rollouts import Activation, Completed, RolloutRef, ScoreRequest
    from assay.rollout.service.groups import ReadGroup
    from assay.rollout.service.rewards import RewardDesk

ATTEMPTS_MAX: Final = 2
"""Generation attempts of a rollout that failed in the engine."""
SESSIONS_MAX: Final = 256
PAGE_GROUPS_MAX: Final = 64
PAGE_TOKENS_MAX: Final = 1 << 18
ENGINE_COUNTS: Final = ("submitted", "completed", "failed", "in_flight", "slots_free")

CANCELLED: Final = Judged(outcome=Outcome.CANCELLED)

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Session:
    """An open session."""

    key: SessionKey
    spec: SessionSpec
    groups: Groups
    reader: int = 0
    """Number of the reading stream; earlier ones end."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    batches: dict[str, _OpenBatch] = field(default_factory=dict)
    closed: bool = False


@dataclass(slots=True)
class _OpenBatch:
    groups: int = 0
    last: bool = False


@dataclass(slots=True, kw_only=True)
class _Flight:
    """A rollout in the engine."""

    session: Session
    running: Running
    member: Member
    ref: RolloutRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Counts per state."""

    sessions: int
    groups_waiting: int
    groups_running: int
    groups_ended: int
    rewards_waiting: int
    policy_version: int
    engine: Mapping[str, int]
    """The engine's own counters, by name."""


class RolloutService:
    """See the module."""

    def __init__(
        self,
        *,
        engine: RolloutEngine,
        desk: Callable[[Callable[[int, Judged], None]], RewardDesk],
        text_of: Callable[[Sequence[int]], bytes],
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        """Make a service around an engine.

        Args:
            engine: makes tokens; closed by its creator.
            desk: makes the desk that judges, given the callback for its answers.
            text_of: the response as judges get it.
            clock: for timings.
            new_id: makes pause ids.
        """
        self._engine = engine
        self._desk = desk(self.on_judged)
        self._text_of = text_of
        self._clock = clock
        self._new_id = new_id
        self._sessions: dict[SessionKey, Session] = {}
        self._changing_sessions = asyncio.Lock()
        """No two calls open or close sessions at the same time."""
        self._turns: deque[SessionKey] = deque()
        self._flights: dict[int, _Flight] = {}
        self._numbers = 0
        self._unplaced: dict[int, float] = {}
        """Rewards that did not fit into the engine yet."""
        self.pauses = Pauses(engine, new_id)
        self._down: AssayError | None = None

    def start(self) -> None:
        """Start serving, on the running event loop."""
        self._pump = Pump(self._engine, self, asyncio.get_running_loop())
        self._pump.start()

    def end_streams(self) -> None:
        """Let every reader finish what has ended, and no more."""
        for session in self._sessions.values():
            session.closed = True
            session.changed.set()

    async def close(self) -> None:
        """End all sessions, pauses and streams."""
        self.end_streams()
        self.pauses.close()
        await self._desk.close()
        await asyncio.to_thread(self._pump.stop)

    @property
    def failed(self) -> bool:
        """Whether the engine has failed."""
        return self._down is not None

    def check(self) -> None:
        """Raise `DependencyDown` when the engine has failed."""
        if self._down is not None:
            raise DependencyDown(f"the engine failed: {self._down.message}")

    # -- sessions ------------------------------------------------------------------------------
    async def open_session(self, key: SessionKey, spec: SessionSpec, *, token: str | None) -> bool:
        """Open a session, or find the identical one; return whether it is new.

        Raises:
            Conflict: a session of that name differs.
            Saturated: there are `SESSIONS_MAX` already.
            NotFound, InvalidRequest, DependencyDown: from the reward service, see `RewardDesk`.
        """
        self.check()
        async with self._changing_sessions:
            return await self._open(key, spec, token)

    async def _open(self, key: SessionKey, spec: SessionSpec, token: str | None) -> bool:
        known = self._sessions.get(key)
        if known is not None:
            if known.spec != spec:
                raise Conflict("a session of that name differs", field="session.session_id")
            return False
        if len(self._sessions) >= SESSIONS_MAX:
            raise Saturated(f"at most {SESSIONS_MAX} sessions", retry_after_s=1.0)
        if spec.reward is not None:
            await self._desk.open_session(key, spec.reward, token=token)
        self._sessions[key] = Session(key=key, spec=spec, groups=Groups(spec))
        self._turns.append(key)
        return True

    async def close_session(self, key: SessionKey) -> int:
        """Cancel what has not ended, drop the rest; return how many rollouts were cancelled."""
        async with self._changing_sessions:
            session = self._session(key)
            cancelled = self.cancel(key, None)
            session.closed = True
            session.changed.set()
            del self._sessions[key]
            self._turns.remove(key)
            await self._desk.close_session(key)
        return cancelled

    def spec(self, key: SessionKey) -> SessionSpec:
        """Parameters of a session.

        Raises:
            NotFound: no session has that name.
        """
        return self._session(key).spec

    def _session(self, key: SessionKey) -> Session:
        session = self._sessions.get(key)
        if session is None:
            raise NotFound(f"no session {key.session_id!r} is open", field="session_id")
        return session

    # -- groups --------------------------------------------------------------------------------
    def submit(
        self,
        key: SessionKey,
        specs: Sequence[GroupSpec],
        batches: Sequence[RewardBatch] = (),
        *,
        acknowledged: int = 0,
    ) -> int:
        """Accept all groups, or none; return how many are new.

        Args:
            key: the session.
            specs: checked groups.
            batches: known facts about their reward batches.
            acknowledged: cursor up to which groups were handled and are dropped.

        Raises:
            NotFound: no such session.
            Conflict, Saturated: as `Groups.accept`.
        """
        self.check()
        session = self._session(key)
        session.groups.acknowledge(acknowledged)
        fresh = session.groups.accept(specs)
        if session.spec.reward is not None:
            self._count_in(session, fresh, batches)
        self._start_waiting()
        return len(fresh)

    def cancel(self, key: SessionKey, group_ids: frozenset[str] | None) -> int:
        """Request the end of groups (`None` = all); return the number of their rollouts.

        They end as CANCELLED, or as what they became in the meantime.
        """
        session = self._session(key)
        cancelled = self._end_waiting(session, group_ids, CANCELLED)
        for flight in list(self._flights.values()):
            if flight.session is session and (
                group_ids is None or flight.running.spec.group_id in group_ids
            ):
                self._cancel(flight)
                cancelled += 1
        return cancelled

    def _end_waiting(
        self, session: Session, group_ids: frozenset[str] | None, judged: Judged
    ) -> int:
        gone = session.groups.end_waiting(group_ids, judged, self._clock.now_ns())
        for spec in gone:
            self._count_out(session, spec.batch_id)
        session.changed.set()
        return sum(spec.k for spec in gone)

    async def read(self, key: SessionKey, cursor: int) -> AsyncGenerator[list[ReadGroup], None]:
        """Groups in the order in which they ended, after `cursor`, until the session is closed.

        Raises:
            NotFound: no such session.
            InvalidRequest: the cursor is not of this session.
        """
        session = self._session(key)
        if not 0 <= cursor <= session.groups.position:
            raise InvalidRequest("cursor: not of this session", field="cursor")
        session.groups.acknowledge(cursor)
        session.reader += 1
        reader = session.reader
        session.changed.set()
        page = list(session.groups.unacknowledged())
        while True:
            if page:
                yield page
            elif session.closed:
                return
            else:
                await session.changed.wait()
            if session.reader != reader:
                return
            session.changed.clear()
            page = self._next_page(session)

    def _next_page(self, session: Session) -> list[ReadGroup]:
        page: list[ReadGroup] = []
        tokens, version = 0, self._engine.stats().policy_version
        while len(page) < PAGE_GROUPS_MAX and tokens < PAGE_TOKENS_MAX:
            group = session.groups.take(version)
            if group is None:
                break
            tokens += sum(len(t.decoded.tokens) for t in group.group.trajectories)
            page.append(group)
        self._start_waiting()  # stale ones that are generated again
        return page

    # -- the engine's side ---------------------------------------------------------------------
    def on_ready(self, responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        """See `Listener`."""
        for response in responses:
            self._hand_in(response)
        for completed in ended:
            self._end(completed)
        for number, reward in list(self._unplaced.items()):
            self._place(number, reward)
        self._start_waiting()

    def on_engine_failed(self, error: AssayError) -> None:
        """See `Listener`: rollouts in the engine end as INFRA_FAILED."""
        self._down = error
        for number, flight in list(self._flights.items()):
            del self._flights[number]
            self._desk.forget(number)
            self._settle(flight, NOT_DECODED, infra_failed(error.message))
        for session in self._sessions.values():
            self._end_waiting(session, None, infra_failed(error.message))

    def on_judged(self, number: int, judged: Judged) -> None:
        """An answer of the desk."""
        flight = self._flights.get(number)
        if flight is None:
            return
        flight.member.judged = judged
        if judged.reward is None:
            self._cancel(flight)
        else:
            self._place(number, judged.reward)

    def _start_waiting(self) -> None:
        """Start groups until the engine is full, one of each session in turn."""
        if self._down is not None:
            return
        idle = 0
        while self._turns and idle < len(self._turns):
            key = self._turns[0]
            self._turns.rotate(-1)
            session = self._sessions[key]
            if not session.groups.waiting:
                idle += 1
                continue
            idle = 0
            if not self._start(session):
                self._turns.rotate(1)
                return

    def _start(self, session: Session) -> bool:
        running = session.groups.start(self._clock.now_ns())
        spec = running.spec
        numbers = [self._next_number() for _ in running.members]
        try:
            refs = self._give(session, spec, [m.seed for m in running.members], numbers)
        except (EngineSaturated, WorkerCrashed):  # the pump reports a crash
            session.groups.put_back(running)
            return False
        except InvalidRollout as error:  # only the engine can know: its arena is too small
            self._refuse(session, running, error)
            return True
        for number, member, ref in zip(numbers, running.members, refs, strict=True):
            self._flights[number] = _Flight(
                session=session, running=running, member=member, ref=ref
            )
        return True

    def _refuse(self, session: Session, running: Running, error: InvalidRollout) -> None:
        judged = Judged(outcome=Outcome.REJECTED_INVALID, evidence=Evidence(error=error.message))
        now_ns = self._clock.now_ns()
        for member in running.members:
            session.groups.end(running, member, NOT_DECODED, judged, now_ns)
        self._count_out(session, running.spec.batch_id)
        session.changed.set()

    def _give(
        self, session: Session, spec: GroupSpec, seeds: Sequence[int], numbers: Sequence[int]
    ) -> list[RolloutRef]:
        decoding = spec.decoding
        return self._engine.submit(
            spec.prompt,
            max_tokens=decoding.max_tokens,
            seeds=seeds,
            sampling=decoding.sampling,
            user_ids=numbers,
            reward_ids=numbers,
            stop_ids=decoding.stop_ids,
            stop_strings=decoding.stop_strings,
            want_reward=session.spec.reward is not None,
        )

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _hand_in(self, request: ScoreRequest) -> None:
        flight = self._flights.get(request.reward_id)
        if flight is None:
            return
        flight.member.decoded_ns = self._clock.now_ns()
        if self._sessions.get(flight.session.key) is not flight.session:
            self._cancel(flight)  # its session was closed while it decoded
            return
        spec = flight.running.spec
        response = Response(
            number=request.reward_id,
            group_id=spec.group_id,
            text=self._text_of(request.tokens[len(spec.prompt) :]),
            reference_json=spec.reference_json,
        )
        try:
            self._desk.hand_in(flight.session.key, spec.batch_id, response)
        except Saturated as error:
            self.on_judged(request.reward_id, infra_failed(error.message))

    def _place(self, number: int, reward: float) -> None:
        """Attach a reward; if the engine has no room yet, after its next completions."""
        flight = self._flights.get(number)
        self._unplaced.pop(number, None)
        if flight is None:
            return
        try:
            self._engine.score(flight.ref, reward)
        except EngineSaturated:
            self._unplaced[number] = reward
        except RolloutGone:
            pass  # cancelled in the meantime: it is returned as such

    def _cancel(self, flight: _Flight) -> None:
        with contextlib.suppress(RolloutGone):  # it ended in the meantime
            self._engine.cancel(flight.ref)

    def _end(self, completed: Completed) -> None:
        flight = self._flights.pop(completed.user_id, None)
        if flight is None:
            return
        self._desk.forget(completed.user_id)
        failed = completed.outcome in {RolloutOutcome.CRASHED, RolloutOutcome.NOT_FINITE}
        if failed and flight.member.attempts < ATTEMPTS_MAX and self._again(flight):
            return
        self._settle(flight, _decoded(completed), _judged(flight, completed))

    def _again(self, flight: _Flight) -> bool:
        """Generate one member of a group once more; the group keeps its other members."""
        number, member = self._next_number(), flight.member
        try:
            [ref] = self._give(flight.session, flight.running.spec, [member.seed], [number])
        except (EngineSaturated, WorkerCrashed):
            return False
        member.attempts += 1
        member.judged = None
        self._flights[number] = _Flight(
            session=flight.session, running=flight.running, member=member, ref=ref
        )
        return True

    def _settle(self, flight: _Flight, decoded: Decoded, judged: Judged) -> None:
        session, running = flight.session, flight.running
        now_ns = self._clock.now_ns()
        if session.groups.end(running, flight.member, decoded, judged, now_ns):
            self._count_out(session, running.spec.batch_id)
            session.changed.set()

    # -- reward batches ------------------------------------------------------------------------
    def _count_in(
        self, session: Session, fresh: Sequence[GroupSpec], batches: Sequence[RewardBatch]
    ) -> None:
        for spec in fresh:
            session.batches.setdefault(spec.batch_id, _OpenBatch()).groups += 1
        for batch in batches:
            self._desk.open_batch(session.key, batch.batch_id, deadline_s=batch.deadline_s)
            opened = session.batches.setdefault(batch.batch_id, _OpenBatch())
            opened.last = opened.last or batch.last
            self._seal_if_done(session, batch.batch_id)

    def _count_out(self, session: Session, batch_id: str) -> None:
        opened = session.batches.get(batch_id)
        if opened is not None:
            opened.groups -= 1
            self._seal_if_done(session, batch_id)

    def _seal_if_done(self, session: Session, batch_id: str) -> None:
        opened = session.batches[batch_id]
        if opened.last and opened.groups == 0:
            del session.batches[batch_id]
            self._desk.seal(session.key, batch_id)

    # -- weights and pauses --------------------------------------------------------------------
    async def activate(self, version: int, mode: PauseMode) -> Activation:
        """Continue with staged weights.

        Raises:
            WeightsNotReady: there are none of this version.
            WorkerStalled: the engine was not held in time.
        """
        self.check()
        return await asyncio.to_thread(
            self._engine.activate, version, mode=mode, timeout_s=HOLD_S_MAX
        )

    def status(self) -> Status:
        """Counts per state."""
        stats = self._engine.stats()
        counts = [session.groups.counts() for session in self._sessions.values()]
        return Status(
            sessions=len(self._sessions),
            groups_waiting=sum(c.waiting for c in counts),
            groups_running=sum(c.running for c in counts),
            groups_ended=sum(c.ended + c.read for c in counts),
            rewards_waiting=self._desk.waiting,
            policy_version=stats.policy_version,
            engine={name: getattr(stats, name) for name in ENGINE_COUNTS},
        )


def _decoded(completed: Completed) -> Decoded:
    return Decoded(
        stop=completed.stop,
        tokens=completed.tokens,
        logps=completed.logps,
        versions=completed.policy_versions,
    )


def _judged(flight: _Flight, completed: Completed) -> Judged:
    if completed.outcome is RolloutOutcome.COMPLETED:
        return flight.member.judged or NOT_ASKED
    if completed.outcome is RolloutOutcome.CANCELLED:
        judged = flight.member.judged
        return judged if judged is not None and judged.reward is None else CANCELLED
    return infra_failed(f"the engine ended it as {completed.outcome.name}")
