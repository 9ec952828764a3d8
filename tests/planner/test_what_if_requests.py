"""What-if requests: changes are read as they were given, or refused."""

import pytest

from assay.core.errors import InvalidRequest
from assay.planner.service.wire import change_of
from assay.v1 import planner_pb2


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e12])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(InvalidRequest) as refused:
        change_of(planner_pb2.WhatIfRequest(delay_budget_s=seconds))
    assert refused.value.field == "delay_budget_s"


def test_a_change_says_only_what_was_given():
    change = change_of(planner_pb2.WhatIfRequest(startup_s={"run": 2.5}))
    assert (change.delay_budget_ns, change.epsilon) == (None, None)
    assert change.startup_ns == {"run": 2_500_000_000}
