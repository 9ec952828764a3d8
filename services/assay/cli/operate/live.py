"""`assay top` and `assay watch`: the platform, or one batch, as it changes."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

import typer
from rich.live import Live

from assay.cli.console import EXIT_WITHOUT_REWARD, AsJson, DataDir, settings_with
from assay.cli.operate.connection import control_address, open_running_store
from assay.cli.operate.snapshot import Snapshot, batch_json
from assay.cli.operate.status_client import observe
from assay.cli.operate.tables import render
from assay.cli.platform.addresses import planner_address
from assay.cli.printed import out
from assay.config.settings import Settings
from assay.core.ids import BatchId, TenantId
from assay.core.records import BatchRecord
from assay.edge.clock import Clock

LINES_EVERY_S: Final = 0.5
"""Changes of a batch within this time are one line."""


def top(
    data_dir: DataDir = None,
    every_s: Annotated[float, typer.Option(min=0.1, help="Seconds between readings.")] = 1.0,
    readings: Annotated[int, typer.Option(min=0, help="Number of readings; 0 = until Ctrl-C.")] = 0,
    *,
    as_json: AsJson = False,
) -> None:
    """Show queues, slots and batches as they change; with --json one line per reading."""
    asyncio.run(_top(settings_with(data_dir), every_s, readings, as_json=as_json))


async def _top(settings: Settings, every_s: float, readings: int, *, as_json: bool) -> None:
    async with aclosing(_snapshots(settings, every_s, readings)) as snapshots:
        if as_json or not out.is_terminal:
            async for snapshot in snapshots:
                if as_json:
                    typer.echo(json.dumps(snapshot.as_json(), default=str))
                else:
                    out.print(render(snapshot))
            return
        with Live(console=out, auto_refresh=False, screen=True) as live:
            async for snapshot in snapshots:
                live.update(render(snapshot), refresh=True)


async def _snapshots(
    settings: Settings, every_s: float, readings: int
) -> AsyncGenerator[Snapshot, None]:
    clock, taken = Clock(), 0
    async with open_running_store(settings) as store:
        while True:
            yield await observe(
                store,
                control_address(settings),
                clock=clock,
                planner=planner_address(settings),
                all_stages_served=not settings.worker.stages,
            )
            taken += 1
            if taken == readings:
                return
            await clock.sleep(every_s)


def watch(
    batch: Annotated[str, typer.Argument(help="Id of the batch.")],
    data_dir: DataDir = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the batch.")] = "default",
    *,
    as_json: AsJson = False,
) -> None:
    """Follow a batch to its end; exit 3 when requests of it have no reward."""
    last = asyncio.run(_watch(settings_with(data_dir), tenant, batch, as_json=as_json))
    if last is not None and last.unjudged:
        raise typer.Exit(EXIT_WITHOUT_REWARD)


async def _watch(
    settings: Settings, tenant: str, batch: str, *, as_json: bool
) -> BatchRecord | None:
    clock, last = Clock(), None
    async with aclosing(_changes(settings, TenantId(tenant), BatchId(batch))) as changes:
        async for last in changes:
            if as_json:
                typer.echo(json.dumps(batch_json(last), default=str))
            else:
                out.print(line_of(last, clock.now_ns()), highlight=False)
    return last


async def _changes(
    settings: Settings, tenant: TenantId, batch: BatchId
) -> AsyncGenerator[BatchRecord, None]:
    """The batch's states, each once, until it is over."""
    last: BatchRecord | None = None
    async with (
        open_running_store(settings) as store,
        aclosing(store.watch(batch)) as woken,
    ):
        async for _ in woken:
            state = await store.get_batch(tenant, batch)
            if state != last:
                last = state
                yield state
            if state.over:
                return
            await asyncio.sleep(LINES_EVERY_S)


def line_of(batch: BatchRecord, now_ns: int) -> str:
    """A batch at one instant, in a line."""
    slack_s = (batch.deadline_ns - (batch.completed_ns or now_ns)) / 1e9
    total = batch.size or batch.submitted
    outcomes = ", ".join(f"{name} {n:,}" for name, n in sorted(batch.outcomes.items()))
    risk = ", at risk" if batch.deadline_at_risk and not batch.over else ""
    return (
        f"{batch.batch_id} {batch.state.lower()}: {batch.ended:,}/{total:,} ended, "
        f"{batch.queued:,} queued, {batch.running:,} running, slack {slack_s:+.1f} s{risk}"
        f"{f'; {outcomes}' if outcomes else ''}"
    )
