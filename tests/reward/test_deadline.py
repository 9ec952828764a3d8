"""The deadline of a batch that names none: T + D, from history."""

from hypothesis import given
from hypothesis import strategies as st

from assay.core.ids import BatchId
from assay.core.outcome import Outcome
from assay.core.records import BatchHistory, RequestHistory
from assay.reward.operations.deadline import DELAY_BUDGET_DEFAULT_MS, deadline_after_ms

MS = 1_000_000

requests = st.builds(
    RequestHistory,
    arrived_after_ns=st.integers(0, 10**13),
    service_ns=st.lists(st.integers(0, 10**12), max_size=4).map(tuple),
    outcome=st.sampled_from(Outcome),
)


def _batch(*requests: RequestHistory) -> BatchHistory:
    return BatchHistory(
        batch_id=BatchId("b"), opened_ns=0, completed_ns=1, deadline_ns=2, requests=requests
    )


def _request(arrived_ms: int, *service_ms: int) -> RequestHistory:
    return RequestHistory(
        arrived_after_ns=arrived_ms * MS,
        service_ns=tuple(ms * MS for ms in service_ms),
        outcome=Outcome.SCORED,
    )


def test_without_history_the_default_counts() -> None:
    assert deadline_after_ms([], delay_budget_ms=7, default_ms=600_000) == 600_000


def test_t_is_the_last_natural_end_not_the_last_arrival() -> None:
    batch = _batch(_request(100, 900, 50), _request(1_000, 10))
    assert batch.natural_span_ns == 1_050 * MS


def test_the_longest_of_the_recent_batches_counts() -> None:
    assert (
        deadline_after_ms([10 * MS, 3_000 * MS, 20 * MS], delay_budget_ms=500, default_ms=1)
        == 3_500
    )


def test_a_task_without_a_budget_gets_the_default_one() -> None:
    found = deadline_after_ms([10 * MS], delay_budget_ms=None, default_ms=1)
    assert found == 10 + DELAY_BUDGET_DEFAULT_MS


def test_a_task_that_allows_no_delay_gets_none() -> None:
    assert deadline_after_ms([10 * MS], delay_budget_ms=0, default_ms=1) == 10


@given(st.lists(st.lists(requests, min_size=1).map(lambda r: _batch(*r)), min_size=1))
def test_no_batch_of_the_history_would_have_been_late(history: list[BatchHistory]) -> None:
    spans_ns = [batch.natural_span_ns for batch in history]
    deadline_ms = deadline_after_ms(spans_ns, delay_budget_ms=0, default_ms=1)
    assert deadline_ms >= 1
    assert all(batch.natural_span_ns <= deadline_ms * MS for batch in history)
