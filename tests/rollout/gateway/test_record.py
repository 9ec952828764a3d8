"""The trajectories of a session as a state machine: joins, forks, releases, drift."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.trajectory import PolicyTurn, Speaker
from assay.rollout.gateway.record import Placed, PlacedTurn, Turn, TurnRecord

TURN = Turn(
    how=Placed.STARTED,
    drifted=False,
    finish_reason="stop",
    tokens=1,
    received_ns=1,
    submitted_ns=2,
    decoded_ns=3,
)


@dataclass
class Agents:
    """What agents did, and what has to be in the record therefore."""

    record: TurnRecord = field(default_factory=TurnRecord)
    fresh: count[int] = field(default_factory=lambda: count(1))
    open_: list[PlacedTurn] = field(default_factory=list)
    made: list[tuple[tuple[int, ...], list[int]]] = field(default_factory=list)
    """Of each committed turn: what the engine was given, what it made."""

    def tokens(self, n: int) -> list[int]:
        return [next(self.fresh) for _ in range(n)]

    def continue_exactly(self, which: int, n: int) -> None:
        points = self.record._points
        before = self.record.context(points[which % len(points)]) if points else []
        prompt = [*before, *self.tokens(n)]
        place = self.record.place(prompt, self.record.continued_exactly(prompt))
        assert list(place.prompt) == prompt
        assert not place.drifted
        self.open_.append(place)

    def continue_drifted(self, which: int, n: int) -> None:
        points = self.record._points
        if not points:
            return
        at = points[which % len(points)]
        added = self.tokens(n)
        prompt = [-token for token in self.record.context(at)] + added
        place = self.record.place(prompt, at, added)
        assert list(place.prompt) == [*self.record.context(at), *added]
        assert place.drifted
        self.open_.append(place)

    def commit(self, which: int, n: int) -> None:
        if self.open_:
            place = self.open_.pop(which % len(self.open_))
            ids = self.tokens(n)
            policy = PolicyTurn(ids=ids, logp=[-0.5] * n, versions=[len(self.made)] * n)
            self.record.commit(place, policy, TURN)
            self.made.append((place.prompt, ids))

    def release(self, which: int, n: int) -> None:
        del n
        if self.open_:
            self.record.release(self.open_.pop(which % len(self.open_)))

    def check(self) -> None:
        trained: list[int] = []
        contexts = []
        for branch in self.record.branches:
            tokens = branch.tokens
            whole = tokens.context()
            assert len(whole) * 4 == len(branch.raw)
            at = len(tokens.prompt_ids)
            for segment in tokens.segments:
                if segment.speaker is Speaker.POLICY:
                    part = whole[at : at + segment.tokens]
                    trained += part
                    contexts.append((tuple(whole[:at]), part))
                at += segment.tokens
            columns = zip(tokens.response_mask, tokens.rollout_logp, strict=True)
            assert all((mask == 1) == (logp == -0.5) for mask, logp in columns)
        assert sorted(trained) == sorted(token for _, ids in self.made for token in ids)
        assert sorted(contexts) == sorted(self.made)
        counts = self.record.counts
        assert counts.started + counts.joined + counts.forked == len(self.made)
        assert counts.started + counts.forked == len(self.record.branches)
        held = sum(len(branch.raw) // 4 for branch in self.record.branches)
        assert self.record.tokens == held


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["continue_exactly", "continue_drifted", "commit", "commit", "release"]),
        st.integers(0, 20),
        st.integers(1, 3),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_each_sampled_token_is_trained_once_after_what_the_engine_was_given(
    steps: list[tuple[str, int, int]],
) -> None:
    agents = Agents()
    for name, which, n in steps:
        getattr(agents, name)(which, n)
    agents.check()


def commit(
    record: TurnRecord, prompt: list[int], ids: list[int], digest: bytes | None = None
) -> PlacedTurn:
    place = record.place(prompt, record.continued_exactly(prompt))
    policy = PolicyTurn(ids=ids, logp=[-1.0] * len(ids), versions=[0] * len(ids))
    record.commit(place, policy, TURN, digest=digest)
    return place


def test_a_continuation_joins_and_a_second_one_forks() -> None:
    record = TurnRecord()
    assert commit(record, [1, 2], [3]).how is Placed.STARTED
    first = record.place([1, 2, 3, 4], record.continued_exactly([1, 2, 3, 4]))
    second = record.place([1, 2, 3, 5], record.continued_exactly([1, 2, 3, 5]))
    assert (first.how, second.how) == (Placed.JOINED, Placed.FORKED)
    record.release(first)  # its caller disconnected: the end of the trajectory is free again
    third = record.place([1, 2, 3, 6], record.continued_exactly([1, 2, 3, 6]))
    assert third.how is Placed.JOINED


def test_an_earlier_point_is_a_fork_whose_prompt_is_all_before_it() -> None:
    record = TurnRecord()
    commit(record, [1], [2, 3])
    commit(record, [1, 2, 3, 4], [5])
    assert commit(record, [1, 2, 3, 9], [10]).how is Placed.FORKED
    fork = record.branches[1]
    assert list(fork.tokens.prompt_ids) == [1, 2, 3, 9]
    assert list(fork.tokens.response_mask) == [1]
    assert fork.parent is not None
    assert (fork.parent.trajectory, fork.parent.position) == (0, 3)


def test_the_same_prompt_again_starts_another_trajectory() -> None:
    record = TurnRecord()
    commit(record, [1], [2])
    assert commit(record, [1], [2]).how is Placed.STARTED
    # Two equal ends: the one that nothing continues is joined.
    assert commit(record, [1, 2, 3], [4]).how is Placed.JOINED
    assert commit(record, [1, 2, 5], [6]).how is Placed.JOINED
    assert [len(branch.turns) for branch in record.branches] == [2, 2]


def test_a_conversation_is_found_by_its_deepest_digest() -> None:
    record = TurnRecord()
    commit(record, [1], [2], digest=b"one")
    commit(record, [1, 2, 3], [4], digest=b"two")
    found = record.continued_by_digest([b"q", b"one", b"q", b"two", b"new"])
    assert found is not None
    assert (found[0].position, found[1]) == (4, 4)
    assert record.continued_by_digest([b"q", b"one"]) is None, "nothing follows"


@given(
    st.lists(st.integers(0, 2), max_size=6),
    st.lists(st.integers(0, 2), max_size=6),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_the_deepest_point_that_a_prompt_begins_with_is_found(
    first: list[int], more: list[int], turns: list[list[int]]
) -> None:
    """Against a comparison of lists, also where tokens were written otherwise in the middle."""
    record, prompts = TurnRecord(), [[7, *first]]
    for made in turns:
        place = record.place(prompts[-1], record.continued_exactly(prompts[-1]))
        policy = PolicyTurn(ids=made, logp=[-1.0] * len(made), versions=[0] * len(made))
        record.commit(place, policy, TURN)
        prompts.append([*place.prompt, *made, 9])
    for prompt in (*prompts, [*prompts[-1], *more], [7, *more], [*prompts[0], *more], [*more]):
        points = [p for p in record._points if p.position < len(prompt)]
        fits = [p for p in points if prompt[: p.position] == record.context(p)]
        expected = max((p.position for p in fits), default=None)
        found = record.continued_exactly(prompt)
        assert (found and found.position) == expected
