"""Draws demand, plan and actual by stage (matplotlib, from the extra `sim`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A stage at one instant."""

    at_s: float
    demand: int
    """Requests that run or wait."""
    planned: int
    actual: int
    """Slots that are ready."""
    busy: int


def plot_stages(points: Mapping[str, Sequence[Point]], path: Path, *, title: str) -> None:
    """Draw one panel per stage on one time axis."""
    figure = Figure(figsize=(9, 2.2 * len(points) + 0.8), layout="constrained")
    panels = figure.subplots(len(points), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (stage, series) in zip(panels, points.items(), strict=True):
        at = [point.at_s for point in series]
        demand = [point.demand for point in series]
        axes.fill_between(at, demand, step="post", color="0.85", label="demand (waits or runs)")
        axes.fill_between(
            at, [p.busy for p in series], step="post", color="#4878a8", alpha=0.6, label="busy"
        )
        axes.step(at, [p.actual for p in series], where="post", color="#d1495b", label="actual")
        axes.step(
            at, [p.planned for p in series], where="post", color="black", ls="--", label="plan"
        )
        top = max((max(p.planned, p.actual) for p in series), default=1)
        axes.set_ylim(0, max(2.2 * top, 2))
        axes.set_ylabel("slots")
        axes.set_title(stage, loc="left", fontsize=10)
    panels[-1].set_xlabel("seconds")
    panels[0].legend(loc="upper right", ncols=4, fontsize=8)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
