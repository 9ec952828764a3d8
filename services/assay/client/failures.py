"""Translates failed calls to the errors of `assay.core.errors`, by the `reason` from the server.

If there is no reason (the connection broke, a proxy answered) the gRPC status decides, by the
client's side of the table in `assay.edge.status`. `BatchLost` is detected here, never sent.
"""

import re
from typing import Final

import grpc

from assay.core.errors import (
    AssayError,
    Conflict,
    DeadlinePassed,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    Saturated,
    TooLarge,
    Unauthenticated,
)


class BatchLost(NotFound):
    """The store lost acknowledged requests, and they cannot be restored under the old batch name.

    The batch is gone, or complete without some of its requests, or they were too large to keep a
    copy. Results that were yielded are valid. Register the task, open a new batch (another
    `batch_id`), and submit the requests that have no result.
    """


BY_REASON: Final[dict[str, type[AssayError]]] = {
    error.reason: error for error in AssayError.__subclasses__()
}
BY_STATUS: Final[dict[grpc.StatusCode, type[AssayError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Saturated,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlinePassed,
    grpc.StatusCode.UNAVAILABLE: DependencyDown,
    # Not cancelled by us (that is an asyncio cancellation): the server stopped during the call.
    grpc.StatusCode.CANCELLED: DependencyDown,
    # Without a reason: the service is of a release that does not have this call.
    grpc.StatusCode.UNIMPLEMENTED: FailedPrecondition,
}
WORTH_REPEATING: Final = (DependencyDown, Saturated)
"""Every call is idempotent, so these may be sent again unchanged."""

_TRANSPORT_TOO_LARGE: Final = re.compile(r"message larger than max", re.IGNORECASE)
_HTTP_PORT: Final = "Trying to connect an http1.x server (HTTP status 400)"
"""What grpcio says of a server that speaks HTTP/1.1 and refuses the first bytes of HTTP/2."""
_NOT_SENT: Final = "Internal error from Core"
"""What grpcio's asyncio side says where a message of a stream could not be sent because the call
had ended. The status that it ended with, often a refusal, is then lost; no server says this."""
_CLOSED: Final = re.compile(r"^failed to connect to all.*Socket closed$")
_MAYBE_TLS: Final = "(as by a service with TLS: grpcs://)"
_NOT_TLS: Final = "WRONG_VERSION_NUMBER"
"""In what OpenSSL says of a server that answers without TLS."""


def error_of(failed: grpc.aio.AioRpcError) -> AssayError:
    """Translate a failed call."""
    trailers = {
        key: value for key, value in failed.trailing_metadata() or () if isinstance(value, str)
    }
    message = failed.details() or failed.code().name
    kind = BY_REASON.get(trailers.get("reason", ""))
    if kind is None and _TRANSPORT_TOO_LARGE.search(message):
        return TooLarge(message, field="message")
    if kind is None and message == _NOT_SENT:
        return DependencyDown("the call ended while a message was being sent")
    if kind is None and _HTTP_PORT in message:
        told = (
            "url: the service answers in HTTP/1.1: name its gRPC port (8470), or http://host:port"
        )
        return InvalidRequest(told, field="url")
    if kind is None and _NOT_TLS in message:
        return InvalidRequest(
            "url: the service does not speak TLS: name it by grpc:// or host:port", field="url"
        )
    if kind is None and _CLOSED.search(message):
        message = f"{message} {_MAYBE_TLS}"
    if kind is None:
        kind = BY_STATUS.get(failed.code(), AssayError)
    retry_after_ms = trailers.get("retry-after-ms", "0")
    return kind(
        message,
        field=trailers.get("field", ""),
        retry_after_s=int(retry_after_ms) / 1000 if retry_after_ms.isdecimal() else 0.0,
    )
