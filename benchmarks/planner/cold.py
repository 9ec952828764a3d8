"""Cost of starting without history: python -m benchmarks.planner.cold [--seeds 5]

The first five iterations of one task, planned without any history and with that of five earlier
batches, on the same batches. Regret of an iteration: its cost without history minus its cost with
it, as a share of the latter. An iteration's cost is the cost of a run that ends after it minus that
of a run that ends before it. Simulated.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from assay.model.policy import Policy
from assay.planner.core.policy import Assay
from assay.sim.policies.distrs import Distrs
from assay.sim.policies.large_pools import LARGE_POOLS
from assay.sim.pools.result import Result
from assay.sim.pools.runner import Options
from assay.sim.pools.workload import Workload
from benchmarks.planner.common import CUDA, CUDA_STAGES, STRESSES, save_rows, simulate, stressed

ITERATIONS = 5
BASE = STRESSES[0]
MAKE: dict[str, Callable[[], Policy]] = {
    "assay": lambda: Assay(LARGE_POOLS),
    "distrs": Distrs,
}


def first(workload: Workload, iterations: int) -> Workload:
    """The same workload, truncated after some iterations."""
    return replace(workload, batches=tuple(task[:iterations] for task in workload.batches))


def run(workload: Workload, policy: str, seed: int) -> tuple[list[float], Result]:
    """Cost of each iteration, and the whole run."""
    runs = [
        simulate(first(workload, n), BASE.cluster(), MAKE[policy](), Options(seed=seed))
        for n in range(1, ITERATIONS + 1)
    ]
    totals = [0.0, *(result.cost for result in runs)]
    return list(np.diff(totals)), runs[-1]


def measure(policy: str, seed: int) -> list[dict[str, object]]:
    """One seed: one row per iteration."""
    warm = stressed([CUDA], CUDA_STAGES, BASE, iterations=ITERATIONS, seed=seed)
    cold = replace(warm, past=tuple(() for _ in warm.past))
    cold_costs, cold_run = run(cold, policy, seed)
    warm_costs, warm_run = run(warm, policy, seed)
    return [
        {
            "policy": policy,
            "seed": seed,
            "setting": iteration + 1,
            "cost_cold": round(cold_costs[iteration]),
            "cost_warm": round(warm_costs[iteration]),
            "regret": round(cold_costs[iteration] / warm_costs[iteration] - 1, 3),
            "d_cold_s": round(cold_run.delays_s[iteration], 2),
            "d_warm_s": round(warm_run.delays_s[iteration], 2),
        }
        for iteration in range(ITERATIONS)
    ]


def main() -> None:
    """Run and store the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(1, parser.parse_args().seeds + 1)
    rows: list[dict[str, object]] = []
    for policy in MAKE:
        for seed in seeds:
            found = measure(policy, seed)
            rows += found
            for row in found:
                print(*(f"{key}={value}" for key, value in row.items()), flush=True)
            save_rows("cold", rows)


if __name__ == "__main__":
    main()
