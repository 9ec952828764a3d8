"""Plots of results (matplotlib, from the extra `sim`). Does I/O, like `files`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from assay.sim.pools.result import Result


def plot_pools(results: Sequence[Result], stage: int, path: Path, *, title: str) -> None:
    """Held and running slots of one shared pool over time, one panel per policy."""
    figure, axes = plt.subplots(len(results), 1, figsize=(8, 2 * len(results)), sharex=True)
    for axis, result in zip(list(axes) if len(results) > 1 else [axes], results, strict=True):
        at = [sample.at_s for sample in result.samples]
        held = [sample.held[stage] for sample in result.samples]
        running = [sample.running[stage] for sample in result.samples]
        axis.fill_between(at, held, step="post", color="tab:orange", alpha=0.5, label="held")
        axis.fill_between(at, running, step="post", color="tab:blue", alpha=0.8, label="running")
        axis.set_ylabel(result.policy)
    axis.set_xlabel("seconds")
    figure.suptitle(title)
    figure.legend(*axis.get_legend_handles_labels(), loc="upper right")
    save(figure, path)


def plot_lines(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    path: Path,
    *,
    x: str,
    y: str,
    logarithmic: bool = False,
) -> None:
    """One line per name."""
    figure, axis = plt.subplots(figsize=(7, 4))
    for name, points in lines.items():
        axis.plot([p[0] for p in points], [p[1] for p in points], marker="o", label=name)
    if logarithmic:
        axis.set_xscale("log")
        axis.set_yscale("log")
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.legend()
    save(figure, path)


def plot_tradeoffs(mixes: Mapping[str, Sequence[tuple[str, float, float]]], path: Path) -> None:
    """Cost against p95 d of every setting of every policy, one panel per mix."""
    columns = min(3, len(mixes))
    rows = -(-len(mixes) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5 * columns, 3.5 * rows), squeeze=False)
    names = list(dict.fromkeys(name for found in mixes.values() for name, _, _ in found))
    for axis, (mix, found) in zip(axes.flat, mixes.items(), strict=False):
        for k, name in enumerate(names):
            mine = [(delay, cost) for policy, delay, cost in found if policy == name]
            axis.scatter(*zip(*mine, strict=True), label=name, color=f"C{k}", s=18)
        axis.set_xscale("symlog", linthresh=1.0)
        axis.set_yscale("log")
        axis.set_title(mix)
        axis.set_xlabel("p95 d (s)")
        axis.set_ylabel("cost")
    for axis in list(axes.flat)[len(mixes) :]:
        axis.remove()
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower right")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
