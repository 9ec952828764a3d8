"""The eight boundaries of a rollout, stamped by the kernel with the device's clock and by the host
with its own, on the host build."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.cuda.building import ended, host_engine, tiny

from assay.rollout import InvalidRollout
from assay.rollout.cuda.link import Instant
from assay.rollout.cuda.watch import Alignment, TraceLog
from assay.rollout.layout import Event
from assay.rollout.local.trace import PAIRS, spans
from assay.rollout.service.inspection import Traced

if TYPE_CHECKING:
    from assay.rollout.cuda.engine import CudaEngine

LIFE = [one for one in Event if one not in {Event.STEP_BEGIN, Event.STEP_END}]
instants = st.lists(
    st.tuples(st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1
)


@given(st.integers(-(10**15), 10**15), instants)
def test_the_clocks_difference_lies_between_the_bounds_that_round_trips_leave(
    difference: int, trips: list[tuple[int, int, int]]
) -> None:
    clock = Alignment()
    for at, there, back in trips:
        device = at + there
        clock = clock.with_instant(
            device, sent=at + difference, received=device + back + difference
        )
    assert clock.low_ns is not None
    assert clock.high_ns is not None
    assert clock.low_ns <= difference <= clock.high_ns
    assert clock.error_ns is not None
    assert abs(clock.offset_ns - difference) <= clock.error_ns
    assert clock.error_ns <= -(-min(there + back for _, there, back in trips) // 2)


def test_a_clock_that_drifts_is_aligned_by_the_instant_that_shows_it_alone() -> None:
    clock = Alignment().with_instant(100, sent=1_000, received=1_010)
    drifted = clock.with_instant(200, sent=1_200, received=1_210)
    assert (drifted.low_ns, drifted.high_ns) == (1_000, 1_010)
    assert Alignment().with_instant(5, received=9).offset_ns == 4
    assert Alignment().with_instant(5, received=9).error_ns is None


def run(engine: CudaEngine, groups: int) -> None:
    for at in range(groups):
        engine.submit([at, *range(20)], max_tokens=3, seeds=range(4))
        ended(engine, 4)


def test_every_rollout_has_all_eight_pairs_in_the_order_of_its_life() -> None:
    with host_engine(tiny()) as engine:
        assert isinstance(engine, Traced)
        engine.set_trace(on=True)
        run(engine, 3)
        records, following, lost = engine.read_trace()
        error = engine.clock_error_ns
    assert (following, lost) == (len(records), 0)
    assert {one.pair.name for one in spans(records)} == {pair.name for pair in PAIRS}
    assert error is not None
    by_rollout: dict[tuple[int, int], dict[int, int]] = {}
    for one in records:
        if one.event in LIFE:
            by_rollout.setdefault((one.slot, one.generation), {})[one.event] = one.ticks
    assert len(by_rollout) == 12
    for seen in by_rollout.values():
        life = [seen[event] for event in LIFE]
        assert all(b - a >= -2 * error for a, b in pairwise(life)), seen


def test_a_rollout_without_a_reward_is_done_without_one() -> None:
    with host_engine(tiny()) as engine:
        engine.set_trace(on=True)
        engine.submit([1, 2], max_tokens=2, seeds=[1], want_reward=False)
        ended(engine, 1)
        records, _, _ = engine.read_trace()
    events = {one.event for one in records}
    assert {Event.DECODE_DONE, Event.TRAJECTORY_DONE, Event.OBSERVED} <= events
    assert not {Event.REWARD_POSTED, Event.SCORED, Event.TRAJECTORY_TAKEN} & events


def test_the_newest_instants_come_in_order_and_the_rest_is_counted() -> None:
    with host_engine(tiny(), trace_events_max=64) as engine:
        run(engine, 1)
        assert engine.read_trace() == ([], 0, 0), "nothing is recorded before it is asked for"
        engine.set_trace(on=True)
        position, read, lost_in_all = 0, 0, 0
        for _ in range(4):
            run(engine, 2)
            records, following, lost = engine.read_trace(position)
            assert following == position + lost + len(records)
            assert [r.ticks for r in records] == sorted(r.ticks for r in records)
            assert 0 < len(records) <= 64
            position, read, lost_in_all = following, read + len(records), lost_in_all + lost
        assert lost_in_all > 0
        engine.set_trace(on=False)
        engine.read_trace()
        _, before, _ = engine.read_trace()
        run(engine, 1)
        assert engine.read_trace(before)[:2] == ([], before)


class Recorded:
    """A link whose kernel recorded `n` instants more, of which `lost` are overwritten."""

    def __init__(self) -> None:
        self.n = self.lost = self.total = 0

    def instants(self, start: int) -> tuple[list[Instant], int, int]:
        assert start == self.total
        self.total += self.n
        first = self.total - self.n + self.lost
        whole = [Instant(stamp=at + 1, ticks=at, who=at) for at in range(first, self.total)]
        return whole, self.total, self.lost


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=9))
def test_a_reader_gets_every_instant_once_or_it_is_counted(
    kept: int, rounds: list[tuple[int, int]]
) -> None:
    link = Recorded()
    log = TraceLog(link, kept)  # type: ignore[arg-type]  # its instants are all that is read
    position, ticks = 0, []
    for n, lost in rounds:
        link.n, link.lost = n, min(n, lost)
        records, following, overwritten = log.read(position, Alignment())
        assert following == position + overwritten + len(records) == link.total
        assert [one.ticks for one in records] == list(range(link.total - len(records), link.total))
        ticks += [one.ticks for one in records]
        position = following
    assert len(set(ticks)) == len(ticks)


@pytest.mark.parametrize("events", [0, 1, 3, 100, 1 << 25, -4])
def test_a_trace_of_another_size_is_refused(events: int) -> None:
    with pytest.raises(InvalidRollout, match="trace_events_max"):
        host_engine(tiny(), trace_events_max=events)
