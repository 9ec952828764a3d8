"""Properties of every simulation: conservation, no overlap, and what an architecture promises."""

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.sim.rollout.architecture import (
    Architecture,
    Fleet,
    InFlight,
    Push,
    Work,
    lognormal_groups,
)
from assay.sim.rollout.engine import simulate
from assay.sim.rollout.sweep import ARCHITECTURES, LAMINAR, Scene
from assay.sim.rollout.timeline import Span, Timeline, decoding_time, figures

TOLERANCE = 1e-6


def _disjoint(spans: Sequence[Span]) -> bool:
    ordered = sorted(spans, key=lambda s: s.start)
    return all(a.end <= b.start + TOLERANCE for a, b in itertools.pairwise(ordered))


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    barrier = draw(st.booleans())
    return Architecture(
        "drawn",
        barrier=barrier,
        push=Push.PAUSED if barrier else draw(st.sampled_from(Push)),
        in_flight=draw(st.sampled_from(InFlight)),
        over_provision=draw(st.sampled_from([0.0, 0.3, 1.0])) if barrier else 0.0,
        resume=draw(st.booleans()),
    )


durations = st.floats(0.01, 20)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    return Fleet(
        slots=draw(st.integers(1, 9)),
        train=draw(durations),
        push=draw(st.one_of(st.just(0.0), durations)),
        flip=draw(st.sampled_from([0.0, 0.05, 3.0])),
        prepare=draw(st.sampled_from([0.0, 2.0])),
        push_every=draw(st.integers(1, 3)),
        token=draw(st.floats(0.01, 2)),
        token_per_rollout=draw(st.sampled_from([0.0, 0.1])),
        engines=draw(st.integers(1, 2)),
        refill=draw(st.sampled_from([0.0, 0.2])),
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[Architecture, Fleet, Work, list[tuple[float, ...]]]:
    k = draw(st.integers(1, 3))
    lengths = st.lists(st.floats(0.5, 60), min_size=k, max_size=k).map(tuple)
    groups = draw(st.lists(lengths, max_size=40))
    per_step = draw(st.integers(1, 4))
    architecture = draw(architectures())
    work = Work(
        iter(groups),
        groups_per_step=per_step,
        warm_groups=draw(st.integers(0, 2)),
        open_groups_max=draw(st.one_of(st.none(), st.integers(per_step, 12))),
        staleness_max=draw(st.one_of(st.none(), st.integers(0, 3))),
    )
    return architecture, draw(fleets()), work, groups


def _check(timeline: Timeline, groups: list[tuple[float, ...]], warm: int) -> None:
    for slot in range(timeline.slots):
        assert _disjoint([g for g in timeline.generations if g.slot == slot])
    assert _disjoint(timeline.steps)
    assert _disjoint(timeline.pauses)
    assert all(0 <= s.start <= s.end <= timeline.until + TOLERANCE for s in timeline.generations)
    trained = sum(len(step.staleness) for step in timeline.steps)
    waiting = timeline.queue[-1][1]
    gone = trained + waiting + timeline.groups_stale
    assert gone <= timeline.groups_done + warm
    assert timeline.groups_done <= len(groups)
    assert all(s >= 0 for step in timeline.steps for s in step.staleness)
    versions = [version for _, version in timeline.versions]
    assert versions == sorted(set(versions))
    found = figures(timeline)
    assert -TOLERANCE <= found.rollout_utilisation <= 1 + TOLERANCE
    assert 0 <= found.trainer_utilisation <= 1 + TOLERANCE


@given(runs())
@settings(max_examples=300, deadline=None)
def test_nothing_overlaps_and_groups_are_conserved(
    run: tuple[Architecture, Fleet, Work, list[tuple[float, ...]]],
) -> None:
    architecture, fleet, work, groups = run
    _check(simulate(architecture, fleet, work, 200.0), groups, work.warm_groups)


@given(runs())
@settings(max_examples=200, deadline=None)
def test_without_pushes_each_rollout_decodes_exactly_its_length(
    run: tuple[Architecture, Fleet, Work, list[tuple[float, ...]]],
) -> None:
    architecture, fleet, work, groups = run
    fleet = Fleet(slots=fleet.slots, train=fleet.train, push=fleet.push, push_every=10**6)
    timeline = simulate(architecture, fleet, work, 100_000.0)
    ended = {(g.group, g.slot, g.start): g.length for g in timeline.generations if g.ended}
    whole = {round(length, 6) for group in groups for length in group}
    if not architecture.over_provision:
        assert {round(length, 6) for length in ended.values()} <= whole
        assert not timeline.groups_cut
    total = math.fsum(g.length for g in timeline.generations)
    assert decoding_time(timeline) == pytest.approx(total)


def test_kept_rollouts_end_before_their_weights_are_overwritten() -> None:
    """Two weight slots hold at most two versions at once."""
    architecture = Architecture("kept", barrier=False, push=Push.STAGED, in_flight=InFlight.KEEP)
    fleet = Fleet(slots=16, train=1.0, push=0.2, flip=0.01, token=0.05)
    groups = lognormal_groups(3, k=4, mean=120, sigma=1.0, longest=2000)
    timeline = simulate(architecture, fleet, Work(groups, groups_per_step=2), 300.0)
    assert timeline.versions[-1][1] > 5
    for at, version in timeline.versions:
        running = {g.version for g in timeline.generations if g.start < at < g.end}
        assert len(running | {version}) <= 2


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)
def test_the_same_seed_gives_the_same_timeline(architecture: Architecture) -> None:
    assert Scene().run(architecture, 5, 60.0) == Scene().run(architecture, 5, 60.0)
    assert Scene().run(architecture, 5, 60.0) != Scene().run(architecture, 6, 60.0)


def test_recomputed_prefixes_cost_decode_steps() -> None:
    made = {}
    for mode in (InFlight.CONTINUE, InFlight.RETRACT):
        fleet = Fleet(slots=8, train=1.0, push=0.1, flip=0.01, token=0.02, refill=0.5)
        architecture = Architecture(mode, barrier=False, push=Push.STAGED, in_flight=mode)
        groups = lognormal_groups(2, k=2, mean=200, sigma=0.5, longest=2000)
        work = Work(groups, groups_per_step=1)
        made[mode] = figures(simulate(architecture, fleet, work, 200.0)).generations
    assert made[InFlight.RETRACT] < made[InFlight.CONTINUE]


def test_behind_a_barrier_nothing_is_stale_unless_rollouts_are_resumed() -> None:
    stale = {
        one.name: figures(Scene().run(one, 1, 120.0)).staleness_max
        for one in ARCHITECTURES
        if one.barrier
    }
    resumed = {one.name for one in ARCHITECTURES if one.resume}
    assert {name for name, most in stale.items() if most} == resumed


def test_staleness_is_bounded_when_a_bound_is_set() -> None:
    found = figures(Scene(staleness_max=1).run(LAMINAR, 1, 200.0))
    assert found.staleness_max <= 1
    assert found.discarded > 0
    assert figures(Scene().run(LAMINAR, 1, 200.0)).staleness_max > 1


def test_what_the_architectures_are_known_for() -> None:
    """Stragglers cost the synchronous ones, long pushes those that stop for them."""
    tokens = {a.name: figures(Scene().run(a, 1, 300.0)).tokens_per_gpu for a in ARCHITECTURES}
    full, adapter, _, april, async_full, one_slot, two_slots, relay = tokens.values()
    assert full < adapter < async_full < one_slot < two_slots
    assert april > 2 * adapter
    assert relay > async_full


@pytest.mark.parametrize(
    ("change", "field"),
    [({"slots": 0}, "slots"), ({"train": 0.0}, "train"), ({"push": math.nan}, "push")],
)
def test_a_fleet_that_makes_no_sense_is_refused_by_field(
    change: dict[str, float], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Fleet(**({"slots": 1, "train": 1.0, "push": 1.0} | change))  # type: ignore[arg-type]
    assert refused.value.field == field
