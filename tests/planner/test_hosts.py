"""One planner and several worker hosts: real ones, ones that stop listening, ones that lie."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from pydantic import SecretStr
from tests.planner.live import STAGE, WAIT_S, Asker, RunHost, RunPlanner, Trainer, until

from assay.config.access import OperatorSettings
from assay.core.errors import DependencyDown, InvalidRequest
from assay.core.hosts.record import HostRecord
from assay.core.ids import StageName, WorkerId
from assay.edge.auth import Operator
from assay.edge.clock import Clock
from assay.planner.service import hosts as hosts_module
from assay.planner.service.host_view import AWAY_NS, CALM_NS, HostView, state_of
from assay.planner.service.hosts import OTHERS_AT_ONCE_MAX, Costs, HostsScaler, LocalHost
from assay.planner.session.conduct import (
    CHANGES_MAX,
    FAILURES_MAX,
    LATE_NS_MIN,
    SHORT_NS,
    STUBBORN_NS,
)
from assay.store.port import Store
from assay.v1 import worker_pb2, worker_pb2_grpc

ONE = StageName("one")
LONG_S = 600.0
OPERATORS = "0p3rator"


class Movable(Clock):
    """The clock, with jumps."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.ahead_ns


class Said(worker_pb2_grpc.PoolServiceServicer):
    """A pool service that answers what a test wants."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.pools = [worker_pb2.StagePool(stage=ONE, slots_desired=1, slots_ready=1)]
        self.obeys = True
        self.pretends = False
        """To have all slots that it is asked for."""
        self.asked: list[int] = []
        self.shown: set[str] = set()
        self.accepts = ""
        self.hangs = self.hangs_on_sizes = False
        self.waiting = 0
        self.drops = False
        """Its stage, while it is asked for a size, which it then refuses."""
        self.looked_at = asyncio.Event()

    async def _admit(self, context: Any) -> None:
        metadata = dict(context.invocation_metadata() or ())
        self.shown.add(metadata.get("authorization", ""))
        if self.accepts and metadata.get("authorization") != f"Bearer {self.accepts}":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "another's")
        if self.hangs:
            self.waiting, self.hangs = self.waiting + 1, not self.hangs_on_sizes
            await asyncio.Event().wait()

    async def ListPools(self, request: Any, context: Any) -> worker_pb2.ListPoolsResponse:
        await self._admit(context)
        self.looked_at.set()
        return worker_pb2.ListPoolsResponse(pools=self.pools, worker=self.worker)

    async def ResizePool(self, request: Any, context: Any) -> worker_pb2.ResizePoolResponse:
        self.hangs = self.hangs_on_sizes
        await self._admit(context)
        self.asked.append(request.slots)
        if self.drops:
            self.pools = []
            self.looked_at.clear()
            await self.looked_at.wait()
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "what stage?")
        if self.obeys:
            ready = request.slots if self.pretends else 0
            pool = worker_pb2.StagePool(
                stage=request.stage, slots_desired=request.slots, slots_ready=ready
            )
            self.pools = [pool]
        return worker_pb2.ResizePoolResponse(pool=self.pools[0])


class Scene:
    """A scaler, and hosts that register and say things."""

    def __init__(self, store: Store, folder: Path, stack: AsyncExitStack) -> None:
        self.store = store
        self.clock = Movable()
        self._stack = stack
        self._servers: dict[str, grpc.aio.Server] = {}
        self.ports: dict[str, int] = {}
        self.ready_file = folder / "worker.json"
        self.scaler = HostsScaler(
            store,
            local=LocalHost(ready_file=self.ready_file, fallback="127.0.0.1:1"),
            operator=Operator(OperatorSettings(token=SecretStr(OPERATORS))),
            costs=Costs(
                cores_of=lambda _: 1.0,
                core_cost_of=lambda worker: self.core_costs.get(worker),
                core_cost=0.025,
            ),
            attempts_max=3,
            clock=self.clock,
        )
        self.core_costs: dict[str, float] = {}
        stack.push_async_callback(self.scaler.close)

    async def unregistered(self, name: str) -> Said:
        """A host that only the ready file names, at the port of its name."""
        said = await self.serves(name)
        self.ready_file.write_text(json.dumps({"control": f"127.0.0.1:{self.ports[name]}"}))
        return said

    async def host(
        self,
        name: str,
        *,
        cores: int = 4,
        slots_max: int = 10,
        credential: str = "",
        stage: str = ONE,
    ) -> Said:
        said = await self.serves(name, credential)
        address = f"127.0.0.1:{self.ports[name]}"
        await self.registers(name, address, cores, slots_max, credential, stage=stage)
        return said

    async def serves(self, name: str, credential: str = "") -> Said:
        said = Said(name)
        said.accepts = credential
        server = grpc.aio.server()
        worker_pb2_grpc.add_PoolServiceServicer_to_server(said, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._stack.push_async_callback(server.stop, None)
        self._servers[name] = server
        self.ports[name] = port
        return said

    async def registers(
        self,
        name: str,
        address: str,
        cores: int = 4,
        slots_max: int = 10,
        credential: str = "",
        stage: str = ONE,
    ) -> None:
        record = HostRecord(
            worker=WorkerId(name), address=address, stages=(StageName(stage),), cores=cores,
            memory_bytes=1 << 33, slots_max=slots_max, credential=credential,
        )  # fmt: skip
        await self.store.put_host(record, lease_s=LONG_S)

    async def stop(self, name: str) -> None:
        await self._servers[name].stop(None)

    async def desired(self) -> int:
        return sum(pool.desired for pool in await self.scaler.pools())


@pytest.fixture
async def scene(store: Store, tmp_path: Path) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        yield Scene(store, tmp_path, stack)


async def test_pools_are_sums_and_slots_go_where_the_least_is_used(scene: Scene) -> None:
    small, large = await scene.host("small", cores=2), await scene.host("large", cores=8)
    (pool,) = await scene.scaler.pools()
    assert (pool.desired, pool.ready, pool.slots_max) == (2, 2, 20)
    assert sorted(one.cores for one in pool.machines) == [2, 8]
    assert (await scene.scaler.resize(ONE, 10)).desired == 10
    assert (small.asked, large.asked) == ([2], [8])


async def test_a_host_that_does_not_take_a_size_is_asked_no_more_and_others_get_its_slots(
    scene: Scene,
) -> None:
    liar, honest = await scene.host("a-liar"), await scene.host("b-honest")
    liar.obeys = False
    await scene.scaler.pools()
    assert (await scene.scaler.resize(ONE, 6)).desired == 6
    assert (len(liar.asked), honest.asked[-1]) == (1, 5)
    await scene.scaler.pools()
    await scene.scaler.resize(ONE, 8)
    assert (len(liar.asked), honest.asked[-1]) == (1, 7)
    scene.clock.ahead_ns += STUBBORN_NS
    liar.obeys = True
    await scene.scaler.pools()
    await scene.scaler.resize(ONE, 9)
    assert len(liar.asked) == 2, "it is tried again later"


async def test_a_host_that_registers_after_it_was_found_is_one_host(scene: Scene) -> None:
    said = await scene.unregistered("late")
    assert await scene.desired() == 1
    await scene.registers("late", f"127.0.0.1:{scene.ports['late']}")
    (pool,) = await scene.scaler.pools()
    assert (pool.desired, pool.slots_max) == (1, 10)
    assert (await scene.scaler.resize(ONE, 4)).desired == 4
    assert said.asked == [4]


async def test_a_host_whose_record_ends_is_not_found_a_second_time(scene: Scene) -> None:
    said = await scene.unregistered("once")
    await scene.registers("once", f"127.0.0.1:{scene.ports['once']}")
    assert await scene.desired() == 1
    await scene.store.drop_host(WorkerId("once"))
    (pool,) = await scene.scaler.pools()
    assert (pool.desired, (await scene.scaler.resize(ONE, 4)).desired) == (1, 4)
    assert said.asked == [4]


async def test_numbers_that_cannot_be_are_not_believed(scene: Scene) -> None:
    host = await scene.host("one")
    host.pools = [
        worker_pb2.StagePool(stage=ONE, slots_desired=-5, slots_ready=2, slots_busy=9),
        worker_pb2.StagePool(stage=ONE, slots_desired=1_000),
        worker_pb2.StagePool(stage="anothers", slots_desired=7, slots_ready=7),
    ]
    (pool,) = await scene.scaler.pools()
    assert (pool.stage, pool.desired, pool.ready, pool.busy) == (ONE, 0, 2, 2)


async def test_a_host_that_is_silent_is_not_counted_on_and_keeps_its_leases(
    scene: Scene,
) -> None:
    await scene.host("stays")
    await scene.host("silent")
    assert await scene.desired() == 2
    silent = scene.scaler.views[0]
    silent.record = HostRecord(
        worker=silent.record.worker, address="203.0.113.1:9", stages=(ONE,), cores=4,
        memory_bytes=1, slots_max=10,
    )  # fmt: skip
    await scene.store.put_host(silent.record, lease_s=LONG_S)
    silent.answered_ns -= AWAY_NS
    (pool,) = await scene.scaler.pools()
    assert (pool.desired, pool.condition) == (1, "HostsAway: 1 of 2")
    assert len(await scene.store.hosts()) == 2, "it is not known to be dead"


async def test_one_whose_address_was_never_right_is_not_taken_for_dead(scene: Scene) -> None:
    record = HostRecord(
        worker=WorkerId("elsewhere"), address="127.0.0.1:1", stages=(ONE,), cores=4,
        memory_bytes=1, slots_max=10,
    )  # fmt: skip
    await scene.store.put_host(record, lease_s=LONG_S)
    for _ in range(3):
        with pytest.raises(DependencyDown, match="does not answer"):
            await scene.scaler.pools()
        scene.clock.ahead_ns += 10 * AWAY_NS
    assert len(await scene.store.hosts()) == 1


@pytest.mark.parametrize("how", ["nothing listens", "its successor has the port"])
async def test_a_host_whose_process_is_gone_gives_its_leases_back_at_once(
    plugin: None, scene: Scene, trainer: Trainer, how: str
) -> None:
    said = await scene.host("dies")
    await scene.host("lives")
    batch = await trainer.open(await trainer.task(), 3)
    await trainer.submit(batch, ["a", "b", "c"])
    await scene.store.claim(StageName(STAGE), claims_max=2, lease_s=LONG_S, worker=WorkerId("dies"))
    record = next(one for one in await scene.store.hosts() if one.worker == "dies")
    serving = HostRecord(
        worker=record.worker, address=record.address, stages=(ONE, StageName(STAGE)), cores=4,
        memory_bytes=1, slots_max=10,
    )  # fmt: skip
    await scene.store.put_host(serving, lease_s=LONG_S)
    assert await scene.desired() == 2
    if how == "nothing listens":
        await scene.stop("dies")
    else:
        said.worker = "next"
    await scene.desired()
    scene.clock.ahead_ns += 2 * 10**9
    assert await scene.desired() == 1
    assert [one.worker for one in await scene.store.hosts()] == ["lives"]
    again = await scene.store.claim(
        StageName(STAGE), claims_max=9, lease_s=LONG_S, worker=WorkerId("lives")
    )
    assert sorted(one.attempt for one in again) == [1, 2, 2]


async def test_without_a_host_for_a_stage_a_size_is_refused(scene: Scene) -> None:
    await scene.host("one")
    await scene.scaler.pools()
    with pytest.raises(InvalidRequest, match="nowhere"):
        await scene.scaler.resize(StageName("nowhere"), 2)


async def test_a_batch_is_served_by_all_hosts_and_by_those_that_come_later(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    first = await run_host()
    planner = await run_planner(slots_max=6)
    batch = await trainer.waiting(await trainer.task(), 8)
    await until(lambda: first.slots() == 6, planner.why)
    second = await run_host(slots=1)
    await until(lambda: first.slots() + second.slots() == 6, "one place for each slot")
    await asyncio.wait_for(first.service.membership.leave(), 5)
    await first.service.control.stop()
    await until(lambda: second.slots() == 6, planner.why)
    trainer.go()
    await trainer.over(batch)
    await until(lambda: second.slots() == 0, planner.why)


# -- hosts that lie, and hosts of different cost -----------------------------------------------


async def test_a_host_that_has_no_slots_is_found_by_what_it_ends_and_others_get_them(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer, scene: Scene
) -> None:
    honest = await run_host(slots=1)
    liar = await scene.host("liar", stage=STAGE)
    liar.pretends = True
    liar.pools = [worker_pb2.StagePool(stage=STAGE, slots_desired=4, slots_ready=4)]
    planner = await run_planner(slots_min=1, slots_max=4)
    task = await trainer.task()

    async def doubted() -> bool:
        found = await Asker(address=planner.addresses["grpc"]).get_pools()
        return {one.host: one.state for one in found.hosts}.get("liar") == f"Doubted: {STAGE}"

    async with asyncio.timeout(WAIT_S):
        while not await doubted():
            (depth,) = await trainer.store.depths([StageName(STAGE)])
            if depth.queued < 100:  # work waits all along
                batch = await trainer.open(task, 100)
                await trainer.submit(batch, ["sleep 0.02"] * 100)
            await asyncio.sleep(0.1)
        waiting = await trainer.waiting(task, 8)
        await until(lambda: honest.slots() == 4, planner.why)
        trainer.go()
        await trainer.over(waiting)
    found = await Asker(address=planner.addresses["grpc"]).get_pools()
    (pool,) = [one for one in found.pools if one.stage == STAGE]
    assert pool.condition == "HostsDoubted: 1 of 2, liar"
    assert found.hosts_all == 2


async def test_a_host_on_which_no_slot_becomes_ready_loses_those_that_are_missing(
    scene: Scene,
) -> None:
    await scene.host("honest")
    never = await scene.host("never")
    never.pools = [worker_pb2.StagePool(stage=ONE, slots_desired=5, slots_ready=1)]
    assert await scene.desired() == 6
    for _ in range(2):
        scene.clock.ahead_ns += SHORT_NS
        desired = await scene.desired()
    assert desired == 2
    await scene.scaler.resize(ONE, 4)
    assert never.asked == [1], "it is asked for what it has"


async def test_a_host_on_which_slots_do_become_ready_is_waited_for(scene: Scene) -> None:
    slow = await scene.host("slow")
    for ready in range(1, 5):
        slow.pools = [worker_pb2.StagePool(stage=ONE, slots_desired=5, slots_ready=ready)]
        assert await scene.desired() == 5
        scene.clock.ahead_ns += SHORT_NS - 10**9


async def test_start_up_times_of_a_pool_are_those_of_its_middle_host(scene: Scene) -> None:
    for name, p90_s in (("a", 0.5), ("b", 0.25), ("c", 1e9), ("few", 3.0), ("odd", float("nan"))):
        said = await scene.host(name)
        said.pools[0].slots_ready = 1
        said.pools[0].starts_measured = 2 if name == "few" else 4
        said.pools[0].startup_p50_s = p90_s / 2
        said.pools[0].startup_p90_s = p90_s
    (pool,) = await scene.scaler.pools()
    assert pool.startup_ns == 500_000_000
    assert (pool.startup.measured, pool.startup.p50_ns) == (16, 250_000_000)


async def test_slots_go_to_the_cheaper_host_as_far_as_its_cores_reach(scene: Scene) -> None:
    scene.core_costs = {"spot": 0.01}
    dear, spot = await scene.host("dear", cores=4), await scene.host("spot", cores=4)
    (pool,) = await scene.scaler.pools()
    assert pool.core_cost == pytest.approx((4 * 0.025 + 4 * 0.01) / 8)
    await scene.scaler.resize(ONE, 5)
    assert (dear.asked, spot.asked) == ([], [4])
    await scene.scaler.resize(ONE, 7)
    assert (dear.asked, spot.asked) == ([3], [4]), "beyond its cores they would share them"
    await scene.scaler.resize(ONE, 2)
    assert (dear.asked, spot.asked) == ([3, 0], [4, 2])


async def test_one_host_has_the_settings_cost_and_is_never_doubted(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    host = await run_host(slots=3)
    planner = await run_planner(slots_min=3)
    await until(lambda: host.ready() == 3)
    found = await Asker(address=planner.addresses["grpc"]).get_pools()
    (pool,) = found.pools
    (only,) = found.hosts
    assert (found.leading, pool.slots_ready, pool.core_cost) == (True, 3, 0.0)
    assert (only.state, only.cores, pool.condition) == ("Counted", only.cores, "")
    assert pool.startup.measured == 3
    assert 0 < pool.startup.p50_s <= pool.startup.p90_s


# -- what hosts learn --------------------------------------------------------------------------


async def test_a_host_learns_what_it_registered_and_nothing_else(scene: Scene) -> None:
    mine, victims = "m" * 43, "v" * 43
    victim = await scene.host("victim", credential=victims)
    liar = await scene.host("liar", credential=mine)
    for number in range(3):  # records of its own with the victim's address
        await scene.registers(
            f"liar-{number}", f"127.0.0.1:{scene.ports['victim']}", credential=mine
        )
    old = await scene.host("of-an-earlier-release")
    for _ in range(2):
        await scene.scaler.pools()
        await scene.scaler.resize(ONE, 9)
    assert liar.shown == {f"Bearer {mine}"}
    assert old.shown == {""}
    assert victim.shown == {f"Bearer {victims}", f"Bearer {mine}"}
    assert [one.record.worker for one in scene.scaler.views if scene.scaler.counts(one)] == [
        "liar", "of-an-earlier-release", "victim",
    ]  # fmt: skip
    scene.clock.ahead_ns += 2 * 10**9
    await scene.scaler.pools()
    assert len(await scene.store.hosts()) == 6, "none is taken for dead"


async def test_the_name_of_a_scheme_is_a_name(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said, server = Said("file"), grpc.aio.server()
    worker_pb2_grpc.add_PoolServiceServicer_to_server(said, server)
    server.add_insecure_port("unix:1")
    await server.start()
    await scene.host("honest")
    await scene.registers("file", "unix:1", credential="f" * 43)
    for _ in range(2):
        assert await scene.desired() == 1
        scene.clock.ahead_ns += 10 * AWAY_NS
    assert not said.shown
    await server.stop(None)


async def test_a_successor_with_another_credential_is_another_life(scene: Scene) -> None:
    said = await scene.host("killed", credential="k" * 43)
    await scene.host("lives")
    assert await scene.desired() == 2
    said.accepts = "n" * 43
    assert await scene.desired() == 1
    scene.clock.ahead_ns += 2 * 10**9
    assert await scene.desired() == 1
    assert [one.worker for one in await scene.store.hosts()] == ["lives"]


async def test_one_that_never_took_its_credential_is_not_taken_for_dead(scene: Scene) -> None:
    said = await scene.host("misled", credential="k" * 43)
    said.accepts = "n" * 43
    for _ in range(3):
        with pytest.raises(DependencyDown, match="UNAUTHENTICATED"):
            await scene.scaler.pools()
        scene.clock.ahead_ns += 10 * AWAY_NS
    assert len(await scene.store.hosts()) == 1


async def test_hundreds_of_silent_hosts_delay_no_look_at_those_that_answer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_module, "LOOK_S_MAX", LONG_S)  # as good as forever
    honest = await scene.host("honest")
    async with asyncio.timeout(120):
        assert await scene.desired() == 1
        silent = await scene.host("silent")
        silent.hangs = True
        address = f"127.0.0.1:{scene.ports['silent']}"
        for number in range(300):
            await scene.registers(f"silent-{number}", address)
        for slots in (2, 3, 4):
            await scene.scaler.pools()
            assert (await scene.scaler.resize(ONE, slots)).desired == slots
    assert honest.asked == [2, 3, 4]
    assert silent.waiting <= OTHERS_AT_ONCE_MAX, "and they are not all asked at once"


async def test_an_answer_without_end_is_not_read(scene: Scene) -> None:
    await scene.host("honest")
    flood = await scene.host("flood")
    flood.pools += [worker_pb2.StagePool(stage="x" * 1_000) for _ in range(2_000)]
    (pool,) = await scene.scaler.pools()
    assert (pool.desired, pool.condition) == (1, "HostsAway: 1 of 2")


def test_an_idle_host_is_looked_at_less_often_until_its_record_changes() -> None:
    record = HostRecord(
        worker=WorkerId("host"), address="127.0.0.1:1", stages=(StageName("noop"),), cores=2,
        memory_bytes=2**30, slots_max=4, busy=0,
    )  # fmt: skip
    pool = state_of(worker_pb2.StagePool(stage="noop", slots_desired=1, slots_ready=1))
    view = HostView(record=record, pools={pool.stage: pool})
    view.answered(now_ns := 10**12)
    for at_ns in (now_ns, now_ns + CALM_NS - 1):
        view.listed(record)
        assert view.is_calm(at_ns)
    assert not view.is_calm(now_ns + CALM_NS)
    assert view.counts(now_ns + CALM_NS + AWAY_NS - 1)
    assert not view.counts(now_ns + CALM_NS + AWAY_NS)
    view.listed(replace(record, busy=1))  # a slot is at work
    assert not view.is_calm(now_ns + 1)
    view.answered(now_ns)
    assert not view.is_calm(now_ns)
    assert not view.counts(now_ns + AWAY_NS)
    view.record = record
    view.answered(now_ns)
    view.missed(now_ns + 1, gone=False)  # it was asked, and did not answer
    assert not view.counts(now_ns + AWAY_NS)


# -- hosts whose word changes ------------------------------------------------------------------


async def test_a_host_that_takes_sizes_and_forgets_them_is_asked_no_more(scene: Scene) -> None:
    """Each time it says that it took the size, and at the next look it has another one."""
    liar, honest = await scene.host("a-liar", cores=64), await scene.host("b-honest")
    await scene.scaler.pools()
    for _ in range(12):
        await scene.scaler.resize(ONE, 6)
        liar.pools = [worker_pb2.StagePool(stage=ONE, slots_desired=1, slots_ready=1)]
        await scene.scaler.pools()
    assert len(liar.asked) == CHANGES_MAX
    assert honest.asked[-1] == 5


async def test_a_host_that_answers_looks_and_hangs_on_sizes_delays_three_of_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_module, "CALL_S_MAX", 0.2)
    liar, honest = await scene.host("a-liar", cores=64), await scene.host("b-honest")
    liar.hangs_on_sizes = True
    await scene.scaler.pools()
    for slots in range(4, 12):
        scene.clock.ahead_ns += 2 * AWAY_NS
        await scene.scaler.pools()
        await scene.scaler.resize(ONE, slots)
        assert honest.asked[-1] >= slots - 1
    assert liar.waiting == FAILURES_MAX


async def test_a_host_that_answers_for_another_stage_or_drops_this_one_meanwhile_took_nothing(
    scene: Scene,
) -> None:
    liar, honest = await scene.host("a-liar", cores=64), await scene.host("b-honest")
    await scene.scaler.pools()
    liar.obeys = False
    liar.pools = [worker_pb2.StagePool(stage="anothers", slots_desired=6, slots_ready=6)]
    assert (await scene.scaler.resize(ONE, 6)).desired == 6
    (pool,) = await scene.scaler.pools()
    assert (pool.stage, pool.ready, honest.asked[-1]) == (ONE, 0, 5)
    assert (await scene.scaler.resize(ONE, 8)).desired == 8


async def test_a_host_that_drops_a_stage_while_it_is_asked_for_it_took_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_module, "LOOK_EVERY_S", 0.05)
    liar, honest = await scene.host("a-liar", cores=64), await scene.host("b-honest")
    await scene.scaler.pools()
    liar.drops = True
    assert (await scene.scaler.resize(ONE, 6)).desired == 6
    assert (len(liar.asked), honest.asked[-1]) == (1, 6)


async def test_slots_that_no_one_asked_for_are_no_slots(scene: Scene) -> None:
    liar, honest = await scene.host("a-liar"), await scene.host("b-honest")
    await scene.scaler.pools()
    liar.obeys = False
    liar.pools = [worker_pb2.StagePool(stage=ONE, slots_desired=5_000, slots_ready=5_000)]
    for _ in range(3):
        (pool,) = await scene.scaler.pools()
        await scene.scaler.resize(ONE, 6)
    assert pool.desired <= 6
    assert pool.ready <= 7
    assert len(liar.asked) == 1
    assert honest.asked == []


async def test_slots_that_start_late_are_placed_elsewhere_meanwhile(scene: Scene) -> None:
    late, honest = await scene.host("a-late", cores=64), await scene.host("b-honest")
    honest.pretends = True
    for said in (late, honest):
        said.pools[0].starts_measured, said.pools[0].startup_p90_s = 9, 0.5
    await scene.scaler.pools()
    await scene.scaler.resize(ONE, 6)
    assert (late.asked, honest.asked) == ([5], [])
    late.pools[0].starts_measured, late.pools[0].startup_p90_s = 9, 0.5
    await scene.scaler.pools()
    scene.clock.ahead_ns += LATE_NS_MIN
    assert await scene.desired() == 1
    assert (await scene.scaler.resize(ONE, 6)).desired == 6
    assert (late.asked, honest.asked) == ([5], [6]), "it goes on starting them"
    late.pools[0].slots_ready = 5
    assert await scene.desired() == 11


async def test_a_look_that_fails_ends_no_other_call_of_its_host(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their channel is closed when both are over: a task whose call is cancelled under it ends."""
    monkeypatch.setattr(hosts_module, "LOOK_S_MAX", 0.2)
    monkeypatch.setattr(hosts_module, "CALL_S_MAX", 1.0)
    frozen, _ = await scene.host("a-frozen", cores=64), await scene.host("b-honest")
    await scene.scaler.pools()
    frozen.hangs_on_sizes = True
    resizing = asyncio.create_task(scene.scaler.resize(ONE, 6))
    while not frozen.waiting:
        await asyncio.sleep(0.01)
    frozen.hangs_on_sizes, frozen.hangs = False, True
    await scene.scaler.pools()
    assert frozen.waiting == 2, "it hangs at both"
    assert (await resizing).desired >= 5
