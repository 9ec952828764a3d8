"""The alert about missed deadlines, on a platform that has no workers for a while."""

import asyncio
import json
import time
from pathlib import Path

from tests.e2e.commands import platform_up
from tests.monitoring.prometheus import asked, running_prometheus
from tests.monitoring.test_alerts import RULES

from assay.cli.operate.status_client import resize_pool
from assay.client import Client, Request

STAGE = "math.verify"
WINDOW_S = 10
"""In place of the rules' ten minutes, so that the alert is over in a test."""
HANGS_S = 240
ALERT = 'ALERTS{alertname="AssayBatchDeadlineMissed", alertstate="firing", tenant="default"}'


async def until_it(url: str, fires: bool) -> None:
    """Wait until the alert has fired at all, or does not fire any more."""
    expression = f"count_over_time({ALERT}[10m])" if fires else ALERT
    async with asyncio.timeout(HANGS_S):
        while bool(await asyncio.to_thread(asked, url, expression)) != fires:
            await asyncio.sleep(0.3)


async def test_missed_deadlines_are_an_alert_until_workers_are_back(tmp_path: Path) -> None:
    data, rules = tmp_path / "data", tmp_path / "alerts.yaml"
    rules.write_text(RULES.read_text().replace("10m", f"{WINDOW_S}s"))
    async with (
        platform_up(data, "--no-planner", ASSAY_WORKER__SLOTS="0") as addresses,
        running_prometheus(tmp_path, addresses["http"].removeprefix("http://"), rules=rules) as url,
        Client(addresses["grpc"]) as client,
        asyncio.timeout(HANGS_S),
    ):
        control = json.loads((data / "run" / "worker.json").read_text())["control"]
        task = await client.register_task("late", pipeline="math")
        batch = await client.open_batch(task, size=1, deadline_s=1.0)
        request = Request(request_id="r", response="\\boxed{1}", reference={"answers": ["1"]})
        await batch.submit([request])
        while (await batch.status()).deadline_ns > time.time_ns():
            await asyncio.sleep(0.2)
        assert not await asyncio.to_thread(asked, url, ALERT), "it is late, and not over"
        await resize_pool(control, stage=STAGE, slots=1)
        assert [result.reward async for result in batch.results()] == [1.0]
        await until_it(url, fires=True)
        await until_it(url, fires=False)
