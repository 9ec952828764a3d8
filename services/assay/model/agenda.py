"""When what runs will end: the ends of thousands, in the form that numba compiles.

A heap of hundreds of ends costs a walk over its levels for each, and a wrong guess at most of them.
Here time is cut into buckets of one width, of which only those that have begun are in a heap; later
ends stand in a list per bucket, in no order (calendar queue: Brown 1988, Communications of the ACM
31 (10), with the heap of a ladder queue in front). A bucket holds one or two ends where they are
spread, and with all ends in one bucket it is the heap that it would be otherwise.
"""

from typing import Final, NamedTuple

import numpy as np

from assay.model.arrays import FAR_NS, Ints
from assay.model.heap import pop, push
from assay.model.jit import in_place, part

NEAR, LISTED, BEGUN, BUCKETS, ORIGIN_NS, SHIFT = range(6)
"""Places in `Agenda.state`: ends in the heap; ends in lists; the last bucket that is in the heap,
-1 = none; how many there are; where the first begins; a bucket is `1 << SHIFT` ns wide."""
NONE: Final = -1


class Agenda(NamedTuple):
    """Ends of items, which are numbered from 0."""

    near_ns: Ints
    """A heap: ends in buckets that have begun."""
    first: Ints
    """bucket: its first item or `NONE`; the one behind the last bucket holds all later ends."""
    following: Ints
    """item: the next one in its bucket, or `NONE`."""
    ends_ns: Ints
    """item: when it ends."""
    state: Ints


def make_agenda(items: int) -> Agenda:
    """Allocate for up to `items` items."""
    return Agenda(
        near_ns=np.zeros(items + 1, np.int64),
        first=np.zeros(items + 2, np.int64),
        following=np.zeros(items, np.int64),
        ends_ns=np.zeros(items, np.int64),
        state=np.zeros(6, np.int64),
    )


@part
def clear(agenda: Agenda, origin_ns: int, span_ns: int, items: int) -> None:
    """Nothing runs. Ends are expected within the span, those of so many items."""
    buckets = max(min(items, agenda.first.shape[0] - 1), 1)
    shift = 0
    while span_ns >> shift >= buckets:
        shift += 1
    agenda.first[: buckets + 1] = NONE
    state = agenda.state
    state[NEAR], state[LISTED], state[BEGUN] = 0, 0, -1
    state[BUCKETS], state[ORIGIN_NS], state[SHIFT] = buckets, origin_ns, shift


@part
def bucket_of(agenda: Agenda, at_ns: int) -> int:
    """The bucket of an instant; the one behind the last for all later ones."""
    at = (at_ns - agenda.state[ORIGIN_NS]) >> agenda.state[SHIFT]
    return int(min(at, agenda.state[BUCKETS]))


@part
def running(agenda: Agenda) -> int:
    """How many items run."""
    return int(agenda.state[NEAR] + agenda.state[LISTED])


@part
def add(agenda: Agenda, item: int, now_ns: int, end_ns: int) -> None:
    """The item runs from now until then."""
    if running(agenda) == 0:  # buckets since the last end have nothing in them
        agenda.state[ORIGIN_NS], agenda.state[BEGUN] = now_ns, -1
    bucket = bucket_of(agenda, end_ns)
    if bucket <= agenda.state[BEGUN]:
        push(agenda.near_ns, agenda.state[NEAR], end_ns)
        agenda.state[NEAR] += 1
        return
    agenda.ends_ns[item] = end_ns
    agenda.following[item] = agenda.first[bucket]
    agenda.first[bucket] = item
    agenda.state[LISTED] += 1


@part
def begin_next(agenda: Agenda) -> None:
    """The next bucket begins: its ends go into the heap. Where all have begun, the later ends are
    spread over as many buckets again, from the first of them on."""
    state = agenda.state
    bucket = state[BEGUN] + 1
    item = agenda.first[bucket]
    agenda.first[bucket] = NONE
    if bucket == state[BUCKETS]:
        spread_again(agenda, item)
        return
    state[BEGUN] = bucket
    while item != NONE:
        push(agenda.near_ns, state[NEAR], agenda.ends_ns[item])
        state[NEAR] += 1
        state[LISTED] -= 1
        item = agenda.following[item]


@in_place
def spread_again(agenda: Agenda, item: int) -> None:
    """Put this item and those that follow it into buckets that begin with their first end."""
    origin_ns, later = FAR_NS, item
    while later != NONE:
        origin_ns = min(origin_ns, agenda.ends_ns[later])
        later = agenda.following[later]
    agenda.state[ORIGIN_NS], agenda.state[BEGUN] = origin_ns, -1
    while item != NONE:
        later = agenda.following[item]
        bucket = bucket_of(agenda, agenda.ends_ns[item])
        agenda.following[item] = agenda.first[bucket]
        agenda.first[bucket] = item
        item = later


@part
def ended(agenda: Agenda, until_ns: int) -> bool:
    """Whether the first end of all has passed; then it is at `near_ns[0]`, for `drop_soonest`."""
    state = agenda.state
    while state[NEAR] == 0 or agenda.near_ns[0] > until_ns:
        if state[LISTED] == 0 or state[BEGUN] >= bucket_of(agenda, until_ns):
            return False
        begin_next(agenda)
    return True


@part
def soonest_ns(agenda: Agenda) -> int:
    """The first end of all; FAR = nothing runs."""
    while agenda.state[NEAR] == 0 and agenda.state[LISTED] > 0:
        begin_next(agenda)
    return int(agenda.near_ns[0]) if agenda.state[NEAR] > 0 else FAR_NS


@part
def drop_soonest(agenda: Agenda) -> None:
    """The first end of those in the heap has passed."""
    pop(agenda.near_ns, agenda.state[NEAR])
    agenda.state[NEAR] -= 1
