"""How many claims of each tenant wait for audits, and whose are claimed no more meanwhile. Pure.

A tenant has its share when it holds as many as are free: alone it gets half of the room, and there
is room left for the next. Tenants that hold nothing are never kept out by one that holds a lot.
"""

from collections import Counter

from assay.core.ids import TenantId


class AuditShares:
    """Claims that wait, in a room of a given size."""

    def __init__(self) -> None:
        self._held: Counter[TenantId] = Counter()

    def __len__(self) -> int:
        return self._held.total()

    def add(self, tenant: TenantId) -> None:
        """One more of the tenant waits."""
        self._held[tenant] += 1

    def remove(self, tenant: TenantId) -> None:
        """One of them no longer does."""
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]

    def clear(self) -> None:
        """Count no claim of any tenant."""
        self._held.clear()

    def at_share(self, room: int) -> frozenset[TenantId]:
        """The tenants that hold as many as are free, or more."""
        free = room - len(self)
        return frozenset(tenant for tenant, held in self._held.items() if held >= free)

    def is_full(self, room: int) -> bool:
        """Whether the tenants but the one with most fill the room. One claim brings several, so
        a tenant may come to hold more than its share, and is alone to wait for that."""
        return len(self) - max(self._held.values(), default=0) >= room
