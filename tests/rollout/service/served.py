"""A rollout service with a small model, beside a reward API."""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.rollout.cuda.building import host_engine
from tests.rollout.engine.exact import random_model

from assay.client import Backoff, Client
from assay.client.rollouts import RolloutClient
from assay.config.rollouts import RolloutSettings
from assay.edge.auth import Tenants
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.metrics import Metrics
from assay.edge.tracing import NoTracer
from assay.rollout import ProbeEngine, Runtime, RuntimeOptions
from assay.rollout.cuda.sizes import EMULATED
from assay.rollout.models import DType, Engine
from assay.rollout.models.engine import EngineSettings
from assay.rollout.service.rewards import RewardServiceDesk
from assay.rollout.service.server import RolloutServer
from assay.rollout.service.service import RolloutService
from assay.rollout.service.wire import Served

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from assay.config.access import TenantSettings
    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.models import Model
    from assay.rollout.service.sessions import Room

TOKENS_MAX = 96
SLOTS = 12
ADAPTER_RANK = 32

SETTINGS = EngineSettings(weight_dtype=DType.F32, batch_max=8, step_tokens_max=64, threads=1)
SHORT = Backoff(first_s=0.01, longest_s=0.1, total_s=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """What a test needs of it."""

    model: Model
    engine: Any
    """What weights are staged into: an `Engine`, or a `CudaEngine`, which is `runtime` too."""
    runtime: Any
    service: RolloutService
    server: RolloutServer
    client: RolloutClient
    address: str
    metrics: Metrics

    def sample(self, name: str, **labels: str) -> float:
        """The value of a metric; 0 if nothing was counted."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def leftovers(own: Rollouts) -> list[str]:
    """What the service still holds, though nothing is asked of it."""
    stats, status = own.runtime.stats(), own.service.status()
    found = {
        "rollouts in flight": stats.in_flight,
        "slots": SLOTS - stats.slots_free,
        "decode credits": min(SLOTS, 16) - stats.decode_available,
        "reward credits": SLOTS - stats.reward_available,
        "trajectory credits": SLOTS - stats.trajectory_available,
        "blocks of keys and values (audit)": own.runtime.audit(),
        "sessions": status.sessions,
        "groups": status.groups_waiting + status.groups_running + status.groups_ended,
        "rewards awaited": status.rewards_waiting,
    }
    return [f"{name}: {count}" for name, count in found.items() if count]


MakeEngine = Callable[["Model", int], AbstractContextManager[tuple[Any, Any]]]
"""(model, slots) to what weights are staged into, and what decodes."""


@contextmanager
def on_cpu(
    model: Model, slots: int, *, probe: ProbeEngine | None, folder: Path | None
) -> Iterator[tuple[Engine, Runtime]]:
    """The native engine."""
    options = RuntimeOptions(seq_len_max=TOKENS_MAX)
    with (
        Engine.create(model, replace(SETTINGS, second_slot_dir=folder)) as engine,
        Runtime(probe or engine, slots=slots, options=options) as runtime,
    ):
        yield engine, runtime


@contextmanager
def on_cuda(model: Model, slots: int) -> Iterator[tuple[CudaEngine, CudaEngine]]:
    """The CUDA kernel, built for this host."""
    tuning = replace(EMULATED, adapter_rank=ADAPTER_RANK)
    size: dict[str, Any] = {
        "slots": slots,
        "seq_len_max": TOKENS_MAX,
        "prefill_chunk": 16,
        "tuning": tuning,
    }
    with host_engine(model, **size) as engine:
        yield engine, engine


RunRollouts = Callable[..., Awaitable[Rollouts]]


def text_of(tokens: Sequence[int]) -> bytes:
    return " ".join(map(str, tokens)).encode()


def limits(vocab_size: int, slots: int) -> Served:
    """What the service says that it serves."""
    return Served(
        model="random",
        vocab_size=vocab_size,
        tokens_max=TOKENS_MAX,
        slots=slots,
        encode=None,
        encode_more=None,
        text_bytes_max=0,
        stop_ids=(),
        groups_open_max=32,
        reward_wait_s=30.0,
        reward_wait_s_max=600.0,
    )


@asynccontextmanager
async def rollouts(
    reward_url: str = "127.0.0.1:1",
    slots: int = SLOTS,
    probe: ProbeEngine | None = None,
    tenants: dict[str, TenantSettings] | None = None,
    desk_backoff: Backoff = SHORT,
    room: Room | None = None,
    on: MakeEngine | None = None,
    **settings_of: object,
) -> AsyncIterator[Rollouts]:
    """On a random model, or on a probe that fails when a test asks it to."""
    model, clock, numbers = random_model("qwen3"), Clock(), itertools.count()
    settings = RolloutSettings.model_validate({"grpc_port": 0, "drain_s": 0.0, **settings_of})
    make = on or functools.partial(on_cpu, probe=probe, folder=settings.second_slot_dir)
    with make(model, slots) as (engine, runtime):
        metrics = Metrics()
        service = RolloutService(
            metrics=metrics,
            engine=runtime,
            desk=lambda on_judged: RewardServiceDesk(
                connect=lambda token: Client(reward_url, token=token, backoff=desk_backoff),
                on_judged=on_judged,
                clock=clock,
                new_id=lambda: secrets.token_hex(6),
                waiting_max=slots,
            ),
            text_of=text_of,
            clock=clock,
            new_id=lambda: f"pause{next(numbers)}",
            room=room,
        )
        served = limits(model.config.vocab_size, slots)
        guard = CallGuard(
            callers=Tenants(tenants or {}),
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
                    server=server,
                    client=client,
                    address=address,
                    metrics=metrics,
                )
        finally:
            await server.stop()
