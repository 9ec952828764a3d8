"""Addresses whose connections are cut again and again connect again at a pace.

A flood that is cut is connected again within a millisecond, and each new connection costs what is
parsed until it is cut. The server's library accepts connections by itself; what can be decided here
is which addresses the kernel lets begin one. It drops the first packet of others, which their own
kernel sends again after one second, two, four: who connects from the same address waits, and
is not refused. Connections that exist are not touched.
"""

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

CUTS_MAX: Final = 8
"""Connections of an address that are cut before it has to wait."""
CUTS_PER_S: Final = 0.5
DEBT_MAX: Final = 4
"""Further cuts that count; so an address waits for at most ten seconds after the last one."""
FRUITLESS_SHARE: Final = 1 / 32
"""Of a cut, for a connection that sent something and ended before a message of it was read: 224 at
once, and 16 per second, are no reason to wait. gRPC itself ends those that break its protocol."""
ADDRESSES_MAX: Final = 64

_NETWORK: Final = 0x1_0000_0000 - 0x10_0000
"""Where a filter finds the packet's network header (SKF_NET_OFF, linux/filter.h)."""
_LOAD_BYTE, _LOAD_WORD = 0x30, 0x20
_AND, _SHIFT_RIGHT, _EQUAL, _JUMP, _RETURN = 0x54, 0x74, 0x15, 0x05, 0x06
_FLAGS_AT, _SYN, _SYN_ACK = 13, 0x02, 0x12
_IPV4_SOURCE_AT, _IPV6_SOURCE_AT = 12, 8
_ALL: Final = 0xFFFF_FFFF
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27

FilterStep = tuple[int, int, int, int]
"""Code, steps over if true, steps over if not, operand."""


@dataclass(slots=True)
class _Cuts:
    count: float
    at_s: float


class Gate:
    """Which addresses may not begin connections now."""

    def __init__(self) -> None:
        self._cuts: dict[str, _Cuts] = {}

    def cut(self, address: str, now_s: float, share: float = 1.0) -> None:
        """A connection of this address was cut for what it sent; `share`: how much of a cut it
        counts as."""
        cuts = self._cuts.pop(address, None) or _Cuts(count=0.0, at_s=now_s)
        count = min(self._present(cuts, now_s) + share, CUTS_MAX + DEBT_MAX)
        self._cuts[address] = _Cuts(count=count, at_s=now_s)
        while len(self._cuts) > ADDRESSES_MAX:
            del self._cuts[next(iter(self._cuts))]

    def closed(self, now_s: float) -> tuple[str, ...]:
        """The addresses, sorted; those that were not cut lately are forgotten."""
        for address, cuts in list(self._cuts.items()):
            if not self._present(cuts, now_s):
                del self._cuts[address]
        return tuple(
            sorted(
                address
                for address, cuts in self._cuts.items()
                if self._present(cuts, now_s) > CUTS_MAX - 1
            )
        )

    def _present(self, cuts: _Cuts, now_s: float) -> float:
        return max(0.0, cuts.count - (now_s - cuts.at_s) * CUTS_PER_S)


def steps(addresses: Iterable[str]) -> Sequence[FilterStep]:
    """A socket filter that drops the first packet of connections from these addresses.

    It sees TCP headers, and network headers at `_NETWORK`. Accepted connections inherit it, and
    pass: none of their packets is a first one.
    """
    found = [ipaddress.ip_address(address) for address in addresses]
    four = [
        step
        for address in found
        if address.version == 4
        for step in ((_EQUAL, 0, 1, int(address)), (_RETURN, 0, 0, 0))
    ]
    six: list[FilterStep] = []
    for address in found:
        if address.version == 6:
            words = struct.unpack(">4I", address.packed)
            for at, word in enumerate(words):
                over = 2 * (len(words) - 1 - at) + 1
                six += [
                    (_LOAD_WORD, 0, 0, _NETWORK + _IPV6_SOURCE_AT + 4 * at),
                    (_EQUAL, 0, over, word),
                ]
            six.append((_RETURN, 0, 0, 0))
    return [
        (_LOAD_BYTE, 0, 0, _FLAGS_AT),
        (_AND, 0, 0, _SYN_ACK),
        (_EQUAL, 1, 0, _SYN),
        (_RETURN, 0, 0, _ALL),
        (_LOAD_BYTE, 0, 0, _NETWORK),
        (_SHIFT_RIGHT, 0, 0, 4),
        (_EQUAL, 1, 0, 4),
        (_JUMP, 0, 0, 1 + len(four) + 1),
        (_LOAD_WORD, 0, 0, _NETWORK + _IPV4_SOURCE_AT),
        *four,
        (_RETURN, 0, 0, _ALL),
        *six,
        (_RETURN, 0, 0, _ALL),
    ]


def close_to(listener: socket.socket, addresses: Sequence[str]) -> None:
    """Have a listening socket take no new connections from these addresses, and from all others.

    Raises:
        OSError: the kernel has no such filters.
    """
    if not addresses:
        listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
        return
    program = b"".join(struct.pack("=HBBI", *step) for step in steps(addresses))
    held = ctypes.create_string_buffer(program)
    count = len(program) // 8
    head = struct.pack("@HP", count, ctypes.addressof(held))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head)
