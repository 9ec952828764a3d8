"""Duration of planning and simulating: python -m benchmarks.planner.speed

`distrs`: Algorithm 2 + Algorithm 1 with the timeout rule. `assay`: a full plan (20 futures, search
of the peaks, shape, two peak factors) at the opening of a batch, and a second one with known
peaks; `error`: cost of its peaks beyond that of a plan of all requests, as a share, where it is
made from every k-th request only. CPU time of one core, best of five, after compilation.

`--batches N`: the requests are those of N open batches, of trainers of different sizes. `capped`:
half of the slots that the plan wants are there, so that it also looks for an order of the batches.
"""

import argparse
import json
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from assay.model.arrays import to_ns
from assay.model.observation import Cause, Observation, OpenBatch, PoolView, TaskView, past_batch
from assay.planner.core.plan import make_plan, plan_each
from assay.planner.core.shape import Plan
from assay.planner.core.thin import every_kth, size_of
from assay.planner.process.warm_up import warm_up_look, warm_up_work
from assay.planner.session.observe import observation_of
from assay.planner.session.progress import Progress
from assay.sim.policies.distrs import Distrs
from assay.sim.policies.large_pools import LARGE_POOLS
from assay.sim.pools.workload import StageLoad, TaskLoad, draw_workload, steady
from benchmarks.planner.common import (
    CUDA,
    CUDA_STAGES,
    OUT,
    POLICIES,
    STRESSES,
    Stage,
    copies,
    simulate,
    stressed,
)

EXACT_MAX = 70_000
"""Up to this many requests, all are planned one by one to compare."""
THREE_STAGES = (*CUDA_STAGES, Stage(name="judge", cost=0.5))
JUDGED = replace(
    CUDA,
    stages=(
        *CUDA.stages,
        StageLoad(
            stage=2,
            median_s=steady(3.0),
            sigma=0.5,
            timeout_s=30.0,
            hang_share=steady(0.005),
            fail_share=steady(0.0),
        ),
    ),
)


def opening(requests: int, stages: int) -> Observation:
    """The instant of a batch's first request."""
    task: TaskLoad = replace(JUDGED if stages == 3 else CUDA, batch_size=requests)
    workload = draw_workload([task], THREE_STAGES[:stages], iterations=1, seed=1, past=3)
    nothing = np.zeros(0, np.int64)
    batch = OpenBatch(
        number=0,
        opened_ns=0,
        deadline_ns=to_ns(600),
        size=requests,
        arrived=1,
        ended_natural_ns=to_ns(9),
        stage=nothing,
        elapsed_ns=nothing,
        natural_ns=nothing,
        sequence=nothing,
    )
    view = TaskView(
        pool_of=np.arange(stages),
        timeout_ns=workload.timeouts_ns(0),
        batch_size=requests,
        delay_budget_ns=to_ns(5),
        weight=1.0,
        trainer_cost=64.0,
        history=tuple(past_batch(b.arrived_ns, b.service_ns) for b in workload.past[0]),
        open=batch,
    )
    pools = tuple(
        PoolView(
            stage=j,
            target=0,
            idle=0,
            running=0,
            starting=0,
            waiting=0,
            cap=1_000_000,
            cost=THREE_STAGES[j].cost,
            startup_ns=to_ns(5),
        )
        for j in range(stages)
    )
    return Observation(now_ns=to_ns(9), cause=Cause.FIRST_REQUEST, pools=pools, tasks=(view,))


def several(seen: Observation, batches: int) -> Observation:
    """The same with so many tasks, each with a batch and a trainer of another size."""
    one = seen.tasks[0]
    tasks = tuple(replace(one, trainer_cost=8.0 * (1 + 3 * k % 7)) for k in range(batches))
    return replace(seen, tasks=tasks)


def halved(seen: Observation, plan: Plan) -> Observation:
    """The same with half of the slots that a plan wants."""
    pools = zip(seen.pools, plan.stages, strict=True)
    return replace(seen, pools=tuple(replace(pool, cap=max(1, s.wanted // 2)) for pool, s in pools))


def best_ms(call: Callable[[], object], times: int) -> float:
    """Minimum of `times` runs, after one that compiles."""
    call()
    took = []
    for _ in range(times):
        begin = time.process_time()
        call()
        took.append(time.process_time() - begin)
    return 1000 * min(took)


def peak_cost(plan: Plan, seen: Observation) -> float:
    """Cost per second of the plan's peaks."""
    return sum(pool.cost * s.wanted for pool, s in zip(seen.pools, plan.stages, strict=True))


def thinning_error(seen: Observation, plan: Plan) -> float | None:
    """Cost of the plan's peaks over that of a plan of every request, less 1; `None` = too large."""
    if every_kth(seen) == 1:
        return 0.0
    if size_of(seen.tasks[0], opened(seen)) > EXACT_MAX:
        return None
    exact = plan_each(seen, LARGE_POOLS, None, search=True)
    return peak_cost(plan, seen) / peak_cost(exact, seen) - 1


def opened(seen: Observation) -> OpenBatch:
    """The open batch of `opening`."""
    batch = seen.tasks[0].open
    if batch is None:
        raise ValueError("no batch is open")
    return batch


def observe_ms(requests: int) -> float:
    """Best CPU time from a snapshot with so many open requests to what a policy sees."""
    work = warm_up_work(warm_up_look(0).work[0].task, 0)
    batch = replace(work.batch, size=requests, submitted=requests, queued=requests // 2)
    batch = replace(batch, running=requests - batch.queued)
    open_now = tuple(
        replace(work.requests[k % 2], arrived_after_ns=1_000 * k) for k in range(requests)
    )
    full = replace(work, batch=batch, requests=open_now)
    progress, took = Progress(), []
    for second in range(1, 8):
        seen = replace(warm_up_look(0), now_ns=to_ns(second), work=(full,))
        begin = time.process_time()
        progress.see(seen.work, seen.now_ns)
        observation_of(seen, {}, None, progress)
        took.append(time.process_time() - begin)
    return 1000 * min(took)


def simulated_s(steps: int) -> float:
    """CPU time of simulating six tasks for so many steps."""
    tasks = copies(CUDA, 6, stagger_s=130.0)
    workload = stressed(tasks, CUDA_STAGES, STRESSES[0], iterations=steps, seed=1)
    begin = time.process_time()
    simulate(workload, STRESSES[0].cluster(), POLICIES["kpa"](workload))
    return time.process_time() - begin


def main() -> None:
    """Measure and store the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2048x2,16000x3,1000x3,4000x3,64000x3,256000x3")
    parser.add_argument("--batches", type=int, default=1, help="open, of the requests together")
    parser.add_argument("--errors", action="store_true", help="also plan every request (memory!)")
    parser.add_argument("--alone", action="store_true", help="without `distrs`, and its memory")
    parser.add_argument("--steps", type=int, default=50, help="of the simulation")
    args = parser.parse_args()
    print("observe 16,000 open requests:", round(observe_ms(16_000), 1), "ms")
    rows = []
    for size in filter(None, args.sizes.split(",")):
        requests, stages = (int(x) for x in size.split("x"))
        seen = several(opening(requests // args.batches, stages), args.batches)
        times = 5 if requests <= 20_000 else 1
        plan = make_plan(seen, LARGE_POOLS)
        peaks = [stage.wanted for stage in plan.stages]
        found = {
            "requests": requests,
            "stages": stages,
            "assay_ms": best_ms(partial(make_plan, seen, LARGE_POOLS), times),
            "assay_again_ms": best_ms(
                partial(make_plan, seen, LARGE_POOLS, peaks_hint=peaks, search=False), times
            ),
            "capped_ms": best_ms(partial(make_plan, halved(seen, plan), LARGE_POOLS), times),
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "error": thinning_error(seen, plan) if args.errors else None,
            "distrs_ms": None if args.alone else best_ms(partial(Distrs().decide, seen), times),
        }
        print(found, flush=True)
        rows.append(found)
    if args.alone:
        return
    simulated_s(1)  # compiles
    took = simulated_s(args.steps)
    print(f"simulate 6 x {args.steps} x 2048 x 2 under kpa:", round(took, 2), "s")
    OUT.mkdir(parents=True, exist_ok=True)
    out = {"machine": platform.processor() or platform.machine(), "rows": rows, "simulate_s": took}
    (OUT / "speed.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
