"""Callers of every kind, and what a port answers them: for the matrix of ports."""

from __future__ import annotations

import asyncio
import enum
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf import message_factory
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from tests.edge import every_call
from tests.reward.test_work_fuzz import Fuzzer

from assay.config.access import Role
from assay.core.ids import StageName, WorkerId
from assay.edge.grpc_edge import OPEN_METHODS
from assay.edge.work.tokens import WorkerKeys, WorkerPass
from assay.v1 import externalscaler_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping

    import httpx
    from google.protobuf.descriptor import MethodDescriptor

    from assay.edge.access.rules import Rule

KEY: Final = b"k" * 64
OPERATOR: Final = "the operator's"
CREDENTIAL: Final = "credential of the host's pools"
SESSION: Final = "key of an agent's session"
FOREVER_NS: Final = 2**62
LONG_S: Final = 120.0
"""Against hanging, not against slowness."""
STREAM_S: Final = 1.0
"""After which a stream that was admitted, and says nothing, is left."""
AT_ONCE: Final = 16
MALFORMED: Final = (
    "Bearer red-submit",
    "red-submit,blue",
    "red-submit.",
    "v1.eyJ3IjoxfQ.AAAA",
    "=" * 4_000,
    '{"sha256": "red"}',
)
"""Invalid tokens, some of them made from a valid one."""
_OF_THE_DOOR: Final = re.compile("lacks the role|no role permits")


class Known(enum.Enum):
    """Whose tokens a port knows."""

    TENANTS = "tenants"
    OPERATOR = "operator"
    WORKERS = "workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A token, and where it counts."""

    token: str
    roles: frozenset[Role] = frozenset()
    of: Known | None = None
    """Ports that know it; `None`: none."""
    only: str = ""
    """The one such port, for a credential of less than all of them."""


class Answer(enum.Enum):
    """What a port did with a call."""

    ABSENT = "there is no such call"
    STRANGER = "the caller is not known"
    FORBIDDEN = "its role is too little"
    CUT = "its stream was cut, and gRPC hid the status"
    ADMITTED = "it was handled"


def digest(token: str) -> str:
    """As the settings have it."""
    return hashlib.sha256(token.encode()).hexdigest()


def tenants(*, revoked: bool) -> dict[str, Any]:
    """The file of tenants: red has a token per role, an old one and one that will go."""
    each = [{"sha256": digest(f"red-{role}"), "roles": [role]} for role in Role]
    every = [str(role) for role in Role]
    past = {"sha256": digest("red-expired"), "roles": every, "expires": "2020-01-01T00:00:00Z"}
    gone = [] if revoked else [{"sha256": digest("red-revoked"), "roles": every}]
    blue = [{"sha256": digest("blue"), "roles": every}]
    return {"red": {"tokens": [*each, past, *gone]}, "blue": {"tokens": blue}}


def operators() -> list[dict[str, Any]]:
    """The further tokens of the operator: one per role, and an old one."""
    each = [{"sha256": digest(f"operator-{role}"), "roles": [role]} for role in Role]
    past = {"sha256": digest("operator-expired"), "roles": list(Role)}
    return [*each, {**past, "expires": "2020-01-01T00:00:00Z"}]


def worker_token(key: bytes, *, expires_ns: int = FOREVER_NS) -> str:
    """The token that an enrolled worker gets."""
    stages = (StageName("match"),)
    one = WorkerPass(stages=stages, expires_ns=expires_ns, name="w", worker=WorkerId("w"))
    return WorkerKeys([key]).mint(one)


def callers(credential: str, session: str) -> dict[str, Caller]:
    """All of them, by name."""
    found = {f"red-{role}": _caller(f"red-{role}", {role}, Known.TENANTS) for role in Role}
    found |= {
        f"operator-{role}": _caller(f"operator-{role}", {role}, Known.OPERATOR) for role in Role
    }
    strangers = ("", "unknown", "red-expired", "red-revoked", "operator-expired", *MALFORMED)
    return {
        **found,
        **{name: Caller(token=name) for name in strangers},
        "blue": _caller("blue", set(Role), Known.TENANTS),
        "operator": _caller(OPERATOR, set(Role), Known.OPERATOR),
        "worker": _caller(worker_token(KEY), {Role.WORKER}, Known.WORKERS),
        "worker-expired": Caller(token=worker_token(KEY, expires_ns=1)),
        "worker-foreign": Caller(token=worker_token(b"f" * 64)),
        CREDENTIAL: Caller(
            token=credential,
            roles=frozenset({Role.WORKER}),
            of=Known.OPERATOR,
            only="worker control",
        ),
        SESSION: Caller(
            token=session,
            roles=frozenset({Role.SUBMIT}),
            of=Known.TENANTS,
            only="rollout gateway",
        ),
    }


def _caller(token: str, roles: set[Role], of: Known) -> Caller:
    return Caller(token=token, roles=frozenset(roles), of=of)


def expected(caller: Caller, rule: Rule, port: str, known: frozenset[Known]) -> Answer:
    """What a port that knows these callers answers to a call with this rule.

    Args:
        caller: who calls.
        rule: the roles that suffice.
        port: its name.
        known: whose tokens it knows.
    """
    if caller.of not in known or (caller.only and caller.only != port):
        return Answer.STRANGER
    return Answer.ADMITTED if caller.roles & rule else Answer.FORBIDDEN


# -- callers that say nothing, or little ---------------------------------------------------------
SLOW: Final = {
    "silent": (b"", b""),
    "a byte per second": (b"G", b"E"),
    "half of a preface": (b"PRI * HTTP/2.0\r\n\r\nSM", b""),
    "a header per second": (b"POST / HTTP/1.1\r\nhost: x\r\n", b"x: y\r\n"),
    "a body per second": (
        b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n{",
        b" ",
    ),
}
"""What a slow caller sends first, and then once per second."""


async def until_closed(address: str, first: bytes, then: bytes) -> None:
    """Call slowly; returns when the service has closed the connection."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with suppress(ConnectionError):
        writer.write(first)
        while True:
            try:
                async with asyncio.timeout(1):
                    if not await reader.read(4096):
                        break
            except TimeoutError:
                writer.write(then)
                await writer.drain()
    writer.close()


# -- callers that say too much -------------------------------------------------------------------
MESSAGE_BYTES: Final = 80 << 20
"""Over the largest message of any port."""
LARGE: Final = {
    "a header of a megabyte": b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: " + b"y" * (1 << 20),
    "a path of a megabyte": b"GET /" + b"y" * (1 << 20),
    "a terabyte's body": b"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n{"
    % (1 << 40),
    "a chunk of a terabyte": b"POST /v1/score HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked"
    b"\r\n\r\n10000000000\r\n{",
    "a frame of 16 MB": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x01\x04\x00\x00\x00\x01",
}
"""What a caller sends that no port has to read to its end."""


async def end_of_large(address: str, said: bytes) -> bytes:
    """The first line of what a port answers; nothing if it only closes the connection.

    Raises:
        TimeoutError: it goes on reading.
    """
    host, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    found = b""
    async with asyncio.timeout(LONG_S):
        with suppress(ConnectionError):
            writer.write(said)
            await writer.drain()
            while more := await reader.read(4096):
                found += more
    writer.close()
    return found.partition(b"\r\n")[0]


async def too_large(channel: grpc.aio.Channel, method: MethodDescriptor, token: str) -> str:
    """The status of a message over every limit."""
    untyped: Any = channel
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    call = untyped.unary_unary(every_call.path(method))(
        bytes(MESSAGE_BYTES), metadata=metadata, timeout=LONG_S
    )
    return await _status(call)


# -- callers that say anything -------------------------------------------------------------------
ROUNDS: Final = 24
"""Messages per method."""


async def statuses(channel: grpc.aio.Channel, method: MethodDescriptor, token: str) -> set[str]:
    """What a method answers to random messages, some of which are invalid."""
    untyped: Any = channel
    fuzzer = Fuzzer(seed=method.index, seen=["w", "red", "task"])
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    timeout = STREAM_S if method.server_streaming else LONG_S
    called = untyped.unary_stream(every_call.path(method))
    found = set()
    for _ in range(ROUNDS):
        content = fuzzer.content(message_factory.GetMessageClass(method.input_type))
        call = called(content, metadata=metadata, timeout=timeout)
        found.add(await _status(anext(aiter(call), None)))
        call.cancel()
    return found


async def _status(call: Awaitable[object]) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as failed:
        return failed.code().name
    return "OK"


# -- gRPC ----------------------------------------------------------------------------------------
def methods() -> Iterator[MethodDescriptor]:
    """Every method of the contract, of KEDA's scalers, of health and of reflection."""
    yield from every_call.methods()
    for module in (externalscaler_pb2, health_pb2, reflection_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            yield from service.methods


def is_open(method: MethodDescriptor) -> bool:
    """Whether it needs no token, on every port."""
    return every_call.path(method) in OPEN_METHODS


async def over_grpc(
    channel: grpc.aio.Channel, method: MethodDescriptor, token: str, *, leave: bool
) -> Answer:
    """What a port does with an empty message; `leave`: it need not end, if it is a stream."""
    untyped: Any = channel
    path = every_call.path(method)
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    streams = method.server_streaming or method.client_streaming
    named: dict[str, Any] = {
        "metadata": metadata,
        "timeout": STREAM_S if leave and streams else LONG_S,
    }
    if method.client_streaming:
        call = untyped.stream_stream(path)(every_call._one(b""), **named)
    else:
        call = untyped.unary_stream(path)(b"", **named)
    try:
        await anext(aiter(call), None)
    except grpc.aio.AioRpcError as failed:
        return _answer(failed)
    finally:
        call.cancel()
    return Answer.ADMITTED


def _answer(failed: grpc.aio.AioRpcError) -> Answer:
    match failed.code():
        case grpc.StatusCode.UNIMPLEMENTED:
            return Answer.ABSENT
        case grpc.StatusCode.UNAUTHENTICATED:
            return Answer.STRANGER
        case grpc.StatusCode.INTERNAL:
            return Answer.CUT
        case grpc.StatusCode.PERMISSION_DENIED if _OF_THE_DOOR.search(failed.details() or ""):
            return Answer.FORBIDDEN
    return Answer.ADMITTED


# -- HTTP ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method and a path of some port."""

    name: str
    method: str
    path: str

    @property
    def filled(self) -> str:
        """The path with a name in each place, where files are one of them."""
        file = "console.js" if self.path.startswith("/console/") else "swagger-ui.css"
        return re.sub(r"{[^}]+}", "x", self.path.replace("{name}", file))


async def over_http(http: httpx.AsyncClient, route: Route, token: str) -> Answer:
    """What a port does with an empty body; the answer itself is not read."""
    headers: Mapping[str, str] = {"x-assay-console": "1"}
    if token:
        headers = {**headers, "authorization": f"Bearer {token}"}
    async with http.stream(route.method, route.filled, headers=headers) as answer:
        status = answer.status_code
        text = (await answer.aread()).decode() if status in {401, 403, 404, 405} else ""
    if status == 401:
        return Answer.STRANGER
    if status == 403 and _OF_THE_DOOR.search(text):
        return Answer.FORBIDDEN
    if status == 405 or (status == 404 and re.search("no such path|there are /healthz", text)):
        return Answer.ABSENT
    return Answer.ADMITTED
