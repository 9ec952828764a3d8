"""Where the platform of a data directory listens, read from the files of its parts.

Imports little: `assay status` and its like read an address and make one call.
"""

from dataclasses import dataclass

from assay.config.ready_files import Part, living, planner_of, ready_file
from assay.config.settings import Settings
from assay.core.errors import NotFound
from assay.store.server import embedded_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a platform listens."""

    grpc: str
    http: str
    control: str
    store: str
    rollout: str = ""
    """Of the rollout service; empty where no model is served."""
    gateway: str = ""
    """URL of its gateway for agents; empty where there is none."""


def running(settings: Settings) -> Addresses:
    """Where the platform of this data directory listens.

    Raises:
        NotFound: none does.
    """
    api = living(ready_file(settings.data_dir, Part.REWARD))
    pools = living(ready_file(settings.data_dir, Part.WORKER))
    if api is None or pools is None:
        message = f"no platform runs on {settings.data_dir}; start one with: assay up"
        raise NotFound(message)
    store = settings.store.url or embedded_url(settings.data_dir)
    return Addresses(grpc=api["grpc"], http=api["http"], control=pools["control"], store=store)


def planner_address(settings: Settings) -> str:
    """Where the planner listens (gRPC): as set, or that of this directory; empty: none does."""
    return planner_of(settings.data_dir, settings.reward.planner_address)
