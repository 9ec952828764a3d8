"""One tenant attacks in every way we know; the other's calls all succeed and nothing grows.

The attacks are those of `benchmarks.tenants.interference` in short; times are measured there.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
from collections import Counter
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.reward.faces import GrpcFace, HttpFace, Item, refused

from assay.config.settings import RewardSettings, VerifierSettings
from assay.core.errors import AssayError, InvalidRequest, Saturated, TooLarge
from assay.core.ids import PipelineName, TenantId
from assay.edge.door import ANSWERS_MAX, Kind
from assay.reward import http as reward_http
from assay.reward import wire
from assay.reward.readers import Readers
from assay.reward.reading import Form
from assay.v1 import reward_pb2, reward_pb2_grpc
from assay.verifiers.registry import load_pipelines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.running import RunApi, Running, RunWorker

    from assay.core.records import NewRequest

MIB = 1024**2
PIPELINES = load_pipelines(found=())
EXACT = PIPELINES[PipelineName("exact")]
TOKENS = {"victim": "v1ctim", "mallory": "m4llory", "mordred": "m0rdred"}
SMALL_LIMITS = {
    "calls_concurrent_max": 24,
    "streams_concurrent_max": 12,
    "bytes_in_flight_max": 4 * MIB,
    "message_bytes_max": 2 * MIB,
    "body_s_max": 5.0,
    "tenant_calls_per_s_max": 200.0,
}
RED = TenantId("red")


def _bombs(size: int) -> list[bytes]:
    """References that cost much more to read than to send."""
    return [
        b'{"answers":[' + b"[]," * (size // 3) + b"[]]}",
        b'{"answers":[' + b"1," * (size // 2) + b"1]}",
        b'{"answers":[' + b"1" * size + b"]}",
        b"{" + b",".join(b'"%d":1' % i for i in range(size // 11)) + b"}",
        b'{"x":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}",
        b'{"answers":[' + b'{"a":{}},' * (size // 9) + b"{}]}",
    ]


def _score(reference: bytes) -> bytes:
    request = reward_pb2.RewardRequest(request_id="r", response=b"x", reference_json=reference)
    return reward_pb2.ScoreRequest(pipeline="exact", requests=[request]).SerializeToString()


# -- messages read apart -------------------------------------------------------------------------
@pytest.fixture(scope="module")
def readers() -> Iterator[Callable[..., Readers]]:
    """Readers of these settings, the same ones for every test of this file: a template takes as
    long to start as all its messages to read."""
    made: dict[str, Readers] = {}

    def of(**reward: object) -> Readers:
        settings = RewardSettings.model_validate(reward)
        key = settings.model_dump_json()
        if key not in made:
            made[key] = Readers(settings, VerifierSettings())
        return made[key]

    yield of
    for each in made.values():
        each.stop()


async def _read(readers: Readers, form: Form, body: bytes) -> tuple[object, ...]:
    """All that comes of a message, or its error."""
    try:
        reading = await readers.read(form, [body], RED)
    except AssayError as error:
        return (type(error), error.message, error.field)
    try:
        requests: list[NewRequest] = await reading.requests(EXACT)
    except AssayError as error:
        return (type(error), error.message, error.field)
    finally:
        reading.close()
    return (reading.score, reading.batch_id, requests)


_ids = st.text(max_size=8)
_references = st.sampled_from(
    [b'{"answers": ["4"]}', b"{}", b"[", b"\xff", b'{"answers": ["\\ud800"]}', b""]
)
_messages = st.lists(
    st.builds(
        reward_pb2.RewardRequest,
        request_id=_ids | st.just("r"),
        group_id=_ids,
        response=st.binary(max_size=20) | st.text(max_size=9).map(str.encode),
        reference_json=_references,
    ),
    max_size=4,
).map(
    lambda requests: (
        reward_pb2.ScoreRequest(
            task_id="t", pipeline="exact", settings_json="{}", requests=requests
        ).SerializeToString(),
        reward_pb2.SubmitRequest(batch_id="b", requests=requests).SerializeToString(),
    )
)


async def test_a_message_read_apart_says_what_it_says_read_here(
    readers: Callable[..., Readers],
) -> None:
    here, apart = readers(read_inline_bytes_max=10**9), readers(read_inline_bytes_max=0)
    loop = asyncio.get_running_loop()

    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(messages=_messages, junk=st.binary(max_size=60), text=st.text(max_size=60))
    def same(messages: tuple[bytes, bytes], junk: bytes, text: str) -> None:
        score, submit = messages
        for form, body in (
            (Form.SCORE, score),
            (Form.SUBMIT, submit),
            (Form.SCORE, junk),
            (Form.SUBMIT_JSON, junk),
            (Form.SCORE_JSON, text.encode("utf-8", "surrogatepass")),
            (Form.SCORE_JSON, b'{"pipeline": "exact", "requests": [' + junk + b"]}"),
        ):
            found = [
                asyncio.run_coroutine_threadsafe(_read(where, form, body), loop).result(60)
                for where in (here, apart)
            ]
            assert found[0] == found[1]

    await asyncio.to_thread(same)


@pytest.mark.parametrize("number", range(6))
async def test_what_costs_too_much_to_read_is_refused_and_nothing_else_notices(
    readers: Callable[..., Readers], number: int
) -> None:
    tight = readers(read_cpu_s_per_mib=0.02, read_memory_bytes_max=96 * MIB)
    bomb = _score(_bombs(6 * MIB)[number])
    fine = _score(b'{"answers": ["%s"]}' % (b"x" * 100_000))
    results = await asyncio.gather(*(_read(tight, Form.SCORE, bomb) for _ in range(3)))
    assert {result[0] for result in results} <= {TooLarge, InvalidRequest}
    reading = await readers().read(Form.SCORE, [fine], RED)
    assert len(await reading.requests(EXACT)) == 1


async def test_a_bomb_is_ended_by_its_cpu_time_and_by_its_memory(
    readers: Callable[..., Readers],
) -> None:
    bomb = _score(_bombs(6 * MIB)[0])
    for limits, why in (
        ({"read_cpu_s_per_mib": 0.02}, "CPU time"),
        ({"read_cpu_s_per_mib": 60, "read_memory_bytes_max": 64 * MIB}, "memory"),
    ):
        result = await _read(readers(**limits), Form.SCORE, bomb)
        assert result[0] is TooLarge
        assert why in str(result[1])


async def test_a_template_that_is_killed_is_replaced(readers: Callable[..., Readers]) -> None:
    apart = readers(read_inline_bytes_max=0)
    message = _score(b'{"answers": ["x"]}')
    assert len(await _read(apart, Form.SCORE, message)) == 3
    template = apart._template
    assert template
    os.kill(template.pid, signal.SIGKILL)
    template.wait()
    outcomes = [await _read(apart, Form.SCORE, message) for _ in range(2)]
    assert outcomes[0][0] is Saturated or not isinstance(outcomes[0][0], type)
    assert not isinstance(outcomes[1][0], type)


async def test_a_caller_that_leaves_gives_its_place_back(readers: Callable[..., Readers]) -> None:
    apart = readers(read_inline_bytes_max=0, readers_max=2)
    message = _score(b'{"answers": ["x"]}')
    for _ in range(10):
        work = asyncio.ensure_future(apart.read(Form.SCORE, [message], RED))
        await asyncio.sleep(random.Random(1).random() * 0.01)
        work.cancel()
        with suppress(asyncio.CancelledError):
            (await work).close()
    assert len(await _read(apart, Form.SCORE, message)) == 3


# -- the attacks ---------------------------------------------------------------------------------
class Battle:
    """A victim and its attackers before one service."""

    def __init__(self, api: Running, stack: AsyncExitStack) -> None:
        self.api = api
        self.stack = stack
        self.attacks: list[asyncio.Task[Any]] = []

    def metadata(self, name: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {TOKENS[name]}"),)

    async def stub(self) -> Any:
        channel = grpc.aio.insecure_channel(
            self.api.addresses.grpc, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        return reward_pb2_grpc.RewardServiceStub(await self.stack.enter_async_context(channel))

    async def raw(self, method: str) -> Any:
        channel = grpc.aio.insecure_channel(
            self.api.addresses.grpc, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        untyped: Any = await self.stack.enter_async_context(channel)
        return untyped.unary_unary(f"/assay.v1.RewardService/{method}")

    def attack(self, *works: Awaitable[Any]) -> None:
        self.attacks += [asyncio.ensure_future(_failing(work)) for work in works]

    async def victim_scores(self, calls: int = 12) -> None:
        """Every call is answered with a reward; none is refused."""
        stub = await self.stub()
        request = reward_pb2.ScoreRequest(
            pipeline="noop",
            requests=[reward_pb2.RewardRequest(request_id="r", reference_json=b"{}")],
        )
        for _ in range(calls):
            answer = await stub.Score(request, metadata=self.metadata("victim"), timeout=120)
            assert [result.reward for result in answer.results] == [1.0]
            async with httpx.AsyncClient(base_url=self.api.addresses.http, timeout=120) as http:
                assert (await http.get("/healthz")).status_code == 200

    async def over(self) -> None:
        """The attackers go; nothing is held any more."""
        for attack in self.attacks:
            attack.cancel()
        await asyncio.gather(*self.attacks, return_exceptions=True)


async def _failing(work: Awaitable[Any]) -> None:
    with suppress(grpc.aio.AioRpcError, httpx.HTTPError, OSError, EOFError):
        await work


@pytest.fixture
async def battle(run_api: RunApi, run_worker: RunWorker) -> AsyncIterator[Battle]:
    """A service with small limits and three tenants."""
    tenants = {
        name: {"token_sha256": hashlib.sha256(token.encode()).hexdigest()}
        for name, token in TOKENS.items()
    }
    api = await run_api(tenants=tenants, **SMALL_LIMITS)
    await run_worker()
    async with AsyncExitStack() as stack:
        battle = Battle(api, stack)
        yield battle
        await battle.over()


ATTACKERS = ("mallory", "mordred")


async def test_json_bombs(battle: Battle) -> None:
    for name in ATTACKERS:
        score = await battle.raw("Score")
        bombs = [*map(_score, _bombs(MIB)), b"\x22\x00" * (MIB // 2), *map(_score, _bombs(9_000))]
        battle.attack(*(score(bomb, metadata=battle.metadata(name)) for bomb in bombs))
        headers = dict(battle.metadata(name)) | {"content-type": "application/json"}
        http = await battle.stack.enter_async_context(
            httpx.AsyncClient(base_url=battle.api.addresses.http, timeout=120, headers=headers)
        )
        head = b'{"pipeline":"exact","requests":[{"request_id":"r","response":"x","reference":'
        battle.attack(*(http.post("/v1/score", content=head + b + b"}]}") for b in _bombs(MIB)))
    await battle.victim_scores()


async def test_held_streams(battle: Battle) -> None:
    task = reward_pb2.RegisterTaskRequest(task=reward_pb2.Task(task_id="t", pipeline="noop"))
    opening = reward_pb2.OpenBatchRequest(task_id="t", batch_id="held")
    request = reward_pb2.StreamResultsRequest(batch_id="held")

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    for name in ATTACKERS:
        stub = await battle.stub()
        metadata = battle.metadata(name)
        await stub.RegisterTask(task, metadata=metadata)
        await stub.OpenBatch(opening, metadata=metadata)
        battle.attack(*(stub.StreamResults(request, metadata=metadata).read() for _ in range(60)))
        battle.attack(*(stub.SubmitStream(nothing(), metadata=metadata) for _ in range(60)))
    await battle.victim_scores()
    assert battle.api.api.server._guard.door.held(Kind.STREAM) <= 12
    stub = await battle.stub()
    metadata = battle.metadata("victim")
    await stub.RegisterTask(task, metadata=metadata)
    await stub.OpenBatch(opening, metadata=metadata)
    await stub.CancelBatch(reward_pb2.CancelBatchRequest(batch_id="held"), metadata=metadata)
    page = await stub.StreamResults(request, metadata=metadata).read()
    assert page.batch.state == reward_pb2.BATCH_STATE_CANCELLED


async def test_results_of_one_tenant_are_converted_few_pages_at_a_time(
    battle: Battle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a call that yields to the others waits for a step of each."""
    now: Counter[TenantId] = Counter()
    most: Counter[TenantId] = Counter()

    def counted(convert: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        async def count(page: Any) -> Any:
            now[page.batch.tenant] += 1
            most[page.batch.tenant] = max(most[page.batch.tenant], now[page.batch.tenant])
            try:
                return await convert(page)
            finally:
                now[page.batch.tenant] -= 1

        return count

    monkeypatch.setattr(reward_http, "_page", counted(reward_http._page))
    monkeypatch.setattr(wire, "results_page", counted(wire.results_page))
    task = reward_pb2.RegisterTaskRequest(task=reward_pb2.Task(task_id="t", pipeline="noop"))
    names = [str(number) for number in range(100)]
    requests = [reward_pb2.RewardRequest(request_id=name, reference_json=b"{}") for name in names]
    for name in ATTACKERS:
        stub, metadata = await battle.stub(), battle.metadata(name)
        await stub.RegisterTask(task, metadata=metadata)
        opening = reward_pb2.OpenBatchRequest(task_id="t", batch_id="read")
        await stub.OpenBatch(opening, metadata=metadata)
        submitted = reward_pb2.SubmitRequest(batch_id="read", requests=requests)
        await stub.Submit(submitted, metadata=metadata)
        await stub.CancelBatch(reward_pb2.CancelBatchRequest(batch_id="read"), metadata=metadata)
        http = await battle.stack.enter_async_context(
            httpx.AsyncClient(
                base_url=battle.api.addresses.http, timeout=120, headers=dict(metadata)
            )
        )
        request = reward_pb2.StreamResultsRequest(batch_id="read")
        for _ in range(4):
            battle.attack(stub.StreamResults(request, metadata=metadata).read())
            battle.attack(http.get("/v1/batches/read/results/stream"))
            battle.attack(http.get("/v1/batches/read/results"))
    await asyncio.gather(*battle.attacks)
    assert most == {TenantId(name): ANSWERS_MAX for name in ATTACKERS}


async def test_slow_bodies_and_strangers(battle: Battle) -> None:
    where = urlsplit(battle.api.addresses.http)

    async def drip(token: str) -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            head = f"host: a\r\nauthorization: Bearer {token}\r\ncontent-length: 9999\r\n\r\n"
            writer.write(f"POST /v1/score HTTP/1.1\r\n{head}".encode())
            while not reader.at_eof():
                writer.write(b"[")
                await writer.drain()
                await asyncio.sleep(0.2)
        finally:
            writer.close()

    for token in (*(TOKENS[name] for name in ATTACKERS), "stranger"):
        battle.attack(*(drip(token) for _ in range(60)))
    await battle.victim_scores()


async def test_floods_of_tasks_and_of_deadlines(battle: Battle) -> None:
    async def flood(name: str) -> None:
        stub, metadata = await battle.stub(), battle.metadata(name)
        for number in range(10_000):
            task = reward_pb2.Task(task_id=f"t{number}", pipeline="exact")
            await stub.RegisterTask(reward_pb2.RegisterTaskRequest(task=task), metadata=metadata)
            opening = reward_pb2.OpenBatchRequest(
                task_id=f"t{number}", batch_id=f"b{number}", deadline_ms=1
            )
            await stub.OpenBatch(opening, metadata=metadata)

    battle.attack(*(flood(name) for name in ATTACKERS for _ in range(20)))
    await battle.victim_scores()


async def test_big_valid_messages(battle: Battle) -> None:
    requests = [
        reward_pb2.RewardRequest(
            request_id=f"r{i}", response=b"x" * 3_000, reference_json=b'{"answers": ["x"]}'
        )
        for i in range(600)
    ]
    body = reward_pb2.ScoreRequest(pipeline="exact", requests=requests).SerializeToString()
    for name in ATTACKERS:
        score = await battle.raw("Score")
        battle.attack(*(score(body, metadata=battle.metadata(name)) for _ in range(12)))
    await battle.victim_scores()


# -- the whole path ------------------------------------------------------------------------------
async def test_large_messages_are_judged_as_small_ones(
    grpc_face: GrpcFace, http_face: HttpFace, run_worker: RunWorker
) -> None:
    await run_worker(stage="match")
    items = [Item(f"r{index}", response=b"Paris" + b" " * 4_000) for index in range(300)]
    for face in (grpc_face, http_face):
        assert await face.score(items, pipeline="exact") == [1.0] * 300
        wrong = [*items, Item("bad", reference=b'{"answers": [7]}')]
        field = "requests[300].reference.answers[0]"
        await refused(face, face.score(wrong, pipeline="exact"), InvalidRequest, field)


async def test_with_tenants_the_metrics_ask_for_the_operators_token(battle: Battle) -> None:
    async with httpx.AsyncClient(base_url=battle.api.addresses.http) as http:
        for headers in ({}, dict(battle.metadata("mallory"))):
            answer = await http.get("/metrics", headers=headers)
            assert answer.status_code == 401
            assert "victim" not in answer.text
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
            assert (await http.get(path)).status_code == 200
