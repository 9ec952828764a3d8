"""What workers of every store share: rate limits of providers, and artifacts.

Each test runs on the store in memory and on a real Valkey. Instants are each store's own, so
nothing here compares them with the test's clock; where time must pass, the test waits for what it
brings about.
"""

import asyncio

from tests.store.driver import (
    PATIENCE_S,
    Driver,
    eventually,
)

from assay.core.ids import TenantId

# -- rate limits ---------------------------------------------------------------------------------


async def test_a_rate_limit_is_shared_per_tenant_and_provider(drive: Driver) -> None:
    store = drive.store
    a, b = TenantId("a"), TenantId("b")
    limits = {"requests": (1, 3), "tokens": (10, 1_000)}
    assert [await store.permit(a, "p", limits) for _ in range(3)] == [0.0] * 3
    wait_s = await store.permit(a, "p", limits)
    assert 15.0 < wait_s <= 20.0
    assert await store.permit(b, "p", limits) == 0.0
    assert await store.permit(a, "other", limits) == 0.0
    assert await store.permit(a, "p", {"requests": (1, 0)}) == 0.0


async def test_a_call_that_one_limit_refuses_takes_nothing_of_the_other(drive: Driver) -> None:
    store = drive.store
    tenant = TenantId("a")
    assert await store.permit(tenant, "p", {"requests": (1, 2), "tokens": (100, 100)}) == 0.0
    for _ in range(5):
        assert await store.permit(tenant, "p", {"requests": (1, 2), "tokens": (100, 100)}) > 0.0
    assert await store.permit(tenant, "p", {"requests": (1, 2)}) == 0.0


# -- artifacts -----------------------------------------------------------------------------------


async def test_an_artifact_has_one_maker_and_wakes_all_who_wait(drive: Driver) -> None:
    store = drive.store
    assert await store.artifact_get("sha") is None
    assert await store.artifact_begin("sha", lease_s=60.0)
    assert not await store.artifact_begin("sha", lease_s=60.0)
    waiting = [
        asyncio.create_task(store.artifact_wait("sha", timeout_s=PATIENCE_S)) for _ in range(8)
    ]
    await asyncio.sleep(0)
    await store.artifact_put("sha", b"\x7fELF")
    assert await asyncio.gather(*waiting) == [b"\x7fELF"] * 8
    assert await store.artifact_get("sha") == b"\x7fELF"
    assert not await store.artifact_begin("sha", lease_s=60.0)
    assert await store.artifact_wait("sha", timeout_s=0.01) == b"\x7fELF"


async def test_an_empty_artifact_is_an_artifact(drive: Driver) -> None:
    await drive.store.artifact_begin("sha", lease_s=60.0)
    await drive.store.artifact_put("sha", b"")
    assert await drive.store.artifact_get("sha") == b""


async def test_an_abandoned_artifact_wakes_those_who_wait_and_may_be_begun_again(
    drive: Driver,
) -> None:
    store = drive.store
    await store.artifact_begin("sha", lease_s=60.0)
    waiting = asyncio.create_task(store.artifact_wait("sha", timeout_s=PATIENCE_S))
    await asyncio.sleep(0)
    await store.artifact_abandon("sha")
    assert await waiting is None
    assert await store.artifact_begin("sha", lease_s=60.0)
    await store.artifact_put("sha", b"x")
    assert await store.artifact_wait("sha", timeout_s=1.0) == b"x"


async def test_the_artifact_of_a_maker_that_died_may_be_begun_again(drive: Driver) -> None:
    store = drive.store
    await store.artifact_begin("sha", lease_s=0.02)
    assert await store.artifact_wait("sha", timeout_s=PATIENCE_S) is None
    assert await eventually(lambda: store.artifact_begin("sha", lease_s=60.0))


async def test_waiting_for_an_artifact_ends_at_the_time_out(drive: Driver) -> None:
    await drive.store.artifact_begin("sha", lease_s=60.0)
    assert await drive.store.artifact_wait("sha", timeout_s=0.02) is None
