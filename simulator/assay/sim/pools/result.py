"""Result of a simulation: one frozen value, and its summary as plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from assay.core.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class StageUse:
    """Slot-seconds of one stage."""

    stage: str
    cost: float
    """Cost of a slot-second."""
    held_s: float
    """Allocated: starting, idle and running."""
    busy_s: float
    slots_started: int
    slots_lost: int

    @property
    def waste(self) -> float:
        """Allocated over busy; 1 is the minimum."""
        return self.held_s / self.busy_s if self.busy_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """How one batch ended, beside what it would have taken alone."""

    task: int
    iteration: int
    opened_s: float
    natural_s: float
    """T, after the opening."""
    extra_delay_s: float
    """d"""
    budget_s: float
    """D"""
    outcomes: Mapping[Outcome, int]

    @property
    def in_time(self) -> bool:
        """Whether the extra delay is within the budget: d <= D."""
        return self.extra_delay_s <= self.budget_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The pools at one instant."""

    at_s: float
    target: tuple[int, ...]
    held: tuple[int, ...]
    running: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a simulation."""

    policy: str
    seed: int
    duration_s: float
    stages: tuple[StageUse, ...]
    batches: tuple[BatchResult, ...]
    trainer_idle_gpu_s: float
    """Sum over batches of d times the GPUs of the trainer that waited."""
    decisions: int
    slots_peak: int = 0
    """Most slots held at once, over all pools; without those of an elastic policy."""
    resizes: int = 0
    """Changes of a pool's target."""
    resizes_by_pool: tuple[int, ...] = ()
    reversals_by_pool: tuple[int, ...] = ()
    """Changes of a pool's target up after one down, and down after one up."""
    node_s: float | None = None
    """Node-seconds from order to release; `None`: the cluster has no nodes to order."""
    nodes_ordered: int = 0
    samples: tuple[Sample, ...] = ()

    @property
    def delays_s(self) -> tuple[float, ...]:
        """d of every batch."""
        return tuple(batch.extra_delay_s for batch in self.batches)

    @property
    def delay_mean_s(self) -> float:
        """Mean extra delay."""
        return float(np.mean(self.delays_s)) if self.batches else 0.0

    @property
    def delay_p95_s(self) -> float:
        """95th percentile of the extra delay."""
        return float(np.quantile(self.delays_s, 0.95)) if self.batches else 0.0

    @property
    def delay_max_s(self) -> float:
        """Largest extra delay."""
        return max(self.delays_s, default=0.0)

    @property
    def in_time_share(self) -> float:
        """Share of batches with d <= D."""
        return float(np.mean([b.in_time for b in self.batches])) if self.batches else 1.0

    @property
    def slots_started(self) -> int:
        """Over all stages."""
        return sum(use.slots_started for use in self.stages)

    @property
    def resizes_per_minute(self) -> float:
        """Changes of a pool's target, over all pools."""
        return 60 * self.resizes / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def slot_cost(self) -> float:
        """Sum over stages of C_j times slot-seconds."""
        return sum(use.cost * use.held_s for use in self.stages)

    @property
    def cost(self) -> float:
        """Slots and the trainers that waited, in trainer GPU-seconds."""
        return self.slot_cost + self.trainer_idle_gpu_s

    def to_dict(self) -> dict[str, object]:
        """Plain data, including the derived figures."""
        derived = ("delay_mean_s", "delay_p95_s", "delay_max_s", "in_time_share", "cost")
        return asdict(self) | {name: getattr(self, name) for name in derived}
