"""The planner on a real platform: Valkey, worker slots, planning processes that are killed.

Requests hold their slots until the test lets them go, so nothing here depends on how fast.
"""

import asyncio
import os
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr
from tests.planner.live import (
    STAGE,
    TENANT,
    WAIT_S,
    Asker,
    Own,
    RunHost,
    RunPlanner,
    StartPlanner,
    Trainer,
    until,
)

from assay.config.access import OperatorSettings
from assay.config.settings import StoreSettings
from assay.edge.auth import OpenToAllError, Operator
from assay.planner.process.parent import ProcessState
from assay.store.embedded import EmbeddedValkey
from assay.store.valkey import ValkeyStore
from assay.v1 import planner_pb2, planner_pb2_grpc


def readyz(planner: Own) -> tuple[int, str]:
    """What a probe answers."""
    try:
        with urllib.request.urlopen(f"http://{planner.addresses['http']}/readyz") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_pools_grow_for_a_batch_and_shrink_after_it(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    planner = await run_planner()
    batch = await trainer.waiting(await trainer.task(), 6)
    await until(lambda: host.slots() == 4, f"all of the cap; {planner.why}")
    trainer.go()
    await trainer.over(batch)
    await until(lambda: host.slots() == 0, "none are needed any more")
    assert planner.why == ""


async def test_a_hint_warms_pools_before_the_first_request(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    await run_planner()
    task = await trainer.task(batch_size=6)
    await trainer.store.hint(TENANT, task.task_id, 6)
    await until(lambda: host.ready() > 0, "a warm slot")
    assert await trainer.store.batches(batches_max=10) == []


async def test_work_that_the_warm_slots_take_at_once_is_not_planned(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    planner = await run_planner(slots_min=2)
    await until(lambda: host.ready() == 2, "the warm ones")
    batch = await trainer.waiting(await trainer.task(), 2)
    trainer.go()
    await trainer.over(batch)
    assert planner.service.controller.process.state == "down"
    assert host.slots() == 2
    story = await Asker(address=planner.addresses["grpc"]).explain(batch)
    assert "No plan was made" in story.explanation[0]


async def test_a_batch_that_capacity_cannot_serve_in_time_is_marked(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    await run_host()
    await run_planner(slots_max=1)
    batch = await trainer.waiting(await trainer.task(), 6)

    async def marked() -> bool:
        return (await trainer.store.get_batch(TENANT, batch)).deadline_at_risk

    async with asyncio.timeout(WAIT_S):
        while not await marked():
            await asyncio.sleep(0.05)


async def test_a_plan_is_shown_explained_and_questioned_while_it_holds_and_after(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    planner = await run_planner()
    asker = Asker(address=planner.addresses["grpc"])
    with pytest.raises(grpc.aio.AioRpcError, match="no work is planned"):
        await asker.what_if(epsilon=0.5)
    batch = await trainer.waiting(await trainer.task(), 6)
    await until(lambda: host.slots() == 4, planner.why)
    async with asyncio.timeout(60):  # the floor may have sized the pool before a plan saw all six
        shown = await asker.get_plan()
        while 4 not in {one.slots for one in shown.plan.stages}:
            await asyncio.sleep(0.05)
            shown = await asker.get_plan()
    assert shown.leading
    (stage,) = (one for one in shown.plan.stages if one.stage == STAGE)
    assert (stage.slots, stage.slots_max, stage.slots_peak) == (4, 4, 4)
    assert "the cap" in stage.why
    more = await asker.what_if(slots_max={STAGE: 6})
    assert max(one.slots_peak for one in more.plan.stages) > 4
    assert host.slots() == 4, "a question touches nothing"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await asker.what_if(slots_max={"nowhere": 6})
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert ("field", "slots_max") in tuple(refused.value.trailing_metadata() or ())
    trainer.go()
    await trainer.over(batch)
    await until(lambda: host.slots() == 0, "the end was seen")
    planner.stop.set()
    await planner.running
    later = await run_planner()
    story = await Asker(address=later.addresses["grpc"]).explain(batch)
    assert story.plans[-1].reason == "the batch has ended"
    assert max(sample.slots_desired for sample in story.samples) == 4
    assert any("prior" in line for line in story.explanation)
    assert any(line.startswith(f"{STAGE} in fact") for line in story.explanation)


async def test_what_no_planner_ever_saw_is_not_found(
    run_host: RunHost, run_planner: RunPlanner
) -> None:
    planner = await run_planner()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await Asker(address=planner.addresses["grpc"]).explain("nothing")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
async def test_a_planning_process_that_fails_is_begun_anew(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer, how: signal.Signals
) -> None:
    host = await run_host()
    planner = await run_planner(planning_s_max=3.0)
    task = await trainer.task()
    await trainer.waiting(task, 1)
    process = planner.service.controller.process
    # The floor gives slots before any plan; a process hung at its start has longer to answer.
    await until(lambda: process.state is ProcessState.UP, "it plans")
    await until(lambda: host.slots() == 1, planner.why)
    first = process.pid
    assert first is not None
    os.kill(first, how)
    await trainer.waiting(task, 6)
    await until(lambda: host.slots() == 4, "the floor holds what waits, or a new one plans")
    await until(lambda: process.pid not in {first, None}, "a new one was started")
    assert process.restarts >= 1
    await until(lambda: planner.why == "", planner.why)


async def test_without_a_worker_host_the_planner_says_so_and_plans_once_there_is_one(
    run_host: RunHost, run_planner: RunPlanner, trainer: Trainer
) -> None:
    planner = await run_planner()
    await until(lambda: "worker host" in planner.why, "it says what is missing")
    await trainer.waiting(await trainer.task(), 6)
    host = await run_host()
    await until(lambda: host.slots() == 4, planner.why)
    await until(lambda: planner.why == "", planner.why)


async def test_a_killed_leader_is_followed_by_the_standby_and_pools_keep_moving(
    run_host: RunHost, start_planner: StartPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    first = await start_planner()
    task = await trainer.task()
    await trainer.waiting(task, 1)
    await until(lambda: host.slots() == 1, "the first leads")
    second = await start_planner()
    standby = await Asker(address=second.addresses["grpc"]).get_plan()
    assert not standby.leading
    assert standby.planning_process == "down"
    first.process.kill()
    batch = await trainer.waiting(task, 6)
    await until(lambda: host.slots() == 4, second.log.read_text())
    trainer.go()
    await trainer.over(batch)
    await until(lambda: host.slots() == 0, second.log.read_text())


async def test_a_leader_that_is_told_to_stop_resigns_at_once(
    run_host: RunHost, start_planner: StartPlanner, trainer: Trainer
) -> None:
    host = await run_host()
    first = await start_planner(lease_s=600)
    asker = Asker(address=first.addresses["grpc"])
    async with asyncio.timeout(WAIT_S):
        while not (await asker.get_plan()).leading:
            await asyncio.sleep(0.05)
    await start_planner(lease_s=600)
    first.process.send_signal(signal.SIGTERM)
    assert await first.process.wait() == 0
    await trainer.waiting(await trainer.task(), 6)
    await until(lambda: host.slots() == 4, "the standby leads, long before a lease runs out")


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[EmbeddedValkey]:
    """A server that a test may stop."""
    server = EmbeddedValkey(tmp_path / "server")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def store_settings(request: pytest.FixtureRequest, valkey: EmbeddedValkey) -> StoreSettings:
    """On the shared server, or on the test's own."""
    if "own_server" in request.fixturenames:
        server = request.getfixturevalue("own_server")
        return StoreSettings(url=server.url, timeout_s=2.0)
    return StoreSettings(url=valkey.url, shard=os.urandom(6).hex(), timeout_s=5.0)


async def test_while_the_store_is_out_pools_stay_as_they_are_and_readiness_says_so(
    own_server: EmbeddedValkey,
    store_settings: StoreSettings,
    run_host: RunHost,
    run_planner: RunPlanner,
    trainer: Trainer,
) -> None:
    host = await run_host()
    planner = await run_planner()
    task = await trainer.task()
    await trainer.waiting(task, 2)
    await until(lambda: host.slots() == 2, planner.why)
    await until(lambda: planner.why == "", planner.why)
    assert await asyncio.to_thread(readyz, planner) == (200, "ok\n")
    await own_server.stop()
    await until(lambda: "store" in planner.why, "it says what is missing")
    code, said = await asyncio.to_thread(readyz, planner)
    assert code == 503
    assert "store" in said
    assert host.slots() == 2
    await own_server.start()
    await until(lambda: planner.why == "", "the store is back")
    store = ValkeyStore(store_settings, url=store_settings.url)
    try:
        await Trainer(store=store, folder=trainer.folder, batches=5).waiting(task, 6)
        await until(lambda: host.slots() == 4, planner.why)
    finally:
        await store.close()


async def test_with_an_operators_token_every_port_of_the_planner_asks_for_it(
    run_planner: RunPlanner,
) -> None:
    settings = OperatorSettings(token=SecretStr("0p3rator"))
    planner = await run_planner(operator=settings)
    look = planner_pb2.GetPlanRequest()
    explain = planner_pb2.ExplainPlanRequest(tenant=TENANT, batch_id="b")
    async with grpc.aio.insecure_channel(planner.addresses["grpc"]) as channel:
        stub = planner_pb2_grpc.PlannerServiceStub(channel)
        for metadata in ((), (("authorization", "Bearer another"),)):
            calls: tuple[tuple[Any, Any], ...] = (
                (stub.GetPlan, look),
                (stub.ExplainPlan, explain),
            )
            for method, request in calls:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await method(request, metadata=metadata)
                assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        check = getattr(health_pb2_grpc.HealthStub(channel), "Check")  # noqa: B009 untyped
        assert await check(health_pb2.HealthCheckRequest())
        shown = Operator(settings).metadata
        assert await planner_pb2_grpc.PlannerServiceStub(channel).GetPlan(look, metadata=shown)
    with pytest.raises(urllib.error.HTTPError) as hidden:
        await asyncio.to_thread(
            urllib.request.urlopen, f"http://{planner.addresses['http']}/metrics"
        )
    with hidden.value as answer:
        assert answer.status == 401
        assert b"assay_" not in answer.read()


async def test_a_planners_port_open_to_the_network_is_refused(run_planner: RunPlanner) -> None:
    with pytest.raises(OpenToAllError, match=r"planner\.host=0\.0\.0\.0.*operator\.token"):
        await run_planner(host="0.0.0.0")
