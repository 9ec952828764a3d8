"""What is always true of a stage pool, over random histories of simultaneous events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.ordering import OrderKey
from assay.core.stage_pool import (
    Arrived,
    Event,
    Finished,
    GiveUp,
    Item,
    Lost,
    Order,
    Ready,
    Reject,
    Release,
    Resized,
    StagePool,
    Start,
)


def item(sequence: int, deadline_ms: int = 0) -> Item:
    return Item(key=OrderKey(deadline_ms=deadline_ms, sequence=sequence))


def pool(target: int = 0, items_max: int = 100) -> StagePool:
    made = StagePool(items_max=items_max, attempts_max=2, workers_max=50)
    orders = made.handle([Resized(target=target)])
    made.handle([Ready(worker=order.worker) for order in orders if isinstance(order, Order)])
    return made


def test_a_worker_that_comes_free_serves_the_earliest_batch_even_if_it_arrives_at_that_instant():
    p = pool(1)
    p.handle([Arrived(item=item(0, 5)), Arrived(item=item(1, 9))])
    effects = p.handle([Arrived(item=item(2, 7)), Finished(worker=0)])
    assert effects == [Start(worker=0, item=item(2, 7))]


def test_workers_above_the_target_leave_as_soon_as_they_are_idle_and_not_before():
    p = pool(2)
    p.handle([Arrived(item=item(0)), Arrived(item=item(1)), Arrived(item=item(2))])
    assert p.handle([Resized(target=1)]) == []
    assert p.handle([Finished(worker=1)]) == [Release(worker=1)]
    assert (p.held, len(p.waiting)) == (1, 1)


def test_an_item_that_lost_its_worker_keeps_its_place_and_is_given_up_after_its_last_attempt():
    p = pool(1)
    p.handle([Arrived(item=item(0)), Arrived(item=item(1))])
    assert p.handle([Lost(worker=0)]) == [Order(worker=1)]
    assert p.handle([Ready(worker=1)]) == [Start(worker=1, item=Item(key=item(0).key, attempt=2))]
    assert GiveUp(item=Item(key=item(0).key, attempt=2)) in p.handle([Lost(worker=1)])


def test_a_full_queue_rejects_by_name():
    p = pool(0, items_max=1)
    effects = p.handle([Arrived(item=item(0)), Arrived(item=item(1))])
    assert effects == [Reject(item=item(1))]


@pytest.mark.parametrize("target", [-1, 51])
def test_a_target_outside_the_pool_is_refused(target: int):
    with pytest.raises(InvalidRequest) as refused:
        pool().handle([Resized(target=target)])
    assert refused.value.field == "target"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_nothing_is_lost_nothing_waits_beside_an_idle_worker_and_starts_are_in_order(data):
    p = StagePool(items_max=30, attempts_max=3, workers_max=8)
    admitted, over, sequence = 0, 0, 0
    for _ in range(data.draw(st.integers(1, 25))):
        events: list[Event] = [Resized(target=data.draw(st.integers(0, 8)))]
        for _ in range(data.draw(st.integers(0, 6))):
            events.append(Arrived(item=item(sequence, data.draw(st.integers(0, 3)))))
            sequence += 1
        for worker in p.running:
            fate = data.draw(st.sampled_from(["stay", "finish", "lose"]))
            if fate == "finish":
                events.append(Finished(worker=worker))
                over += 1
            elif fate == "lose":
                events.append(Lost(worker=worker))
        if data.draw(st.booleans()):
            events += [Ready(worker=w) for w in p._starting]
        arrived = sum(isinstance(e, Arrived) for e in events)
        effects = p.handle(events)
        admitted += arrived - sum(isinstance(e, Reject) for e in effects)
        over += sum(isinstance(e, GiveUp) for e in effects)
        assert admitted == over + len(p.waiting) + len(p.running)
        assert not (p.waiting and p.idle)
        assert p.held == p.starting + p.idle + len(p.running) >= p.target
        starts = [e.item.key for e in effects if isinstance(e, Start)]
        assert starts == sorted(starts)
        assert all(key <= w.key for key in starts for w in p.waiting)
