"""Every policy against every stress: python -m benchmarks.planner.beyond [--part P]

single: one task under each stress. tenants: 1 to 12 tenants with different pipelines. stock: the
stock autoscalers with their utilisation target swept, to compare at equal p95 d.
"""

import argparse
from dataclasses import replace

from assay.sim.policies.autoscalers import Hpa, Keda, Kpa, RayServe, TickingPolicy
from assay.sim.pools.runner import Options
from assay.sim.pools.workload import TaskLoad, Workload, steady
from benchmarks.planner.common import (
    CUDA,
    CUDA_STAGES,
    POLICIES,
    STRESSES,
    Stage,
    StageLoad,
    ceiling,
    copies,
    row,
    save_rows,
    simulate,
    stressed,
)

JUDGE = 2
MIXED_STAGES = (*CUDA_STAGES, Stage(name="judge", cost=0.5))
MATH = TaskLoad(
    name="math",
    stages=(
        StageLoad(
            stage=0,
            median_s=steady(6.0),
            sigma=0.8,
            timeout_s=30.0,
            hang_share=steady(0.01),
            fail_share=steady(0.1),
        ),
        StageLoad(
            stage=JUDGE,
            median_s=steady(4.0),
            sigma=0.5,
            timeout_s=30.0,
            hang_share=steady(0.002),
            fail_share=steady(0.0),
        ),
    ),
    batch_size=1024,
    arrival_stretch=steady(0.5),
    gap_s=120.0,
    trainer_gpus=16.0,
)
CODE = TaskLoad(
    name="code",
    stages=(
        StageLoad(
            stage=0,
            median_s=steady(15.0),
            sigma=0.7,
            timeout_s=90.0,
            hang_share=steady(0.03),
            fail_share=steady(0.3),
        ),
    ),
    batch_size=2048,
    gap_s=200.0,
    trainer_gpus=32.0,
)


def tenants(count: int) -> list[TaskLoad]:
    """`count` staggered tasks, alternating between the three kinds."""
    kinds = (CUDA, MATH, CODE)
    return [
        replace(kinds[k % 3], name=f"{kinds[k % 3].name}-{k}", starts_after_s=70.0 * k)
        for k in range(count)
    ]


def run_single(iterations: int, seeds: int, policies: tuple[str, ...]) -> None:
    """One CUDA task."""
    rows: list[dict[str, object]] = []
    for stress in STRESSES:
        length = 5 if stress.name == "cold start" else iterations
        for seed in range(1, seeds + 1):
            workload = stressed([CUDA], CUDA_STAGES, stress, iterations=length, seed=seed)
            rows += run_all(workload, stress.name, seed, policies)
            save_rows("single", rows)


def run_all(
    workload: Workload, name: str, seed: int, policies: tuple[str, ...]
) -> list[dict[str, object]]:
    """Every policy on one workload."""
    stress = next((s for s in STRESSES if s.name == name), STRESSES[0])
    rows = []
    for policy in policies:
        result = simulate(
            workload, stress.cluster(), POLICIES[policy](workload), Options(seed=seed)
        )
        rows.append(row(result, stress=name, iterations=len(workload.batches[0])))
        print(name, seed, policy, rows[-1]["held_s"], rows[-1]["delay_p95_s"], flush=True)
    return rows


def run_tenants(iterations: int, seeds: int, policies: tuple[str, ...]) -> None:
    """Six equal tenants as in the paper, then 1 to 12 different ones."""
    rows: list[dict[str, object]] = []
    few = tuple(p for p in ("zero_queue", "kpa", "distrs", "ideal", "assay") if p in policies)
    for seed in range(1, seeds + 1):
        six = copies(CUDA, 6, stagger_s=130.0)
        workload = stressed(six, CUDA_STAGES, STRESSES[0], iterations=iterations, seed=seed)
        rows += run_all(workload, "6 equal tenants", seed, few)
        save_rows("tenants", rows)
        for count in (1, 3, 6, 12):
            workload = stressed(
                tenants(count), MIXED_STAGES, STRESSES[0], iterations=iterations, seed=seed
            )
            rows += run_all(workload, f"{count} mixed tenants", seed, few)
            save_rows("tenants", rows)


def run_stock(iterations: int, seeds: int, policies: tuple[str, ...]) -> None:
    """Sweep the parameter that an operator would tune first."""
    rows: list[dict[str, object]] = []
    for stress in (s for s in STRESSES if s.name in {"base", "start-up 30 s", "start-up 60 s"}):
        for seed in range(1, seeds + 1):
            workload = stressed([CUDA], CUDA_STAGES, stress, iterations=iterations, seed=seed)
            top = ceiling(workload)
            swept: list[tuple[float, TickingPolicy]] = [
                *((u, Kpa(top, utilisation=u)) for u in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
                *((u, Hpa(top, utilisation=u)) for u in (0.2, 0.35, 0.5, 0.65, 0.8)),
                *((u, RayServe(top, ongoing=u)) for u in (0.5, 1.0, 2.0)),
                *((u, Keda(top, items_per_slot=u)) for u in (0.2, 1.0, 5.0)),
            ]
            for setting, policy in swept if "kpa" in policies else []:
                result = simulate(workload, stress.cluster(), policy, Options(seed=seed))
                rows.append(row(result, stress=stress.name, setting=setting))
            rows += run_all(workload, stress.name, seed, ("assay",))
            save_rows("stock", rows)


def main() -> None:
    """Run and store the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("single", "tenants", "stock"))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    parts = {"single": run_single, "tenants": run_tenants, "stock": run_stock}
    for name, part in parts.items():
        if args.part in {None, name}:
            part(args.iterations, args.seeds, tuple(args.policies.split(",")))


if __name__ == "__main__":
    main()
