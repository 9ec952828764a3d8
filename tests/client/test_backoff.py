"""When a call is sent again: bounded, spread, never sooner than asked."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from assay.client import Backoff

policies = st.builds(
    Backoff,
    first_s=st.floats(0.001, 1),
    longest_s=st.floats(1, 10),
    total_s=st.floats(0, 60),
)


@given(policies, st.integers())
def test_pauses_end_before_their_sum_passes_the_total(policy: Backoff, seed: int) -> None:
    pauses = list(itertools.islice(policy.pauses(random.Random(seed)), 200_000))
    assert sum(pauses) <= policy.total_s + 1e-9


@given(policies, st.integers())
def test_no_pause_is_longer_than_the_longest_or_shorter_than_half_the_first(
    policy: Backoff, seed: int
) -> None:
    for pause_s in itertools.islice(policy.pauses(random.Random(seed)), 1_000):
        assert policy.first_s / 2 <= pause_s <= policy.longest_s


def test_pauses_double_until_the_longest() -> None:
    class NoSpread(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return b

    policy = Backoff(first_s=1, longest_s=5, total_s=30)
    assert list(policy.pauses(NoSpread())) == [1, 2, 4, 5, 5, 5, 5]


def test_a_total_of_nothing_never_sends_again() -> None:
    assert list(Backoff(total_s=0).pauses(random.Random(0))) == []
