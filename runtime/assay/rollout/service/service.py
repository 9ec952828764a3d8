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
import itertools
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from assay.core.errors import (
    AssayError,
    Conflict,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Saturated,
)
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.edge.metrics import Metrics
from assay.rollout.errors import (
    EngineSaturated,
    InvalidRollout,
    Limit,
    RolloutGone,
    WorkerCrashed,
)
from assay.rollout.layout import PauseMode, RolloutOutcome
from assay.rollout.service.groups import Groups, Member, Running
from assay.rollout.service.inspection import (
    ROLLOUTS_LISTED_MAX,
    Place,
    Queue,
    Tracer,
    last_error,
    queue_of,
    server_away,
)
from assay.rollout.service.pauses import HOLD_S_MAX, Pauses
from assay.rollout.service.pump import Pump
from assay.rollout.service.records import (
    NOT_ASKED,
    NOT_DECODED,
    Decoded,
    EndedGroup,
    GroupSpec,
    Judged,
    RewardBatch,
    SessionKey,
    SessionSpec,
)
from assay.rollout.service.rewards import Response, infra_failed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from assay.core.ids import TenantId
    from assay.core.trajectory import TrajectoryTokens
    from assay.edge.clock import Clock
    from assay.rollout.rollout_engine import RolloutEngine
    from assay.rollout.rollouts import Activation, Completed, RolloutRef, ScoreRequest
    from assay.rollout.service.groups import ReadGroup
    from assay.rollout.service.rewards import RewardDesk

ATTEMPTS_MAX: Final = 2
"""Generation attempts of a rollout that failed in the engine."""
SESSIONS_MAX: Final = 256
BATCHES_OPEN_MAX: Final = 1_024
"""Reward batches of a session that are not marked `last`: they are kept, here and in the reward
service, until the session closes."""
PAGE_GROUPS_MAX: Final = 64
PAGE_TOKENS_MAX: Final = 1 << 18
ENGINE_COUNTS: Final = (
    *("submitted", "completed", "failed", "in_flight", "slots_free"),
    *("decode_available", "reward_available", "trajectory_available", "kv_available"),
    *("queue_prefill", "queue_decode", "queue_reward", "queue_trajectory", "queue_done"),
    *("decode_tokens", "prefill_tokens", "steps", "busy_ns"),
    *("prefix_matched_positions", "prefix_missed_positions"),
    *("requests", "lost", "retracted"),
    *("kv_in_use", "kv_in_use_peak", "kv_cold", "kv_evictions", "kv_bytes", "kv_block_bytes"),
)
"""Counters of the engine that are shown, as far as it has them."""
CREDIT: Final = "_available"

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
    enough_groups: int = 0
    only_varied: bool = False
    cut: bool = False
    counted: int = 0
    """Groups that ended and count towards `enough_groups`."""

    @property
    def enough(self) -> bool:
        """Whether its other groups are not needed."""
        return 0 < self.enough_groups <= self.counted

    def count(self, group: EndedGroup) -> None:
        """One of its groups ended."""
        whole = all(one.judged.outcome is not Outcome.CANCELLED for one in group.trajectories)
        self.counted += whole and not (self.only_varied and group.summary.degenerate)


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


class Start(Enum):
    """What came of starting the next waiting work."""

    STARTED = auto()
    NONE_WAITS = auto()
    NO_ROOM = auto()


class Guest(Protocol):
    """Another user of the engine, whose rollouts have `user_id` 0; called on the event loop."""

    def start_next(self) -> Start:
        """Submit the next waiting work to the engine."""
        ...

    def on_ended(self, completed: Completed) -> None:
        """One of its rollouts ended."""
        ...

    def on_engine_failed(self, error: AssayError) -> None:
        """The engine makes no more tokens."""
        ...


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
        metrics: Metrics | None = None,
    ) -> None:
        """Make a service around an engine.

        Args:
            engine: makes tokens; closed by its creator.
            desk: makes the desk that judges, given the callback for its answers.
            text_of: the response as judges get it.
            clock: for timings.
            new_id: makes pause ids.
            metrics: what happens is counted there; `None`: in metrics that no one reads.
        """
        self._metrics = metrics or Metrics()
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
        self.tracer = Tracer(engine, clock)
        self._down: AssayError | None = None
        self._guest: Guest | None = None
        self._starters: deque[Callable[[], Start]] = deque([self._start_group])

    def add_guest(self, guest: Guest) -> None:
        """Share the engine with `guest`: while groups and its work wait, they start in turn.

        A group that waits for room is not overtaken, otherwise single rollouts would keep a large
        group waiting forever.
        """
        self._guest = guest
        self._starters.append(guest.start_next)

    def start_waiting(self) -> None:
        """Start what waits, as far as the engine has room; for a guest that has new work."""
        self._start_waiting()

    def start(self) -> None:
        """Start serving, on the running event loop."""
        self._pump = Pump(self._engine, self, asyncio.get_running_loop())
        self._pump.start()

    def end_streams(self) -> None:
        """Let every reader finish what has ended, and no more."""
        self.tracer.close()
        for session in self._sessions.values():
            session.closed = True
            session.changed.set()

    async def close(self) -> None:
        """End all sessions, pauses and streams."""
        self.end_streams()
        self.pauses.close()
        await asyncio.to_thread(self._pump.stop)  # first: it hands responses to the desk
        await self._desk.close()

    @property
    def why_not_ready(self) -> str:
        """Why the service makes no tokens now; empty: it does.

        A failed engine stays failed; a remote engine's server may come back.
        """
        if self._down is not None:
            return "the engine failed"
        away = server_away(self._engine.stats())
        return f"the engine's server does not serve: {away}" if away else ""

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

    def histories(
        self, key: SessionKey, group_id: str, continues: str, members: Sequence[int]
    ) -> tuple[TrajectoryTokens, ...]:
        """The trajectories that a new group continues; see `Groups.histories`."""
        return self._session(key).groups.histories(group_id, continues, members)

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
            FailedPrecondition: `BATCHES_OPEN_MAX` reward batches are not marked `last`.
        """
        self.check()
        session = self._session(key)
        session.groups.acknowledge(acknowledged)
        _check_batches(session, specs, batches)
        fresh = session.groups.accept(specs)
        if session.spec.reward is not None:
            self._count_in(session, fresh, batches)
            if fresh:
                self._desk.announce(key, session.groups.responses_to_come())
        self._start_waiting()
        return len(fresh)

    def cancel(self, key: SessionKey, group_ids: frozenset[str] | None) -> int:
        """Request the end of groups (`None` = all); return the number of their rollouts.

        They end as CANCELLED, or as what they became in the meantime.
        """
        session = self._session(key)
        if group_ids is None:
            return self._cancel_groups(session, lambda _spec: True)
        return self._cancel_groups(session, lambda spec: spec.group_id in group_ids)

    def _cancel_groups(self, session: Session, chosen: Callable[[GroupSpec], bool]) -> int:
        """End the chosen groups; the desk withdraws their reward requests as they end."""
        cancelled = self._end_waiting(session, chosen, CANCELLED)
        for flight in list(self._flights.values()):
            if flight.session is session and chosen(flight.running.spec):
                self._cancel(flight)
                cancelled += 1
        return cancelled

    def _end_waiting(
        self, session: Session, chosen: Callable[[GroupSpec], bool], judged: Judged
    ) -> int:
        gone = session.groups.end_waiting(chosen, judged, self._clock.now_ns())
        for group in gone:
            self._count_out(session, group)
        session.changed.set()
        return sum(group.spec.k for group in gone)

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
        before = session.groups.counts()
        while len(page) < PAGE_GROUPS_MAX and tokens < PAGE_TOKENS_MAX:
            group = session.groups.take(version)
            if group is None:
                break
            tokens += sum(t.tokens.tokens for t in group.group.trajectories)
            page.append(group)
            result = _result(session, group)
            self._metrics.group_read(result=result, staleness=group.staleness)
        after = session.groups.counts()
        self._metrics.groups_stale(
            dropped=after.stale_dropped - before.stale_dropped,
            retried=after.stale_retried - before.stale_retried,
        )
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
        if self._guest is not None:
            self._guest.on_engine_failed(error)
        for number, flight in list(self._flights.items()):
            del self._flights[number]
            self._desk.forget(number)
            self._settle(flight, NOT_DECODED, infra_failed(error.message))
        for session in self._sessions.values():
            self._end_waiting(session, lambda _spec: True, infra_failed(error.message))

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
        """Start groups, and a guest's work, in turn until the engine is full."""
        idle = 0
        while self._down is None and idle < len(self._starters):
            start = self._starters[0]()
            if start is Start.NO_ROOM:
                return
            self._starters.rotate(-1)
            idle = 0 if start is Start.STARTED else idle + 1

    def _start_group(self) -> Start:
        """Start one waiting group; sessions take turns."""
        for _ in range(len(self._turns)):
            session = self._sessions[self._turns[0]]
            if session.groups.waiting:
                if not self._start(session):
                    return Start.NO_ROOM
                self._turns.rotate(-1)
                return Start.STARTED
            self._turns.rotate(-1)
        return Start.NONE_WAITS

    def _start(self, session: Session) -> bool:
        running = session.groups.start(self._clock.now_ns())
        numbers = [self._next_number() for _ in running.members]
        try:
            refs = self._give_all(session, running, numbers)
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
            ended = session.groups.end(running, member, NOT_DECODED, judged, now_ns)
            if ended is not None:
                self._count_out(session, ended)
        session.changed.set()

    def _give_all(
        self, session: Session, running: Running, numbers: Sequence[int]
    ) -> list[RolloutRef]:
        """Give the engine all members or none; members with a history have prompts of their own."""
        if not running.spec.turns:
            return self._give(session, running.spec, running.members, numbers)
        if self._engine.stats().slots_free < running.spec.k:
            raise EngineSaturated(Limit.SLOTS)
        refs: list[RolloutRef] = []
        try:
            for member, number in zip(running.members, numbers, strict=True):
                refs += self._give(session, running.spec, [member], [number])
        except BaseException:
            for ref in refs:  # no flight has their numbers: what they become is ignored
                with contextlib.suppress(RolloutGone, WorkerCrashed):
                    self._engine.cancel(ref)
            raise
        return refs

    def _give(
        self, session: Session, spec: GroupSpec, members: Sequence[Member], numbers: Sequence[int]
    ) -> list[RolloutRef]:
        decoding = spec.decoding
        return self._engine.submit(
            spec.context(members[0].index),
            max_tokens=decoding.max_tokens,
            seeds=[member.seed for member in members],
            sampling=decoding.sampling,
            user_ids=numbers,
            reward_ids=numbers,
            stop_ids=decoding.stop_ids,
            stop_strings=decoding.stop_strings,
            want_reward=session.spec.reward is not None and spec.scored,
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
            text=self._text_of(request.tokens[len(spec.context(flight.member.index)) :]),
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
            if self._guest is not None and completed.user_id == 0:
                self._guest.on_ended(completed)
            return
        self._desk.forget(completed.user_id)
        failed = completed.outcome in {RolloutOutcome.CRASHED, RolloutOutcome.NOT_FINITE}
        if failed and flight.member.attempts < ATTEMPTS_MAX and self._again(flight):
            return
        why = last_error(self._engine.stats())
        self._settle(flight, _decoded(completed), _judged(flight, completed, why))

    def _again(self, flight: _Flight) -> bool:
        """Generate one member of a group once more; the group keeps its other members."""
        number, member = self._next_number(), flight.member
        try:
            [ref] = self._give(flight.session, flight.running.spec, [member], [number])
        except (EngineSaturated, WorkerCrashed):
            return False
        self._metrics.rollout_retried()
        member.attempts += 1
        member.judged = None
        self._flights[number] = _Flight(
            session=flight.session, running=flight.running, member=member, ref=ref
        )
        return True

    def _settle(self, flight: _Flight, decoded: Decoded, judged: Judged) -> None:
        session, running = flight.session, flight.running
        self._metrics.rollout_ended(tokens=len(decoded.tokens))
        now_ns = self._clock.now_ns()
        ended = session.groups.end(running, flight.member, decoded, judged, now_ns)
        if ended is not None:
            self._count_out(session, ended)
            session.changed.set()
        elif self._is_idle_work(session, running):
            running.cut = True
            self._cancel_groups(session, lambda spec: spec is running.spec)

    @staticmethod
    def _is_idle_work(session: Session, running: Running) -> bool:
        """Whether the rest of the group cannot make it useful for training."""
        scored = session.spec.reward is not None and running.spec.scored
        needed = session.spec.minority_min
        return scored and needed > 0 and not running.cut and not running.can_vary(needed)

    # -- reward batches ------------------------------------------------------------------------
    def _count_in(
        self, session: Session, fresh: Sequence[GroupSpec], batches: Sequence[RewardBatch]
    ) -> None:
        for spec in fresh:
            opened = session.batches.setdefault(spec.batch_id, _OpenBatch())
            opened.groups += 1
            opened.cut = False
        for batch in batches:
            self._desk.open_batch(session.key, batch.batch_id, deadline_s=batch.deadline_s)
            opened = session.batches.setdefault(batch.batch_id, _OpenBatch())
            opened.last = opened.last or batch.last
            opened.enough_groups = batch.enough_groups or opened.enough_groups
            opened.only_varied = opened.only_varied or batch.only_varied
        for batch_id in {*(spec.batch_id for spec in fresh), *(one.batch_id for one in batches)}:
            self._cut_if_enough(session, batch_id)
            self._seal_if_done(session, batch_id)

    def _count_out(self, session: Session, group: EndedGroup) -> None:
        batch_id = group.spec.batch_id
        opened = session.batches.get(batch_id)
        if opened is not None:
            opened.groups -= 1
            opened.count(group)
            self._cut_if_enough(session, batch_id)
            self._seal_if_done(session, batch_id)

    def _cut_if_enough(self, session: Session, batch_id: str) -> None:
        """Cancel what is left of a batch that has enough groups."""
        opened = session.batches.get(batch_id)
        if opened is not None and opened.enough and not opened.cut:
            opened.cut = True
            self._cancel_groups(session, lambda spec: spec.batch_id == batch_id)

    def _seal_if_done(self, session: Session, batch_id: str) -> None:
        opened = session.batches.get(batch_id)
        if opened is not None and opened.last and opened.groups == 0:
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
        done = await asyncio.to_thread(
            self._engine.activate, version, mode=mode, timeout_s=HOLD_S_MAX
        )
        self._metrics.weights_activated(pause_s=done.pause_s)
        return done

    def pushed(self, *, kind: str, stage_s: float) -> None:
        """Weights were staged."""
        self._metrics.weights_staged(kind=kind, seconds=stage_s)

    def report(self) -> None:
        """Set the gauges."""
        status = self.status()
        self._metrics.rollouts_seen(
            states={
                "in_flight": status.engine["in_flight"] - status.rewards_waiting,
                "reward": status.rewards_waiting,
                "free": status.engine["slots_free"],
            },
            groups={
                "waiting": status.groups_waiting,
                "running": status.groups_running,
                "ended": status.groups_ended,
            },
            credits={
                name.removesuffix(CREDIT): count
                for name, count in status.engine.items()
                if name.endswith(CREDIT)
            },
        )

    def places(self, tenant_id: TenantId) -> list[Place]:
        """The rollouts of a tenant's sessions, oldest first, up to `ROLLOUTS_LISTED_MAX`."""
        own = (
            (number, flight)
            for number, flight in self._flights.items()
            if flight.session.key.tenant_id == tenant_id
        )
        return [self._place_of(*one) for one in itertools.islice(own, ROLLOUTS_LISTED_MAX)]

    def _place_of(self, number: int, flight: _Flight) -> Place:
        if number in self._unplaced:
            queue = Queue.TRAJECTORY
        elif flight.member.decoded_ns:
            queue = Queue.REWARD
        else:
            queue = queue_of(self._engine, flight.ref)
        return Place(
            session_id=flight.session.key.session_id,
            group_id=flight.running.spec.group_id,
            member=flight.member.index,
            queue=queue,
            submitted_ns=flight.member.submitted_ns,
            decoded_ns=flight.member.decoded_ns,
            ref=flight.ref,
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
            engine={name: getattr(stats, name) for name in ENGINE_COUNTS if hasattr(stats, name)},
        )


def _check_batches(
    session: Session, specs: Sequence[GroupSpec], batches: Sequence[RewardBatch]
) -> None:
    """Refuse prompts with which too many reward batches would stay open."""
    if session.spec.reward is None:
        return
    known = session.batches
    named = {spec.batch_id for spec in specs if not session.groups.is_open(spec.group_id)}
    named |= {batch.batch_id for batch in batches}
    left = {batch_id for batch_id, batch in known.items() if not batch.last}
    left |= named - known.keys()
    left -= {batch.batch_id for batch in batches if batch.last}
    if len(left) > BATCHES_OPEN_MAX:
        raise FailedPrecondition(
            f"the session would have {len(left)} reward batches that are not marked `last`, of at"
            f" most {BATCHES_OPEN_MAX}: mark those that are complete",
            field="batches",
        )


def _result(session: Session, read: ReadGroup) -> str:
    if session.spec.reward is None or not read.group.spec.scored:
        return "unscored"
    return "degenerate" if read.group.summary.degenerate else "varied"


def _decoded(completed: Completed) -> Decoded:
    return Decoded(
        stop=completed.stop,
        tokens=completed.tokens,
        logps=completed.logps,
        versions=completed.policy_versions,
    )


def _judged(flight: _Flight, completed: Completed, why: str) -> Judged:
    if completed.outcome is RolloutOutcome.COMPLETED:
        return flight.member.judged or NOT_ASKED
    if completed.outcome is RolloutOutcome.CANCELLED:
        judged = flight.member.judged
        return judged if judged is not None and judged.reward is None else CANCELLED
    reason = f": {why}" if why and completed.outcome is RolloutOutcome.CRASHED else ""
    return infra_failed(f"the engine ended it as {completed.outcome.name}{reason}")
