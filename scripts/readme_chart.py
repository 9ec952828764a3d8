"""Draws the README's chart from the measured table of docs/planner.md: slot-seconds by stage.

    python scripts/readme_chart.py

The table is what `python -m benchmarks.planner.live` measures and prints; nothing is measured here.
"""

import re
from pathlib import Path

from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs" / "planner.md"
OUTPUT = ROOT / "docs" / "figures" / "slot_seconds.svg"
ROW = re.compile(
    r"^\| \**([\w.]+)\** \| \**([\d.,]+)\** \|.*?\| \**([\d.,]+)\** \| [\d.,]+ \|$", re.M
)


def slot_seconds(page: str) -> dict[str, tuple[float, float]]:
    """Return stage -> slot-seconds held with the planner and with static pools.

    Raises:
        ValueError: the page has no such table.
    """
    found = {
        stage: (float(planned.replace(",", "")), float(static.replace(",", "")))
        for stage, planned, static in ROW.findall(page)
    }
    if "all" not in found:
        raise ValueError(f"{SOURCE}: no table of slot-seconds with a row `all`")
    return found


def draw(rows: dict[str, tuple[float, float]], path: Path) -> None:
    """Draw two horizontal bars per stage."""
    stages = [stage for stage in rows if stage != "all"]
    planned_all, static_all = rows["all"]
    figure = Figure(figsize=(8, 0.62 * len(stages) + 1.3), layout="constrained")
    axes = figure.subplots()
    for at, stage in enumerate(stages):
        planned, static = rows[stage]
        axes.barh(at - 0.2, static, height=0.38, color="#c9c9c9", label="static pools")
        axes.barh(at + 0.2, planned, height=0.38, color="#2a6fb0", label="Assay's planner")
        axes.text(static + 6, at - 0.2, f"{static:,.0f}", va="center", fontsize=9)
        axes.text(planned + 6, at + 0.2, f"{planned:,.0f}", va="center", fontsize=9)
    axes.set_yticks(range(len(stages)), stages)
    axes.invert_yaxis()
    axes.set_xlabel("slot-seconds held (measured; every batch met its deadline with both)")
    times = static_all / planned_all
    axes.set_title(f"{times:.1f} times fewer slot-seconds than static pools", loc="left")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[:2], labels[:2], loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(slot_seconds(SOURCE.read_text(encoding="utf-8")), OUTPUT)
