"""The whole planner on pods: a batch comes, the Deployment grows, the batch goes, it shrinks."""

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.cluster import Cluster, not_placed, ready, until
from tests.kubernetes.scaling import RunPlanner

from assay.config.environment import SettingError
from assay.config.settings import PlannerSettings, Settings, StoreSettings
from assay.core.ids import BatchId, GroupId, PipelineName, RequestId, TaskId, TenantId
from assay.core.records import BatchSpec, NewRequest, Quota, TaskRecord
from assay.edge.metrics import Metrics
from assay.planner.build import build as build_planner
from assay.planner.service.wire import condition_messages
from assay.store.port import Store
from assay.verifiers.registry import load_pipelines

TENANT = TenantId("default")
STAGE = "python.run"


async def open_batch(store: Store, size: int) -> BatchId:
    """A batch of Python programs, all submitted."""
    definition = load_pipelines()[PipelineName("code.python")]
    task = TaskRecord(
        tenant=TENANT, task_id=TaskId("t"), pipeline=definition.spec.name,
        stages=definition.spec.stages,
        settings_json=definition.settings().model_dump_json().encode(),
        batch_size=size, trainer_cost_rate=8.0,
    )  # fmt: skip
    await store.put_task(task)
    batch = BatchId("b")
    spec = BatchSpec(
        tenant=TENANT, batch_id=batch, task_id=task.task_id, size=size, group_size=0,
        deadline_after_ms=60_000,
    )  # fmt: skip
    await store.open_batch(spec, Quota())
    requests = [
        NewRequest(request_id=RequestId(f"r{n}"), group_id=GroupId(""), response=b"print(1)",
                   reference=b'{"tests": [{"stdin": "", "stdout": "1"}]}')
        for n in range(size)
    ]  # fmt: skip
    await store.submit(TENANT, batch, requests, Quota())
    return batch


async def kubelet(cluster: Cluster, room: int) -> None:
    """Make pods as a Deployment wants; those beyond `room` find no place."""
    pods: list[str] = []
    while True:
        wanted = await cluster.replicas("assay-python-run")
        now_s = time.time()
        while len(pods) < wanted:
            status = ready(now_s) if len(pods) < room else not_placed("SchedulingGated", now_s)
            pods.append(await cluster.add_pod(STAGE, status, created_s=now_s))
        while len(pods) > wanted:
            await cluster.remove_pod(pods.pop())
        await asyncio.sleep(0.02)


async def test_a_batch_scales_its_deployment_from_nothing_and_back(
    cluster: Cluster, store: Store, run_planner: RunPlanner
) -> None:
    name = await cluster.deploy(STAGE, replicas=0)
    node = asyncio.create_task(kubelet(cluster, room=100))
    planner = await run_planner(STAGE)
    batch = await open_batch(store, 64)

    async def grown() -> bool:
        return await cluster.replicas(name) > 0

    await until(grown, f"the pool grows; {planner.controller.why_not_ready}")
    await store.cancel(TENANT, batch)

    async def gone() -> bool:
        return await cluster.replicas(name) == 0

    await until(gone, "the pool is given back")
    node.cancel()


async def test_without_room_the_plan_falls_back_to_what_is_given_and_says_why(
    cluster: Cluster, store: Store, run_planner: RunPlanner
) -> None:
    name = await cluster.deploy(STAGE, replicas=0)
    node = asyncio.create_task(kubelet(cluster, room=1))
    planner = await run_planner(STAGE, gated_s=1.0, quota_hold_s=600.0)
    await open_batch(store, 256)

    async def fallen_back() -> bool:
        plan = planner.controller.plan
        return plan is not None and any(
            stage.stage == STAGE and stage.slots_max == 1 for stage in plan.stages
        )

    await until(fallen_back, f"the plan's cap; {planner.controller.why_not_ready}")
    assert await cluster.replicas(name) >= 1
    told = condition_messages(planner.controller.pools, planner.controller.unserved)
    assert [(one.stage, one.condition) for one in told] == [(STAGE, "QuotaExhausted")]
    node.cancel()


async def test_requests_at_a_stage_without_a_pool_are_told_of(
    cluster: Cluster, store: Store, run_planner: RunPlanner
) -> None:
    """As after an upgrade to other pipelines: no plan has them."""
    await cluster.deploy("match", replicas=0)
    planner = await run_planner("match")
    controller = planner.controller
    batch = await open_batch(store, 64)

    def told() -> list[tuple[str, str, str]]:
        found = condition_messages(controller.pools, controller.unserved)
        return [(one.stage, one.condition, one.details) for one in found]

    await until(lambda: told() == [(STAGE, "NoPool", "64 requests wait for it")], "it is named")
    await store.cancel(TENANT, batch)
    await until(lambda: told() == [], "none is left")


@contextlib.asynccontextmanager
async def behind_one_address(*addresses: str) -> AsyncIterator[str]:
    """A Service: each connection goes to the next of them."""
    turns = itertools.cycle(addresses)
    passing: set[asyncio.Task[None]] = set()

    async def passed(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = next(turns).rpartition(":")
        back, forth = await asyncio.open_connection(host, int(port))
        passing.update(map(asyncio.ensure_future, (passed(reader, forth), passed(back, writer))))

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)


async def test_the_commands_find_the_leader_of_two_planners_behind_a_service(
    cluster: Cluster,
    store: Store,
    run_planner: RunPlanner,
    addresses: list[str],
    tmp_path: Path,
) -> None:
    """As in a pod of the API: no planner of its own, and the address of the Service."""
    await cluster.deploy(STAGE, replicas=0)
    node = asyncio.create_task(kubelet(cluster, room=100))
    leader = await run_planner(STAGE)
    await until(lambda: leader.controller.leading, "one leads")
    other = await run_planner(STAGE)
    await until(lambda: other.controller.why_not_ready == "", "the other stands by")
    batch = await open_batch(store, 64)
    await until(lambda: leader.controller.plan is not None, "there is a plan")

    async def said(address: str, *arguments: str) -> Any:
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "assay.cli", "plan", *arguments, "--json",
            env={"ASSAY_DATA_DIR": str(tmp_path / "none"), "PATH": os.environ["PATH"],
                 "ASSAY_REWARD__PLANNER_ADDRESS": address},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        text, wrong = await done.communicate()
        assert done.returncode == 0, wrong.decode()
        return json.loads(text)

    async with behind_one_address(*reversed(addresses)) as address:
        plan = await said(address, "show")
        assert plan["leading"] is True
        assert [one["stage"] for one in plan["plan"]["stages"]] == [STAGE]
        reasons = " ".join((await said(address, "explain", batch))["explanation"])
        assert STAGE in reasons
        instead = await said(address, "what-if", "--slots-max", f"{STAGE}=1")
    caps = [instead[one]["stages"][0]["slots_max"] for one in ("present", "plan")]
    assert caps[1] == 1 < caps[0]
    node.cancel()


def test_a_scaler_without_deployments_is_refused_at_the_start(
    store_settings: StoreSettings, tmp_path: Path
) -> None:
    planner = PlannerSettings.model_validate({"scaler": "kubernetes"})
    settings = Settings(data_dir=tmp_path, store=store_settings, planner=planner)
    with pytest.raises(SettingError, match=r"planner\.kubernetes\.deployments"):
        build_planner(settings, metrics=Metrics())
