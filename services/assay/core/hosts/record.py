"""A worker host as the platform knows it: what it says of itself, kept while it lives."""

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final

from assay.core.errors import InvalidRequest, Saturated
from assay.core.ids import StageName, WorkerId
from assay.core.store_limits import RETRY_AFTER_S

HOSTS_MAX: Final = 1_024
"""Hosts that the store keeps unless `store.hosts_max` says otherwise; a further one is refused
until one of them is gone."""
HOSTS_PER_OWNER_MAX: Final = 256
"""Of these, hosts of one owner (the name of a worker's token): one token that was taken over cannot
fill the places of all others."""
HOST_STAGES_MAX: Final = 256
NAME_CHARS_MAX: Final = 256
CORES_MAX: Final = 100_000
MEMORY_BYTES_MAX: Final = 1 << 50
SLOTS_MAX: Final = 100_000
BUSY_UNKNOWN: Final = -1
PORT_MAX: Final = 65_535
HOST_GONE: Final = "its worker host is gone"
"""Error of an attempt whose worker host is known to be dead."""
ADDRESS_FORM: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})"
)
"""A name, an IPv4 or a bracketed IPv6 address, and a port: no scheme that a client would follow to
a socket file or to another resolver."""
CREDENTIAL_FORM: Final = re.compile(r"[A-Za-z0-9_-]{43,128}")
"""What `secrets.token_urlsafe(32)` makes, or longer; it is sent as a header."""


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
    credential: str = field(default="", repr=False)
    """What planners show to its pool service. This life of the host made it up, and no other part
    accepts it; empty: a host of an earlier release, to which planners show nothing."""
    busy: int = BUSY_UNKNOWN
    """Slots that were at work when the record was renewed; `BUSY_UNKNOWN`: a host of an earlier
    release. A hint, by which the pods that go first are chosen: nothing is sized by it."""


def check_host(host: HostRecord) -> HostRecord:
    """Refuse a record that no host has a reason to send; returns it.

    Raises:
        InvalidRequest: a name is missing or too long, an address or a credential has a wrong form,
            or a number is out of its range.
    """
    names = {"worker": host.worker, "address": host.address}
    names |= {f"stages[{index}]": stage for index, stage in enumerate(host.stages)}
    for name, value in names.items():
        if not 0 < len(value) <= NAME_CHARS_MAX:
            message = f"host.{name}: 1 to {NAME_CHARS_MAX} characters, not {len(value)}"
            raise InvalidRequest(message, field=f"host.{name}")
    ranges = {
        "stages": (len(host.stages), 1, HOST_STAGES_MAX),
        "cores": (host.cores, 1, CORES_MAX),
        "memory_bytes": (host.memory_bytes, 1, MEMORY_BYTES_MAX),
        "slots_max": (host.slots_max, 1, SLOTS_MAX),
        "busy": (host.busy, BUSY_UNKNOWN, SLOTS_MAX),
    }
    for name, (number, least, most) in ranges.items():
        if not least <= number <= most:
            message = f"host.{name}: {least} to {most}, not {number}"
            raise InvalidRequest(message, field=f"host.{name}")
    address_of(host.address)
    if host.credential and not CREDENTIAL_FORM.fullmatch(host.credential):
        message = "host.credential: 43 to 128 letters, digits, _ and -"
        raise InvalidRequest(message, field="host.credential")
    return host


def address_of(address: str) -> tuple[str, int]:
    """The name or the IP address (without brackets), and the port, of a host's address.

    Raises:
        InvalidRequest: it has another form.
    """
    found = ADDRESS_FORM.fullmatch(address)
    if found is None or not 0 < int(found["port"]) <= PORT_MAX or not _is_host(found["name"]):
        message = "host.address: NAME:PORT, such as 10.0.0.7:8472 or [fd00::7]:8472"
        raise InvalidRequest(message, field="host.address")
    return found["name"].strip("[]"), int(found["port"])


def too_many_hosts(*, of_one: bool, hosts_max: int = HOSTS_MAX) -> Saturated:
    """The error that `put_host` raises."""
    message = f"{hosts_max} worker hosts are registered (store.hosts_max)"
    if of_one:
        message = f"{HOSTS_PER_OWNER_MAX} worker hosts are registered by this token"
    return Saturated(message, retry_after_s=RETRY_AFTER_S)


def _is_host(name: str) -> bool:
    """Whether it is a name or an IP address in the usual form; `127.1` and `0x7f000001` are
    neither, and resolvers take them for addresses."""
    last = name.rstrip(".").rpartition(".")[2]
    if name.startswith("[") or last.isdigit() or re.fullmatch(r"0[xX][0-9A-Fa-f]*", last):
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
    return True
