"""Ends in buckets: the ends that a heap would give, whatever is asked in between."""

import heapq
from collections.abc import Sequence

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from assay.model import agenda as agendas
from assay.model.arrays import FAR_NS

ITEMS = 60
SPANS = st.sampled_from([0, 1, 7, 100, 10**6, 10**12])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "end", "soonest"]),
        st.one_of(st.integers(0, 20), st.integers(0, 10**6), st.integers(0, 10**12)),
        st.one_of(st.integers(0, 20), st.integers(0, 10**6), st.integers(0, 10**12)),
    ),
    max_size=ITEMS,
)
AGENDA = agendas.make_agenda(ITEMS)
"""Used again and again, as in a plan: what is left of one stage is nothing to the next."""


@given(SPANS, st.integers(1, ITEMS), STEPS)
@example(1, 1, [("add", 0, 10**12), ("add", 0, 3), ("soonest", 0, 0), ("end", 3, 0)])
@example(1, 2, [("add", 0, 10**12), ("add", 0, 10**12 + 1), ("soonest", 0, 0), ("add", 5, 1)])
def test_items_end_in_the_order_of_their_ends(
    span_ns: int, expected: int, steps: Sequence[tuple[str, int, int]]
) -> None:
    """Each step is later by its second entry; an item that is added runs for its third. The span
    and the number of items are only what is expected."""
    heap: list[int] = []
    now_ns = origin_ns = 10**16
    agendas.clear(AGENDA, origin_ns, span_ns, expected)
    for item, (what, later_ns, took_ns) in enumerate(steps):
        now_ns += later_ns
        while agendas.ended(AGENDA, now_ns):
            assert AGENDA.near_ns[0] == heapq.heappop(heap)
            agendas.drop_soonest(AGENDA)
        assert all(end_ns > now_ns for end_ns in heap)
        if what == "add":
            agendas.add(AGENDA, item, now_ns, now_ns + took_ns)
            heapq.heappush(heap, now_ns + took_ns)
        elif what == "soonest":
            assert agendas.soonest_ns(AGENDA) == (heap[0] if heap else FAR_NS)
        assert agendas.running(AGENDA) == len(heap)


def test_few_ends_are_in_the_heap_where_they_are_spread() -> None:
    items = 2_000
    agenda = agendas.make_agenda(items)
    random = np.random.default_rng(0)
    took_ns = random.lognormal(3.9, 0.4, items) * 1e9
    came_ns = np.sort(random.integers(0, 300 * 10**9, items))
    agendas.clear(agenda, int(came_ns[0]), int(np.ptp(came_ns) + took_ns.max()), items)
    most = 0
    for item in range(items):
        now_ns = int(came_ns[item])
        while agendas.ended(agenda, now_ns):
            agendas.drop_soonest(agenda)
        agendas.add(agenda, item, now_ns, now_ns + int(took_ns[item]))
        most = max(most, int(agenda.state[agendas.NEAR]))
    assert agendas.running(agenda) > 100
    assert most < 15
