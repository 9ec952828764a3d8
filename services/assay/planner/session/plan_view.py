"""A plan in the platform's names, as `GetPlan` shows it and the store keeps it.

`pack_record` and `unpack_record` are what `Store.put_plan` keeps of a batch: a plan, and what the
pools really were since the one before it. A record of another release is skipped, not an error.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from assay.core.codec import CodecError, pack, unpack
from assay.core.ids import BatchId, StageName, TaskId, TenantId

RECORD_VERSION: Final = 1
BINS_KEPT_MAX: Final = 256
"""The plan's horizon, in bins."""

BatchKey = tuple[TenantId, BatchId]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage of a plan."""

    stage: StageName
    slots: int
    """From now on, including the floor."""
    slots_min: int
    slots_max: int
    slots_peak: int
    """Maximum over time."""
    slots_wanted: int
    """The same without the cap."""
    slots_by_bin: tuple[int, ...]
    busy_low: tuple[int, ...]
    busy_high: tuple[int, ...]
    bound_s: float
    """Slot-seconds of the remaining work (mean over the futures): no plan can hold fewer."""
    slots_bound: int
    """Lower bound on slots at once for any schedule that keeps the budgets in a typical future; 0 =
    not known."""
    planned_s: float
    cost: float
    startup_s: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """Effect of a plan on a batch."""

    tenant: TenantId
    task_id: TaskId
    batch_id: BatchId
    """Empty: announced by a hint."""
    delay_budget_s: float
    delay_s: float
    late_share: float
    size: int
    arrived: int
    ended: int
    deadline_ns: int
    at_risk: bool
    history: tuple[BatchId, ...]
    source: str
    outlived: int
    """Requests that have run longer at their stage than any of that history."""

    @property
    def key(self) -> BatchKey:
        """The store's name of the batch."""
        return self.tenant, self.batch_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """A plan as it is kept and shown: per stage over time, and per batch."""

    made_ns: int
    bin_ns: int
    stages: tuple[StageView, ...]
    batches: tuple[BatchView, ...]
    order: tuple[BatchId, ...]
    futures: int
    simulations: int
    planning_s: float
    reason: str
    gap: float
    """Planned cost over the bound's; 0 = not known."""
    cost: float
    """Cost of the planned slots, in GPU-seconds."""
    delay_cost: float
    """Cost of the trainers that are expected to wait, in GPU-seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSample:
    """A stage's pool at one instant."""

    at_ns: int
    stage: StageName
    planned: int
    desired: int
    ready: int
    busy: int
    queued: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """What is kept of a batch: a plan, and the samples since the previous one."""

    plan: PlanView
    samples: tuple[PoolSample, ...]


def of_batch(plan: PlanView, batch: BatchKey) -> PlanView:
    """The plan without its effect on other batches."""
    return replace(plan, batches=tuple(one for one in plan.batches if one.key == batch))


def pack_record(record: PlanRecord) -> bytes:
    """Compact: field values in order, without their names."""
    plan = record.plan
    return pack(
        (
            RECORD_VERSION,
            [getattr(plan, name) for name in _PLAN],
            [[getattr(stage, name) for name in _STAGE] for stage in plan.stages],
            [[getattr(batch, name) for name in _BATCH] for batch in plan.batches],
            [[getattr(sample, name) for name in _SAMPLE] for sample in record.samples],
        )
    )


def unpack_record(body: bytes) -> PlanRecord | None:
    """Undo `pack_record`; `None` if another release wrote it."""
    try:
        match unpack(body):
            case [1, list() as plan, list() as stages, list() as batches, list() as samples]:
                return PlanRecord(
                    plan=PlanView(
                        **_named(_PLAN, plan),
                        stages=tuple(StageView(**_named(_STAGE, one)) for one in stages),
                        batches=tuple(BatchView(**_named(_BATCH, one)) for one in batches),
                    ),
                    samples=tuple(PoolSample(**_named(_SAMPLE, one)) for one in samples),
                )
    except (CodecError, TypeError, ValueError):
        return None
    return None


def _named(names: tuple[str, ...], values: list[Any]) -> dict[str, Any]:
    pairs = zip(names, values, strict=True)
    return {k: tuple(v) if isinstance(v, list) else v for k, v in pairs}


_STAGE: Final = tuple(StageView.__dataclass_fields__)
_BATCH: Final = tuple(BatchView.__dataclass_fields__)
_SAMPLE: Final = tuple(PoolSample.__dataclass_fields__)
_PLAN: Final = tuple(
    name for name in PlanView.__dataclass_fields__ if name not in {"stages", "batches"}
)
