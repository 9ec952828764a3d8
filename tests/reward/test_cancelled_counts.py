"""What a cancelled batch leaves unjudged is counted for its task, once."""

import httpx
from tests.running import RunApi

from assay.client import Client, Request


async def test_requests_of_a_cancelled_batch_count_as_unjudged_once(run_api: RunApi) -> None:
    running = await run_api()
    async with Client(running.addresses.grpc) as client:
        task = await client.register_task("cut", pipeline="noop")
        batch = await client.open_batch(task)
        await batch.submit(
            Request(request_id=f"r{i}", group_id="g", response="x", reference={}) for i in range(3)
        )
        for _ in range(2):
            await batch.cancel()
    async with httpx.AsyncClient(base_url=running.addresses.http) as http:
        metrics = (await http.get("/metrics")).text
    own = 'task_id="cut",tenant="default"'
    assert f'assay_task_unjudged_total{{cause="CANCELLED",{own}}} 3.0' in metrics
    assert f"assay_task_requests_total{{{own}}} 3.0" in metrics
    assert f"assay_task_grouped_total{{{own}}} 3.0" in metrics
