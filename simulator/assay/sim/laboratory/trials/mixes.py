"""Mixes of tasks to compare policies on: those with a name, and new ones drawn from a seed.

Drawn mixes vary what no policy was tuned on: kinds of tasks, stages, sizes, arrival curves,
durations, start-up times, failures, caps, and how misleading the history is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.model.arrays import Floats, Ints
from assay.sim.pools.cluster import Cluster, Faults, Nodes, StartUp
from assay.sim.pools.workload import (
    CUDA,
    CUDA_STAGES,
    BatchLoad,
    Drift,
    Stage,
    StageLoad,
    TaskLoad,
    Workload,
    copies,
    draw_workload,
    steady,
)

PAST: Final = 5
"""Batches of a task that finished before the simulation."""
UNCAPPED: Final = 100_000
DRAWN_STAGES: Final = (
    Stage(name="extract", cost=0.02),
    Stage(name="compile", cost=0.1),
    Stage(name="execute", cost=1.0),
    Stage(name="judge", cost=0.5),
)
STANDARD: Final = Cluster()
TASKS_MAX: Final = 6
"""Tasks of a drawn mix."""
STARTUPS_S: Final = (2.0, 5.0, 15.0, 30.0, 60.0, 120.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mix:
    """Tasks, the platform that serves them, and what their history looks like."""

    name: str
    tasks: tuple[TaskLoad, ...]
    stages: tuple[Stage, ...] = CUDA_STAGES
    cluster: Cluster = STANDARD
    iterations: int = 4
    history_scale: float = 1.0
    """Durations in the history over those to come; 1 = the history does not mislead."""
    curves: tuple[tuple[Floats, ...], ...] = ()
    """Arrival curves by task; empty = the real ones, or the fitted quantiles."""


def misleading(batch: BatchLoad, factor: float, timeouts_ns: Ints) -> BatchLoad:
    """The batch with every duration times `factor`, those of hanging requests included."""
    longer = np.rint(batch.service_ns * factor).astype(np.int64)
    least = (batch.service_ns > 0).astype(np.int64)
    service = np.clip(longer, least, np.maximum(timeouts_ns, least))
    return replace(batch, service_ns=service)


def hanging(task: TaskLoad, share: float) -> TaskLoad:
    """The task with this share of requests that run until the timeout, at every stage."""
    stages = tuple(replace(load, hang_share=steady(share)) for load in task.stages)
    return replace(task, stages=stages)


def draw(mix: Mix, *, seed: int, sources: Sequence[Floats] = ()) -> Workload:
    """The workload of a mix; `sources` are the real arrival curves."""
    parts = []
    for k, task in enumerate(mix.tasks):
        curves = mix.curves[k] if mix.curves else tuple(sources)
        load = draw_workload(
            [task],
            mix.stages,
            iterations=mix.iterations,
            seed=1000 * seed + k,
            sources=curves,
            past=0,
        )
        calm = draw_workload(
            [task], mix.stages, iterations=1, seed=1000 * seed + k, sources=curves, past=PAST
        )
        limits = load.timeouts_ns(0)
        past = tuple(misleading(b, mix.history_scale, limits) for b in calm.past[0])
        parts.append((load.batches[0], past))
    return Workload(
        stages=mix.stages,
        tasks=mix.tasks,
        batches=tuple(batches for batches, _ in parts),
        past=tuple(past for _, past in parts),
    )


def start_up(median_s: float) -> Cluster:
    """Slots that need about this long to start."""
    return Cluster(startup=(StartUp(median_s=median_s),))


FOUR_DURATIONS: Final = ((0, 1.0, 10.0), (1, 25.0, 90.0), (2, 3.0, 60.0), (3, 5.0, 40.0))
"""Stage, median and timeout in seconds."""
FOUR: Final = TaskLoad(
    name="four",
    stages=tuple(
        StageLoad(
            stage=stage,
            median_s=steady(median_s),
            sigma=0.6,
            timeout_s=timeout_s,
            hang_share=steady(0.01),
            fail_share=steady(0.15),
        )
        for stage, median_s, timeout_s in FOUR_DURATIONS
    ),
)
TRICKLE: Final = replace(
    CUDA, name="trickle", batch_size=512, arrival_stretch=steady(8.5), gap_s=120.0
)
SMALL: Final = replace(CUDA, name="small", batch_size=256, trainer_gpus=8.0)


def trainers_of(
    trainer_gpus: Sequence[float], *, gpus_max: int, stagger_s: float, tenants: int = 1
) -> Mix:
    """CUDA tasks of trainers of these sizes, on fewer GPUs than all of them need at once."""
    tasks = copies(CUDA, len(trainer_gpus), stagger_s=stagger_s)
    return Mix(
        name=f"{gpus_max} GPUs, {len(tasks)} trainers"
        + (f" of {tenants} tenants" if tenants > 1 else ""),
        tasks=tuple(
            replace(task, trainer_gpus=size, tenant=f"tenant-{k % tenants}")
            for k, (task, size) in enumerate(zip(tasks, trainer_gpus, strict=True))
        ),
        cluster=Cluster(caps=(UNCAPPED, gpus_max)),
        iterations=2,
    )


def capped_mixes() -> tuple[Mix, ...]:
    """Fewer GPUs than open batches need, trainers of several sizes: the order of batches counts.

    Between tenants it does not: their shares are equal.
    """
    three, six = (8.0, 16.0, 64.0), (8.0, 64.0, 16.0, 8.0, 64.0, 16.0)
    return (
        trainers_of(three, gpus_max=26, stagger_s=30.0),
        trainers_of(six, gpus_max=40, stagger_s=60.0),
        trainers_of(six, gpus_max=60, stagger_s=60.0),
        trainers_of(six, gpus_max=40, stagger_s=60.0, tenants=2),
    )


def named_mixes() -> dict[str, Mix]:
    """The mixes of the tables, by name."""
    six, twenty = copies(CUDA, 6, stagger_s=130.0), copies(SMALL, 20, stagger_s=45.0)
    gpus = Cluster(caps=(UNCAPPED, 26))
    mixes = [
        Mix(name="one task", tasks=(CUDA,)),
        *(
            Mix(name=f"start-up {s:.0f} s", tasks=(CUDA,), cluster=start_up(s))
            for s in (30.0, 60.0, 90.0, 120.0)
        ),
        Mix(name="nodes, one task", tasks=(CUDA,), cluster=Cluster(nodes=Nodes())),
        Mix(name="nodes, six tenants", tasks=six, cluster=Cluster(nodes=Nodes()), iterations=3),
        Mix(name="six tenants", tasks=six, iterations=3),
        Mix(name="four stages", tasks=(FOUR,), stages=DRAWN_STAGES),
        Mix(name="history 0.2x", tasks=(CUDA,), history_scale=0.2),
        Mix(name="history 3x", tasks=(CUDA,), history_scale=3.0),
        Mix(name="trickle", tasks=(TRICKLE,), iterations=2),
        Mix(
            name="dying slots",
            tasks=(CUDA,),
            cluster=Cluster(faults=Faults(slot_deaths_per_s=0.05 / 400)),
        ),
        Mix(
            name="both kinds",
            tasks=(SMALL, replace(SMALL, name="stream", barrier=False, starts_after_s=60.0)),
        ),
        Mix(name="twenty tenants", tasks=twenty, iterations=2),
        Mix(name="26 GPUs", tasks=six[:3], cluster=gpus, iterations=2),
        *capped_mixes(),
        *(
            Mix(name=f"hangs {100 * share:g} %", tasks=(hanging(CUDA, share),))
            for share in (0.0, 0.002, 0.004, 0.012, 0.02)
        ),
    ]
    return {mix.name: mix for mix in mixes}


def draw_curve(random: np.random.Generator) -> Floats:
    """An arrival curve, in seconds after the start of the rollouts."""
    kind = random.choice(["burst", "waves", "ramp", "even", "tail"])
    count, span = 2_048, float(np.exp(random.uniform(np.log(60.0), np.log(900.0))))
    late = float(random.uniform(0.0, 0.5))
    if kind == "burst":
        drawn = random.uniform(0.0, 0.1, count)
    elif kind == "waves":
        waves = int(random.integers(2, 6))
        drawn = (random.integers(waves, size=count) + random.uniform(0, 0.3, count)) / waves
    elif kind == "ramp":
        drawn = np.sqrt(random.uniform(0.0, 1.0, count))
    elif kind == "tail":
        drawn = np.minimum(random.exponential(0.2, count), 1.0)
    else:
        drawn = random.uniform(0.0, 1.0, count)
    return np.sort(span * (late + (1 - late) * drawn))


def draw_task(random: np.random.Generator, number: int) -> TaskLoad:
    """A task of random kind."""
    chosen = np.flatnonzero(random.random(len(DRAWN_STAGES)) < 0.6)
    if len(chosen) == 0:
        chosen = random.integers(len(DRAWN_STAGES), size=1)
    stages = []
    for stage in chosen:
        median = float(np.exp(random.uniform(np.log(0.5), np.log(60.0))))
        load = StageLoad(
            stage=int(stage),
            median_s=Drift(first=median, last=median * float(random.uniform(0.7, 1.4))),
            sigma=float(random.uniform(0.2, 1.1)),
            timeout_s=median * float(random.uniform(2.5, 8.0)),
            hang_share=steady(float(random.choice([0.0, 0.002, 0.01, 0.03]))),
            fail_share=steady(float(random.uniform(0.0, 0.4))),
            tail=float(random.choice([1.0, 1.0, 2.0])),
        )
        stages.append(load)
    return TaskLoad(
        name=f"drawn-{number}",
        stages=tuple(stages),
        batch_size=int(np.exp(random.uniform(np.log(64), np.log(2_048)))),
        skip_share=steady(float(random.uniform(0.0, 0.2))),
        arrival_noise=float(random.uniform(0.0, 0.1)),
        gap_s=float(random.uniform(20.0, 300.0)),
        starts_after_s=float(random.uniform(0.0, 300.0)),
        trainer_gpus=float(random.choice([8.0, 16.0, 64.0])),
        tenant=f"tenant-{int(random.integers(3))}",
    )


def draw_mix(seed: int) -> Mix:
    """A mix that follows from the seed alone."""
    random = np.random.default_rng([20_261_123, seed])
    count = int(random.integers(1, TASKS_MAX + 1))
    tasks = tuple(draw_task(random, k) for k in range(count))
    deaths = float(random.choice([0.0, 0.0, 0.0, 1e-4]))
    return Mix(
        name=f"drawn {seed}",
        tasks=tasks,
        stages=DRAWN_STAGES,
        iterations=3,
        cluster=Cluster(
            startup=tuple(
                StartUp(median_s=float(random.choice(STARTUPS_S)), sigma=0.2) for _ in DRAWN_STAGES
            ),
            faults=Faults(slot_deaths_per_s=deaths),
        ),
        history_scale=float(random.choice([1.0, 1.0, 1.0, 0.3, 2.5])),
        curves=tuple((draw_curve(random),) for _ in tasks),
    )
