"""The platform at one instant, and the part of it that a viewer may see. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assay.console.viewer import Viewer
from assay.core.ids import StageName, TenantId
from assay.core.records import BatchRecord, StageDepth

NS_PER_S: Final = 1_000_000_000
OPERATOR_BATCHES_MAX: Final = 100
"""Open batches that the operator is shown, the earliest deadlines first."""
TENANT_BATCHES_MAX: Final = 50
COMPLETED_MAX: Final = 20
"""Completed batches that a viewer is shown, the newest first."""
HOSTS_SHOWN_MAX: Final = 100
"""Worker hosts that the operator is shown, those in trouble first."""
HOST_COUNTED: Final = "Counted"
"""State of a host whose slots are counted on."""
QUEUE_TENANTS_SHOWN_MAX: Final = 20
"""Tenants of a stage's queue that the operator is shown, the longest queues first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the plan expects of a batch."""

    tenant: TenantId
    batch_id: str
    delay_s: float
    delay_budget_s: float
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerLook:
    """What the planner says of itself, its plan and the pools."""

    state: str
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Of all tenants together: slots by stage over time; empty: nothing is planned."""
    pools: Sequence[Mapping[str, Any]] = ()
    conditions: Sequence[Mapping[str, str]] = ()
    outlooks: Sequence[Outlook] = ()
    hosts: Sequence[Mapping[str, Any]] = ()
    """Worker hosts, each with its state and its slots by stage."""
    hosts_all: int = 0
    """How many there are; the planner does not list all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One reading of the platform, for all who look at that time."""

    at_ns: int
    batches: Sequence[BatchRecord] = ()
    """Open ones, the earliest deadline first."""
    completed: Sequence[BatchRecord] = ()
    open_counts: Mapping[TenantId, int] = field(default_factory=dict)
    is_cut: bool = False
    """There are more open batches than were counted."""
    depths: Sequence[StageDepth] = ()
    queues: Mapping[StageName, Sequence[tuple[TenantId, int]]] = field(default_factory=dict)
    planner: PlannerLook | None = None


def shown(look: Look, viewer: Viewer) -> dict[str, Any]:
    """The part that a viewer may see, as JSON's values.

    A tenant sees its own batches and its own requests in the queues. Pools, the plan and the other
    queues are shared, so their state tells of other tenants: the operator's alone.
    """
    own, operator = viewer.tenant, viewer.tenant is None
    batches_max = OPERATOR_BATCHES_MAX if operator else TENANT_BATCHES_MAX
    batches = _of(look.batches, own)[:batches_max]
    completed = sorted(_of(look.completed, own), key=lambda one: -one.completed_ns)
    counts = look.open_counts
    outlooks = {
        (one.tenant, one.batch_id): one for one in (look.planner.outlooks if look.planner else ())
    }
    return {
        "at_ns": look.at_ns,
        "tenant": own or "",
        "operator": operator,
        "batches_open": sum(counts.values()) if own is None else counts.get(own, 0),
        "batches_cut": look.is_cut,
        "batches": [
            {**batch_json(one, look.at_ns), **_outlook(outlooks.get((one.tenant, one.batch_id)))}
            for one in batches
        ],
        "completed": [batch_json(one, look.at_ns) for one in completed[:COMPLETED_MAX]],
        "stages": _stages(look) if own is None else _own_stages(look, own),
        "tasks": missing_by_task([*batches, *completed[:COMPLETED_MAX]]),
        "planner": _planner(look.planner) if operator else None,
    }


def batch_json(batch: BatchRecord, at_ns: int) -> dict[str, Any]:
    """A batch, with its slack: seconds from now, or from its end, to the deadline."""
    return {
        "tenant": batch.tenant,
        "batch_id": batch.batch_id,
        "task_id": batch.task_id,
        "state": batch.state.value,
        "size": batch.size,
        "group_size": batch.group_size,
        "opened_ns": batch.opened_ns,
        "deadline_ns": batch.deadline_ns,
        "completed_ns": batch.completed_ns,
        "submitted": batch.submitted,
        "ended": batch.ended,
        "queued": batch.queued,
        "running": batch.running,
        "outcomes": {outcome.value: count for outcome, count in batch.outcomes.items()},
        "deadline_at_risk": batch.deadline_at_risk,
        "unjudged": {outcome.value: share for outcome, share in batch.unjudged.items()},
        "bias_avoided": batch.bias_avoided,
        "slack_s": (batch.deadline_ns - (batch.completed_ns or at_ns)) / NS_PER_S,
    }


def missing_by_task(batches: Iterable[BatchRecord]) -> list[dict[str, Any]]:
    """Per task, over these batches: samples that no judge saw, by cause, and how far zeros in their
    place would have moved the GRPO advantages of the grouped samples, on average."""
    by_task: dict[tuple[TenantId, str], list[BatchRecord]] = defaultdict(list)
    for batch in batches:
        by_task[batch.tenant, batch.task_id].append(batch)
    rows = []
    for (tenant, task_id), some in sorted(by_task.items()):
        causes: Counter[str] = Counter()
        for batch in some:
            causes.update({o.value: n for o, n in batch.outcomes.items() if not o.carries_reward})
        grouped = sum(batch.grouped for batch in some)
        shift = sum(batch.shift_micro for batch in some)
        rows.append(
            {
                "tenant": tenant,
                "task_id": task_id,
                "batches": len(some),
                "ended": sum(batch.ended for batch in some),
                "unjudged": dict(sorted(causes.items())),
                "bias_avoided": shift / 1e6 / grouped if grouped > 0 else 0.0,
            }
        )
    return rows


def _of(batches: Iterable[BatchRecord], tenant: TenantId | None) -> list[BatchRecord]:
    return [batch for batch in batches if tenant is None or batch.tenant == tenant]


def _outlook(outlook: Outlook | None) -> dict[str, Any]:
    if outlook is None:
        return {}
    return {
        "expected_delay_s": outlook.delay_s,
        "delay_budget_s": outlook.delay_budget_s,
        "late_share": outlook.late_share,
    }


def _stages(look: Look) -> list[dict[str, Any]]:
    pools = {} if look.planner is None else {one["stage"]: one for one in look.planner.pools}
    rows = []
    for depth in look.depths:
        queue = sorted(look.queues.get(depth.stage, ()), key=lambda one: -one[1])
        pool = pools.get(depth.stage)
        rows.append(
            {
                "stage": depth.stage,
                "queued": depth.queued,
                "running": depth.running,
                "oldest_age_s": depth.oldest_age_s,
                "dead_letters": depth.dead_letters,
                "tenants": [
                    {"tenant": tenant, "queued": queued}
                    for tenant, queued in queue[:QUEUE_TENANTS_SHOWN_MAX]
                ],
                "tenants_waiting": len(queue),
                "pool": pool,
            }
        )
    return rows


def _own_stages(look: Look, own: TenantId) -> list[dict[str, Any]]:
    return [
        {"stage": stage, "queued": queued}
        for stage, queue in look.queues.items()
        for tenant, queued in queue
        if tenant == own
    ]


def _planner(planner: PlannerLook | None) -> dict[str, Any] | None:
    if planner is None:
        return None
    return {
        "state": planner.state,
        "plan": dict(planner.plan),
        "conditions": [dict(one) for one in planner.conditions],
        "hosts": [
            dict(one)
            for one in sorted(
                planner.hosts, key=lambda one: (one["state"] == HOST_COUNTED, one["host"])
            )[:HOSTS_SHOWN_MAX]
        ],
        "hosts_all": planner.hosts_all,
    }
