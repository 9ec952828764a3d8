"""A tenant's worker-seconds in a day, on every store."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.driver import FIRST, TENANT, WORKER, Driver, request, requests

from assay.core.errors import Saturated
from assay.core.outcome import Outcome
from assay.core.records import EndRequest, Quota, Report, StageReport
from assay.store.port import Store
from assay.store.valkey import ValkeyStore
from assay.testing.queue_hours import HOUR_US, WorkerTime

QUOTA = Quota(worker_s_per_day_max=10.0)
HOUR_S = 3_600


async def work(drive: Driver, seconds: float) -> None:
    """The oldest request holds its worker so long."""
    [claim] = await drive.claim(1)
    end = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
    account = StageReport(worker=WORKER, started_after_ns=0, finished_after_ns=int(seconds * 1e9))
    await drive.store.finish(FIRST, [Report(lease=claim.lease, report=account, finish=end)], 3)


async def test_who_has_used_its_seconds_is_refused_until_they_are_a_day_old(drive: Driver) -> None:
    await drive.open()
    await drive.submit(requests("a", "b"), quota=QUOTA)
    await work(drive, 9.9)
    await drive.submit(requests("c"), quota=QUOTA)
    await work(drive, 0.1)
    with pytest.raises(Saturated) as caught:
        await drive.submit(requests("d"), quota=QUOTA)
    assert "worker_s_per_day_max" in caught.value.message
    assert 22 * HOUR_S < caught.value.retry_after_s <= 24 * HOUR_S
    assert (await drive.submit(requests("a"), quota=QUOTA)).duplicates == 1
    assert (await drive.submit(requests("d"))).accepted == 1  # a tenant without the limit
    assert len(await drive.claim()) == 2  # what was accepted is judged


async def test_time_counts_for_its_tenant_at_every_attempts_end_but_a_handed_back_one(
    drive: Driver,
) -> None:
    await drive.open()
    await drive.submit([request("a")], quota=QUOTA)
    await drive.give_back(await drive.claim())
    await drive.submit(requests("b"), quota=QUOTA)
    await work(drive, 10.0)
    with pytest.raises(Saturated):
        await drive.submit(requests("c"), quota=QUOTA)


async def test_work_that_is_cancelled_counts_by_whole_seconds(drive: Driver) -> None:
    """Otherwise a tenant could use the workers for nothing by cancelling in time."""
    quota = Quota(worker_s_per_day_max=0.5)
    await drive.open()
    await drive.submit(requests("a"), quota=quota)
    await drive.claim(1)
    await asyncio.sleep(1.05)
    await drive.cancel_requests(["a"])
    with pytest.raises(Saturated):
        await drive.submit(requests("b"), quota=quota)


async def test_the_wait_ends_with_the_hour_that_makes_room(store: Store) -> None:
    assert isinstance(store, ValkeyStore)
    drive = Driver(store)
    await drive.open()
    link = store._link
    seconds, _ = await link.call("TIME")
    this = int(seconds) // HOUR_S
    key = link.key("wt", TENANT)
    await link.call("HSET", key, this - 24, 10**9, this - 23, 5 * 10**6, this - 3, 5 * 10**6)
    with pytest.raises(Saturated) as caught:
        await drive.submit(requests("a"), quota=QUOTA)
    assert 0 < caught.value.retry_after_s <= HOUR_S  # the oldest hour that counts
    await link.call("HSET", key, this - 23, 10**6)
    assert (await drive.submit(requests("a"), quota=QUOTA)).accepted == 1  # too old does not count


@given(
    used=st.dictionaries(st.integers(0, 30), st.integers(1, 20), max_size=12),
    now=st.integers(30 * HOUR_US, 31 * HOUR_US - 1),
    most_s=st.integers(1, 40),
)
def test_after_the_wait_there_is_room_and_before_it_there_was_none(
    used: dict[int, int], now: int, most_s: int
) -> None:
    time = WorkerTime()
    for hour, seconds in used.items():
        time.spend(TENANT, seconds * 1_000_000, hour * HOUR_US * 1_000)
    rest_s = time.rest_s(TENANT, most_s, now * 1_000)
    later = now + round(rest_s * 1e6)
    assert time.rest_s(TENANT, most_s, later * 1_000) == 0.0
    if rest_s:
        assert time.rest_s(TENANT, most_s, (later - 1) * 1_000) > 0.0
