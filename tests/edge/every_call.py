"""Every RPC of the contract, read from the generated code, and messages that fit its types."""

from __future__ import annotations

import importlib
import math
import pkgutil
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

import assay.v1

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
    from google.protobuf.message import Message

VALUES: Mapping[int, Sequence[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: (
        *("", "x", "noop", "exact", "t", "b", "\x00", "\u00e9" * 300, "a/b", "{}", "["),
        '{"a": 1e999}',
    ),
    FieldDescriptor.CPPTYPE_DOUBLE: (
        *(0.0, -0.0, 0.5, 1.0, -1.0, 5e-324, 1e308, math.nan, math.inf, -math.inf),
    ),
    FieldDescriptor.CPPTYPE_INT32: (0, 1, -1, 7, 2**31 - 1, -(2**31)),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, -1, 7, 2**63 - 1, -(2**63)),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 7, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 7, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 1, 2, 3, 99),
}
"""What fields of a type can hold on the wire; others have one value (see `filled`)."""
FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
PARTS = "Parts"
"""Methods of this ending take the message of the method without it, in pieces."""


def services() -> list[ServiceDescriptor]:
    """Every service of `assay.v1`."""
    names = sorted(one.name for one in pkgutil.iter_modules(assay.v1.__path__))
    modules = [importlib.import_module(f"assay.v1.{n}") for n in names if n.endswith("_pb2")]
    found = [one for m in modules for one in m.DESCRIPTOR.services_by_name.values()]
    return [one for one in found if one.full_name.startswith("assay.v1.")]  # KEDA's is its own


def methods() -> list[MethodDescriptor]:
    """Every method of every service."""
    return [method for service in services() for method in service.methods]


def path(method: MethodDescriptor) -> str:
    """As it is called."""
    return f"/{method.containing_service.full_name}/{method.name}"


def filled(kind: Descriptor, given: Mapping[str, Any], depth: int = 0) -> Message:
    """A message in which every field has a value that is `given` by its name, or must have one."""
    message = GetMessageClass(kind)()
    for field in kind.fields:
        if field.containing_oneof is not None and field.containing_oneof.fields[0] is not field:
            continue
        value = _fitting(field, given.get(field.name))
        if value is None and field.has_presence and field.message_type is None:
            continue
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry or depth > 3:
                continue
            inner = filled(field.message_type, given, depth + 1)
            if field.is_repeated:
                getattr(message, field.name).append(inner)
            else:
                getattr(message, field.name).CopyFrom(inner)
            continue
        if value is None:
            value = _any_value(field)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    return message


def _fitting(field: FieldDescriptor, value: Any) -> Any:
    """A text as the type of the field."""
    if field.type == FieldDescriptor.TYPE_BYTES and isinstance(value, str):
        return value.encode()
    return value


def drawn_messages(method: MethodDescriptor, chance: random.Random, count: int) -> list[bytes]:
    """Messages of the method with values that its types allow and no one means; some damaged."""
    fields = dict(sorted(_scalars(method.input_type)))
    made = []
    for _ in range(count):
        given = {
            name: chance.choice(VALUES[kind])
            for name, kind in fields.items()
            if kind in VALUES and chance.random() < 0.7
        }
        made.append(_damaged(body(method, given), chance))
    return made


def _scalars(kind: Descriptor, depth: int = 0) -> Iterator[tuple[str, int]]:
    """Names and C++ types of the fields, in the message and in those within it."""
    for field in kind.fields:
        if field.message_type is None:
            yield field.name, field.cpp_type
        elif depth < 3:
            yield from _scalars(field.message_type, depth + 1)


def _damaged(message: bytes, chance: random.Random) -> bytes:
    """The message, or one with some bytes replaced, cut off, doubled or added."""
    some = bytearray(message)
    for _ in range(chance.choice((0, 1, 1, 3))):
        at = chance.randrange(len(some) + 1)
        match chance.randrange(4):
            case 0:
                some[at : at + 1] = chance.randbytes(1)
            case 1:
                del some[at:]
            case 2:
                some[at:at] = some[: chance.randrange(50)]
            case _:
                some[at:at] = chance.randbytes(chance.randrange(9))
    return bytes(some)


def _any_value(field: FieldDescriptor) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "x" if field.type == FieldDescriptor.TYPE_STRING else b"{}"
    return {FieldDescriptor.CPPTYPE_BOOL: True, FieldDescriptor.CPPTYPE_ENUM: 1}.get(
        field.cpp_type, 1
    )


def body(method: MethodDescriptor, given: Mapping[str, Any]) -> bytes:
    """A message of the method that fits its types."""
    if method.name.endswith(PARTS):
        whole = method.containing_service.methods_by_name[method.name.removesuffix(PARTS)]
        given = {**given, "data": body(whole, given)}
    return filled(method.input_type, given).SerializeToString()


async def ended(
    channel: grpc.aio.Channel,
    method: MethodDescriptor,
    message: bytes,
    token: str,
    *,
    timeout_s: float = 60,
) -> grpc.aio.AioRpcError | None:
    """Call a method with one message and read its answers; returns how it failed, if it did."""
    untyped: Any = channel
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    try:
        named = {"metadata": metadata, "timeout": timeout_s}
        if method.client_streaming:
            stream = untyped.stream_stream(path(method))(_one(message), **named)
        else:
            stream = untyped.unary_stream(path(method))(message, **named)
        async for _ in stream:
            pass
    except grpc.aio.AioRpcError as failed:
        return failed
    return None


async def typed_end(
    channel: grpc.aio.Channel,
    method: MethodDescriptor,
    message: bytes,
    token: str,
    *,
    timeout_s: float,
) -> grpc.StatusCode:
    """Call as `ended` does; returns the status, which is no fault of ours and says its reason."""
    failed = await ended(channel, method, message, token, timeout_s=timeout_s)
    if failed is None:
        return grpc.StatusCode.OK
    code = failed.code()
    assert code not in FAULTS, (method.full_name, message, failed)
    if code is not grpc.StatusCode.DEADLINE_EXCEEDED:
        trailers = dict(failed.trailing_metadata() or ())
        assert trailers.get("reason"), (method.full_name, message, failed)
    return code


async def _one(message: bytes) -> AsyncIterator[bytes]:
    yield message


def handlers() -> Iterator[grpc.GenericRpcHandler]:
    """Servers of every method; each answers at once."""
    for service in services():
        found = {method.name: _handler(method) for method in service.methods}
        yield grpc.method_handlers_generic_handler(service.full_name, found)


def _handler(method: MethodDescriptor) -> Any:
    answer = GetMessageClass(method.output_type)()

    async def one(request: Any, context: Any) -> Any:
        if hasattr(request, "__aiter__"):
            async for _ in request:
                pass
        return answer

    async def several(request: Any, context: Any) -> AsyncIterator[Any]:
        yield await one(request, context)

    asked = "stream" if method.client_streaming else "unary"
    told = "stream" if method.server_streaming else "unary"
    made: Any = getattr(grpc, f"{asked}_{told}_rpc_method_handler")
    return made(
        several if method.server_streaming else one,
        GetMessageClass(method.input_type).FromString,
        GetMessageClass(method.output_type).SerializeToString,
    )
