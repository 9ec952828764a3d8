"""Files that are uploaded ahead, on every store: per tenant, bounded, kept for a time."""

import hashlib
import secrets

import pytest
from tests.store.driver import TENANT, Driver, eventually

from assay.core import store_limits
from assay.core.errors import Saturated, TooLarge
from assay.core.ids import TenantId
from assay.core.records import Quota
from assay.store.operations.pieces import PIECE_BYTES
from assay.store.port import Store
from assay.store.valkey import ValkeyStore

OTHER = TenantId("other")
LARGE = secrets.token_bytes(2 * PIECE_BYTES + 1)


async def put(store: Store, content: bytes, *, bytes_max: int = 2**30) -> str:
    name = hashlib.sha256(content).hexdigest()
    await store.upload_put(TENANT, name, content, Quota(uploads_bytes_max=bytes_max))
    return name


@pytest.mark.parametrize("content", [b"x", LARGE, LARGE[: 2 * PIECE_BYTES]])
async def test_a_file_is_read_as_it_was_written_by_its_tenant_alone(
    drive: Driver, content: bytes
) -> None:
    name = await put(drive.store, content)
    assert await drive.store.upload_get(TENANT, name) == content
    assert await drive.store.upload_get(OTHER, name) is None
    assert await drive.store.upload_get(TENANT, "0" * 64) is None


async def test_the_quota_counts_each_file_once_and_says_when_there_is_room(drive: Driver) -> None:
    await put(drive.store, b"12345", bytes_max=8)
    until_ns = await drive.store.upload_put(
        TENANT, hashlib.sha256(b"12345").hexdigest(), b"12345", Quota(uploads_bytes_max=8)
    )
    assert until_ns > 0
    with pytest.raises(Saturated) as caught:
        await put(drive.store, b"1234", bytes_max=8)
    assert 0 < caught.value.retry_after_s <= 86_400
    await put(drive.store, b"123", bytes_max=8)


async def test_files_are_bounded_in_number_however_small_they_are(
    drive: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "UPLOADS_MAX", 3)
    names = [await put(drive.store, bytes([at])) for at in range(3)]
    with pytest.raises(Saturated, match="3 files") as caught:
        await put(drive.store, b"more")
    assert 0 < caught.value.retry_after_s <= 86_400
    assert await put(drive.store, b"\0") == names[0]  # it is kept longer
    other = hashlib.sha256(b"more").hexdigest()
    assert await drive.store.upload_put(OTHER, other, b"more", Quota()) > 0


async def test_a_file_above_the_whole_quota_is_no_matter_of_waiting(drive: Driver) -> None:
    for first in (b"", b"1234"):
        if first:
            await put(drive.store, first, bytes_max=8)
        with pytest.raises(TooLarge, match="uploads_bytes_max is 8") as caught:
            await put(drive.store, b"123456789", bytes_max=8)
        assert caught.value.field == "content"
    name = await put(drive.store, b"123456789")
    assert await put(drive.store, b"123456789", bytes_max=8) == name  # it is kept longer


async def test_another_tenants_files_do_not_count(drive: Driver) -> None:
    name = await put(drive.store, b"12345", bytes_max=8)
    await drive.store.upload_put(OTHER, name, b"12345", Quota(uploads_bytes_max=8))
    assert await drive.store.upload_get(OTHER, name) == b"12345"


async def test_a_file_goes_after_its_time_and_its_room_is_free_again(store: Store) -> None:
    assert isinstance(store, ValkeyStore)
    store._settings = store._settings.model_copy(update={"uploads_kept_s": 0.05})
    name = await put(store, b"12345", bytes_max=8)

    async def gone() -> bool:
        return await store.upload_get(TENANT, name) is None

    await eventually(gone)
    await put(store, b"12345678", bytes_max=8)


async def test_a_file_that_the_server_lost_counts_once_when_it_is_put_again(store: Store) -> None:
    assert isinstance(store, ValkeyStore)
    name = await put(store, b"12345", bytes_max=8)
    await store._link.call("DEL", store._link.key("uc", TENANT, name))
    await put(store, b"12345", bytes_max=8)
    assert await store._link.call("HGET", store._link.key("uz", TENANT), "") == b"5"
