"""The leader lease: one planner leads, and stops in time."""

from tests.planner.leading import HandClock, lead
from tests.planner.snapshots import S

from assay.core.errors import DependencyDown
from assay.core.records import Leadership
from assay.testing.memory_store import MemoryStore


async def test_one_leads_and_the_other_follows_when_the_lease_has_run_out():
    clock = HandClock()
    store = MemoryStore(clock)
    a, b = lead(store, clock, "a"), lead(store, clock, "b")
    await a.renew()
    await b.renew()
    assert (a.leads, b.leads) == (True, False)
    clock.at_ns += 10 * S
    assert not a.leads, "it did not renew, so it does not lead, whatever the store says"
    await b.renew()
    await a.renew()
    assert (a.leads, b.leads) == (False, True)


async def test_a_leader_stops_before_its_lease_ends():
    clock = HandClock()
    one = lead(MemoryStore(clock), clock, "a")
    await one.renew()
    clock.at_ns += int(9.5 * S)
    assert not one.leads


async def test_a_leader_that_learns_of_another_stops_at_once():
    clock = HandClock()
    store = MemoryStore(clock)
    a, b = lead(store, clock, "a"), lead(store, clock, "b")
    await a.renew()
    await store.resign("a")
    await b.renew()
    await a.renew()
    assert (a.leads, b.leads) == (False, True)


async def test_who_resigns_leads_no_more_and_another_may():
    clock = HandClock()
    store = MemoryStore(clock)
    a, b = lead(store, clock, "a"), lead(store, clock, "b")
    await a.renew()
    await a.resign()
    await b.renew()
    assert (a.leads, b.leads) == (False, True)


class Out(MemoryStore):
    """Cannot be reached while `out`."""

    out = False

    async def lead(self, planner: str, *, lease_s: float) -> Leadership:
        if self.out:
            raise DependencyDown("no route")
        return await super().lead(planner, lease_s=lease_s)


async def test_a_leader_that_cannot_reach_the_store_leads_to_the_end_of_its_lease_and_says_why():
    clock = HandClock()
    store = Out(clock)
    one = lead(store, clock, "a")
    await one.renew()
    store.out = True
    await one.renew()
    assert one.leads
    assert "no route" in one.lost_store
    clock.at_ns += 10 * S
    assert not one.leads
    store.out = False
    await one.renew()
    assert (one.leads, one.lost_store) == (True, "")


async def test_the_stores_clock_is_taken_over():
    ours, theirs = HandClock(), HandClock()
    theirs.at_ns += 77 * S
    one = lead(MemoryStore(theirs), ours, "a")
    await one.renew()
    assert one.store_now_ns == theirs.at_ns
