"""Whose slots are believed: by what hosts end while requests wait."""

import random
from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.ids import WorkerId
from assay.planner.session.trust import DOUBT_S_MAX, Reading, Trust, median_of_others

TIMEOUT_S = 20.0
A, B, C = (WorkerId(name) for name in "abc")


class Stage:
    """Hosts that end requests at a rate per slot, and a queue that never runs dry."""

    def __init__(self, rates: dict[WorkerId, float], slots: dict[WorkerId, int]) -> None:
        self.rates, self.slots = rates, slots
        self.ended = dict.fromkeys(rates, 0.0)
        self.trust = Trust(timeout_s=TIMEOUT_S)
        self.now_s = 0.0
        self.look(0.0)

    def look(self, step_s: float, *, waits: bool = True) -> frozenset[WorkerId]:
        self.now_s += step_s
        for host, rate in self.rates.items():
            self.ended[host] += rate * self.slots[host] * step_s
        readings = [Reading(host, self.slots[host], int(self.ended[host])) for host in self.rates]
        self.trust.look(readings, now_s=self.now_s, waited_s=step_s if waits else 0.0)
        return self.trust.doubted

    def until_doubted(self, host: WorkerId, most_s: float) -> float:
        begun_s = self.now_s
        while host not in self.look(1.0):
            assert self.now_s - begun_s < most_s
        return self.now_s - begun_s


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 4.0]), max_size=9), st.booleans(), st.data())
def test_the_median_of_the_others_is_that_of_the_list_without_ones_own(
    rates: list[float], is_there: bool, data: st.DataObject
) -> None:
    own = data.draw(st.sampled_from(rates)) if rates and is_there else None
    others = list(rates)
    if own is not None:
        others.remove(own)
    wanted = median_low(others) if others else 0.0
    assert median_of_others(sorted(rates), own) == wanted


@given(
    speeds=st.lists(st.floats(1.0, 5.0), min_size=2, max_size=6),
    scale=st.floats(0.05, 200.0),
    slots=st.lists(st.integers(1, 64), min_size=6, max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_hosts_of_different_speed_and_size_are_all_believed(
    speeds: list[float], scale: float, slots: list[int], seed: int
) -> None:
    draw = random.Random(seed)
    hosts = [WorkerId(str(number)) for number in range(len(speeds))]
    stage = Stage(
        {host: speed * scale for host, speed in zip(hosts, speeds, strict=True)},
        dict(zip(hosts, slots, strict=False)),
    )
    for _ in range(200):
        assert not stage.look(draw.uniform(0.5, 3.0), waits=draw.random() < 0.7)


@given(
    rate=st.floats(0.1, 100.0), honest=st.integers(1, 32), said=st.integers(1, 100_000),
    has=st.sampled_from([0.0, 0.01]),
)  # fmt: skip
def test_a_host_with_a_hundredth_of_the_slots_that_it_says_is_found(
    rate: float, honest: int, said: int, has: float
) -> None:
    stage = Stage({A: rate, B: rate * has}, {A: honest, B: said})
    stage.until_doubted(B, most_s=10 + 100 / (rate * said))
    assert A not in stage.trust.doubted


def test_a_host_that_stops_stays_doubted_however_much_it_ended_before() -> None:
    stage = Stage({A: 1.0, B: 1.0, C: 1.0}, {A: 1, B: 1, C: 1})
    for _ in range(300):
        assert not stage.look(1.0)
    stage.rates[B] = 0.0
    stage.until_doubted(B, most_s=120)
    begun_s = stage.now_s
    while stage.now_s - begun_s < DOUBT_S_MAX - 1:
        assert stage.look(1.0) == {B}


def test_a_host_that_stops_ending_requests_is_found_and_believed_again_when_it_ends_some() -> None:
    stage = Stage({A: 5.0, B: 5.0}, {A: 4, B: 4})
    for _ in range(1_000):
        assert not stage.look(1.0)
    stage.rates[B] = 0.0
    stage.until_doubted(B, most_s=120)
    stage.rates[B] = 5.0
    for _ in range(60):
        stage.look(1.0)
    assert not stage.trust.doubted


def test_a_host_that_holds_all_slots_and_ends_none_is_found_after_two_time_outs() -> None:
    stage = Stage({A: 0.0, B: 0.0}, {A: 0, B: 8})
    assert stage.until_doubted(B, most_s=3 * TIMEOUT_S) >= 2 * TIMEOUT_S
    assert A not in stage.trust.doubted, "it has no slots to be judged by"


def test_where_nothing_waits_an_idle_host_is_no_liar() -> None:
    stage = Stage({A: 50.0, B: 0.0}, {A: 4, B: 4})
    for _ in range(1_000):
        assert not stage.look(1.0, waits=False)


def test_what_was_ended_while_nothing_waited_is_no_measure_for_others() -> None:
    stage = Stage({A: 500.0, B: 0.0}, {A: 4, B: 4})
    for _ in range(100):
        stage.look(1.0, waits=False)
    stage.rates = {A: 2.0, B: 1.0}
    for _ in range(100):
        assert not stage.look(1.0)


def test_where_all_are_stuck_none_is_left_out() -> None:
    stage = Stage({A: 0.0, B: 0.0}, {A: 4, B: 4})
    for _ in range(200):
        assert not stage.look(1.0)


def test_one_fast_host_of_three_makes_no_liars_of_the_others() -> None:
    stage = Stage({A: 1.0, B: 1.5, C: 10_000.0}, dict.fromkeys((A, B, C), 4))
    for _ in range(300):
        assert not stage.look(1.0)


@pytest.mark.parametrize("jump", ["begins again", "a day later"])
def test_a_count_that_begins_again_is_no_lie(jump: str) -> None:
    stage = Stage({A: 10.0, B: 10.0}, {A: 4, B: 4})
    for second in range(300):
        if second % 50 == 0:
            stage.ended[B] = 0.0
        assert not stage.look(1.0 if jump == "begins again" else 5.0)


def test_a_count_that_is_smaller_at_each_look_counts_from_zero_each_time() -> None:
    trust = Trust(timeout_s=TIMEOUT_S)
    for second in range(100):
        readings = [Reading(A, 4, 40 * second), Reading(B, 4, 1_000 - second)]
        trust.look(readings, now_s=float(second), waited_s=1.0)
        assert not trust.doubted


def test_a_doubted_host_gets_another_chance() -> None:
    stage = Stage({A: 10.0, B: 0.0}, {A: 4, B: 4})
    stage.until_doubted(B, most_s=20)
    seen = set()
    for _ in range(int(DOUBT_S_MAX) + 5):
        seen.add(stage.look(1.0))
    assert frozenset() in seen


def test_hosts_that_go_are_forgotten() -> None:
    stage = Stage({A: 10.0, B: 0.0, C: 10.0}, dict.fromkeys((A, B, C), 4))
    stage.until_doubted(B, most_s=20)
    del stage.rates[B]
    assert not stage.look(1.0)


def test_an_hour_of_honest_work_buys_no_more_than_a_minute_of_lies() -> None:
    stage = Stage({A: 1.0, B: 1.0}, {A: 40, B: 40})
    for _ in range(3_600):
        assert not stage.look(1.0)
    stage.rates[A] = 1 / 200  # still one end every 5 s: it is not stuck
    stage.until_doubted(A, 60.0)


def test_a_slow_stage_gathers_enough_evidence_before_any_of_it_is_forgotten() -> None:
    stage = Stage({A: 1 / 64, B: 1.0}, {A: 2, B: 2})
    stage.until_doubted(A, 100.0)
