"""A rollout service that listens in this process, on a random model, beside a real reward API."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from tests.rollout.engine.exact import random_model

from assay.client import Backoff, Client
from assay.client.rollouts import RolloutClient
from assay.config.settings import RolloutSettings
from assay.edge.auth import Tenants
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.tracing import NoTracer
from assay.rollout import ProbeEngine, Runtime, RuntimeOptions
from assay.rollout.models import DType, Engine, Model
from assay.rollout.models.engine import EngineSettings
from assay.rollout.service.rewards import RewardServiceDesk
from assay.rollout.service.server import RolloutServer
from assay.rollout.service.service import RolloutService
from assay.rollout.service.wire import Served

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKENS_MAX = 96
SLOTS = 12
SETTINGS = EngineSettings(weight_dtype=DType.F32, batch_max=8, step_tokens_max=64, threads=1)
SHORT = Backoff(first_s=0.01, longest_s=0.1, total_s=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """What a test needs of it."""

    model: Model
    engine: Engine
    runtime: Runtime
    service: RolloutService
    client: RolloutClient
    address: str


def text_of(tokens: Sequence[int]) -> bytes:
    return " ".join(map(str, tokens)).encode()


RunRollouts = Callable[..., Awaitable[Rollouts]]


@asynccontextmanager
async def rollouts(
    reward_url: str = "127.0.0.1:1", slots: int = SLOTS, probe: ProbeEngine | None = None
) -> AsyncIterator[Rollouts]:
    """On a random model, or on a probe that fails when it is told to."""
    model, clock, numbers = random_model("qwen3"), Clock(), itertools.count()
    settings = RolloutSettings(grpc_port=0, drain_s=0.0)
    options = RuntimeOptions(seq_len_max=TOKENS_MAX)
    with (
        Engine.create(model, SETTINGS) as engine,
        Runtime(probe or engine, slots=slots, options=options) as runtime,
    ):
        service = RolloutService(
            engine=runtime,
            desk=lambda on_judged: RewardServiceDesk(
                connect=lambda token: Client(reward_url, token=token, backoff=SHORT),
                on_judged=on_judged,
                clock=clock,
                new_id=lambda: secrets.token_hex(6),
                waiting_max=slots,
            ),
            text_of=text_of,
            clock=clock,
            new_id=lambda: f"pause{next(numbers)}",
        )
        served = Served(
            model="random",
            vocab_size=model.config.vocab_size,
            tokens_max=TOKENS_MAX,
            slots=slots,
            encode=None,
            stop_ids=(),
            groups_open_max=32,
            reward_wait_s=30.0,
        )
        guard = CallGuard(
            callers=Tenants({}),
            door=Door(DoorLimits(calls_max=64, streams_max=16, bytes_max=1 << 26)),
            clock=clock,
            tracer=NoTracer(),
            on_call=lambda _method, _reason, _seconds: None,
        )
        server = RolloutServer(
            service, served=served, weights=engine, guard=guard, settings=settings, clock=clock
        )
        address = await server.start()
        try:
            async with RolloutClient(address, backoff=SHORT) as client:
                yield Rollouts(
                    model=model,
                    engine=engine,
                    runtime=runtime,
                    service=service,
                    client=client,
                    address=address,
                )
        finally:
            await server.stop()


@pytest.fixture
async def run_rollouts() -> AsyncIterator[RunRollouts]:
    """Start rollout services; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def run(
            reward_url: str = "127.0.0.1:1", slots: int = SLOTS, probe: ProbeEngine | None = None
        ) -> Rollouts:
            return await stack.enter_async_context(rollouts(reward_url, slots, probe))

        yield run
