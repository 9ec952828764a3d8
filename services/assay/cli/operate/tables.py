"""What the platform is doing at one instant, as tables."""

from typing import Final

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from assay.cli.operate.snapshot import BATCHES_READ_MAX, Snapshot, slots_of
from assay.core.batches.record import BatchRecord

BATCHES_SHOWN_MAX: Final = 20
HOSTS_SHOWN_MAX: Final = 20
NS_PER_S: Final = 1_000_000_000


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
        slots = slots_of(snapshot.pools.get(depth.stage))
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
