"""Operations that the contract alone defines, over gRPC and over HTTP.

An RPC with the option `http` calls the service's method of its name: `SealBatch` calls
`seal_batch`, with the caller's tenant and the fields of its request by their names. The fields of
its response are what the method returns: a tuple has them in order, an answer of
`assay.core.answers` by name, and one value is the only field. Over HTTP the one value is the
answer itself, and where there is none the status is 204.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, Final, get_args, get_type_hints

from fastapi import APIRouter, Path, Query, Response
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel, ConfigDict, create_model

from assay.core import answers
from assay.core.records import BatchRecord
from assay.edge.calls import current_call
from assay.reward import wire
from assay.reward.bodies.answers import BatchBody
from assay.reward.bodies.base import Body
from assay.v1 import access_pb2, reward_pb2

Handler = Callable[..., Awaitable[object]]

RPCS: Final = reward_pb2.DESCRIPTOR.services_by_name["RewardService"].methods
_TYPES: Final[Mapping[int, type]] = {
    FieldDescriptor.CPPTYPE_STRING: str,
    FieldDescriptor.CPPTYPE_BOOL: bool,
    FieldDescriptor.CPPTYPE_INT32: int,
    FieldDescriptor.CPPTYPE_INT64: int,
    FieldDescriptor.CPPTYPE_DOUBLE: float,
}
"""Of the fields of requests."""


class _Made(Body):
    """Base of the models that are made here. They have no source, so no docstrings of fields are
    looked for in it: that search visits all modules of the process."""

    model_config = ConfigDict(use_attribute_docstrings=False)


def rpcs(service: object, listed: Sequence[MethodDescriptor] = RPCS) -> dict[str, Handler]:
    """The servicer's methods, by name."""
    return {rpc.name: _servicer_method(_method(service, rpc), rpc) for rpc in _derived(listed)}


def operations(
    service: object, router: APIRouter, listed: Sequence[MethodDescriptor] = RPCS
) -> APIRouter:
    """Add the operations over HTTP to the router."""
    for rpc in _derived(listed):
        verb, path = _http(rpc).split()
        method = _method(service, rpc)
        model = _answer_model(method, rpc)
        router.add_api_route(
            path,
            _endpoint(method, rpc),
            methods=[verb],
            name=rpc.name,
            response_model=model,
            status_code=204 if model is None else 200,
        )
    return router


def _derived(listed: Sequence[MethodDescriptor]) -> list[MethodDescriptor]:
    return [rpc for rpc in listed if _http(rpc)]


def _http(rpc: MethodDescriptor) -> str:
    found: str = rpc.GetOptions().Extensions[access_pb2.http]
    return found


def _method(service: object, rpc: MethodDescriptor) -> Handler:
    """The service's method of an RPC.

    Raises:
        AttributeError: there is none.
        TypeError: it does not take the fields of the request.
    """
    method: Handler = getattr(service, re.sub(r"(?<!^)(?=[A-Z])", "_", rpc.name).lower())
    inspect.signature(method).bind(None, **{field.name: None for field in rpc.input_type.fields})
    return method


# -- gRPC -----------------------------------------------------------------------------------------
def _servicer_method(method: Handler, rpc: MethodDescriptor) -> Handler:
    kind = GetMessageClass(rpc.output_type)

    async def called(request: Message, _context: object) -> Message:
        fields = {field.name: _read(request, field) for field in rpc.input_type.fields}
        return _message(kind, await method(current_call().tenant, **fields))

    return called


def _read(request: Message, field: FieldDescriptor) -> object:
    if field.has_presence and not request.HasField(field.name):
        return None
    value = getattr(request, field.name)
    return list(value) if field.is_repeated else value


def _message(kind: type[Message], answer: object) -> Message:
    if _is_answer(type(answer)):
        return wire.made(kind, answer)
    names = [field.name for field in kind.DESCRIPTOR.fields]
    values = [wire.batch(one) if isinstance(one, BatchRecord) else one for one in _values(answer)]
    return kind(**dict(zip(names, values, strict=True)))


def _is_answer(kind: type) -> bool:
    return is_dataclass(kind) and kind.__module__ == answers.__name__


def _values(answer: object) -> tuple[object, ...]:
    if answer is None:
        return ()
    return answer if isinstance(answer, tuple) else (answer,)


# -- HTTP -----------------------------------------------------------------------------------------
def _endpoint(method: Handler, rpc: MethodDescriptor) -> Callable[..., Awaitable[object]]:
    """What the framework calls, with the parameters and the description that it reads."""
    names = [field.name for field in rpc.output_type.fields]

    async def called(body: BaseModel | None = None, **fields: object) -> object:
        # The body's own values: nothing in it is nested.
        given = fields if body is None else {**fields, **dict(body)}
        answer = await method(current_call().tenant, **given)
        if answer is None:
            return Response(status_code=204)
        shown = [_shown(value) for value in _values(answer)]
        return dict(zip(names, shown, strict=True)) if isinstance(answer, tuple) else shown[0]

    untyped: Any = called
    untyped.__signature__ = inspect.Signature(_parameters(rpc))
    untyped.__doc__ = (inspect.getdoc(method) or "").partition("\n\nRaises:")[0]
    return called


def _shown(value: object) -> object:
    return BatchBody.of(value) if isinstance(value, BatchRecord) else value


def _parameters(rpc: MethodDescriptor) -> list[inspect.Parameter]:
    verb, path = _http(rpc).split()
    in_path = set(re.findall(r"{(\w+)}", path))
    rest = {
        field.name: (_type(field), _default(field))
        for field in rpc.input_type.fields
        if field.name not in in_path
    }
    found = [_parameter(name, Annotated[str, Path()]) for name in sorted(in_path)]
    if verb == "GET":
        return found + [_parameter(name, Annotated[t, Query()], d) for name, (t, d) in rest.items()]
    if not rest:
        return found
    fields: dict[str, Any] = rest
    model = create_model(f"{rpc.name}Body", __base__=_Made, **fields)
    return [*found, _parameter("body", model)]


def _parameter(
    name: str,
    kind: Any,  # noqa: ANN401 an annotation
    default: object = inspect.Parameter.empty,
) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=kind, default=default)


def _type(field: FieldDescriptor) -> Any:  # noqa: ANN401 an annotation
    kind: Any = _TYPES[field.cpp_type]
    if field.is_repeated:
        return list[kind]
    return kind | None if field.has_presence else kind


def _default(field: FieldDescriptor) -> object:
    if field.is_repeated:
        return []
    return None if field.has_presence else _TYPES[field.cpp_type]()


def _answer_model(method: Handler, rpc: MethodDescriptor) -> Any:  # noqa: ANN401 a model, or no body
    returned = get_type_hints(method)["return"]
    names = [field.name for field in rpc.output_type.fields]
    if not get_args(returned):
        return None if returned is type(None) else _model_of(returned)
    fields: dict[str, Any] = {
        name: (_model_of(kind), ...) for name, kind in zip(names, get_args(returned), strict=True)
    }
    return create_model(rpc.output_type.name, __base__=_Made, **fields)


def _model_of(kind: type) -> type:
    return BatchBody if kind is BatchRecord else kind
