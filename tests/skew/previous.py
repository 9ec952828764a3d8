"""The wire of the release before, from its pinned descriptors: its messages, and a service or a
client of that release as the present one meets it.

What a release does not know it does not read and does not answer: `Between` takes from each message
that passes what the release before does not know, in both directions, and answers UNIMPLEMENTED to
calls that it does not have.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.skew.pin import PINNED

OPTIONS: Final = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def pinned() -> descriptor_pb2.FileDescriptorSet:
    """The files of the release before."""
    return descriptor_pb2.FileDescriptorSet.FromString(PINNED.read_bytes())


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in pinned().file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL: Final = _pool()


def message(name: str) -> Any:
    """A class of messages of `assay.v1` as the release before had it."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"assay.v1.{name}"))


def method(path: str) -> Any:
    """The descriptor of `/assay.v1.Service/Method`; `None`: the release before had none."""
    service, _, name = path.lstrip("/").rpartition("/")
    try:
        return POOL.FindServiceByName(service).methods_by_name.get(name)
    except KeyError:
        return None


def known_of(kind: Any, content: bytes) -> bytes:
    """A message without what the release before does not know."""
    found = message_factory.GetMessageClass(kind).FromString(content)
    found.DiscardUnknownFields()
    return bytes(found.SerializeToString())


def stub(channel: grpc.aio.Channel, path: str) -> Any:
    """A call of a client of the release before."""
    found = method(path)
    answer = message_factory.GetMessageClass(found.output_type)
    return channel.unary_unary(
        path, request_serializer=lambda one: one.SerializeToString(),
        response_deserializer=answer.FromString,
    )  # fmt: skip


class Between(grpc.GenericRpcHandler):
    """Passes calls on to a real service, as the release before would have read them."""

    def __init__(self, channel: grpc.aio.Channel, lacks: frozenset[str] = frozenset()) -> None:
        self._channel = channel
        self._lacks = lacks
        self.calls: list[str] = []

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        kind = method(path)
        if kind is None or kind.name in self._lacks:
            return None
        metadata = [
            (key, value)
            for key, value in handler_call_details.invocation_metadata
            if not key.startswith(("user-agent", "grpc-"))
        ]

        async def passed(requests: Any, context: Any) -> Any:
            self.calls.append(kind.name)
            asked: Any = (known_of(kind.input_type, one) async for one in requests)
            call: Any = self._channel.stream_stream(path)(asked, metadata=metadata)
            try:
                async for answer in call:
                    yield known_of(kind.output_type, answer)
            except grpc.aio.AioRpcError as error:
                trailers = tuple(error.trailing_metadata() or ())
                await context.abort(error.code(), error.details(), trailing_metadata=trailers)

        return grpc.stream_stream_rpc_method_handler(passed)


@asynccontextmanager
async def between(
    address: str, *, lacks: frozenset[str] = frozenset()
) -> AsyncIterator[tuple[str, Between]]:
    """An address at which the service of `address` is one of the release before."""
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        server, handler = grpc.aio.server(options=OPTIONS), Between(channel, lacks)
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}", handler
        finally:
            await server.stop(None)
