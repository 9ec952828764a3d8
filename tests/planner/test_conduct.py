"""Hosts that break their word about slots, in ways that are drawn.

A planner asks honest hosts and liars for slots, second by second, while requests wait all along: as
`HostsScaler` does, with the same parts. Whatever the liars say:

* no host counts for more slots than it was asked for, and the wanted number is never exceeded;
* an honest host counts for exactly what it was asked for, and is never held back;
* liars keep slots from the honest hosts for a bounded part of the time.
"""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay.core.hosts.record import HostRecord
from assay.core.ids import StageName, WorkerId
from assay.planner.service.host_view import HostView
from assay.planner.session.conduct import (
    CHANGES_MAX,
    FAILURES_MAX,
    SHORT_NS,
    STUBBORN_NS,
    STUBBORN_NS_MAX,
    Conduct,
    patience_with,
)
from assay.planner.session.messages import PoolState, Startup
from assay.planner.session.placement import WITNESSED_MIN, HostSlots, place
from assay.planner.session.trust import Reading, Trust

ONE = StageName("one")
S = 10**9
BEGUN_NS = 10**15
SLOTS_MAX = 40
START_S = 3
"""Seconds until an honest slot is ready."""
PATIENCE = {ONE: patience_with(Startup(measured=9, p50_ns=START_S * S, p90_ns=START_S * S))}
KEPT_SHARE_MAX = 0.25
"""Of an hour, per liar."""
HOUR_S = 3_600


def pool(desired: int, ready: int) -> PoolState:
    return PoolState(stage=ONE, desired=desired, ready=ready, busy=0)


@dataclass(slots=True)
class Honest:
    """A host that starts what it is asked for."""

    view: HostView
    desired: int = 0
    due_s: list[int] = field(default_factory=list)
    now_s: int = 0
    ends: float = 0.0

    def says(self) -> PoolState:
        ready = sum(due <= self.now_s for due in self.due_s)
        self.ends += ready
        return pool(self.desired, ready)

    def is_asked(self, slots: int) -> PoolState | None:
        self.desired = slots
        del self.due_s[slots:]
        self.due_s += [self.now_s + START_S] * (slots - len(self.due_s))
        return pool(slots, sum(due <= self.now_s for due in self.due_s))


@dataclass(slots=True)
class Liar(Honest):
    """A host that has no slots, and says what it likes."""

    draw: random.Random = field(default_factory=random.Random)
    habits: tuple[str, ...] = ()

    def says(self) -> PoolState:
        return self.lie(self.draw.choice(self.habits))

    def is_asked(self, slots: int) -> PoolState | None:
        self.desired = slots
        habit = self.draw.choice(self.habits)
        return None if habit == "hangs" else self.lie(habit)

    def lie(self, habit: str) -> PoolState:
        desired = self.desired
        match habit:
            case "obeys":
                return pool(desired, 0)
            case "pretends":
                return pool(desired, desired)
            case "flickers":
                return pool(desired, self.draw.randint(0, max(0, desired - 1)))
            case "more":
                return pool(desired + self.draw.randint(1, 10_000), self.draw.randint(0, 10_000))
            case "fewer":
                return pool(self.draw.randint(0, desired), 0)
            case "stale":
                return pool(7, 3)
        return pool(desired, self.draw.choice([0, desired]))


HABITS = ("obeys", "pretends", "flickers", "more", "fewer", "stale", "hangs")


class Scene:
    """The parts of a `HostsScaler`, without connections."""

    def __init__(self, honest: int, liars: list[tuple[str, ...]], seed: int) -> None:
        self.now_s = 0
        self.trust = Trust(timeout_s=20.0)
        names = [f"host-{n}" for n in range(honest)] + [f"liar-{n}" for n in range(len(liars))]
        views = [HostView(record=record(name), pools={ONE: pool(0, 0)}) for name in names]
        self.honest = [Honest(view) for view in views[:honest]]
        self.liars = [
            Liar(view, draw=random.Random(seed + n), habits=habits)
            for n, (view, habits) in enumerate(zip(views[honest:], liars, strict=True))
        ]

    @property
    def now_ns(self) -> int:
        return BEGUN_NS + self.now_s * S

    def second(self, wanted: int) -> None:
        self.now_s += 1
        hosts = [*self.honest, *self.liars]
        for host in hosts:
            host.now_s = self.now_s
            host.view.said({ONE: host.says()}, self.now_ns, PATIENCE)
        self.trust.look(
            [
                Reading(one.view.record.worker, one.view.pools[ONE].ready, int(one.ends))
                for one in hosts
            ],
            now_s=float(self.now_s), waited_s=1.0,
        )  # fmt: skip
        for _ in range(3):
            if self.placed(wanted):
                break
        self.holds(wanted)

    def serving(self) -> list[Honest]:
        hosts = [*self.honest, *self.liars]
        return [h for h in hosts if h.view.record.worker not in self.trust.doubted] or hosts

    def placed(self, wanted: int) -> bool:
        serving = self.serving()
        sizes = place(wanted, [slots_of(one.view, self.now_ns) for one in serving])
        took = True
        for one in serving:
            view, size = one.view, sizes[one.view.record.worker]
            if not view.is_to_be_asked(ONE, size, self.now_ns):
                continue
            said = one.is_asked(size)
            if said is None:
                view.did_not_resize(ONE, self.now_ns)
                took = False
            else:
                took &= view.obeyed(ONE, size, said, self.now_ns, PATIENCE)
        return took

    def holds(self, wanted: int) -> None:
        for one in self.honest:
            assert one.view.believed(ONE) == one.desired
            assert one.view.room(ONE, self.now_ns) == SLOTS_MAX, "it is not held back"
        for liar in self.liars:
            if (asked := liar.view.conduct[ONE].asked) is not None:
                assert liar.view.believed(ONE) <= asked <= wanted

    def kept(self, wanted: int) -> int:
        """Slots that the honest hosts lack."""
        return max(0, wanted - sum(one.desired for one in self.honest))


def record(name: str) -> HostRecord:
    return HostRecord(
        worker=WorkerId(name), address="127.0.0.1:1", stages=(ONE,), cores=4, memory_bytes=1,
        slots_max=SLOTS_MAX,
    )  # fmt: skip


def slots_of(view: HostView, now_ns: int) -> HostSlots:
    return HostSlots(
        host=view.record.worker, slots=view.believed(ONE), busy=view.pools[ONE].busy,
        room=view.room(ONE, now_ns), share=0.25,
    )  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(
    honest=st.integers(1, 3),
    liars=st.lists(
        st.lists(st.sampled_from(HABITS), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3
    ),
    wanted=st.integers(2, 20),
    seed=st.integers(0, 2**32 - 1),
)
@example(honest=1, liars=[("flickers",)], wanted=8, seed=0)
@example(honest=1, liars=[("obeys",)], wanted=8, seed=0)
@example(honest=1, liars=[("more", "fewer"), ("hangs",)], wanted=8, seed=0)
@example(honest=1, liars=[("pretends",), ("fewer",)], wanted=4, seed=0)
def test_liars_keep_slots_from_honest_hosts_for_a_bounded_time(
    honest: int, liars: list[tuple[str, ...]], wanted: int, seed: int
) -> None:
    scene = Scene(honest, liars, seed)
    kept = 0
    for _ in range(HOUR_S):
        scene.second(wanted)
        kept += scene.kept(wanted) > 0
    assert kept <= KEPT_SHARE_MAX * HOUR_S * len(liars)


# -- one habit at a time -----------------------------------------------------------------------


def test_slots_beyond_those_asked_for_do_not_count() -> None:
    one = Conduct()
    assert not one.took(4, pool(1_000, 1_000), BEGUN_NS)
    assert one.believed(pool(1_000, 1_000)) == 4
    assert one.believed(pool(3, 1_000)) == 3


def test_slots_that_flicker_are_missing_all_along() -> None:
    one = Conduct()
    assert one.took(5, pool(5, 0), BEGUN_NS)
    for second in range(SHORT_NS // S + 4):
        one.said(pool(5, second % 4), BEGUN_NS + second * S)
    assert one.is_short
    assert one.believed(pool(5, 2)) == 2


def test_a_host_that_asks_for_more_patience_by_other_sizes_gets_none() -> None:
    one = Conduct()
    for second in range(0, SHORT_NS // S + 2, 10):
        now_ns = BEGUN_NS + second * S
        one.took(5 + second, pool(5 + second, 1), now_ns)
    assert one.is_short


def test_each_offence_costs_twice_as_long_until_it_behaves() -> None:
    one, now_ns, pauses = Conduct(), BEGUN_NS, []
    for _ in range(7):
        one.took(5, pool(1, 1), now_ns)
        pauses.append(one.until_ns - now_ns)
        assert one.room(pool(1, 1), 9, one.until_ns - 1) == 1
        now_ns = one.until_ns
        assert one.room(pool(1, 1), 9, now_ns) == 9
    assert pauses == [STUBBORN_NS << n for n in range(5)] + [STUBBORN_NS_MAX] * 2
    one.took(5, pool(1, 1), now_ns := now_ns + STUBBORN_NS_MAX)
    assert one.until_ns - now_ns == STUBBORN_NS


def test_an_operator_may_set_a_size_and_a_host_that_does_each_time_is_held_back() -> None:
    one, now_ns = Conduct(), BEGUN_NS
    for change in range(1, CHANGES_MAX + 1):
        one.took(5, pool(5, 5), now_ns)
        for _ in range(9):  # looks
            one.said(pool(2, 2), now_ns := now_ns + S)
        assert one.room(pool(2, 2), 9, now_ns) == (2 if change == CHANGES_MAX else 9)


@pytest.mark.parametrize("apart_s", [1, 700])
def test_changes_that_are_far_apart_do_not_add_up(apart_s: int) -> None:
    one, now_ns = Conduct(), BEGUN_NS
    for _ in range(CHANGES_MAX):
        one.took(5, pool(5, 5), now_ns)
        one.said(pool(2, 2), now_ns := now_ns + apart_s * S)
    assert (one.until_ns > now_ns) == (apart_s == 1)


def test_a_host_that_does_not_answer_sizes_is_asked_once_per_pause() -> None:
    one, now_ns = Conduct(), BEGUN_NS
    for _ in range(FAILURES_MAX):
        assert one.is_to_be_asked(5, pool(1, 1), now_ns)
        one.failed(now_ns)
    assert not one.is_to_be_asked(5, pool(1, 1), now_ns)
    assert not one.is_to_be_asked(0, pool(1, 1), now_ns), "nor to give slots back"
    assert one.is_to_be_asked(5, pool(1, 1), one.until_ns)


def test_of_many_slots_one_is_on_another_host_by_which_the_others_are_judged() -> None:
    hosts = [
        HostSlots(host="a", slots=0, busy=0, room=100, share=0.001, cost=0.1),
        HostSlots(host="b", slots=0, busy=0, room=100, share=0.25, cost=1.0),
    ]
    assert place(WITNESSED_MIN - 1, hosts) == {"a": WITNESSED_MIN - 1, "b": 0}
    assert place(WITNESSED_MIN, hosts) == {"a": WITNESSED_MIN - 1, "b": 1}
