"""The workload: tasks, their batches, arrival times and durations of requests.

A `Workload` is a frozen value; two policies with the same workload get the same arrivals, the
same durations and the same failures (common random numbers). Durations are final: they are
cut at the stage's timeout, and a stage that is never reached has duration 0 (DistRS, section 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.model.arrays import SECOND_NS, Floats, Ints, to_ns

OUTCOMES: Final = tuple(Outcome)
"""Codes of the outcome arrays are indices into this."""
SCORED: Final = OUTCOMES.index(Outcome.SCORED)
RESOURCE_LIMIT: Final = OUTCOMES.index(Outcome.RESOURCE_LIMIT)

# Fitted to the quantiles of three RL steps of 2,048 rollouts each (PolyTrace search_r1), seconds
# after the start of the rollouts.
ROLLOUT_QUANTILES: Final = (
    (0.0, 8.0), (0.001, 35.0), (0.01, 61.0), (0.05, 138.0), (0.1, 175.0), (0.25, 217.0),
    (0.5, 259.0), (0.75, 310.0), (0.9, 348.0), (0.95, 365.0), (0.99, 389.0), (0.999, 413.0),
    (1.0, 440.0),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A value that changes linearly over the iterations."""

    first: float
    last: float

    def at(self, progress: float) -> float:
        """`progress` 0 = first iteration, 1 = last."""
        return self.first + (self.last - self.first) * progress


def steady(value: float) -> Drift:
    """A value that does not change."""
    return Drift(first=value, last=value)


NEVER: Final = steady(0.0)
UNSTRETCHED: Final = steady(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """Durations of one stage of a task's pipeline."""

    stage: int
    """Index into `Workload.stages`."""
    median_s: Drift
    sigma: float
    """Sigma of the log-normal distribution."""
    timeout_s: float
    hang_share: Drift
    """Share of requests that run until the timeout (an infinite loop)."""
    fail_share: Drift
    """Share of requests that end here without reaching the next stage."""
    tail: float = 1.0
    """Factor on the part of a duration above the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLoad:
    """One RL training job."""

    name: str
    stages: tuple[StageLoad, ...]
    batch_size: int = 2048
    skip_share: Drift = NEVER
    """Share of requests with nothing to score (generation failed): all durations are 0."""
    correlation: float = 0.5
    """Of the logarithms of a request's durations at different stages."""
    arrival_stretch: Drift = UNSTRETCHED
    """Factor on the time axis of the arrivals."""
    arrival_noise: float = 0.02
    """Relative standard deviation of that factor from iteration to iteration."""
    gap_s: float = 300.0
    """From the end of a batch to the start of the next rollouts (the training step)."""
    gap_sigma: float = 0.0
    """Of the logarithm of that time, from iteration to iteration."""
    starts_after_s: float = 0.0
    tenant: str = "default"
    """Tenants share the stages by weight (`core.ordering`)."""
    weight: float = 1.0
    trainer_gpus: float = 64.0
    delay_budget_s: float = 5.0
    barrier: bool = True
    """Its trainer waits for whole batches; else d is the largest over the requests of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A kind of slot."""

    name: str
    cost: float
    """C_j: cost of a slot-second in units of one trainer GPU-second."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchLoad:
    """The true course of one batch; times count from the start of its rollouts."""

    arrived_ns: Ints
    """(n,), ascending."""
    service_ns: Ints
    """(n, stages): time on a slot; 0 = the stage is not reached."""
    outcome: Ints
    """(n,) codes of `OUTCOMES`, without infrastructure failures."""
    gap_ns: int | None = None
    """From the end of the task's batch before to the start of its rollouts; `None` = the task's."""

    @property
    def natural_ns(self) -> int:
        """T by equations 1 and 2 of DistRS: the batch's end if nothing ever queues."""
        return int((self.arrived_ns + self.service_ns.sum(axis=1)).max())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """The whole workload; `batches[task][iteration]`."""

    stages: tuple[Stage, ...]
    tasks: tuple[TaskLoad, ...]
    batches: tuple[tuple[BatchLoad, ...], ...]
    past: tuple[tuple[BatchLoad, ...], ...]
    """`past[task]`: batches before the first, oldest first, for policies that look at history."""

    def gap_ns(self, task: int, batch: BatchLoad) -> int:
        """From the end of the task's batch before to the start of this one's rollouts."""
        return to_ns(self.tasks[task].gap_s) if batch.gap_ns is None else batch.gap_ns

    def timeouts_ns(self, task: int) -> Ints:
        """(stages,): 0 where the task's pipeline lacks the stage."""
        timeouts = np.zeros(len(self.stages), np.int64)
        for load in self.tasks[task].stages:
            timeouts[load.stage] = to_ns(load.timeout_s)
        return timeouts


def check_task(task: TaskLoad, stages: int) -> None:
    """Refuse an invalid task.

    Raises:
        InvalidRequest: with the field's path.
    """
    if task.batch_size < 1:
        raise InvalidRequest("a batch holds at least one request", field="batch_size")
    order = [load.stage for load in task.stages]
    if order != sorted(set(order)) or not order or order[-1] >= stages or order[0] < 0:
        raise InvalidRequest(f"stages {order} do not ascend within {stages}", field="stages")
    for index, load in enumerate(task.stages):
        for field in ("median_s", "hang_share", "fail_share"):
            drift: Drift = getattr(load, field)
            if not all(np.isfinite(x) and x >= 0 for x in (drift.first, drift.last)):
                raise InvalidRequest(f"{field} is {drift}", field=f"stages[{index}].{field}")


def draw_arrivals(
    random: np.random.Generator, count: int, sources: Sequence[Floats] = ()
) -> Floats:
    """Seconds after the start of the rollouts, ascending.

    Args:
        random: the random source.
        count: number of requests.
        sources: real arrival curves, one of which is drawn from with replacement and jittered by
            up to 2 s; without any, the fitted quantiles are used.
    """
    if sources:
        curve = sources[int(random.integers(len(sources)))]
        drawn = curve[random.integers(len(curve), size=count)] + random.uniform(-2, 2, count)
    else:
        share, second = zip(*ROLLOUT_QUANTILES, strict=True)
        drawn = np.interp(random.uniform(0, 1, count), share, second)
    return np.sort(np.maximum(drawn, 0.001))


def draw_batch(
    task: TaskLoad,
    stages: int,
    progress: float,
    random: np.random.Generator,
    sources: Sequence[Floats] = (),
) -> BatchLoad:
    """One batch of the task; `progress` in [0, 1] is the progress of training."""
    n = task.batch_size
    stretch = task.arrival_stretch.at(progress) * (1 + task.arrival_noise * random.normal())
    arrived = draw_arrivals(random, n, sources) * max(stretch, 0.05)
    service = np.zeros((n, stages), np.int64)
    outcome = np.full(n, SCORED, np.int64)
    going = random.uniform(size=n) >= task.skip_share.at(progress)
    shared = random.normal(size=n)
    for load in task.stages:
        own = random.normal(size=n)
        z = np.sqrt(task.correlation) * shared + np.sqrt(1 - task.correlation) * own
        median = load.median_s.at(progress)
        drawn = median * np.exp(load.sigma * z)
        drawn = median + (drawn - median) * np.where(drawn > median, load.tail, 1.0)
        drawn[random.uniform(size=n) < load.hang_share.at(progress)] = load.timeout_s
        late = drawn >= load.timeout_s
        held = np.maximum(np.minimum(drawn, load.timeout_s) * SECOND_NS, 1)
        service[:, load.stage] = np.where(going, held, 0)
        outcome[going & late] = RESOURCE_LIMIT
        going &= ~late & (random.uniform(size=n) >= load.fail_share.at(progress))
    gap_s = task.gap_s * np.exp(task.gap_sigma * random.normal())
    return BatchLoad(
        arrived_ns=np.rint(arrived * SECOND_NS).astype(np.int64),
        service_ns=service,
        outcome=outcome,
        gap_ns=to_ns(gap_s),
    )


def draw_workload(
    tasks: Sequence[TaskLoad],
    stages: Sequence[Stage],
    *,
    iterations: int,
    seed: int,
    sources: Sequence[Floats] = (),
    past: int = 5,
) -> Workload:
    """Draw every batch of every task, each from its own random stream.

    Args:
        tasks: the training jobs.
        stages: the kinds of slots; tasks name them by index.
        iterations: batches per task.
        seed: the same seed gives the same workload.
        sources: real arrival curves (seconds), see `draw_arrivals`.
        past: batches per task that finished before the simulation; 0 = a cold start.
    """
    for task in tasks:
        check_task(task, len(stages))

    def draw(number: int, iteration: int) -> BatchLoad:
        random = np.random.default_rng([seed, number, iteration + 1_000_000])
        progress = max(iteration, 0) / max(iterations - 1, 1)
        return draw_batch(tasks[number], len(stages), progress, random, sources)

    numbers = range(len(tasks))
    return Workload(
        stages=tuple(stages),
        tasks=tuple(tasks),
        batches=tuple(tuple(draw(k, i) for i in range(iterations)) for k in numbers),
        past=tuple(tuple(draw(k, i) for i in range(-past, 0)) for k in numbers),
    )


CPU_COST: Final = 0.1
"""A compile slot (4 cores) against one GPU: our assumption, DistRS gives no C_j."""
CUDA_STAGES: Final = (Stage(name="compile", cost=CPU_COST), Stage(name="execute", cost=1.0))

CUDA: Final = TaskLoad(
    name="cuda",
    stages=(
        StageLoad(
            stage=0,
            median_s=Drift(first=38.0, last=46.0),
            sigma=0.4,
            timeout_s=120.0,
            hang_share=Drift(first=0.02, last=0.012),
            fail_share=Drift(first=0.35, last=0.12),
        ),
        StageLoad(
            stage=1,
            median_s=Drift(first=1.4, last=1.8),
            sigma=0.8,
            timeout_s=60.0,
            hang_share=Drift(first=0.012, last=0.02),
            fail_share=Drift(first=0.3, last=0.2),
        ),
    ),
    skip_share=Drift(first=0.12, last=0.03),
)
"""Calibrated to the CUDA task of DistRS, section 3: about 50 s compile, a few seconds
execute, timeouts 120/60 s, 4-12e4 and 2-8e3 s per iteration, failures that fall over training."""


def copies(task: TaskLoad, count: int, *, stagger_s: float) -> tuple[TaskLoad, ...]:
    """`count` tasks like `task`, each starting `stagger_s` after the one before."""
    return tuple(
        replace(task, name=f"{task.name}-{k}", starts_after_s=k * stagger_s) for k in range(count)
    )
