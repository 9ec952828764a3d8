"""What `assay status` asks of the store does not grow with the open batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.cli.operate.snapshot import BATCHES_READ_MAX
from assay.cli.operate.status_client import observe
from assay.core.ids import BatchId, StageName, TaskId, TenantId
from assay.core.records import BatchSpec, Quota, TaskRecord
from assay.edge.clock import Clock

if TYPE_CHECKING:
    import pytest

    from assay.store.script import Script
    from assay.store.valkey import ValkeyStore

RED = TenantId("red")
NOBODY = "127.0.0.1:1"


async def open_batches(store: ValkeyStore, first: int, last: int) -> None:
    """Open batches without requests."""
    task: Any = TaskRecord(
        tenant=RED,
        task_id=TaskId("t"),
        pipeline="noop",  # type: ignore[arg-type]
        stages=(StageName("noop"),),
        settings_json=b"{}",
    )
    await store.put_task(task)
    for number in range(first, last):
        spec = BatchSpec(
            tenant=RED,
            batch_id=BatchId(f"b{number}"),
            task_id=TaskId("t"),
            size=1,
            group_size=0,
            deadline_after_ms=3_600_000 - number,
        )
        await store.open_batch(spec, Quota())


async def test_a_thousand_open_batches_cost_as_many_calls_as_ten(
    store: ValkeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    names: set[str] = set()
    link = store._link
    run = link.run

    async def counted_run(script: Script, *arguments: Any) -> Any:
        reply = await run(script, *arguments)
        sent.append(len(str(reply)))
        names.add(script.name)
        return reply

    costs = []
    await open_batches(store, 0, 10)
    for last in (10, 110, 1_000):
        await open_batches(store, 10, last)
        with monkeypatch.context() as patched:
            patched.setattr(link, "run", counted_run)
            sent.clear()
            seen = await observe(store, NOBODY, clock=Clock())
        assert len(seen.batches) == min(last, BATCHES_READ_MAX)
        costs.append((len(sent), sum(sent)))
    calls = {calls for calls, _ in costs}
    assert len(calls) == 1
    assert names == {"batches", "depths"}, "and none of them writes: that waits for the disk"
    assert costs[2][1] < 1.2 * costs[1][1], "and the replies are as long"
