"""Where a host without access to the store may say that it listens. Pure.

Planners connect to that address and show it the host's own credential, which is worth nothing
elsewhere; still a host has no reason to send them to what only another machine can reach itself.
"""

import ipaddress
from typing import Final
from urllib.parse import unquote

from assay.core.errors import PermissionDenied
from assay.core.hosts.record import address_of

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
LOCAL_NAMES: Final = ("localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain")


def peer_ip(peer: str) -> str:
    """The IP address in gRPC's name of a peer, `ipv4:10.0.0.7:4711` or `ipv6:%5B::1%5D:4711`;
    empty: it has none."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return ""
    return rest.rpartition(":")[0].strip("[]").partition("%")[0]


def refuse_own_address(address: str, peer: str) -> None:
    """Refuse an address that means each machine itself, its link, or no machine at all, unless
    the caller calls from there.

    Args:
        address: `host:port`, as registered.
        peer: IP address of the caller's connection; empty: not known.

    Raises:
        InvalidRequest: `address` has another form.
        PermissionDenied: it is such an address.
    """
    name, _ = address_of(address)
    caller = _ip(peer)
    at_home = caller is not None and caller.is_loopback
    if name.lower().rstrip(".") in LOCAL_NAMES or name.lower().rstrip(".").endswith(".localhost"):
        allowed = at_home
    else:
        found = _ip(name)
        allowed = (
            found is None
            or not _is_special(found)
            or found == caller
            or (found.is_loopback and at_home)
        )
    if not allowed:
        message = f"host.address: {name} is no address at which planners reach this host"
        raise PermissionDenied(message, field="host.address")


def _ip(text: str) -> IpAddress | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        return found.ipv4_mapped or found
    return found


def _is_special(found: IpAddress) -> bool:
    return (
        found.is_loopback
        or found.is_link_local
        or found.is_unspecified
        or found.is_multicast
        or found.is_reserved
    )
