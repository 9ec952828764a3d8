"""How tenants share a stage, and what one of them may leave behind in the store.

The same generated cases go to everything that orders requests: both stores, the pools of the
readable simulator, its compiled loops and the planner's queueing. One worker serves; each must
serve in the same order, and that order must keep the bound of fair queueing and, within a tenant,
Earliest Batch First.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.running import own_shard
from tests.store.driver import FIRST, TASK, WORKER, Driver, MakeStore, request, requests

from assay.core.errors import NotFound, Saturated
from assay.core.ids import BatchId, TaskId, TenantId
from assay.core.ordering import advance_us, cost_us
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchRecord,
    BatchSpec,
    Claim,
    EndRequest,
    Quota,
    Report,
    StageReport,
)
from assay.core.store_limits import HINTS_PER_TENANT_MAX
from assay.edge.clock import Clock
from assay.model.arrays import SECOND_NS
from assay.model.queueing import (
    Demand,
    by_stage,
    constant_supply,
    make_scratch,
    serve_all,
    unconstrained,
)
from assay.sim.pools.cluster import Cluster, Faults, draw_deaths, lay_out
from assay.sim.pools.reference import ReferenceWorld
from assay.sim.pools.workload import BatchLoad, Stage, StageLoad, TaskLoad, Workload, steady
from assay.sim.pools.world import FastWorld
from assay.store.embedded import EmbeddedValkey
from assay.store.link import Link
from assay.store.port import Store
from assay.store.valkey import ValkeyStore
from assay.testing.memory_store import MemoryStore

MS = 1_000_000
END = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
NAMES = ("a", "b.1", "C")
"""In no order: ties go by the bytes of the name."""


@dataclass(frozen=True)
class Batch:
    """A batch whose requests all wait from the start."""

    tenant: int
    costs_ms: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Batches by deadline, the earliest first."""

    weights: tuple[float, ...]
    batches: tuple[Batch, ...]

    @property
    def served(self) -> list[tuple[int, int]]:
        """Tenant and cost (ns) of each request, in the order of arrival."""
        return [(b.tenant, cost * MS) for b in self.batches for cost in b.costs_ms]


BATCH = st.builds(
    Batch, st.integers(0, 2), st.lists(st.integers(1, 400), min_size=1, max_size=6).map(tuple)
)
CASE = st.builds(
    Case,
    st.tuples(*[st.sampled_from([0.5, 1.0, 1.0, 2.0, 3.0])] * 3),
    st.lists(BATCH, min_size=1, max_size=7).map(tuple),
)


async def in_store(store: Store, case: Case) -> list[int]:
    """Which request (by arrival) was served when; claimed and finished one after the other."""
    for index in sorted({batch.tenant for batch in case.batches}):
        await store.put_task(replace(TASK, tenant=TenantId(NAMES[index])))
    for number, batch in enumerate(case.batches):
        tenant = TenantId(NAMES[batch.tenant])
        spec = BatchSpec(
            tenant=tenant,
            batch_id=BatchId(f"b{number}"),
            task_id=TASK.task_id,
            size=0,
            group_size=0,
            deadline_after_ms=3_600_000 * (number + 1),
            weight=case.weights[batch.tenant],
        )
        await store.open_batch(spec, Quota())
        new = [request(f"r{k}") for k in range(len(batch.costs_ms))]
        await store.submit(tenant, spec.batch_id, new, Quota())
    order: list[int] = []
    while claims := await store.claim(FIRST, claims_max=1, lease_s=600, worker=WORKER):
        number = int(claims[0].lease.job_id) - 1
        account = StageReport(
            worker=WORKER, started_after_ns=0, finished_after_ns=case.served[number][1]
        )
        report = Report(lease=claims[0].lease, report=account, finish=END)
        await store.finish(FIRST, [report], 3)
        order.append(number)
    return order


def workload_of(case: Case) -> Workload:
    """A task per batch; tenants sort as their names do in the store."""
    tasks = tuple(
        TaskLoad(
            name=f"t{number}",
            stages=(
                StageLoad(
                    stage=0,
                    median_s=steady(1),
                    sigma=0.1,
                    timeout_s=10,
                    hang_share=steady(0),
                    fail_share=steady(0),
                ),
            ),
            batch_size=len(batch.costs_ms),
            tenant=NAMES[batch.tenant],
            weight=case.weights[batch.tenant],
        )
        for number, batch in enumerate(case.batches)
    )
    loads = tuple(
        BatchLoad(
            arrived_ns=np.zeros(len(batch.costs_ms), np.int64),
            service_ns=np.array(batch.costs_ms, np.int64).reshape(-1, 1) * MS,
            outcome=np.zeros(len(batch.costs_ms), np.int64),
        )
        for batch in case.batches
    )
    return Workload(
        stages=(Stage(name="only", cost=1.0),),
        tasks=tasks,
        batches=tuple((load,) for load in loads),
        past=tuple(() for _ in loads),
    )


def in_world(kind: type[FastWorld | ReferenceWorld], case: Case) -> list[int]:
    """One worker, which comes up when everything has arrived."""
    workload = workload_of(case)
    pools = lay_out(workload, Cluster(), "shared", 0)
    world = kind(workload, pools, draw_deaths(workload, Faults(), 0))
    for number in range(len(case.batches)):
        world.open_batch(number, 0, 3_600 * SECOND_NS * (number + 1))
    world.advance(0)
    world.set_target(0, 1)
    while world.advance(10**6 * SECOND_NS) < 10**6 * SECOND_NS:
        pass
    return [int(i) for i in np.argsort(world.state.start_ns[:, 0], kind="stable")]


def in_queueing(case: Case) -> list[int]:
    """As the planner foresees it."""
    n = len(case.served)
    by_name = sorted(NAMES)
    demand = by_stage(
        Demand(
            release_ns=np.zeros(n, np.int64),
            service_ns=np.array([[cost] for _, cost in case.served], np.int64),
            key=np.arange(n),
            running=np.full(n, -1, np.int64),
            tenant=np.array([by_name.index(NAMES[t]) for t, _ in case.served], np.int64),
            weight=np.array([case.weights[NAMES.index(name)] for name in by_name]),
        )
    )
    scratch = make_scratch(n, len(NAMES))
    assert serve_all(demand, constant_supply(np.ones(1, np.int64)), unconstrained(n, 1), scratch)
    return [int(i) for i in np.argsort(scratch.clock_ns, kind="stable")]


def check_order(case: Case, order: Sequence[int]) -> None:
    """The bound of fair queueing for every interval, and Earliest Batch First within a tenant."""
    assert sorted(order) == list(range(len(case.served)))
    tenants = [case.served[number][0] for number in order]
    shares = [
        advance_us(cost_us(case.served[number][1]), case.weights[tenant])
        for number, tenant in zip(order, tenants, strict=True)
    ]
    for tenant in set(tenants):
        own = [number for number in order if case.served[number][0] == tenant]
        assert own == sorted(own)
    for one, other in combinations(sorted(set(tenants)), 2):
        most = {
            t: max(s for s, mine in zip(shares, tenants, strict=True) if mine == t)
            for t in (one, other)
        }
        both = min(
            max(at for at, mine in enumerate(tenants) if mine == t) + 1 for t in (one, other)
        )
        ahead = np.cumsum(
            [0] + [s * ((t == one) - (t == other)) for s, t in zip(shares, tenants, strict=True)]
        )[: both + 1]
        assert ahead.max() - ahead.min() <= most[one] + most[other]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASE)
def test_everything_that_orders_requests_serves_the_same_fair_order(
    valkey: EmbeddedValkey, case: Case
) -> None:
    async def in_both_stores() -> tuple[list[int], list[int]]:
        real = ValkeyStore(own_shard(valkey), url=valkey.url)
        try:
            return await in_store(MemoryStore(Clock()), case), await in_store(real, case)
        finally:
            await real.close()

    expected, real = asyncio.run(in_both_stores())
    check_order(case, expected)
    assert real == expected
    assert in_world(ReferenceWorld, case) == expected
    assert in_world(FastWorld, case) == expected
    assert in_queueing(case) == expected


# -- tenants, by example -------------------------------------------------------------------------

A, B = TenantId("a"), TenantId("b")


def link_of(store: Store) -> Link:
    """To look at the keys themselves."""
    assert isinstance(store, ValkeyStore)
    return store._link


class Tenants:
    """Two tenants on one store."""

    def __init__(self, drive: Driver) -> None:
        self.store = drive.store

    async def open(
        self, tenant: TenantId, name: str, *, deadline_after_ms: int, weight: float = 1.0
    ) -> BatchRecord:
        await self.store.put_task(replace(TASK, tenant=tenant))
        spec = BatchSpec(
            tenant=tenant,
            batch_id=BatchId(name),
            task_id=TASK.task_id,
            size=0,
            group_size=0,
            deadline_after_ms=deadline_after_ms,
            weight=weight,
        )
        return (await self.store.open_batch(spec, Quota()))[0]

    async def submit(self, tenant: TenantId, name: str, count: int, first: int = 0) -> None:
        new = requests(*(f"r{k}" for k in range(first, first + count)))
        await self.store.submit(tenant, BatchId(name), new, Quota())

    async def claim(self, count: int = 1, left_out: Collection[TenantId] = ()) -> Sequence[Claim]:
        return await self.store.claim(
            FIRST, claims_max=count, lease_s=600, worker=WORKER, left_out=left_out
        )

    async def served(self, count: int, left_out: Collection[TenantId] = ()) -> str:
        """Whose requests come next."""
        return "".join(claim.task.tenant for claim in await self.claim(count, left_out))


@pytest.fixture
def two(drive: Driver) -> Tenants:
    return Tenants(drive)


async def test_a_flood_with_earlier_deadlines_takes_no_more_than_its_share(two: Tenants) -> None:
    await two.open(A, "flood", deadline_after_ms=1)
    await two.open(B, "calm", deadline_after_ms=3_600_000)
    await two.submit(A, "flood", 500)
    await two.submit(B, "calm", 5)
    assert (await two.served(10)).count("b") == 5


async def test_many_claims_at_once_are_the_claims_one_by_one(two: Tenants) -> None:
    for name in ("flood", "again"):
        await two.open(A, name, deadline_after_ms=1, weight=3.0)
        await two.open(B, name + "-b", deadline_after_ms=1)
        await two.submit(A, name, 20)
        await two.submit(B, name + "-b", 20)
        if name == "flood":
            at_once = await two.served(40)
            assert at_once.startswith("abaab")
    assert "".join([await two.served(1) for _ in range(40)]) == at_once


async def test_shares_follow_the_weights(two: Tenants) -> None:
    await two.open(A, "heavy", deadline_after_ms=9_000, weight=4.0)
    await two.open(B, "light", deadline_after_ms=1)
    await two.submit(A, "heavy", 100)
    await two.submit(B, "light", 100)
    assert (await two.served(50)).count("a") == 40


async def test_a_tenant_that_is_left_out_keeps_its_work_and_earns_nothing(two: Tenants) -> None:
    await two.open(A, "slow", deadline_after_ms=1)
    await two.open(B, "other", deadline_after_ms=1)
    await two.submit(A, "slow", 100)
    assert await two.served(4, left_out=[A]) == ""
    await two.submit(B, "other", 100)
    assert await two.served(50, left_out=[A]) == 50 * "b"
    assert 9 <= (await two.served(20)).count("a") <= 11
    assert await two.served(100, left_out=[A, B]) == ""
    assert len(await two.served(200)) == 130


async def test_work_that_is_left_out_wakes_no_one_and_other_work_does(two: Tenants) -> None:
    await two.open(A, "slow", deadline_after_ms=1)
    await two.open(B, "other", deadline_after_ms=1)
    await two.submit(A, "slow", 9)
    assert await two.store.wait_for_work([FIRST], timeout_s=9.0) == FIRST
    assert await two.served(4, left_out=[A]) == ""
    assert await two.store.wait_for_work([FIRST], timeout_s=0.05) is None
    await two.submit(B, "other", 9)
    assert await two.store.wait_for_work([FIRST], timeout_s=9.0) == FIRST
    assert await two.served(4, left_out=[A]) == "bbbb"
    assert await two.store.wait_for_work([FIRST], timeout_s=9.0) == FIRST, "five wait"
    await two.store.reap(FIRST, attempts_max=3, jobs_max=9)
    assert await two.served(9, left_out=[A]) == "bbbbb"
    assert await two.store.wait_for_work([FIRST], timeout_s=9.0) == FIRST, "from the sweep"
    assert len(await two.served(99)) == 9


async def test_time_without_work_saves_up_no_claim_to_service(two: Tenants) -> None:
    await two.open(A, "steady", deadline_after_ms=1)
    await two.open(B, "late", deadline_after_ms=1)
    await two.submit(A, "steady", 200)
    await two.submit(B, "late", 1)
    await two.served(100)
    await two.submit(B, "late", 50, first=1)
    assert 9 <= (await two.served(20)).count("b") <= 11


async def test_a_tenant_that_empties_its_queue_keeps_what_it_owes(two: Tenants) -> None:
    await two.open(A, "steady", deadline_after_ms=1)
    await two.open(B, "drip", deadline_after_ms=1)
    await two.submit(A, "steady", 200)
    served = ""
    for k in range(20):
        await two.submit(B, "drip", 1, first=k)
        served += await two.served(1)
    assert 9 <= served.count("b") <= 11


async def test_what_is_delivered_again_keeps_its_place_and_is_charged_once(
    two: Tenants, drive: Driver
) -> None:
    await two.open(A, "unlucky", deadline_after_ms=1)
    await two.open(B, "lucky", deadline_after_ms=1)
    await two.submit(A, "unlucky", 20)
    await two.submit(B, "lucky", 20)
    served, given_back = "", 0
    while len(served) < 20:
        [claim] = await two.claim()
        if (claim.task.tenant, claim.request_id) == (A, "r0") and given_back < 8:
            given_back += 1
            await drive.give_back([claim])
        else:
            served += claim.task.tenant
    assert given_back == 8
    assert 9 <= served.count("a") <= 11


async def test_the_service_that_was_used_decides_and_not_the_number_of_requests(
    two: Tenants,
) -> None:
    await two.open(A, "long", deadline_after_ms=1)
    await two.open(B, "short", deadline_after_ms=9_000)
    await two.submit(A, "long", 50)
    await two.submit(B, "short", 400)
    used = {"a": 0, "b": 0}
    for _ in range(200):
        [claim] = await two.claim()
        took_ns = 100 * MS if claim.task.tenant == A else 2 * MS
        used[claim.task.tenant] += took_ns
        account = StageReport(worker=WORKER, started_after_ns=0, finished_after_ns=took_ns)
        report = Report(lease=claim.lease, report=account, finish=END)
        await two.store.finish(FIRST, [report], 3)
    assert abs(used["a"] - used["b"]) <= 102 * MS


async def test_a_tenant_that_joins_does_not_wait_for_what_another_was_charged_too_much(
    two: Tenants, drive: Driver
) -> None:
    await two.open(A, "steady", deadline_after_ms=1)
    await two.open(B, "joins", deadline_after_ms=1)
    await two.submit(A, "steady", 100)
    [slow] = await two.claim()
    account = StageReport(worker=WORKER, started_after_ns=0, finished_after_ns=SECOND_NS)
    await two.store.finish(FIRST, [Report(lease=slow.lease, report=account, finish=END)], 3)
    await two.submit(B, "joins", 1)
    early = await two.claim(10)  # a second is expected of each
    await drive.score(early)  # but they took 4 us
    await two.submit(B, "joins", 10, first=1)
    assert (await two.served(12)).count("b") >= 5


async def test_a_rank_passes_no_other_tenants_share(two: Tenants) -> None:
    for tenant, name in ((A, "first"), (A, "second"), (B, "other")):
        await two.open(tenant, name, deadline_after_ms=3_600_000)
    await two.store.prioritize(A, BatchId("second"), 10**9)
    for tenant, name in ((A, "first"), (A, "second"), (B, "other")):
        await two.submit(tenant, name, 10)
    claims = await two.claim(10)
    assert sum(claim.task.tenant == B for claim in claims) == 5
    assert {c.batch_id for c in claims if c.task.tenant == A} == {BatchId("second")}


async def test_cancelled_work_leaves_no_tenant_waiting(two: Tenants) -> None:
    await two.open(A, "gone", deadline_after_ms=1)
    await two.open(B, "stays", deadline_after_ms=1)
    await two.submit(A, "gone", 10)
    await two.submit(B, "stays", 10)
    await two.claim(3)
    await two.store.cancel(A, BatchId("gone"))
    assert await two.served(20) == "b" * 9
    assert (await two.store.depths([FIRST]))[0].queued == 0


async def test_a_claim_that_is_cancelled_counts_for_as_long_as_it_was_held(
    valkey_drive: Driver,
) -> None:
    two = Tenants(valkey_drive)
    await two.open(A, "gone", deadline_after_ms=1)
    await two.open(A, "stays", deadline_after_ms=9_000)
    await two.open(B, "other", deadline_after_ms=1)
    for tenant, name in ((A, "gone"), (A, "stays"), (B, "other")):
        await two.submit(tenant, name, 3)
    [claim] = await two.claim()
    link = link_of(two.store)
    key = f"{link.prefix}j:{claim.lease.job_id}"
    unpacker = msgpack.Unpacker(raw=True)
    unpacker.feed(await link.call("HGET", key, "D"))
    values = list(unpacker)
    values[7] -= 100 * 10**6  # us: it was claimed so much sooner
    changed = b"".join(msgpack.packb(one, use_bin_type=False) for one in values)
    await link.call("HSET", key, "D", changed)
    await two.store.cancel(A, BatchId("gone"))
    assert 100 * 10**6 <= int(await link.call("ZSCORE", f"{link.prefix}s:{FIRST}", A)) < 10**9
    assert await two.served(4) == "bbba"


async def test_nothing_is_left_of_shares_when_nobody_waits(valkey_drive: Driver) -> None:
    two = Tenants(valkey_drive)
    await two.open(A, "one", deadline_after_ms=1)
    await two.open(B, "two", deadline_after_ms=1)
    await two.submit(A, "one", 5)
    await two.submit(B, "two", 5)
    await valkey_drive.score(await two.claim(10))
    link = link_of(valkey_drive.store)
    for kind in ("s:*", "sv:*", "sd:*", "q:*"):
        assert await link.call("KEYS", link.prefix.replace("{", "\\{") + kind) == []


async def test_work_queued_by_the_former_layout_is_taken_over_in_its_order(
    valkey_drive: Driver,
) -> None:
    """One queue per stage, and jobs that do not say what they were charged."""
    two = Tenants(valkey_drive)
    await two.open(A, "one", deadline_after_ms=9_000)
    await two.open(B, "two", deadline_after_ms=1)
    await two.submit(A, "one", 3)
    await two.submit(B, "two", 3)
    link = link_of(valkey_drive.store)
    old = link.prefix + f"q:{FIRST}"
    for tenant in (A, B):
        flat = await link.call("ZRANGE", f"{old}:{tenant}", 0, -1, "WITHSCORES")
        for job, score in zip(flat[::2], flat[1::2], strict=True):
            await link.call("ZADD", old, score, job)
            key = link.prefix + "j:" + job.decode()
            unpacker = msgpack.Unpacker(raw=True)
            unpacker.feed(await link.call("HGET", key, "D"))
            values = list(unpacker)[:13]
            await link.call(
                "HSET", key, "D", b"".join(msgpack.packb(one, use_bin_type=False) for one in values)
            )
        await link.call("DEL", f"{old}:{tenant}")
    await link.call("DEL", link.prefix + f"s:{FIRST}", link.prefix + f"sv:{FIRST}")
    assert len((await two.store.open_work(batches_max=9, requests_max=9))[0].requests) == 3
    assert await two.claim() == []
    await valkey_drive.reap(jobs_max=4)
    await valkey_drive.reap(jobs_max=4)
    claims = await two.claim(10)
    assert sorted(c.task.tenant for c in claims[:2]) == [A, B]
    assert len(claims) == 6
    for tenant in (A, B):
        own = [c.request_id for c in claims if c.task.tenant == tenant]
        assert own == ["r0", "r1", "r2"]
    assert await link.call("EXISTS", old) == 0
    assert (await valkey_drive.score(claims)).statuses


# -- what a tenant may leave behind --------------------------------------------------------------


async def test_a_tenant_registers_no_more_tasks_than_its_quota(drive: Driver) -> None:
    quota = Quota(tasks_max=3)
    for number in range(3):
        assert await drive.store.put_task(replace(TASK, task_id=TaskId(f"t{number}")), quota)
    with pytest.raises(Saturated, match="tasks_max: 3"):
        await drive.store.put_task(replace(TASK, task_id=TaskId("t3")), quota)
    assert not await drive.store.put_task(replace(TASK, task_id=TaskId("t1")), quota)
    assert await drive.store.put_task(replace(TASK, tenant=B), quota), "of another tenant"


async def test_a_task_is_forgotten_by_its_own_time_and_not_while_a_batch_needs_it(
    valkey_drive: Driver,
) -> None:
    store = valkey_drive.store
    link = link_of(store)
    implicit = replace(TASK, tenant=A, task_id=TaskId("implicit"))
    await store.open_batch(_brief("first", implicit.task_id), Quota(), implicit=implicit)
    key = link.prefix + "t:a:implicit"
    assert 7_190_000 < await link.call("PTTL", key) <= 7_201_001 + 7_200_000 / 16
    spec = BatchSpec(
        tenant=A,
        batch_id=BatchId("long"),
        task_id=implicit.task_id,
        size=0,
        group_size=0,
        deadline_after_ms=86_400_000,
    )
    await store.open_batch(spec, Quota())
    assert await link.call("PTTL", key) > 86_400_000
    await store.seal(A, spec.batch_id)
    assert await link.call("PTTL", key) > 86_400_000
    expired_ms = int(await link.call("ZSCORE", link.prefix + "tt:a", "implicit"))
    await link.call("ZADD", link.prefix + "tt:a", 1, "implicit")
    await link.call("DEL", key)
    assert await store.put_task(replace(implicit, task_id=TaskId("next")), Quota(tasks_max=1))
    assert expired_ms > 0


def _brief(name: str, task_id: TaskId) -> BatchSpec:
    return BatchSpec(
        tenant=A,
        batch_id=BatchId(name),
        task_id=task_id,
        size=0,
        group_size=0,
        deadline_after_ms=1_000,
    )


@pytest.mark.parametrize("field", ["until", "refreshed"])
async def test_a_use_extends_an_expiry_that_is_too_early_or_was_written_long_ago(
    valkey_drive: Driver, field: str
) -> None:
    store = valkey_drive.store
    link = link_of(store)
    implicit = replace(TASK, tenant=A, task_id=TaskId("implicit"))
    key = link.prefix + "t:a:implicit"
    await store.open_batch(_brief("one", implicit.task_id), Quota(), implicit=implicit)
    for use in (
        lambda: store.put_task(implicit),
        lambda: store.open_batch(_brief("two", implicit.task_id), Quota(), implicit=implicit),
        lambda: store.seal(A, BatchId("one")),
    ):
        await link.call("HSET", key, field, 1)
        await link.call("PEXPIRE", key, 60_000)
        await use()
        assert await link.call("PTTL", key) > 7_190_000


async def test_the_expiry_of_a_task_in_steady_use_is_not_written_at_each_use(
    valkey_drive: Driver,
) -> None:
    store = valkey_drive.store
    link = link_of(store)
    task = replace(TASK, tenant=A)
    key = f"{link.prefix}t:a:{task.task_id}"
    await store.put_task(task)
    await store.open_batch(_brief("one", task.task_id), Quota())
    expires_ms = await link.call("PEXPIRETIME", key)
    await store.put_task(task)
    await store.open_batch(_brief("two", task.task_id), Quota())
    await store.seal(A, BatchId("one"))
    assert await link.call("PEXPIRETIME", key) == expires_ms
    history = link.prefix + f"h:a:{task.task_id}"
    assert await link.call("PTTL", history) > 30 * 86_400_000


async def test_dead_letters_of_one_tenant_push_out_its_own(make_store: MakeStore) -> None:
    drive = Driver(make_store(dead_letters_max=4, dead_letters_per_tenant_max=3))
    two = Tenants(drive)
    for tenant, name, count in ((B, "calm", 2), (A, "flood", 9)):
        await two.open(tenant, name, deadline_after_ms=1)
        for number in range(count):
            await two.submit(tenant, name, 1, first=number)
            await drive.kill()
    letters = await drive.store.dead_letters(letters_max=10)
    assert [(x.tenant, x.request_id) for x in letters] == [
        (A, "r8"),
        (A, "r7"),
        (B, "r1"),
        (B, "r0"),
    ]


async def test_hints_of_one_tenant_push_out_its_own(drive: Driver) -> None:
    await drive.store.hint(B, TASK.task_id, 1)
    for number in range(HINTS_PER_TENANT_MAX + 5):
        await drive.store.hint(A, TaskId(f"t{number}"), 1)
    hints = await drive.store.hints()
    assert (hints[0].tenant, hints[1].task_id) == (B, "t5")
    assert len(hints) == HINTS_PER_TENANT_MAX + 1


async def test_results_of_a_tenant_that_are_kept_are_bounded_the_oldest_go_first(
    drive: Driver,
) -> None:
    quota = Quota(results_kept_max=8)

    async def run(name: str) -> None:
        await drive.open(name, quota=quota)
        await drive.submit(requests("a", "b", "c"), name)
        await drive.score(await drive.claim())
        await drive.seal(name)

    async def there() -> list[str]:
        found: list[str] = []
        for name in ("one", "two", "three", "four"):
            try:
                found.append((await drive.batch(name)).batch_id)
            except NotFound:
                continue
        return found

    await run("one")
    await run("two")
    assert await there() == ["one", "two"]
    await run("three")
    assert await there() == ["two", "three"]
    await drive.open("one", quota=quota)
    await run("four")
    assert await there() == ["one", "three", "four"], "a name that is used again is another batch"
