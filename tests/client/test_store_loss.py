"""A store that loses what it acknowledged: the client makes it good, or says that it cannot.

The loss is real: the server is stopped and started again on an older copy of its log, or on none.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.running import running_api, working

from assay.client import (
    Backoff,
    Batch,
    BatchLost,
    Client,
    Outcome,
    Request,
    SyncBatch,
    SyncClient,
    connection,
)
from assay.client.ledger import Handed, Ledger
from assay.client.types import BatchState, BatchStatus, Evidence, Page, ResourceUse, Result
from assay.config.settings import StoreSettings
from assay.core.errors import NotFound
from assay.store.embedded import EmbeddedValkey
from assay.v1.reward_pb2 import RewardRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WAIT_S = 90.0
LARGE = "x" * 100_000
"""More than is kept inline: it goes by content hash."""


class Losing:
    """A platform whose store can be set back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "store" / "appendonlydir"
        self._valkey = EmbeddedValkey(folder)
        self._stack = AsyncExitStack()
        self.settings = StoreSettings(url=self._valkey.url, timeout_s=2.0)
        self.grpc = self.http = ""

    async def __aenter__(self) -> Losing:
        await self._valkey.start()
        self._stack.push_async_callback(self._valkey.stop)
        api = await self._stack.enter_async_context(
            running_api(self.settings, self._folder / "api")
        )
        self.grpc, self.http = api.addresses.grpc, api.addresses.http
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def client(self) -> Client:
        return Client(self.grpc, backoff=Backoff(first_s=0.05, longest_s=0.5, total_s=60.0))

    def copy(self) -> Path:
        """The log at present."""
        return shutil.copytree(self._log, self._folder / "copy")

    async def set_back(self, copy: Path | None) -> None:
        """Start the store again on that copy of its log, or on nothing."""
        await self._valkey.stop()
        shutil.rmtree(self._log)
        if copy is not None:
            shutil.copytree(copy, self._log)
        await self._valkey.start()


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of the store may be too short for the API to tell of it."""
    monkeypatch.setattr(connection, "LISTEN_S", 1.0)


@pytest.fixture
async def losing(tmp_path: Path) -> AsyncIterator[Losing]:
    async with Losing(tmp_path) as platform:
        yield platform


def requests(first: int, last: int) -> list[Request]:
    return [
        Request(
            request_id=f"r{index}",
            group_id=f"g{index // 4}",
            response=LARGE if index == first else "yes",
            reference={},
        )
        for index in range(first, last)
    ]


async def open_batch(client: Client) -> Batch:
    await client.register_task("task", pipeline="noop")
    return await client.open_batch("task", size=8, group_size=4, batch_id="step")


async def test_requests_that_were_lost_before_anybody_listened_are_sent_again(
    losing: Losing,
) -> None:
    async with asyncio.timeout(WAIT_S), losing.client() as client:
        batch = await open_batch(client)
        empty = losing.copy()
        await batch.submit(requests(0, 8))
        await losing.set_back(empty)
        assert (await batch.status()).submitted == 0
        async with working(losing.settings):
            names = [result.request_id async for result in batch.results()]
    assert sorted(names) == [f"r{i}" for i in range(8)]


async def test_a_batch_that_is_set_back_while_its_results_come_gives_each_once(
    losing: Losing,
) -> None:
    """Requests that have a result already are lost too, and their groups need them."""
    async with asyncio.timeout(WAIT_S), losing.client() as client:
        batch = await open_batch(client)
        empty = losing.copy()
        await batch.submit(requests(0, 4))
        stream = batch.pages()
        names: list[str] = []
        groups: list[str] = []
        async with working(losing.settings):
            while len(names) < 4:
                page = await anext(stream)
                names += [result.request_id for result in page.results]
                groups += [group.group_id for group in page.groups]
        await batch.submit(requests(4, 8))
        await losing.set_back(empty)
        async with working(losing.settings):
            async for page in stream:
                names += [result.request_id for result in page.results]
                groups += [group.group_id for group in page.groups]
    assert sorted(names) == [f"r{i}" for i in range(8)]
    assert sorted(groups) == ["g0", "g1"]


async def test_a_batch_that_is_gone_is_a_typed_error(losing: Losing) -> None:
    async with asyncio.timeout(WAIT_S), losing.client() as client:
        batch = await open_batch(client)
        await batch.submit(requests(0, 4))
        listening = asyncio.create_task(anext(batch.results()))
        await losing.set_back(None)
        with pytest.raises(BatchLost, match="lost the batch"):
            await listening
        with pytest.raises(BatchLost):
            await batch.submit(requests(4, 8))
        with pytest.raises(BatchLost):
            await batch.collect()
        again = await open_batch(client)
        assert (await again.submit(requests(0, 8))).accepted == 8, "the advice of the error works"


async def test_a_batch_that_one_does_not_know_to_be_there_is_simply_not_found(
    losing: Losing,
) -> None:
    async with asyncio.timeout(WAIT_S), losing.client() as client:
        await open_batch(client)
        with pytest.raises(NotFound) as caught:
            await client.batch("another").collect()
    assert not isinstance(caught.value, BatchLost)


def test_the_synchronous_client_makes_it_good_too(tmp_path: Path) -> None:
    def use(url: str) -> tuple[SyncClient, SyncBatch]:
        client = SyncClient(url)
        client.register_task("task", pipeline="noop")
        return client, client.open_batch("task", size=8, batch_id="step")

    async def run() -> list[str]:
        async with asyncio.timeout(WAIT_S), Losing(tmp_path) as losing:
            client, batch = await asyncio.to_thread(use, losing.grpc)
            try:
                empty = losing.copy()
                await asyncio.to_thread(batch.submit, requests(0, 8))
                await losing.set_back(empty)
                async with working(losing.settings):
                    scores = await asyncio.to_thread(batch.collect)
            finally:
                await asyncio.to_thread(client.close)
        return [result.request_id for result in scores.results]

    assert sorted(asyncio.run(run())) == [f"r{i}" for i in range(8)]


async def test_over_http_the_loss_is_to_be_seen_and_the_same_can_be_sent_again(
    losing: Losing,
) -> None:
    lines = [{"request_id": f"r{index}", "response": "yes", "reference": {}} for index in range(4)]
    async with asyncio.timeout(WAIT_S), httpx.AsyncClient(base_url=losing.http, timeout=30) as http:
        await http.post("/v1/tasks", json={"task_id": "task", "pipeline": "noop"})
        await http.post("/v1/batches", json={"task_id": "task", "batch_id": "step", "size": 4})
        empty = losing.copy()
        path = "/v1/batches/step"
        sent = await http.post(f"{path}/requests", json={"requests": lines})
        assert sent.json()["accepted"] == 4
        await losing.set_back(empty)
        while (looked := await http.get(path)).status_code == 503:
            await asyncio.sleep(0.05)
        assert looked.json()["submitted"] == 0
        again = await http.post(f"{path}/requests", json={"requests": lines})
        assert again.json()["accepted"] == 4
        await losing.set_back(None)
        while (looked := await http.get(path)).status_code == 503:
            await asyncio.sleep(0.05)
        assert (looked.status_code, looked.json()["error"]["reason"]) == (404, "not_found")


# -- the ledger ----------------------------------------------------------------------------------
def message(name: str) -> RewardRequest:
    return RewardRequest(request_id=name, response=b"yes" * 10)


def result(name: str, reward: float = 1.0) -> Result:
    return Result(
        request_id=name,
        group_id="",
        outcome=Outcome.SCORED,
        reward=reward,
        evidence=Evidence(verdict="pass"),
        resource_use=ResourceUse(),
        stages=(),
        attempts=1,
    )


def test_a_request_that_was_acknowledged_twice_counts_once() -> None:
    ledger = Ledger()
    ledger.acknowledge([message("a"), message("b")])
    ledger.acknowledge([message("a")])
    ledger.answer([result("a"), result("of another client")])
    assert (ledger.acknowledged, ledger.unanswered) == (2, 1)
    assert [one.request_id for one in ledger.again() or ()] == ["a", "b"]


def test_a_request_that_was_acknowledged_twice_takes_the_room_of_one() -> None:
    ledger = Ledger(bytes_max=2 * message("a").ByteSize())
    ledger.acknowledge([message("a")])
    ledger.acknowledge([message("a"), message("b")])
    assert [one.request_id for one in ledger.again() or ()] == ["a", "b"]


def test_a_result_may_be_seen_before_its_request_is_acknowledged() -> None:
    ledger = Ledger()
    ledger.answer([result("a")])
    ledger.acknowledge([message("a")])
    assert ledger.unanswered == 0


def test_more_than_can_be_kept_is_counted_but_not_sent_again() -> None:
    ledger = Ledger(bytes_max=message("a").ByteSize())
    ledger.acknowledge([message("a"), message("b")])
    assert (ledger.acknowledged, ledger.again()) == (2, None)


def test_what_was_handed_out_is_not_handed_out_again_unless_it_changed() -> None:
    handed = Handed()
    status = BatchStatus(
        batch_id="b",
        task_id="t",
        state=BatchState.OPEN,
        size=0,
        group_size=0,
        opened_ns=0,
        deadline_ns=0,
        completed_ns=0,
        submitted=2,
        ended=2,
        queued=0,
        running=0,
        outcomes={},
    )

    def page(*results: Result) -> Page:
        return Page(results=results, groups=(), cursor=len(results), batch=status)

    assert len(handed.fresh(page(result("a"), result("b"))).results) == 2
    assert handed.fresh(page(result("b"), result("a", 0.5))).results == [result("a", 0.5)]
