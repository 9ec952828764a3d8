"""What the platform is doing at one instant, as one value, a table, or JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay.core.records import BatchRecord, StageDepth

BATCHES_READ_MAX = 100
"""Open batches of a snapshot, the earliest deadlines; others cost nothing."""
BATCHES_SHOWN_MAX = 20
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A stage's worker slots, over all worker hosts that answered."""

    stage: str
    slots_desired: int
    slots_ready: int
    slots_busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Queues, workers, batches."""

    at_ns: int
    store_round_trip_s: float
    sandbox_mode: str
    depths: Sequence[StageDepth]
    pools: Mapping[str, Pool]
    batches: Sequence[BatchRecord]
    planner: str = ""
    """What it says of itself."""

    def as_json(self) -> dict[str, Any]:
        """Plain data; the same names as in the tables."""
        return {
            "at_ns": self.at_ns,
            "store_round_trip_s": self.store_round_trip_s,
            "sandbox_mode": self.sandbox_mode,
            "planner": self.planner,
            "stages": [
                {**asdict(depth), **_slots(self.pools.get(depth.stage))} for depth in self.depths
            ],
            "batches": [batch_json(batch) for batch in self.batches],
        }


def batch_json(batch: BatchRecord) -> dict[str, Any]:
    """A batch as plain data."""
    return {**asdict(batch), "unjudged": batch.unjudged, "bias_avoided": batch.bias_avoided}


def _slots(pool: Pool | None) -> dict[str, int]:
    return {
        "slots_desired": pool.slots_desired if pool else 0,
        "slots_ready": pool.slots_ready if pool else 0,
        "slots_busy": pool.slots_busy if pool else 0,
    }


def render(snapshot: Snapshot) -> RenderableType:
    """Two tables and a line on top."""
    head = Text.assemble(
        ("assay", "bold"),
        f"   store {snapshot.store_round_trip_s * 1e3:.1f} ms",
        f"   sandbox {snapshot.sandbox_mode or 'no worker host answers'}",
        f"   planner {snapshot.planner}" if snapshot.planner else "",
        style="default",
    )
    return Group(head, _stages(snapshot), _batches(snapshot))


def _stages(snapshot: Snapshot) -> Table:
    table = Table(title="Stages", title_justify="left", expand=False)
    for column in ("stage", "queued", "oldest", "running", "slots ready/desired", "dead letters"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for depth in snapshot.depths:
        slots = _slots(snapshot.pools.get(depth.stage))
        table.add_row(
            depth.stage,
            f"{depth.queued:,}",
            f"{depth.oldest_age_s:.1f} s" if depth.queued else "",
            f"{depth.running:,}",
            f"{slots['slots_ready']}/{slots['slots_desired']}",
            Text(f"{depth.dead_letters:,}", style="red" if depth.dead_letters else ""),
        )
    return table


def _batches(snapshot: Snapshot) -> Table:
    more = " or more" if len(snapshot.batches) >= BATCHES_READ_MAX else ""
    title = f"Batches ({len(snapshot.batches)}{more} not over, earliest deadline first)"
    table = Table(title=title, title_justify="left", expand=False)
    left = ("batch", "tenant", "task", "state", "progress")
    for column in (*left, "ended", "not judged", "bias avoided", "slack"):
        table.add_column(column, justify="left" if column in left else "right")
    for batch in snapshot.batches[:BATCHES_SHOWN_MAX]:
        total = batch.size or batch.submitted
        slack_s = (batch.deadline_ns - snapshot.at_ns) / NS_PER_S
        table.add_row(
            batch.batch_id,
            batch.tenant,
            batch.task_id,
            batch.state.lower(),
            ProgressBar(total=max(total, 1), completed=batch.ended, width=24),
            f"{batch.ended:,}/{total:,}",
            _unjudged(batch),
            f"{batch.bias_avoided:.3f}" if batch.bias_avoided else "",
            _slack(slack_s, at_risk=batch.deadline_at_risk),
        )
    return table


def _unjudged(batch: BatchRecord) -> Text:
    """Share of the ended requests without a reward, by cause."""
    causes = ", ".join(f"{cause} {share:.1%}" for cause, share in sorted(batch.unjudged.items()))
    return Text(causes, style="yellow")


def _slack(slack_s: float, *, at_risk: bool) -> Text:
    style = "red" if slack_s < 0 else "yellow" if at_risk else ""
    return Text(f"{slack_s:+.0f} s{' at risk' if at_risk else ''}", style=style)
