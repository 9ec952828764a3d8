"""What every call passes through, on gRPC and on HTTP alike.

In this order: an id for the logs, a span, the limit of calls at once, the tenant's token; then the
handler; then the translation of what it raised. A handler finds who calls in `current_call()`,
which fails (and so refuses) outside of an authenticated call.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

import structlog

from assay.core.errors import AssayError, Saturated
from assay.edge.auth import Tenant, Tenants
from assay.edge.clock import Clock
from assay.edge.logs import bound
from assay.edge.status import ErrorDetail, detail_of, internal_detail
from assay.edge.tracing import Tracer

RETRY_AFTER_S: Final = 0.25
"""What a call that finds the service full is told; clients add jitter of their own."""
CALL_ID_CHARS_MAX: Final = 64

log = structlog.get_logger(__name__)

OnCall = Callable[[str, str, float], None]
"""Told of every call's end: method, reason ("ok" or an error's), seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The call that is being answered."""

    call_id: str
    tenant: Tenant


_CURRENT: ContextVar[Call] = ContextVar("call")


def current_call() -> Call:
    """Return the call that is being answered.

    Raises:
        LookupError: no authenticated call; a bug of the caller's, never a way in.
    """
    return _CURRENT.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What is known of a call before anything was checked."""

    method: str
    authorization: str
    call_id: str = ""
    traceparent: str = ""


class OpenCall:
    """A call inside `CallGuard.call`; `error` says afterwards how it ended (`None` = well).

    `method` may be made more precise before the call ends (HTTP knows it after routing).
    """

    def __init__(self, *, method: str, call_id: str, admit: Callable[[str], None]) -> None:
        self.method = method
        self.call_id = call_id
        self.error: ErrorDetail | None = None
        self._admit = admit

    def admit(self) -> None:
        """Check limit and token; the first thing done inside the block.

        Raises:
            Saturated: too many calls at once.
            Unauthenticated: no tenant has the token.
        """
        self._admit(self.call_id)


class CallGuard:
    """Admits calls and says how each ended."""

    def __init__(
        self, *, tenants: Tenants, calls_max: int, clock: Clock, tracer: Tracer, on_call: OnCall
    ) -> None:
        self._tenants = tenants
        self._calls_max = calls_max
        self._clock = clock
        self._tracer = tracer
        self._on_call = on_call
        self._calls = 0

    @property
    def calls(self) -> int:
        """Calls being answered now."""
        return self._calls

    @contextmanager
    def call(self, arrival: Arrival) -> Iterator[OpenCall]:
        """Answer one call inside the block; what it raises becomes `OpenCall.error`.

        Cancellation passes through: the caller went away, there is nobody to tell.
        """
        call = OpenCall(
            method=arrival.method,
            call_id=_printable(arrival.call_id) or secrets.token_hex(8),
            admit=lambda call_id: self._admit(call_id, arrival.authorization),
        )
        reason = "cancelled"
        begun_ns = self._clock.monotonic_ns()
        self._calls += 1
        try:
            with bound(call_id=call.call_id, method=arrival.method):
                try:
                    with self._tracer.span(arrival.method, parent=arrival.traceparent):
                        yield call
                    reason = "ok"
                except AssayError as error:
                    call.error = detail_of(error)
                    reason = error.reason
                    log.info("call_refused", reason=reason, field=error.field, why=error.message)
                except Exception:  # the edge: what is no error of the contract is a bug
                    call.error = internal_detail(call.call_id)
                    reason = call.error.reason
                    log.exception("call_failed")
        finally:
            self._calls -= 1
            spent_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
            self._on_call(call.method, reason, spent_s)

    def _admit(self, call_id: str, authorization: str) -> None:
        if self._calls > self._calls_max:
            message = f"{self._calls_max} calls are being answered"
            raise Saturated(message, retry_after_s=RETRY_AFTER_S)
        tenant = self._tenants.authenticate(authorization)
        structlog.contextvars.bind_contextvars(tenant=tenant.tenant_id)
        _CURRENT.set(Call(call_id=call_id, tenant=tenant))


def _printable(call_id: str) -> str:
    cut = call_id[:CALL_ID_CHARS_MAX]
    return cut if cut.isascii() and cut.isprintable() else ""
