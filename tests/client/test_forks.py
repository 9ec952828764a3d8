"""A client in forked processes, and in one event loop after another."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.stand_in import RIGHT, Judge
from tests.running import Running, RunWorker

from assay.client import Backoff, Client
from assay.client.http import AsyncHttpClient
from assay.core.errors import DependencyDown

ONCE = Backoff(total_s=0)
PROGRAM = Path(__file__).with_name("forked.py")
OPEN = "gRPC was connected in process"
EACH_ITS_OWN = {"parent": True, "a": True, "b": True, "c": True, "ended": [0, 0, 0]}


async def forked(kind: str, url: str) -> dict[str, Any]:
    """What the parent and each of its children got."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", PROGRAM, kind, url), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.parametrize("kind", ["http", "scorer", "grpc-closed"])
async def test_no_process_gets_what_another_asked_for(
    api: Running, run_worker: RunWorker, kind: str
) -> None:
    """They had one connection together: answers went to whichever process read first."""
    await run_worker(Judge(), stage="math.verify")
    url = api.addresses.grpc if kind == "grpc-closed" else api.addresses.http
    assert await forked(kind, url) == EACH_ITS_OWN


@pytest.mark.parametrize("kind", ["grpc", "scorer"])
async def test_grpc_that_was_connected_before_a_fork_is_an_error_there_and_no_crash(
    api: Running, run_worker: RunWorker, kind: str
) -> None:
    """gRPC itself would end such a process by a signal, or never answer."""
    await run_worker(Judge(), stage="math.verify")
    found = await forked(kind, api.addresses.grpc)
    assert found.pop("parent") is True
    assert found.pop("ended") == [0, 0, 0]
    assert [OPEN in told and "spawn" in told for told in found.values()] == [True] * 3


@pytest.mark.parametrize("kind", [Client, AsyncHttpClient])
def test_a_client_serves_one_event_loop_after_another(kind: Any) -> None:
    """As in a notebook, or a program that calls `asyncio.run` twice; made where none runs."""
    client = kind("127.0.0.1:9" if kind is Client else "http://127.0.0.1:9", backoff=ONCE)
    for _ in range(2):
        with pytest.raises(DependencyDown):
            asyncio.run(client.list_pipelines())


LOOPS = """
import asyncio, sys
from assay.client import Client, Request
from assay.client.http import AsyncHttpClient
request = Request(request_id="a", response=sys.argv[3], reference={"answers": ["5"]})
async def scored(client):
    return list((await client.score([request], pipeline="math", timeout_s=60)).rewards)
for client in (Client(sys.argv[1]), AsyncHttpClient(sys.argv[2])):
    print([asyncio.run(scored(client)) for _ in range(2)])
"""


async def test_connections_that_another_loop_left_are_not_used(
    api: Running, run_worker: RunWorker
) -> None:
    """They end with the process: nothing can close what belongs to a loop that is closed."""
    await run_worker(Judge(), stage="math.verify")
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-W",
            "ignore",
            "-c",
            LOOPS,
            api.addresses.grpc,
            api.addresses.http,
            RIGHT,
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert output.decode().splitlines() == ["[[1.0], [1.0]]"] * 2
