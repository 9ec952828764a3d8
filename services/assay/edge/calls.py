"""Steps of every call, the same for gRPC and HTTP.

In this order: an id for the logs, a span, the token or certificate, its roles, a slot at the door;
then the body is read and handled; then a raised error is translated, and the call audited. No part
of a call is read before it is admitted. A handler finds its caller in `current_call()`, which fails
(and so refuses) outside of an authenticated call. A stream ends soon after its token does.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

import structlog

from assay.core.errors import AssayError, PermissionDenied, Saturated, Unauthenticated
from assay.core.ids import TenantId
from assay.edge.access import rules
from assay.edge.access.audit import Audit
from assay.edge.auth import Callers, Tenant
from assay.edge.clock import Clock
from assay.edge.door import Door, Kind, Load
from assay.edge.logs import LinePace, bound
from assay.edge.status import ErrorDetail, detail_of, internal_detail
from assay.edge.tracing import Tracer

CALL_ID_CHARS_MAX: Final = 64
STRANGERS: Final = TenantId("")
"""Stands for all callers without a valid token; no tenant has this name."""
REFUSED: Final = frozenset({Unauthenticated.reason, PermissionDenied.reason})
"""Reasons that are audited for every call."""
REFUSALS_LOGGED_PER_S: Final = 10.0
"""Lines about refused calls, per tenant; callers without a valid token share one pace."""
REFUSALS_LOGGED_BURST: Final = 100
CHECK_AGAIN_S: Final = 5.0
"""How long a stream may outlive its token."""

log = structlog.get_logger(__name__)

OnCall = Callable[[str, str, float], None]
"""Called at the end of every call with its method, reason ("ok" or an error's) and seconds."""


@dataclass(slots=True, kw_only=True)
class Call:
    """The call that is being answered."""

    call_id: str
    tenant: Tenant
    """With its quota; of a stream, as of the last look at its token."""
    load: Load
    """The bytes of its message; released once they are stored."""
    about: dict[str, str] = field(default_factory=dict)
    """Names that it was sent, for the audit log: `task_id`, `batch_id`."""


_CURRENT: ContextVar[Call] = ContextVar("call")


def current_call() -> Call:
    """Return the call that is being answered.

    Raises:
        LookupError: no authenticated call; a bug in the calling code, never an access path.
    """
    return _CURRENT.get()


def note_about(**names: str) -> None:
    """Note which things the present call concerns, for the audit log; without a call, nothing."""
    call = _CURRENT.get(None)
    if call is not None:
        call.about.update(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What is known of a call before any check."""

    method: str
    authorization: str
    rule: rules.Rule | None = None
    """The roles that suffice; `None`: no one may."""
    certificate: tuple[str, ...] = ()
    """Names in the caller's certificate."""
    peer: str = ""
    call_id: str = ""
    traceparent: str = ""
    kind: Kind = Kind.CALL
    on_known: Callable[[TenantId], None] | None = None
    """Called once its token is found valid, before it waits for anything."""


class OpenCall:
    """A call inside `CallGuard.call`; afterwards `error` holds how it ended (`None` = success).

    `method` may be made more precise before the call ends (HTTP knows it after routing).
    """

    def __init__(
        self, *, method: str, call_id: str, admit: Callable[["OpenCall"], Awaitable[Call]]
    ) -> None:
        self.method = method
        self.call_id = call_id
        self.error: ErrorDetail | None = None
        self.tenant: Tenant | None = None
        self.about: dict[str, str] = {}
        self._admit = admit

    async def admit(self) -> Call:
        """Check the token, take a slot, keep pace; the first step inside the block.

        Raises:
            Unauthenticated: no one has the token.
            PermissionDenied: the token does not permit this call.
            Saturated: there is no slot for this tenant.
        """
        return await self._admit(self)


class CallGuard:
    """Admits calls and reports how each ended."""

    def __init__(
        self,
        *,
        callers: Callers,
        door: Door,
        clock: Clock,
        tracer: Tracer,
        on_call: OnCall,
        audit: Audit | None = None,
    ) -> None:
        self.door = door
        self._audit = audit
        self._callers = callers
        self._clock = clock
        self._tracer = tracer
        self._on_call = on_call
        self._refusals = LinePace(REFUSALS_LOGGED_PER_S, burst=REFUSALS_LOGGED_BURST)
        self._calls = 0
        self.begun = 0
        """Number of calls so far."""

    @property
    def calls(self) -> int:
        """Number of calls in progress."""
        return self._calls

    @contextmanager
    def call(self, arrival: Arrival) -> Iterator[OpenCall]:
        """Answer one call inside the block; an exception becomes `OpenCall.error`.

        Cancellation passes through: the caller is gone, so there is no one to answer.
        """
        held = ExitStack()
        call = OpenCall(
            method=arrival.method,
            call_id=_printable(arrival.call_id) or secrets.token_hex(8),
            admit=lambda call: self._admit(call, arrival, held),
        )
        reason = "cancelled"
        begun_ns = self._clock.monotonic_ns()
        self._calls += 1
        self.begun += 1
        try:
            with bound(call_id=call.call_id, method=arrival.method):
                try:
                    with held, self._tracer.span(arrival.method, parent=arrival.traceparent):
                        yield call
                    reason = "ok"
                except AssayError as error:
                    call.error = detail_of(error)
                    reason = error.reason
                    self._log_refusal(call, error)
                except Exception:  # the edge: any error outside the contract is a bug
                    call.error = internal_detail(call.call_id)
                    reason = call.error.reason
                    log.exception("call_failed")
        finally:
            self._calls -= 1
            spent_s = (self._clock.monotonic_ns() - begun_ns) / 1e9
            self._on_call(call.method, reason, spent_s)
            if self._audit is not None:
                self._record(self._audit, call, arrival, reason)

    async def before_refusal(self, call: OpenCall) -> None:
        """Wait until the refusal of a call without a slot is due; holds nothing while it waits.

        Those who show no valid token are refused at the pace of one tenant, all together.
        """
        reason = "" if call.error is None else call.error.reason
        if reason == Unauthenticated.reason:
            await self.door.refuse_at_pace(STRANGERS)
        elif reason in {Saturated.reason, PermissionDenied.reason} and call.tenant is not None:
            await self.door.refuse_at_pace(call.tenant.tenant_id)

    @asynccontextmanager
    async def while_permitted(self, arrival: Arrival) -> AsyncIterator[None]:
        """End the block, at some time in `CHECK_AGAIN_S`, when its token is removed or expires, or
        becomes another tenant's; until then its call has the tenant's present quota.

        Raises:
            Unauthenticated, PermissionDenied: that happened.
        """
        admitted = _CURRENT.get(None)
        loop = asyncio.get_running_loop()
        found: list[AssayError] = []
        timers: list[asyncio.TimerHandle] = []

        def look() -> None:
            try:
                tenant = self._permitted(arrival)
                if admitted is not None:
                    _keep_owner(admitted, tenant)
            except AssayError as error:
                found.append(error)
                ends.reschedule(loop.time())
            else:
                timers[:] = [loop.call_later(CHECK_AGAIN_S, look)]

        timers.append(loop.call_later(CHECK_AGAIN_S, look))
        try:
            async with asyncio.timeout(None) as ends:
                yield
        except TimeoutError:
            if not found:
                raise
            raise found[0] from None
        finally:
            timers[0].cancel()

    def _permitted(self, arrival: Arrival) -> Tenant:
        tenant = self._callers.authenticate(arrival.authorization, arrival.certificate)
        rules.check(tenant.roles, arrival.rule, arrival.method, who=tenant.tenant_id)
        return tenant

    async def _admit(self, call: OpenCall, arrival: Arrival, held: ExitStack) -> Call:
        tenant = self._callers.authenticate(arrival.authorization, arrival.certificate)
        structlog.contextvars.bind_contextvars(tenant=tenant.tenant_id)
        call.tenant = tenant
        if arrival.on_known is not None:
            arrival.on_known(tenant.tenant_id)
        rules.check(tenant.roles, arrival.rule, arrival.method, who=tenant.tenant_id)
        self.door.know(tenant.tenant_id, tenant.limits)
        load = held.enter_context(self.door.slot(tenant.tenant_id, arrival.kind))
        await self.door.keep_pace(tenant.tenant_id)
        admitted = Call(call_id=call.call_id, tenant=tenant, load=load, about=call.about)
        _CURRENT.set(admitted)
        return admitted

    def _log_refusal(self, call: OpenCall, error: AssayError) -> None:
        tenant = STRANGERS if call.tenant is None else call.tenant.tenant_id
        left_out = self._refusals.line(tenant, self._clock.monotonic_ns() / 1e9)
        if left_out is not None:
            more = {"left_out": left_out} if left_out else {}
            why = {"reason": error.reason, "field": error.field, "why": error.message}
            log.info("call_refused", **why, **more)

    def _record(self, audit: Audit, call: OpenCall, arrival: Arrival, reason: str) -> None:
        """Write the call's line, if it has one."""
        refused = reason in REFUSED
        if not refused:
            if not rules.changes_something(arrival.rule):
                return
            if rules.is_payload_call(call.method) and not audit.payload_calls:
                return
        tenant = call.tenant
        fields = {
            "tenant": tenant.tenant_id if tenant else "",
            "shown": tenant.shown if tenant else "",
            "call": arrival.method,
            "call_id": call.call_id,
            "peer": arrival.peer,
            "result": reason,
            **call.about,
        }
        audit.record(fields, refused=refused)


def _keep_owner(call: Call, tenant: Tenant) -> None:
    """Have a call go on as its tenant is now.

    Raises:
        Unauthenticated: the token is another tenant's by now.
    """
    if tenant.tenant_id != call.tenant.tenant_id:
        raise Unauthenticated("authorization: this token now belongs to another tenant")
    call.tenant = tenant


def _printable(call_id: str) -> str:
    cut = call_id[:CALL_ID_CHARS_MAX]
    return cut if cut.isascii() and cut.isprintable() else ""
