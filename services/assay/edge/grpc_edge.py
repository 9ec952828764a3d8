"""The edge of a gRPC server: one interceptor for unary and streaming methods.

A message is read only after its call was admitted, with a timeout, and parsed here, so that one
over the size limit, or one that is not a protobuf message of its type, is a typed error with
trailers like every other. For this reason every method is served as one that takes a stream of
bytes; on the wire there is no difference. The transport's own limit is above ours
(`transport_bytes_max`); above it gRPC answers RESOURCE_EXHAUSTED by itself, without our trailers.
Compressed messages are refused: gRPC would decompress them before any limit is checked.

gRPC copies a message while it holds the interpreter's lock, some 0.4 ms per MiB, so the size of a
message bounds how long it blocks other calls. A larger one is sent in parts (`parts`).

A client that is in the middle of a message when its call ends shows its user INTERNAL ("Internal
error from Core") in place of our status. So what a refused stream still sends is read and discarded
first, within bounds (`DISCARD_S_MAX`); a stranger's is not.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2

from assay.core.errors import InvalidRequest, Saturated, TooLarge, not_protobuf
from assay.edge.access.rules import rule_of_rpc
from assay.edge.auth import in_url, one_authorization
from assay.edge.calls import Arrival, Call, CallGuard, OpenCall
from assay.edge.connections.messages import Incoming, answering, counted
from assay.edge.connections.traffic import Traffic
from assay.edge.door import DISCARD_FACTOR, LARGE_BYTES, READING, Kind, Pieces, limited, within

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from assay.core.ids import TenantId
    from assay.edge.connections.watch import GrpcConnections

    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]

KEEPALIVE_MS: Final = 20_000
"""A peer that vanished without closing its connection is detected within two of these intervals."""
HANDSHAKE_MS_MAX: Final = 10_000
"""A connection without traffic is closed after this time."""
STREAMS_PER_CONNECTION_MAX: Final = 256
PENDING_MAX: Final = 8_192
"""Calls that have arrived and that the event loop has not taken up yet."""
READ_CHUNK_BYTES_MAX: Final = 64 * 1024
FRAME_BYTES_MAX: Final = 16 * 1024
"""As HTTP/2 begins with. Larger frames are less work, and other calls of the connection wait for
each of them."""
SETTINGS_MS_MAX: Final = 20_000
"""A client that has not confirmed our settings by then is not held to them, and disconnected."""
CONTROL_BYTES_MAX: Final = 256 * 1024
"""Largest message of a method that carries no payloads."""
PART_BYTES_MAX: Final = 1024**2
"""Largest part of a message that is sent in parts."""
PART_FRAME_BYTES_MAX: Final = 64
"""Bytes that the message around a part may add to it."""
DISCARD_S_MAX: Final = 10.0
"""How long the rest of a refused stream is read."""
DISCARD_IDLE_S: Final = 2.0
"""A refused stream that sends nothing for this long gets its status."""
OPEN_METHODS: Final = frozenset({"/grpc.health.v1.Health/Check"})
"""Methods that need no token, on every port: they expose no data and return one word."""
NAMED: Final = ("task_id", "batch_id", "session_id", "stage", "policy_version")
"""Fields of a message that say what a call is about, for the audit log."""
NAMES_IN_CERTIFICATE: Final = ("x509_common_name", "x509_subject_alternative_name")


def transport_bytes_max(message_bytes_max: int) -> int:
    """Limit of gRPC itself: high enough that we can refuse a large message with our own error."""
    return message_bytes_max + message_bytes_max // 4


def server_options(
    message_bytes_max: int,
    *,
    connections_max: int = 1_024,
    frame_bytes_max: int = FRAME_BYTES_MAX,
    watched: bool = False,
) -> list[tuple[str, int]]:
    """Options of a `grpc.aio.server`.

    Args:
        message_bytes_max: largest message.
        connections_max: concurrent ones.
        frame_bytes_max: largest HTTP/2 frame.
        watched: its connections are watched (`GrpcConnections`), which bounds pings.
    """
    return [
        ("grpc.http2.max_frame_size", frame_bytes_max),
        ("grpc.max_receive_message_length", transport_bytes_max(message_bytes_max)),
        ("grpc.max_send_message_length", -1),
        ("grpc.compression_enabled_algorithms_bitset", 1),  # identity
        ("grpc.per_message_decompression", 0),
        ("grpc.http2.bdp_probe", 0),  # or a stream that is not read may hold megabytes
        ("grpc.so_reuseport", 0),
        ("grpc.max_allowed_incoming_connections", connections_max),
        ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS_MAX),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_MS),  # or a ping waits for a minute
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 4),
        # From its third strike on, each further ping of one read costs the time of all before it.
        ("grpc.http2.max_ping_strikes", 0 if watched else 2),
        # Of all connections together; beyond it, calls of anyone are refused at random.
        ("grpc.server.max_pending_requests", PENDING_MAX),
        ("grpc.server.max_pending_requests_hard_limit", PENDING_MAX),
        # What was read is parsed to its end, also when its connection was cut meanwhile.
        ("grpc.experimental.tcp_max_read_chunk_size", READ_CHUNK_BYTES_MAX),
        ("grpc.http2.settings_timeout", SETTINGS_MS_MAX),
        ("grpc.http.tarpit", 0),  # or refused streams keep their memory for up to a second
    ]


def open_server(
    edge: grpc.aio.ServerInterceptor, options: Sequence[tuple[str, int]]
) -> grpc.aio.Server:
    """A server behind `edge`, whose methods are found by their names.

    Generated code also registers each method by itself. The library then waits for the next call of
    each, so that every call costs a wait on as many futures as there are methods.
    """
    server = grpc.aio.server(interceptors=[edge], options=options)
    server.add_registered_method_handlers = _not_registered  # type: ignore[method-assign]
    return server


def _not_registered(service_name: str, method_handlers: object) -> None:
    del service_name, method_handlers


def take_port(
    server: grpc.aio.Server,
    host: str,
    port: int,
    *,
    setting: str,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
) -> str:
    """Have a server listen; returns `host:port`.

    Args:
        server: not started yet.
        host: the address.
        port: 0 = any free one.
        setting: the port's setting, for errors.
        certificate: PEM chain; with `key`, the port speaks TLS only.
        key: PEM private key.
        client_ca: PEM authorities; callers must show a certificate of one of them.

    Raises:
        OSError: the port is taken, or certificate and key cannot be read or do not match.
    """
    address = f"{in_url(host)}:{port}"
    try:
        if certificate is None or key is None:
            taken = server.add_insecure_port(address)
        else:
            pair = (key.read_bytes(), certificate.read_bytes())
            authorities = None if client_ca is None else client_ca.read_bytes()
            credentials = grpc.ssl_server_credentials(
                [pair], authorities, require_client_auth=authorities is not None
            )
            taken = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        why = str(error).partition("; set GRPC_VERBOSITY")[0]
        raise OSError(f"{setting}: cannot listen on {address}: {why}") from error
    return f"{in_url(host)}:{taken}"


class Health(health.aio.HealthServicer):
    """The standard health service: `Check` and `Watch` are the library's, which lacks `List`."""

    async def List(  # noqa: N802 - the protocol's name
        self,
        request: Any,  # noqa: ANN401 the library's type stubs lack this call, as its servicer does
        context: Context,
    ) -> Any:  # noqa: ANN401 as above
        """The status of each service of this port."""
        del request, context
        messages: Any = health_pb2
        statuses: Mapping[str, int] = vars(self)["_server_status"]
        answers = {
            name: messages.HealthCheckResponse(status=status) for name, status in statuses.items()
        }
        return messages.HealthListResponse(statuses=answers)


class GrpcEdge(grpc.aio.ServerInterceptor):
    """Puts every method behind the guard, except `OPEN_METHODS`."""

    def __init__(
        self,
        *,
        guard: CallGuard,
        message_bytes_max: int,
        raw: frozenset[str] = frozenset(),
        parts: frozenset[str] = frozenset(),
        whole_bytes_max: int = 0,
        connections: GrpcConnections | None = None,
    ) -> None:
        """Guard a server's methods.

        Args:
            guard: admits calls.
            message_bytes_max: largest message of the methods in `raw`.
            raw: names of methods whose servicer gets bytes, to parse them where it chooses.
            parts: names of methods with a stream of `data` fields that together are one message;
                the servicer gets a list of bytes.
            whole_bytes_max: largest message of the methods in `parts`, all parts together.
            connections: is notified of calls and messages.
        """
        self._guard = guard
        self._limits = guard.door.limits
        self._message_bytes_max = message_bytes_max
        self._raw = raw
        self._parts = parts
        self._whole_bytes_max = whole_bytes_max
        self._connections = connections
        self._read_bytes_max = transport_bytes_max(max(message_bytes_max, PART_BYTES_MAX))

    def _opened(self, arrival: Arrival, context: Context) -> tuple[Arrival, Incoming]:
        """What is known of a call besides its metadata, and its messages."""
        peer = str(context.peer())
        certificate = _names_in_certificate(context)
        if self._connections is None:
            known = replace(arrival, peer=peer, certificate=certificate)
            return known, Incoming(context, Traffic(since_s=0.0), 0)
        account = self._connections.account(peer)
        answering(account)
        incoming = Incoming(context, account, self._read_bytes_max, self._connections)
        origin = self._connections.origin(peer)
        if origin is not None:
            peer, certificate = origin.peer, origin.names
        known = replace(arrival, peer=peer, certificate=certificate, on_known=incoming.identify)
        return known, incoming

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 the handler's messages are the servicer's affair
        """Wrap the method's handler in the guard."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method in OPEN_METHODS:
            return handler
        arrival = _arrival(handler_call_details, handler)
        return self._guarded(handler, arrival)

    def _guarded(self, handler: Handler, arrival: Arrival) -> Handler:
        """The method in the guard; one function for all, as messages are read by the guard."""
        takes, streams = handler.request_streaming, handler.response_streaming
        if streams:
            inner: Any = handler.stream_stream if takes else handler.unary_stream
        else:
            inner = handler.stream_unary if takes else handler.unary_unary

        async def guarded(_requests: Any, context: Context) -> Any:  # noqa: ANN401 as above
            known, incoming = self._opened(arrival, context)
            if incoming.condemned:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "this connection is closed")
            with incoming.watched():
                with self._guard.call(known) as call:
                    admitted = await call.admit()
                    given = await self._given(handler, arrival, admitted, incoming)
                    if arrival.kind is Kind.CALL:
                        return await inner(given, context)
                    async with self._guard.while_permitted(known):
                        if not streams:
                            return await inner(given, context)
                        return await self._answered(inner(given, context), context)
                return await self._refuse(call, arrival, incoming, context)

        make = (
            grpc.stream_stream_rpc_method_handler
            if streams
            else grpc.stream_unary_rpc_method_handler
        )
        return make(guarded, None, counted(handler.response_serializer))

    async def _answered(self, answers: Any, context: Context) -> None:  # noqa: ANN401 as above
        if not hasattr(answers, "__aiter__"):  # it writes by itself
            await within(answers, seconds=self._limits.stream_s_max, what="the stream")
            return
        async for message in limited(answers, self._limits):
            await self._written(message, context)

    async def _refuse(
        self, call: OpenCall, arrival: Arrival, incoming: Incoming, context: Context
    ) -> None:
        if call.error is None:
            return
        await self._guard.before_refusal(call)
        if arrival.kind is Kind.UPLOAD and call.tenant is not None:
            await self._discard(call.tenant.tenant_id, incoming)
        with _unless_gone():
            await context.abort(
                call.error.status.grpc,
                call.error.message,
                trailing_metadata=(*call.error.trailers(), ("call-id", call.call_id)),
            )

    async def _discard(self, tenant: TenantId, incoming: Incoming) -> None:
        """Read what a refused stream still sends; its tenant's streams do so in turn."""
        door, loop = self._guard.door, asyncio.get_running_loop()
        left = DISCARD_FACTOR * max(self._whole_bytes_max, self._message_bytes_max)
        ends_s = loop.time() + min(DISCARD_S_MAX, self._limits.body_s_max)
        with suppress(TimeoutError, Saturated):
            async with asyncio.timeout_at(ends_s), door.turn_to_discard(tenant):
                while left > 0 and not incoming.over:
                    async with asyncio.timeout_at(min(ends_s, loop.time() + DISCARD_IDLE_S)):
                        size = len(await incoming.read() or b"")
                    left -= size
                    await door.keep_pace_in_stream(tenant, size)

    async def _written(self, message: Any, context: Context) -> None:  # noqa: ANN401 a message
        writing = context.write(message)
        with _unless_gone():
            await within(writing, seconds=self._limits.body_s_max, what=READING)

    async def _given(
        self, handler: Handler, arrival: Arrival, admitted: Call, incoming: Incoming
    ) -> Any:  # noqa: ANN401 a message, its bytes, a list of bytes, or a stream of messages
        if arrival.method in self._parts:
            return await within(
                self._joined(handler, admitted, incoming),
                seconds=self._limits.body_s_max,
                what="sending the parts",
            )
        if handler.request_streaming:
            return self._received(handler, arrival, admitted, incoming)
        body = await within(
            self._read(admitted, incoming),
            seconds=self._limits.body_s_max,
            what="sending a message",
        )
        return self._parsed(handler, arrival, admitted, body)

    async def _read(self, admitted: Call, incoming: Incoming) -> bytes:
        tenant = admitted.tenant.tenant_id
        async with self._guard.door.turn_to_read(tenant):
            body = await incoming.read()
            if body is None:
                raise InvalidRequest("message: missing", field="message")
            if len(body) > LARGE_BYTES:  # the turn lasts this long: messages of others continue
                await self._guard.door.keep_pace(tenant, len(body))
            return body

    async def _received(
        self, handler: Handler, arrival: Arrival, admitted: Call, incoming: Incoming
    ) -> AsyncIterator[Any]:
        tenant, door = admitted.tenant.tenant_id, self._guard.door
        async for body in limited(incoming.all(), self._limits):
            parsed = self._parsed(handler, arrival, admitted, body)
            await door.keep_pace_in_stream(tenant, len(body))
            yield parsed
            admitted.load.release()

    async def _joined(self, handler: Handler, admitted: Call, incoming: Incoming) -> list[bytes]:
        tenant, door = admitted.tenant.tenant_id, self._guard.door
        parse = handler.request_deserializer
        assert parse is not None  # noqa: S101 for the checker: generated code has one
        pieces = Pieces()
        async with door.turn_to_read(tenant):
            async for body in incoming.all():
                _bound(len(body), PART_BYTES_MAX + PART_FRAME_BYTES_MAX, "a part")
                _bound(pieces.size, DISCARD_FACTOR * self._whole_bytes_max, "message")
                pieces.add(parsed_message(parse, body).data)
                if pieces.size <= self._whole_bytes_max:
                    admitted.load.add(len(body))
                else:
                    pieces.taken()
                    admitted.load.release()
                await door.keep_pace_in_stream(tenant, len(body))
        _bound(pieces.size, self._whole_bytes_max, "message")
        if not pieces.size:
            raise InvalidRequest("message: missing", field="message")
        return pieces.taken()

    def _parsed(self, handler: Handler, arrival: Arrival, admitted: Call, body: bytes) -> Any:  # noqa: ANN401 a message, or its bytes
        raw = arrival.method in self._raw
        bytes_max = (
            self._message_bytes_max if raw else min(self._message_bytes_max, CONTROL_BYTES_MAX)
        )
        _bound(len(body), bytes_max, "message")
        admitted.load.add(len(body))
        if raw or handler.request_deserializer is None:
            return body
        message = parsed_message(handler.request_deserializer, body)
        admitted.about.update(_named(message))
        return message


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Send to a client; if it has just gone, or the server stops, the call ends as a cancelled one.

    gRPC cancels the call of a client that is gone, but what is being sent at that moment fails with
    an error of its own, which would be a traceback in the log.
    """
    try:
        yield
    except grpc.aio.BaseError as error:
        if isinstance(error, grpc.aio.AbortError | grpc.aio.UsageError):
            raise
        raise asyncio.CancelledError from None


def _named(message: Any) -> dict[str, str]:  # noqa: ANN401 a message
    """What a message is about."""
    fields = message.DESCRIPTOR.fields_by_name
    return {name: str(getattr(message, name)) for name in NAMED if name in fields}


def _bound(size: int, bytes_max: int, what: str) -> None:
    if size > bytes_max:
        message = f"{what} of {size} bytes; at most {bytes_max}"
        raise TooLarge(message, field="message")


def parsed_message(parse: Callable[[bytes], Any], body: bytes) -> Any:  # noqa: ANN401 a message
    """Parse a protobuf message.

    Raises:
        InvalidRequest: the bytes are not one.
    """
    try:
        return parse(body)
    except DecodeError as error:
        raise not_protobuf() from error


def _arrival(details: grpc.HandlerCallDetails, handler: Handler) -> Arrival:
    pairs = details.invocation_metadata or ()
    metadata = {key: value for key, value in pairs if isinstance(value, str)}
    return Arrival(
        method=details.method.rpartition("/")[2],
        authorization=shown_in(pairs),
        call_id=metadata.get("x-request-id", ""),
        traceparent=metadata.get("traceparent", ""),
        kind=_kind(handler),
        rule=rule_of_rpc(details.method),
    )


def shown_in(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """What the metadata of a call show of its caller."""
    return one_authorization(
        value for key, value in metadata if key == "authorization" and isinstance(value, str)
    )


def _names_in_certificate(context: Context) -> tuple[str, ...]:
    """The names in the peer's certificate; none without TLS."""
    found: Any = context.auth_context()
    return tuple(
        name.decode("utf-8", "replace")
        for key in NAMES_IN_CERTIFICATE
        for name in found.get(key, ())
    )


def _kind(handler: Handler) -> Kind:
    if handler.request_streaming:
        return Kind.UPLOAD
    return Kind.STREAM if handler.response_streaming else Kind.CALL
