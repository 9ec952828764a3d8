"""Gap to the optimum: python -m benchmarks.planner.gap

small: cases of ten requests and two stages, solved exactly (OR-tools), against Algorithm 1 and the
certificate's bound. full: the slots that each policy held in whole runs, against the bound of
its batches (the work itself and one start-up for each slot that any schedule within T + D needs).
`--peaks N`: only this, for one task and seeds 1 to N: the fewest constant slots for who knows every
arrival and how durations are distributed, but no request's own, over those of `ideal`.
"""

import argparse

import numpy as np

from assay.model.arrays import Ints, to_ns
from assay.model.queueing import (
    Constraints,
    Demand,
    by_stage,
    constant_supply,
    make_scratch,
    serve_all,
)
from assay.planner.core.bounds import bound_slots
from assay.sim.laboratory.trials.mixes import draw, named_mixes
from assay.sim.policies.distrs import algorithm1
from assay.sim.pools.certificate import bound
from assay.sim.pools.runner import Options
from assay.sim.pools.workload import draw_batch
from benchmarks.planner.common import (
    CUDA,
    CUDA_STAGES,
    POLICIES,
    STRESSES,
    arrivals,
    row,
    save_rows,
    simulate,
    stressed,
)
from benchmarks.planner.optimum import least_cost

COST = (1, 10)
DRAWS = 60
"""Batches with the same arrivals and other durations."""
IN_TIME = 0.95
DEAR_SHARES = (1.0, 1.15, 1.3, 1.5)
"""Slots of the expensive stage that are tried, over what half of the draws need."""


def small_case(seed: int, requests: int) -> dict[str, object]:
    """One random case; times in seconds."""
    random = np.random.default_rng(seed)
    arrived = np.sort(random.integers(0, 60, requests))
    service = np.stack(
        [random.integers(10, 60, requests), random.integers(0, 12, requests)], axis=1
    )
    due = np.full(requests, int((arrived + service.sum(axis=1)).max()) + 5)
    demand = by_stage(
        Demand(
            release_ns=arrived,
            service_ns=service,
            key=np.arange(requests),
            running=np.full(requests, -1, np.int64),
        )
    )
    constraints = Constraints(
        finish_ns=due, timeout_ns=np.zeros(2, np.int64), timeouts=np.zeros(1, np.int64)
    )
    plan = algorithm1(demand, constraints, [float(c) for c in COST])
    optimum, _ = least_cost(arrived.tolist(), service.tolist(), due.tolist(), list(COST))
    least = sum(c * bound_slots(arrived, service, due, j) for j, c in enumerate(COST))
    cost = sum(c * int(n) for c, n in zip(COST, plan, strict=True))
    return {"seed": seed, "setting": "small", "bound": least, "optimum": optimum, "alg1": cost}


def full_case(seed: int, iterations: int) -> list[dict[str, object]]:
    """One task without stress: each policy's slot cost over the bound."""
    workload = stressed([CUDA], CUDA_STAGES, STRESSES[0], iterations=iterations, seed=seed)
    startup = [to_ns(5.0), to_ns(5.0)]
    bounds = [
        bound(
            b.arrived_ns,
            b.service_ns,
            np.full(len(b.arrived_ns), b.natural_ns + to_ns(5.0)),
            startup,
        )
        for b in workload.batches[0]
    ]
    cost = [stage.cost for stage in CUDA_STAGES]
    least = sum(c * found[j].slot_seconds for found in bounds for j, c in enumerate(cost))
    rows = []
    for policy in ("zero_queue", "kpa", "distrs", "ideal", "assay"):
        made = POLICIES[policy](workload)
        result = simulate(workload, STRESSES[0].cluster(), made, Options(seed=seed))
        held = [use.held_s for use in result.stages]
        sums = [sum(found[j].slot_seconds for found in bounds) for j in range(2)]
        gaps = [h / s for h, s in zip(held, sums, strict=True)]
        rows.append(row(result, setting="full", gap=round(result.slot_cost / least, 3), gaps=gaps))
        print(seed, policy, rows[-1]["gap"], [round(g, 2) for g in gaps], flush=True)
    print("bound of the first batch:", bounds[0])
    return rows


def with_limit(arrived_ns: Ints, service_ns: Ints, budget_ns: int) -> tuple[Demand, Constraints]:
    """A batch, and d <= D."""
    requests, stages = service_ns.shape
    demand = Demand(
        release_ns=arrived_ns,
        service_ns=service_ns,
        key=np.arange(requests),
        running=np.full(requests, -1, np.int64),
    )
    due_ns = int((arrived_ns + service_ns.sum(axis=1)).max()) + budget_ns
    limits = Constraints(
        finish_ns=np.full(requests, due_ns),
        timeout_ns=np.zeros(stages, np.int64),
        timeouts=np.zeros(1, np.int64),
    )
    return by_stage(demand), limits


def fewest_cheap(dear: int, draws: list[tuple[Demand, Constraints]]) -> int:
    """The fewest slots of the cheap stage with which `IN_TIME` of the draws are in time."""
    low, high = 1, max(len(demand.release_ns) for demand, _ in draws)
    scratch = make_scratch(high)
    while low < high:
        middle = (low + high) // 2
        supply = constant_supply(np.array([middle, dear]))
        kept = np.mean([serve_all(demand, supply, limits, scratch) for demand, limits in draws])
        low, high = (low, middle) if kept >= IN_TIME else (middle + 1, high)
    return low


def peaks_case(seed: int) -> tuple[int, int]:
    """The largest constant peak over the batches of `one task`: with durations known, and with
    only their distribution."""
    mix = named_mixes()["one task"]
    task, sources = mix.tasks[0], arrivals()
    costs = [stage.cost for stage in mix.stages]
    known, fair = [], []
    for nth, batch in enumerate(draw(mix, seed=seed, sources=sources).batches[0]):
        budget_ns, random = to_ns(task.delay_budget_s), np.random.default_rng([seed, nth])
        progress = nth / max(mix.iterations - 1, 1)
        others = [
            draw_batch(task, len(costs), progress, random, sources).service_ns for _ in range(DRAWS)
        ]
        draws = [with_limit(batch.arrived_ns, service, budget_ns) for service in others]
        truth = with_limit(batch.arrived_ns, batch.service_ns, budget_ns)
        known.append(int(algorithm1(*truth, costs).sum()))
        dear = float(np.median([algorithm1(*one, costs)[1] for one in draws]))
        tried = [int(np.ceil(share * dear)) for share in DEAR_SHARES]
        fair.append(min(n + fewest_cheap(n, draws) for n in tried))
    return max(known), max(fair)


def main() -> None:
    """Run and store the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--peaks", type=int, help="only the peaks, of so many seeds")
    args = parser.parse_args()
    if args.peaks:
        found = [peaks_case(seed) for seed in range(1, args.peaks + 1)]
        print("durations known, distribution known:", found)
        print("ratio of the means:", np.divide(*np.mean(found, axis=0)[::-1]))
        return
    small = [small_case(seed, 10) for seed in range(args.cases)]
    for name in ("bound", "alg1"):
        ratios = [float(str(c[name])) / float(str(c["optimum"])) for c in small]
        print(name, "over optimum: mean", np.mean(ratios), "worst", min(ratios), max(ratios))
    save_rows("gap", [*small, *full_case(1, args.iterations), *full_case(2, args.iterations)])


if __name__ == "__main__":
    main()
