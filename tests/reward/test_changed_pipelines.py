"""A task whose pipeline has other stages than when it was registered: it has those of today."""

import asyncio
from dataclasses import replace

import pytest
from tests.running import RunApi, RunWorker

from assay.client import Client, Request
from assay.config.settings import RewardSettings
from assay.core.errors import Conflict
from assay.core.ids import PipelineName, StageName
from assay.core.records import Quota
from assay.edge.auth import DEFAULT_TENANT, Tenant
from assay.edge.clock import Clock
from assay.reward.drafts import ScoreDraft
from assay.reward.operations.tasks import Tasks
from assay.store.port import Store
from assay.verifiers.registry import load_pipelines

REQUEST = Request(request_id="r", response="4", reference={"answers": ["4"]})
WAIT_S = 60.0
TENANT = Tenant(tenant_id=DEFAULT_TENANT, quota=Quota())


@pytest.fixture
async def client(store: Store, run_api: RunApi, run_worker: RunWorker) -> Client:
    """Of an API that starts when the task `run` has stages of an earlier release."""
    earlier = await run_api()
    async with Client(earlier.addresses.grpc) as before:
        await before.register_task("run", pipeline="exact")
    [now] = await store.tasks(tasks_max=9)
    gone = StageName("gone")
    await store.put_task(replace(now, stages=(gone, *now.stages), group_stage=gone), replaces=now)
    await run_worker(stage="match")
    api = await run_api()
    return Client(api.addresses.grpc)


@pytest.mark.parametrize("again", [True, False], ids=["registered again", "used"])
async def test_its_next_batch_goes_through_the_stages_of_today(
    client: Client, store: Store, again: bool
) -> None:
    async with client:
        if again:
            assert not (await client.register_task("run", pipeline="exact")).created
        batch = await client.open_batch("run", size=1)
        await batch.submit([REQUEST])
        async with asyncio.timeout(WAIT_S):
            assert [result.reward async for result in batch.results()] == [1.0]
    [now] = await store.tasks(tasks_max=9)
    assert now.stages == ("match",)
    assert now.group_stage is None


async def test_other_content_is_still_a_conflict(client: Client) -> None:
    async with client:
        with pytest.raises(Conflict):
            await client.register_task("run", pipeline="exact", batch_size=8)


async def test_a_score_of_a_pipeline_with_other_stages_is_another_task(store: Store) -> None:
    pipelines = dict(load_pipelines(found=()))
    names = set[str]()
    for stages in (("match",), ("gone", "match")):
        exact = pipelines[PipelineName("exact")]
        spec = replace(exact.spec, stages=tuple(map(StageName, stages)))
        pipelines[exact.spec.name] = replace(exact, spec=spec)
        tasks = Tasks(store=store, pipelines=pipelines, settings=RewardSettings(), clock=Clock())
        task, is_new = await tasks.of_score(TENANT, ScoreDraft(pipeline="exact"))
        assert is_new
        assert task.record.stages == stages
        names.add(task.record.task_id)
    assert len(names) == 2
