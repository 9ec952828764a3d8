"""`pipeline`, `cow` and `tax` on the CUDA engine: what is around a step, so the model is as small
as the kernel takes.

`pipeline`: the CPU bench's rollouts, each scored by this process, which recomputes every reward.
`cow`: blocks by the kernel's own count, against the same bound. `tax`: the CPU worker's table, and
a step of the persistent kernel beside one that the host launches, kernel by kernel or as one graph,
and whose token it reads before the next.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assay.rollout.bench.control import tax
from assay.rollout.bench.engine.gpu import (
    BARRIERS_ONLY,
    GpuWork,
    add_ring,
    load,
    prompts_of,
    random_model,
)
from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.errors import WorkerStalled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.cuda.options import CudaOptions
    from assay.rollout.models.model import ModelConfig

RESPONSE = 16
"""Tokens of a branch."""
_SILENT_S = 60.0
_REWARDS = 97
"""Rewards are a sum of tokens modulo this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWork:
    """Rollouts of one run; `pipeline`'s on the CPU, but for their number."""

    rollouts: int = 20_000
    group: int = 8
    prompt: int = 16
    tokens: int = 8


def reward_of(tokens: Sequence[int]) -> float:
    """What this process scores prompt and response with."""
    return float(sum(tokens) % _REWARDS)


def run_pipeline(engine: CudaEngine, work: PipelineWork) -> tuple[float, float]:
    """Submit, score and collect them all, as fast as slots are free; seconds, and of this process's
    CPU time.

    Raises:
        RuntimeError: a completion has another reward than its tokens.
        WorkerStalled: nothing comes back.
    """
    vocab, submitted, left = engine.config.vocab_size, 0, work.rollouts
    prompts = prompts_of(64, work.prompt, vocab)
    began, cpu = time.perf_counter(), time.process_time()
    heard = began
    while left:
        free = engine.stats().slots_free
        while submitted < work.rollouts and free >= work.group:
            k = min(work.group, work.rollouts - submitted)
            prompt = prompts[submitted // work.group % len(prompts)]
            engine.submit(prompt, max_tokens=work.tokens, seeds=range(submitted, submitted + k))
            submitted, free = submitted + k, free - k
        for request in engine.poll_rewards():
            engine.score(request.ref, reward_of(request.tokens))
        done = engine.poll()
        if any(one.reward != reward_of([*one.prompt, *one.tokens]) for one in done):
            raise RuntimeError("a rollout came back with another's reward")
        left -= len(done)
        now = time.perf_counter()
        heard = now if done else heard
        if now - heard > _SILENT_S:
            raise WorkerStalled(f"{left} rollouts did not come back")
        if not done:
            engine.wait(0.01)
    return time.perf_counter() - began, time.process_time() - cpu


def measure_pipeline(
    report: Report, engine: CudaEngine, work: PipelineWork, *, repeats: int, echoes: int
) -> None:
    """On an idle engine."""
    runs = [run_pipeline(engine, work) for _ in range(repeats)]
    report.add("pipeline, CUDA", "rollouts/s", [work.rollouts / s for s, _ in runs])
    tokens = work.rollouts * work.tokens
    report.add("pipeline, CUDA: tokens", "tokens/s", [tokens / s for s, _ in runs])
    report.add("pipeline, CUDA: host CPU", "us/rollout", [1e6 * c / work.rollouts for _, c in runs])
    add_ring(report, engine, GpuWork(echoes=echoes))


def least_blocks(k: int, prompt: int, block: int) -> int:
    """Blocks needed: full blocks of the prefix once, the rest per branch."""
    full = (prompt - 1) // block
    return full + k * (-(-(prompt + RESPONSE - 1) // block) - full)


def measure_cow(
    report: Report, engine: CudaEngine, ks: Sequence[int], prefixes: Sequence[int], repeats: int
) -> None:
    """Branches on prompts of these lengths, on an idle engine."""
    block = engine.sizes.tuning.block_tokens
    for length in prefixes:
        for k in ks:
            prompts = prompts_of(1, length, engine.config.vocab_size)
            windows = []
            took: list[float] = []
            for _ in range(repeats):
                began = time.perf_counter()
                windows.append(load(engine, prompts, k, RESPONSE))
                took.append(1e6 * (time.perf_counter() - began) / k)
            alone = k * -(-(length + RESPONSE - 1) // block)
            bound = alone - least_blocks(k, length, block)
            saved = [alone - w.blocks for w in windows]
            where = f"K={k} prefix={length}"
            report.add(f"{where}: memory saved", "%", [100 * s / alone for s in saved])
            if bound:
                report.add(f"{where}: of the bound", "% of bound", [100 * s / bound for s in saved])
            report.add(f"{where}: all of it", "us/branch", took)


def measure_tax(report: Report, engine: CudaEngine, work: GpuWork, repeats: int) -> None:
    """A step of the persistent kernel, of one rollout, on an idle engine."""
    prompts = prompts_of(1, work.prompt, engine.config.vocab_size)
    windows = [load(engine, prompts, 1, work.tokens) for _ in range(repeats)]
    name = "persistent kernel"
    report.add(name, "ns/step", [1e9 * w.seconds / w.steps for w in windows])
    report.add(f"{name}, host CPU", "ns/step", [1e9 * w.cpu_s / w.steps for w in windows])
    launches = engine.stats().launches / max(engine.stats().steps, 1)
    report.add(f"{name}, launches", "launches/step", [launches])


def add_launched(report: Report, config: ModelConfig, work: GpuWork, repeats: int) -> None:
    """The same shape in torch, whose steps the host launches; without torch left out."""
    ways = {"launch per step": False, "graph per step": True}
    if importlib.util.find_spec("torch") is None:
        for name in ways:
            report.leave_out(name, "pip install 'assay[torch]'")
        return
    from assay.rollout.bench.engine.torch_graph import GraphedTorch

    rival = GraphedTorch(config, 1, work.prompt + work.tokens // 2)
    for name, graphed in ways.items():
        runs = [rival.handed_over(work.tokens, graphed=graphed) for _ in range(repeats)]
        report.add(f"{name}, torch", "ns/step", [1e9 * s for s, _ in runs])
        report.add(f"{name}, torch, host CPU", "ns/step", [1e9 * c for _, c in runs])


def _engine(options: CudaOptions, positions: int = 1024) -> CudaEngine:
    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.cuda.gpu import GpuMachine

    config = replace(BARRIERS_ONLY, positions_max=max(positions, BARRIERS_ONLY.positions_max))
    return CudaEngine(random_model(config, 1), GpuMachine, options)


def _report(title: str, command: str) -> Report:
    """Of the first GPU.

    Raises:
        CudaError: there is no GPU that the kernel runs on.
    """
    from assay.rollout.cuda.gpu import describe
    from assay.rollout.cuda.machine import RingPlacement

    device = describe()
    placement = RingPlacement.COHERENT if device.coherent else RingPlacement.MAPPED
    title = f"{title}: CUDA on {device.name}, rings {placement}"
    return Report(title, command, this_machine(), is_live=True)


def pipeline_on_gpu(work: PipelineWork, repeats: int, command: str) -> Report:
    """`measure_pipeline` on the first GPU.

    Raises:
        CudaError: there is no GPU that it runs on.
    """
    from assay.rollout.cuda.options import CudaOptions

    report = _report("Rings and pipeline", command)
    with _engine(CudaOptions(slots=512, seq_len_max=64)) as engine:
        measure_pipeline(report, engine, work, repeats=repeats, echoes=10_000)
    return report


def cow_on_gpu(ks: Sequence[int], prefixes: Sequence[int], repeats: int, command: str) -> Report:
    """`measure_cow` on the first GPU.

    Raises:
        CudaError: there is no GPU that it runs on.
    """
    from assay.rollout.cuda.options import CudaOptions

    report = _report("Branches on a prefix", command)
    longest = max(prefixes) + RESPONSE
    with _engine(CudaOptions(slots=max(ks), seq_len_max=longest), longest) as engine:
        measure_cow(report, engine, ks, prefixes, repeats)
    return report


def tax_on_gpu(repeats: int, seconds: float, command: str, *, free_cores: bool) -> Report:
    """The CPU worker's table, and the same on the first GPU.

    Raises:
        CudaError: there is no GPU that it runs on.
    """
    from assay.rollout.cuda.options import CudaOptions

    report, work = _report("Cost of handing over a step", command), GpuWork()
    on_cpu = tax.measure(repeats, seconds, command, free_cores=free_cores)
    report.figures.extend(on_cpu.figures)
    options = CudaOptions(slots=64, seq_len_max=work.prompt + work.tokens)
    with _engine(options) as engine:
        measure_tax(report, engine, work, repeats)
    add_launched(report, BARRIERS_ONLY, work, repeats)
    return report
