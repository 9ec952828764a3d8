"""Both stores behind one driver, so that one suite holds them to the same behaviour."""

from collections.abc import AsyncIterator

import pytest
from tests.store.driver import Driver, MakeStore
from tests.store.remote import by_the_api

from assay.config.settings import StoreSettings
from assay.edge.clock import Clock
from assay.store.link import SLICE
from assay.store.port import Store
from assay.store.valkey import ValkeyStore
from assay.testing.memory_store import MemoryStore
from assay.testing.queue_model import QueueLimits


@pytest.fixture(params=["memory", "valkey", "valkey in parts", "by the API"])
async def make_store(
    request: pytest.FixtureRequest, store_settings: StoreSettings
) -> AsyncIterator[MakeStore]:
    """Open stores of one kind with settings of the test's choice."""
    stores: list[Store] = []

    def make(**changes: float) -> Store:
        settings = store_settings.model_copy(update=changes)
        store: Store
        if request.param == "memory":
            limits = QueueLimits(
                batch_overdue_ns=int(settings.batch_overdue_s * 1e9),
                results_kept_ns=int(settings.results_kept_s * 1e9),
                history_batches=settings.history_batches,
                dead_letters_max=settings.dead_letters_max,
                hosts_max=settings.hosts_max,
                held_ns_max=int(settings.held_s_max * 1e9),
            )
            store = MemoryStore(Clock(), limits)
        else:
            part = 1 if request.param == "valkey in parts" else SLICE
            store = valkey = ValkeyStore(settings, url=settings.url, part_requests_max=part)
            if part == 1:  # with scripts in place of functions: the two forms must agree
                valkey._link._has_functions = False
            if request.param == "by the API":
                store = by_the_api(store)
        stores.append(store)
        return store

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
def drive(make_store: MakeStore) -> Driver:
    """An empty store."""
    return Driver(make_store())


@pytest.fixture
def valkey_drive(store: Store) -> Driver:
    """An empty store on the real server, where a test is about the server."""
    return Driver(store)
