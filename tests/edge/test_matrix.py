"""Who may call what: every RPC of the contract by every role, by strangers, by old tokens."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from tests.edge import every_call

from assay.config.access import Role, TenantSettings, TokenSettings
from assay.edge.access import rules
from assay.edge.auth import Tenants
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.grpc_edge import GrpcEdge, server_options
from assay.edge.tracing import NoTracer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.descriptor import MethodDescriptor

OBSERVING = ("Get", "List", "Stream", "Explain", "WhatIf")
CHANGES = {"StreamGroups", "StreamTrace"}
"""To read groups acknowledges earlier ones; the trace of the engine is every tenant's."""
NOBODY = {
    "": "expected `Bearer TOKEN`",
    "unknown": "no tenant has this token",
    "expired": "this token has expired",
    " a b ": "no tenant has this token",
}


def _token(token: str, **fields: Any) -> TokenSettings:
    return TokenSettings.model_validate(
        {"sha256": hashlib.sha256(token.encode()).hexdigest(), **fields}
    )


TENANTS = {
    "red": TenantSettings(
        tokens=(
            *(_token(role, roles={role}) for role in Role),
            _token("expired", roles=set(Role), expires=datetime.now(UTC) - timedelta(seconds=1)),
        )
    )
}


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    """To a server of every method of every service, behind the edge."""
    guard = CallGuard(
        callers=Tenants(TENANTS),
        door=Door(DoorLimits(calls_max=9, streams_max=9, bytes_max=10**6)),
        clock=Clock(),
        tracer=NoTracer(),
        on_call=lambda *_: None,
    )
    parts = frozenset(m.name for m in every_call.methods() if m.name.endswith(every_call.PARTS))
    edge = GrpcEdge(guard=guard, message_bytes_max=10**6, parts=parts, whole_bytes_max=10**6)
    server = grpc.aio.server(
        interceptors=[edge], options=server_options(10**6), handlers=list(every_call.handlers())
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(0)


def test_every_rpc_has_a_rule_and_every_rule_an_rpc() -> None:
    known = {every_call.path(method) for method in every_call.methods()}
    assert [path for path in known if not rules.rule_of_rpc(path)] == []
    assert {method.containing_service.full_name for method in every_call.methods()} == set(
        rules.SERVICES
    )
    for module in (health_pb2, reflection_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            assert all(rules.rule_of_rpc(every_call.path(method)) for method in service.methods)
    assert rules.rule_of_rpc("/assay.v1.RewardService/DropAll") is None
    assert rules.rule_of_rpc("/other.RewardService/Submit") is None


@pytest.mark.parametrize("method", every_call.methods(), ids=every_call.path)
def test_who_may_only_read_changes_nothing(method: MethodDescriptor) -> None:
    rule = rules.rule_of_rpc(every_call.path(method))
    observes = method.name.startswith(OBSERVING) and method.name not in CHANGES
    assert rule is not None
    assert (Role.READ in rule) == observes
    assert rules.changes_something(rule) != observes


async def test_each_call_is_for_its_roles_alone(channel: grpc.aio.Channel) -> None:
    for method in every_call.methods():
        rule = rules.rule_of_rpc(every_call.path(method)) or frozenset()
        message = every_call.body(method, {})
        for role in Role:
            failed = await every_call.ended(channel, method, message, role)
            code = None if failed is None else failed.code()
            expected = None if role in rule else grpc.StatusCode.PERMISSION_DENIED
            assert code == expected, (method.full_name, role)
        for token, why in NOBODY.items():
            failed = await every_call.ended(channel, method, message, token)
            assert failed is not None, (method.full_name, token)
            if method.client_streaming and failed.code() is grpc.StatusCode.INTERNAL:
                continue  # a stranger's stream is cut, and gRPC may hide the status
            assert failed.code() == grpc.StatusCode.UNAUTHENTICATED
            assert why in str(failed.details())


async def test_what_has_no_rule_is_for_no_one(
    channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    [method] = [one for one in every_call.methods() if one.name == "ListPipelines"]
    monkeypatch.setattr(rules, "_options", lambda *_: None)
    for role in Role:
        failed = await every_call.ended(channel, method, b"", role)
        assert failed is not None
        assert failed.code() == grpc.StatusCode.PERMISSION_DENIED
