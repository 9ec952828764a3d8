"""A rollout service that listens in this process, on a random model, beside a real reward API."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.rollout.service.served import SHORT, SLOTS, MakeEngine, Rollouts, RunRollouts, rollouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from assay.config.access import TenantSettings
    from assay.rollout import ProbeEngine
    from assay.rollout.service.sessions import Room


@pytest.fixture
async def run_rollouts() -> AsyncIterator[RunRollouts]:
    """Start rollout services; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def run(
            reward_url: str = "127.0.0.1:1",
            slots: int = SLOTS,
            probe: ProbeEngine | None = None,
            tenants: dict[str, TenantSettings] | None = None,
            room: Room | None = None,
            on: MakeEngine | None = None,
            **settings: object,
        ) -> Rollouts:
            running = rollouts(reward_url, slots, probe, tenants, SHORT, room, on, **settings)
            return await stack.enter_async_context(running)

        yield run
