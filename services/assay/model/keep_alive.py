"""How long a slot is kept that nothing needs at present: for as long as its past gaps make that
cheaper than to release it and to have it again. Pure.

The rent-or-buy question (ski rental). Keeping a slot costs its time; releasing it costs a price
when it is needed again. While little is known, the break-even rule keeps it until that has cost
another start and two changes of the pool, and so at most twice what it would cost to know. From
past gaps follows the time that would have cost least over them, never longer than the price. (The
keep-alive of Serverless in the Wild, USENIX ATC 2020, by cost instead of by a quantile.)

Slots are counted from the bottom: the k-th slot of a pool is needed while at least k are wanted.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

GAPS_MAX: Final = 32
"""Latest gaps of a slot that are remembered."""
GAPS_MIN: Final = 3
"""Fewer say nothing."""
SLOTS_KEPT_MAX: Final = 4
"""Slots of a pool that are kept by their gaps. Where more are wanted, one is a small part of the
pool, and a trainer's batches decide."""
LONGER: Final = 1.2
"""The next gap may be so much longer than one that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPrices:
    """What it costs to release a slot and to have it again, in nanoseconds of that slot."""

    again_ns: int
    """Where past gaps say when: also what it is worth that it is there."""
    unknown_ns: int
    """Where they do not."""


def keep_prices(startup_ns: int, price_ns: int, change_price_ns: int) -> KeepPrices:
    """The prices of a slot.

    Args:
        startup_ns: how long another takes to start.
        price_ns: the price besides that, where past gaps say when it is needed; 0 = nothing is
            kept.
        change_price_ns: what a change of its pool's size costs.
    """
    if price_ns == 0:
        return KeepPrices(again_ns=0, unknown_ns=0)
    again_ns = startup_ns + price_ns
    unknown_ns = startup_ns + 2 * change_price_ns
    return KeepPrices(again_ns=again_ns, unknown_ns=min(unknown_ns, again_ns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Slots that nothing needs and that are kept."""

    slots: int
    """Those that are needed are counted with them."""
    left_ns: int
    """For how long so many are."""


def kept_ns(gaps_ns: Sequence[int], prices: KeepPrices) -> int:
    """For how long to keep a slot that nothing needs.

    Args:
        gaps_ns: for how long it was not needed in the past, until it was needed again.
        prices: what it costs to release it.
    """
    if len(gaps_ns) < GAPS_MIN:
        return prices.unknown_ns

    def cost_ns(kept: int) -> int:
        return sum(gap if gap <= kept else kept + prices.again_ns for gap in gaps_ns)

    tried = [0, *(min(round(LONGER * gap), prices.again_ns) for gap in gaps_ns)]
    return min(tried, key=lambda kept: (cost_ns(kept), kept))


@dataclass(slots=True)
class _Slot:
    """The k-th slot of a pool."""

    gaps_ns: deque[int] = field(default_factory=lambda: deque(maxlen=GAPS_MAX))
    was_needed: bool = False
    since_ns: int | None = None
    """Since when it is not needed; `None` = it is, or never was."""

    def need(self, now_ns: int, *, is_needed: bool) -> None:
        """It is needed from now on, or not."""
        if is_needed:
            if self.since_ns is not None:
                self.gaps_ns.append(max(now_ns - self.since_ns, 0))
            self.was_needed, self.since_ns = True, None
        elif self.was_needed and self.since_ns is None:
            self.since_ns = now_ns

    def left_ns(self, now_ns: int, prices: KeepPrices) -> int:
        """For how long it is kept from now on, if it is not needed again."""
        if self.since_ns is None:
            return 0
        return max(self.since_ns + kept_ns(self.gaps_ns, prices) - now_ns, 0)


class KeepAlive:
    """The lowest slots of one pool. It forgets all with its process: the break-even rule holds
    until new gaps are known."""

    def __init__(self) -> None:
        self._slots = [_Slot() for _ in range(SLOTS_KEPT_MAX)]

    def need(self, wanted: int, now_ns: int) -> None:
        """So many slots are wanted from now on."""
        for k, slot in enumerate(self._slots, 1):
            slot.need(now_ns, is_needed=wanted >= k)

    def kept(self, now_ns: int, prices: KeepPrices) -> Kept | None:
        """What is kept now beyond what is needed; `None` = nothing."""
        for k in range(len(self._slots), 0, -1):
            left_ns = self._slots[k - 1].left_ns(now_ns, prices)
            if left_ns:
                return Kept(slots=k, left_ns=left_ns)
        return None
