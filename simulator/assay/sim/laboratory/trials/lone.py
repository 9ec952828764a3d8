"""Lone calls beside the batches of two tasks: how often pools turn, and what calls wait. Pure.

The shape of the live run (`benchmarks.planner.live`): a `code.cpp` and a `math` task with batches
that arrive over 40 s and 8 s between them, small pools whose slots start in a fifth of a second,
and lone calls of both pipelines, each a task whose batches have one request. The time between two
calls of a pipeline is drawn around a given mean. Durations are those of the live run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.config.planning import PlanSettings
from assay.core.errors import InvalidRequest
from assay.model.policy import Policy
from assay.planner.core.policy import Assay
from assay.sim.policies.rivals import Reaction
from assay.sim.pools.cluster import Cluster, StartUp
from assay.sim.pools.result import Result
from assay.sim.pools.runner import Options, simulate
from assay.sim.pools.workload import (
    ROLLOUT_QUANTILES,
    BatchLoad,
    Stage,
    StageLoad,
    TaskLoad,
    Workload,
    draw_workload,
    steady,
)

CORE_COST: Final = 0.025
STAGES: Final = (
    Stage(name="cpp.compile", cost=CORE_COST),
    Stage(name="cpp.run", cost=CORE_COST),
    Stage(name="extract", cost=CORE_COST / 4),
    Stage(name="math.verify", cost=CORE_COST),
)
SMALL: Final = Cluster(startup=(StartUp(median_s=0.2, sigma=0.4),), caps=(3,))
SPAN_S, HINT_S, GAP_S = 40.0, 4.0, 8.0
"""Of a batch: its arrivals, the time from its hint to the first, and from its end to the next."""
SPREAD: Final = 0.5
"""Of the times between lone calls: sigma of their logarithm."""
LONE_BUDGET_S: Final = 0.02
"""D of a lone call: the service's, 2 % of what the call takes."""
REACT_EVERY_S: Final = 1.0
POLICIES: Final = ("assay", "reaction")


def stage_load(stage: int, median_s: float, sigma: float, timeout_s: float) -> StageLoad:
    """A stage that neither hangs nor fails."""
    return StageLoad(
        stage=stage,
        median_s=steady(median_s),
        sigma=sigma,
        timeout_s=timeout_s,
        hang_share=steady(0.0),
        fail_share=steady(0.0),
    )


CPP: Final = TaskLoad(
    name="cpp",
    stages=(stage_load(0, 0.55, 0.3, 30.0), stage_load(1, 0.3, 0.5, 60.0)),
    batch_size=12,
    gap_s=GAP_S,
    trainer_gpus=8.0,
    delay_budget_s=2.0,
)
MATH: Final = replace(
    CPP,
    name="math",
    stages=(stage_load(2, 0.0025, 0.3, 5.0), stage_load(3, 0.001, 0.5, 30.0)),
    batch_size=200,
    starts_after_s=SPAN_S / 3,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneScore:
    """One policy on lone calls beside batches; means over the seeds."""

    policy: str
    gap_s: float
    """Mean time between two lone calls of a pipeline."""
    slot_seconds: float
    resizes_per_minute: tuple[float, ...]
    """By stage."""
    reversals_per_minute: tuple[float, ...]
    """By stage: changes up after one down, and down after one up."""
    wait_p50_s: float
    """Of lone calls of the `code.cpp` pipeline, over all seeds: their time beyond that of work."""
    wait_p95_s: float
    in_time: float
    """Share of the tasks' batches with d <= D."""


def alone(task: TaskLoad, *, gap_s: float, spread: float) -> TaskLoad:
    """Calls of one request each, of the task's pipeline."""
    return replace(
        task,
        name=f"lone {task.name}",
        batch_size=1,
        gap_s=gap_s * float(np.exp(-(spread**2) / 2)),  # the mean of a log-normal is `gap_s`
        gap_sigma=spread,
        starts_after_s=gap_s / (2 if task is CPP else 1),
        trainer_gpus=0.0,
        delay_budget_s=LONE_BUDGET_S,
    )


def draw_lone(
    *, gap_s: float, seed: int, batches: int = 6, spread: float = SPREAD, rest_s: float = 0.0
) -> Workload:
    """The workload: without history, as on a new installation.

    Args:
        gap_s: mean time between two lone calls of a pipeline.
        seed: the same seed gives the same workload.
        batches: of each task.
        spread: of those times.
        rest_s: for how long calls go on when the batches have ended.
    """
    if not gap_s > 0:
        raise InvalidRequest(f"gap_s is {gap_s}", field="gap_s")
    share, second = (np.array(column) for column in zip(*ROLLOUT_QUANTILES, strict=True))
    scale = SPAN_S / (second[-1] - second[0])
    curve = HINT_S + scale * (np.interp(np.linspace(0, 1, 256), share, second) - second[0])
    tasks = [CPP, MATH]
    lasts_s = MATH.starts_after_s + batches * (HINT_S + SPAN_S + GAP_S) + rest_s
    count = max(round(lasts_s / gap_s), 1)
    calls = [alone(task, gap_s=gap_s, spread=spread) for task in tasks]
    many = draw_workload(tasks, STAGES, iterations=batches, seed=seed, sources=(curve,), past=0)
    few = draw_workload(calls, STAGES, iterations=count, seed=1_000 + seed, past=0)
    at_once = tuple(tuple(at_opening(one) for one in task) for task in few.batches)
    return Workload(
        stages=STAGES,
        tasks=(*many.tasks, *few.tasks),
        batches=(*many.batches, *at_once),
        past=((),) * 4,
    )


def at_opening(call: BatchLoad) -> BatchLoad:
    """The call, with its request there from the start."""
    return replace(call, arrived_ns=np.ones_like(call.arrived_ns))


def policy_of(name: str, plans: PlanSettings) -> Policy:
    """A policy of this comparison."""
    return Assay(plans) if name == "assay" else Reaction(tick_s=REACT_EVERY_S)


def run_lone(
    gaps_s: Sequence[float],
    seeds: Sequence[int],
    plans: PlanSettings,
    *,
    policies: Sequence[str] = POLICIES,
    rest_s: float = 0.0,
) -> Iterator[LoneScore]:
    """Each policy with lone calls so far apart."""
    for gap_s in gaps_s:
        loads = [draw_lone(gap_s=gap_s, seed=seed, rest_s=rest_s) for seed in seeds]
        for name in policies:
            found = [
                simulate(load, SMALL, policy_of(name, plans), Options(seed=seed))
                for seed, load in zip(seeds, loads, strict=True)
            ]
            yield score(name, gap_s, found)


def score(policy: str, gap_s: float, found: Sequence[Result]) -> LoneScore:
    """Put the results of all seeds together."""
    waits = [b.extra_delay_s for one in found for b in one.batches if b.task == 2]
    batches = [b.in_time for one in found for b in one.batches if b.task < 2]
    minutes = np.array([one.duration_s for one in found])[:, None] / 60

    def per_minute(counts: Sequence[Sequence[int]]) -> tuple[float, ...]:
        return tuple(float(n) for n in (np.array(counts) / minutes).mean(axis=0))

    return LoneScore(
        policy=policy,
        gap_s=gap_s,
        slot_seconds=float(np.mean([sum(use.held_s for use in one.stages) for one in found])),
        resizes_per_minute=per_minute([one.resizes_by_pool for one in found]),
        reversals_per_minute=per_minute([one.reversals_by_pool for one in found]),
        wait_p50_s=float(np.quantile(waits, 0.5)),
        wait_p95_s=float(np.quantile(waits, 0.95)),
        in_time=float(np.mean(batches)),
    )
