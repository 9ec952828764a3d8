"""Workloads and tables shared by the planner's benchmarks.

Real: arrival times (PolyTrace search_r1), if the file is at `../shared/data/arrivals/` beside the
repository or given with --arrivals. Simulated: durations, calibrated to what DistRS reports of its
task. Without the file, arrivals come from quantiles fitted to it.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from assay.model.arrays import Floats
from assay.model.policy import Policy
from assay.planner.core.policy import Assay
from assay.sim.files import read_arrivals
from assay.sim.policies.autoscalers import Hpa, Keda, Kpa, RayServe, Serverless, StaticPeak
from assay.sim.policies.distrs import Distrs, Ideal, ZeroQueue, peak_concurrency
from assay.sim.policies.large_pools import LARGE_POOLS
from assay.sim.pools.cluster import Cluster, Faults, StartUp
from assay.sim.pools.result import Result
from assay.sim.pools.runner import Options, simulate
from assay.sim.pools.workload import (
    CUDA,
    CUDA_STAGES,
    Drift,
    Stage,
    StageLoad,
    TaskLoad,
    Workload,
    copies,
    draw_workload,
    steady,
)

ROOT = Path(__file__).resolve().parents[2]
OUT = Path(os.environ.get("ASSAY_BENCH_OUT", ROOT / "benchmarks" / "out" / "planner"))
ARRIVALS = ROOT.parent / "shared" / "data" / "arrivals" / "polytrace_search_r1.csv"


def arrivals(path: Path | None = None) -> tuple[Floats, ...]:
    """The real curves, or none (then the fitted quantiles are used)."""
    path = path or Path(os.environ.get("ASSAY_ARRIVALS", ARRIVALS))
    return read_arrivals(path) if path.exists() else ()


def ceiling(workload: Workload) -> tuple[int, ...]:
    """Slots that all tasks' largest batches would need at once without queueing."""
    peaks = [
        np.max([peak_concurrency(b.arrived_ns, b.service_ns) for b in task], axis=0)
        for task in workload.batches
    ]
    return tuple(int(n) for n in np.sum(peaks, axis=0))


Make = Callable[[Workload], Policy]

POLICIES: dict[str, Make] = {
    "static_peak": lambda w: StaticPeak(ceiling(w)),
    "zero_queue": lambda w: ZeroQueue(),
    "hpa": lambda w: Hpa(ceiling(w)),
    "keda": lambda w: Keda(ceiling(w)),
    "kpa": lambda w: Kpa(ceiling(w)),
    "ray_serve": lambda w: RayServe(ceiling(w)),
    "serverless": lambda w: Serverless(),
    "distrs_history": lambda w: Distrs(timeout_rule=False),
    "distrs": lambda w: Distrs(),
    "ideal": Ideal,
    "assay": lambda w: Assay(LARGE_POOLS),
}


@dataclass(frozen=True, kw_only=True)
class Stress:
    """A deviation from the base workload that is not in the history."""

    name: str
    change: Callable[[TaskLoad], TaskLoad] = lambda task: task
    startup_s: float = 5.0
    deaths_per_s: float = 0.0
    past: int = 5

    def cluster(self) -> Cluster:
        """The platform under this stress."""
        return Cluster(
            startup=(StartUp(median_s=self.startup_s),),
            faults=Faults(slot_deaths_per_s=self.deaths_per_s),
        )


def scale_durations(task: TaskLoad, first: float, last: float) -> TaskLoad:
    """All durations times a factor that moves from `first` to `last` over the iterations."""
    return replace(
        task,
        stages=tuple(
            replace(
                load,
                median_s=Drift(first=load.median_s.first * first, last=load.median_s.last * last),
            )
            for load in task.stages
        ),
    )


def longer_tail(task: TaskLoad) -> TaskLoad:
    """Double the part of a duration above the median."""
    return replace(task, stages=tuple(replace(load, tail=2.0) for load in task.stages))


STRESSES: tuple[Stress, ...] = (
    Stress(name="base"),
    Stress(name="durations x1.5", change=lambda t: scale_durations(t, 1.5, 1.5)),
    Stress(name="tail x2", change=longer_tail),
    Stress(name="arrivals x0.7", change=lambda t: replace(t, arrival_stretch=steady(0.7))),
    Stress(name="arrivals x1.3", change=lambda t: replace(t, arrival_stretch=steady(1.3))),
    Stress(name="arrivals +-30 %", change=lambda t: replace(t, arrival_noise=0.15)),
    Stress(name="drift x0.6 to x1.4", change=lambda t: scale_durations(t, 0.6, 1.4)),
    Stress(name="start-up 30 s", startup_s=30.0),
    Stress(name="start-up 60 s", startup_s=60.0),
    Stress(name="5 % of slots die a batch", deaths_per_s=0.05 / 400),
    Stress(name="cold start", past=0),
)


def stressed(
    tasks: Sequence[TaskLoad],
    stages: Sequence[Stage],
    stress: Stress,
    *,
    iterations: int,
    seed: int,
) -> Workload:
    """The workload under stress, with the history of the calm one."""
    sources = arrivals()
    changed = [stress.change(task) for task in tasks]
    workload = draw_workload(
        changed, stages, iterations=iterations, seed=seed, sources=sources, past=0
    )
    calm = draw_workload(tasks, stages, iterations=1, seed=seed, sources=sources, past=stress.past)
    return replace(workload, past=calm.past)


def row(result: Result, **more: object) -> dict[str, object]:
    """The fields of a result that the tables need."""
    return more | {
        "policy": result.policy,
        "seed": result.seed,
        "held_s": {use.stage: round(use.held_s) for use in result.stages},
        "busy_s": {use.stage: round(use.busy_s) for use in result.stages},
        "cost": round(result.cost),
        "slot_cost": round(result.slot_cost),
        "delay_mean_s": round(result.delay_mean_s, 3),
        "delay_p95_s": round(result.delay_p95_s, 3),
        "delay_max_s": round(result.delay_max_s, 3),
        "in_time_share": round(result.in_time_share, 4),
        "trainer_idle_gpu_s": round(result.trainer_idle_gpu_s),
        "delays_s": [round(d, 2) for d in result.delays_s],
        "duration_s": round(result.duration_s),
    }


KEY = ("setting", "stress", "seed", "policy", "gpus")
"""Key that identifies a measurement."""


def save_rows(name: str, rows: Sequence[dict[str, object]]) -> None:
    """Write to benchmarks/out/planner/NAME.json, replacing the same measurements."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    former = json.loads(path.read_text()) if path.exists() else []
    kept = {tuple(str(r.get(k)) for k in KEY): r for r in [*former, *rows]}
    path.write_text(json.dumps(list(kept.values()), indent=0) + "\n")


__all__ = [
    "CUDA",
    "CUDA_STAGES",
    "OUT",
    "POLICIES",
    "ROOT",
    "STRESSES",
    "Options",
    "Stage",
    "StageLoad",
    "Stress",
    "arrivals",
    "ceiling",
    "copies",
    "row",
    "save_rows",
    "simulate",
    "stressed",
]
