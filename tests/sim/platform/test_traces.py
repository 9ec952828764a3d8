"""One trace through the planning simulation's kernel and through the real services: equal instants.

Both must start and finish each request at each stage at the same nanosecond. What is fixed so that
they can be compared, and why:

* Calls take no time: no network, no thread, no pause of the loop. The kernel has none.
* A slot takes one request at a time. The kernel knows no batches of claims.
* No two causes fall on one instant: times are drawn by the nanosecond. The kernel takes all events
  of an instant together; the platform one after the other, in any order.
* No two batches have the same deadline. Both then go by arrival; the kernel counts it per task.
* With several tenants, the requests of one tenant cost the same at each stage, and the store knows
  it. The kernel charges a request when it starts with what it will cost, the store with what it
  expects, and corrects that when the request ends.
* With several hosts, no resizing: each host shrinks by its own idle slots.
* No request is short enough for a slot to have its next one before it is done. What is taken back
  from such a slot waits for its answer, which the kernel does not have.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.platform.trace import Trace, TraceBatch, by_kernel, by_platform

from assay.worker.assignment import AHEAD_HOLD_S_MAX

AFTER_NS = 10**9
SHORTEST_S = 1.05 * AHEAD_HOLD_S_MAX
ROUNDING_NS = 10
"""The loop's time is a float, and two timers within a nanosecond are one."""


def drawn(
    seed: int, *, stages: int, tenants: int, batches: int, requests: int, slots: int, hosts: int,
    resizes: int, death_share: float,
) -> Trace:  # fmt: skip
    """A trace of this size; everything else from the seed."""
    draw = random.Random(seed)

    def span_ns(low_s: float, high_s: float) -> int:
        return draw.randrange(int(low_s * 1e9), int(high_s * 1e9))

    names = [f"tenant{number}" for number in range(tenants)]
    weights = {name: draw.choice([0.5, 1.0, 1.0, 3.0]) for name in names}
    # Half a microsecond, so that the float's rounding does not change whole microseconds.
    cost_ns = {
        (n, j): span_ns(SHORTEST_S, 0.6) // 1_000 * 1_000 + 500 for n in names for j in range(9)
    }
    made = []
    for number in range(batches):
        tenant = names[number % tenants]
        used = sorted(draw.sample(range(stages), draw.randint(1, stages)))
        services = []
        for _ in range(draw.randint(1, requests)):
            last = draw.choice(used) if draw.random() < 0.3 else used[-1]
            own = [
                (cost_ns[tenant, j] if tenants > 1 else span_ns(SHORTEST_S, 0.6))
                if j in used and j <= last
                else 0
                for j in range(stages)
            ]
            services.append(tuple(own))
        deaths = {
            (request, stage, attempt): span_ns(0.0, lasts_ns / 1e9)
            for request, row in enumerate(services)
            for stage, lasts_ns in enumerate(row)
            for attempt in range(3 if tenants == 1 else 2)
            if lasts_ns and draw.random() < death_share
        }
        made.append(
            TraceBatch(
                tenant=tenant,
                weight=weights[tenant],
                opened_ns=span_ns(0.0, 2.0),
                deadline_ms=60_000 + draw.randrange(4_000) * 10 + number,
                arrived_ns=tuple(sorted(span_ns(0.0, 2.0) for _ in services)),
                service_ns=tuple(services),
                deaths_ns=deaths,
            )
        )
    sizes = [(stage + 1, stage, draw.randint(1, slots)) for stage in range(stages)]
    for _ in range(resizes):
        sizes.append((span_ns(0.5, 6.0), draw.randrange(stages), draw.randint(0, slots)))
    sizes += [(span_ns(6.0, 7.0), stage, slots) for stage in range(stages)] if resizes else []
    return Trace(
        stages=stages, startup_ns=span_ns(0.0, 1.5), batches=tuple(made), sizes=tuple(sizes),
        hosts=hosts,
    )  # fmt: skip


def compare(trace: Trace) -> int:
    """Both logs are equal; returns the number of starts."""
    expected, until_ns = by_kernel(trace)
    found = by_platform(trace, until_ns + AFTER_NS)
    assert found.keys() == expected.keys()
    for key, times in sorted(expected.items(), key=lambda item: item[1].start_ns):
        other = found[key]
        assert abs(other.start_ns - times.start_ns) <= ROUNDING_NS, (key, times, other)
        assert (other.finish_ns is None) == (times.finish_ns is None), (key, times, other)
        late_ns = (other.finish_ns or 0) - (times.finish_ns or 0)
        assert abs(late_ns) <= ROUNDING_NS, (key, times, other)
    return len(expected)


SIZES = {
    "seed": st.integers(0, 2**32), "stages": st.integers(1, 3), "batches": st.integers(1, 6),
    "requests": st.integers(1, 12), "slots": st.integers(1, 4),
}  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.fixed_dictionaries(SIZES), st.integers(1, 2))
def test_one_tenant_by_deadline_then_arrival(sizes: dict[str, int], hosts: int) -> None:
    slots = sizes["slots"] * hosts
    compare(drawn(**{**sizes, "slots": slots}, tenants=1, hosts=hosts, resizes=0, death_share=0.0))


@settings(max_examples=40, deadline=None)
@given(st.fixed_dictionaries(SIZES), st.integers(2, 3), st.integers(1, 2))
def test_tenants_share_by_weight(sizes: dict[str, int], tenants: int, hosts: int) -> None:
    compare(drawn(**sizes, tenants=tenants, hosts=hosts, resizes=0, death_share=0.0))


@settings(max_examples=40, deadline=None)
@given(st.fixed_dictionaries(SIZES), st.integers(1, 3), st.sampled_from([0.1, 0.4]))
def test_slots_that_die(sizes: dict[str, int], tenants: int, death_share: float) -> None:
    compare(drawn(**sizes, tenants=tenants, hosts=1, resizes=0, death_share=death_share))


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries(SIZES), st.integers(1, 3), st.integers(1, 6), st.booleans())
def test_pools_that_grow_and_shrink(
    sizes: dict[str, int], tenants: int, resizes: int, deadly: bool
) -> None:
    share = 0.1 if deadly else 0.0
    compare(drawn(**sizes, tenants=tenants, hosts=1, resizes=resizes, death_share=share))


def small(*, sizes: list[tuple[int, int]], lasts_ms: list[int]) -> Trace:
    """One stage, slots that start in a second, one batch that arrives at once; milliseconds."""
    batch = TraceBatch(
        tenant="tenant", weight=1.0, opened_ns=0, deadline_ms=60_000,
        arrived_ns=tuple(range(1, len(lasts_ms) + 1)),
        service_ns=tuple((ms * 1_000_000,) for ms in lasts_ms),
    )  # fmt: skip
    return Trace(
        stages=1, startup_ns=10**9, batches=(batch,),
        sizes=tuple((ms * 1_000_000 + 7, 0, slots) for ms, slots in sizes),
    )  # fmt: skip


def test_a_pool_that_shrinks_keeps_the_slots_that_are_ready_first() -> None:
    compare(small(sizes=[(0, 1), (500, 2), (600, 1)], lasts_ms=[100]))


@pytest.mark.parametrize("lasts_ms", [[200, 900, 100], [900, 200, 100]])
def test_a_pool_that_shrinks_loses_the_slot_that_is_done_first(lasts_ms: list[int]) -> None:
    compare(small(sizes=[(0, 2), (1_100, 1)], lasts_ms=lasts_ms))


@pytest.mark.parametrize("tenants", [1, 3])
def test_a_larger_trace(tenants: int) -> None:
    trace = drawn(
        1, stages=3, tenants=tenants, batches=9, requests=60, slots=6, hosts=2, resizes=0,
        death_share=0.02,
    )  # fmt: skip
    assert compare(trace) > 300
