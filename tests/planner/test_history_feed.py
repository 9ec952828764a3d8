"""Histories are sent to the planning process when they have changed."""

from tests.planner import snapshots
from tests.planner.leading import HandClock

from assay.planner.service.history_feed import HistoryFeed
from assay.testing.memory_store import MemoryStore


async def test_a_history_is_asked_for_once_and_again_when_a_batch_has_ended():
    store = MemoryStore(HandClock())
    histories = HistoryFeed(store, batches_max=4)
    one, two = snapshots.work(batch="one"), snapshots.work(batch="two")
    assert len(await histories.changed([one], [], generation=1)) == 1
    assert await histories.changed([one], [], generation=1) == ()
    assert await histories.changed([one, two], [], generation=1) == ()
    assert len(await histories.changed([two], [], generation=1)) == 1
    assert len(await histories.changed([two], [], generation=2)) == 1, "a new process knows nothing"
    histories.forget()
    assert len(await histories.changed([two], [], generation=2)) == 1


async def test_the_history_of_a_task_is_sent_once_more_when_its_last_batch_has_ended():
    store = MemoryStore(HandClock())
    histories = HistoryFeed(store, batches_max=4)
    work = snapshots.work(batch="one")
    await histories.changed([work], [], generation=1)
    (last,) = await histories.changed([], [], generation=1)
    assert last.task == work.task
    assert await histories.changed([], [], generation=1) == ()
    await histories.changed([work], [], generation=1)
    assert await histories.changed([], [], generation=2) == (), "a new process never heard of it"
