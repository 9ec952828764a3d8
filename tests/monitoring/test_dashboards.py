"""The dashboards: fresh, of metrics that exist, and every panel with data under a real load."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.boards import BOARDS, Board, Panel
from scripts.generate_dashboards import OUT, generate
from tests.e2e.commands import assay, platform_up
from tests.monitoring.drawn import draw_where_wanted, turns_min
from tests.monitoring.prometheus import asked, running_prometheus
from tests.monitoring.test_alerts import RULES, alerts

from assay.edge.metrics import Metrics

ROWS = 120
TURNS_MAX = 8


def expressions() -> Iterator[tuple[Board, Panel, str]]:
    for board in BOARDS:
        for panel in board.panels:
            for expression in panel.series.values():
                yield board, panel, expression


def test_what_is_generated_is_fresh(tmp_path: Path) -> None:
    generate(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in OUT.iterdir()}
    for found in tmp_path.iterdir():
        assert found.read_text() == (OUT / found.name).read_text(), (
            "python -m scripts.generate_dashboards"
        )


def test_boards_and_alerts_ask_for_metrics_and_labels_that_exist() -> None:
    known: dict[str, set[str]] = {}
    for metric in vars(Metrics()).values():
        if name := getattr(metric, "_name", ""):
            known[name] = set(metric._labelnames) | {"le"}
    texts = [e for _, _, e in expressions()] + [rule["expr"] for rule in alerts().values()]
    for text in texts:
        labels = set()
        for name, matchers in re.findall(r"(assay_\w+)(?:\{([^}]*)\})?", text):
            base = re.sub(r"_(bucket|count|sum|total)$", "", name)
            assert base in known, name
            labels |= known[base]
            assert set(re.findall(r"(\w+)[=!]", matchers)) <= known[base], text
        for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
            assert {one.strip() for one in grouped.split(",") if one} <= labels, text


def rows(folder: Path) -> dict[str, Path]:
    """Files of responses, right and wrong ones."""
    answers = [
        {"request_id": f"m{n}", "response": f"\\boxed{{{n % 3}}}", "reference": {"answers": ["1"]}}
        for n in range(ROWS)
    ]
    tests = {"tests": [{"stdin": "2", "stdout": "4"}]}
    code = [
        {"request_id": f"c{n}", "response": f"print(int(input()) * {n % 3})", "reference": tests}
        for n in range(ROWS // 8)
    ]
    files = {}
    for pipeline, found in (("math", answers), ("code.python", code)):
        files[pipeline] = folder / f"{pipeline}.jsonl"
        files[pipeline].write_text("\n".join(map(json.dumps, found)))
    return files


def load(folder: Path, turn: int) -> None:
    """A batch of each pipeline, on the platform that runs."""
    for pipeline, file in rows(folder).items():
        out = folder / f"{pipeline}-{turn}.out"
        done = assay("score", file, "--pipeline", pipeline, "--out", out, "--data-dir", folder,
                     data_dir=folder)  # fmt: skip
        assert done.returncode == 0, done.stderr


def empty(url: str) -> list[str]:
    """Panels without data that should have some; every expression is run."""
    missing = []
    for board, panel, expression in expressions():
        values = asked(url, expression)
        if not values and not panel.rare and not board.of_rollouts:
            missing.append(f"{board.title}: {panel.title}: {expression}")
    return missing


async def test_every_panel_has_data_under_a_real_load(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with (
        platform_up(data) as addresses,
        running_prometheus(tmp_path, addresses["http"].removeprefix("http://"), rules=RULES) as url,
    ):
        left = ["not asked yet"]
        for turn in range(TURNS_MAX):
            await asyncio.to_thread(load, data, turn)
            await asyncio.sleep(3)  # some scrapes
            left = await asyncio.to_thread(empty, url)
            if not left and turn + 1 >= turns_min(TURNS_MAX):
                break
        await draw_where_wanted(url, [board for board in BOARDS if not board.of_rollouts])
        assert left == []
        for rule in alerts().values():
            await asyncio.to_thread(asked, url, rule["expr"])
