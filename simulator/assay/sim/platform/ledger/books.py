"""Where each accepted request is: queued, leased or ended; what each tenant and batch holds.

Invariant: a request is in exactly one place, and has one outcome.
"""

from collections import Counter, defaultdict

from assay.core.ids import BatchId, JobId, StageName, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import Lease, NewRequest, Quota, TaskRecord
from assay.sim.platform.ledger.entries import BatchEntry, Entry, Races, require
from assay.sim.platform.pipelines import script_of

BatchKey = tuple[TenantId, BatchId]


class Books:
    """The state that commands change."""

    def __init__(self, *, is_calm: bool) -> None:
        """`is_calm`: no faults in this run, except what the requests themselves do."""
        self.is_calm = is_calm
        self.tasks: dict[tuple[TenantId, TaskId], TaskRecord] = {}
        self.batches: dict[BatchKey, BatchEntry] = {}
        self.queued: dict[StageName, dict[TenantId, dict[Entry, None]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self.leased: dict[StageName, dict[JobId, Entry]] = defaultdict(dict)
        self.open_by_tenant: Counter[TenantId] = Counter()
        self.bytes_by_tenant: Counter[TenantId] = Counter()
        self.reserving: dict[BatchKey, BatchEntry] = {}
        """Batches that hold quota for requests to come."""
        self.races: dict[StageName, Races] = defaultdict(Races)
        self.fence = 0
        self.ended = 0
        self.withdrawn: dict[Lease, int] = {}
        """Leases of requests that ended while a worker held them, and when."""
        self._number = 0
        self.now_ns = 0

    def waits_since_ns(self, stage: StageName) -> int | None:
        """Since when the request that joined the stage's queue first waits; `None` = none waits."""
        firsts = (next(iter(one), None) for one in self.queued[stage].values())
        return min((entry.queued_ns for entry in firsts if entry is not None), default=None)

    def enter(self, batch: BatchEntry, request: NewRequest) -> None:
        """An accepted request joins the queue of its first stage."""
        self._number += 1
        stage = batch.task.stages[0]
        entry = Entry(batch, request, self._number, stage, (0, 0))
        batch.requests[request.request_id] = entry
        self.open_by_tenant[batch.spec.tenant] += 1
        self.bytes_by_tenant[batch.spec.tenant] += request.payload_bytes
        self.queue(entry)

    def queue(self, entry: Entry) -> None:
        """The request waits at its stage."""
        entry.place, entry.lease, entry.queued_ns = "queued", None, self.now_ns
        order_ms = -(-entry.batch.order_ns // 1_000_000)
        entry.rank = (order_ms, entry.number)
        tenants = self.queued[entry.stage]
        tenant = entry.batch.spec.tenant
        if not tenants[tenant]:
            self.races[entry.stage].join(tenant, self.waiting(entry.stage, tenant))
        tenants[tenant][entry] = None

    def unqueue(self, entry: Entry) -> None:
        """The request no longer waits."""
        del self.queued[entry.stage][entry.batch.spec.tenant][entry]

    def release(self, entry: Entry) -> None:
        """No worker holds the request any more."""
        assert entry.lease is not None  # noqa: S101 - for the checker
        del self.leased[entry.stage][entry.lease.job_id]
        entry.batch.running -= 1
        entry.lease = None

    def end(self, entry: Entry, outcome: Outcome, reward: float | None) -> None:
        """The request has its outcome."""
        if entry.place == "queued":
            self.unqueue(entry)
        elif entry.lease is not None:
            self.withdrawn[entry.lease] = self.now_ns
            # A claim that is withdrawn is charged for the time that it held its worker, even if it
            # waited there behind another.
            held_s = (self.now_ns - entry.claimed_ns) / 1e9
            spec = entry.batch.spec
            self.races[entry.stage].costs(spec.tenant, held_s / spec.weight)
            self.release(entry)
        require(not entry.outcomes, "a second outcome", had=entry.outcomes, got=outcome)
        entry.place, entry.reward = "ended", reward
        entry.outcomes.append(outcome)
        entry.batch.outcomes[outcome] += 1
        tenant = entry.batch.spec.tenant
        self.open_by_tenant[tenant] -= 1
        self.bytes_by_tenant[tenant] -= entry.request.payload_bytes
        self.ended += 1
        if self.is_calm and outcome is Outcome.INFRA_FAILED:
            script = script_of(entry.request.response)
            require(script.outcome is outcome, "it failed where nothing fails", script=script)

    def settle(self, batch: BatchEntry) -> None:
        """A sealed batch without live requests is over."""
        if batch.sealed and not batch.over and not batch.live:
            batch.over = True
            self.reserving.pop((batch.spec.tenant, batch.spec.batch_id), None)

    def waiting(self, stage: StageName, apart_from: TenantId) -> list[TenantId]:
        """The other tenants that wait at the stage."""
        return [one for one, some in self.queued[stage].items() if some and one != apart_from]

    def over_quota(self, tenant: TenantId, quota: Quota, *, more: int, size: int) -> bool:
        """Whether so much more, beside what is open and what is reserved, is over the quota."""
        own = [b for b in self.reserving.values() if b.spec.tenant == tenant]
        count = self.open_by_tenant[tenant] + sum(b.requests_reserved for b in own) + more
        held = self.bytes_by_tenant[tenant] + sum(b.bytes_reserved for b in own) + size
        return count > quota.requests_open_max or held > quota.bytes_open_max
