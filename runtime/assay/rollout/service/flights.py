"""Rollouts in the engine: groups are started, responses handed in, rewards attached, members ended.

Everything here runs on the event loop; the engine's calls are short and never wait.

Invariants:
  - each started member ends once, with one outcome, and a reward only if a judge gave one;
  - a rollout keeps its slot in the engine until its reward arrives, is given up, or is not needed;
  - while another tenant has groups that have not ended, a tenant's groups start only in its share
  of the slots: one whose rewards do not come leaves the rest to the others.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter, deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from assay.core.errors import Saturated
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.rollout.errors import (
    EngineSaturated,
    InvalidRollout,
    Limit,
    RolloutGone,
    WorkerCrashed,
)
from assay.rollout.layout import RolloutOutcome
from assay.rollout.service.inspection import (
    ROLLOUTS_LISTED_MAX,
    QueueName,
    RolloutPlace,
    last_error,
    queue_of,
)
from assay.rollout.service.records import NOT_ASKED, NOT_DECODED, Decoded, Judged
from assay.rollout.service.rewards import Response, infra_failed
from assay.rollout.service.sessions import TENANT_SHARE, Turns, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assay.core.errors import AssayError
    from assay.core.ids import TenantId
    from assay.edge.clock import Clock
    from assay.edge.metrics import Metrics
    from assay.rollout.interface.rollout_engine import RolloutEngine
    from assay.rollout.interface.rollouts import Completed, RolloutRef, ScoreRequest
    from assay.rollout.service.groups import GroupMember, Running
    from assay.rollout.service.records import EndedGroup, GroupSpec, SessionKey
    from assay.rollout.service.rewards import RewardDesk
    from assay.rollout.service.sessions import Batches, Session

ATTEMPTS_MAX: Final = 2
"""Generation attempts of a rollout that failed in the engine."""

CANCELLED: Final = Judged(outcome=Outcome.CANCELLED)


@dataclass(slots=True, kw_only=True)
class _Flight:
    """A rollout in the engine."""

    session: Session
    running: Running
    member: GroupMember
    ref: RolloutRef


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


class Flights:
    """See the module."""

    def __init__(
        self,
        *,
        engine: RolloutEngine,
        desk: RewardDesk,
        text_of: Callable[[Sequence[int]], bytes],
        clock: Clock,
        metrics: Metrics,
        sessions: Mapping[SessionKey, Session],
        batches: Batches,
    ) -> None:
        """Arguments are those of `RolloutService`, its sessions and their reward batches."""
        self._engine = engine
        self._desk = desk
        self._text_of = text_of
        self._clock = clock
        self._metrics = metrics
        self._sessions = sessions
        self._batches = batches
        self._turns = Turns()
        self._flights: dict[int, _Flight] = {}
        self._held: Counter[TenantId] = Counter()
        """Slots of each tenant."""
        self._share = round(engine.stats().slots_free * TENANT_SHARE)
        self._numbers = 0
        self._unplaced: dict[int, float] = {}
        """Rewards that did not fit into the engine yet."""
        self._guest: Guest | None = None
        self._starters: deque[Callable[[], Start]] = deque([self._start_group])
        self.down: AssayError | None = None
        """Why the engine makes no more tokens; `None`: it does."""

    def add_guest(self, guest: Guest) -> None:
        self._guest = guest
        self._starters.append(guest.start_next)

    def add_session(self, key: SessionKey) -> None:
        """Start its groups from now on, in turn with those of the others."""
        self._turns.add(key)

    def remove_session(self, key: SessionKey) -> None:
        """Start no more of its groups."""
        self._turns.remove(key)

    def on_ready(self, responses: Sequence[ScoreRequest], ended: Sequence[Completed]) -> None:
        """See `Listener`."""
        for response in responses:
            self._hand_in(response)
        for completed in ended:
            self._end(completed)
        for number, reward in list(self._unplaced.items()):
            self._place(number, reward)
        self.start_waiting()

    def on_engine_failed(self, error: AssayError) -> None:
        """See `Listener`: rollouts in the engine end as INFRA_FAILED."""
        self.down = error
        if self._guest is not None:
            self._guest.on_engine_failed(error)
        for number, flight in list(self._flights.items()):
            self._landed(number)
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

    def start_waiting(self) -> None:
        """Start groups, and a guest's work, in turn until the engine is full."""
        idle = 0
        while self.down is None and idle < len(self._starters):
            start = self._starters[0]()
            if start is Start.NO_ROOM:
                return
            self._starters.rotate(-1)
            idle = 0 if start is Start.STARTED else idle + 1

    def _start_group(self) -> Start:
        """Start one waiting group; see `Turns`."""
        if not self._sessions:  # turns of agents only: this is tried three times for each
            return Start.NONE_WAITS
        busy = functools.cache(self._busy)  # looked for at most once for all sessions
        key = self._turns.first(functools.partial(self._may_start, busy))
        if key is None:
            return Start.NONE_WAITS
        session = self._sessions[key]
        # Looked at before the group is made ready: this is tried after every completion.
        room = self._engine.stats().slots_free >= session.groups.waiting[0].k
        if not room or not self._start(session):
            return Start.NO_ROOM
        self._turns.taken()
        return Start.STARTED

    def _may_start(self, busy: Callable[[], frozenset[TenantId]], key: SessionKey) -> bool:
        """Whether a group of the session waits, and its tenant has not had its share or is alone.

        `busy`: see `_busy`.
        """
        waiting = self._sessions[key].groups.waiting
        if not waiting:
            return False
        held = self._held[key.tenant_id]
        if not held or held + waiting[0].k <= self._share:
            return True
        return not busy() - {key.tenant_id}

    def _busy(self) -> frozenset[TenantId]:
        """Two tenants with groups that have not ended, or all of them where there are fewer."""
        found: set[TenantId] = set()
        for key, one in self._sessions.items():
            if one.groups.waiting or one.groups.running:
                found.add(key.tenant_id)
                if len(found) == 2:
                    break
        return frozenset(found)

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
            member.number = number
            self._flies(number, _Flight(session=session, running=running, member=member, ref=ref))
        if session.spec.reward is not None and running.spec.scored:
            self._batches.started(session, running.spec)
        return True

    def _refuse(self, session: Session, running: Running, error: InvalidRollout) -> None:
        judged = Judged(outcome=Outcome.REJECTED_INVALID, evidence=Evidence(error=error.message))
        now_ns = self._clock.now_ns()
        for member in running.members:
            ended = session.groups.end(running, member, NOT_DECODED, judged, now_ns)
            if ended is not None:
                self._group_ended(session, ended)
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
        self,
        session: Session,
        spec: GroupSpec,
        members: Sequence[GroupMember],
        numbers: Sequence[int],
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
        ago_ns = self._clock.monotonic_ns() - request.decoded_ns
        flight.member.decoded_ns = self._clock.now_ns() - ago_ns
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
            batch_id = batch_of(flight.session, spec)
            self._desk.hand_in(flight.session.key, batch_id, response)
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
        flight = self._landed(completed.user_id)
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
        """Generate one member of a group again; the group keeps its other members."""
        number, member = self._next_number(), flight.member
        try:
            [ref] = self._give(flight.session, flight.running.spec, [member], [number])
        except (EngineSaturated, WorkerCrashed):
            return False
        self._metrics.rollout_retried()
        member.attempts += 1
        member.number = number
        member.judged = None
        member.decoded_ns = 0
        again = _Flight(session=flight.session, running=flight.running, member=member, ref=ref)
        self._flies(number, again)
        return True

    def _flies(self, number: int, flight: _Flight) -> None:
        self._flights[number] = flight
        self._held[flight.session.key.tenant_id] += 1

    def _landed(self, number: int) -> _Flight | None:
        flight = self._flights.pop(number, None)
        if flight is not None:
            self._held[flight.session.key.tenant_id] -= 1
            self._held += Counter()  # without those that hold none
        return flight

    def _settle(self, flight: _Flight, decoded: Decoded, judged: Judged) -> None:
        session, running = flight.session, flight.running
        self._metrics.rollout_ended(tokens=len(decoded.tokens))
        now_ns = self._clock.now_ns()
        ended = session.groups.end(running, flight.member, decoded, judged, now_ns)
        if ended is not None:
            self._group_ended(session, ended)
            session.changed.set()
        elif self._is_idle_work(session, running):
            running.cut = True
            self._cancel_running(running)

    @staticmethod
    def _is_idle_work(session: Session, running: Running) -> bool:
        """Whether the rest of the group cannot make it useful for training."""
        scored = session.spec.reward is not None and running.spec.scored
        needed = session.spec.minority_min
        return scored and needed > 0 and not running.cut and not running.can_vary(needed)

    def cancel_groups(self, session: Session, chosen: Callable[[GroupSpec], bool]) -> int:
        """End the chosen groups; the desk withdraws their reward requests as they end."""
        cancelled = self._end_waiting(session, chosen, CANCELLED)
        chosen_running = [one for one in session.groups.running.values() if chosen(one.spec)]
        return cancelled + sum(map(self._cancel_running, chosen_running))

    def _cancel_running(self, running: Running) -> int:
        """Request the end of its rollouts; return how many have not ended."""
        found = (self._flights.get(member.number) for member in running.members)
        flights = [flight for flight in found if flight is not None]
        for flight in flights:
            self._cancel(flight)
        return len(flights)

    def _end_waiting(
        self, session: Session, chosen: Callable[[GroupSpec], bool], judged: Judged
    ) -> int:
        gone = session.groups.end_waiting(chosen, judged, self._clock.now_ns())
        for group in gone:
            self._group_ended(session, group)
        session.changed.set()
        return sum(group.spec.k for group in gone)

    def end_enough(self, session: Session, batch_ids: Sequence[str]) -> None:
        """Cancel what is left of batches that have enough groups."""
        for batch_id in batch_ids:
            self.cancel_groups(session, functools.partial(_is_of_batch, batch_id))

    def _group_ended(self, session: Session, group: EndedGroup) -> None:
        self.end_enough(session, self._batches.group_ended(session, group))

    def places(self, tenant_id: TenantId) -> list[RolloutPlace]:
        """The rollouts of a tenant's sessions, oldest first, up to `ROLLOUTS_LISTED_MAX`."""
        own = (
            (number, flight)
            for number, flight in self._flights.items()
            if flight.session.key.tenant_id == tenant_id
        )
        return [self._place_of(*one) for one in itertools.islice(own, ROLLOUTS_LISTED_MAX)]

    def _place_of(self, number: int, flight: _Flight) -> RolloutPlace:
        if number in self._unplaced:
            queue = QueueName.TRAJECTORY
        elif flight.member.decoded_ns:
            queue = QueueName.REWARD
        else:
            queue = queue_of(self._engine, flight.ref)
        return RolloutPlace(
            session_id=flight.session.key.session_id,
            group_id=flight.running.spec.group_id,
            member=flight.member.index,
            queue=queue,
            submitted_ns=flight.member.submitted_ns,
            decoded_ns=flight.member.decoded_ns,
            ref=flight.ref,
        )


def _is_of_batch(batch_id: str, spec: GroupSpec) -> bool:
    return spec.batch_id == batch_id


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
