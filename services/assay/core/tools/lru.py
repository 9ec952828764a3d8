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
    ) -> None:
        """Start empty.

        Args:
            weight_max: sum of the weights of all entries.
            weigh: weight of a value; 1 by default.
            age_s_max: seconds after which an entry counts as absent.
            now_s: the clock for that, in seconds.
        """
        self._weight_max = weight_max
        self._weigh = weigh
        self._age_s_max = age_s_max
        self._now_s = now_s
        self._weight = 0
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

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
        self._weight += self._weigh(value)
        while self._weight > self._weight_max:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._weight -= self._weigh(dropped)

    def drop(self, key: K) -> None:
        """Drop an entry, if it is there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= self._weigh(entry[1])


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
    ) -> None:
        """Start empty; see `LruCache`."""
        self._weight_max = weight_max
        self._weigh = weigh
        self._age_s_max = age_s_max
        self._now_s = now_s
        self._weight = 0
        self._weights: dict[str, int] = {}
        self._entries: dict[str, OrderedDict[K, tuple[float, V]]] = {}

    def get(self, tenant: str, key: K) -> V | None:
        """Return the tenant's value, now its most recently used, or `None`."""
        entries = self._entries.get(tenant)
        entry = entries.get(key) if entries is not None else None
        if entry is None:
            return None
        kept_s, value = entry
        if self._now_s() - kept_s > self._age_s_max:
            self._drop(tenant, key)
            return None
        self._entries[tenant].move_to_end(key)
        return value

    def put(self, tenant: str, key: K, value: V) -> None:
        """Store `value` for the tenant, replacing any older value; drop others until all fit."""
        self._drop(tenant, key)
        weight = self._weigh(value)
        self._entries.setdefault(tenant, OrderedDict())[key] = (self._now_s(), value)
        self._weights[tenant] = self._weights.get(tenant, 0) + weight
        self._weight += weight
        while self._weight > self._weight_max:
            loser = self._loser(tenant)
            self._drop(loser, next(iter(self._entries[loser])))

    def _loser(self, tenant: str) -> str:
        """Who holds more than an even share; a flood loses its own, without a look at others."""
        if self._weights.get(tenant, 0) * len(self._weights) >= self._weight:
            return tenant
        return max(self._weights, key=self._weights.__getitem__)

    def _drop(self, tenant: str, key: K) -> None:
        entries = self._entries.get(tenant)
        entry = entries.pop(key, None) if entries is not None else None
        if entries is None or entry is None:
            return
        weight = self._weigh(entry[1])
        self._weight -= weight
        self._weights[tenant] -= weight
        if not entries:
            del self._entries[tenant], self._weights[tenant]
