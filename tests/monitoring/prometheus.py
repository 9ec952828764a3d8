"""A real Prometheus (Debian's) for tests of what it is asked."""

import asyncio
import contextlib
import json
import math
import os
import shutil
import socket
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.boards import RATE


def program(name: str) -> str:
    """Where it is. Without it the test is skipped; in continuous integration it fails, as `./run`
    installs it there."""
    found = shutil.which(name)
    if found is None:
        missing = f"{name} is not installed: apt-get install prometheus"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return found


@asynccontextmanager
async def running_prometheus(
    folder: Path, target: str, *, rules: Path | None = None, features: str = ""
) -> AsyncIterator[str]:
    """A Prometheus that scrapes the target and evaluates the rules each second; its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [] if rules is None else [str(rules)],
        "scrape_configs": [{"job_name": "assay", "static_configs": [{"targets": [target]}]}],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    log = (folder / "prometheus.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        program("prometheus"), f"--config.file={file}", f"--web.listen-address={address}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        *([f"--enable-feature={features}"] if features else []),
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


def exemplars(url: str, expression: str) -> list[dict[str, Any]]:
    """The exemplars of the last hour."""
    now_s = time.time()
    query = urllib.parse.urlencode({"query": expression, "start": now_s - 3_600, "end": now_s + 60})
    with urllib.request.urlopen(f"{url}/api/v1/query_exemplars?{query}", timeout=30) as answer:
        found: Any = json.loads(answer.read())
    assert found["status"] == "success", found
    return [one for series in found["data"] for one in series["exemplars"]]


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
