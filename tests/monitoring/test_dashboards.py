"""The dashboards: fresh, of metrics that exist, and every panel with data under a real load."""

import asyncio
import contextlib
import json
import math
import re
import shutil
import socket
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.boards import BOARDS, RATE, Board, Panel
from scripts.generate_dashboards import OUT, generate
from tests.e2e.commands import assay, platform_up
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


@asynccontextmanager
async def running_prometheus(folder: Path, target: str) -> AsyncIterator[str]:
    """A Prometheus that scrapes the target each second; its URL."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "assay", "static_configs": [{"targets": [target]}]}],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    log = (folder / "prometheus.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        "prometheus", f"--config.file={file}", f"--web.listen-address={address}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        stdout=asyncio.subprocess.DEVNULL, stderr=log,
    )  # fmt: skip
    log.close()
    url = f"http://{address}"
    try:
        while not await asyncio.to_thread(answers, f"{url}/-/ready"):
            assert process.returncode is None, (folder / "prometheus.log").read_text()
            await asyncio.sleep(0.1)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def answers(url: str) -> bool:
    """Whether it says that it is ready."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def asked(url: str, expression: str) -> list[float]:
    """The values of an instant query; NaN is no value."""
    query = urllib.parse.urlencode({"query": expression.replace(RATE, "5m")})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=30) as answer:
        found: Any = json.loads(answer.read())
    assert found["status"] == "success", found
    values = [float(one["value"][1]) for one in found["data"]["result"]]
    return [value for value in values if not math.isnan(value)]


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
        running_prometheus(tmp_path, addresses["http"].removeprefix("http://")) as url,
    ):
        left = ["not asked yet"]
        for turn in range(TURNS_MAX):
            await asyncio.to_thread(load, data, turn)
            await asyncio.sleep(3)  # some scrapes
            left = await asyncio.to_thread(empty, url)
            if not left:
                break
        assert left == []
        for rule in alerts().values():
            await asyncio.to_thread(asked, url, rule["expr"])
