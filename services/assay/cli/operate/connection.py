"""Connections to the parts of the platform that runs on a data directory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from assay.cli.platform.addresses import running
from assay.config.settings import Settings
from assay.core.errors import NotFound
from assay.store.operations.looking import Looking, open_looking

if TYPE_CHECKING:
    from assay.store.port import Store


@asynccontextmanager
async def open_running_store(settings: Settings) -> AsyncIterator["Store"]:
    """Open the store of the platform that runs on the data directory, for the block.

    Raises:
        NotFound: no platform runs.
    """
    from assay.store.valkey import open_store  # a fifth of what `assay status` takes without it

    _check_runs(settings)
    store = open_store(settings.store, data_dir=settings.data_dir)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_running_view(settings: Settings) -> AsyncIterator[Looking]:
    """Look at the store of the platform that runs on the data directory, for the block.

    Raises:
        NotFound: no platform runs.
    """
    _check_runs(settings)
    looking = open_looking(settings.store, data_dir=settings.data_dir)
    try:
        yield looking
    finally:
        await looking.close()


def _check_runs(settings: Settings) -> None:
    if not settings.store.url:
        running(settings)  # raises when the embedded store is not up


def control_address(settings: Settings) -> str:
    """Return the address of this machine's worker host; the configured one where none runs."""
    try:
        return running(settings).control
    except NotFound:
        return f"{settings.worker.control_host}:{settings.worker.control_port}"
