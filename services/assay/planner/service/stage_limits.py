"""Limits of each stage from settings and pipelines: floors, caps, costs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, fsum, lgamma, log, log1p
from typing import Final

from assay.config.settings import PlannerSettings, WorkerSettings
from assay.core.ids import StageName
from assay.core.pipeline import StageSpec
from assay.model.starts import startup_at
from assay.planner.session.messages import Machine, PoolState, StageLimits

MEMORY_RISK: Final = 0.001
"""Chance that the slots of a machine need more memory at once than it has."""
SLOTS_MAX: Final = 4_096
"""Of one stage on one machine, by memory."""


def stage_limits(
    pools: Sequence[PoolState],
    order: Sequence[StageName],
    specs: Mapping[StageName, StageSpec],
    planner: PlannerSettings,
    worker: WorkerSettings,
    machine: Machine,
) -> tuple[StageLimits, ...]:
    """All stages that have a pool, in the order in which requests pass them. A stage whose pipeline
    is not installed here is left as it is."""
    there = {pool.stage: pool for pool in pools}
    found = [(specs[stage], there[stage]) for stage in order if stage in there and stage in specs]
    return tuple(
        as_found(
            limits_of_stage(
                spec,
                planner,
                worker,
                pool.machines or (machine,),
                is_asleep=pool.desired == 0,
                core_cost=pool.core_cost,
            ),
            pool,
            planner.startup_sigmas,
        )
        for spec, pool in found
    )


def as_found(limits: StageLimits, pool: PoolState, sigmas: float) -> StageLimits:
    """The settings' limits, less what its hosts cannot give, with the start-up time measured.

    A pool without a slot has most likely lost its machines too: its next slots are taken to start
    as slowly as those for which a machine had to be added.
    """
    most = limits.slots_max if pool.slots_max is None else min(limits.slots_max, pool.slots_max)
    startup_ns = limits.startup_ns
    if pool.startup_ns is not None:
        p50_ns, p90_ns = pool.startup.p50_ns, pool.startup_ns
        startup_ns = startup_at(p50_ns, p90_ns, sigmas)
    if pool.ready == 0 and pool.startup_cold_ns is not None:
        startup_ns = max(startup_ns, pool.startup_cold_ns)
    least = min(limits.slots_min, most)
    return replace(limits, slots_min=least, slots_max=most, startup_ns=startup_ns)


def limits_of_stage(
    spec: StageSpec,
    planner: PlannerSettings,
    worker: WorkerSettings,
    machines: Sequence[Machine],
    *,
    is_asleep: bool = False,
    core_cost: float | None = None,
) -> StageLimits:
    """One stage.

    Args:
        spec: the stage.
        planner: floors, caps and costs.
        worker: the host's start values.
        machines: those of the hosts that serve it.
        is_asleep: its pool has no slots: one `on_demand` may stay so.
        core_cost: of its hosts, in GPU-seconds per core-second; `None` = the planner's.
    """
    least = slots_min(spec, planner, worker, is_asleep=is_asleep)
    most = slots_max(spec, least, planner, worker, machines)
    core_cost = planner.core_cost if core_cost is None else core_cost
    cost = spec.resources.cpu_cores * core_cost + spec.resources.gpu
    startup_s = planner.startup_s_by_stage.get(spec.name, planner.startup_s)
    return StageLimits(
        stage=spec.name,
        timeout_ns=round(spec.timeout_s * 1e9),
        slots_min=min(least, most),
        slots_max=most,
        cost=cost,
        startup_ns=round(startup_s * 1e9),
        # Of a stage that gathers, a work is a group, which counts for its requests.
        batch_max=1 if spec.gathers else spec.batch_max,
        change_price_ns=round(planner.resize_price_s * 1e9),
        keep_price_ns=round(planner.keep_price_s * 1e9),
    )


def slots_min(
    spec: StageSpec, planner: PlannerSettings, worker: WorkerSettings, *, is_asleep: bool
) -> int:
    """Slots that stay warm: set for the stage, for all stages, or the host's start value."""
    if spec.name in planner.slots_min_by_stage:
        return planner.slots_min_by_stage[spec.name]
    if planner.slots_min is not None:
        return planner.slots_min
    return worker.slots_at_start(spec.name, on_demand=spec.on_demand and is_asleep)


def slots_max(
    spec: StageSpec,
    least: int,
    planner: PlannerSettings,
    worker: WorkerSettings,
    machines: Sequence[Machine],
) -> int:
    """The cap: set for the stage, for all stages, or the number that fits on the machines; no more
    than as many hosts allow."""
    if spec.name in planner.slots_max_by_stage:
        most = planner.slots_max_by_stage[spec.name]
    elif planner.slots_max is not None:
        most = planner.slots_max
    else:
        share = planner.memory_mean_share_by_stage.get(spec.name, 1.0)
        most = max(sum(_fitting(spec, machine, share) for machine in machines), least, 1)
    return min(most, worker.slots_max * len(machines))


def _fitting(spec: StageSpec, machine: Machine, share: float) -> int:
    """Slots of a stage that fit into one machine, which they do not share with other stages."""
    needs = spec.resources
    by_cores = machine.cores / needs.cpu_cores if needs.cpu_cores > 0 else 1e9
    by_memory = 1e9
    if needs.memory_bytes > 0:
        by_memory = slots_by_memory(machine.memory_bytes // needs.memory_bytes, share)
    return int(min(by_cores, by_memory))


def slots_by_memory(peaks: int, share: float) -> int:
    """Slots of which hardly ever more than `peaks` need all that a slot may use at once.

    Each uses `share` of that on average. Taken is the worst case, in which it uses all or nothing:
    all with the chance `share`, each for itself.
    """
    if share >= 1 or peaks == 0:
        return peaks
    few, many = peaks, SLOTS_MAX
    while few < many:
        middle = (few + many + 1) // 2
        if chance_beyond(peaks, middle, share) <= MEMORY_RISK:
            few = middle
        else:
            many = middle - 1
    return few


def chance_beyond(peaks: int, slots: int, share: float) -> float:
    """The chance that more than `peaks` of so many slots are at their peak (binomial)."""
    logs = (
        lgamma(slots + 1) - lgamma(k + 1) - lgamma(slots - k + 1)
        + k * log(share) + (slots - k) * log1p(-share)
        for k in range(min(peaks, slots) + 1)
    )  # fmt: skip
    return 1.0 - fsum(exp(one) for one in logs)
