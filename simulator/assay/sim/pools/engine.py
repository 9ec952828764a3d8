"""Event queue of the readable simulator: integer nanoseconds; all events of one instant together.

Events are returned per instant so that a simulation and a live service decide alike: the order
inside an instant is defined by the stage pool, never by the heap.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from assay.core.errors import InvalidRequest

E = TypeVar("E")


class PoolEngine(Generic[E]):
    """A clock that jumps from one instant with events to the next."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, E]] = []
        self._number = count()
        self.now_ns = 0

    def schedule(self, at_ns: int, event: E) -> None:
        """Schedule `event` for `at_ns`.

        Raises:
            InvalidRequest: `at_ns` is in the past.
        """
        if at_ns < self.now_ns:
            raise InvalidRequest(f"{at_ns} is before {self.now_ns}", field="at_ns")
        heappush(self._heap, (at_ns, next(self._number), event))

    @property
    def next_ns(self) -> int | None:
        """Time of the next event."""
        return self._heap[0][0] if self._heap else None

    def pop_instant(self) -> list[E]:
        """Move to the next instant; return its events in the order of scheduling."""
        self.now_ns = self._heap[0][0]
        events: list[E] = []
        while self._heap and self._heap[0][0] == self.now_ns:
            events.append(heappop(self._heap)[2])
        return events
