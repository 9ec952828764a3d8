"""Conversion between JSON bodies and the client's types. Pure."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar, cast

from assay.client.types import (
    BatchState,
    BatchStatus,
    Component,
    Evidence,
    GroupSummary,
    Page,
    Pipeline,
    Request,
    ResourceUse,
    Result,
    Scores,
    StageTiming,
    StoredArtifact,
    Task,
)
from assay.core.errors import AssayError, DependencyDown, InvalidRequest
from assay.core.outcome import by_outcome, outcome_named
from assay.core.tools.response import SENT_BYTES_MAX, response_bytes
from assay.core.tools.splitting import MESSAGE_BYTES, MESSAGE_REQUESTS, Runs

T = TypeVar("T")

CUT_SHORT: Final = "the stream of results ended before its batch"
"""Raised as `DependencyDown`; the next stream resumes."""
BY_REASON: Final[Mapping[str, type[AssayError]]] = {
    error.reason: error for error in AssayError.__subclasses__()
}
BY_STATUS: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    409: "failed_precondition",
    413: "too_large",
    422: "invalid_request",
    429: "saturated",
    501: "isolation_unavailable",
    504: "deadline_passed",
}
"""Where an answer has no `reason`: a proxy answered."""
_UNREACHED: Final = frozenset({408, 425, 502, 503})
_MESSAGE_CHARS_MAX: Final = 500
_NUMBERS: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


# -- out -----------------------------------------------------------------------------------------
def reward_requests(requests: Sequence[Request]) -> list[bytes]:
    """Requests as JSON objects.

    Raises:
        InvalidRequest: a reference, a transcript or a file has no form in JSON.
    """
    return [_reward_request(one, f"requests[{index}]") for index, one in enumerate(requests)]


def _reward_request(request: Request, field: str) -> bytes:
    sent = response_bytes(request.response)[:SENT_BYTES_MAX]
    response = base64.b64encode(sent).decode()
    told: dict[str, Any] = {
        "request_id": request.request_id,
        "group_id": request.group_id,
        "reference": _object(request.reference, f"{field}.reference"),
    }
    if response or not request.messages:
        told["response_base64"] = response
    if request.messages:
        told["messages"] = list(request.messages)
    if request.artifacts:
        told["artifacts"] = [
            _artifact(name, given, f"{field}.artifacts")
            for name, given in request.artifacts.items()
        ]
    return encoded(told, f"{field}.messages")


def _artifact(name: str, given: object, field: str) -> dict[str, str]:
    if isinstance(given, StoredArtifact):
        return {"name": name, "sha256": given.sha256}
    if not isinstance(given, (bytes, bytearray, memoryview)):
        raise InvalidRequest(f"{field}: {name!r} is not bytes", field=field)
    return {"name": name, "content_base64": base64.b64encode(given).decode()}


def _object(value: Mapping[str, Any] | bytes, field: str) -> Mapping[str, Any]:
    if not isinstance(value, bytes):
        encoded(value, field)
        return value
    try:
        told = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{field}: not JSON: {error}", field=field) from None
    if not isinstance(told, dict):
        raise InvalidRequest(f"{field}: not an object", field=field)
    return told


def encoded(value: object, field: str) -> bytes:
    """JSON in ASCII, so that lone surrogates are written as escapes.

    Raises:
        InvalidRequest: it has no form in JSON.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{field}: not JSON: {error}", field=field) from None


def runs(requests: Sequence[Request]) -> Runs[bytes]:
    """Runs of requests as JSON objects that fit one message each.

    Raises:
        InvalidRequest: one has no form in JSON.
    """
    ready = reward_requests(requests)
    return Runs(ready, weigh=len, bytes_max=MESSAGE_BYTES, items_max=MESSAGE_REQUESTS)


def joined(requests: Iterable[bytes], **more: object) -> bytes:
    """The body of a message of requests."""
    rest = encoded({key: value for key, value in more.items() if value is not None}, "body")
    comma = b"," if rest != b"{}" else b""
    return b'{"requests":[' + b",".join(requests) + b"]" + comma + rest[1:]


# -- in ------------------------------------------------------------------------------------------
def error_of(status: int, content: bytes, retry_after: str = "") -> AssayError:
    """The exception for an answer with an error status.

    Args:
        status: of HTTP.
        content: the body; that of a proxy may be anything.
        retry_after: the header.
    """
    try:
        told = json.loads(content)["error"]
        kind = BY_REASON.get(str(told["reason"]), AssayError)
        return kind(
            str(told["message"]),
            field=str(told["field"]),
            retry_after_s=int(told["retry_after_ms"]) / 1000,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        shown = content[:_MESSAGE_CHARS_MAX].decode("utf-8", "replace")
        message = f"HTTP {status}: {shown}"
        seconds = float(retry_after) if retry_after.isdecimal() else 0.0
        if status in _UNREACHED:
            return DependencyDown(message, retry_after_s=seconds)
        kind = BY_REASON.get(BY_STATUS.get(status, ""), AssayError)
        return kind(message, retry_after_s=seconds)


def parsed(content: bytes) -> dict[str, Any]:
    """The object of an answer.

    Raises:
        DependencyDown: it is not the service's.
    """
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        shown = content[:_MESSAGE_CHARS_MAX].decode("utf-8", "replace")
        raise DependencyDown(f"not an answer of the service: {shown}")
    return told


def task(told: Mapping[str, Any]) -> Task:
    """A registered task."""
    return made(Task, told["task"], created=told["created"])


def pipeline(told: Mapping[str, Any]) -> Pipeline:
    """What the service says of a pipeline, as the client's type."""
    return made(Pipeline, told)


def batch_status(told: Mapping[str, Any]) -> BatchStatus:
    """A batch at one instant."""
    return made(
        BatchStatus,
        told,
        state=BatchState(told["state"]),
        outcomes=by_outcome(told["outcomes"]),
        unjudged=by_outcome(told["unjudged"]),
    )


def page(told: Mapping[str, Any]) -> Page:
    """Results that came together."""
    scored = scores(told)
    return Page(
        results=scored.results,
        groups=scored.groups,
        cursor=told["cursor"],
        batch=batch_status(told["batch"]),
    )


def scores(told: Mapping[str, Any]) -> Scores:
    """Results and statistics."""
    return Scores(
        results=[_result(one) for one in told["results"]],
        groups=[made(GroupSummary, one) for one in told["groups"]],
    )


def _result(told: Mapping[str, Any]) -> Result:
    outcome = outcome_named(told["outcome"])
    return made(
        Result,
        told,
        outcome=outcome,
        reward=_number(told["reward"]) if outcome.carries_reward else None,
        evidence=made(Evidence, told["evidence"]),
        resource_use=made(ResourceUse, told["resource_use"]),
        stages=[made(StageTiming, one) for one in told["stages"]],
        components=tuple(made(Component, one) for one in told["components"]),
    )


def _number(told: object) -> float | None:
    """Numbers that JSON does not have arrive as text."""
    return None if told is None else float(_NUMBERS.get(str(told), told))  # type: ignore[arg-type]


def made(kind: type[T], told: Mapping[str, Any], **known: object) -> T:
    """An object of a type of the client; fields that a newer service adds are left out."""
    names = {one.name for one in fields(cast("Any", kind))}
    return kind(**{**{key: value for key, value in told.items() if key in names}, **known})
