"""How far a tenant that waits may fall behind: the bound that the ledger checks, against the queue
itself (`core.fair_queue`), with prices that are learnt as requests end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.fair_queue import FairQueue, Price
from assay.core.ids import TenantId
from assay.core.ordering import Costs, OrderKey, cost_us
from assay.sim.platform.ledger.entries import LAG_LEAST_S, LAG_MAX, Races

NAMES = tuple(TenantId(name) for name in ("dear", "new", "other", "late"))
DEAR, NEW, _, LATE = NAMES
Waiting = tuple[TenantId, float]


class Stage:
    """A stage whose workers are known by their places."""

    def __init__(self, weights: dict[TenantId, float]) -> None:
        self.races = Races()
        self.weights = weights
        self._queue: FairQueue[TenantId, Waiting] = FairQueue()
        self._costs: Costs[TenantId] = Costs()
        self._waits = dict.fromkeys(NAMES, 0)
        self._running: list[tuple[Waiting, int | None, int]] = []
        self._claims = self._sequence = 0

    def others(self, tenant: TenantId) -> list[TenantId]:
        return [name for name in NAMES if name != tenant and self._waits[name]]

    def push(self, tenant: TenantId, held_s: float) -> None:
        self._sequence += 1
        if not self._waits[tenant]:
            self.races.join(tenant, self.others(tenant))
        key = OrderKey(0, self._sequence)
        self._queue.push(tenant, key, (tenant, held_s), claims=self._claims)
        self._waits[tenant] += 1

    def price(self, waiting: Waiting) -> Price:
        return Price(self._costs.expected_us(waiting[0]), self.weights[waiting[0]])

    def claim(self) -> TenantId | None:
        """Raises: Finding: the bound does not hold."""
        if not len(self._queue):
            return None
        self._claims += 1
        (tenant, held_s), charged = self._queue.pop(self.price)
        running = sum(name == tenant for (name, _), _, _ in self._running)
        self.races.serve(tenant, held_s, self.weights[tenant], self.others(tenant), running)
        self._waits[tenant] -= 1
        self._running.append(((tenant, held_s), charged, self._claims))
        return tenant

    def end(self, place: int) -> None:
        if not self._running:
            return
        (tenant, held_s), charged, claim = self._running.pop(place % len(self._running))
        took_us, shares = cost_us(round(held_s * 1e9)), self._queue.shares
        more_us = 0
        if charged is not None and shares.charged(charged, claim):
            more_us = round(took_us / self.weights[tenant]) - charged
        self._costs.learn(tenant, took_us, 1)
        self.races.end(tenant, held_s, self.weights[tenant])
        shares.correct(tenant, more_us)


def test_what_a_newcomer_was_charged_too_much_is_given_back_at_the_expense_of_who_came_meanwhile():
    """Its first requests cost as much as an expensive tenant's, as far as is known."""
    stage = Stage(dict.fromkeys(NAMES, 1.0))
    stage.push(DEAR, 3.0)
    stage.claim()
    stage.end(0)
    for _ in range(8):
        stage.push(DEAR, 3.0)
    for _ in range(99):
        stage.push(NEW, 0.1)
    assert {stage.claim() for _ in range(8)} == {DEAR, NEW}
    stage.push(LATE, 0.1)
    for place in (1, 2, 3, 4):
        stage.end(place)
    ahead_s = 0.0
    while stage.claim() == NEW:
        stage.end(-1)
        ahead_s += 0.1
    alone_s = LAG_MAX * 2 * (0.1 + LAG_LEAST_S)
    assert ahead_s > 2 * alone_s, "more than the two tenants' own costs explain"
    assert stage.races.bound(NEW, LATE) == pytest.approx(alone_s + 5 * 3.0), "and one of the other"


PUSHES = st.tuples(st.just("push"), st.sampled_from(NAMES), st.sampled_from([1, 4, 20]))
CLAIMS = st.tuples(st.just("claim"), st.integers(1, 4), st.just(0))
ENDS = st.tuples(st.just("end"), st.integers(0, 7), st.just(0))


@given(
    acts=st.lists(PUSHES | CLAIMS | ENDS, max_size=80),
    held_s=st.lists(st.sampled_from([0.05, 0.1, 0.3, 1.0, 3.0]), min_size=4, max_size=4),
    weights=st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=4, max_size=4),
)
def test_no_tenant_falls_further_behind_than_the_bound(acts, held_s, weights):
    """Up to eight requests run at once."""
    stage = Stage(dict(zip(NAMES, weights, strict=True)))
    cost = dict(zip(NAMES, held_s, strict=True))
    running = 0
    for kind, what, count in acts:
        if kind == "push":
            for _ in range(count):
                stage.push(what, cost[what])
        elif kind == "claim":
            for _ in range(min(what, 8 - running)):
                running += stage.claim() is not None
        elif running:
            stage.end(what)
            running -= 1
