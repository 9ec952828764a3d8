"""A worker host as the platform knows it: what it says of itself, kept while it lives."""

from dataclasses import dataclass
from typing import Final

from assay.core.errors import InvalidRequest
from assay.core.ids import StageName, WorkerId

HOSTS_MAX: Final = 1_024
"""Hosts that the store keeps; a further one is refused until one of them is gone."""
HOST_STAGES_MAX: Final = 256
NAME_CHARS_MAX: Final = 256
CORES_MAX: Final = 100_000
MEMORY_BYTES_MAX: Final = 1 << 50
SLOTS_MAX: Final = 100_000
HOST_GONE: Final = "its worker host is gone"
"""Error of an attempt whose worker host is known to be dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """One life of a worker host. It renews the record; one that ran out is as if it were absent."""

    worker: WorkerId
    """Owner of its leases: unique to this life of the host."""
    address: str
    """`host:port` of its pool service, as planners reach it."""
    stages: tuple[StageName, ...]
    cores: int
    """Cores that its slots share."""
    memory_bytes: int
    slots_max: int
    """Most slots per stage that it allows."""


def check_host(host: HostRecord) -> HostRecord:
    """Refuse a record that no host has a reason to send; returns it.

    Raises:
        InvalidRequest: a name is missing or too long, or a number is out of its range.
    """
    names = {"worker": host.worker, "address": host.address}
    names |= {f"stages[{index}]": stage for index, stage in enumerate(host.stages)}
    for field, name in names.items():
        if not 0 < len(name) <= NAME_CHARS_MAX:
            message = f"host.{field}: 1 to {NAME_CHARS_MAX} characters, not {len(name)}"
            raise InvalidRequest(message, field=f"host.{field}")
    ranges = {
        "stages": (len(host.stages), 1, HOST_STAGES_MAX),
        "cores": (host.cores, 1, CORES_MAX),
        "memory_bytes": (host.memory_bytes, 1, MEMORY_BYTES_MAX),
        "slots_max": (host.slots_max, 1, SLOTS_MAX),
    }
    for field, (value, least, most) in ranges.items():
        if not least <= value <= most:
            message = f"host.{field}: {least} to {most}, not {value}"
            raise InvalidRequest(message, field=f"host.{field}")
    return host
