"""What the platform is doing at one instant, as one value, a table, or JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay.core.records import BatchRecord, StageDepth

BATCHES_READ_MAX = 100
"""Open batches of a snapshot, the earliest deadlines; others cost nothing."""
BATCHES_SHOWN_MAX = 20
HOSTS_SHOWN_MAX = 20
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A stage's worker slots, over all worker hosts that answered."""

    stage: str
    slots_desired: int
    slots_ready: int
    slots_busy: int
    slots_max: int = 0
    """Most that may be asked for; 0 = not known."""
    starts_measured: int = 0
    startup_p50_s: float = 0.0
    startup_p90_s: float = 0.0
    core_cost: float = 0.0
    """Of its hosts, in GPU-seconds per core-second; 0 = as in the settings."""
    condition: str = ""
    """What is wrong with it; empty = nothing that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A worker host, as the planner sees it."""

    host: str
    state: str
    """`Counted`, or why its slots are not counted on."""
    cores: int
    pools: Sequence[Pool]


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
    hosts: Sequence[Host] = ()
    """The worker hosts that the planner lists; empty: none leads."""
    hosts_all: int = 0

    @property
    def is_calm(self) -> bool:
        """There is no work, and every slot that is wanted is ready."""
        at_work = any(depth.queued or depth.running for depth in self.depths)
        starting = any(pool.slots_ready < pool.slots_desired for pool in self.pools.values())
        return bool(self.pools) and not (self.batches or at_work or starting)

    def looks_like(self, other: "Snapshot") -> bool:
        """Whether it says the same, apart from the instant; work in progress never does."""
        then = replace(other, at_ns=self.at_ns, store_round_trip_s=self.store_round_trip_s)
        return self == then and not self.batches

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
            "hosts": [asdict(host) for host in self.hosts],
            "hosts_all": self.hosts_all,
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
    hosts = [_hosts(snapshot)] if snapshot.hosts_all > 1 else []
    return Group(head, _stages(snapshot), *hosts, _batches(snapshot))


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


def _hosts(snapshot: Snapshot) -> Table:
    """Those that are not counted on first: they are what one looks for."""
    table = Table(title=f"Worker hosts ({snapshot.hosts_all})", title_justify="left", expand=False)
    for column in ("host", "state", "cores", "slots ready/desired", "start-up"):
        table.add_column(column, justify="left" if column in {"host", "state"} else "right")
    in_order = sorted(snapshot.hosts, key=lambda one: (one.state == "Counted", one.host))
    for host in in_order[:HOSTS_SHOWN_MAX]:
        ready = sum(pool.slots_ready for pool in host.pools)
        desired = sum(pool.slots_desired for pool in host.pools)
        longest_s = max((pool.startup_p90_s for pool in host.pools), default=0.0)
        table.add_row(
            host.host,
            Text(host.state, style="" if host.state == "Counted" else "yellow"),
            f"{host.cores:,}" if host.cores else "",
            f"{ready:,}/{desired:,}",
            f"{longest_s:.2f} s" if longest_s else "",
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
