"""Where each accepted request is: queued, leased or ended; what each tenant and batch holds.

Invariant: a request is in exactly one place, and has one outcome.
"""

from collections import Counter, defaultdict

from assay.core.ids import BatchId, JobId, RequestId, StageName, TaskId, TenantId
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

    def gather(self, entry: Entry) -> None:
        """The request waits at a stage for the others of its group."""
        group = entry.request.group_id
        late = group in entry.batch.whole or group in entry.batch.judged
        require(not late, "a request reaches a group that is complete", group=group)
        entry.place, entry.lease = "gathered", None

    def open_groups(self, batch: BatchEntry) -> None:
        """The groups of which nothing more can come wait as a whole."""
        stage = batch.task.group_stage
        if stage is None or batch.closing is not None:
            return
        for name in sorted({one.request.group_id for one in batch.live}):
            group = batch.group(name)
            live = [one for one in group if one.place != "ended"]
            here = all(one.place == "gathered" for one in live)
            is_whole = batch.sealed or len(group) == batch.spec.group_size
            if here and is_whole and name not in batch.whole and name not in batch.judged:
                self._number += 1
                own = NewRequest(
                    request_id=RequestId(""), group_id=name, response=b"", reference=b""
                )
                entry = Entry(batch, own, self._number, stage, (0, 0), members=dict.fromkeys(live))
                batch.whole[name] = entry
                self.queue(entry)

    def close_group(self, entry: Entry) -> None:
        """The group, which no worker holds any more, was judged as a whole."""
        del entry.batch.whole[entry.request.group_id]
        entry.batch.judged.add(entry.request.group_id)

    def _leave_group(self, member: Entry) -> None:
        """The request no longer waits for its group; with the last one the group goes."""
        own = member.batch.whole.get(member.request.group_id)
        if own is None or own.members is None:
            return
        del own.members[member]
        if own.place == "leased":
            own.batch.running -= 1
        if not own.members:
            self._withdraw(own)
            del own.batch.whole[own.request.group_id]

    def unqueue(self, entry: Entry) -> None:
        """The request no longer waits."""
        del self.queued[entry.stage][entry.batch.spec.tenant][entry]

    def release(self, entry: Entry) -> None:
        """No worker holds the request any more."""
        assert entry.lease is not None  # noqa: S101 - for the checker
        del self.leased[entry.stage][entry.lease.job_id]
        entry.batch.running -= entry.requests
        entry.lease = None

    def _withdraw(self, entry: Entry) -> None:
        """The request, or the group, no longer waits, and no worker holds it any more."""
        if entry.place == "queued":
            self.unqueue(entry)
        elif entry.lease is not None:
            self.withdrawn[entry.lease] = self.now_ns
            # A claim that is withdrawn is charged for the time that it held its worker, even if it
            # waited there behind another.
            held_s = (self.now_ns - entry.claimed_ns) / 1e9
            spec = entry.batch.spec
            self.races[entry.stage].costs(spec.tenant, held_s, spec.weight)
            self.release(entry)

    def fail(self, entry: Entry) -> None:
        """No attempt is left: the request, or every request of the group, ends."""
        if entry.members is None:
            self.end(entry, Outcome.INFRA_FAILED, None)
            return
        self.close_group(entry)
        for member in entry.members:
            self.end(member, Outcome.INFRA_FAILED, None)

    def end(self, entry: Entry, outcome: Outcome, reward: float | None) -> None:
        """The request has its outcome."""
        if entry.place == "gathered":
            self._leave_group(entry)
        else:
            self._withdraw(entry)
        require(not entry.outcomes, "a second outcome", had=entry.outcomes, got=outcome)
        entry.place, entry.reward = "ended", reward
        entry.outcomes.append(outcome)
        entry.batch.outcomes[outcome] += 1
        tenant = entry.batch.spec.tenant
        self.open_by_tenant[tenant] -= 1
        self.bytes_by_tenant[tenant] -= entry.request.payload_bytes
        self.ended += 1
        if self.is_calm and outcome is Outcome.INFRA_FAILED:
            script = script_of(entry.request)
            require(script.outcome is outcome, "it failed where nothing fails", script=script)

    def settle(self, batch: BatchEntry) -> None:
        """Groups that are complete wait; a sealed batch without live requests is over."""
        self.open_groups(batch)
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
