"""How early slots are ordered, from what was measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.model.starts import SIGMAS_90, SLOWER_MAX, startup_at

TIMES = st.integers(1, 10**12)


@given(median_s=st.floats(0.1, 200), sigma=st.floats(0.01, 0.3), sigmas=st.floats(0, 3))
def test_of_log_normal_starts_the_share_is_that_of_the_standard_deviations(median_s, sigma, sigmas):
    def at(deviations: float) -> int:
        return int(np.rint(median_s * np.exp(sigma * deviations) * 1e9))

    found = startup_at(at(0), at(SIGMAS_90), sigmas)
    assert found == pytest.approx(min(at(sigmas), SLOWER_MAX * at(SIGMAS_90)), rel=1e-6)


@given(p50=TIMES, p90=TIMES, low=st.floats(0, 4), more=st.floats(0, 4))
def test_more_caution_never_orders_later_and_two_kinds_of_starts_are_not_stretched(
    p50, p90, low, more
):
    assert startup_at(p50, p90, low) <= startup_at(p50, p90, low + more)
    assert startup_at(p50, p90, low + more) <= max(SLOWER_MAX * p90, p90) + 1
    if p50 >= p90:
        assert startup_at(p50, p90, low) == p90, "two quantiles that are no distribution"
