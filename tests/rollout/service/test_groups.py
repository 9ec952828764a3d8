"""The groups of a session as a state machine: nothing lost, nothing twice, order kept."""

from __future__ import annotations

import array
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from assay.core.errors import Conflict, NotFound, Saturated, TooLarge
from assay.core.outcome import Outcome
from assay.rollout.layout import Stop
from assay.rollout.service.groups import STALE_RETRIES_MAX, Groups
from assay.rollout.service.records import (
    Decoded,
    Decoding,
    GroupSpec,
    Judged,
    NextTurn,
    SessionSpec,
)

OPEN_MAX = 6
STALENESS_MAX = 1


def session(*, retry_stale: bool = False, staleness_max: int | None = STALENESS_MAX) -> SessionSpec:
    return SessionSpec(
        decoding=Decoding(),
        reward=None,
        groups_open_max=OPEN_MAX,
        staleness_max=staleness_max,
        retry_stale=retry_stale,
    )


def group(name: str, k: int = 2, seed: int = 1) -> GroupSpec:
    return GroupSpec(group_id=name, prompt=(1, 2), k=k, seed=seed, decoding=Decoding())


def made(version: int) -> Decoded:
    return Decoded(
        stop=Stop.LENGTH,
        tokens=array.array("i", [7, 8]),
        logps=array.array("f", [-0.5, -1.0]),
        versions=array.array("I", [version, version + 1]),
    )


SCORED = Judged(outcome=Outcome.SCORED, reward=1.0)
CANCELLED = Judged(outcome=Outcome.CANCELLED)


class OneSession(RuleBasedStateMachine):
    """Against a list of what was submitted and is not accounted for yet."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups(session(retry_stale=True))
        self.open: set[str] = set()
        self.dropped = 0
        self.version = 0
        self.given: list[tuple[int, str]] = []
        self.cursor = 0
        self.next_name = 0

    @rule(n=st.integers(1, 3))
    def submit(self, n: int) -> None:
        names = [f"g{self.next_name + i}" for i in range(n)]
        too_many = [group(f"more{i}") for i in range(OPEN_MAX + 1)]
        with pytest.raises(TooLarge):  # however many are open: waiting does not help
            self.groups.accept(too_many)
        if len(self.open) + n > OPEN_MAX:
            with pytest.raises(Saturated):
                self.groups.accept([group(name) for name in names])
            return
        assert len(self.groups.accept([group(name) for name in names])) == n
        assert self.groups.accept([group(name) for name in names]) == []
        self.open |= set(names)
        self.next_name += n

    @precondition(lambda self: self.groups.waiting)
    @rule(room=st.booleans())
    def start(self, room: bool) -> None:
        first = self.groups.waiting[0]
        running = self.groups.start(now_ns=1)
        if not room:
            self.groups.put_back(running)
            assert self.groups.waiting[0] == first

    @precondition(lambda self: self.groups.running)
    @rule(data=st.data())
    def end_one(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.groups.running)))
        running = self.groups.running[name]
        left = [member for member in running.members if member.decoded is None]
        ended = self.groups.end(running, left[0], made(self.version), SCORED, now_ns=2)
        assert (ended is not None) == (len(left) == 1)

    @rule()
    def train(self) -> None:
        self.version += 1

    @rule()
    def cancel_waiting(self) -> None:
        names = {spec.group_id for spec in self.groups.waiting}
        gone = self.groups.end_waiting(lambda _spec: True, CANCELLED, now_ns=3)
        assert {group.spec.group_id for group in gone} == names
        assert not self.groups.waiting

    @rule()
    def read(self) -> None:
        before = self.groups.counts().stale_dropped
        out = self.groups.take(self.version)
        dropped = self.groups.counts().stale_dropped - before
        if out is not None:
            assert out.staleness <= STALENESS_MAX
            self.given.append((out.position, out.group.spec.group_id))
        kept = {s.group_id for s in self.groups.waiting} | {*self.groups.running}
        kept |= {e.spec.group_id for e in self.groups.ended}
        kept |= {r.group.spec.group_id for r in self.groups.read.values()}
        assert len(self.open - kept) == dropped
        self.open &= kept

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        position, _ = data.draw(st.sampled_from(self.given))
        self.groups.acknowledge(position)
        self.cursor = max(self.cursor, position)
        gone = [name for p, name in self.given if p <= self.cursor]
        self.given = [(p, name) for p, name in self.given if p > self.cursor]
        self.open -= set(gone)

    @invariant()
    def every_group_is_in_one_place(self) -> None:
        assert self.groups.counts().open == len(self.open)

    @invariant()
    def what_was_read_comes_again_in_its_order(self) -> None:
        again = [(r.position, r.group.spec.group_id) for r in self.groups.read_again(0)]
        assert again == self.given


TestOneSession = OneSession.TestCase
TestOneSession.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_name_with_other_content_is_refused_and_nothing_is_taken() -> None:
    groups = Groups(session())
    groups.accept([group("a")])
    with pytest.raises(Conflict) as refused:
        groups.accept([group("b"), group("a", seed=2)])
    assert refused.value.field == "prompts[1].group_id"
    assert groups.counts().open == 1


def run(groups: Groups, version: int) -> None:
    running = groups.start(now_ns=1)
    for member in running.members:
        groups.end(running, member, made(version), SCORED, now_ns=2)


def test_a_stale_group_is_dropped_and_counted() -> None:
    groups = Groups(session())
    groups.accept([group("a")])
    run(groups, version=0)
    assert groups.take(version=2) is None
    assert groups.counts().stale_dropped == 1
    assert groups.counts().open == 0
    assert groups.accept([group("a")])  # its name is free again


def test_a_stale_group_is_made_again_with_other_seeds_but_not_for_ever() -> None:
    groups = Groups(session(retry_stale=True))
    groups.accept([group("a", seed=(1 << 64) - 1)])
    seeds = set()
    for turn in range(STALE_RETRIES_MAX + 1):
        seeds.add(groups.waiting[0].seed)
        run(groups, version=turn)
        assert groups.take(version=turn + 5) is None
    assert len(seeds) == STALE_RETRIES_MAX + 1
    assert groups.counts().stale_dropped == 1
    assert groups.counts().open == 0


def test_a_group_without_a_token_is_not_stale() -> None:
    groups = Groups(session(staleness_max=0))
    groups.accept([group("a")])
    groups.end_waiting(lambda _spec: True, CANCELLED, now_ns=1)
    out = groups.take(version=9)
    assert out is not None
    assert out.staleness == 0
    assert {t.judged.outcome for t in out.group.trajectories} == {Outcome.CANCELLED}
    assert out.group.summary.rewards == 0


def test_a_group_is_not_generated_again_for_turns_that_stay_stale() -> None:
    groups = Groups(session(retry_stale=True))
    groups.accept([group("a")])
    run(groups, version=0)
    assert groups.take(version=1) is not None
    turns = tuple(NextTurn(member=m, environment=(9,)) for m in range(2))
    histories = groups.histories("b", "a", [0, 1])
    second = replace(group("b"), continues="a", turns=turns, histories=histories)
    groups.accept([second])
    run(groups, version=3)
    assert groups.take(version=4) is None
    assert groups.counts().stale_dropped == 1
    with pytest.raises(NotFound):
        groups.histories("c", "b", [0])
    groups.acknowledge(1)
    with pytest.raises(NotFound):
        groups.histories("c", "a", [0])
