"""Earliest Batch First as a pure function."""

from hypothesis import given
from hypothesis import strategies as st

from assay.core.ordering import COST_US_MIN, Costs, Shares, order_key

INSTANTS = st.integers(min_value=0, max_value=4 * 10**18)  # until the year 2096
SEQUENCES = st.integers(min_value=1, max_value=10**15)


@given(INSTANTS, INSTANTS, SEQUENCES, SEQUENCES)
def test_the_earlier_deadline_is_served_first_whatever_arrived_first(
    one: int, other: int, first: int, second: int
) -> None:
    if one + 1_000_000 <= other:
        assert order_key(deadline_ns=one, sequence=second) < order_key(
            deadline_ns=other, sequence=first
        )


@given(INSTANTS, SEQUENCES, SEQUENCES)
def test_arrival_decides_inside_a_batch(deadline_ns: int, first: int, second: int) -> None:
    one = order_key(deadline_ns=deadline_ns, sequence=first)
    other = order_key(deadline_ns=deadline_ns, sequence=second)
    assert (one < other) == (first < second)
    assert (one == other) == (first == second)


@given(INSTANTS)
def test_a_deadline_is_rounded_up_to_a_number_that_a_double_holds(deadline_ns: int) -> None:
    deadline_ms = order_key(deadline_ns=deadline_ns, sequence=1).deadline_ms
    assert 0 <= deadline_ms * 1_000_000 - deadline_ns < 1_000_000
    assert int(float(deadline_ms)) == deadline_ms


@given(SEQUENCES, SEQUENCES)
def test_the_names_of_jobs_sort_like_their_sequence_numbers(first: int, second: int) -> None:
    """The store keeps the deadline as a score and breaks ties by the name."""
    assert (f"{first:016d}" < f"{second:016d}") == (first < second)


def test_only_where_two_tenants_have_waited_is_anyone_charged() -> None:
    shares: Shares[str] = Shares()
    shares.join("a", claims=3)
    assert shares.charge("a", 1_000, 1.0) == 0
    shares.join("b", claims=5)
    assert shares.charge("a", 1_000, 1.0) == 1_000
    assert not shares.charged(1_000, claim=5)
    assert shares.charged(1_000, claim=6)


def test_a_correction_leaves_no_tenant_that_joins_behind_all_that_wait() -> None:
    shares: Shares[str] = Shares()
    shares.join("a", claims=0)
    shares.join("b", claims=0)
    shares.charge("a", 1_000, 1.0)
    shares.charge("b", 900, 1.0)
    shares.charge("b", 0, 1.0)
    shares.correct("a", -600)
    shares.correct("b", -600)
    shares.join("c", claims=3)
    assert shares.waiting["c"] <= max(shares.waiting["a"], shares.waiting["b"])


def test_a_tenant_that_waits_for_nothing_keeps_what_it_owes_until_the_others_are_there() -> None:
    shares: Shares[str] = Shares()
    for tenant in ("a", "b", "c"):
        shares.join(tenant, claims=0)
    shares.charge("a", 1_000, 1.0)
    shares.leave("a")
    shares.correct("a", 500)
    assert shares.debts == {"a": 1_500}
    shares.charge("b", 1_500, 1.0)
    shares.charge("c", 2_000, 1.0)
    shares.forgive()
    assert shares.debts == {"a": 1_500}, "the others are not there yet"
    shares.charge("b", 0, 1.0)
    shares.forgive()
    assert not shares.debts


def test_a_tenant_without_requests_so_far_is_expected_to_cost_what_all_do() -> None:
    costs: Costs[str] = Costs()
    assert costs.expected_us("a") == COST_US_MIN
    costs.learn("b", 8_000, 2)
    assert costs.expected_us("b") == 4_000
    assert costs.expected_us("a") == 4_000
