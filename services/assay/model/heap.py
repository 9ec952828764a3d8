"""Binary min-heaps in arrays, in the form that numba compiles."""

from assay.model.arrays import Ints
from assay.model.jit import part


@part
def push(heap: Ints, size: int, value: int) -> None:
    """Add to a binary min-heap that holds `size` entries."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= value:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = value


@part
def pop(heap: Ints, size: int) -> int:
    """Take the smallest of a binary min-heap that holds `size` entries.

    The gap goes down to a leaf by comparing children only, then the last entry rises from there
    (Wegener 1993, "Bottom-up heapsort"): it belongs near a leaf, and no branch has to be guessed.
    """
    smallest, last = heap[0], size - 1
    value = heap[last]
    at, child = 0, 2
    while child < last:
        child -= int(heap[child - 1] < heap[child])
        heap[at] = heap[child]
        at = child
        child = 2 * at + 2
    if child == last:
        heap[at] = heap[child - 1]
        at = child - 1
    push(heap, at, value)
    return int(smallest)


@part
def push_pair(heap: Ints, mate: Ints, size: int, value: int, other: int) -> None:
    """Like `push`, with a second value attached."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= value:
            break
        heap[at] = heap[parent]
        mate[at] = mate[parent]
        at = parent
    heap[at] = value
    mate[at] = other


@part
def pop_pair(heap: Ints, mate: Ints, size: int) -> int:
    """Like `pop`; returns the second value of the smallest entry."""
    smallest = mate[0]
    last = size - 1
    value = heap[last]
    other = mate[last]
    at = 0
    child = 1
    while child < last:
        if child + 1 < last and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        mate[at] = mate[child]
        at = child
        child = 2 * at + 1
    heap[at] = value
    mate[at] = other
    return int(smallest)
