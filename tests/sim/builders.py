"""Small workloads for the tests of the simulator and the planner."""

from dataclasses import replace

from assay.sim.pools.workload import CUDA, CUDA_STAGES, TaskLoad, Workload, copies, draw_workload

SMALL: TaskLoad = replace(CUDA, batch_size=150, gap_s=60.0)


def small_workload(
    tasks: int = 1, iterations: int = 2, seed: int = 0, past: int = 3, **changes: object
) -> Workload:
    changed = replace(SMALL, **changes)  # type: ignore[arg-type] # test data
    made = copies(changed, tasks, stagger_s=70.0)
    return draw_workload(made, CUDA_STAGES, iterations=iterations, seed=seed, past=past)
