"""What the supervisor of a stage decides by itself; it runs here without slots and store."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worker.claims import held

from assay.core.ids import StageName
from assay.worker.assignment import HeldClaim, Waiting
from assay.worker.supervisor import Supervisor


class Woken(Supervisor):
    """Has no idle slot, unless it claims when it is woken."""

    def __init__(self, *, claims: bool) -> None:
        self._wakes = self._wakes_served = 0
        self._claiming = None
        self._claims = claims
        self.others_woken = 0

    def rouse(self) -> bool:
        """Return false: it is awake."""
        return False

    def _pump(self) -> None:
        if self._claims:
            self._wakes_served = self._wakes

    async def _wake_another(self) -> None:
        self.others_woken += 1


async def test_a_host_without_an_idle_slot_passes_each_wake_up_on() -> None:
    """The store tells one host only: without this the work would wait for the next sweep."""
    full = Woken(claims=False)
    for count in (1, 2, 3):
        await full.wake()
        assert full.others_woken == count


async def test_a_host_that_claims_passes_no_wake_up_on() -> None:
    free = Woken(claims=True)
    await free.wake()
    await free.wake()
    assert free.others_woken == 0


class Losing(Supervisor):
    """Holds claims that wait for a slot."""

    def __init__(self, claims: list[HeldClaim]) -> None:
        self.stage = StageName("s")
        self._held = {one.claim.lease: one for one in claims}
        self._waiting = Waiting(batch_max=8)
        self._waiting.add(claims)
        self.counted = 0
        nothing: Any = SimpleNamespace(lose=lambda _: None, take_lost=list, busy=[])
        self._audits = self._ahead = self._pool = nothing
        self._parts: Any = SimpleNamespace(metrics=SimpleNamespace(leases_lost=self._count))

    def _count(self, *, stage: str, seen_by: str, count: int) -> None:
        self.counted += count

    def _replace_leader(self, _: HeldClaim) -> None:
        pass

    def _run_again(self, claims: Sequence[HeldClaim]) -> None:
        assert claims == []

    def _give_out(self) -> None:
        """No slot is idle."""

    def _pump(self) -> None:
        """Nothing is claimed."""

    def _note_store(self, *_: object) -> None:
        """No metrics are kept here."""


def test_a_claim_whose_lease_is_lost_is_given_to_no_slot() -> None:
    lost, kept = held("lost"), held("kept")
    supervisor = Losing([lost, kept])
    supervisor._lose([lost.claim.lease])
    assert lost.is_lost
    assert supervisor.counted == 1
    assert supervisor._waiting.take(slots_idle=2) == [kept]


async def test_what_a_beat_reports_as_lost_is_lost() -> None:
    lost, kept = held("lost"), held("kept")
    supervisor = Losing([lost, kept])
    asked: list[object] = []

    async def beat(_: str, *, lease_s: float, leases: list[Any]) -> list[Any]:
        asked.extend(leases)
        return [lost.claim.lease]

    supervisor._parts.store = SimpleNamespace(beat=beat)
    supervisor._parts.answered = lambda _operation, _began_ns: None
    nothing: Any = SimpleNamespace(lease_s=10.0, monotonic_ns=lambda: 7)
    supervisor._spec = supervisor._clock = nothing
    await supervisor._beat_once()
    assert asked == [lost.claim.lease, kept.claim.lease]
    assert (lost.is_lost, kept.is_lost) == (True, False)


class UsedSlots:
    """A pool whose two idle slots have served; none of them is fresh."""

    def __init__(self) -> None:
        self.idle, self.has_surplus = 2, False

    def take_idle(self, *, fresh: bool) -> object | None:
        """Take one, unless it has to be fresh."""
        if fresh or not self.idle:
            return None
        self.idle -= 1
        return object()


class Giving(Supervisor):
    """Gives the claims that wait to used slots."""

    def __init__(self, claims: list[HeldClaim]) -> None:
        self._is_draining = False
        self._waiting = Waiting(batch_max=1)
        self._waiting.add(claims)
        self.given: list[HeldClaim] = []
        parts: Any = SimpleNamespace(
            take_late=lambda _: [], take_back=list, give=lambda: None, monotonic_ns=lambda: 0
        )
        self._ahead = self._clock = parts
        pool: Any = UsedSlots()
        self._pool = pool

    def _run_again(self, claims: Sequence[HeldClaim]) -> None:
        assert claims == []

    def _send(self, _: object, held: list[HeldClaim]) -> Any:
        self.given += held

    def _begin(self, *_: object) -> None:
        """The slot works."""


def test_idle_slots_judge_what_follows_a_claim_that_needs_a_fresh_slot() -> None:
    first, second = held("first"), held("second")
    first.fresh = True
    supervisor = Giving([first, second])
    supervisor._give_out()
    assert supervisor.given == [second]
    assert supervisor._waiting.needs_fresh


class Holding(Supervisor):
    """Holds claims; every one is judged by itself, and no slot takes any."""

    def __init__(self, *, idle: int = 0, batch_max: int = 1) -> None:
        self._held = {}
        self._waiting = Waiting(batch_max=batch_max)
        self._holds = asyncio.Event()
        self._note_waits = lambda _: None
        self._is_draining = False
        parts: Any = SimpleNamespace(
            idle=idle, batch_max=batch_max, monotonic_ns=lambda: 7, is_full=False,
            admit=lambda _: True, leave=lambda _: [],
        )  # fmt: skip
        self._clock = self._reuse = self._pool = self._spec = parts
        audits: Any = SimpleNamespace(is_full=False, findings=parts)
        self._audits = audits


def test_every_claim_is_held_and_waits_for_a_slot_until_it_is_settled() -> None:
    names = ("first", "second", "third")
    claims = [held(name).claim for name in names]
    supervisor = Holding()
    supervisor._hold(claims, [""] * len(claims))
    assert list(supervisor._held) == [one.lease for one in claims]
    assert len(supervisor._waiting) == len(names)
    supervisor._on_settled(supervisor._held[claims[1].lease])
    assert list(supervisor._held) == [claims[0].lease, claims[2].lease], "no lease is kept"


@pytest.mark.parametrize(("idle", "batch_max"), [(0, 8), (1, 1), (3, 1), (2, 8)])
def test_as_much_is_claimed_as_the_idle_slots_take(idle: int, batch_max: int) -> None:
    supervisor = Holding(idle=idle, batch_max=batch_max)
    assert supervisor._capacity() == idle * batch_max
    supervisor._hold([held("waits").claim], [""])
    assert supervisor._capacity() == idle * batch_max - 1
