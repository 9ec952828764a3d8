"""DistRS's own experiments on our simulator: python -m benchmarks.planner.fidelity [--quick]

Figures 10 and 11 (six staggered tasks, colocated and disaggregated), 13 (one task), 14 (two batches
100 s apart, EBF against FCFS over a sweep of GPUs). Real: arrivals. Simulated: durations, platform.
"""

import argparse
from dataclasses import replace

import numpy as np

from assay.model.arrays import to_ns
from assay.model.queueing import (
    Demand,
    by_stage,
    constant_supply,
    make_scratch,
    serve_all,
    unconstrained,
)
from assay.sim.pools.runner import Options
from assay.sim.pools.workload import Workload
from benchmarks.planner.common import (
    CUDA,
    CUDA_STAGES,
    POLICIES,
    STRESSES,
    copies,
    row,
    save_rows,
    simulate,
    stressed,
)

SETTINGS = {
    "colocated": (6, 300.0, 130.0),
    "disaggregated": (6, 60.0, 95.0),
    "single": (1, 300.0, 0.0),
}
"""Tasks, gap between batches (s), stagger (s)."""
FOUR = ("zero_queue", "distrs_history", "distrs", "ideal")


def run_setting(name: str, iterations: int, seed: int) -> list[dict[str, object]]:
    """One of the paper's three workloads under its four policies."""
    count, gap_s, stagger_s = SETTINGS[name]
    tasks = [replace(task, gap_s=gap_s) for task in copies(CUDA, count, stagger_s=stagger_s)]
    workload = stressed(tasks, CUDA_STAGES, STRESSES[0], iterations=iterations, seed=seed)
    rows = []
    for policy in FOUR:
        result = simulate(
            workload, STRESSES[0].cluster(), POLICIES[policy](workload), Options(seed=seed)
        )
        rows.append(row(result, setting=name))
        print(name, seed, policy, rows[-1]["held_s"], rows[-1]["delay_mean_s"], flush=True)
    return rows


def two_batches(workload: Workload) -> Demand:
    """Figure 14: the same kind of batch twice, the second 100 s later, unlimited CPU."""
    first, second = workload.batches[0][0], workload.batches[0][1]
    service = np.concatenate([first.service_ns, second.service_ns])
    arrived = np.concatenate([first.arrived_ns, second.arrived_ns + to_ns(100)])
    release = arrived + service[:, 0]
    service[:, 0] = 0
    return by_stage(
        Demand(
            release_ns=release,
            service_ns=service,
            key=np.zeros(len(release), np.int64),
            running=np.full(len(release), -1, np.int64),
        )
    )


def mean_delay(demand: Demand, gpus: int, *, ebf: bool) -> float:
    """Mean d of the two batches, seconds."""
    half = len(demand.release_ns) // 2
    batch = np.repeat([0, 1], [half, len(demand.release_ns) - half])
    order = np.argsort(np.argsort(demand.release_ns, kind="stable"), kind="stable")
    key = (batch * len(order) if ebf else 0) + order
    scratch = make_scratch(len(order))
    supply = constant_supply(np.array([len(order), gpus]))
    serve_all(demand._replace(key=key), supply, unconstrained(len(order), 2), scratch)
    natural = demand.release_ns + demand.service_ns.sum(axis=1)
    late = [scratch.clock_ns[batch == b].max() - natural[batch == b].max() for b in (0, 1)]
    return float(np.mean(late)) / 1e9


def run_orders(seed: int) -> list[dict[str, object]]:
    """Orders of stages, as in figure 14 of the paper."""
    workload = stressed([CUDA], CUDA_STAGES, STRESSES[0], iterations=2, seed=seed)
    demand = two_batches(workload)
    return [
        {
            "seed": seed,
            "gpus": gpus,
            "ebf_s": mean_delay(demand, gpus, ebf=True),
            "fcfs_s": mean_delay(demand, gpus, ebf=False),
        }
        for gpus in range(10, 50)
    ]


def main() -> None:
    """Run and store the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    iterations, seeds = (4, 1) if args.quick else (args.iterations, args.seeds)
    save_rows("ordering", [r for seed in range(1, seeds + 1) for r in run_orders(seed)])
    rows: list[dict[str, object]] = []
    for name in args.settings.split(","):
        for seed in range(1, seeds + 1):
            rows += run_setting(name, iterations, seed)
            save_rows("fidelity", rows)


if __name__ == "__main__":
    main()
