"""Errors named after who can act.

    AssayError
    +-- InvalidRequest      the caller changes the request; names the field
    +-- TooLarge            the caller sends less; names the field
    +-- Conflict            the caller used a name twice for different things
    +-- FailedPrecondition  the thing is not in a state for this (a sealed batch)
    +-- NotFound            the caller names something that is not there
    +-- Unauthenticated     the caller shows no or a wrong token
    +-- PermissionDenied    the operator: this tenant may not do that
    +-- Saturated           the caller comes back after `retry_after_s`
    +-- DeadlinePassed      the caller's own time limit ran out
    +-- DependencyDown      the operator: the store cannot be reached; safe to send again
    +-- IsolationUnavailable  the operator: this host cannot isolate untrusted code

They become gRPC and HTTP statuses in one place (`assay.edge.status`). Anything else that reaches
the edge is our bug: a traceback in the log, INTERNAL on the wire.
"""

from collections.abc import Sequence
from typing import Any, ClassVar


class AssayError(Exception):
    """Base of all errors that are part of the contract. They can be pickled."""

    reason: ClassVar[str] = "internal"
    """Stable identifier for clients and metrics."""

    def __init__(self, message: str, *, field: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an unpickled error is made by its class from `args`, the message alone, which
        # constructors that take more refuse. The caller of a pool of processes then never returns.
        return _restored, (type(self), self.args), vars(self)


def _restored(error: type[AssayError], args: tuple[Any, ...]) -> AssayError:
    """Return an error without its members, which `pickle` adds."""
    return error.__new__(error, *args)


class InvalidRequest(AssayError):
    """A field is wrong; `field` is its path: `requests[3].reference.answers`."""

    reason = "invalid_request"


class TooLarge(AssayError):
    """A message, or the named field, is over its size limit. Sending it again does not help."""

    reason = "too_large"


class Conflict(AssayError):
    """The same name with different content."""

    reason = "conflict"


class FailedPrecondition(AssayError):
    """The batch is sealed, cancelled or complete; or the service is too old for the call."""

    reason = "failed_precondition"


class NotFound(AssayError):
    """No such task, batch, pipeline or dead letter for this tenant."""

    reason = "not_found"


class Unauthenticated(AssayError):
    """No token, or an unknown one."""

    reason = "unauthenticated"


class PermissionDenied(AssayError):
    """The caller is known and may not do this."""

    reason = "permission_denied"


class Saturated(AssayError):
    """A quota or a queue is full; nothing was stored."""

    reason = "saturated"


class DeadlinePassed(AssayError):
    """The call's deadline passed before it could be done."""

    reason = "deadline_passed"


class DependencyDown(AssayError):
    """The store cannot be reached. Every call is idempotent, so sending it again is safe."""

    reason = "dependency_down"


class IsolationUnavailable(AssayError):
    """The host cannot provide the isolation that the settings require."""

    reason = "isolation_unavailable"


def field_path(steps: Sequence[str | int]) -> str:
    """`("requests", 3, "response")` -> `requests[3].response`."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def not_json() -> InvalidRequest:
    """The error for a body that cannot be parsed."""
    return InvalidRequest("body: not JSON in UTF-8", field="body")


def not_protobuf() -> InvalidRequest:
    """The error for a message that cannot be parsed."""
    message = "message: not a protobuf message of this method (or a string in it not UTF-8)"
    return InvalidRequest(message, field="message")
