"""Two faces of one service: what is done over gRPC and over HTTP, said once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.running import Running

from tests.reward.faces import Face, GrpcFace, HttpFace


@pytest.fixture
async def grpc_face(api: Running) -> AsyncIterator[GrpcFace]:
    """The service over gRPC."""
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        yield GrpcFace(channel)


@pytest.fixture
async def http_face(api: Running) -> AsyncIterator[HttpFace]:
    """The service over HTTP."""
    async with httpx.AsyncClient(base_url=api.addresses.http, timeout=30) as http:
        yield HttpFace(http)


@pytest.fixture(params=["grpc", "http"])
def face(request: pytest.FixtureRequest) -> Face:
    """Each transport in turn."""
    found: Face = request.getfixturevalue(f"{request.param}_face")
    return found
