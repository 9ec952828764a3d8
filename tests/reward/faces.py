"""The two faces of the reward API, gRPC and HTTP, behind one protocol."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import pytest

from assay.client.wire import parts
from assay.edge.status import STATUS
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    import httpx

    from assay.core.errors import AssayError

ONE_MESSAGE_BYTES = 2 * 1024**2
"""Larger ones are sent in parts, as the client does."""


@dataclass(eq=False, kw_only=True)
class Refusal(Exception):
    """A typed error as it came over the wire."""

    code: grpc.StatusCode | int
    reason: str
    field: str
    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class Item:
    """A request as a hostile client may send it."""

    request_id: str
    response: bytes = b"Paris"
    reference: bytes = b'{"answers": ["Paris"]}'
    group_id: str = ""


class Face(Protocol):
    """The service as one transport shows it."""

    transport: str
    prefix: str
    """Put before the names of tasks and batches."""

    async def register(self, task_id: str, pipeline: str, **fields: Any) -> bool: ...
    async def open(self, task_id: str, **fields: Any) -> str: ...
    async def submit(self, batch_id: str, items: Sequence[Item]) -> tuple[int, int]: ...
    async def seal(self, batch_id: str) -> None: ...
    async def cancel(self, batch_id: str) -> int: ...
    async def cancel_requests(
        self, batch_id: str, ids: Sequence[str], groups: Sequence[str]
    ) -> int: ...
    async def state(self, batch_id: str) -> str: ...
    async def hint(self, task_id: str, size: int) -> None: ...
    async def rewards(self, batch_id: str, cursor: int = 0) -> dict[str, float | None]: ...
    async def score(self, items: Sequence[Item], **fields: Any) -> list[float | None]: ...
    async def send_bytes(self, count: int) -> None: ...


class GrpcFace:
    """Over gRPC, with raw messages: the client library would refuse some of this itself."""

    transport = "grpc"

    prefix = ""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stub = reward_pb2_grpc.RewardServiceStub(channel)

    async def register(self, task_id: str, pipeline: str, **fields: Any) -> bool:
        settings = json.dumps(fields.pop("settings")) if "settings" in fields else ""
        task = reward_pb2.Task(
            task_id=_own(self, task_id), pipeline=pipeline, settings_json=settings, **fields
        )
        call = self.stub.RegisterTask(reward_pb2.RegisterTaskRequest(task=task))
        answer: reward_pb2.RegisterTaskResponse = await answer_of(call)
        return answer.created

    async def open(self, task_id: str, **fields: Any) -> str:
        _own_batch(self, fields)
        request = reward_pb2.OpenBatchRequest(task_id=_own(self, task_id), **fields)
        answer: reward_pb2.OpenBatchResponse = await answer_of(self.stub.OpenBatch(request))
        return answer.batch.batch_id

    async def submit(self, batch_id: str, items: Sequence[Item]) -> tuple[int, int]:
        request = reward_pb2.SubmitRequest(batch_id=batch_id, requests=map(_message, items))
        large = request.ByteSize() > ONE_MESSAGE_BYTES
        call = self.stub.SubmitParts(iter(parts(request))) if large else self.stub.Submit(request)
        answer: reward_pb2.SubmitResponse = await answer_of(call)
        return answer.accepted, answer.duplicates

    async def seal(self, batch_id: str) -> None:
        await answer_of(self.stub.SealBatch(reward_pb2.SealBatchRequest(batch_id=batch_id)))

    async def cancel_requests(
        self, batch_id: str, ids: Sequence[str], groups: Sequence[str]
    ) -> int:
        request = reward_pb2.CancelRequestsRequest(
            batch_id=batch_id, request_ids=ids, group_ids=groups
        )
        answer: reward_pb2.CancelRequestsResponse = await answer_of(
            self.stub.CancelRequests(request)
        )
        return answer.cancelled

    async def cancel(self, batch_id: str) -> int:
        request = reward_pb2.CancelBatchRequest(batch_id=batch_id)
        answer: reward_pb2.CancelBatchResponse = await answer_of(self.stub.CancelBatch(request))
        return answer.cancelled

    async def state(self, batch_id: str) -> str:
        request = reward_pb2.GetBatchRequest(batch_id=batch_id)
        answer: reward_pb2.GetBatchResponse = await answer_of(self.stub.GetBatch(request))
        return reward_pb2.BatchState.Name(answer.batch.state).removeprefix("BATCH_STATE_")

    async def hint(self, task_id: str, size: int) -> None:
        request = reward_pb2.HintRequest(task_id=_own(self, task_id), size=size)
        await answer_of(self.stub.Hint(request))

    async def rewards(self, batch_id: str, cursor: int = 0) -> dict[str, float | None]:
        request = reward_pb2.StreamResultsRequest(batch_id=batch_id, cursor=cursor)
        found: dict[str, float | None] = {}
        stream: Any = self.stub.StreamResults(request)
        try:
            async for page in stream:
                found.update((result.request_id, _reward(result)) for result in page.results)
        except grpc.aio.AioRpcError as failed:
            raise _refusal(failed) from None
        return found

    async def score(self, items: Sequence[Item], **fields: Any) -> list[float | None]:
        timeout_s = fields.pop("timeout_s", None)
        settings = json.dumps(fields.pop("settings")) if "settings" in fields else ""
        request = reward_pb2.ScoreRequest(
            requests=map(_message, items), settings_json=settings, **fields
        )
        call = self.stub.Score(request, timeout=timeout_s)
        answer: reward_pb2.ScoreResponse = await answer_of(call)
        return [_reward(result) for result in answer.results]

    async def send_bytes(self, count: int) -> None:
        await self.submit("b", [Item("r", response=b"x" * count)])


class HttpFace:
    """Over HTTP, with bodies written by hand."""

    transport = "http"

    prefix = ""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def _send(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {"content-type": "application/json"} if body is not None else {}
        answer = await self.http.request(method, path, content=body, headers=headers)
        if answer.status_code >= 400:
            error = answer.json()["error"]
            raise Refusal(
                code=answer.status_code,
                reason=error["reason"],
                field=error["field"],
                retry_after_ms=error["retry_after_ms"],
            )
        return answer.json() if answer.content else None

    async def _post(self, path: str, body: Any) -> Any:
        return await self._send("POST", path, json.dumps(body).encode())

    async def register(self, task_id: str, pipeline: str, **fields: Any) -> bool:
        body = {"task_id": _own(self, task_id), "pipeline": pipeline, **fields}
        return bool((await self._post("/v1/tasks", body))["created"])

    async def open(self, task_id: str, **fields: Any) -> str:
        _own_batch(self, fields)
        opened = await self._post("/v1/batches", {"task_id": _own(self, task_id), **fields})
        return str(opened["batch"]["batch_id"])

    async def submit(self, batch_id: str, items: Sequence[Item]) -> tuple[int, int]:
        body = b'{"requests": [' + b",".join(map(_json, items)) + b"]}"
        answer = await self._send("POST", f"/v1/batches/{batch_id}/requests", body)
        return answer["accepted"], answer["duplicates"]

    async def seal(self, batch_id: str) -> None:
        await self._send("POST", f"/v1/batches/{batch_id}/seal")

    async def cancel_requests(
        self, batch_id: str, ids: Sequence[str], groups: Sequence[str]
    ) -> int:
        body = {"request_ids": list(ids), "group_ids": list(groups)}
        return int((await self._post(f"/v1/batches/{batch_id}/requests/cancel", body))["cancelled"])

    async def cancel(self, batch_id: str) -> int:
        return int((await self._send("POST", f"/v1/batches/{batch_id}/cancel"))["cancelled"])

    async def state(self, batch_id: str) -> str:
        return str((await self._send("GET", f"/v1/batches/{batch_id}"))["state"])

    async def hint(self, task_id: str, size: int) -> None:
        await self._post(f"/v1/tasks/{_own(self, task_id)}/hint", {"size": size})

    async def rewards(self, batch_id: str, cursor: int = 0) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        path = f"/v1/batches/{batch_id}/results/stream?cursor={cursor}"
        async with self.http.stream("GET", path) as lines:
            if lines.status_code >= 400:
                await lines.aread()
                error = lines.json()["error"]
                raise Refusal(code=lines.status_code, **{k: error[k] for k in _DETAIL})
            async for line in lines.aiter_lines():
                page = json.loads(line)
                found.update((r["request_id"], r["reward"]) for r in page["results"])
        return found

    async def score(self, items: Sequence[Item], **fields: Any) -> list[float | None]:
        parts = [json.dumps(fields)[1:-1].encode()] if fields else []
        parts.append(b'"requests": [' + b",".join(map(_json, items)) + b"]")
        answer = await self._send("POST", "/v1/score", b"{" + b",".join(parts) + b"}")
        return [result["reward"] for result in answer["results"]]

    async def send_bytes(self, count: int) -> None:
        await self._send("POST", "/v1/batches/b/requests", b"x" * count)


def _own(face: Face, name: str) -> str:
    return name if not name or name.startswith(face.prefix) else face.prefix + name


def _own_batch(face: Face, fields: dict[str, Any]) -> None:
    if fields.get("batch_id"):
        fields["batch_id"] = _own(face, fields["batch_id"])


_DETAIL = ("reason", "field", "retry_after_ms")


def _reward(result: reward_pb2.Result) -> float | None:
    return result.reward if result.HasField("reward") else None


def _message(item: Item) -> reward_pb2.RewardRequest:
    return reward_pb2.RewardRequest(
        request_id=item.request_id,
        group_id=item.group_id,
        response=item.response,
        reference_json=item.reference,
    )


def _json(item: Item) -> bytes:
    """A response as JSON writes it: lone surrogates and NUL escaped, in base64 what is not text."""
    ids = json.dumps({"request_id": item.request_id, "group_id": item.group_id}).encode()
    try:
        response = {"response": item.response.decode("utf-8", "surrogatepass")}
    except UnicodeDecodeError:
        response = {"response_base64": base64.b64encode(item.response).decode()}
    told = json.dumps(response).encode()[1:-1]
    return ids[:-1] + b", " + told + b', "reference": ' + item.reference + b"}"


async def answer_of(call: Any) -> Any:
    """A call's answer, or its typed error."""
    try:
        return await call
    except grpc.aio.AioRpcError as failed:
        raise _refusal(failed) from None


def _refusal(failed: grpc.aio.AioRpcError) -> Refusal:
    trailers = dict(failed.trailing_metadata() or ())
    return Refusal(
        code=failed.code(),
        reason=str(trailers.get("reason", "")),
        field=str(trailers.get("field", "")),
        retry_after_ms=int(trailers.get("retry-after-ms", 0)),
    )


async def refused(
    face: Face, call: Awaitable[Any], kind: type[AssayError], field: str = ""
) -> Refusal:
    """Await the typed error of `kind` on that transport."""
    with pytest.raises(Refusal) as caught:
        await call
    status = STATUS[kind]
    refusal = caught.value
    assert refusal.reason == kind.reason
    assert refusal.code == (status.grpc if face.transport == "grpc" else status.http)
    assert refusal.field == field
    return refusal
