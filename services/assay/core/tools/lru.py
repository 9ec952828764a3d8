"""A bounded cache: the least recently used entry is dropped first."""

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
