"""Pauses between tries: doubled per failure, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.tools.backoff import pause_s


def test_pauses_double_from_the_first_to_the_longest() -> None:
    pauses = [pause_s(n, first_s=0.5, longest_s=3.0) for n in range(6)]
    assert pauses == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


@given(st.integers(0, 10**9), st.floats(1e-3, 10.0), st.floats(10.0, 1e4))
def test_no_number_of_failures_passes_the_longest_pause(
    failures: int, first_s: float, longest_s: float
) -> None:
    pause = pause_s(failures, first_s=first_s, longest_s=longest_s)
    assert 0 <= pause <= longest_s
    assert pause <= pause_s(failures + 1, first_s=first_s, longest_s=longest_s)


def test_after_many_failures_the_pause_is_the_longest() -> None:
    assert pause_s(10**6, first_s=1e-9, longest_s=30.0) == pytest.approx(30.0)
