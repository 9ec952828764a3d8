"""`assay bench gpu`: the persistent kernel's round trip, decoding, groups, change of weights.

A figure is read from the kernel's own counters between two instants of a load that is running, so
that prefill and the end of the load stay out of it. The bound is bytes over the copy bandwidth that
was measured in the same run.
"""

from __future__ import annotations

import importlib.util
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.bench.engine.work import GpuPart
from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.cuda.machine import RingPlacement
from assay.rollout.errors import WorkerStalled
from assay.rollout.interface.rollouts import Sampling
from assay.rollout.local.trace import spans, summarise, write_perfetto
from assay.rollout.models.adapters import (
    AdaptedProjection,
    Adapter,
    AdapterKind,
    projections_of,
)
from assay.rollout.models.model import DType, Model, ModelConfig, Tensor
from assay.rollout.models.staging import tensors_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.cuda.link import CudaStats

WAIT_S = 120.0
ADAPTER_RANK = 32
_PAUSE_S = 0.0005
"""Between two looks at the counts, so that looking is not what the host's CPU time measures."""
QWEN3_0_6B = ModelConfig(
    dim=1024,
    n_layers=28,
    n_heads=16,
    n_kv_heads=8,
    head_dim=128,
    hidden_dim=3072,
    vocab_size=151936,
    positions_max=40960,
    rms_eps=1e-6,
    rope_theta=1e6,
    tied_embeddings=True,
    qk_norm=True,
)


BARRIERS_ONLY = ModelConfig(
    dim=32,
    n_layers=8,
    n_heads=2,
    n_kv_heads=1,
    head_dim=16,
    hidden_dim=64,
    vocab_size=512,
    positions_max=1024,
    rms_eps=1e-6,
    tied_embeddings=True,
)
"""So small that a step is little but its barriers: its time divided by them bounds that of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWork:
    """What is measured."""

    batches: tuple[int, ...] = (1, 8, 32, 64, 256)
    tokens: int = 256
    """Of each rollout."""
    prompt: int = 16
    echoes: int = 10_000
    group: int = 16
    prefix: int = 1024
    groups: int = 8
    """At once, with prompts of their own."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a running load."""

    tokens: int
    steps: int
    seconds: float
    barriers: int
    """Of the grid."""
    cpu_s: float
    """CPU time of this process: the thread that watches the kernel, and this one, which waits."""
    blocks: int
    """KV blocks that the load held at most, by the kernel's own count."""

    @staticmethod
    def between(first: Instant, last: Instant) -> Window:
        """What happened between two instants of one load."""
        was, now = first.stats, last.stats
        return Window(
            tokens=now.decode_tokens - was.decode_tokens,
            steps=now.steps - was.steps,
            seconds=last.at_s - first.at_s,
            barriers=now.barriers - was.barriers,
            cpu_s=last.cpu_s - first.cpu_s,
            blocks=now.kv_in_use_peak,
        )


@dataclass(frozen=True, slots=True)
class Instant:
    """The kernel's counts and this process's clocks."""

    stats: CudaStats
    at_s: float
    cpu_s: float


def random_model(config: ModelConfig, seed: int) -> Model:
    """Random bf16 matrices with a spread that keeps activations in range; norms of one."""
    rng = np.random.default_rng(seed)
    some = (rng.normal(0, 0.02, 1 << 20).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    def tensor(shape: tuple[int, ...]) -> Tensor:
        if len(shape) == 1:
            return Tensor.of(np.ones(shape, dtype=np.float32))
        return Tensor(np.resize(some, shape), DType.BF16)

    return Model(config, {(kind, i): tensor(shape) for kind, i, shape in config.tensor_shapes()})


def _until(engine: CudaEngine, generated: int) -> Instant:
    """Wait for that many tokens in the engine's life."""
    deadline = time.perf_counter() + WAIT_S
    while True:
        stats, now = engine.stats(), time.perf_counter()
        if stats.decode_tokens >= generated:
            return Instant(stats, now, time.process_time())
        if now > deadline:
            raise WorkerStalled(f"{generated} tokens were not made within {WAIT_S:g} s")
        engine.raise_if_lost()
        time.sleep(_PAUSE_S)


def load(engine: CudaEngine, prompts: list[list[int]], k: int, tokens: int) -> Window:
    """Run prompts with k rollouts each to their end; the middle of it is the window.

    The kernel is held until all are submitted: else the first of many prompts ends before the last
    is there, and what the load holds at once is a matter of the host's speed.
    """
    before, n = engine.stats().decode_tokens, len(prompts) * k
    with engine.pause(WAIT_S):
        for prompt in prompts:
            engine.submit(
                prompt,
                max_tokens=tokens,
                seeds=range(k),
                sampling=Sampling(temperature=1.0),
                want_reward=False,
            )
    first = _until(engine, before + n * max(tokens // 8, 1))
    last = _until(engine, before + n * (tokens - max(tokens // 8, 1)))
    left = n
    while left:
        engine.wait(1.0)
        left -= len(engine.poll())
    return Window.between(first, last)


def prompts_of(n: int, length: int, vocab: int) -> list[list[int]]:
    """n prompts that differ in every token."""
    return [[(7919 * (i + 1) + 31 * j) % vocab for j in range(length)] for i in range(n)]


def add_decode(
    report: Report, engine: CudaEngine, work: GpuWork, repeats: int, bandwidth: float | None
) -> None:
    """Tokens per second and share of the bound, by batch."""
    vocab = engine.sizes.config.vocab_size
    for batch in work.batches:
        prompts = prompts_of(batch, work.prompt, vocab)
        windows = [load(engine, prompts, 1, work.tokens) for _ in range(repeats)]
        steps = [w.seconds / w.steps for w in windows]
        report.add(f"decode B={batch}", "tokens/s", [w.tokens / w.seconds for w in windows])
        report.add(f"step B={batch}", "us", [1e6 * s for s in steps])
        report.add(
            f"barriers a step B={batch}", "barriers", [w.barriers / w.steps for w in windows]
        )
        cpu = [1e6 * w.cpu_s / w.tokens for w in windows]
        report.add(f"host CPU per token B={batch}", "us", cpu)
        if bandwidth is not None:
            least = engine.sizes.bytes_a_step([work.prompt + work.tokens // 2] * batch) / bandwidth
            report.add(f"of the bound B={batch}", "%", [100 * least / s for s in steps])


def add_prefill(report: Report, engine: CudaEngine, work: GpuWork, repeats: int) -> None:
    """Prompts per second in tokens: of some prompts, until each has its only token."""
    prompts = prompts_of(work.groups, work.prefix, engine.sizes.config.vocab_size)
    rates: list[float] = []
    for _ in range(repeats):
        with engine.pause(WAIT_S):
            for prompt in prompts:
                engine.submit(prompt, max_tokens=1, seeds=[1], want_reward=False)
        began, left = time.perf_counter(), len(prompts)
        while left:
            engine.wait(1.0)
            left -= len(engine.poll())
        rates.append(work.groups * work.prefix / (time.perf_counter() - began))
    report.add(f"{work.groups} prompts of {work.prefix}", "tokens/s", rates)


def add_group(report: Report, engine: CudaEngine, work: GpuWork, repeats: int) -> None:
    """The same load with prompts shared by groups, and given to each rollout alone."""
    prompts = prompts_of(work.groups, work.prefix, engine.sizes.config.vocab_size)
    tokens = min(work.tokens, engine.options.seq_len_max - work.prefix)
    each = [prompt for prompt in prompts for _ in range(work.group)]
    shared = [load(engine, prompts, work.group, tokens) for _ in range(repeats)]
    alone = [load(engine, each, 1, tokens) for _ in range(repeats)]
    where = f"{work.groups} of K={work.group} prefix={work.prefix}"
    report.add(f"{where}: shared", "tokens/s", [w.tokens / w.seconds for w in shared])
    report.add(f"{where}: each alone", "tokens/s", [w.tokens / w.seconds for w in alone])
    ratios = [
        (a.tokens / a.seconds) / (b.tokens / b.seconds) for a, b in zip(shared, alone, strict=True)
    ]
    report.add(f"{where}: shared / alone", "x", ratios)
    for name, windows in (("shared", shared), ("each alone", alone)):
        report.add(f"{where}: KV, {name}", "blocks", [float(w.blocks) for w in windows])


def add_barrier(report: Report, engine: CudaEngine, work: GpuWork, repeats: int) -> None:
    """The time of one barrier of the grid, at most: of steps that do little else."""
    prompts = prompts_of(1, work.prompt, engine.sizes.config.vocab_size)
    windows = [load(engine, prompts, 1, work.tokens) for _ in range(repeats)]
    report.add("one barrier, at most", "us", [1e6 * w.seconds / w.barriers for w in windows])


def add_swap(report: Report, engine: CudaEngine, model: Model, repeats: int) -> None:
    """A change of weights between two tokens of a running rollout."""
    pauses: list[float] = []
    for version in range(1, repeats + 1):
        engine.stage(version, tensors_of(model))
        engine.submit([1, 2], max_tokens=32, seeds=[version], want_reward=False)
        pauses.append(1e6 * engine.activate(version, timeout_s=WAIT_S).pause_s)
        while not engine.poll():
            engine.wait(1.0)
    report.add("change of weights: held", "us", pauses)


def random_adapter(config: ModelConfig, rank: int, seed: int) -> Adapter:
    """LoRA on every projection."""
    rng = np.random.default_rng(seed)

    def part(*shape: int) -> Tensor:
        return Tensor.of(rng.normal(0, 0.01, shape).astype(np.float32))

    return Adapter(
        tuple(
            AdaptedProjection(
                tensor=kind,
                layer=layer,
                kind=AdapterKind.LORA,
                rows=rows,
                cols=cols,
                size=rank,
                a=part(rank, cols),
                b=part(rows, rank),
                scale=1.0,
            )
            for (kind, layer), (rows, cols) in projections_of(config).shapes.items()
        )
    )


def add_adapter(report: Report, engine: CudaEngine, work: GpuWork, repeats: int) -> None:
    """What an active LoRA adapter on every projection costs a step, and how long its activation
    holds the kernel."""
    config, rank = engine.config, engine.sizes.tuning.adapter_rank
    engine.stage_adapter(1, random_adapter(config, rank, 1))
    pauses: list[float] = []
    for batch in work.batches:
        prompts = prompts_of(batch, work.prompt, config.vocab_size)
        steps: dict[int, list[float]] = {0: [], 1: []}
        for version in [0, 1] * repeats:
            pauses.append(1e6 * engine.activate(version, timeout_s=WAIT_S).pause_s)
            window = load(engine, prompts, 1, work.tokens)
            steps[version].append(1e6 * window.seconds / window.steps)
        report.add(f"step B={batch}, rank {rank}", "us", steps[1])
        ratios = [a / b for a, b in zip(steps[1], steps[0], strict=True)]
        report.add(f"step B={batch}, rank {rank} / none", "x", ratios)
    report.add("change of adapter: held", "us", pauses[1:])


def add_adapter_changes(
    report: Report, engine: CudaEngine, work: GpuWork, repeats: int, *, first: int = 2
) -> None:
    """Decode with an adapter, undisturbed and while others are pushed and activated one after the
    other, versions from `first` on."""
    batch, stop = max(work.batches), threading.Event()
    prompts = prompts_of(batch, work.prompt, engine.config.vocab_size)
    adapter = random_adapter(engine.config, engine.sizes.tuning.adapter_rank, 2)
    versions = itertools.count(first)

    def change() -> int:
        """One adapter after the other; how many."""
        begun = version = next(versions)
        while True:
            engine.stage_adapter(version, adapter)
            engine.activate(version, timeout_s=WAIT_S)
            if stop.is_set():
                return version + 1 - begun
            version = next(versions)

    alone, beside, changes = [], [], []
    with ThreadPoolExecutor(1) as thread:
        for _ in range(repeats):
            alone.append(load(engine, prompts, 1, work.tokens))
            stop.clear()
            others, began = thread.submit(change), time.perf_counter()
            try:
                beside.append(load(engine, prompts, 1, work.tokens))
            finally:
                stop.set()
            changes.append(others.result() / (time.perf_counter() - began))
    report.add("adapters pushed and activated beside decoding", "1/s", changes)
    ratios = [
        b.tokens / b.seconds / (a.tokens / a.seconds) for a, b in zip(alone, beside, strict=True)
    ]
    report.add(f"decode B={batch} meanwhile / undisturbed", "x", ratios)


def add_torch(report: Report, config: ModelConfig, work: GpuWork, repeats: int) -> None:
    """Torch in a CUDA graph at the middle of the same loads, and where the kernel was measured, how
    much faster it is."""
    if importlib.util.find_spec("torch") is None:
        report.leave_out("torch in a CUDA graph", "pip install 'assay[torch]'")
        return
    from assay.rollout.bench.engine.torch_graph import GraphedTorch

    ours = {figure.name: figure.median for figure in report.figures}
    for batch in work.batches:
        rival = GraphedTorch(config, batch, work.prompt + work.tokens // 2)
        steps = [rival.seconds_per_step(work.tokens) for _ in range(repeats)]
        report.add(f"torch graph, step B={batch}", "us", [1e6 * s for s in steps])
        step = ours.get(f"step B={batch}")
        if step is not None:
            report.add(f"torch graph / kernel B={batch}", "x", [1e6 * s / step for s in steps])
        del rival


def add_ring(report: Report, engine: CudaEngine, work: GpuWork) -> None:
    """Round trips of a word between two steps of an idle kernel."""
    trips = sorted(engine.echo(10.0) / 1e3 for _ in range(work.echoes))
    report.add("host -> kernel -> host, p50", "us", [trips[len(trips) // 2]])
    report.add("host -> kernel -> host, p99", "us", [trips[len(trips) * 99 // 100]])


def measure(
    report: Report,
    engine: CudaEngine,
    model: Model,
    work: GpuWork,
    *,
    parts: Collection[GpuPart] = tuple(GpuPart),
    repeats: int,
    bandwidth: float | None,
) -> None:
    """Run the parts on an idle engine. `bandwidth`: bytes that copies read and write per second."""
    if bandwidth is None:
        report.leave_out("share of the bound", "there is no device memory to copy")
    else:
        report.add("copy bandwidth", "GB/s", [bandwidth / 1e9])
    if GpuPart.RING in parts:
        add_ring(report, engine, work)
    if GpuPart.DECODE in parts:
        add_decode(report, engine, work, repeats, bandwidth)
    if GpuPart.PREFILL in parts:
        add_prefill(report, engine, work, repeats)
    if GpuPart.GROUP in parts:
        add_group(report, engine, work, repeats)
    if GpuPart.SWAP in parts:
        add_swap(report, engine, model, repeats)
    report.add("kernel launches in the engine's life", "launches", [engine.stats().launches])


def measure_trace(
    engine: CudaEngine, work: GpuWork, *, repeats: int, perfetto: Path | None, command: str
) -> Report:
    """The eight boundaries of rollouts in groups, whose responses this process scores at once."""
    placement = engine.machine.placement
    report = Report(
        f"Trace of CUDA on {engine.machine.name}, rings {placement}", command, this_machine()
    )
    (prompt,) = prompts_of(1, work.prompt, engine.sizes.config.vocab_size)
    engine.set_trace(on=True)
    runs, errors, position = [], [], 0
    for _ in range(repeats):
        engine.submit(prompt, max_tokens=work.tokens, seeds=range(work.group))
        left = work.group
        while left:
            engine.wait(1.0)
            for request in engine.poll_rewards():
                engine.score(request.ref, 1.0)
            left -= len(engine.poll())
        records, position, lost = engine.read_trace(position)
        if lost:
            raise RuntimeError(f"{lost} events were overwritten")
        runs.append(spans(records))
        errors.append(float(engine.clock_error_ns or 0))
    if perfetto is not None:
        perfetto.parent.mkdir(parents=True, exist_ok=True)
        write_perfetto(runs[-1], perfetto)
    summaries = [summarise(run) for run in runs]
    for name in summaries[0]:
        for word in ("p50", "p90", "p99"):
            report.add(f"{name} {word}", "ns", [getattr(s[name], f"{word}_ns") for s in summaries])
    report.add("the two clocks differ from what is known, at most", "ns", errors)
    return report


def trace_on_gpu(work: GpuWork, repeats: int, perfetto: Path | None, command: str) -> Report:
    """`measure_trace` on the first GPU, with random weights of Qwen3-0.6B's shape.

    Raises:
        CudaError: there is no GPU that it runs on.
    """
    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.cuda.gpu import GpuMachine, describe
    from assay.rollout.cuda.options import CudaOptions

    describe()
    options = CudaOptions(slots=64, seq_len_max=work.prompt + work.tokens)
    with CudaEngine(random_model(QWEN3_0_6B, 1), GpuMachine, options) as engine:
        return measure_trace(engine, work, repeats=repeats, perfetto=perfetto, command=command)


def on_gpu(work: GpuWork, parts: Collection[GpuPart], repeats: int, command: str) -> Report:
    """On the first GPU, with random weights of Qwen3-0.6B's shape.

    Raises:
        CudaError: there is no GPU that it runs on.
    """
    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.cuda.gpu import GpuMachine, copy_bandwidth, describe
    from assay.rollout.cuda.options import CudaOptions
    from assay.rollout.cuda.sizes import Tuning

    device = describe()
    placement = RingPlacement.COHERENT if device.coherent else RingPlacement.MAPPED
    title = f"CUDA on {device.name}, rings {placement}"
    report = Report(title, command, this_machine(), is_live=True)
    if set(parts) - {GpuPart.ADAPTER, GpuPart.BARRIER, GpuPart.TORCH}:
        model = random_model(QWEN3_0_6B, 1)
        longest = max(work.prompt, work.prefix) + work.tokens
        options = CudaOptions(slots=max(256, *work.batches), seq_len_max=longest)
        bandwidth = copy_bandwidth()
        with CudaEngine(model, GpuMachine, options) as engine:
            measure(report, engine, model, work, parts=parts, repeats=repeats, bandwidth=bandwidth)
    if GpuPart.ADAPTER in parts:
        options = CudaOptions(
            slots=max(256, *work.batches),
            seq_len_max=work.prompt + work.tokens,
            tuning=Tuning(adapter_rank=ADAPTER_RANK),
        )
        with CudaEngine(random_model(QWEN3_0_6B, 1), GpuMachine, options) as engine:
            add_adapter(report, engine, work, repeats)
            add_adapter_changes(report, engine, work, repeats)
    if GpuPart.BARRIER in parts:
        small = CudaOptions(
            slots=64,
            seq_len_max=work.prompt + work.tokens,
            tuning=Tuning(dataflow_rows=0),  # else so few rows meet at no barrier
        )
        with CudaEngine(random_model(BARRIERS_ONLY, 1), GpuMachine, small) as engine:
            add_barrier(report, engine, work, repeats)
    if GpuPart.TORCH in parts:
        add_torch(report, QWEN3_0_6B, work, repeats)
    return report
