"""Earliest Batch First (DistRS, NSDI'26, section 5.2): who is served next.

One pure function for the store, which keeps its scores, and for the simulator, which sorts with it:
the batch whose deadline comes first is served first; inside a batch, and between batches with the
same deadline, the order of arrival decides. A request that is delivered again keeps its sequence
number and so its place.
"""

from typing import NamedTuple


class OrderKey(NamedTuple):
    """Smaller is served earlier. Total: `sequence` is unique."""

    deadline_ms: int
    sequence: int


def order_key(*, deadline_ns: int, sequence: int) -> OrderKey:
    """Earliest batch deadline first, then arrival.

    Args:
        deadline_ns: the batch's deadline, Unix time in nanoseconds. It is rounded up to whole
            milliseconds: 41 bits, which a double (the store's score) holds exactly.
        sequence: the request's number in the order of arrival.
    """
    return OrderKey(deadline_ms=-(-deadline_ns // 1_000_000), sequence=sequence)
