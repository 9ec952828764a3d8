"""Plots of a report (matplotlib, from the extra `sim`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_COLOURS = plt.get_cmap("tab10")


def _draw_panel(axis: Axes, record: Mapping[str, Any], until: float) -> None:
    slots = record["slots"]
    for slot, start, end, version, _, ended in record["generations"]:
        axis.broken_barh(
            [(start, end - start)],
            (slots - slot, 0.9),
            facecolors=_COLOURS(version % 10),
            alpha=1.0 if ended else 0.5,
        )
    for start, end in record["pauses"]:
        axis.axvspan(start, end, color="tab:red", alpha=0.25)
    lane = -0.08 * slots - 0.2
    for start, end, *_ in record["steps"]:
        axis.broken_barh([(start, end - start)], (lane, 0.06 * slots + 0.3), facecolors="0.3")
    used = record["figures"]
    axis.set_title(
        f"{record['name']}: slots {used['rollout_utilisation']:.0%}, "
        f"trainer {used['trainer_utilisation']:.0%}",
        fontsize=9,
        loc="left",
    )
    axis.set_xlim(0, until)
    axis.set_yticks([])


def plot_section(section: Mapping[str, Any], path: Path) -> None:
    """The panels of a section below each other."""
    panels: Sequence[Mapping[str, Any]] = section["panels"]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(10, 1.5 * len(panels)), sharex=True, squeeze=False
    )
    for (axis,), record in zip(axes, panels, strict=True):
        _draw_panel(axis, record, section["until"])
    axes[-1][0].set_xlabel(f"{section['unit']} (simulated; colour: version of the weights)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def plot_sweep(sweep: Mapping[str, Any], path: Path) -> None:
    """Tokens per GPU and staleness against one input."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2))
    for series in sweep["series"]:
        left.plot(sweep["values"], series["tokens_per_gpu"], marker="o", label=series["name"])
        right.plot(sweep["values"], series["staleness_mean"], marker="o")
    left.set_ylabel("tokens trained on per GPU and second (simulated)")
    right.set_ylabel("mean staleness (versions)")
    for axis in (left, right):
        axis.set_xlabel(sweep["label"], fontsize=8)
        axis.set_ylim(bottom=0)
    left.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def plot(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write every plot as PNG and SVG; return the files."""
    written = []
    for ending in ("png", "svg"):
        for name, section in zip(("panels", "architectures"), report["sections"], strict=True):
            written.append(folder / f"{name}.{ending}")
            plot_section(section, written[-1])
        for name, sweep in zip(("skew", "push", "slots"), report["sweeps"], strict=True):
            written.append(folder / f"sweep-{name}.{ending}")
            plot_sweep(sweep, written[-1])
    return written
