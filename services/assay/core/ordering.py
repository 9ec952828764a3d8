"""The order of service: fair shares between tenants, Earliest Batch First within one.

The same rule for the store (its scripts compute the same numbers), the queue's model and the
simulators:

* between tenants, start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996) at each stage: every
  tenant has a virtual time, the one with the smallest is served (ties by name), and its virtual
  time grows by the cost of the request divided by the tenant's weight. A tenant that comes back
  joins at the present virtual time, or at its own where that is later: time without work neither
  earns credit nor costs any;
* within a tenant, the batch whose deadline comes first (DistRS, NSDI'26, section 5.2), then the
  order of arrival. A request that is delivered again keeps its place and is not charged again.

A claim may leave tenants out; for them it is as if they came back after it.

A tenant that has had a stage's queue to itself since the queue was last empty is not charged, so a
single tenant is served by Earliest Batch First alone. Virtual times are whole microseconds of
service at weight 1; they start at 0 whenever the queue of the stage has become empty.

While two tenants both wait, what each was charged, divided by its weight, differs by at most
`cost_a / weight_a + cost_b / weight_b` of their costliest requests (theorem 1 of the paper).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

COST_US_MIN: Final = 1_000
"""Smallest charge, because a claim costs its worker more than the service time that it reports.
Also the charge while nothing is known of the stage: a tenant that joins meanwhile must not queue
behind a charge that is taken back later."""
LEARNT_FROM: Final = 16
"""Approximate number of requests over which an estimate averages."""

T = TypeVar("T", bound=Any)
"""Identifies a tenant: a name, or an index in the simulators."""


class OrderKey(NamedTuple):
    """Key within a tenant; smaller is served earlier. Total: `sequence` is unique."""

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


def cost_us(service_ns: int) -> int:
    """Cost in microseconds of a request that held a worker for `service_ns`."""
    return max(service_ns // 1_000, COST_US_MIN)


def advance_us(cost_us: int, weight: float) -> int:
    """Amount by which the virtual time of a tenant grows."""
    return math.ceil(cost_us / weight)


@dataclass(slots=True)
class Shares(Generic[T]):
    """The virtual times of one stage's tenants."""

    waiting: dict[T, int] = field(default_factory=dict)
    """Virtual times of tenants with waiting requests."""
    debts: dict[T, int] = field(default_factory=dict)
    """Virtual times of tenants without; they may be ahead of `now_us`."""
    now_us: int = 0
    """The virtual time at which tenants join. It follows the tenants that are served, and decreases
    only when a correction leaves every waiting tenant behind it."""
    since: int | None = None
    """Number of the claim after which tenants are charged; `None` = only one tenant has waited
    since the queue was last empty."""

    def join(self, tenant: T, claims: int) -> None:
        """A request of the tenant waits; `claims` have been made so far."""
        if tenant in self.waiting:
            return
        if self.waiting and self.since is None:
            self.since = claims
        self.waiting[tenant] = max(self.debts.pop(tenant, 0), self.now_us)

    def leave(self, tenant: T) -> None:
        """The tenant has no waiting request any more."""
        virtual_us = self.waiting.pop(tenant)
        if self.waiting:
            self.debts[tenant] = virtual_us
        else:
            self.debts.clear()
            self.now_us, self.since = 0, None

    def first(self, left_out: Collection[T] = ()) -> T:
        """The tenant whose request is next, of those that are not left out."""
        others = self.waiting.keys() - left_out if left_out else self.waiting
        return min(others, key=lambda tenant: (self.waiting[tenant], tenant))

    def leave_out(self, tenants: Collection[T]) -> None:
        """Others were served in their place, and they earn no credit by that."""
        for tenant in self.waiting.keys() & tenants:
            self.waiting[tenant] = max(self.waiting[tenant], self.now_us)

    def charge(self, tenant: T, cost_us: int, weight: float) -> int:
        """Charge the first tenant for a request; returns the advance, 0 where no one is charged."""
        if self.since is None:
            return 0
        self.now_us = max(self.now_us, self.waiting[tenant])
        advance = advance_us(cost_us, weight)
        self.waiting[tenant] += advance
        return advance

    def forgive(self) -> None:
        """Drop the debts of tenants without waiting requests that are paid off by now."""
        self.debts = {t: ahead for t, ahead in self.debts.items() if ahead > self.now_us}

    def charged(self, advance: int, claim: int) -> bool:
        """Whether an advance of that claim still counts: the queue was not empty since."""
        return advance > 0 and self.since is not None and claim > self.since

    def correct(self, tenant: T, more_us: int) -> None:
        """Correct the charge of requests whose cost turned out to be different."""
        if more_us == 0:
            return
        if tenant in self.waiting:
            self.waiting[tenant] += more_us
            self.now_us = min(self.now_us, max(self.waiting.values()))
        elif self.since is not None:
            virtual_us = max(self.debts.get(tenant, 0), self.now_us) + more_us
            self.debts.pop(tenant, None)
            if virtual_us > self.now_us:
                self.debts[tenant] = virtual_us


@dataclass(slots=True)
class Costs(Generic[T]):
    """Expected cost of each tenant's requests at one stage."""

    by_tenant_us: dict[T, int] = field(default_factory=dict)
    all_us: int = 0
    """Estimate over all tenants; 0 = nothing is known."""

    def expected_us(self, tenant: T) -> int:
        """From the tenant's own requests, else from those of all tenants."""
        return self.by_tenant_us.get(tenant) or self.all_us or COST_US_MIN

    def learn(self, tenant: T, total_us: int, count: int) -> None:
        """Record that `count` requests of the tenant cost `total_us`."""
        self.by_tenant_us[tenant] = moved(self.by_tenant_us.get(tenant, 0), total_us, count)
        self.all_us = moved(self.all_us, total_us, count)


def moved(known_us: int, total_us: int, count: int) -> int:
    """Move an estimate (0 = none yet) towards the mean of `count` more requests."""
    mean_us = total_us / count
    if known_us == 0:
        return math.floor(mean_us)
    return math.floor(known_us + (mean_us - known_us) * count / (count + LEARNT_FROM))
