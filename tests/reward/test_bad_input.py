"""Every bad input has a typed error of its own on both transports, nothing of it is stored, and the
service goes on."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
import pytest_asyncio
from tests.reward.faces import GrpcFace, HttpFace, Item, Refusal, answer_of, refused
from tests.running import own_shard, running_api, working

from assay.config.settings import RewardSettings
from assay.core.errors import (
    AssayError,
    Conflict,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    TooLarge,
)
from assay.v1 import reward_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.reward.faces import Face
    from tests.running import Running

    from assay.store.embedded import EmbeddedValkey

STRANGE = (
    b"\0",
    b"",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc0\xaf\0",
    b"\xf8\x88\x80\x80\x80",
    b"\x1b[2J\r",
)
"""NUL, nothing, no UTF-8, a lone surrogate, an overlong and an old long form, control codes."""
RIGHT = {
    "exact": (b'{"answers": ["Paris"]}', b"Paris"),
    "choice": (b'{"answer": "B"}', b"The answer is B."),
    "regex": (b'{"pattern": "Paris"}', b"Paris"),
    "json_schema": (b'{"schema": {"type": "object"}}', b"{}"),
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(
    valkey: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """One service for all of these tests: it has to survive every one of them."""
    store_settings = own_shard(valkey)
    async with running_api(store_settings, tmp_path_factory.mktemp("api")) as api:
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def faces(api: Running) -> AsyncIterator[tuple[GrpcFace, HttpFace]]:
    """Both transports of it."""
    async with (
        grpc.aio.insecure_channel(api.addresses.grpc) as channel,
        httpx.AsyncClient(base_url=api.addresses.http, timeout=30) as http,
    ):
        yield GrpcFace(channel), HttpFace(http)


@pytest.fixture
def grpc_face(faces: tuple[GrpcFace, HttpFace]) -> GrpcFace:
    """Over gRPC, with names of the test's own."""
    faces[0].prefix = secrets.token_hex(4)
    return faces[0]


@pytest.fixture
def http_face(faces: tuple[GrpcFace, HttpFace]) -> HttpFace:
    """Over HTTP, as well."""
    faces[1].prefix = secrets.token_hex(4)
    return faces[1]


@pytest_asyncio.fixture(loop_scope="module")
async def batch(face: Face) -> str:
    """An open batch of the pipeline `exact`."""
    await face.register("task", "exact")
    return await face.open("task", batch_id="batch")


# -- tasks ---------------------------------------------------------------------------------------
async def test_an_unknown_pipeline(face: Face) -> None:
    await refused(face, face.register("task", "telepathy"), NotFound, "task.pipeline")
    await refused(face, face.open("task"), NotFound, "task_id")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"batch_size": -1}, "task.batch_size"),
        ({"batch_size": 2_000_000}, "task.batch_size"),
        ({"delay_budget_ms": -5}, "task.delay_budget_ms"),
        ({"trainer_cost_rate": -0.5}, "task.trainer_cost_rate"),
        ({"trainer_cost_rate": float("nan")}, "task.trainer_cost_rate"),
        ({"trainer_cost_rate": float("inf")}, "task.trainer_cost_rate"),
        ({"settings": {"reward_pass": "much"}}, "settings.reward_pass"),
        ({"settings": {"reward_pas": 1}}, "settings.reward_pas"),
    ],
)
async def test_a_malformed_task(face: Face, fields: dict[str, Any], field: str) -> None:
    await refused(face, face.register("task", "exact", **fields), InvalidRequest, field)
    assert await face.register("task", "exact")


async def test_a_task_without_a_name(face: Face) -> None:
    await refused(face, face.register("", "exact"), InvalidRequest, "task.task_id")


async def test_settings_over_their_limit(face: Face) -> None:
    settings = {"strategies": ["x" * 100_000]}
    call = face.register("task", "exact", settings=settings)
    await refused(face, call, TooLarge, "settings")


async def test_a_task_registered_again_with_other_content(face: Face) -> None:
    assert await face.register("task", "exact")
    assert not await face.register("task", "exact")
    await refused(face, face.register("task", "choice"), Conflict, "task.task_id")


# -- batches -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"batch_id": "with space"}, "batch_id"),
        ({"size": -1}, "size"),
        ({"group_size": -8}, "group_size"),
        ({"deadline_ms": 0}, "deadline_ms"),
        ({"deadline_ms": -1}, "deadline_ms"),
        ({"deadline_ms": 10**12}, "deadline_ms"),
        ({"deadline_ns": 1_800_000_000_000}, "deadline_ns"),  # milliseconds
        ({"deadline_ns": 2**62}, "deadline_ns"),
        ({"deadline_ns": 1_800_000_000 * 10**9, "deadline_ms": 5}, "deadline_ns"),
    ],
)
async def test_a_malformed_batch(
    face: Face, batch: str, fields: dict[str, Any], field: str
) -> None:
    await refused(face, face.open("task", **fields), InvalidRequest, field)
    assert await face.open("task", batch_id="another")


async def test_a_batch_opened_again_as_another(face: Face, batch: str) -> None:
    assert await face.open("task", batch_id=batch) == batch
    await refused(face, face.open("task", batch_id=batch, size=7), Conflict, "batch_id")


async def test_a_batch_that_is_not_there(face: Face, batch: str) -> None:
    await refused(face, face.state("none"), NotFound, "batch_id")
    await refused(face, face.submit("none", [Item("r")]), NotFound, "batch_id")
    await refused(face, face.rewards("none"), NotFound, "batch_id")
    await refused(face, face.cancel("none"), NotFound, "batch_id")
    await refused(face, face.cancel_requests("none", ["r"], []), NotFound, "batch_id")
    await refused(face, face.cancel_requests(batch, [], []), InvalidRequest, "request_ids")
    await refused(face, face.seal("none"), NotFound, "batch_id")


async def test_a_cursor_before_the_beginning(face: Face, batch: str) -> None:
    await refused(face, face.rewards(batch, cursor=-1), InvalidRequest, "cursor")


async def test_a_hint_for_nothing(face: Face, batch: str) -> None:
    await face.hint("task", 64)
    await refused(face, face.hint("task", -1), InvalidRequest, "size")
    await refused(face, face.hint("none", 1), NotFound, "task_id")


# -- requests ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("item", "kind", "field"),
    [
        (Item(""), InvalidRequest, "request_id"),
        (Item("with space"), InvalidRequest, "request_id"),
        (Item("x" * 257), InvalidRequest, "request_id"),
        (Item("r", group_id="with space"), InvalidRequest, "group_id"),
        (Item("r", reference=b"{}"), InvalidRequest, "reference.answers"),
        (Item("r", reference=b'{"answers": []}'), InvalidRequest, "reference.answers"),
        (Item("r", reference=b'{"answers": [7]}'), InvalidRequest, "reference.answers[0]"),
        (Item("r", reference=b'{"answers": ["a"], "x": 1}'), InvalidRequest, "reference.x"),
    ],
)
async def test_a_bad_request_among_good_ones(
    face: Face, batch: str, item: Item, kind: type[AssayError], field: str
) -> None:
    items = [Item("good/0"), Item("good/1"), item]
    await refused(face, face.submit(batch, items), kind, f"requests[2].{field}")
    assert await face.submit(batch, items[:2]) == (2, 0), "nothing of the message was stored"


async def test_a_json_body_that_is_not_utf8(http_face: HttpFace) -> None:
    await http_face.register("task", "exact")
    batch = await http_face.open("task")
    body = b'{"requests": [{"request_id": "a", "response": "\xe9", "reference": {}}]}'
    headers = {"content-type": "application/json"}
    url = f"/v1/batches/{batch}/requests"
    answer = await http_face.http.post(url, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "body")


async def test_a_lone_surrogate_in_a_reference(face: Face, batch: str) -> None:
    items = [Item("good"), Item("a", reference=b'{"answers": ["\\ud800"]}')]
    with pytest.raises(Refusal) as caught:
        await face.submit(batch, items)
    assert caught.value.reason == InvalidRequest.reason
    assert caught.value.field.startswith("requests[1].reference")
    assert await face.submit(batch, items[:1]) == (1, 0), "nothing of the message was stored"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "response"),
        ({"response": None}, "response"),
        ({"response": "x", "response_base64": "eA=="}, "response"),
        ({"response": 7}, "response"),
        ({"response_base64": "no base64!"}, "response_base64"),
        ({"response_base64": "\u00e9"}, "response_base64"),
    ],
)
async def test_a_json_request_gives_its_response_in_exactly_one_way(
    http_face: HttpFace, fields: dict[str, Any], field: str
) -> None:
    await http_face.register("task", "exact")
    batch = await http_face.open("task")
    good = {"request_id": "g", "response": "x", "reference": {"answers": ["x"]}}
    bad = {"request_id": "r", "reference": {"answers": ["x"]}, **fields}
    url = f"/v1/batches/{batch}/requests"
    answer = await http_face.http.post(url, json={"requests": [good, bad]})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, f"requests[1].{field}")


@pytest.mark.parametrize("pipeline", ["exact", "choice", "regex", "json_schema"])
async def test_any_bytes_are_judged_among_ordinary_responses(
    face: Face, api: Running, pipeline: str
) -> None:
    reference, right = RIGHT[pipeline]
    responses = [right, *STRANGE, right + b"\0", b"\xff" + right, right]
    items = [Item(f"r{at}", response, reference) for at, response in enumerate(responses)]
    await face.register("task", pipeline)
    batch = await face.open("task", size=len(items))
    assert await face.submit(batch, items) == (len(items), 0)
    assert await face.submit(batch, items) == (0, len(items)), "the same bytes are the same request"
    other = Item("r1", STRANGE[0] + b"\0", reference)
    await refused(face, face.submit(batch, [other]), Conflict, "requests[0].request_id")
    async with working(api.api.settings.store, stage="match"):
        rewards = await face.rewards(batch)
    assert rewards == {item.request_id: 1.0 for item in items}, "each came to a worker"


@pytest.mark.parametrize(
    "reference",
    [b"\xff", b"{", b"[]", b"7", b"null", b'{"answers": NaN}', b'{"answers": ["\0"]}', b"\xef\xbb"],
)
async def test_a_reference_that_is_no_json_object(grpc_face: GrpcFace, reference: bytes) -> None:
    await grpc_face.register("task", "exact")
    batch = await grpc_face.open("task")
    call = grpc_face.submit(batch, [Item("r", reference=reference)])
    with pytest.raises(Refusal) as caught:
        await call
    assert caught.value.reason == InvalidRequest.reason
    assert caught.value.field.startswith("requests[0].reference")


async def test_a_reference_that_is_missing(grpc_face: GrpcFace, http_face: HttpFace) -> None:
    await grpc_face.register("task", "exact")
    batch = await grpc_face.open("task")
    field = "requests[0].reference"
    call = grpc_face.submit(batch, [Item("r", reference=b"")])
    await refused(grpc_face, call, InvalidRequest, field)
    body = {"requests": [{"request_id": "r", "response": "x"}]}
    answer = await http_face.http.post(f"/v1/batches/{batch}/requests", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field


async def test_an_unknown_name_in_a_json_body(http_face: HttpFace) -> None:
    body = {"task_id": "t", "pipeline": "exact", "batchsize": 3}
    answer = await http_face.http.post("/v1/tasks", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "batchsize"


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"[]", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_json_object(http_face: HttpFace, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = await http_face.http.post("/v1/tasks", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["reason"] == InvalidRequest.reason
    assert answer.json()["error"]["field"] == "body"


async def test_a_path_and_a_method_that_are_not_there(http_face: HttpFace) -> None:
    answer = await http_face.http.get("/v1/rewards")
    assert (answer.status_code, answer.json()["error"]["reason"]) == (404, NotFound.reason)
    answer = await http_face.http.delete("/v1/batches")
    assert answer.status_code == 405
    assert answer.json()["error"]["message"]


async def test_a_message_without_requests(face: Face, batch: str) -> None:
    await refused(face, face.submit(batch, []), InvalidRequest, "requests")


async def test_too_many_requests_in_one_message(face: Face, batch: str) -> None:
    items = [Item(f"r{index}") for index in range(4_097)]
    await refused(face, face.submit(batch, items), TooLarge, "requests")


async def test_an_id_twice_in_one_message(face: Face, batch: str) -> None:
    items = [Item("a"), Item("b"), Item("a")]
    await refused(face, face.submit(batch, items), InvalidRequest, "requests[2].request_id")
    assert await face.submit(batch, items[:2]) == (2, 0)


async def test_an_id_again_with_other_content(face: Face, batch: str) -> None:
    assert await face.submit(batch, [Item("a"), Item("b")]) == (2, 0)
    assert await face.submit(batch, [Item("b"), Item("c")]) == (1, 1)
    changed = [Item("d"), Item("a", response=b"Rome")]
    await refused(face, face.submit(batch, changed), Conflict, "requests[1].request_id")
    assert await face.submit(batch, [Item("d")]) == (1, 0), "nothing of the message was stored"


async def test_a_sealed_batch(face: Face, batch: str) -> None:
    await face.submit(batch, [Item("a")])
    await face.seal(batch)
    assert await face.state(batch) == "SEALED"
    await refused(face, face.submit(batch, [Item("b")]), FailedPrecondition, "batch_id")
    assert await face.submit(batch, [Item("a")]) == (0, 1), "a repetition is no new request"


async def test_more_requests_than_the_batch_holds(face: Face, batch: str) -> None:
    small = await face.open("task", size=2)
    items = [Item("a"), Item("b"), Item("c")]
    with pytest.raises(Refusal) as caught:
        await face.submit(small, items)
    assert caught.value.reason == FailedPrecondition.reason
    assert await face.submit(small, items[:2]) == (2, 0)
    assert await face.state(small) == "SEALED"


async def test_a_message_over_the_limit(face: Face) -> None:
    field = "message" if face.transport == "grpc" else "body"
    await refused(face, face.send_bytes(RewardSettings().message_bytes_max + 1), TooLarge, field)
    if isinstance(face, GrpcFace):  # in one piece
        bytes_max = RewardSettings().grpc_message_bytes_max
        request = reward_pb2.RewardRequest(request_id="r", response=b"x" * bytes_max)
        single = reward_pb2.SubmitRequest(batch_id="b", requests=[request])
        await refused(face, answer_of(face.stub.Submit(single)), TooLarge, field)
    assert await face.register("task", "exact")


async def test_50_megabytes(face: Face) -> None:
    field = "message" if face.transport == "grpc" else "body"
    await refused(face, face.send_bytes(50 * 1024**2), TooLarge, field)
    assert await face.register("task", "exact")


async def test_a_score_of_nothing_known(face: Face) -> None:
    await refused(face, face.score([Item("a")], pipeline="telepathy"), NotFound, "pipeline")
    await refused(face, face.score([Item("a")]), InvalidRequest, "pipeline")
    await refused(face, face.score([Item("a")], task_id="none"), NotFound, "task_id")
    call = face.score([Item("a")], task_id="none", pipeline="exact")
    await refused(face, call, InvalidRequest, "task_id")
    await refused(face, face.score([], pipeline="exact"), InvalidRequest, "requests")


async def test_hostile_calls_leave_a_service_that_judges(
    face: Face, batch: str, api: Running
) -> None:
    for item in (Item(""), Item("r", reference=b"{}")):
        with pytest.raises(Refusal):
            await face.submit(batch, [item])
    async with working(api.api.settings.store, stage="match"):
        assert await face.score([Item("a"), Item("b")], pipeline="exact") == [1.0, 1.0]
