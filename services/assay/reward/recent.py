"""A bounded memory of what was looked up: the least recently used entry goes first."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from assay.edge.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Keeps at most `entries_max` entries, none longer than `age_s_max`."""

    def __init__(self, *, entries_max: int, age_s_max: float, clock: Clock) -> None:
        self._entries_max = entries_max
        self._age_ns_max = int(age_s_max * 1e9)
        self._clock = clock
        self._entries: OrderedDict[K, tuple[int, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what is kept under `key`, or `None`."""
        found = self._entries.get(key)
        if found is None:
            return None
        kept_ns, value = found
        if self._clock.monotonic_ns() - kept_ns > self._age_ns_max:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep `value`, in place of what was there."""
        self._entries[key] = (self._clock.monotonic_ns(), value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)
