"""Errors become statuses here, on gRPC and on HTTP, and nowhere else.

Handlers raise; the edge translates with one table. An error of the contract carries its `reason`,
the offending `field` and `retry-after-ms`, as trailing metadata on gRPC and as a JSON body on HTTP.
Anything else is our bug: its traceback goes to the log, the caller gets only INTERNAL and the id
of the call to report.
"""

from dataclasses import dataclass
from typing import Final

import grpc

from assay.core.errors import (
    AssayError,
    Conflict,
    DeadlinePassed,
    DependencyDown,
    FailedPrecondition,
    InvalidRequest,
    IsolationUnavailable,
    NotFound,
    PermissionDenied,
    Saturated,
    TooLarge,
    Unauthenticated,
)

MESSAGE_CHARS_MAX: Final = 1_000
"""Error texts travel in HTTP/2 headers, of which 8 KB are always allowed."""
FIELD_CHARS_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One row of the table."""

    grpc: grpc.StatusCode
    http: int


STATUS: Final[dict[type[AssayError], Status]] = {
    InvalidRequest: Status(grpc=grpc.StatusCode.INVALID_ARGUMENT, http=400),
    # Not RESOURCE_EXHAUSTED: that is retried.
    TooLarge: Status(grpc=grpc.StatusCode.INVALID_ARGUMENT, http=413),
    Conflict: Status(grpc=grpc.StatusCode.ALREADY_EXISTS, http=409),
    FailedPrecondition: Status(grpc=grpc.StatusCode.FAILED_PRECONDITION, http=409),
    NotFound: Status(grpc=grpc.StatusCode.NOT_FOUND, http=404),
    Unauthenticated: Status(grpc=grpc.StatusCode.UNAUTHENTICATED, http=401),
    PermissionDenied: Status(grpc=grpc.StatusCode.PERMISSION_DENIED, http=403),
    Saturated: Status(grpc=grpc.StatusCode.RESOURCE_EXHAUSTED, http=429),
    DeadlinePassed: Status(grpc=grpc.StatusCode.DEADLINE_EXCEEDED, http=504),
    DependencyDown: Status(grpc=grpc.StatusCode.UNAVAILABLE, http=503),
    IsolationUnavailable: Status(grpc=grpc.StatusCode.UNIMPLEMENTED, http=501),
}

INTERNAL: Final = Status(grpc=grpc.StatusCode.INTERNAL, http=500)
INTERNAL_REASON: Final = AssayError.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail:
    """What a caller learns about a failed call; the same on every transport."""

    status: Status
    reason: str
    message: str
    field: str = ""
    retry_after_ms: int = 0

    def trailers(self) -> tuple[tuple[str, str], ...]:
        """As gRPC trailing metadata (printable ASCII only)."""
        pairs = [("reason", self.reason)]
        if self.field:
            pairs.append(("field", _ascii(self.field)))
        if self.retry_after_ms:
            pairs.append(("retry-after-ms", str(self.retry_after_ms)))
        return tuple(pairs)

    def headers(self) -> dict[str, str]:
        """As HTTP headers, in addition to the body."""
        headers = {}
        if self.retry_after_ms:
            headers["Retry-After"] = str(-(-self.retry_after_ms // 1000))
        if self.status.http == STATUS[Unauthenticated].http:
            headers["WWW-Authenticate"] = "Bearer"
        return headers

    def body(self) -> dict[str, dict[str, str | int]]:
        """As a JSON body: `ErrorDetail` of common.proto."""
        return {
            "error": {
                "reason": self.reason,
                "field": self.field,
                "retry_after_ms": self.retry_after_ms,
                "message": self.message,
            }
        }


def status_of(error: AssayError) -> Status:
    """Return the row of its class, or of the nearest base class in the table."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def detail_of(error: AssayError) -> ErrorDetail:
    """Translate an error of the contract."""
    return ErrorDetail(
        status=status_of(error),
        reason=error.reason,
        message=_unicode(error.message[:MESSAGE_CHARS_MAX]),
        field=_unicode(error.field[:FIELD_CHARS_MAX]),
        retry_after_ms=round(error.retry_after_s * 1000),
    )


def internal_detail(call_id: str) -> ErrorDetail:
    """Reveal nothing about a bug except where its traceback is."""
    return ErrorDetail(
        status=INTERNAL,
        reason=INTERNAL_REASON,
        message=f"internal error; the log has more under call_id {call_id}",
    )


def _unicode(text: str) -> str:
    """Replace lone surrogates, which no transport can carry, by escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _ascii(text: str) -> str:
    escaped = text.encode("ascii", "backslashreplace").decode("ascii")
    return "".join(c if c.isprintable() else "?" for c in escaped)
