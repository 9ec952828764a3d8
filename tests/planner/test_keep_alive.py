"""A slot that nothing needs is kept while its past gaps make that cheaper than another start."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planner.scenes import fresh_batch, pool, scene, task

from assay.config.planning import PlanSettings
from assay.model.arrays import to_ns
from assay.model.keep_alive import (
    GAPS_MAX,
    GAPS_MIN,
    LONGER,
    SLOTS_KEPT_MAX,
    KeepAlive,
    KeepPrices,
    Kept,
    keep_prices,
    kept_ns,
)
from assay.planner.core.policy import Assay
from assay.planner.core.prices import Keepers

S = 10**9
PRICES = KeepPrices(again_ns=40 * S, unknown_ns=10 * S)
GAPS = st.lists(st.integers(0, 120 * S), min_size=GAPS_MIN, max_size=GAPS_MAX)


def cost_ns(gaps: list[int], kept: int, price: int) -> int:
    return sum(min(gap, kept) + (price if gap > kept else 0) for gap in gaps)


@given(gaps=GAPS, price=st.integers(1, 90 * S), other=st.integers(0, 120 * S))
def test_what_is_kept_costs_little_more_over_the_past_than_any_other_time(gaps, price, other):
    prices = KeepPrices(again_ns=price, unknown_ns=price)
    kept = kept_ns(gaps, prices)
    assert 0 <= kept <= price
    found = cost_ns(gaps, kept, price)
    assert found <= LONGER * cost_ns(gaps, min(other, price), price) + len(gaps), "less a rounding"
    assert found <= len(gaps) * price, "releasing at once"


@given(gap=st.integers(0, 200 * S), price=st.integers(1, 90 * S))
def test_before_gaps_are_known_the_break_even_rule_costs_at_most_twice_the_best(gap, price):
    kept = kept_ns([], KeepPrices(again_ns=price, unknown_ns=price))
    assert cost_ns([gap], kept, price) <= 2 * min(gap, price)


@pytest.mark.parametrize(("gap_s", "kept_s"), [(2, 2.4), (10, 12), (35, 40), (41, 0), (300, 0)])
def test_a_slot_is_kept_through_regular_gaps_that_cost_less_than_to_have_it_again(gap_s, kept_s):
    assert kept_ns([gap_s * S] * GAPS_MIN, PRICES) == kept_s * S
    assert kept_ns([gap_s * S] * (GAPS_MIN - 1), PRICES) == PRICES.unknown_ns


def test_a_price_of_nothing_keeps_nothing_and_an_unknown_gap_costs_no_more_than_a_known_one():
    assert keep_prices(S, 0, 5 * S) == KeepPrices(again_ns=0, unknown_ns=0)
    assert keep_prices(S, 35 * S, 5 * S) == KeepPrices(again_ns=36 * S, unknown_ns=11 * S)
    assert keep_prices(S, 3 * S, 5 * S) == KeepPrices(again_ns=4 * S, unknown_ns=4 * S)


def called(gaps_s: list[float]) -> tuple[KeepAlive, int]:
    """A pool after calls of one second with these gaps, and the end of the last one."""
    alive, now_ns = KeepAlive(), 0
    for gap_s in (*gaps_s, 0.0):
        alive.need(1, now_ns)
        alive.need(0, now_ns + S)
        now_ns += S + round(gap_s * S)
    return alive, now_ns


def test_calls_that_come_seldom_after_many_frequent_ones_are_learnt_and_the_old_gaps_forgotten():
    often, now_ns = called([10.0] * GAPS_MAX)
    assert often.kept(now_ns, PRICES) == Kept(slots=1, left_ns=12 * S)
    assert often.kept(now_ns + 12 * S, PRICES) is None
    seldom, now_ns = called([*[10.0] * GAPS_MAX, *[100.0] * GAPS_MAX])
    assert seldom.kept(now_ns, PRICES) is None


def test_each_of_the_lowest_slots_has_its_own_gaps_and_a_slot_that_was_never_needed_is_not_kept():
    alive = KeepAlive()
    assert alive.kept(0, PRICES) is None
    for k in range(6):
        alive.need(3 if k % 3 == 0 else 1, k * 20 * S)
        alive.need(0, (k * 20 + 10) * S)
    kept = alive.kept(110 * S, PRICES)
    assert kept == Kept(slots=1, left_ns=12 * S), "the second and third are wanted once per minute"
    alive.need(100, 200 * S)
    alive.need(0, 201 * S)
    kept = alive.kept(201 * S, PRICES)
    assert kept is not None
    assert kept.slots == SLOTS_KEPT_MAX


SETTINGS = PlanSettings(keep_price_s=40.0)


def kept_at(keepers: Keepers, now_s: float, wanted: int, target: int, cap: int = 9) -> int:
    pools = (pool(target=target, cap=cap, startup_ns=0),)
    return keepers.targets(scene(now_ns=to_ns(now_s), pools=pools), [wanted], SETTINGS)[0]


def test_what_is_kept_is_never_more_than_what_is_held_and_no_more_than_the_cap():
    keepers = Keepers()
    assert kept_at(keepers, 0.0, 3, target=0) == 3
    assert kept_at(keepers, 1.0, 1, target=3) == 3
    assert keepers.next_ns == to_ns(11.0)
    assert kept_at(keepers, 2.0, 1, target=2) == 2, "a slot that is gone is not ordered again"
    assert kept_at(keepers, 3.0, 1, target=3, cap=1) == 1
    assert kept_at(keepers, 11.0, 1, target=3) == 1
    assert keepers.next_ns is None


def test_between_lone_calls_the_policy_holds_their_slots_and_asks_to_be_woken_for_the_release():
    policy, none = Assay(SETTINGS.model_copy(update={"futures": 4})), task(open=None, history=())
    call = replace(fresh_batch(size=1), arrived=0)
    held: tuple[int, ...] = (0, 0)
    for k in range(4):
        for now_s, open_now in ((13.0 * k, call), (13.0 * k + 3.0, None)):
            view = task(batch=call, history=(), batch_size=1) if open_now else none
            pools = tuple(pool(j, target=n, idle=n) for j, n in enumerate(held))
            sizing = policy.decide(scene(view, now_ns=to_ns(now_s), pools=pools))
            held = sizing.targets
            assert min(held) >= 1, "through the gaps of ten seconds, too"
    assert policy.holds_on
    assert sizing.wake_ns == to_ns(13.0 * 3 + 3.0 + 12.0)
    pools = tuple(pool(j, target=n, idle=n) for j, n in enumerate(held))
    sizing = policy.decide(scene(none, now_ns=sizing.wake_ns, pools=pools))
    assert sizing.targets == (0, 0)
    assert not policy.holds_on
