"""The platform's resources: pools, start-up times of slots, and slot failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from assay.core.errors import InvalidRequest
from assay.model.arrays import SECOND_NS, Ints
from assay.model.policy import Sharing
from assay.sim.pools.workload import Workload

STARTUP_DRAWS: Final = 4096
"""Start-up delays drawn per pool; the k-th slot ordered takes draw k modulo this."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """Time from ordering a slot to its readiness: log-normal around a median."""

    median_s: float = 5.0
    sigma: float = 0.1

    def draw(self, random: np.random.Generator, count: int) -> Ints:
        """Start-up times of `count` slots in nanoseconds."""
        if not (np.isfinite(self.median_s) and self.median_s >= 0):
            raise InvalidRequest(f"median_s is {self.median_s}", field="startup.median_s")
        drawn = self.median_s * np.exp(self.sigma * random.normal(size=count))
        return np.rint(drawn * SECOND_NS).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often slots die, and how often a request is tried."""

    slot_deaths_per_s: float = 0.0
    """Hazard of a slot while it runs a request; the request is delivered again."""
    attempts_max: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Machines of one stage each, ordered when slots need them and released when empty."""

    slots: int = 16
    """That fit onto one."""
    startup_s: float = 90.0
    cap: int = 10_000
    """Most nodes of a pool."""
    cost: float = 0.0
    """Price of a node-second, besides that of the slots on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One entry per stage; the last entry of `startup` and `caps` also applies to later stages."""

    startup: tuple[StartUp, ...] = (StartUp(),)
    caps: tuple[int, ...] = (100_000,)
    """Maximum slots of a stage at once (of a pool, when pools are dedicated)."""
    faults: Faults = Faults()
    nodes: Nodes | None = None
    """`None`: a machine is free for every slot at any time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pools:
    """Which pool serves which task at which stage, with random start-up delays.

    Pools are numbered stage by stage, so a request only ever moves to a higher number.
    """

    stage_of: Ints
    """(pools,)"""
    pool_of: Ints
    """(tasks, stages)"""
    caps: Ints
    """(pools,)"""
    startup_ns: Ints
    """(pools, STARTUP_DRAWS)"""
    elastic: bool = False
    """Serverless: every request gets its own slot, which starts and ends with it."""


def lay_out(
    workload: Workload, cluster: Cluster, sharing: Sharing, seed: int, *, elastic: bool = False
) -> Pools:
    """One pool per stage, or one per stage and task."""
    tasks, stages = len(workload.tasks), len(workload.stages)
    per_stage = tasks if sharing == "dedicated" else 1
    stage_of = np.repeat(np.arange(stages), per_stage)
    pool_of = np.arange(stages)[None, :] * per_stage + np.arange(tasks)[:, None] % per_stage
    random = np.random.default_rng([seed, 1])
    startup = [pick(cluster.startup, int(j)).draw(random, STARTUP_DRAWS) for j in stage_of]
    return Pools(
        stage_of=stage_of.astype(np.int64),
        pool_of=pool_of.astype(np.int64),
        caps=np.array([pick(cluster.caps, int(j)) for j in stage_of], np.int64),
        startup_ns=np.stack(startup),
        elastic=elastic,
    )


def pick(values: Sequence[T], index: int) -> T:
    """The entry, or the last one."""
    return values[min(index, len(values) - 1)]


def draw_deaths(workload: Workload, faults: Faults, seed: int) -> Ints:
    """(requests, stages, attempts): nanoseconds of work after which the slot dies; -1 = never.

    Empty when no slot dies. Drawn per request, so that every policy gets the same failures.
    """
    requests = sum(len(b.arrived_ns) for task in workload.batches for b in task)
    if faults.slot_deaths_per_s <= 0:
        return np.full((0, len(workload.stages), faults.attempts_max), -1, np.int64)
    random = np.random.default_rng([seed, 2])
    shape = (requests, len(workload.stages), faults.attempts_max)
    after = random.exponential(1 / faults.slot_deaths_per_s, shape)
    whole: Ints = np.rint(np.minimum(after, 1e8) * SECOND_NS).astype(np.int64)
    return whole
