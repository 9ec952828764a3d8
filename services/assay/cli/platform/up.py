"""`assay up`: the platform on this machine, with a live table; Ctrl-C drains."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.live import Live
from rich.text import Text

from assay.cli.console import DataDir, settings_with
from assay.cli.operate.snapshot import Snapshot
from assay.cli.operate.status_client import Asking, observe
from assay.cli.operate.tables import render
from assay.cli.platform.addresses import Addresses, planner_address
from assay.cli.platform.forks import WARM_LOG, PartForks
from assay.cli.platform.local import LocalPlatform
from assay.cli.printed import out, printable
from assay.config.settings import Settings
from assay.core.errors import AssayError
from assay.edge.clock import Clock
from assay.edge.lifecycle import stop_on_signals, wait_at_most
from assay.store.port import Store
from assay.store.valkey import open_store

REFRESH_S: Final = 0.5
CALM_REFRESH_S: Final = 30.0
"""While there is no work, and none comes."""


def up(
    data_dir: DataDir = None,
    slots: Annotated[int | None, typer.Option(min=0, help="Worker slots per stage.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Also serve rollouts of this model.", exists=True)
    ] = None,
    *,
    planner: Annotated[
        bool | None, typer.Option("--planner/--no-planner", help="Let a planner size the pools.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Do not show the live table.")] = False,
) -> None:
    """Start the API, an embedded store, workers and a planner; Ctrl-C drains."""
    overrides = {} if slots is None else {"ASSAY_WORKER__SLOTS": str(slots)}
    if model is not None:
        overrides["ASSAY_ROLLOUT__MODEL"] = str(model.resolve())
    if planner is not None:
        overrides["ASSAY_PLANNER__ENABLED"] = str(planner).lower()
    settings = settings_with(data_dir, **overrides)
    forks = PartForks(settings.data_dir / "logs" / WARM_LOG)
    with contextlib.suppress(OSError):  # a data directory that cannot be used: it is named below
        forks.begin_here()
    asyncio.run(_up(settings, forks, live=out.is_terminal and not plain))


async def _up(settings: Settings, forks: PartForks, *, live: bool) -> None:
    clock = Clock()
    platform = LocalPlatform(settings, clock=clock, forks=forks)
    with stop_on_signals() as stop:
        addresses = await platform.start()
        store = open_store(settings.store, data_dir=settings.data_dir)
        try:
            out.print(
                f"gRPC {addresses.grpc}   HTTP {addresses.http}/docs   "
                f"{f'rollouts {addresses.rollout}   ' if addresses.rollout else ''}"
                f"{f'agents {addresses.gateway}   ' if addresses.gateway else ''}"
                f"logs {settings.data_dir / 'logs'}   Ctrl-C drains",
                highlight=False,
                soft_wrap=True,
            )
            showing = _show(store, addresses, settings, clock) if live else None
            await _until_told(stop, platform, showing)
        finally:
            await store.close()
            out.print("draining")
            await platform.stop()


async def _until_told(stop: asyncio.Event, platform: LocalPlatform, showing: object) -> None:
    """Keep the platform alive, and the table fresh, until a signal or until it cannot live."""
    jobs = [asyncio.create_task(platform.run()), asyncio.create_task(stop.wait())]
    if asyncio.iscoroutine(showing):
        jobs.append(asyncio.create_task(showing))
    try:
        done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
    for job in done:
        job.result()


async def _show(store: Store, addresses: Addresses, settings: Settings, clock: Clock) -> None:
    """Draw the live table until cancelled; while there is no work, rarely."""
    news = asyncio.Event()
    watching = asyncio.create_task(_note_news(store, news, clock), name="news of work")
    try:
        with Live(console=out, auto_refresh=False, transient=True) as live:
            async with Asking() as asking:
                look = partial(_look, store, addresses, settings, clock, asking)
                shown = None
                while True:
                    news.clear()
                    shown = await _redrawn(live, look, shown)
                    await clock.sleep(REFRESH_S)
                    if shown is not None and shown.is_calm:
                        await asking.rest()
                        await wait_at_most(CALM_REFRESH_S, news)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _look(
    store: Store, addresses: Addresses, settings: Settings, clock: Clock, asking: Asking
) -> Snapshot:
    """Take a snapshot; the planner may have another address after its restart."""
    return await observe(
        store,
        addresses.control,
        clock=clock,
        planner=planner_address(settings),
        all_stages_served=not settings.worker.stages,
        asking=asking,
    )


async def _redrawn(
    live: Live, look: Callable[[], Awaitable[Snapshot]], shown: Snapshot | None
) -> Snapshot | None:
    """Take a snapshot and draw it if it looks different; `None`: there is an error in its place."""
    try:
        seen = await look()
    except AssayError as error:
        what = Text(printable(f"{error.reason}: {error.message}"), style="red")
        live.update(what, refresh=True)
        return None
    if shown is None or not seen.looks_like(shown):
        live.update(render(seen), refresh=True)
    return seen


async def _note_news(store: Store, news: asyncio.Event, clock: Clock) -> None:
    """Set `news` when a batch opens or ends, a worker host comes or goes, or the store is back."""
    while True:
        with contextlib.suppress(AssayError):  # the next snapshot says why
            async for _ in store.watch_planning():
                news.set()
        await clock.sleep(REFRESH_S)
