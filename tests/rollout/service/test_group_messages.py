"""A group arrives as it was sent, whether records or messages say what its trajectories are."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("numpy")

from hypothesis import given
from hypothesis import strategies as st

from assay.client.rollouts import messages
from assay.core.errors import InvalidRequest
from assay.core.group import summarize
from assay.core.ids import GroupId
from assay.core.outcome import Outcome
from assay.core.tools.trajectory_record import RECORD_BYTES, TrajectoryRecord, packed_records
from assay.core.trajectory import PolicyTurn, TrajectoryTokens, append_turn
from assay.core.verdict import Evidence
from assay.rollout.layout import Stop
from assay.rollout.service.group_messages import groups
from assay.rollout.service.groups import ReadGroup
from assay.rollout.service.records import Decoding, EndedGroup, GroupSpec, Judged, Trajectory
from assay.v1 import rollout_pb2

SCORED = {Outcome.SCORED, Outcome.RESOURCE_LIMIT}
times = st.integers(0, (1 << 63) - 1)


@st.composite
def tokens(draw: st.DrawFn, prompt: list[int]) -> TrajectoryTokens:
    made = TrajectoryTokens.begin(prompt)
    for _ in range(draw(st.integers(0, 3))):
        n = draw(st.integers(0, 5))
        turn = PolicyTurn(
            ids=draw(st.lists(st.integers(0, (1 << 31) - 1), min_size=n, max_size=n)),
            logp=draw(st.lists(st.floats(-100, 0, width=32), min_size=n, max_size=n)),
            versions=draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)),
        )
        environment = draw(st.lists(st.integers(0, 9), max_size=3))
        made = append_turn(made, turn, environment=environment)
    return made


@st.composite
def judgements(draw: st.DrawFn) -> Judged:
    outcome = draw(st.none() | st.sampled_from(list(Outcome)))
    reward = draw(st.floats(allow_nan=False)) if outcome in SCORED else None
    evidence = draw(st.sampled_from([Evidence(), Evidence(), Evidence(error="no brackets")]))
    return Judged(
        outcome=outcome,
        reward=reward,
        evidence=evidence,
        asked_ns=draw(times),
        stored_ns=draw(times),
    )


@st.composite
def read_groups(draw: st.DrawFn) -> ReadGroup:
    prompt = draw(st.lists(st.integers(0, 99), min_size=1, max_size=4))
    found = []
    for member in range(draw(st.integers(1, 4))):
        trajectory = Trajectory(
            member=member,
            seed=draw(st.integers(0, (1 << 64) - 1)),
            tokens=draw(tokens(prompt)),
            stop=draw(st.sampled_from(list(Stop))),
            judged=draw(judgements()),
            attempts=draw(st.integers(0, 9)),
            submitted_ns=draw(times),
            decoded_ns=draw(times),
            ended_ns=draw(times),
        )
        found.append(trajectory)
    spec = GroupSpec(
        group_id="g",
        prompt=tuple(prompt),
        k=len(found),
        seed=0,
        decoding=Decoding(max_tokens=8),
        reference_json=b"",
        batch_id="",
        scored=True,
    )
    rewards = [None for _ in found]
    ended = EndedGroup(
        spec=spec, trajectories=tuple(found), summary=summarize(GroupId("g"), rewards)
    )
    return ReadGroup(position=7, group=ended, staleness=draw(st.integers(0, 9)))


@given(sent=read_groups())
def test_records_say_what_messages_say(sent: ReadGroup) -> None:
    [as_records], [as_messages] = (
        rollout_pb2.StreamGroupsResponse.FromString(
            groups([sent], records=records).SerializeToString()
        ).groups
        for records in (True, False)
    )
    arrived = messages.group(as_records, 7)
    assert arrived == messages.group(as_messages, 7)
    assert as_messages.records == b""
    assert len(as_records.records) == RECORD_BYTES * len(arrived.trajectories)
    for one, was in zip(arrived.trajectories, sent.group.trajectories, strict=True):
        assert one.tokens == was.tokens
        judged = was.judged
        assert (one.reward, one.outcome) == (judged.reward, judged.outcome)
        assert one.evidence.error == judged.evidence.error
        assert (one.reward_asked_ns, one.reward_stored_ns) == (judged.asked_ns, judged.stored_ns)
        for name in ("member", "seed", "attempts", "submitted_ns", "decoded_ns", "ended_ns"):
            assert getattr(one, name) == getattr(was, name)


def test_a_plain_trajectory_has_no_message_beside_its_record() -> None:
    turn = PolicyTurn(ids=[1, 2], logp=[-1.0, -2.0], versions=[3, 3])
    one = Trajectory(
        member=0,
        seed=1,
        tokens=append_turn(TrajectoryTokens.begin([5]), turn),
        stop=Stop.LENGTH,
        judged=Judged(outcome=Outcome.SCORED, reward=0.5),
        attempts=1,
        submitted_ns=2,
        decoded_ns=3,
        ended_ns=4,
    )
    spec = GroupSpec(
        group_id="g",
        prompt=(5,),
        k=1,
        seed=1,
        decoding=Decoding(max_tokens=2),
        reference_json=b"",
        batch_id="",
        scored=True,
    )
    ended = EndedGroup(spec=spec, trajectories=(one,), summary=summarize(GroupId("g"), [0.5]))
    [message] = groups([ReadGroup(position=1, group=ended, staleness=0)], records=True).groups
    assert len(message.trajectories) == 0
    assert message.records == struct.pack(
        "<iii4BdQqqqqqq",
        *(0, 2, 1),  # member, tokens, attempts
        *(rollout_pb2.FINISH_REASON_LENGTH, 1, 1, 0),  # outcome SCORED, a reward
        *(0.5, 1, 3),  # reward, seed, version
        *(2, 3, 4, 0, 0),
    ), "the layout in rollout.proto, which clients in other languages read"


@pytest.mark.parametrize("size", [1, RECORD_BYTES - 1, RECORD_BYTES + 1])
def test_half_a_record_is_refused(size: int) -> None:
    record = TrajectoryRecord._make([0] * len(TrajectoryRecord._fields))
    data = (packed_records([record]) * 2)[:size]
    with pytest.raises(InvalidRequest) as refused:
        messages.group(rollout_pb2.Group(records=data), 1)
    assert refused.value.field == "records"
