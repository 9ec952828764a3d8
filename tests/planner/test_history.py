"""History goes to plans and to traces, whatever became of the pipeline since."""

import json

import pytest

from assay.core.errors import InvalidRequest
from assay.core.ids import BatchId, StageName
from assay.core.outcome import Outcome
from assay.core.records import BatchHistory, RequestHistory
from assay.planner.session.past_batches import from_trace, past_of, to_trace
from assay.sim.pools.replay import load_of

COMPILE, EXECUTE, JUDGE = StageName("compile"), StageName("execute"), StageName("judge")
RECORD = BatchHistory(
    batch_id=BatchId("b1"),
    opened_ns=100,
    completed_ns=900,
    deadline_ns=800,
    requests=(
        RequestHistory(arrived_after_ns=50, service_ns=(10, 3), outcome=Outcome.SCORED),
        RequestHistory(arrived_after_ns=20, service_ns=(30, 0), outcome=Outcome.RESOURCE_LIMIT),
        RequestHistory(arrived_after_ns=30, service_ns=(1, 0), outcome=Outcome.CANCELLED),
    ),
)


def test_rows_are_by_arrival_and_only_what_was_judged():
    past = past_of(RECORD, (COMPILE, EXECUTE), (COMPILE, EXECUTE))
    assert past.arrived_ns.tolist() == [20, 50]
    assert past.service_ns.tolist() == [[30, 0], [10, 3]]
    assert past.natural_ns == 63


def test_a_stage_that_the_pipeline_lost_is_left_out_and_a_new_one_is_empty():
    past = past_of(RECORD, (COMPILE, EXECUTE), (JUDGE, COMPILE))
    assert past.service_ns.tolist() == [[0, 30], [0, 10]]


def test_a_record_that_does_not_fit_its_pipeline_is_refused():
    with pytest.raises(InvalidRequest) as refused:
        past_of(RECORD, (COMPILE,), (COMPILE,))
    assert refused.value.field == "requests[0].service_ns"


def test_a_trace_is_plain_data_and_comes_back_the_same():
    trace = json.loads(json.dumps(to_trace(RECORD, (COMPILE, EXECUTE))))
    assert from_trace(trace) == (RECORD, (COMPILE, EXECUTE))
    assert load_of(past_of(RECORD, (COMPILE, EXECUTE), (COMPILE, EXECUTE))).natural_ns == 63


@pytest.mark.parametrize("broken", [{}, {"requests": [[1]]}, {"requests": 5, "stages": []}])
def test_what_is_no_trace_is_refused(broken):
    with pytest.raises(InvalidRequest):
        from_trace(broken)
