"""`pipeline`: throughput of the rings, and of the whole pipeline built on them.

Descriptors are sealed by the producer and checked by the consumer, in order, before they count. The
pipeline is the real runtime on an engine without a model, with its native scorer, so it measures
the control plane alone. Rollouts are counted when their completion has been read and its reward
recomputed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.rollout.bench.control.native import (
    Drive,
    Driven,
    Tax,
    drive,
    latencies_ns,
    queue_seconds,
    ring_seconds,
    tax,
)
from assay.rollout.bench.harness.machine import Company, cpus, realtime, this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.library.engines import ProbeEngine
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime
from assay.rollout.local.trace import percentile

if TYPE_CHECKING:
    from assay.rollout.local.native_runtime import Stats

WORK = Drive(rollouts=20_000, group=8, prompt_len=16, max_tokens=8)


def run_pipeline(
    host_cpu: int, worker_cpu: int, scorer_cpu: int, *, trace: bool = False
) -> tuple[Driven, Stats]:
    """One run of WORK with the three threads pinned."""
    options = RuntimeOptions(
        seq_len_max=64,
        cpu=worker_cpu,
        scorer_cpu=scorer_cpu,
        native_scorer=True,
        kv_blocks=4096,
        spin_s=20e-6 if host_cpu != worker_cpu else 0.0,
        trace=trace,
    )
    engine = ProbeEngine(batch_max=64, step_tokens_max=1024)
    with Runtime(engine, 512, options) as runtime:
        work = Drive(**{**{k: getattr(WORK, k) for k in WORK.__slots__}, "cpu": host_cpu})
        done, stats = drive(runtime, work), runtime.stats()
    if done.wrong or done.completed != WORK.rollouts:
        raise RuntimeError(f"the pipeline lost or damaged work: {done}")
    return done, stats


def _rings(report: Report, repeats: int, n: int, company: Company) -> None:
    both = cpus()
    for name, batch in (("SPSC ring, batches of 32", 32), ("SPSC ring, singly", 1)):
        rates, trips_s = [], []
        for _ in range(repeats):
            steps, took = tax(Tax.POLLING, cpus=both, hogs=0, steps_an_order=1, seconds=0.02)
            trips_s.append(took / max(steps, 1))
            rates.append(n / ring_seconds(n, batch, both))
            company.sample()
        report.add(name, "descriptors/s", rates)
        per_trip = [rate * trip for rate, trip in zip(rates, trips_s, strict=True)]
        report.add(f"{name}, per cache-line round trip", "descriptors", per_trip)
        report.add(f"cache-line round trip beside {name}", "ns", [1e9 * s for s in trips_s])
    report.add(
        "MPMC queue, singly", "descriptors/s", [n / queue_seconds(n, both) for _ in range(repeats)]
    )
    rounds = [latencies_ns(100_000, both) for _ in range(repeats)]
    for share in (0.5, 0.99):
        name = f"submit -> consume p{share * 100:.0f}"
        report.add(name, "ns", [percentile(r, share) for r in rounds])


def _pipelines(report: Report, repeats: int, company: Company) -> None:
    first, last = cpus()
    free, one = [], []
    for _ in range(repeats):
        free.append(run_pipeline(first, last, first))
        one.append(run_pipeline(first, first, first))
        company.sample()
    for name, runs in (("pipeline, two cores", free), ("pipeline, all on one core", one)):
        report.add(name, "rollouts/s", [d.completed / d.seconds for d, _ in runs])
    report.add(
        "one core / two cores",
        "ratio",
        [a[0].seconds / b[0].seconds for a, b in zip(free, one, strict=True)],
    )
    control = [(s.busy_ns - s.engine_ns, d) for d, s in free]
    report.add("control plane", "ns/rollout", [ns / d.completed for ns, d in control])
    report.add("control plane, of it", "ns/token", [ns / d.tokens for ns, d in control])


def measure(repeats: int, n: int, command: str, *, free_cores: bool = False) -> Report:
    """Run the whole bench. `free_cores`: at real-time priority, for a machine in shared use."""
    title = "Rings and pipeline" + (", real-time priority" if free_cores else "")
    report, company = Report(title, command, this_machine()), Company()
    with realtime(wanted=free_cores):
        _rings(report, repeats, n, company)
        _pipelines(report, repeats, company)
    report.add("load average, beside each repeat", "", company.load_1m)
    report.add("steal, during each repeat", "%", company.steal_percent)
    return report
