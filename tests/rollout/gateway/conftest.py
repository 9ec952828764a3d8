"""Gateways for a test."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.rollout.gateway.gateways import Gateway, RunGateway, gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from assay.rollout.models import Model


@pytest.fixture
async def run_gateway() -> AsyncIterator[RunGateway]:
    """Start gateways; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def run(model: Model | None = None, **options: Any) -> Gateway:
            return await stack.enter_async_context(gateway(model, **options))

        yield run
