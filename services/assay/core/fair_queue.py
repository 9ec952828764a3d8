"""One stage's queue in memory, in the order of `core.ordering`.

Invariants: a tenant has a virtual time in `shares.waiting` exactly while requests of it wait, and
every pop takes the first request of the first tenant.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from assay.core.ordering import OrderKey, Shares, T

E = TypeVar("E")


class Price(NamedTuple):
    """What a request is charged."""

    cost_us: int
    weight: float


class FairQueue(Generic[T, E]):
    """Entries of many tenants. A dropped entry stays in its heap until it reaches the front."""

    def __init__(self, waits: Callable[[E], bool] = lambda _: True) -> None:
        """`waits` is false for an entry that was dropped."""
        self.shares: Shares[T] = Shares()
        self._waits = waits
        self._heaps: dict[T, list[tuple[OrderKey, E]]] = defaultdict(list)
        self._counts: Counter[T] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def __iter__(self) -> Iterator[E]:
        """In no particular order."""
        return (entry for heap in self._heaps.values() for _, entry in heap if self._waits(entry))

    def push(self, tenant: T, key: OrderKey, entry: E, *, claims: int = 0) -> None:
        """Add an entry; `claims` have been made so far."""
        self.shares.join(tenant, claims)
        heappush(self._heaps[tenant], (key, entry))
        self._counts[tenant] += 1

    def others(self, left_out: Collection[T]) -> bool:
        """Whether entries wait of tenants that are not left out."""
        return bool(self.shares.waiting.keys() - left_out)

    def pop(
        self, price: Callable[[E], Price | None], left_out: Collection[T] = ()
    ) -> tuple[E, int | None]:
        """Return the next entry and what its tenant was charged.

        Args:
            price: price of an entry; `None` = it was charged before (and so is the returned
                charge).
            left_out: tenants whose entries stay.
        """
        tenant = self.shares.first(left_out)
        heap = self._heaps[tenant]
        _, entry = heappop(heap)
        while not self._waits(entry):
            _, entry = heappop(heap)
        asked = price(entry)
        charged = None if asked is None else self.shares.charge(tenant, *asked)
        self._count_down(tenant)
        self.shares.forgive()
        return entry, charged

    def drop(self, tenant: T) -> None:
        """Drop an entry of the tenant; `waits` must already return false for it."""
        self._count_down(tenant)

    def _count_down(self, tenant: T) -> None:
        self._counts[tenant] -= 1
        if not self._counts[tenant]:
            del self._counts[tenant], self._heaps[tenant]
            self.shares.leave(tenant)
