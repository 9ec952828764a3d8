"""What a session remembers of the requests of open batches, and when that is evidence."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.snapshots import COMPILE, NOW, RUN, S, in_flight, session, snapshot, work

from assay.core.ids import StageName
from assay.core.records import InFlight
from assay.planner.session.progress import Progress

STAGES = (COMPILE, RUN)


def running(k: int, *, since_s: int = 0, stage: StageName = COMPILE, took_s: int = 0) -> InFlight:
    one = in_flight(stage, arrived_ns=k * S, claimed_ns=NOW + since_s * S)
    return replace(one, service_ns=(took_s * S, 0))


def test_a_request_that_ran_and_is_gone_has_ended_in_between():
    progress = Progress()
    progress.see([work(requests=[running(0), running(1)])], NOW + 20 * S)
    left = work(requests=[running(1)], ended=1)
    progress.see([left], NOW + 22 * S)
    found = progress.stage_times(left, STAGES)
    assert found is not None
    assert found.passed_ns.tolist() == [[21 * S, 0], [0, 0]]
    assert found.reached.tolist() == [0, 0]


def test_arrivals_are_those_of_all_that_were_seen():
    progress = Progress()
    progress.see([work(requests=[running(3), running(1)])], NOW + 20 * S)
    left = work(requests=[running(1), running(9)], ended=1)
    progress.see([left], NOW + 22 * S)
    assert progress.arrivals_ns(left).tolist() == [1 * S, 3 * S, 9 * S]
    assert progress.arrivals_ns(work(ended=9)).tolist() == [], "most came and went unseen"
    assert progress.arrivals_ns(work(batch="another")).tolist() == []


def test_times_of_earlier_stages_are_exact_and_say_that_it_went_on():
    progress = Progress()
    one = work(requests=[running(0, stage=RUN, since_s=30, took_s=30)])
    progress.see([one], NOW + 31 * S)
    found = progress.stage_times(one, STAGES)
    assert found is not None
    assert found.passed_ns.tolist() == [[30 * S, 0]]
    assert found.reached.tolist() == [1]


def test_too_many_that_ended_unseen_are_no_evidence():
    progress = Progress()
    progress.see([work(requests=[running(0)])], NOW + 20 * S)
    left = work(ended=9)
    progress.see([left], NOW + 22 * S)
    assert progress.stage_times(left, STAGES) is None


def test_a_gap_that_is_long_against_the_time_is_no_evidence():
    progress = Progress()
    progress.see([work(requests=[running(0)])], NOW + 1 * S)
    left = work(ended=1)
    progress.see([left], NOW + 30 * S)
    assert progress.stage_times(left, STAGES) is None


def test_a_batch_that_ended_is_forgotten():
    progress = Progress()
    one = work(requests=[running(0)])
    progress.see([one], NOW + 20 * S)
    progress.see([], NOW + 22 * S)
    assert progress.stage_times(one, STAGES) is None


@settings(max_examples=60, deadline=None)
@given(
    looks=st.lists(
        st.lists(
            st.tuples(
                st.integers(-5, 5), st.sampled_from([COMPILE, RUN, StageName("gone")]),
                st.integers(-100, 100), st.integers(-9, 9), st.integers(0, 3),
            ),
            max_size=8,
        ),
        max_size=8,
    ),
    clocks=st.lists(st.integers(-50, 50), min_size=8, max_size=8),
    ended=st.integers(0, 20),
)  # fmt: skip
def test_nothing_that_the_store_holds_makes_it_raise_or_tell_a_negative_time(looks, clocks, ended):
    """Clocks that go back, equal arrivals, stages without a pool, short lists of times."""
    progress, planner = Progress(), session()
    for look, clock in zip(looks, clocks, strict=False):
        requests = [
            replace(
                in_flight(stage, arrived_ns=arrived, claimed_ns=max(NOW + since * S, 0)),
                service_ns=(took * S,) * count,
            )
            for arrived, stage, since, took, count in look
        ]
        one = work(requests=requests, ended=ended)
        progress.see([one], NOW + clock * S)
        found = progress.stage_times(one, STAGES)
        if found is not None:
            assert (found.passed_ns >= 0).all()
            assert len(found.reached) == len(found.passed_ns)
        assert planner.step(snapshot(one, now_ns=NOW + clock * S)).wake_after_ns > 0
