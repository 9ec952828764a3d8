"""Trajectories of several turns: nothing that was appended changes; bytes hold all of it."""

from __future__ import annotations

import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.trajectory import (
    NO_VERSION,
    PolicyTurn,
    Segment,
    Speaker,
    TrajectoryTokens,
    VersionRun,
    append_turn,
    continuation,
    pack,
    unpack,
    with_proximal,
)

IDS = st.lists(st.integers(0, 1 << 20), max_size=6)


@st.composite
def policy_turns(draw: st.DrawFn) -> PolicyTurn:
    ids = draw(IDS)
    n = len(ids)
    logp = st.floats(-50, 0, width=32)
    return PolicyTurn(
        ids=ids,
        logp=draw(st.lists(logp, min_size=n, max_size=n)),
        versions=sorted(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> TrajectoryTokens:
    one = TrajectoryTokens.begin(draw(IDS))
    for turn, environment in draw(st.lists(st.tuples(policy_turns(), IDS), max_size=4)):
        one = append_turn(one, turn, environment=environment)
    if draw(st.booleans()):
        one = with_proximal(one, draw(st.integers(0, 9)), [-0.5 * m for m in one.response_mask])
    return one


@given(trajectories(), policy_turns(), IDS)
def test_a_turn_is_appended_and_nothing_before_it_changes(
    before: TrajectoryTokens, turn: PolicyTurn, environment: list[int]
) -> None:
    after = append_turn(before, turn, environment=environment)
    n, m = before.tokens, len(environment)
    assert after.prompt_ids == before.prompt_ids
    for name in ("response_ids", "response_mask", "rollout_logp"):
        assert getattr(after, name)[:n] == getattr(before, name)
    assert after.response_ids[n:].tolist() == [*environment, *turn.ids]
    assert after.response_mask[n:].tolist() == [0] * m + [1] * len(turn.ids)
    assert after.rollout_logp[n:].tolist() == [0.0] * m + list(turn.logp)
    versions = [v for run in after.versions for v in [run.policy_version] * run.tokens]
    assert versions[n:] == [NO_VERSION] * m + list(turn.versions)
    assert len(versions) == after.tokens == sum(s.tokens for s in after.segments)
    assert all(run.tokens for run in after.versions)
    assert all(
        a.policy_version != b.policy_version
        for a, b in zip(after.versions, after.versions[1:], strict=False)
    )
    for mask, logp, version in zip(after.response_mask, after.rollout_logp, versions, strict=True):
        assert mask or (logp == 0 and version == NO_VERSION)
    with pytest.raises(TypeError):
        after.rollout_logp[0:0] = b""  # read-only


@given(trajectories(), IDS)
def test_a_prompt_continues_a_trajectory_only_token_by_token(
    one: TrajectoryTokens, more: list[int]
) -> None:
    context = one.context()
    assert continuation(one, [*context, *more]) == more
    if context:
        assert continuation(one, context[:-1]) is None
        assert continuation(one, [*context[:-1], context[-1] + 1, *more]) is None


def test_segments_and_versions_name_who_made_what() -> None:
    one = TrajectoryTokens.begin([1, 2])
    one = append_turn(one, PolicyTurn(ids=[3, 4], logp=[-1.0, -2.0], versions=[5, 6]))
    one = append_turn(one, PolicyTurn(ids=[7], logp=[-3.0], versions=[6]), environment=[8, 9, 10])
    assert one.segments == (
        Segment(Speaker.POLICY, 2),
        Segment(Speaker.ENVIRONMENT, 3),
        Segment(Speaker.POLICY, 1),
    )
    assert one.versions == (
        VersionRun(5, 1),
        VersionRun(6, 1),
        VersionRun(NO_VERSION, 3),
        VersionRun(6, 1),
    )
    assert (one.turns, one.oldest_version) == (2, 5)
    assert TrajectoryTokens.begin([1]).oldest_version is None


@pytest.mark.parametrize(
    ("turn", "field"),
    [
        ({"ids": [1], "logp": [], "versions": [1]}, "logp"),
        ({"ids": [1], "logp": [-1.0], "versions": []}, "logp"),
        ({"ids": [1], "logp": [float("nan")], "versions": [1]}, "logp"),
        ({"ids": [1], "logp": [-1.0], "versions": [-1]}, "versions"),
        ({"ids": [1 << 31], "logp": [-1.0], "versions": [1]}, "ids"),
    ],
)
def test_a_wrong_turn_names_its_field(turn: dict[str, list[float]], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        append_turn(TrajectoryTokens.begin([1]), PolicyTurn(**turn))  # type: ignore[arg-type]
    assert refused.value.field == field


def test_proximal_log_probs_stand_beside_the_sampled_ones() -> None:
    one = append_turn(
        TrajectoryTokens.begin([1]),
        PolicyTurn(ids=[2], logp=[-1.0], versions=[0]),
        environment=[3],
    )
    other = with_proximal(one, 4, [0.0, -2.0])
    assert other.rollout_logp == one.rollout_logp
    assert other.proximal is not None
    assert (other.proximal.policy_version, other.proximal.logp.tolist()) == (4, [0.0, -2.0])
    for version, wrong in ((4, [-2.0]), (4, [-0.1, -2.0]), (4, [0.0, float("inf")]), (-1, [0, 0])):
        with pytest.raises(InvalidRequest):
            with_proximal(one, version, wrong)
    assert append_turn(other, PolicyTurn(ids=[], logp=[], versions=[])).proximal is None


def same(one: TrajectoryTokens, other: TrajectoryTokens) -> bool:
    if one.proximal is None or other.proximal is None:
        return one == other
    mine, theirs = one.proximal, other.proximal
    return (mine.policy_version, mine.logp.tolist()) == (
        theirs.policy_version,
        theirs.logp.tolist(),
    )


@given(st.lists(trajectories(), max_size=4))
def test_bytes_hold_all_of_it(some: list[TrajectoryTokens]) -> None:
    packed = pack(some)
    again = unpack(packed)
    assert len(again) == len(some)
    assert all(map(same, again, some))
    assert pack(again) == packed


@given(st.lists(trajectories(), min_size=1, max_size=3), st.data())
def test_damaged_bytes_are_a_typed_error_or_trajectories(
    some: list[TrajectoryTokens], data: st.DataObject
) -> None:
    packed = bytearray(pack(some))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    for damaged in (bytes(packed), bytes(packed[:cut])):
        with contextlib.suppress(InvalidRequest):
            unpack(damaged)


def two_packed() -> bytes:
    one = append_turn(
        TrajectoryTokens.begin([1, 2, 3]),
        PolicyTurn(ids=[4, 5, 6], logp=[-1.0, -2.0, -3.0], versions=[0, 0, 1]),
    )
    return pack([one, TrajectoryTokens.begin([9])])


def test_columns_are_aligned_and_viewed_in_place() -> None:
    packed = two_packed()
    (length,) = struct.unpack_from("<Q", packed)
    assert length % 8 == 0
    header = json.loads(packed[8 : 8 + length])
    ends = [0]
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            assert start == ends[-1]  # no gaps, as safetensors wants it
            assert start % {"I64": 8, "I32": 4, "F32": 4, "U8": 1}[entry["dtype"]] == 0
            ends.append(end)
    assert ends[-1] == len(packed) - 8 - length
    numpy = pytest.importorskip("numpy")
    [first, second] = unpack(packed)
    view = numpy.asarray(first.rollout_logp)
    assert view.dtype == numpy.float32
    assert numpy.shares_memory(view, numpy.frombuffer(packed, dtype=numpy.uint8))
    assert second.tokens == 0


def test_a_reader_of_safetensors_sees_the_columns() -> None:
    loaded = pytest.importorskip("safetensors.numpy").load(two_packed())
    assert loaded["response_ids"].tolist() == [4, 5, 6]
    assert loaded["versions"].tolist() == [[0, 2], [1, 1]]
