"""How many claims of each tenant wait for audits, and whose are claimed no more meanwhile. Pure.

A tenant may hold as many claims as there are free places. So a single tenant gets half of the room,
the next one half of the rest, and one that holds nothing is never kept out by one that holds a lot.
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
        """Whether the room is full without the tenant that holds most.

        One claim may bring several, so a tenant may exceed its share; then only it waits."""
        return len(self) - max(self._held.values(), default=0) >= room
