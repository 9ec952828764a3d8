"""A bench's result: figures with every sample kept, as JSON, a table and a plot."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from assay.rollout.bench.harness.machine import BenchMachine


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity: all repeats, never only the best."""

    name: str
    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """Minimum and maximum sample."""
        return min(self.samples), max(self.samples)


@dataclass(slots=True)
class Report:
    """What one command measured, on which machine, and how to repeat it."""

    title: str
    command: str
    machine: BenchMachine
    figures: list[Figure] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Requested measurements that could not be made here, with the reason."""
    is_live: bool = False
    """Each figure is printed to the error output as soon as it is there."""

    def add(self, name: str, unit: str, samples: list[float]) -> None:
        """Add a figure from its repeats; without samples it is an error."""
        if not samples:
            raise ValueError(f"{name}: nothing was measured")
        figure = Figure(name, unit, tuple(samples))
        self.figures.append(figure)
        if self.is_live:
            told = f"{name}: {figure.median:.6g} {unit}"
            Console(stderr=True).print(told, highlight=False, markup=False)

    def leave_out(self, what: str, why: str) -> None:
        """Record that a requested figure is missing, and why."""
        self.left_out[what] = why

    def as_dict(self) -> dict[str, object]:
        return {
            "title": self.title,
            "command": self.command,
            "machine": self.machine.as_dict(),
            "figures": [
                {
                    "name": f.name,
                    "unit": f.unit,
                    "median": f.median,
                    "min": f.spread[0],
                    "max": f.spread[1],
                    "samples": list(f.samples),
                }
                for f in self.figures
            ],
            "left_out": self.left_out,
        }

    def table(self) -> Table:
        """The report for a terminal."""
        table = Table(title=self.title, caption=str(self.machine), title_justify="left")
        for heading in ("figure", "median", "least", "greatest", "unit", "repeats"):
            justify = "right" if heading in {"median", "least", "greatest", "repeats"} else "left"
            table.add_column(heading, justify=justify)  # type: ignore[arg-type]  # a Literal
        for f in self.figures:
            low, high = f.spread
            numbers = [_short(x) for x in (f.median, low, high)]
            table.add_row(f.name, *numbers, f.unit, str(len(f.samples)))
        return table

    def plot(self, path: Path) -> None:
        """Bars with their spread, one panel per unit; log scale if the figures span decades."""
        import matplotlib as mpl

        mpl.use("Agg")
        mpl.rcParams["svg.fonttype"] = "none"  # text stays text: a third of the size
        from matplotlib import pyplot as plt

        units = list(dict.fromkeys(f.unit for f in self.figures))
        height = 1.2 + 0.32 * len(self.figures) + 0.6 * len(units)
        counts = [sum(f.unit == unit for f in self.figures) for unit in units]
        drawing, panels = plt.subplots(
            len(units),
            1,
            figsize=(9, height),
            squeeze=False,
            height_ratios=counts,
            layout="constrained",  # which leaves room for the title, unlike a tight one
        )
        for unit, panel in zip(units, panels[:, 0], strict=True):
            figures = [f for f in self.figures if f.unit == unit]
            medians = [f.median for f in figures]
            error = [
                [f.median - f.spread[0] for f in figures],
                [f.spread[1] - f.median for f in figures],
            ]
            panel.barh([f.name for f in figures], medians, xerr=error, capsize=3, color="#4477aa")
            panel.invert_yaxis()
            panel.set_xlabel(unit)
            if min(medians) > 0 and max(medians) / min(medians) > 100:
                panel.set_xscale("log")
        drawing.suptitle(self.title)
        drawing.savefig(path, dpi=130)
        plt.close(drawing)

    def deliver(self, json_path: Path | None, plot_path: Path | None) -> None:
        """Print the table; write the requested files."""
        console = Console()
        for what, why in self.left_out.items():
            console.print(f"left out: {what} ({why})", highlight=False)
        if not self.figures:
            console.print(f"{self.title}: nothing could be measured here")
            return
        console.print(self.table())
        for path, write in ((json_path, self._write_json), (plot_path, self.plot)):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path)
                console.print(f"[dim]{path}[/dim]")

    def _write_json(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_dict(), indent=2) + "\n")


def _short(x: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(x) >= limit:
            return f"{x / (1e3 if unit == 'k' else limit):.2f} {unit}"
    return f"{x:.4g}"
