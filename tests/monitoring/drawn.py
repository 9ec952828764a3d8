"""Boards as pictures, from the answers of the Prometheus of a test.

    BOARDS_FOLDER=FOLDER ./run test --all tests/monitoring

A file per board, with a chart per panel: what an operator sees, without a Grafana.
"""

import asyncio
import json
import os
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from scripts.boards import RATE, Board, Panel

FOLDER: Final = "BOARDS_FOLDER"
COLUMNS: Final = 3
STEP_S: Final = 1
WINDOW_S: Final = 120
LINES_MAX: Final = 8


def turns_min(turns: int) -> int:
    """How much load is needed: for pictures so many turns, for an answer one."""
    return turns if FOLDER in os.environ else 1


async def draw_where_wanted(url: str, boards: Iterable[Board]) -> None:
    """Each, if a folder for pictures is named."""
    folder = os.environ.get(FOLDER)
    if folder:
        for board in boards:
            await asyncio.to_thread(draw, url, board, Path(folder) / f"{board.uid}.png")


def draw(url: str, board: Board, file: Path) -> None:
    """All panels of a board over the last two minutes."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = -(-len(board.panels) // COLUMNS)
    figure, axes = plt.subplots(
        rows, COLUMNS, figsize=(5 * COLUMNS, 2.8 * rows), squeeze=False, layout="constrained"
    )
    figure.suptitle(board.title)
    for axis in axes.flat[len(board.panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, board.panels, strict=False):
        axis.set_title(f"{panel.title} ({panel.unit})", fontsize=9)
        axis.tick_params(labelsize=7)
        for legend, times, values in lines(url, panel)[:LINES_MAX]:
            axis.plot(times, values, label=legend, linewidth=1.2, marker=".", markersize=3)
        if axis.get_lines():
            axis.legend(fontsize=6, loc="upper left")
    figure.savefig(file, dpi=72)
    plt.close(figure)


def lines(url: str, panel: Panel) -> list[tuple[str, list[float], list[float]]]:
    """Legend, seconds before now, and values of each series, the largest first."""
    now_s = time.time()
    found = []
    for legend, expression in panel.series.items():
        for series in over_time(url, expression, now_s):
            shown = legend
            for name, value in series["metric"].items():
                shown = shown.replace("{{" + name + "}}", value)
            points = [(at - now_s, float(value)) for at, value in series["values"]]
            found.append((shown, [at for at, _ in points], [value for _, value in points]))
    return sorted(found, key=lambda one: -max(one[2]))


def over_time(url: str, expression: str, now_s: float) -> list[dict[str, Any]]:
    """The series of a range query that ends now."""
    query = urllib.parse.urlencode(
        {
            "query": expression.replace(RATE, "10s"), "start": now_s - WINDOW_S, "end": now_s,
            "step": STEP_S,
        }
    )  # fmt: skip
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{query}", timeout=30) as answer:
        body: Any = json.loads(answer.read())
    assert body["status"] == "success", body
    result: list[dict[str, Any]] = body["data"]["result"]
    return result
