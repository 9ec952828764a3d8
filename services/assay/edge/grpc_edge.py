"""The edge of a gRPC server: one interceptor for unary and streaming methods.

It parses messages itself, so that one over the size limit, or one that is no protobuf message of
its type, is a typed error with trailers like every other. The transport's own limit lies above ours
(`transport_bytes_max`); past it gRPC answers RESOURCE_EXHAUSTED by itself, without our trailers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from assay.core.errors import InvalidRequest, TooLarge
from assay.edge.calls import Arrival, CallGuard, OpenCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]

KEEPALIVE_MS = 20_000
"""A peer that is gone without a word is noticed within two of these."""


def transport_bytes_max(message_bytes_max: int) -> int:
    """What gRPC itself lets through: enough for us to refuse a large message in our own words."""
    return 2 * message_bytes_max


def server_options(message_bytes_max: int) -> list[tuple[str, int]]:
    """Options of a `grpc.aio.server`."""
    return [
        ("grpc.max_receive_message_length", transport_bytes_max(message_bytes_max)),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 4),
        ("grpc.http2.max_ping_strikes", 0),
    ]


class GrpcEdge(grpc.aio.ServerInterceptor):
    """Puts every method under `prefix` behind the guard; others (health, reflection) pass."""

    def __init__(self, *, guard: CallGuard, message_bytes_max: int, prefix: str) -> None:
        self._guard = guard
        self._message_bytes_max = message_bytes_max
        self._prefix = prefix

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 the handler's messages are the servicer's affair
        """Wrap the method's handler in the guard."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._prefix):
            return handler
        arrival = _arrival(handler_call_details)
        if handler.response_streaming:
            return self._streaming(handler, arrival)
        return self._unary(handler, arrival)

    def _unary(self, handler: Handler, arrival: Arrival) -> Handler:
        inner: Any = handler.stream_unary if handler.request_streaming else handler.unary_unary
        build = (
            grpc.stream_unary_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_unary_rpc_method_handler
        )

        async def guarded(request: Any, context: Context) -> Any:  # noqa: ANN401 as above
            with self._guard.call(arrival) as call:
                call.admit()
                return await inner(self._messages(handler, request), context)
            return await _abort(call, context)

        return build(guarded, None, handler.response_serializer)

    def _streaming(self, handler: Handler, arrival: Arrival) -> Handler:
        inner: Any = handler.stream_stream if handler.request_streaming else handler.unary_stream
        build = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )

        async def guarded(request: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401
            with self._guard.call(arrival) as call:
                call.admit()
                async for message in inner(self._messages(handler, request), context):
                    yield message
            await _abort(call, context)

        return build(guarded, None, handler.response_serializer)

    def _messages(self, handler: Handler, request: Any) -> Any:  # noqa: ANN401 bytes, or a stream
        if not handler.request_streaming:
            return self._parse(handler, request)
        return self._parse_stream(handler, request)

    async def _parse_stream(
        self, handler: Handler, stream: AsyncIterator[bytes]
    ) -> AsyncIterator[Any]:
        async for body in stream:
            yield self._parse(handler, body)

    def _parse(self, handler: Handler, body: bytes) -> Any:  # noqa: ANN401 a message
        if len(body) > self._message_bytes_max:
            message = f"message of {len(body)} bytes; at most {self._message_bytes_max}"
            raise TooLarge(message, field="message")
        try:
            return handler.request_deserializer(body) if handler.request_deserializer else body
        except DecodeError as error:
            message = "message: not a protobuf message of this method (or a string in it not UTF-8)"
            raise InvalidRequest(message, field="message") from error


async def _abort(call: OpenCall, context: Context) -> None:
    if call.error is None:
        return
    await context.abort(
        call.error.status.grpc,
        call.error.message,
        trailing_metadata=(*call.error.trailers(), ("call-id", call.call_id)),
    )


def _arrival(details: grpc.HandlerCallDetails) -> Arrival:
    metadata = {
        key: value for key, value in details.invocation_metadata or () if isinstance(value, str)
    }
    return Arrival(
        method=details.method.rpartition("/")[2],
        authorization=metadata.get("authorization", ""),
        call_id=metadata.get("x-request-id", ""),
        traceparent=metadata.get("traceparent", ""),
    )
