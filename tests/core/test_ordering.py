"""Earliest Batch First as a pure function."""

from hypothesis import given
from hypothesis import strategies as st

from assay.core.ordering import order_key

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
