"""Where slots go: what must hold for any hosts, and how a changing set of hosts plays out."""

import random

from hypothesis import given
from hypothesis import strategies as st

from assay.planner.session.placement import HostSlots, place

HOSTS = st.lists(
    st.builds(
        HostSlots,
        host=st.text("abcdef", min_size=1, max_size=3),
        slots=st.integers(0, 40),
        busy=st.integers(0, 40),
        room=st.integers(0, 30),
        others=st.floats(0, 4),
        share=st.floats(0, 1),
    ),
    max_size=8,
    unique_by=lambda one: one.host,
)


@given(st.integers(0, 300), HOSTS)
def test_all_is_placed_that_there_is_room_for_and_no_host_gets_more_than_it_takes(
    slots: int, hosts: list[HostSlots]
) -> None:
    placed = place(slots, hosts)
    assert sum(placed.values()) == min(slots, sum(one.room for one in hosts))
    assert all(0 <= placed[one.host] <= one.room for one in hosts)


@given(st.integers(0, 300), HOSTS)
def test_no_slot_moves_hosts_grow_or_shrink_together(slots: int, hosts: list[HostSlots]) -> None:
    placed = place(slots, hosts)
    changes = [placed[one.host] - min(one.slots, one.room) for one in hosts]
    assert all(change >= 0 for change in changes) or all(change <= 0 for change in changes)


@given(st.integers(0, 300), HOSTS, st.randoms())
def test_the_order_in_which_hosts_are_named_does_not_matter(
    slots: int, hosts: list[HostSlots], draw: random.Random
) -> None:
    shuffled = draw.sample(hosts, len(hosts))
    assert place(slots, hosts) == place(slots, shuffled)


@given(st.integers(0, 300), HOSTS)
def test_busy_slots_are_taken_only_when_no_host_has_an_idle_one(
    slots: int, hosts: list[HostSlots]
) -> None:
    placed = place(slots, hosts)
    now = {one.host: min(one.slots, one.room) for one in hosts}
    took_busy = any(placed[one.host] < min(now[one.host], one.busy) for one in hosts)
    if took_busy:
        assert all(placed[one.host] <= one.busy or placed[one.host] == 0 for one in hosts)


@given(st.integers(1, 200), st.lists(st.integers(1, 64), min_size=1, max_size=6))
def test_from_nothing_each_host_is_used_by_its_size(slots: int, cores: list[int]) -> None:
    hosts = [
        HostSlots(host=str(n), slots=0, busy=0, room=10**6, share=1 / size)
        for n, size in enumerate(cores)
    ]
    placed = place(slots, hosts)
    used = [placed[one.host] * one.share for one in hosts]
    assert max(used) - min(used) <= max(one.share for one in hosts) + 1e-9


@given(st.integers(0, 2**32 - 1))
def test_over_hosts_that_come_and_go_every_step_holds_what_is_wanted(seed: int) -> None:
    draw = random.Random(seed)
    hosts: dict[str, int] = {}
    room = 16
    for step in range(60):
        event = draw.random()
        if event < 0.2 or not hosts:
            hosts[f"h{step}"] = draw.randrange(4)  # its own start value
        elif event < 0.3:
            del hosts[draw.choice(sorted(hosts))]
        wanted = draw.randrange(0, 40)
        views = [
            HostSlots(host=name, slots=now, busy=draw.randrange(now + 1), room=room, share=1 / 8)
            for name, now in hosts.items()
        ]
        before, hosts = hosts, dict(place(wanted, views))
        assert sum(hosts.values()) == min(wanted, room * len(hosts))
        moved = sum(abs(hosts[name] - before[name]) for name in hosts)
        assert moved == abs(sum(hosts.values()) - sum(before.values()))
