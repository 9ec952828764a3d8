"""The benches as commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assay.rollout.bench import cow, pipeline, soak, tax, tracing

bench_app = typer.Typer(
    name="bench", help="Measure the rollout runtime on this machine.", no_args_is_help=True
)

Json = Annotated[Path | None, typer.Option("--json", help="Write every sample here.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Draw the figures here (.png, .svg).")]
Repeats = Annotated[int, typer.Option(min=1, max=1000, help="Repeats of every figure.")]
FreeCores = Annotated[
    bool, typer.Option("--free-cores", help="Real-time priority: the cores are ours meanwhile.")
]
KS = [4, 16, 64]
PREFIXES = [128, 512, 1024, 4096]


@bench_app.command("pipeline")
def pipeline_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 5,
    descriptors: Annotated[int, typer.Option(min=1000, help="Through each ring.")] = 4_000_000,
    *,
    free_cores: FreeCores = False,
) -> None:
    """Descriptors through the rings, rollouts through the whole pipeline, latency between cores."""
    command = "assay bench pipeline" + (" --free-cores" if free_cores else "")
    report = pipeline.measure(repeats, descriptors, command, free_cores=free_cores)
    report.deliver(json, plot)


@bench_app.command("trace")
def trace_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 3,
    perfetto: Annotated[Path | None, typer.Option(help="Write the last run's events here.")] = None,
) -> None:
    """The eight boundaries of a rollout's life, and the cost of tracing them."""
    tracing.measure(repeats, perfetto, "assay bench trace").deliver(json, plot)


@bench_app.command("cow")
def cow_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 3,
    k: Annotated[list[int] | None, typer.Option(min=2, help="Branches.")] = None,
    prefix: Annotated[list[int] | None, typer.Option(min=2, help="Prompt tokens.")] = None,
) -> None:
    """Memory that branches on a shared prefix save, against the arithmetic bound."""
    cow.measure(k or KS, prefix or PREFIXES, repeats, "assay bench cow").deliver(json, plot)


@bench_app.command("tax")
def tax_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 5,
    seconds: Annotated[float, typer.Option(min=0.01, max=60, help="A sample's length.")] = 0.3,
    *,
    free_cores: FreeCores = False,
) -> None:
    """What handing over a step costs: eventfd, polling, rings, and not handing it over at all."""
    command = "assay bench tax" + (" --free-cores" if free_cores else "")
    tax.measure(repeats, seconds, command, free_cores=free_cores).deliver(json, plot)


@bench_app.command("soak")
def soak_command(
    rollouts: Annotated[int, typer.Option(min=1)] = 1_000_000,
    parts: Annotated[int, typer.Option(min=1, max=1000)] = 10,
    seed: Annotated[int, typer.Option(help="Printed first; the same seed, the same work.")] = 1,
) -> None:
    """Very many tiny rollouts with cancels and full queues; fails when an invariant breaks."""
    console = Console()
    console.print(f"seed {seed}")
    total = 0
    for part in soak.soak(rollouts, parts, seed):
        total += part.rollouts
        console.print(
            f"{total:>9,} rollouts  {part.rollouts / part.seconds:>8,.0f}/s"
            f"  cancelled {part.cancelled:>6,}  full {part.full:>7,}  blocked {part.blocked:>9,}"
            f"  evictions {part.evictions:>9,}  resident {part.resident_bytes / 2**20:.1f} MiB"
        )
    console.print("every invariant held")


@bench_app.command("all")
def all_command(
    folder: Annotated[Path, typer.Option(help="JSON and plots go here.")] = Path("benchmarks/out"),
    repeats: Repeats = 5,
) -> None:
    """pipeline, trace, cow and tax."""
    reports = {
        "pipeline": pipeline.measure(repeats, 4_000_000, "assay bench pipeline"),
        "trace": tracing.measure(repeats, folder / "perfetto.json", "assay bench trace"),
        "cow": cow.measure(KS, PREFIXES, repeats, "assay bench cow"),
        "tax": tax.measure(repeats, 0.3, "assay bench tax"),
    }
    for name, report in reports.items():
        report.deliver(folder / f"{name}.json", folder / f"{name}.png")
