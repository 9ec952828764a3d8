"""Paths for which no token is asked for (pages, probes, what does not exist): a pace per address.

A page costs the event loop as much as a call does, and is no tenant's: without a pace, a stranger
who asks for pages as fast as they come makes all calls wait. One that is asked for too early waits.
Probes have a pace of their own, so that those of a proxy do not wait for pages that it passes on,
and the wait is bounded: whatever an address asks for, a probe from it is answered in its time.
Those that come together, or whose waits end together, are answered one per turn of the event loop,
and calls in between: a second's pace at once would otherwise hold the loop for 0.1 s.

Invariant: at most `ADDRESSES_MAX` addresses are remembered, those that would wait longest.
"""

import asyncio
import heapq
from collections.abc import Callable, Sequence, Set
from ipaddress import ip_network
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from assay.edge.connections.sockets import plain_host
from assay.edge.connections.turns import PieceTurns

PAGES_PER_S: Final = 32.0
PROBES_PER_S: Final = 64.0
"""One costs a fifth of a page."""
BURST_S: Final = 1.0
"""What an address may ask for at once, in seconds of its pace."""
PAGE_WAIT_S_MAX: Final = 5.0
PROBE_WAIT_S_MAX: Final = 0.5
"""Well below the patience of a liveness probe; the connections of an address are bounded, too."""
GOLDEN_RATIO: Final = 0.6180339887498949
"""Its multiples, without their whole parts, are spread evenly however many they are."""
ADDRESSES_MAX: Final = 4_096
IPV6_BITS: Final = 64
"""A client that has one address of a network of IPv6 has all of them."""


class AddressPace:
    """So many per second from each address."""

    def __init__(self, per_s: float, *, wait_s_max: float) -> None:
        """Nothing was asked for yet."""
        self._per_s = per_s
        self._wait_s_max = wait_s_max
        self._free_s: dict[str, float] = {}
        self._spread = 0.0

    def wait_s(self, address: str, now_s: float) -> float:
        """Take a turn; returns how many seconds to wait first."""
        free_s = max(self._free_s.get(address, 0.0), now_s - BURST_S)
        free_s = min(free_s, now_s + self._longest_s())
        self._free_s[address] = free_s + 1 / self._per_s
        if len(self._free_s) > ADDRESSES_MAX:
            kept = heapq.nlargest(ADDRESSES_MAX // 2, self._free_s, key=self._free_s.__getitem__)
            self._free_s = {one: self._free_s[one] for one in kept}
        return max(0.0, free_s - now_s)

    def _longest_s(self) -> float:
        """The longest wait or down to half of it: who asks together does not go on together."""
        self._spread = (self._spread + GOLDEN_RATIO) % 1.0
        return self._wait_s_max * (1 - self._spread / 2)


class OpenPaths:
    """Keeps the pace before an application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        guarded: Sequence[str],
        probes: Set[str],
        time_s: Callable[[], float] | None = None,
    ) -> None:
        """Stand before `app`.

        Args:
            app: the application.
            guarded: prefixes of paths that ask for a token, and have the pace of its tenant.
            probes: paths of probes.
            time_s: monotonic; by default that of the event loop.
        """
        self._app = app
        self._guarded = tuple(guarded)
        self._probes = probes
        self._time_s = time_s
        self._pages = AddressPace(PAGES_PER_S, wait_s_max=PAGE_WAIT_S_MAX)
        self._probing = AddressPace(PROBES_PER_S, wait_s_max=PROBE_WAIT_S_MAX)
        self._turns = PieceTurns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the turn of an open path, then call the application."""
        if scope["type"] == "http" and not scope["path"].startswith(self._guarded):
            time_s = self._time_s or asyncio.get_running_loop().time
            pace = self._probing if scope["path"] in self._probes else self._pages
            host, _ = scope.get("client") or ("", 0)
            if wait_s := pace.wait_s(network_of(host), time_s()):
                await asyncio.sleep(wait_s)
            await self._turns.turn()
        await self._app(scope, receive, send)


def network_of(host: str) -> str:
    """Whose pace an address has: its own, or that of its network of IPv6."""
    address = plain_host(host)
    if ":" not in address:
        return address
    return str(ip_network((address.partition("%")[0], IPV6_BITS), strict=False))
