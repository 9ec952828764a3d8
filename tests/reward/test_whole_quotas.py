"""What is above a tenant's whole quota can never fit: a typed error that names the quota, on every
door and for every kind, which no client sends again."""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.test_client import Sleeps
from tests.reward.faces import GrpcFace, HttpFace, Item, Refusal
from tests.running import RunApi, Running

from assay.client import Backoff, Client, Request
from assay.client.http import AsyncHttpClient
from assay.core.errors import Saturated, TooLarge
from assay.core.ids import TenantId
from assay.edge.door import DoorLimit, Load
from assay.v1 import reward_pb2_grpc

TOKEN = "t0ken"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
QUOTA = {"requests_open_max": 8, "bytes_open_max": 2_000, "uploads_bytes_max": 3_000}
HEADERS = {"authorization": f"Bearer {TOKEN}"}
MANY = [Item(f"r{index}") for index in range(9)]
HEAVY = [Item("heavy", response=b"x" * 2_001)]
Face = GrpcFace | HttpFace
Make = Callable[[], Awaitable[Any]]

KINDS: dict[str, Callable[[Face], list[Make]]] = {
    "requests_open_max": lambda face: [
        partial(face.submit, "b", MANY),
        partial(face.score, MANY, task_id="task"),
        partial(face.score, MANY, pipeline="exact", settings={"reward_pass": 0.5}),
    ],
    "bytes_open_max": lambda face: [
        partial(face.submit, "b", HEAVY),
        partial(face.score, HEAVY, task_id="task"),
        partial(face.score, HEAVY, pipeline="exact", settings={"reward_pass": 0.5}),
    ],
}


async def _service(run_api: RunApi) -> Running:
    return await run_api(tenants={"acme": {"token_sha256": DIGEST, **QUOTA}})


async def _refused(make: Make, status: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await make()
    refusal = caught.value
    assert (refusal.code, refusal.reason, refusal.retry_after_ms) == (status, "too_large", 0)
    return refusal


class _Told(grpc.aio.UnaryUnaryClientInterceptor):
    """Shows the token, and keeps the text of the last error."""

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        metadata = (*(details.metadata or ()), *HEADERS.items())
        return await continuation(details._replace(metadata=metadata), request)


@pytest.mark.parametrize("used", [0, 8], ids=["empty", "full"])
async def test_every_kind_on_grpc_and_http(run_api: RunApi, used: int) -> None:
    """As much while the quota is used up, where "later" would be as wrong."""
    addresses = (await _service(run_api)).addresses
    options = {"base_url": addresses.http, "timeout": 60, "headers": HEADERS}
    async with (
        grpc.aio.insecure_channel(addresses.grpc, interceptors=[_Told()]) as channel,
        httpx.AsyncClient(**options) as http,  # type: ignore[arg-type]
    ):
        by_grpc, by_http = GrpcFace.__new__(GrpcFace), HttpFace(http)
        by_grpc.stub = reward_pb2_grpc.RewardServiceStub(channel)
        await by_http.register("task", "exact")
        await by_http.open("task", batch_id="b")
        if used:
            await by_http.submit("b", [Item(f"used{index}") for index in range(used)])
            with pytest.raises(Refusal) as caught:
                await by_http.submit("b", [Item("more")])
            assert (caught.value.code, caught.value.reason) == (429, "saturated")
        for make_all in KINDS.values():
            for face, status in (
                (by_grpc, grpc.StatusCode.INVALID_ARGUMENT),
                (by_http, 413),
            ):
                for make in make_all(face):
                    refusal = await _refused(make, status)
                    assert refusal.field in {"message", "requests[0]"}
        status = (await http.get("/v1/batches/b")).json()
        assert status["submitted"] == used


async def test_the_text_names_the_quota_and_an_upload_its_own(run_api: RunApi) -> None:
    addresses = (await _service(run_api)).addresses
    async with httpx.AsyncClient(base_url=addresses.http, timeout=60, headers=HEADERS) as http:
        for name, requests in (
            ("requests_open_max", [{"request_id": str(at), "response": "x"} for at in range(9)]),
            ("bytes_open_max", [{"request_id": "1", "response": "x" * 2_001}]),
        ):
            body = {
                "pipeline": "exact",
                "requests": [{**one, "reference": {"answers": ["x"]}} for one in requests],
            }
            answer = await http.post("/v1/score", json=body)
            assert answer.status_code == 413
            assert f"{name}: " in answer.json()["error"]["message"]
            assert str(QUOTA[name]) in answer.json()["error"]["message"]
        content = b"x" * 3_001
        path = f"/v1/artifacts/{hashlib.sha256(content).hexdigest()}"
        answer = await http.put(path, content=content)
        assert (answer.status_code, answer.json()["error"]["field"]) == (413, "content")
        assert "uploads_bytes_max is 3000" in answer.json()["error"]["message"]


HEAVY_CALLS: dict[str, Any] = {
    "/v1/openrlhf/math/get_reward": {
        "query": ["x" * 2_001],
        "prompts": ["q"],
        "labels": ["5"],
    },
    "/v1/slime/math/rm": {"prompt": "q", "response": "x" * 2_001, "label": "5"},
    "/v1/nemo_gym/math/verify": {
        "response": {
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "x" * 2_001}],
                }
            ]
        },
        "expected_answer": "5",
    },
    "/v1/roll/math/submit": {
        "prompt": "q",
        "response": "x" * 2_001,
        "reward_info": {"ground_truth": "5"},
        "data_id": 1,
    },
    "/v1/sandboxfusion/run_code": {"code": "#" * 2_001, "language": "python"},
}


@pytest.mark.parametrize("path", HEAVY_CALLS)
async def test_every_endpoint_answers_with_the_quota(run_api: RunApi, path: str) -> None:
    addresses = (await _service(run_api)).addresses
    async with httpx.AsyncClient(base_url=addresses.http, timeout=60, headers=HEADERS) as http:
        answer = await http.post(path, json=HEAVY_CALLS[path])
        assert answer.status_code == 413, answer.text
        assert "bytes_open_max" in answer.text
        assert "retry-after" not in answer.headers


async def test_a_group_that_may_never_be_complete_is_refused_at_its_opening(
    run_api: RunApi,
) -> None:
    addresses = (await _service(run_api)).addresses
    async with Client(addresses.grpc, token=TOKEN) as client:
        task = await client.register_task("groups", pipeline="math.concise")
        for size, group_size, field in ((0, 9, "group_size"), (9, 0, "size")):
            with pytest.raises(TooLarge, match="requests_open_max is 8") as caught:
                await client.open_batch(task, size=size, group_size=group_size)
            assert caught.value.field == field
        await client.open_batch(task, size=16, group_size=8)


async def test_clients_send_it_once_and_what_fits_in_parts(run_api: RunApi) -> None:
    addresses = (await _service(run_api)).addresses
    sleeps = Sleeps()
    backoff = Backoff(first_s=0.01, longest_s=0.02, total_s=0.05)
    heavy = [Request(request_id="heavy", response="x" * 2_001, reference={"answers": ["x"]})]
    many = [
        Request(request_id=f"{at}", response="x", reference={"answers": ["x"]}) for at in range(10)
    ]
    async with Client(addresses.grpc, token=TOKEN, backoff=backoff, sleep=sleeps) as client:
        task = await client.register_task("task", pipeline="exact")
        batch = await client.open_batch(task)
        with pytest.raises(TooLarge, match="bytes_open_max"):
            await batch.submit([many[0], heavy[0]])
        with pytest.raises(TooLarge, match="requests_open_max"):
            await client.score(many, pipeline="exact")
        assert not sleeps.pauses
        with pytest.raises(Saturated):  # half of them are stored; the others wait for room
            await batch.submit(many)
        assert (await batch.status()).submitted == 5
    async with AsyncHttpClient(addresses.http, token=TOKEN, backoff=backoff) as by_http:
        with pytest.raises(TooLarge, match="bytes_open_max"):
            await by_http.score(heavy, pipeline="exact")


@settings(max_examples=300)
@given(
    total=st.integers(1, 60),
    share=st.floats(0.01, 1.0),
    tenants=st.integers(1, 8),
    parts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    others=st.integers(0, 60),
)
def test_a_message_is_too_large_for_a_door_where_it_would_be_refused_alone(
    total: int, share: float, tenants: int, parts: list[int], others: int
) -> None:
    """And is "later" only where it would have been accepted had no one else held anything."""

    def read(limit: DoorLimit) -> type[Exception] | None:
        load = Load(limit, TenantId("red"))
        try:
            for part in parts:
                load.add(part)
        except (Saturated, TooLarge) as error:
            return type(error)
        return None

    def limit() -> DoorLimit:
        return DoorLimit("bytes", total=total, tenants=tenants, share=share)

    alone = read(limit())
    assert alone in {None, TooLarge}
    busy = limit()
    with suppress(Saturated):
        for _ in range(others):
            busy.take(TenantId("blue"))
    assert read(busy) in ({None, Saturated} if alone is None else {TooLarge, Saturated})
