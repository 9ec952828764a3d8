"""Hosts as processes: signals, death, the store's death, and the doors to the outside."""

import asyncio
import contextlib
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr
from tests.worker.hosts import (
    HostProcess,
    StartHost,
    Trainer,
    is_alive,
    until,
)

from assay.config.access import OperatorSettings
from assay.config.settings import StoreSettings
from assay.core.outcome import Outcome
from assay.edge.auth import Operator
from assay.edge.clock import Clock
from assay.store.embedded import EmbeddedValkey
from assay.store.port import Store
from assay.store.valkey import ValkeyStore
from assay.v1 import worker_pb2, worker_pb2_grpc
from assay.worker.forking import processes

SCORED = Outcome.SCORED
LEASE_S = 1.5
"""Of the stages of `plugin/assay_trouble.py`."""


def tree_of(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for each in found:
        found += processes.children(each)
    return found


async def get(host: HostProcess, path: str, **headers: str) -> tuple[int, str]:
    """Ask the host's HTTP door."""
    request = urllib.request.Request(f"http://{host.addresses['http']}{path}", headers=headers)

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


# -- signals ---------------------------------------------------------------------------------------


async def test_sigterm_drains_and_leaves_nothing_behind(
    start_host: StartHost, trainer: Trainer, tmp_path: Path
) -> None:
    host = await start_host("patient")
    begun, go = tmp_path / "begun", tmp_path / "go"
    batch = await trainer.submit("patient", [f"wait_for {begun} {go}"])
    await until(begun.exists)
    tree = tree_of(host.process.pid)
    assert len(tree) >= 4
    host.process.terminate()
    await until(lambda: "draining" in host.log.read_text())
    go.touch()
    assert await host.process.wait() == 0
    (result,) = await trainer.results(batch)
    assert (result.record.outcome, result.record.attempts) == (SCORED, 1)
    assert not any(map(is_alive, tree))
    assert not (host.data_dir / "run" / "worker.json").exists()
    assert list((host.data_dir / "scratch").iterdir()) == []


async def test_a_second_signal_kills_at_once(
    start_host: StartHost, trainer: Trainer, tmp_path: Path
) -> None:
    host = await start_host("patient", ASSAY_WORKER__DRAIN_S="600")
    await trainer.submit("patient", [f"wait_for {tmp_path / 'begun'} {tmp_path / 'never'}"])
    await until((tmp_path / "begun").exists)
    tree = tree_of(host.process.pid)
    host.process.terminate()
    await until(lambda: "draining" in host.log.read_text())
    host.process.terminate()
    assert await host.process.wait() == -signal.SIGTERM
    await until(lambda: not any(map(is_alive, tree)))


# -- death -----------------------------------------------------------------------------------------


async def test_a_host_that_dies_takes_its_slots_along_and_another_goes_on(
    start_host: StartHost, trainer: Trainer, tmp_path: Path
) -> None:
    first = await start_host("patient")
    pids = tmp_path / "pids"
    family = await trainer.submit("patient", [f"family {pids}"])
    await until(pids.exists)
    batch = await trainer.submit("patient", ["sleep 0.05"] * 40)
    tree = [*tree_of(first.process.pid), *map(int, pids.read_text().split())]
    first.process.kill()
    await until(lambda: not any(map(is_alive, tree)))
    await start_host("patient")
    results = await trainer.results(batch)
    assert {one.record.outcome for one in results} == {SCORED}
    assert max(one.record.attempts for one in results) <= 2
    assert (await trainer.record(family)).running == 1, "delivered again"


async def test_a_host_paused_past_its_leases_reports_in_vain(
    start_host: StartHost, trainer: Trainer, tmp_path: Path
) -> None:
    first = await start_host("patient")
    begun, go = tmp_path / "begun", tmp_path / "go"
    batch = await trainer.submit("patient", [f"wait_for {begun} {go}"])
    await until(begun.exists)
    os.kill(first.process.pid, signal.SIGSTOP)
    try:
        go.touch()
        await start_host("patient")
        (result,) = await trainer.results(batch)
    finally:
        os.kill(first.process.pid, signal.SIGCONT)
    assert (result.record.outcome, result.record.attempts) == (SCORED, 2)
    first.process.terminate()
    assert await first.process.wait() == 0
    assert len(await trainer.results(batch)) == 1


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    """A server that a test may kill."""
    server = EmbeddedValkey(tmp_path / "own")
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


async def test_work_outlives_the_death_of_the_store(
    own_valkey: EmbeddedValkey, start_host: StartHost, tmp_path: Path
) -> None:
    store = ValkeyStore(StoreSettings(url=own_valkey.url), url=own_valkey.url)
    host = await start_host(
        "patient", ASSAY_STORE__URL=own_valkey.url, ASSAY_STORE__SHARD=StoreSettings().shard
    )
    trainer = Trainer(store=store)
    begun, go, long = tmp_path / "begun", tmp_path / "go", tmp_path / "long"
    works = [f"wait_for {begun} {go}", f"wait_for {long} {tmp_path / 'end'}", *["pass"] * 20]
    batch = await trainer.submit("patient", works)
    await until(lambda: begun.exists() and long.exists())
    assert own_valkey.pid is not None
    os.kill(own_valkey.pid, signal.SIGKILL)
    await until(lambda: "store_lost" in host.log.read_text())
    go.touch()
    await asyncio.sleep(LEASE_S + 0.5)  # the leases run out, and no one can renew them
    alive = asyncio.create_task(own_valkey.keep_alive())
    await until(lambda: "store_regained" in host.log.read_text())
    await trainer.until_ended(batch, len(works) - 1)
    (tmp_path / "end").touch()
    results = await trainer.results(batch)
    assert {one.record.outcome for one in results} == {SCORED}
    assert results[0].record.attempts == 1, "what ended while the store was away is not lost"
    assert results[1].record.attempts == 1, "what ran all the while is not run again"
    await store.close()
    alive.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await alive


async def test_a_host_whose_store_is_away_ends_and_names_it(start_host: StartHost) -> None:
    """A store that goes away later is another thing: the host waits for it."""
    nowhere = "unix:///nowhere/valkey.sock"
    with pytest.raises(AssertionError) as died:
        await start_host("batch", ASSAY_STORE__URL=nowhere, ASSAY_STORE__START_WAIT_S="0.5")
    said = str(died.value)
    assert "worker: dependency_down: store.url: /nowhere/valkey.sock" in said
    assert "assert 69 is None" in said
    assert "Traceback" not in said


# -- doors -----------------------------------------------------------------------------------------


async def test_pools_are_listed_and_resized_over_grpc(start_host: StartHost) -> None:
    host = await start_host("batch", "patient")
    async with grpc.aio.insecure_channel(host.addresses["control"]) as channel:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        answer = await stub.ResizePool(worker_pb2.ResizePoolRequest(stage="batch", slots=4))
        assert (answer.pool.stage, answer.pool.slots_desired) == ("batch", 4)
        async with asyncio.timeout(120):
            while True:
                pools = (await stub.ListPools(worker_pb2.ListPoolsRequest())).pools
                ready = {pool.stage: pool.slots_ready for pool in pools}
                if ready == {"batch": 4, "patient": 2}:
                    break
                await asyncio.sleep(0.05)
        health = health_pb2_grpc.HealthStub(channel)
        async with asyncio.timeout(120):
            while True:
                check = getattr(health, "Check")  # noqa: B009 - the stub's types lack it
                checked = await check(health_pb2.HealthCheckRequest())
                if checked.status == health_pb2.HealthCheckResponse.SERVING:
                    break
                await asyncio.sleep(0.05)


async def test_a_resize_that_cannot_be_is_refused(start_host: StartHost) -> None:
    host = await start_host("batch", ASSAY_WORKER__SLOTS="0")
    not_found, invalid = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT
    cases = [("nothing", 1, not_found, "stage"), ("batch", -1, invalid, "slots")]
    cases.append(("batch", 257, invalid, "slots"))
    async with grpc.aio.insecure_channel(host.addresses["control"]) as channel:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        for stage, slots, code, field in cases:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.ResizePool(worker_pb2.ResizePoolRequest(stage=stage, slots=slots))
            assert refused.value.code() == code
            assert ("field", field) in list(refused.value.trailing_metadata() or ())


async def test_with_an_operators_token_every_port_asks_for_it(
    start_host: StartHost, store: Store
) -> None:
    host = await start_host("batch", ASSAY_WORKER__SLOTS="0", ASSAY_OPERATOR__TOKEN="0p3rator")
    request = worker_pb2.ListPoolsRequest()
    async with grpc.aio.insecure_channel(host.addresses["control"]) as channel:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        for metadata in ((), (("authorization", "Bearer another"),)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.ListPools(request, metadata=metadata)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        check = getattr(health_pb2_grpc.HealthStub(channel), "Check")  # noqa: B009 - as above
        assert await check(health_pb2.HealthCheckRequest())
        bearer = Operator(OperatorSettings(token=SecretStr("0p3rator"))).metadata
        assert (await stub.ListPools(request, metadata=bearer)).pools
    async with asyncio.timeout(120):
        while not (records := await store.hosts()):
            await asyncio.sleep(0.05)
    own = f"Bearer {records[0].credential}"  # its own credential is for the pools and nothing else
    async with grpc.aio.insecure_channel(host.addresses["control"]) as channel:
        stub = worker_pb2_grpc.PoolServiceStub(channel)
        resize = worker_pb2.ResizePoolRequest(stage="batch", slots=0)
        answer = await stub.ResizePool(resize, metadata=(("authorization", own),))
        assert answer.pool.stage == "batch"
        assert (await stub.ListPools(request, metadata=(("authorization", own),))).pools
    for shown in ({}, {"authorization": own}):
        status, page = await get(host, "/metrics", **shown)
        assert status == 401
        assert "assay_" not in page
    assert (await get(host, "/healthz"))[0] == 200


async def test_a_port_open_to_the_network_is_refused_in_one_line(start_host: StartHost) -> None:
    with pytest.raises(AssertionError) as died:
        await start_host("batch", ASSAY_WORKER__CONTROL_HOST="0.0.0.0")
    said = str(died.value)
    assert "worker.control_host=0.0.0.0 is not loopback" in said
    assert "set operator.token" in said
    assert "Traceback" not in said


async def test_what_happened_is_on_the_metrics_page(
    start_host: StartHost, trainer: Trainer
) -> None:
    host = await start_host("batch")
    await trainer.judge("batch", *["pass"] * 10, "raise")
    status, page = await get(host, "/metrics")
    assert status == 200
    ended = 'assay_requests_total{outcome="SCORED",pipeline="batch",tenant="default"} 10.0'
    assert ended in page
    assert 'assay_attempts_total{result="failed",stage="batch"} 3.0' in page
    assert 'assay_batch_slack_seconds_bucket{tenant="default",le="60.0"} 1.0' in page
    assert 'assay_sandbox_info{mode="unused"} 1.0' in page
    assert 'assay_slots{stage="batch",state="ready"} 2.0' in page


async def test_the_http_door_answers_nonsense_and_lives(start_host: StartHost) -> None:
    host = await start_host("batch", ASSAY_WORKER__SLOTS="0")
    name, port = host.addresses["http"].split(":")
    for line in (b"POST /healthz HTTP/1.1\r\n\r\n", b"\xff\xff\r\n\r\n", b"x" * 20_000):
        reader, writer = await asyncio.open_connection(name, int(port))
        writer.write(line)
        with contextlib.suppress(ConnectionError):
            assert (await reader.read()).startswith((b"HTTP/1.1 405", b""))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert (await get(host, "/nothing"))[0] == 404
    assert (await get(host, "/healthz"))[0] == 200


def test_the_clock_of_the_host_is_the_machines() -> None:
    assert processes.cpu_ns(os.getpid()) > 0
    assert processes.cpu_ns(2**22 + 1) == 0
    assert Clock().monotonic_ns() > 0
