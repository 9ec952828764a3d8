"""Output of all benchmarks: the machine, a table, `--json`, a plot.

A figure is the median of repeats, with its spread; the machine is printed with it.
"""

import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).resolve().parents[1] / "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine that figures were measured on."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str


def machine() -> Machine:
    """Describe this machine."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith(("model name", "CPU implementer"))
        ),
        platform.machine(),
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        cpu=cpu,
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(pages / 1024**3, 1),
        kernel=platform.release(),
        python=platform.python_version(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, minimum and maximum of the repeats."""

    median: float
    least: float
    most: float
    repeats: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarise repeats (at least one)."""
        return cls(
            median=statistics.median(values),
            least=min(values),
            most=max(values),
            repeats=len(values),
        )

    def __str__(self) -> str:
        return f"{self.median:,.4g} ({self.least:,.4g}-{self.most:,.4g})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie; nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(slots=True, kw_only=True)
class Report:
    """A table that can be printed as JSON."""

    title: str
    columns: Sequence[str]
    rows: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, **row: object) -> None:
        """Add a row; its keys are the columns."""
        self.rows.append(row)

    def show(self, *, as_json: bool) -> None:
        """Print as a table or as JSON."""
        if as_json:
            body = {"title": self.title, "machine": asdict(machine()), "rows": self.rows}
            print(json.dumps(body, indent=2, default=_plain))
            return
        host = machine()
        caption = f"{host.cpu}, {host.cores} cores, {host.memory_gib} GiB, Linux {host.kernel}"
        table = Table(*self.columns, title=self.title, caption=caption)
        for row in self.rows:
            table.add_row(*(_cell(row.get(column, "")) for column in self.columns))
        Console(width=140 if not sys.stdout.isatty() else None).print(table)


def _cell(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _plain(value: object) -> object:
    return asdict(value) if isinstance(value, Spread) else str(value)


def bar_plot(path: Path, title: str, unit: str, bars: Mapping[str, float | Spread]) -> Path:
    """Draw horizontal bars (median, whiskers from minimum to maximum) to a PNG or SVG."""
    from matplotlib.figure import Figure  # slow to import, needed only here

    spreads = {k: v if isinstance(v, Spread) else Spread.of([v]) for k, v in bars.items()}
    medians = [s.median for s in spreads.values()]
    whiskers = [
        [s.median - s.least for s in spreads.values()],
        [s.most - s.median for s in spreads.values()],
    ]
    figure = Figure(figsize=(8, 0.6 * len(spreads) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.barh(list(spreads), medians, xerr=whiskers, color="#4878a8", capsize=3)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_title(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
