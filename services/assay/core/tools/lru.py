"""Bounded caches: the least recently used entry is dropped first.

Of what several tenants have in one process, a `TenantCache` shows each its own entries only, and
the tenant that holds most loses first: one with at most an even share loses none to another.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Holds entries of total weight `weight_max`, each for at most `age_s_max`."""

    def __init__(
        self,
        *,
        weight_max: int,
        weigh: Callable[[V], int] = lambda _: 1,
        age_s_max: float = math.inf,
        now_s: Callable[[], float] = lambda: 0.0,
        dropped: Callable[[K], object] = lambda _: None,
    ) -> None:
        """Start empty.

        Args:
            weight_max: sum of the weights of all entries.
            weigh: weight of a value; 1 by default.
            age_s_max: seconds after which an entry counts as absent.
            now_s: the clock for that, in seconds.
            dropped: told the key of each entry that goes.
        """
        self._weight_max = weight_max
        self._weigh = weigh
        self._age_s_max = age_s_max
        self._now_s = now_s
        self._dropped = dropped
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self.weight = 0

    def is_empty(self) -> bool:
        """Whether nothing is held, not even what is too old."""
        return not self._entries

    def get(self, key: K) -> V | None:
        """Return the value, now the most recently used, or `None`."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        kept_s, value = entry
        if self._now_s() - kept_s > self._age_s_max:
            self.drop(key)
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Store `value` under the key, replacing any older value; drop others until all fit."""
        self.drop(key)
        self._entries[key] = (self._now_s(), value)
        self.weight += self._weigh(value)
        while self.weight > self._weight_max:
            self.drop_oldest()

    def drop(self, key: K) -> None:
        """Drop an entry, if it is there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.weight -= self._weigh(entry[1])
            self._dropped(key)

    def drop_oldest(self) -> None:
        """Drop the least recently used entry.

        Raises:
            KeyError: there is none.
        """
        key, (_, value) = self._entries.popitem(last=False)
        self.weight -= self._weigh(value)
        self._dropped(key)


class TenantCache(Generic[K, V]):
    """Holds entries of total weight `weight_max`, of any number of tenants.

    Invariants: a tenant finds only what was put for it; an entry of a tenant whose entries weigh at
    most `weight_max` by the number of tenants present is dropped for no other's.
    """

    def __init__(
        self,
        *,
        weight_max: int,
        weigh: Callable[[V], int] = lambda _: 1,
        age_s_max: float = math.inf,
        now_s: Callable[[], float] = lambda: 0.0,
        dropped: Callable[[K], object] = lambda _: None,
    ) -> None:
        """Start empty; see `LruCache`."""
        self._weight_max = weight_max
        self._empty: Callable[[], LruCache[K, V]] = lambda: LruCache(
            weight_max=weight_max, weigh=weigh, age_s_max=age_s_max, now_s=now_s, dropped=dropped
        )
        self._weight = 0
        self._of: dict[str, LruCache[K, V]] = {}

    def get(self, tenant: str, key: K) -> V | None:
        """Return the tenant's value, now its most recently used, or `None`."""
        entries = self._of.get(tenant)
        if entries is None:
            return None
        before = entries.weight
        value = entries.get(key)
        if value is None:
            self._count(tenant, before)
        return value

    def put(self, tenant: str, key: K, value: V) -> None:
        """Store `value` for the tenant, replacing any older value; drop others until all fit."""
        entries = self._of.get(tenant)
        if entries is None:
            entries = self._of[tenant] = self._empty()
        before = entries.weight
        entries.put(key, value)
        self._count(tenant, before)
        while self._weight > self._weight_max:
            loser = self._loser(tenant)
            before = self._of[loser].weight
            self._of[loser].drop_oldest()
            self._count(loser, before)

    def drop(self, tenant: str, key: K) -> None:
        """Drop an entry of the tenant, if it is there."""
        entries = self._of.get(tenant)
        if entries is not None:
            before = entries.weight
            entries.drop(key)
            self._count(tenant, before)

    def _loser(self, tenant: str) -> str:
        """Who holds more than an even share; a flood loses its own, without a look at others."""
        own = self._of.get(tenant)
        if own is not None and own.weight * len(self._of) >= self._weight:
            return tenant
        return max(self._of, key=lambda one: self._of[one].weight)

    def _count(self, tenant: str, before: int) -> None:
        """Take over what a tenant's entries weigh now; a tenant without entries is forgotten."""
        entries = self._of[tenant]
        self._weight += entries.weight - before
        if entries.is_empty():
            del self._of[tenant]
