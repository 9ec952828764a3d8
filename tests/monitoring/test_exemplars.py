"""A real Prometheus leads from a late batch to its trace."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from tests.monitoring.prometheus import asked, exemplars, running_prometheus

from assay.edge.tracing import batch_trace

SERVES = """
import asyncio, sys, time
from pathlib import Path
from assay.core.ids import BatchId, TaskId, TenantId
from assay.core.outcome import Outcome
from assay.core.records import BatchRecord, BatchState
from assay.config.access import OperatorSettings
from assay.edge.auth import Operator
from assay.edge.metrics import Metrics
from assay.edge.probes import Probes

async def main():
    metrics = Metrics(Path(sys.argv[1]), traces=True)
    probes = Probes(
        why_not_ready=lambda: "", registry=metrics.registry, operator=Operator(OperatorSettings())
    )
    port = await probes.start("127.0.0.1", 0)
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for batch, slack_s in (("late", -30.0), ("early", 30.0)):
        metrics.batch_completed(
            BatchRecord(
                tenant=TenantId("red"), batch_id=BatchId(batch), task_id=TaskId("t"),
                state=BatchState.COMPLETE, size=1, group_size=0, opened_ns=0, deadline_ns=0,
                completed_ns=time.time_ns(), submitted=1, ended=1, queued=0, running=0,
                outcomes={Outcome.SCORED: 1},
            ),
            slack_s=slack_s,
        )
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""
"""A process of its own: metrics with a directory change how a process keeps values."""


async def test_a_late_batch_leads_to_its_trace(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVES, str(tmp_path / "metrics"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        target = f"127.0.0.1:{int(await process.stdout.readline())}"
        async with running_prometheus(tmp_path, target, features="exemplar-storage") as url:
            process.stdin.write(b"\n")
            late = 'assay_batch_slack_seconds_bucket{le="-10.0"}'
            found: list[dict[str, Any]] = []
            deadline_s = time.monotonic() + 90
            while not found and time.monotonic() < deadline_s:
                await asyncio.sleep(0.2)
                found = await asyncio.to_thread(exemplars, url, late)
            assert [one["labels"] for one in found] == [
                {"trace_id": batch_trace("red", "late").trace_id, "batch_id": "late"}
            ]
            count = await asyncio.to_thread(asked, url, "assay_batch_slack_seconds_count")
            assert count == [2.0], "what OpenMetrics counts is what the boards ask for"
    finally:
        process.stdin.write_eof()
        await process.wait()
