"""On which worker hosts the slots of a stage are. Pure.

A slot is never moved: growing adds where the least is used, shrinking takes from hosts with idle
slots first and among them where the most is used. So a new host receives added slots, and a host
that leaves loses only its own. Where hosts differ in cost, the cheaper one is filled first, as far
as its cores reach, and the more expensive one emptied first.

A pool that grows to `WITNESSED_MIN` slots or more has one of them on another host: what a host says
can only be compared with what another one does (`session.trust`).
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_ROUNDING: Final = 1e-9
WITNESSED_MIN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSlots:
    """A stage's slots on one host."""

    host: str
    slots: int
    """Wanted there now."""
    busy: int
    room: int
    """Most that it takes, of this stage."""
    others: float = 0.0
    """Share of the host that slots of other stages use."""
    share: float = 0.0
    """Share of the host that one slot of this stage uses."""
    cost: float = 0.0
    """Of one slot, in any unit that is common to the hosts."""

    def used(self, slots: int) -> float:
        """Share of the host that is used with so many slots of this stage."""
        return self.others + slots * self.share

    def price(self, slots: int) -> tuple[bool, float]:
        """Orders hosts of different cost: beyond the whole host, its slots slow each other down."""
        return self.used(slots) > 1 + _ROUNDING, self.cost


def place(slots: int, hosts: Sequence[HostSlots]) -> Mapping[str, int]:
    """Slots per host, `slots` in all, or as many as there is room for.

    Args:
        slots: wanted over all hosts, 0 or more.
        hosts: each once.
    """
    placed = {host.host: max(0, min(host.slots, host.room)) for host in hosts}
    change = slots - sum(placed.values())
    if change > 0:
        _grow(placed, hosts, change)
        if sum(placed.values()) >= WITNESSED_MIN:
            _share_with_one(placed, hosts)
    else:
        _shrink(placed, hosts, -change)
    return placed


def _share_with_one(placed: dict[str, int], hosts: Sequence[HostSlots]) -> None:
    """Where one host has all slots, another one gets one of those that were added."""
    (first, *more) = [name for name, slots in placed.items() if slots]
    others = [one for one in hosts if one.host != first and one.room]
    if not more and others:
        other = min(others, key=lambda one: (one.price(1), one.used(1), one.host))
        placed[first], placed[other.host] = placed[first] - 1, 1


def _grow(placed: dict[str, int], hosts: Sequence[HostSlots], count: int) -> None:
    by_name = {host.host: host for host in hosts}
    differ = _differ_in_cost(hosts)

    def rank(one: HostSlots, now: int) -> tuple[bool, float, float, int, str]:
        price = one.price(now + 1) if differ else (False, 0.0)
        return *price, one.used(now), now, one.host

    heap = [rank(one, placed[one.host]) for one in hosts if placed[one.host] < one.room]
    heapq.heapify(heap)
    while count and heap:
        name = heap[0][-1]
        placed[name] += 1
        count -= 1
        one, now = by_name[name], placed[name]
        if now < one.room:
            heapq.heapreplace(heap, rank(one, now))
        else:
            heapq.heappop(heap)


def _shrink(placed: dict[str, int], hosts: Sequence[HostSlots], count: int) -> None:
    by_name = {host.host: host for host in hosts}
    differ = _differ_in_cost(hosts)

    def rank(one: HostSlots, now: int) -> tuple[bool, bool, float, float, int, str]:
        full, cost = one.price(now) if differ else (False, 0.0)
        return now <= one.busy, not full, -cost, -one.used(now), -now, one.host

    heap = [rank(one, placed[one.host]) for one in hosts if placed[one.host]]
    heapq.heapify(heap)
    while count and heap:
        name = heap[0][-1]
        placed[name] -= 1
        count -= 1
        if placed[name]:
            heapq.heapreplace(heap, rank(by_name[name], placed[name]))
        else:
            heapq.heappop(heap)


def _differ_in_cost(hosts: Sequence[HostSlots]) -> bool:
    return len({one.cost for one in hosts}) > 1
