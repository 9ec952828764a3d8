"""`trace`: the eight boundaries of the pipeline, and the cost of tracing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.rollout.bench.control.native import Drive, drive
from assay.rollout.bench.control.pipeline import run_pipeline
from assay.rollout.bench.harness.machine import cpus, this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.library.engines import ProbeEngine
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime
from assay.rollout.local.trace import spans, summarise, write_perfetto

if TYPE_CHECKING:
    from pathlib import Path

    from assay.rollout.local.trace import Span


def record() -> list[Span]:
    """A run with 50 us of engine work per step; every event is kept."""
    host, worker = cpus()
    options = RuntimeOptions(
        seq_len_max=64,
        native_scorer=True,
        trace=True,
        trace_events_max=1 << 18,
        kv_blocks=2048,
        cpu=worker,
        scorer_cpu=host,
    )
    with Runtime(ProbeEngine(batch_max=32, spin_ns=50_000), 128, options) as runtime:
        drive(runtime, Drive(rollouts=4_000, prompt_len=24, max_tokens=16, cpu=host))
        records, _, lost = runtime.read_trace()
    if lost:
        raise RuntimeError(f"{lost} events were overwritten")
    return spans(records)


def measure(repeats: int, perfetto: Path | None, command: str) -> Report:
    """Run the whole bench."""
    report = Report("Trace", command, this_machine())
    runs = [record() for _ in range(repeats)]
    if perfetto is not None:
        perfetto.parent.mkdir(parents=True, exist_ok=True)
        write_perfetto(runs[-1], perfetto)
    summaries = [summarise(run) for run in runs]
    for name in summaries[0]:
        for word in ("p50", "p90", "p99"):
            samples = [getattr(s[name], f"{word}_ns") for s in summaries]
            report.add(f"{name} {word}", "ns", samples)
    host, worker = cpus()
    off, on = [], []
    for _ in range(repeats):  # alternating, so that drift of the machine affects both
        off.append(run_pipeline(host, worker, host)[0])
        on.append(run_pipeline(host, worker, host, trace=True)[0])
    report.add("pipeline, tracing off", "rollouts/s", [d.completed / d.seconds for d in off])
    report.add("pipeline, tracing on", "rollouts/s", [d.completed / d.seconds for d in on])
    return report
