"""Large messages on a real server: stored in parts, taken in whole, claimable at a pace."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis
from tests.store.driver import TENANT, Driver, eventually, request, requests

from assay.config.settings import StoreSettings
from assay.core.errors import Conflict
from assay.core.ids import BatchId, TenantId
from assay.core.records import Quota
from assay.store.link import SLICE
from assay.store.operations.pieces import PIECE_BYTES
from assay.store.operations.submitting import RELEASE_SLICE
from assay.store.valkey import ValkeyStore

STEP = BatchId("step-1")
MANY = [f"r{n:03}" for n in range(2 * SLICE + 7)]


async def keys(store_settings: StoreSettings, kind: str) -> list[bytes | str]:
    redis = Redis.from_url(store_settings.url)
    try:
        found = await redis.keys(f"assay:{{{store_settings.shard}}}:{kind}*")
    finally:
        await redis.aclose()
    return list(found)


@pytest.fixture
def drive(valkey_drive: Driver) -> Driver:
    """An empty store on the real server."""
    return valkey_drive


async def test_a_large_message_is_taken_in_whole_and_served_in_its_order(drive: Driver) -> None:
    await drive.open()
    assert (await drive.submit(requests(*MANY))).accepted == len(MANY)
    assert (await drive.submit(requests(*MANY))).duplicates == len(MANY)
    claims = await drive.claim(len(MANY))
    assert [claim.request_id for claim in claims] == MANY


async def test_of_a_large_message_that_is_refused_nothing_stays(
    drive: Driver, store_settings: StoreSettings
) -> None:
    await drive.open()
    await drive.submit([request(MANY[-1], response=b"other")])
    with pytest.raises(Conflict):
        await drive.submit(requests(*MANY))
    assert (await drive.batch()).submitted == 1
    assert len(await keys(store_settings, "j:")) == 1
    assert len(await keys(store_settings, "p:")) == 1
    assert await keys(store_settings, "staged") == []


async def test_what_was_staged_by_someone_who_has_gone_is_dropped_by_a_sweep(
    drive: Driver, store_settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.store.operations.submitting.STAGED_KEPT_MS", 1)
    await drive.open()
    store = drive.store
    assert isinstance(store, ValkeyStore)
    monkeypatch.setattr(store._submitting, "_unstage", _nothing)
    await drive.submit([request(MANY[-1], response=b"other")])
    with pytest.raises(Conflict):
        await drive.submit(requests(*MANY))
    assert len(await keys(store_settings, "j:")) > SLICE

    async def swept() -> bool:
        await drive.reap()
        return len(await keys(store_settings, "j:")) == 1

    await eventually(swept)


async def _nothing(_staged: object) -> None:
    return


def paced() -> tuple[list[int], Callable[[TenantId, int], Awaitable[None]], asyncio.Event]:
    """Counts, and lets the requests go on once the event is set."""
    asked: list[int] = []
    go_on = asyncio.Event()

    async def pace(_tenant: TenantId, count: int) -> None:
        asked.append(count)
        await go_on.wait()

    return asked, pace, go_on


async def test_a_paced_message_is_accepted_at_once_and_claimable_in_parts(drive: Driver) -> None:
    await drive.open()
    asked, pace, go_on = paced()
    submitting = asyncio.ensure_future(
        drive.store.submit(TENANT, STEP, requests(*MANY), Quota(), pace=pace)
    )
    while not asked:
        await asyncio.sleep(0)
    assert (await drive.batch()).submitted == len(MANY)
    first = await drive.claim(len(MANY))
    assert [claim.request_id for claim in first] == MANY[:RELEASE_SLICE]
    go_on.set()
    assert (await submitting).accepted == len(MANY)
    rest = await drive.claim(len(MANY))
    assert [claim.request_id for claim in rest] == MANY[RELEASE_SLICE:]
    await drive.score([*first, *rest])
    assert (await drive.store.seal(TENANT, STEP)).ended == len(MANY)


async def test_a_batch_whose_requests_are_held_back_can_be_cancelled(
    drive: Driver, store_settings: StoreSettings
) -> None:
    await drive.open()
    asked, pace, go_on = paced()
    submitting = asyncio.ensure_future(
        drive.store.submit(TENANT, STEP, requests(*MANY), Quota(), pace=pace)
    )
    while not asked:
        await asyncio.sleep(0)
    batch, cancelled = await drive.store.cancel(TENANT, STEP)
    assert (batch.over, cancelled) == (True, len(MANY))
    go_on.set()
    await submitting
    assert await drive.claim(len(MANY)) == []
    assert await keys(store_settings, "held") == []


async def test_a_part_too_large_for_one_call_comes_back_as_it_was(
    drive: Driver, store_settings: StoreSettings
) -> None:
    large = bytes(range(256)) * (PIECE_BYTES // 100)
    exact = b"x" * (2 * PIECE_BYTES)
    await drive.open()
    await drive.submit([request("a", response=large, reference=exact)])
    [claim] = await drive.claim(1)
    assert (claim.response, claim.reference) == (large, exact)
    assert await keys(store_settings, "up:") == []
