"""What a demo has seen: its steps, and the platform's state over time; shown and drawn."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.cli.demo.tally import in_words
from assay.cli.plan.plot import Point
from assay.core.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from assay.cli.demo.loop import Step
    from assay.cli.demo.tally import Tally
    from assay.cli.operate.snapshot import Snapshot

PICTURES = (".png", ".svg")
RECENT = 10
"""Steps whose mean the live view shows."""


@dataclass(slots=True)
class DemoRecord:
    """A run so far."""

    steps_wanted: int
    k: int
    steps: list[Step] = field(default_factory=list)
    pools: dict[str, list[Point]] = field(default_factory=dict)
    held_out_before: float = 0.0
    held_out_after: float = 0.0
    planner: str = ""
    phase: str = ""
    tallies: dict[str, Tally] = field(default_factory=dict)
    """Responses that no judge saw, of training and of the held-out prompts."""

    def see(self, snapshot: Snapshot, at_s: float) -> None:
        """Add the state of the stages that were used."""
        self.planner = snapshot.planner
        for depth in snapshot.depths:
            pool = snapshot.pools.get(depth.stage)
            if pool is None or not (depth.queued or depth.running or depth.stage in self.pools):
                continue
            self.pools.setdefault(depth.stage, []).append(
                Point(
                    at_s=at_s,
                    demand=depth.queued + depth.running,
                    planned=pool.slots_desired,
                    actual=pool.slots_ready,
                    busy=pool.slots_busy,
                )
            )

    def summary(self) -> dict[str, Any]:
        """Figures of the whole run; plain data."""
        steps = self.steps
        return {
            "steps": [asdict(step) for step in steps],
            "held_out_before": self.held_out_before,
            "held_out_after": self.held_out_after,
            "gain": self.held_out_after - self.held_out_before,
            "degenerate_mean": _mean([s.degenerate for s in steps]),
            "staleness_mean": _mean([s.staleness for s in steps]),
            "unscored": sum(s.unscored for s in steps),
            "no_judge_saw": {name: one.summary() for name, one in self.tallies.items()},
            "late_steps": sum(s.late for s in steps),
            "step_s_median": float(np.median([s.took_s for s in steps])) if steps else 0.0,
            "push_s_median": float(np.median([s.push_s for s in steps])) if steps else 0.0,
            "pause_ms_max": 1e3 * max((s.pause_s for s in steps), default=0.0),
        }


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def render(record: DemoRecord) -> RenderableType:
    """The live view."""
    recent = record.steps[-RECENT:]
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("phase", f"{record.phase}   step {len(record.steps)} of {record.steps_wanted}")
    table.add_row("held-out reward before", f"{record.held_out_before:.2f}")
    if recent:
        table.add_row("reward", _bar(_mean([s.reward for s in recent])))
        table.add_row("degenerate groups", f"{_mean([s.degenerate for s in recent]):.0%}")
        table.add_row("staleness", f"{_mean([s.staleness for s in recent]):.1f} versions")
        table.add_row("clipped tokens", f"{_mean([s.clipped for s in recent]):.1%}")
        table.add_row(
            "push / pause", f"{1e3 * recent[-1].push_s:.0f} / {1e3 * recent[-1].pause_s:.2f} ms"
        )
        late = sum(s.late for s in record.steps)
        table.add_row("deadlines", f"{len(record.steps) - late} met, {late} missed")
    if any(one.causes for one in record.tallies.values()):
        table.add_row("unscored", in_words(record.tallies))
    table.add_row("planner", record.planner or "starting")
    return Group(table, _stages(record))


def _bar(share: float) -> Text:
    return Text.assemble(("█" * round(30 * share)).ljust(30, "░"), f" {share:.2f}")


def _stages(record: DemoRecord) -> Table:
    table = Table(title="Stages", title_justify="left")
    for column in ("stage", "waits or runs", "slots busy", "slots ready", "planned"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage, points in record.pools.items():
        last = points[-1]
        cells = (last.demand, last.busy, last.actual, last.planned)
        table.add_row(stage, *(str(cell) for cell in cells))
    return table


def check_plot(path: Path) -> None:
    """Refuse a path that `plot` could not write, before the run and not after it.

    Raises:
        InvalidRequest: its ending is not that of a picture, or its folder cannot be written to.
    """
    if path.suffix.lower() not in PICTURES:
        raise InvalidRequest(f"--plot: {path}: ends in one of {' '.join(PICTURES)}", field="--plot")
    folder = path.resolve().parent
    if path.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidRequest(f"--plot: cannot write {path} in {folder}", field="--plot")


def plot(record: DemoRecord, path: Path) -> None:
    """Reward per step, and the pools over time, as PNG or SVG (matplotlib)."""
    from matplotlib.figure import Figure

    stages = list(record.pools)
    figure = Figure(figsize=(9, 3 + 2 * len(stages)), layout="constrained")
    axes = figure.subplots(1 + len(stages), 1, squeeze=False)[:, 0]
    at = range(1, len(record.steps) + 1)
    axes[0].plot(at, [s.reward for s in record.steps], color="#4878a8", label="reward of a step")
    for value, name, style in (
        (record.held_out_before, "held out, before", ":"),
        (record.held_out_after, "held out, after", "--"),
    ):
        axes[0].axhline(value, color="black", ls=style, label=f"{name}: {value:.2f}")
    axes[0].set(ylim=(0, 1.02), xlabel="training step", ylabel="mean reward")
    axes[0].legend(loc="lower right")
    for axis, stage in zip(axes[1:], stages, strict=True):
        series = record.pools[stage]
        times = [p.at_s for p in series]
        axis.fill_between(times, [p.busy for p in series], step="post", alpha=0.6, label="busy")
        axis.step(times, [p.actual for p in series], where="post", color="#d1495b", label="ready")
        axis.step(
            times,
            [p.planned for p in series],
            where="post",
            color="black",
            ls="--",
            label="planned",
        )
        axis.set(ylim=(0, None), xlabel="seconds", ylabel=f"slots, {stage}")
        axis.legend(loc="upper right")
    figure.savefig(path, dpi=110)
