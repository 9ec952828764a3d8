"""Long work on many requests or results is done in steps, between which other calls continue."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from assay.core.ids import BatchId, GroupId, PipelineName, RequestId, StageName, TaskId, TenantId
from assay.core.records import BatchSpec, NewRequest, Quota, TaskRecord
from assay.store import codec, valkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest

    from assay.store.port import Store

RED = TenantId("red")
BATCH = BatchId("b")
REQUESTS = 200


class Steps:
    """Counts calls of functions between two turns of another task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.most: dict[str, int] = {}
        self.total: dict[str, int] = {}
        self._now: dict[str, int] = {}

    def count(self, owner: Any, name: str) -> None:
        """Count calls of a function."""
        inner: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            self._now[name] = self._now.get(name, 0) + 1
            self.total[name] = self.total.get(name, 0) + 1
            self.most[name] = max(self.most.get(name, 0), self._now[name])
            return inner(*args, **named)

        self._monkeypatch.setattr(owner, name, counted)

    @asynccontextmanager
    async def seen(self) -> AsyncIterator[None]:
        """Have the other task run."""

        async def turns() -> None:
            while True:
                self._now.clear()
                await asyncio.sleep(0)

        other = asyncio.create_task(turns())
        try:
            yield
        finally:
            other.cancel()


async def _submitted(store: Store) -> None:
    task = TaskRecord(
        tenant=RED,
        task_id=TaskId("t"),
        pipeline=PipelineName("noop"),
        stages=(StageName("noop"),),
        settings_json=b"{}",
        batch_size=0,
        delay_budget_ms=None,
        trainer_cost_rate=0.0,
    )
    await store.put_task(task, Quota())
    opening = BatchSpec(
        tenant=RED,
        batch_id=BATCH,
        task_id=TaskId("t"),
        size=REQUESTS,
        group_size=0,
        deadline_after_ms=60_000,
    )
    await store.open_batch(opening, Quota())
    requests = [
        NewRequest(
            request_id=RequestId(str(number)), group_id=GroupId(""), response=b"x", reference=b"{}"
        )
        for number in range(REQUESTS)
    ]
    await store.submit(RED, BATCH, requests, Quota())


async def test_a_large_message_is_encoded_in_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    steps.count(codec.Parcel, "_row")
    async with steps.seen():
        await _submitted(store)
    assert steps.total["_row"] == REQUESTS
    assert steps.most["_row"] <= codec.ROWS_AT_ONCE


async def test_rows_are_packed_in_steps_to_the_same_bytes() -> None:
    rows = [(str(number), number, b"\xff", "", 2.5) for number in range(3 * codec.ROWS_AT_ONCE)]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    assert await codec.packed_in_steps(rows) == codec.packed_rows(rows)
    beside.cancel()
    assert turns >= 3
    assert await codec.packed_in_steps([]) == codec.packed_rows([])


async def test_a_page_of_results_is_read_and_decoded_in_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _submitted(store)
    await store.cancel(RED, BATCH)
    steps = Steps(monkeypatch)
    steps.count(codec, "log_entry")
    async with steps.seen():
        found = await store.results(RED, BATCH, cursor=0, entries_max=150)
    assert len(found) == steps.total["log_entry"] == 150
    assert steps.most["log_entry"] <= valkey.RESULTS_DECODED_AT_ONCE
    assert valkey.RESULTS_READ_AT_ONCE < REQUESTS
    rest = await store.results(RED, BATCH, cursor=150, entries_max=150)
    names = {entry.request_id for entry in (*found, *rest)}  # type: ignore[union-attr]  # no groups
    assert len(names) == len(found) + len(rest) == REQUESTS
    assert not await store.results(RED, BATCH, cursor=REQUESTS, entries_max=9)
