"""A bounded memory of values that never change."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LastUsed(Generic[K, V]):
    """Keeps what was used last, up to `weight_max` in all."""

    def __init__(self, *, weight_max: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._weight_max = weight_max
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, now the last used."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep; what was not used for longest goes first."""
        self.drop(key)
        self._values[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._weight_max:
            _, dropped = self._values.popitem(last=False)
            self._weight -= self._weigh(dropped)

    def drop(self, key: K) -> None:
        """Forget."""
        old = self._values.pop(key, None)
        if old is not None:
            self._weight -= self._weigh(old)
