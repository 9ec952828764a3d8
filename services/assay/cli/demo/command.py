"""`assay demo`: train a small model on sums, with everything that the platform has."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.progress import Progress

from assay.cli.console import AsJson, print_json, settings_with
from assay.cli.demo import record as records
from assay.cli.demo.loop import Learner, open_loop
from assay.cli.demo.tally import in_words
from assay.cli.operate.status_client import observe
from assay.cli.platform.addresses import Addresses, planner_address
from assay.cli.platform.local import LocalPlatform
from assay.cli.printed import err, out
from assay.client.rollouts import RolloutClient
from assay.core.errors import AssayError
from assay.edge.clock import Clock
from assay.rollout.demo.checkpoint import write_folder
from assay.store.valkey import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from assay.config.settings import Settings

REFRESH_S = 0.5
WARM_STEPS = 60
GAIN_MIN = 0.3
"""The demo fails when the reward on held-out prompts rises by less."""
EXIT_NOT_LEARNT = 1
FREE_PORTS = (
    "REWARD__GRPC_PORT",
    "REWARD__HTTP_PORT",
    "WORKER__CONTROL_PORT",
    "PLANNER__GRPC_PORT",
    "PLANNER__HTTP_PORT",
    "ROLLOUT__GRPC_PORT",
    "ROLLOUT__HTTP_PORT",
    "ROLLOUT__GATEWAY_PORT",
)


def demo(
    plot: Annotated[Path, typer.Option(help="Reward and pools over time (.png, .svg).")] = Path(
        "assay-demo.png"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, prompts and sampling.")] = 1,
    steps: Annotated[int, typer.Option(min=1, max=10_000, help="Training steps.")] = 190,
    prompts: Annotated[
        int, typer.Option(min=1, max=512, help="Prompts per step, 8 responses each.")
    ] = 48,
    *,
    as_json: AsJson = False,
) -> None:
    """Train a small model on one machine, on the real platform: about two minutes.

    A character-level transformer learns sums (`<3+4+5>` to `12#`): some supervised steps, then GRPO
    with 8 responses per prompt, rollouts from the rollout service, rewards from the reward service,
    and new weights pushed after each step.
    """
    records.check_plot(plot)
    record = records.DemoRecord(steps_wanted=steps, k=8)
    asyncio.run(_demo(record, seed=seed, prompts=prompts))
    records.plot(record, plot)
    summary = record.summary()
    if as_json:
        print_json(summary)
    else:
        out.print(_summary(record, plot), highlight=False)
    if summary["gain"] < GAIN_MIN:
        err.print(f"the reward on held-out prompts rose by {summary['gain']:.2f} only", style="red")
        raise typer.Exit(EXIT_NOT_LEARNT)


def _summary(record: records.DemoRecord, plot: Path) -> str:
    found = record.summary()
    return (
        f"held-out reward {found['held_out_before']:.2f} -> {found['held_out_after']:.2f}, "
        f"{len(record.steps)} steps of {found['step_s_median']:.2f} s, "
        f"{found['degenerate_mean']:.0%} of groups degenerate, "
        f"staleness {found['staleness_mean']:.1f}, {found['unscored']} unscored, "
        f"{found['late_steps']} deadlines missed, push {1e3 * found['push_s_median']:.0f} ms, "
        f"longest pause {found['pause_ms_max']:.1f} ms\n{in_words(record.tallies)}\n{plot}"
    )


async def _demo(record: records.DemoRecord, *, seed: int, prompts: int) -> None:
    clock = Clock()
    learner = _warm(seed)
    with tempfile.TemporaryDirectory(prefix="assay-demo-", ignore_cleanup_errors=True) as own:
        folder = write_folder(Path(own) / "model", learner.shape, learner.weights)
        async with _platform(Path(own), folder, clock) as (settings, addresses):
            watching = asyncio.create_task(_watch(record, settings, addresses, clock))
            try:
                await _train(record, learner, addresses.rollout, prompts, clock)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)


def _warm(seed: int) -> Learner:
    with Progress(console=err, transient=True) as bar:
        task = bar.add_task("supervised warm start", total=WARM_STEPS)
        return Learner.warm(seed, WARM_STEPS, lambda loss: bar.advance(task))


@asynccontextmanager
async def _platform(
    own: Path, model: Path, clock: Clock
) -> AsyncIterator[tuple[Settings, Addresses]]:
    """A platform of this run alone, on free ports."""
    settings = settings_with(
        own,
        **{f"ASSAY_{name}": "0" for name in FREE_PORTS},
        ASSAY_ROLLOUT__MODEL=str(model),
        ASSAY_ROLLOUT__WEIGHT_DTYPE="f32",
        ASSAY_ROLLOUT__SLOTS="512",
        ASSAY_ROLLOUT__BATCH_MAX="128",
        ASSAY_ROLLOUT__TOKENS_MAX="32",
    )
    platform = LocalPlatform(settings, clock=clock)
    with err.status("starting the platform"):
        addresses = await platform.start()
    try:
        async with platform.kept():
            yield settings, addresses
    finally:
        await platform.stop()


async def _train(
    record: records.DemoRecord, learner: Learner, url: str, prompts: int, clock: Clock
) -> None:
    async with RolloutClient(url) as client:
        loop = await open_loop(client, learner, prompts=prompts, now=lambda: _seconds(clock))
        record.tallies = loop.tallies
        record.phase = "held-out prompts"
        record.held_out_before = await loop.held_out("held-out-before")
        record.phase = "training"
        await loop.run(record.steps_wanted, record.steps.append)
        record.phase = "held-out prompts"
        record.held_out_after = await loop.held_out("held-out-after")
        await loop.close()


def _seconds(clock: Clock) -> float:
    return clock.monotonic_ns() / 1e9


async def _watch(
    record: records.DemoRecord, settings: Settings, addresses: Addresses, clock: Clock
) -> None:
    store, began = open_store(settings.store, data_dir=settings.data_dir), _seconds(clock)
    try:
        with Live(console=err, auto_refresh=False, transient=True) as live:
            while True:
                try:
                    seen = await observe(
                        store, addresses.control, clock=clock, planner=planner_address(settings)
                    )
                    record.see(seen, _seconds(clock) - began)
                    live.update(records.render(record), refresh=True)
                except AssayError as error:
                    live.update(f"{error.reason}: {error.message}", refresh=True)
                await clock.sleep(REFRESH_S)
    finally:
        await store.close()
