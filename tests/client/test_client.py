"""The client against a real service: batches, errors, lost connections, restarts, TLS."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import ssl
import time
from typing import TYPE_CHECKING

import pytest
from tests import certificates

from assay.client import Backoff, Batch, BatchStatus, Client, Outcome, Request, SyncClient
from assay.client.ledger import Ledger
from assay.client.types import Component
from assay.core.errors import (
    Conflict,
    DeadlinePassed,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    Saturated,
    Unauthenticated,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.running import RunApi, Running, RunWorker, StartProcess

ONCE = Backoff(total_s=0)
WAIT_S = 60.0


def _requests(count: int, first: int = 0) -> list[Request]:
    return [
        Request(request_id=f"r{i}", group_id=f"g{i // 4}", response=f"answer {i}", reference={})
        for i in range(first, first + count)
    ]


@pytest.fixture
async def client(api: Running) -> AsyncIterator[Client]:
    """A client that gives up at once."""
    async with Client(api.addresses.grpc, backoff=ONCE) as client:
        yield client


async def test_a_batch_as_a_trainer_uses_it(client: Client, run_worker: RunWorker) -> None:
    await run_worker()
    task = await client.register_task("task", pipeline="noop", batch_size=8)
    assert task.created
    assert task.settings["reward_pass"] == 1.0
    await client.hint(task, size=8)
    due_ns = time.time_ns() // 1_000 * 1_000 + 10**12
    batch = await client.open_batch(task, size=8, group_size=4, deadline_ns=due_ns)
    assert (await batch.status()).deadline_ns == due_ns
    assert (await batch.submit(_requests(5))).accepted == 5
    submitted = await batch.submit(_requests(8))
    assert (submitted.accepted, submitted.duplicates) == (3, 5)
    results = {result.request_id: result async for result in batch.results()}
    assert set(results) == {f"r{i}" for i in range(8)}
    assert all(r.outcome is Outcome.SCORED and r.reward == 1.0 for r in results.values())
    assert results["r0"].resource_use.cpu_s == 0.25
    assert results["r0"].components == (Component(name="style", value=0.5, weight=2.0),)
    assert (results["r0"].pipeline_version, results["r0"].rescorable) == ("v1", True)
    assert results["r0"].stages[0].stage == "noop"
    groups = {str(group.group_id): group async for group in batch.groups()}
    assert set(groups) == {"g0", "g1"}
    assert groups["g0"].degenerate
    status = await batch.status()
    assert (status.over, status.ended, status.outcomes[Outcome.SCORED]) == (True, 8, 8)
    assert (status.unjudged, status.bias_avoided) == ({}, 0.0)


async def test_a_message_that_costs_too_much_to_read_is_sent_in_parts(client: Client) -> None:
    """Each schema is checked where it is read; so many together are over a message's budget."""
    requests = [
        Request(
            request_id=f"r{at}",
            group_id="g",
            response="{}",
            reference={"schema": {"properties": {f"{at}.{n}": {} for n in range(20)}}},
        )
        for at in range(100)
    ]
    await client.register_task("schemas", pipeline="json_schema")
    batch = await client.open_batch("schemas")
    assert (await batch.submit(requests)).accepted == 100


async def test_a_batch_is_taken_up_by_its_name(client: Client, run_worker: RunWorker) -> None:
    await run_worker()
    await client.register_task("task", pipeline="noop")
    opened = await client.open_batch("task", batch_id="step-1")
    await opened.submit(_requests(3))
    again = client.batch("step-1")
    assert (await again.seal()).submitted == 3
    assert (await again.collect()).rewards == [1.0, 1.0, 1.0]


async def test_a_batch_without_a_name_gets_one_before_it_is_sent(api: Running) -> None:
    """So that an OpenBatch whose answer was lost is sent again for the same batch."""
    async with Client(api.addresses.grpc, backoff=ONCE, new_id=lambda: "mine") as client:
        await client.register_task("task", pipeline="noop")
        assert (await client.open_batch("task")).batch_id == "mine"


async def test_a_stream_of_pages_goes_on_from_a_cursor(
    client: Client, run_worker: RunWorker
) -> None:
    await run_worker()
    await client.register_task("task", pipeline="noop")
    batch = await client.open_batch("task", size=600)
    await batch.submit(_requests(600))
    pages = [page async for page in batch.pages()]
    assert len(pages) > 1
    rest = [page async for page in batch.pages(cursor=pages[0].cursor)]
    seen = [r.request_id for page in (pages[0], *rest) for r in page.results]
    assert sorted(seen) == sorted(f"r{i}" for i in range(600))


async def test_score(client: Client, run_worker: RunWorker) -> None:
    await run_worker()
    scores = await client.score(_requests(6), pipeline="noop", settings={"reward_pass": 1.0})
    assert scores.rewards == [1.0] * 6
    assert [result.request_id for result in scores.results] == [f"r{i}" for i in range(6)]


async def test_a_score_that_takes_too_long(client: Client) -> None:
    with pytest.raises(DeadlinePassed):
        await client.score(_requests(1), pipeline="noop", timeout_s=0.2)


async def test_pipelines_are_listed(client: Client) -> None:
    pipelines = {pipeline.name: pipeline for pipeline in await client.list_pipelines()}
    assert "answers" in pipelines["exact"].reference_schema["properties"]


async def test_errors_are_those_of_the_server(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.register_task("task", pipeline="telepathy")
    await client.register_task("task", pipeline="noop")
    with pytest.raises(Conflict):
        await client.register_task("task", pipeline="noop", batch_size=3)
    with pytest.raises(NotFound):
        await client.open_batch("none")
    batch = await client.open_batch("task")
    bad = [*_requests(3), Request(request_id="r9", response="", reference={"no": 1})]
    with pytest.raises(InvalidRequest) as caught:
        await batch.submit(bad)
    assert caught.value.field == "requests[3].reference.no"
    await batch.seal()
    with pytest.raises(FailedPrecondition):
        await batch.submit(_requests(1))


async def test_a_bad_request_far_behind_is_named_by_its_place(client: Client) -> None:
    await client.register_task("task", pipeline="noop")
    batch = await client.open_batch("task")
    bad = [*_requests(700), Request(request_id="bad", response="", reference={"no": 1})]
    with pytest.raises(InvalidRequest) as caught:
        await batch.submit(bad)
    assert caught.value.field == "requests[700].reference.no"
    assert (await batch.submit(_requests(700))).duplicates == 512


async def test_what_a_message_cannot_hold_is_named_before_it_is_sent() -> None:
    async with Client("127.0.0.1:1", backoff=ONCE) as client:
        for call, field in (
            (client.register_task("task", pipeline="noop", batch_size=1 << 40), "task.batch_size"),
            (client.hint("task", size=1 << 40), "size"),
            (client.open_batch("task", deadline_s=float("inf")), "deadline_s"),
        ):
            with pytest.raises(InvalidRequest) as caught:
                await call
            assert caught.value.field == field


async def test_a_submission_while_results_are_read_is_not_taken_for_a_loss(
    client: Client, run_worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is acknowledged while the batch's status, which does not count it, is on its way."""
    await run_worker()
    batch = await client.open_batch(await client.register_task("task", pipeline="noop"))
    batch._ledger = Ledger(bytes_max=0)
    await batch.submit(_requests(1))
    status = batch.status

    async def overtaken() -> BatchStatus:
        found = await status()
        monkeypatch.undo()
        await batch.submit(_requests(1, first=1))
        await batch.seal()
        return found

    monkeypatch.setattr(batch, "status", overtaken)
    async with asyncio.timeout(WAIT_S):
        assert (await batch.collect()).rewards == [1.0, 1.0]


async def test_an_address_that_is_none_is_said() -> None:
    for url in ("http://127.0.0.1:8471", "grpc://", "ftp://x", "x:99999", "x:port", "[::1"):
        with pytest.raises(InvalidRequest) as caught:
            Client(url)
        assert caught.value.field == "url"


# -- when things break ---------------------------------------------------------------------------
class Sleeps:
    """Counts pauses instead of waiting."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_service_that_is_not_there_is_tried_for_a_bounded_time() -> None:
    sleeps = Sleeps()
    backoff = Backoff(first_s=1, longest_s=4, total_s=20)
    url = f"127.0.0.1:{_free_port()}"
    async with Client(url, backoff=backoff, sleep=sleeps, randomness=random.Random(1)) as client:
        with pytest.raises(DependencyDown):
            await client.list_pipelines()
    assert 4 <= len(sleeps.pauses) <= 20
    assert sum(sleeps.pauses) <= 20


async def test_a_full_service_is_left_alone_for_as_long_as_it_asks(run_api: RunApi) -> None:
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of "hello"
    api = await run_api(tenants={"red": {"token_sha256": digest, "requests_open_max": 2}})
    sleeps = Sleeps()
    backoff = Backoff(first_s=0.01, longest_s=0.02, total_s=0.05)
    url = api.addresses.grpc
    async with Client(url, token="hello", backoff=backoff, sleep=sleeps) as client:
        await client.register_task("task", pipeline="noop")
        batch = await client.open_batch("task")
        with pytest.raises(Saturated) as caught:
            await batch.submit(_requests(3))
        assert sleeps.pauses
        assert caught.value.retry_after_s > 0
        assert all(pause_s >= caught.value.retry_after_s for pause_s in sleeps.pauses)
    async with Client(url, token="wrong", backoff=ONCE) as client:
        with pytest.raises(Unauthenticated):
            await client.list_pipelines()


async def test_a_token_comes_from_the_environment(
    run_api: RunApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    api = await run_api(tenants={"red": {"token_sha256": digest}})
    monkeypatch.setenv("ASSAY_TOKEN", "hello")
    async with Client(api.addresses.grpc, backoff=ONCE) as client:
        assert await client.list_pipelines()


async def test_an_api_killed_in_the_middle_of_a_batch_costs_nothing(
    start: StartProcess, run_worker: RunWorker
) -> None:
    """Killed when results have come out, while requests go in, and again right after."""
    ports = {"ASSAY_REWARD__GRPC_PORT": str(_free_port())}
    api = await (await start(**ports)).up()
    await run_worker()
    async with Client(api.grpc, backoff=Backoff(total_s=WAIT_S)) as client:
        await client.register_task("task", pipeline="noop")
        batch = await client.open_batch("task", size=400)
        names: list[str] = []
        reading = asyncio.ensure_future(_read(batch, names))
        assert (await batch.submit(_requests(100))).accepted == 100
        async with asyncio.timeout(WAIT_S):
            while len(names) < 100:
                await asyncio.sleep(0.01)
        submitting = asyncio.ensure_future(_submit_one_by_one(batch, 100, 300))
        for _ in range(2):
            api.process.send_signal(signal.SIGKILL)
            await api.wait()
            api.sign.unlink()
            api = await (await start(**ports)).up()
        async with asyncio.timeout(WAIT_S):
            await submitting
            await reading
        assert sorted(names) == sorted(f"r{i}" for i in range(400)), "each result exactly once"


async def _read(batch: Batch, names: list[str]) -> None:
    async for result in batch.results():
        names.append(result.request_id)


async def _submit_one_by_one(batch: Batch, first: int, count: int) -> None:
    for request in _requests(count, first):
        await batch.submit([request])


async def test_over_tls(run_api: RunApi, tmp_path: Path) -> None:
    certificate, key = certificates.certificate(tmp_path)
    api = await run_api(tls_certificate=str(certificate), tls_key=str(key))
    port = api.addresses.grpc.rpartition(":")[2]
    trusted = certificate.read_bytes()
    url = f"grpcs://localhost:{port}"
    async with Client(url, root_certificates=trusted, backoff=ONCE) as client:
        assert await client.list_pipelines()
    async with Client(f"localhost:{port}", backoff=ONCE, timeout_s=5) as client:
        with pytest.raises(DependencyDown):
            await client.list_pipelines()
    assert api.addresses.http.startswith("https://")
    context = ssl.create_default_context(cadata=trusted.decode())
    http_port = int(api.addresses.http.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("localhost", http_port, ssl=context)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"200 OK" in await reader.read()
    writer.close()
    await writer.wait_closed()


# -- without an event loop -----------------------------------------------------------------------
async def test_the_synchronous_client_does_the_same(
    start: StartProcess, run_worker: RunWorker
) -> None:
    api = await (await start()).up()
    await run_worker()
    await asyncio.to_thread(_train_synchronously, api.grpc)


def _train_synchronously(url: str) -> None:
    with SyncClient(url, backoff=ONCE) as client:
        assert {pipeline.name for pipeline in client.list_pipelines()} >= {"noop"}
        task = client.register_task("task", pipeline="noop")
        client.hint(task)
        batch = client.open_batch(task, size=8, group_size=4)
        assert batch.submit(_requests(8)).accepted == 8
        assert sorted(r.request_id for r in batch.results()) == [f"r{i}" for i in range(8)]
        assert {group.group_id for group in batch.groups()} == {"g0", "g1"}
        assert next(iter(batch.results())).reward == 1.0, "a stream may be left early"
        assert batch.status().over
        assert client.batch(batch.batch_id).collect().rewards == [1.0] * 8
        assert client.score(_requests(2), task=task).rewards == [1.0, 1.0]
        other = client.open_batch(task)
        other.submit(_requests(2))
        assert other.seal().submitted == 2
        assert other.cancel() in {0, 1, 2}
        with pytest.raises(NotFound):
            client.open_batch("none")
    with pytest.raises(RuntimeError, match="closed"):
        client.list_pipelines()
