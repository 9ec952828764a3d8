"""Operations that the contract alone defines: a made-up service, over gRPC and over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from assay.core.answers import StoredArtifact
from assay.reward import derived
from assay.v1 import access_pb2, reward_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.descriptor import MethodDescriptor

TEXT, WHOLE, YES, FRACTION = 9, 3, 8, 1
OPTIONAL, REPEATED = 1, 3


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: int
    label: int = OPTIONAL
    present: bool = False


ASKED = (
    Field("batch_id", TEXT),
    Field("tags", TEXT, REPEATED),
    Field("most", WHOLE, present=True),
    Field("hard", YES),
    Field("share", FRACTION),
)
STORED = (Field("sha256", TEXT), Field("size", WHOLE), Field("kept_until_ns", WHOLE))


def contract() -> Sequence[MethodDescriptor]:
    """The methods of a service that only this test has."""
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/derived.proto",
        package="tests.derived",
        syntax="proto3",
        dependency=["assay/v1/access.proto"],
    )
    service = file.service.add(name="Made")
    for name, http, asked, answered in (
        ("PinBatch", "POST /batches/{batch_id}/pin", ASKED, STORED),
        ("CountTags", "GET /batches/{batch_id}/tags", ASKED[:1] + ASKED[2:], (Field("n", WHOLE),)),
        ("DropAll", "POST /drop", (), ()),
        ("ByHand", "", (), ()),
    ):
        for kind, fields in (("Request", asked), ("Response", answered)):
            message = file.message_type.add(name=name + kind)
            for number, one in enumerate(fields, 1):
                field = message.field.add(
                    name=one.name, number=number, type=one.type, label=one.label
                )
                if one.present:
                    field.proto3_optional = True
                    field.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{one.name}")
        method = service.method.add(
            name=name,
            input_type=f".tests.derived.{name}Request",
            output_type=f".tests.derived.{name}Response",
        )
        method.options.Extensions[access_pb2.http] = http
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    found: Sequence[MethodDescriptor] = pool.FindServiceByName("tests.derived.Made").methods
    return found


CONTRACT = contract()


class Service:
    """Returns an answer of its own, a number, or nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    async def pin_batch(
        self,
        tenant: str,
        batch_id: str,
        *,
        tags: list[str],
        most: int | None,
        hard: bool,
        share: float,
    ) -> StoredArtifact:
        """Pin it.

        Raises:
            NotFound: no such batch.
        """  # fmt: skip
        self.calls.append((tenant, batch_id, tags, most, hard, share))
        return StoredArtifact(sha256="ab", size=3, kept_until_ns=7)

    async def count_tags(
        self, tenant: str, batch_id: str, most: int | None, hard: bool, share: float
    ) -> int:
        self.calls.append((tenant, batch_id, most, hard, share))
        return 5

    async def drop_all(self, tenant: str) -> None:
        self.calls.append((tenant,))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr(derived, "current_call", lambda: SimpleNamespace(tenant="red"))
    return Service()


def app_of(service: Service) -> FastAPI:
    app = FastAPI()
    app.include_router(derived.operations(service, APIRouter(prefix="/v1"), CONTRACT))
    return app


async def posted(service: Service, method: str, path: str, **more: Any) -> httpx.Response:
    transport = httpx.ASGITransport(app_of(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://made") as http:
        return await http.request(method, path, **more)


def request(name: str, **fields: Any) -> Any:
    (rpc,) = (one for one in CONTRACT if one.name == name)
    return GetMessageClass(rpc.input_type)(**fields)


async def test_fields_and_answers_go_over_grpc_by_their_names(service: Service) -> None:
    rpcs: Any = derived.rpcs(service, CONTRACT)
    assert sorted(rpcs) == ["CountTags", "DropAll", "PinBatch"]
    asked = request("PinBatch", batch_id="b", tags=["x", "y"], hard=True, share=0.5)
    answer = await rpcs["PinBatch"](asked, None)
    assert (answer.sha256, answer.size, answer.kept_until_ns) == ("ab", 3, 7)
    assert (await rpcs["CountTags"](request("CountTags", batch_id="b", most=0), None)).n == 5
    await rpcs["DropAll"](request("DropAll"), None)
    assert service.calls == [
        ("red", "b", ["x", "y"], None, True, 0.5), ("red", "b", 0, False, 0.0), ("red",)
    ]  # fmt: skip


async def test_the_same_over_http_from_path_body_and_query(service: Service) -> None:
    body = {"tags": ["x"], "most": 4, "share": 0.5}
    answer = await posted(service, "POST", "/v1/batches/b/pin", json=body)
    assert answer.json() == {"sha256": "ab", "size": 3, "kept_until_ns": 7}
    answer = await posted(service, "GET", "/v1/batches/b/tags?most=2&hard=true")
    assert (answer.status_code, answer.json()) == (200, 5)
    answer = await posted(service, "POST", "/v1/drop")
    assert (answer.status_code, answer.content) == (204, b"")
    assert service.calls == [
        ("red", "b", ["x"], 4, False, 0.5), ("red", "b", 2, True, 0.0), ("red",)
    ]  # fmt: skip


async def test_a_body_of_another_form_is_refused_and_calls_nothing(service: Service) -> None:
    bodies: list[Any] = [{"tag": []}, {"tags": "x"}, {"share": "half"}, []]
    for body in bodies:
        answer = await posted(service, "POST", "/v1/batches/b/pin", json=body)
        assert answer.status_code == 422, body
    assert service.calls == []


def test_the_page_describes_an_operation(service: Service) -> None:
    page = app_of(service).openapi()
    pin = page["paths"]["/v1/batches/{batch_id}/pin"]["post"]
    assert pin["description"] == "Pin it."
    fields = page["components"]["schemas"]["PinBatchBody"]["properties"]
    assert sorted(fields) == ["hard", "most", "share", "tags"]
    assert sorted(page["components"]["schemas"]["StoredArtifact"]["properties"]) == [
        "kept_until_ns", "sha256", "size",
    ]  # fmt: skip


def test_a_service_that_lacks_a_method_or_a_field_is_refused_at_the_start() -> None:
    class Without(Service):
        async def drop_all(self, tenant: str, more: int) -> None:  # type: ignore[override]
            ...

    with pytest.raises(TypeError, match="more"):
        derived.rpcs(Without(), CONTRACT)
    with pytest.raises(AttributeError, match="pin_batch"):
        derived.rpcs(object(), CONTRACT)


def test_the_contract_defines_what_it_says() -> None:
    listed = reward_pb2.DESCRIPTOR.services_by_name["RewardService"].methods
    http = {one.name: one.GetOptions().Extensions[access_pb2.http] for one in listed}
    assert {name for name, path in http.items() if path} >= {"SealBatch", "GetBatch", "Hint"}
