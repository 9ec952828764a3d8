"""One architecture in virtual time: a discrete-event simulation.

All rollouts that decode advance at one speed, that of a decode step at the present batch size; so
time is kept on two clocks, the run's and the number of decode steps since its start, and a rollout
ends at a fixed reading of the second. A pause stops the second clock. Events at one instant are
handled in the order in which they were scheduled, ends of rollouts first; what can begin, begins
after all of them.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from assay.core.errors import InvalidRequest
from assay.sim.rollout.architecture import Architecture, Fleet, InFlight, Push, Work
from assay.sim.rollout.timeline import Generation, Span, Step, Timeline

EVENTS_MAX = 20_000_000
"""A run with more is refused: its inputs ask for more than is useful."""


@dataclass(slots=True)
class _Group:
    number: int
    left: int
    """Rollouts that have not ended."""
    tokens: float
    oldest: int | None = None
    """The oldest version that one of its rollouts started under."""


@dataclass(slots=True)
class _Rollout:
    group: _Group
    length: float
    """Decode steps that are left when it starts or continues."""


@dataclass(slots=True)
class _Active:
    """A rollout in a slot."""

    rollout: _Rollout
    began: float
    began_steps: float
    """Reading of the clock of decode steps at its start."""
    ends_steps: float
    """Reading at which it ends."""
    version: int


@dataclass(slots=True)
class _Trainer:
    steps: int = 0
    busy: bool = True
    """Preparing, training or sending."""
    ready_at: float = 0.0


@dataclass(slots=True)
class _State:
    """Everything that changes during a run."""

    now: float = 0.0
    steps: float = 0.0
    """Decode steps since the start."""
    paused_from: float | None = None
    active_version: int = 0
    slots: list[_Active | None] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    """Slots without a rollout, as a heap: the lowest number is used first."""
    slot_version: list[int] = field(default_factory=list)
    """With a relay: the version that each slot has."""
    waiting: deque[_Rollout] = field(default_factory=deque)
    complete: deque[_Group] = field(default_factory=deque)
    open_groups: int = 0
    batch_left: int = 0
    """With a barrier: groups that this step still needs."""
    trainer: _Trainer = field(default_factory=_Trainer)
    push_from: float | None = None
    staged_version: int | None = None
    """Weights that wait until their slot has no rollouts."""


class _Run:
    def __init__(self, architecture: Architecture, fleet: Fleet, work: Work, until: float) -> None:
        self.architecture, self.fleet, self.work, self.until = architecture, fleet, work, until
        self.state = _State(
            slots=[None] * fleet.slots,
            free=list(range(fleet.slots)),
            slot_version=[0] * fleet.slots,
        )
        self.timeline = Timeline(
            architecture.name, fleet.slots, fleet.gpus, fleet.payload_bytes, until
        )
        self.timeline.versions.append((0.0, 0))
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._ends: list[tuple[float, int, int, _Active]] = []
        self._serial = itertools.count()
        self._numbers = itertools.count()

    # The clocks.

    def run(self) -> Timeline:
        """Run to the end."""
        self._begin()
        for _ in range(EVENTS_MAX):
            self._start_what_can_start()
            at = min(self._next_end(), self._events[0][0] if self._events else math.inf)
            if at > self.until:
                break
            self._advance(at)
            if at == self.until:
                break
        else:
            raise InvalidRequest(f"more than {EVENTS_MAX} events", field="until")
        self._finish()
        return self.timeline

    def _begin(self) -> None:
        state = self.state
        for _ in range(self.work.warm_groups):
            state.complete.append(_Group(next(self._numbers), 0, 0.0, oldest=0))
        state.open_groups = self.work.warm_groups
        self._note_queue()
        if self.architecture.barrier:
            self._begin_step()
        else:
            self._after(self.fleet.prepare, self._trainer_ready)

    def _after(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.state.now + delay, next(self._serial), action))

    def _decoding(self) -> int:
        return self.fleet.slots - len(self.state.free)

    def _token_time(self) -> float:
        return self.fleet.token_time(self._decoding())

    def _next_end(self) -> float:
        while self._ends and self.state.slots[self._ends[0][2]] is not self._ends[0][3]:
            heapq.heappop(self._ends)  # stopped before its end
        if not self._ends or self.state.paused_from is not None:
            return math.inf
        return self.state.now + (self._ends[0][0] - self.state.steps) * self._token_time()

    def _advance(self, at: float) -> None:
        """Go to `at`, end the rollouts that end there, then handle what was scheduled for it."""
        state, ends = self.state, self._next_end()
        if state.paused_from is None:
            state.steps += (at - state.now) / self._token_time()
        state.now = at
        if ends <= at:
            state.steps = max(state.steps, self._ends[0][0])
        self._end_rollouts()
        while self._events and self._events[0][0] <= at:
            heapq.heappop(self._events)[2]()

    # Rollouts.

    def _submit_group(self) -> bool:
        lengths = next(self.work.groups, None)
        if lengths is None:
            return False
        group = _Group(next(self._numbers), len(lengths), math.fsum(lengths))
        self.state.waiting.extend(_Rollout(group, length) for length in lengths)
        self.state.open_groups += 1
        return True

    def _start_what_can_start(self) -> None:
        state = self.state
        if not self.architecture.barrier:
            self._train_if_ready()
        while state.paused_from is None and state.free:
            if not state.waiting and not self._submitted():
                return
            self._start(state.waiting.popleft(), heapq.heappop(state.free))

    def _submitted(self) -> bool:
        limit = self.work.open_groups_max
        if self.architecture.barrier or (limit is not None and self.state.open_groups >= limit):
            return False
        return self._submit_group()

    def _start(self, rollout: _Rollout, slot: int) -> None:
        state = self.state
        delay = 0.0
        version = state.active_version
        if self.architecture.push is Push.RELAYED and state.slot_version[slot] != version:
            state.slot_version[slot] = version
            delay = self.fleet.flip
            self.timeline.fetches.append((slot, Span(state.now, state.now + delay)))
        # Fetching delays this rollout alone: as decode steps at the present speed.
        steps = delay / self._token_time()
        active = _Active(
            rollout,
            state.now + delay,
            state.steps + steps,
            state.steps + steps + rollout.length,
            version,
        )
        group = rollout.group
        group.oldest = version if group.oldest is None else min(group.oldest, version)
        state.slots[slot] = active
        heapq.heappush(self._ends, (active.ends_steps, next(self._serial), slot, active))

    def _end_rollouts(self) -> None:
        state, touched = self.state, False
        while self._ends and self._ends[0][0] <= state.steps:
            _, _, slot, active = heapq.heappop(self._ends)
            if state.slots[slot] is not active:
                continue
            self._leave(slot, active, ended=True)
            group = active.rollout.group
            group.left -= 1
            if not group.left:
                touched = True
                state.complete.append(group)
                self.timeline.groups_done += 1
                state.batch_left -= 1
        if touched:
            self._note_queue()
            if self.architecture.barrier and state.batch_left <= 0 and not state.trainer.busy:
                self._stop_rest()
                self._train()
        self._activate_staged()

    def _leave(self, slot: int, active: _Active, *, ended: bool) -> None:
        state = self.state
        state.slots[slot] = None
        heapq.heappush(state.free, slot)
        if state.now > active.began:
            number = active.rollout.group.number
            self.timeline.generations.append(
                Generation(active.began, state.now, slot, number, active.version, ended)
            )

    # A step behind a barrier.

    def _begin_step(self) -> None:
        state, needed = self.state, self.work.groups_per_step
        state.trainer.busy = False
        state.trainer.ready_at = state.now
        state.batch_left = needed - len(state.complete)
        wanted = math.ceil(needed * (1 + self.architecture.over_provision))
        begun = len({id(r.group) for r in state.waiting}) + len(state.complete)
        for _ in range(wanted - begun):
            if not self._submit_group():
                break
        if state.batch_left <= 0:
            self._train()

    def _stop_rest(self) -> None:
        """Enough groups have ended: the others are kept for the next step, or discarded."""
        state = self.state
        rest = list(state.waiting)
        state.waiting.clear()
        stopped: dict[int, _Group] = {id(r.group): r.group for r in rest}
        for slot, active in enumerate(state.slots):
            if active is None:
                continue
            done = max(0.0, state.steps - active.began_steps)
            self._leave(slot, active, ended=False)
            active.rollout.length -= done
            stopped[id(active.rollout.group)] = active.rollout.group
            rest.insert(0, active.rollout)
        if self.architecture.resume:
            state.waiting.extend(rest)
            return
        unused = sum(r.length for r in rest)
        self.timeline.groups_cut += len(stopped)
        state.open_groups -= len(stopped)
        self.timeline.tokens_discarded += sum(g.tokens for g in stopped.values()) - unused

    # The trainer.

    def _trainer_ready(self) -> None:
        self.state.trainer.busy = False
        self.state.trainer.ready_at = self.state.now

    def _train_if_ready(self) -> None:
        state, needed = self.state, self.work.groups_per_step
        if state.trainer.busy:
            return
        self._discard_stale()
        if len(state.complete) >= needed:
            self._train()

    def _discard_stale(self) -> None:
        state, limit = self.state, self.work.staleness_max
        if limit is None:
            return
        fresh = [g for g in state.complete if state.trainer.steps - (g.oldest or 0) <= limit]
        if len(fresh) == len(state.complete):
            return
        stale = [g for g in state.complete if state.trainer.steps - (g.oldest or 0) > limit]
        self.timeline.groups_stale += len(stale)
        self.timeline.tokens_discarded += sum(g.tokens for g in stale)
        state.open_groups -= len(stale)
        state.complete = deque(fresh)
        self._note_queue()

    def _train(self) -> None:
        state, trainer = self.state, self.state.trainer
        taken = [state.complete.popleft() for _ in range(self.work.groups_per_step)]
        state.open_groups -= len(taken)
        self._note_queue()
        trainer.busy = True
        step = Step(
            state.now,
            state.now + self.fleet.train,
            trainer.steps,
            tuple(trainer.steps - (group.oldest or 0) for group in taken),
            sum(group.tokens for group in taken),
            state.now - trainer.ready_at,
        )
        self.timeline.steps.append(step)
        self._after(self.fleet.train, self._trained)

    def _trained(self) -> None:
        state = self.state
        state.trainer.steps += 1
        pushes = not state.trainer.steps % self.fleet.push_every and state.push_from is None
        if pushes:
            self._push()
        if not self.architecture.barrier:
            held = pushes and self.architecture.push is not Push.RELAYED
            sending = self.fleet.push if held else 0.0
            self._after(max(sending, self.fleet.prepare), self._trainer_ready)
        elif not pushes:
            self._begin_step()

    # Weights.

    def _push(self) -> None:
        state, version = self.state, self.state.trainer.steps
        state.push_from = state.now
        if self.architecture.push is Push.PAUSED:
            state.paused_from = state.now
        self._after(self.fleet.push, lambda: self._sent(version))

    def _sent(self, version: int) -> None:
        state = self.state
        if self.architecture.push is Push.PAUSED:
            self._after(self.fleet.flip, lambda: self._resume(version))
        elif self.architecture.push is Push.RELAYED:
            self._note_push(version)
        else:
            state.staged_version = version
            self._activate_staged()

    def _activate_staged(self) -> None:
        """Exchange the slots; with `KEEP` not before the active one's predecessor is unused."""
        state = self.state
        if state.staged_version is None:
            return
        versions = {a.version for a in state.slots if a is not None}
        if self.architecture.in_flight is InFlight.KEEP and any(
            version < state.active_version for version in versions
        ):
            return
        version, state.staged_version = state.staged_version, None
        state.paused_from = state.now
        self._after(self.fleet.flip, lambda: self._resume(version))

    def _resume(self, version: int) -> None:
        self._end_pause()
        self._note_push(version)
        if self.architecture.in_flight is InFlight.RETRACT:
            self._refill()
        if self.architecture.barrier:
            self._begin_step()

    def _end_pause(self) -> None:
        state = self.state
        if state.paused_from is not None and state.now > state.paused_from:
            self.timeline.pauses.append(Span(state.paused_from, state.now))
        state.paused_from = None

    def _note_push(self, version: int) -> None:
        state = self.state
        self.timeline.pushes.append(Span(state.push_from or 0.0, state.now))
        self.timeline.versions.append((state.now, version))
        state.active_version, state.push_from = version, None

    def _refill(self) -> None:
        """Every rollout in flight computes its prefix again."""
        state = self.state
        for slot, active in enumerate(state.slots):
            if active is not None:
                done = max(0.0, state.steps - active.began_steps)
                active.ends_steps += self.fleet.refill * done
                entry = (active.ends_steps, next(self._serial), slot, active)
                self._ends = [e for e in self._ends if e[3] is not active]
                self._ends.append(entry)
        heapq.heapify(self._ends)

    # Records.

    def _note_queue(self) -> None:
        queue, now, depth = self.timeline.queue, self.state.now, len(self.state.complete)
        queue.append((now, depth))

    def _finish(self) -> None:
        state = self.state
        state.now = self.until
        self._end_pause()
        self.timeline.steps = [s for s in self.timeline.steps if s.start < self.until]
        for slot, active in enumerate(state.slots):
            if active is not None:
                self._leave(slot, active, ended=False)


def simulate(architecture: Architecture, fleet: Fleet, work: Work, until: float) -> Timeline:
    """Simulate from time 0 to `until`.

    Raises:
        InvalidRequest: `until` is not positive, or it asks for too many events.
    """
    if not 0 < until < math.inf:
        raise InvalidRequest("must be a positive time", field="until")
    return _Run(architecture, fleet, work, until).run()
