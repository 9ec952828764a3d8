"""Plans as records and as text, and the log in which a batch keeps them."""

from hypothesis import given
from hypothesis import strategies as st
from tests.planner import snapshots
from tests.planner.leading import HandClock
from tests.planner.snapshots import COMPILE, NOW, RUN, S

from assay.core.codec import pack
from assay.core.ids import BatchId
from assay.planner.service.narrate import narrate, slot_use
from assay.planner.service.plan_log import PlanLog
from assay.planner.service.wire import plan_message
from assay.planner.session.plan_view import PlanRecord, PoolSample, pack_record, unpack_record
from assay.testing.memory_store import MemoryStore
from assay.v1 import planner_pb2

BATCH = (snapshots.TENANT, BatchId("b"))


def view():
    requests = [snapshots.in_flight()] * 3
    history = snapshots.sent(snapshots.task(), snapshots.past())
    found = snapshots.session().step(
        snapshots.snapshot(snapshots.work(None, requests), histories=(history,))
    )
    assert found.plan is not None
    return found.plan


def sample(at_s, **changes):
    fields = {"planned": 2, "desired": 2, "ready": 1, "busy": 1, "queued": 4, **changes}
    return PoolSample(at_ns=NOW + at_s * S, stage=COMPILE, **fields)


def test_a_kept_plan_comes_back_the_same():
    record = PlanRecord(plan=view(), samples=(sample(0), sample(1)))
    assert unpack_record(pack_record(record)) == record


@given(st.binary(max_size=40))
def test_what_is_no_record_is_skipped(body):
    assert unpack_record(body) is None


def test_a_record_of_a_later_release_is_skipped():
    assert unpack_record(pack((2, "whatever"))) is None


def test_the_message_says_what_the_plan_says():
    plan = view()
    message = plan_message(plan)
    assert [stage.stage for stage in message.stages] == [COMPILE, RUN]
    assert message.batches[0].history == ["past"]
    assert plan_message(None) == planner_pb2.Plan()


def test_the_text_names_history_bound_and_reason():
    record = PlanRecord(plan=view(), samples=(sample(0), sample(2)))
    said = " ".join(narrate([record]))
    for words in ("own history (past)", "times the bound", "slot-seconds of work", "in fact: 4.0"):
        assert words in said, words


def test_samples_hold_until_the_next_one():
    held = slot_use([sample(0), sample(3, ready=5, desired=5), sample(4)])
    assert (held.held_s, held.busy_s, held.most) == (2 * 3 + 5 * 1, 4, 5)


async def test_the_log_drops_a_batch_that_is_over():
    store = MemoryStore(HandClock())
    log = PlanLog(store)
    snapshot = snapshots.snapshot(snapshots.work(None, [snapshots.in_flight()]))
    log.sampled(snapshot, {})
    await log.planned(view())
    await log.ended([], snapshot.pools, NOW)
    log.sampled(snapshot, {})
    assert log._samples.keys() == {BATCH}, "a batch that is no longer kept does no harm"
