"""What is always true of a pool of the reference, over random histories."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.builders import small_workload

from assay.core.fair_queue import Price
from assay.core.ordering import OrderKey
from assay.sim.pools.cluster import Cluster, Faults, draw_deaths, lay_out
from assay.sim.pools.reference import Inbox, PoolJob, ReferencePool, ReferenceWorld


def job(sequence: int, deadline_ms: int = 0) -> PoolJob:
    key = OrderKey(deadline_ms=deadline_ms, sequence=sequence)
    return PoolJob(request=sequence, key=key, tenant=0, price=Price(1_000, 1.0))


def pool(target: int = 0) -> ReferencePool:
    made = ReferencePool()
    made.target = target
    for slot in made.resize():
        made.become_ready(slot)
    return made


def claims(of: ReferencePool) -> list[tuple[int, int]]:
    """(slot, request) of all claims that can be made now."""
    made = []
    while (claimed := of.claim()) is not None:
        made.append((claimed[0], claimed[1].request))
    return made


def world() -> ReferenceWorld:
    workload = small_workload()
    pools = lay_out(workload, Cluster(), "shared", 0)
    return ReferenceWorld(workload, pools, draw_deaths(workload, Faults(), 0), attempts_max=2)


def test_a_slot_that_comes_free_serves_the_earliest_batch_even_if_it_arrives_at_that_instant():
    made = world()
    made.set_target(0, 1)
    (slot,) = made.slot_pools[0].starting
    made.settle(0, Inbox(ready=[slot], arrived=[job(0, 5), job(1, 9)]))
    assert made.slot_pools[0].running[slot].request == 0
    made.settle(0, Inbox(finished=[slot], arrived=[job(2, 7)]))
    assert made.slot_pools[0].running[slot].request == 2


def test_slots_above_the_target_leave_as_soon_as_they_are_idle_and_not_before():
    p = pool(2)
    for sequence in range(3):
        p.wait(job(sequence))
    assert claims(p) == [(0, 0), (1, 1)]
    p.target = 1
    assert p.resize() == []
    assert p.held == 2
    p.finish(1)
    assert p.resize() == []
    assert (p.held, len(p.waiting), claims(p)) == (1, 1, [])


def test_a_job_that_lost_its_slot_keeps_its_place_and_is_given_up_after_its_last_attempt():
    made = world()
    made.set_target(0, 1)
    made.settle(0, Inbox(ready=[0], arrived=[job(0), job(1)]))
    made.settle(0, Inbox(lost=[0]))
    assert made.slot_pools[0].starting == [1]
    made.settle(0, Inbox(ready=[1]))
    again = made.slot_pools[0].running[1]
    assert (again.request, again.attempt) == (0, 2)
    made.settle(0, Inbox(lost=[1]))
    assert made.state.lost[0] == 1
    assert [waiting.request for waiting in made.slot_pools[0].waiting] == [1]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_nothing_is_lost_nothing_waits_beside_an_idle_slot_and_claims_are_in_order(data):
    p = ReferencePool()
    ended = sequence = 0
    for _ in range(data.draw(st.integers(1, 25))):
        for slot in list(p.running):
            fate = data.draw(st.sampled_from(["stay", "finish", "lose"]))
            if fate == "finish":
                p.finish(slot)
                ended += 1
            elif fate == "lose":
                lost = p.lose(slot)
                assert lost is not None
                p.wait(lost)
        for slot in list(p.starting):
            if data.draw(st.booleans()):
                p.become_ready(slot)
        p.target = data.draw(st.integers(0, 8))
        p.resize()
        for _ in range(data.draw(st.integers(0, 6))):
            p.wait(job(sequence, data.draw(st.integers(0, 3))))
            sequence += 1
        made = [p.running[slot].key for slot, _ in claims(p)]
        assert sequence == ended + len(p.waiting) + len(p.running)
        assert not (len(p.waiting) and p.idle)
        assert p.held >= p.target
        assert p.held == p.target or not (p.starting or p.idle)
        assert made == sorted(made)
        assert all(key <= waiting.key for key in made for waiting in p.waiting)
