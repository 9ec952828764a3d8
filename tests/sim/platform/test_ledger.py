"""What the ledger knows of events that few seeds bring about."""

import pytest

from assay.core.ids import BatchId, GroupId, JobId, PipelineName, RequestId, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchSpec, Lease, NewRequest, Quota, TaskRecord
from assay.sim.platform.ledger.books import Books
from assay.sim.platform.ledger.entries import LAG_MAX, BatchEntry
from assay.sim.platform.pipelines import FIRST

HELD_S = 7
REQUEST = NewRequest(
    request_id=RequestId("r"), group_id=GroupId(""), response=b"score 0 0 0", reference=b"{}"
)
TENANT, OTHER = TenantId("t"), TenantId("other")


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_a_withdrawn_claim_is_charged_for_the_time_that_it_held_its_worker(weight: float) -> None:
    """However short the request itself would have been: it may have waited behind another."""
    books = Books(is_calm=False)
    batch = BatchEntry(
        spec=BatchSpec(
            tenant=TENANT, batch_id=BatchId("b"), task_id=TaskId("k"), size=1, group_size=0,
            deadline_after_ms=1, weight=weight,
        ),
        task=TaskRecord(
            tenant=TENANT, task_id=TaskId("k"), pipeline=PipelineName("p"), stages=(FIRST,),
            settings_json=b"{}",
        ),
        quota=Quota(), opened_ns=0, overdue_ns=0,
    )  # fmt: skip
    books.enter(batch, REQUEST)
    (entry,) = batch.live
    books.unqueue(entry)
    entry.place, entry.lease, batch.running = "leased", Lease(job_id=JobId("j"), fence=1), 1
    books.leased[FIRST][JobId("j")] = entry
    before = books.races[FIRST].bound(TENANT, OTHER)
    books.now_ns = HELD_S * 1_000_000_000
    books.end(entry, Outcome.CANCELLED, None)
    charged = books.races[FIRST].bound(TENANT, OTHER) - before
    assert charged == pytest.approx(LAG_MAX * HELD_S / weight)
