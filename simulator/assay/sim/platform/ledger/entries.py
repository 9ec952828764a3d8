"""What the ledger keeps of requests, batches, tenants and planners; what a finding is."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from assay.core.advantages import zero_shift_micro
from assay.core.ids import GroupId, JobId, RequestId, StageName, TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchSpec, Leadership, Lease, NewRequest, Quota, TaskRecord
from assay.sim.platform.store import SimulatedCall

Take = Callable[[SimulatedCall], None]
"""Checks one command of its kind."""
LAG_MAX: Final = 8.0
"""By how much a waiting tenant may fall behind another, in sums of both tenants' costliest
requests. The theorem (`core.ordering`) says 1 for charged costs. The rest covers costs that are
known only when the request ends: several requests run at once, and what they cost more than
expected is charged later, also to a tenant that another joined meanwhile."""
LAG_LEAST_S: Final = 0.05
"""Added to a tenant's costliest request."""


class Finding(AssertionError):
    """An invariant is violated."""


def require(holds: bool, promise: str, **facts: object) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise if it does not hold.

    Raises:
        Finding: it does not.
    """
    if not holds:
        raise Finding(promise + "".join(f"; {name}={value!r}" for name, value in facts.items()))


@dataclass(slots=True, eq=False)
class Entry:
    """One accepted request, or a group that is judged as a whole."""

    batch: "BatchEntry"
    request: NewRequest
    number: int
    stage: StageName
    rank: tuple[int, int]
    place: str = "queued"
    queued_ns: int = 0
    """When it joined its queue, by the store's clock."""
    attempts: int = 0
    lease: Lease | None = None
    worker: str = ""
    """Who has leased it."""
    expires_ns: int = 0
    claimed_ns: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    reward: float | None = None
    job_id: JobId | None = None
    read: int = 0
    """How often a reader has received its result."""
    members: dict["Entry", None] | None = None
    """The requests of a group."""

    @property
    def requests(self) -> int:
        """How many it stands for."""
        return 1 if self.members is None else len(self.members)


@dataclass(slots=True, eq=False)
class BatchEntry:
    """A batch, as the store's commands and their results have shown it."""

    spec: BatchSpec
    task: TaskRecord
    quota: Quota
    opened_ns: int
    overdue_ns: int
    requests: dict[RequestId, Entry] = field(default_factory=dict)
    whole: dict[GroupId, Entry] = field(default_factory=dict)
    """Groups that wait or are leased as a whole."""
    judged: set[GroupId] = field(default_factory=set)
    """Groups that were judged, or failed, as a whole."""
    prioritized_ns: int = 0
    sealed: bool = False
    closing: Outcome | None = None
    over: bool = False
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    running: int = 0

    @property
    def deadline_ns(self) -> int:
        return self.spec.deadline_of(self.opened_ns)

    @property
    def order_ns(self) -> int:
        return self.prioritized_ns or self.deadline_ns

    @property
    def live(self) -> list[Entry]:
        return [one for one in self.requests.values() if one.place != "ended"]

    def has_ended(self, *, forgets: bool) -> bool:
        """Whether a batch whose trainer has read its end has ended.

        Args:
            forgets: the store may have forgotten the seal since; the batch expires then.
        """
        return self.over or (forgets and not self.sealed and not self.live)

    def group(self, name: GroupId) -> list[Entry]:
        """The requests of a group."""
        return [one for one in self.requests.values() if one.request.group_id == name]

    def shift_micro(self) -> tuple[int, int]:
        """Requests in groups, and how far zeros would have moved their advantages."""
        groups: dict[GroupId, list[float | None]] = {}
        for entry in self.requests.values():
            if entry.request.group_id:
                groups.setdefault(entry.request.group_id, []).append(entry.reward)
        grouped = sum(len(rewards) for rewards in groups.values())
        return grouped, sum(zero_shift_micro(rewards) for rewards in groups.values())

    @property
    def requests_reserved(self) -> int:
        return 0 if self.over else max(0, self.spec.requests_reserved - len(self.requests))

    @property
    def bytes_reserved(self) -> int:
        size = sum(entry.request.payload_bytes for entry in self.requests.values())
        return 0 if self.over else max(0, self.spec.bytes_reserved - size)


@dataclass(slots=True)
class Races:
    """Service of tenants at a stage while two of them waited."""

    lag: dict[tuple[TenantId, TenantId], float] = field(default_factory=dict)
    """Seconds per weight by which the first is ahead since both started to wait."""
    dearest: dict[TenantId, float] = field(default_factory=dict)
    """The same of each tenant's costliest request so far."""
    guessed: dict[TenantId, float] = field(default_factory=dict)
    """Most that the requests of a tenant were charged together before one of them had ended."""
    longest_s: float = 0.0
    """Of any tenant's requests so far, whatever its weight."""
    ended: set[TenantId] = field(default_factory=set)
    """Tenants whose requests have a price of their own."""

    def costs(self, tenant: TenantId, held_s: float, weight: float) -> None:
        """A request of the tenant holds its worker for `held_s`."""
        self.longest_s = max(self.longest_s, held_s)
        self.dearest[tenant] = max(self.dearest.get(tenant, 0.0), held_s / weight)

    def end(self, tenant: TenantId, held_s: float, weight: float) -> None:
        """A request of the tenant has ended: its next ones are charged what its own cost."""
        self.costs(tenant, held_s, weight)
        self.ended.add(tenant)

    def bound(self, one: TenantId, other: TenantId, running: int = 0) -> float:
        """How far the one may be ahead of the other, with so many of its requests at work: each may
        turn out to cost as much as its costliest.

        A tenant's first requests are charged what those of all tenants cost, until one of them has
        ended. What they were charged too much is given back, also at the expense of a tenant that
        came meanwhile: it joined where the charges, not the costs, had brought the others.
        """
        own, others = (self.dearest.get(tenant, 0.0) + LAG_LEAST_S for tenant in (one, other))
        back = self.guessed.get(one, 0.0) + self.guessed.get(other, 0.0)
        return back + max(LAG_MAX * (own + others), own + others + running * own)

    def join(self, tenant: TenantId, waiting: Iterable[TenantId]) -> None:
        """The tenant starts to wait beside others that wait."""
        others = list(waiting)
        if not others:  # The queue was empty: charges from before count no more.
            self.guessed.clear()
        for other in others:
            self.lag[tenant, other] = self.lag[other, tenant] = 0.0

    def serve(
        self,
        tenant: TenantId,
        held_s: float,
        weight: float,
        waiting: Iterable[TenantId],
        running: int,
    ) -> None:
        """Others that wait fall behind by what a request of the tenant costs.

        Raises:
            Finding: by more than the bound.
        """
        if tenant not in self.ended:
            self.guessed[tenant] = self.guessed.get(tenant, 0.0) + self.longest_s / weight
        self.costs(tenant, held_s, weight)
        for other in waiting:
            ahead = self.lag.get((tenant, other), 0.0) + held_s / weight
            self.lag[tenant, other], self.lag[other, tenant] = ahead, -ahead
            require(
                ahead <= self.bound(tenant, other, running),
                "a tenant that waits falls behind",
                ahead=tenant,
                behind=other,
                by=ahead,
            )


class Lead:
    """Which planner leads; at most one does, and fences only grow."""

    def __init__(self) -> None:
        self._fence = 0
        self._leader = Leadership(leads=False, planner="", fence=0, expires_ns=0)

    def take_lead(self, command: SimulatedCall) -> None:
        """A planner asked for the lead."""
        now, before = command.answer, self._leader
        planner = command.args[0]
        if now.leads:
            free = not before.leads or before.expires_ns <= command.now_ns
            require(free or before.planner == planner, "two planners lead", planner=planner)
            require(now.fence >= self._fence, "a leader's fence that is not new")
            require(not free or now.fence > self._fence, "a new lead under an old fence")
            self._fence, self._leader = now.fence, now
        else:
            require(
                before.leads and before.planner != planner and before.expires_ns > command.now_ns,
                "the lead was refused to a planner that may have it",
            )

    def take_resign(self, command: SimulatedCall) -> None:
        """A planner gave the lead up."""
        if self._leader.planner == command.args[0]:
            self._leader = Leadership(
                leads=False, planner="", fence=self._fence, expires_ns=command.now_ns
            )
