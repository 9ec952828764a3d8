"""Typed clients of the reward service; no server code, nothing heavy.

What needs grpcio and protobuf is imported when it is first asked for, so that `assay.client.http`
works where these cannot be installed.
"""

import importlib
from typing import TYPE_CHECKING, Any

from assay.client import types
from assay.client.backoff import Backoff
from assay.client.types import *  # noqa: F403 each is named there alone

if TYPE_CHECKING:
    from assay.client.batch import Batch, SyncBatch
    from assay.client.client import Client, SyncClient
    from assay.client.connection import Identity
    from assay.client.failures import BatchLost

_LATER = {
    **dict.fromkeys(("Batch", "SyncBatch"), "assay.client.batch"),
    **dict.fromkeys(("Client", "SyncClient"), "assay.client.client"),
    "Identity": "assay.client.connection",
    "BatchLost": "assay.client.failures",
}

__all__ = ["Backoff", "Batch", "BatchLost", "Client", "Identity", "SyncBatch", "SyncClient"]
__all__ += types.__all__


def __getattr__(name: str) -> Any:  # noqa: ANN401 any of `_LATER`
    """Import on first use."""
    if name not in _LATER:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    found = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = found
    return found
