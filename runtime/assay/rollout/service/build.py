"""Builds the rollout service; the only module here that imports every concrete class."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from assay.client import Client
from assay.config.ready_files import Part, ready_file
from assay.edge import lifecycle
from assay.edge.access.audit import open_audit
from assay.edge.auth import Operator, Tenants, refuse_open_listener, warn_clear_tokens
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.metrics import Metrics, open_metrics
from assay.edge.probes import Probes
from assay.edge.tracing import NoTracer
from assay.rollout.models.tokenizer import text_bytes_max
from assay.rollout.service.backend import Backend, open_backend
from assay.rollout.service.rewards import RewardServiceDesk
from assay.rollout.service.server import RolloutServer
from assay.rollout.service.service import RolloutService
from assay.rollout.service.sessions import Room
from assay.rollout.service.wire import Served

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.config.rollouts import RolloutSettings
    from assay.config.settings import Settings
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.server.hub import StreamingEngine
    from assay.rollout.service.records import Judged
    from assay.rollout.service.rewards import RewardDesk

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What another listener of this process shares with the service."""

    service: RolloutService
    runtime: StreamingEngine
    served: Served
    tokenizer: Tokenizer | None
    desk: Callable[[Callable[[int, Judged], None]], RewardDesk]
    callers: Tenants
    metrics: Metrics
    clock: Clock


class Beside(Protocol):
    """Another listener of this process."""

    name: str
    """In the ready file."""

    async def start(self) -> str:
        """Listen; returns the address."""
        ...

    async def stop(self) -> None:
        """Drain and stop."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutApi:
    """The service, its listeners and its engine."""

    settings: Settings
    backend: Backend
    server: RolloutServer
    probes: Probes
    beside: Sequence[Beside] = ()

    async def run(self) -> None:
        """Serve until stopped by a signal."""
        with lifecycle.stop_on_signals() as stop:
            with lifecycle.starting():
                address = await self.server.start()
                rollout = self.settings.rollout
                port = await self.probes.start(rollout.host, rollout.http_port)
                others = {one.name: await one.start() for one in self.beside}
            listening = {"grpc": address, "http": f"http://{rollout.host}:{port}", **others}
            device = self.backend.device, self.backend.device_reason
            log.info("listening", **listening, device=device[0], device_reason=device[1])
            ready = ready_file(self.settings.data_dir, Part.ROLLOUT)
            watching = asyncio.create_task(self.server.watch_readiness(), name="readiness")
            try:
                with lifecycle.listening(ready, listening):
                    await stop.wait()
            finally:
                watching.cancel()
                await asyncio.gather(*(one.stop() for one in self.beside))
                await self.server.stop()
                await self.probes.stop()
                self.close()

    def close(self) -> None:
        """Free the engine; rollouts in flight are lost."""
        self.backend.close()


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    beside: Callable[[Settings, Shared], Sequence[Beside]] = lambda settings, shared: (),
) -> RolloutApi:
    """Open the engine and build the service from the settings, and other listeners `beside` it.

    Raises:
        FailedPrecondition, DependencyDown, ModelError, CudaError: see `open_backend`.
        OpenToAllError: it would listen on the network without requiring tokens.
    """
    rollout, clock = settings.rollout, clock or Clock()
    _refuse_open_listeners(settings)
    backend = open_backend(rollout)
    with contextlib.ExitStack() as undo:
        undo.callback(backend.close)
        metrics = open_metrics(settings.data_dir)
        callers = Tenants.of(settings.reward)
        room = Room(groups_bytes_max=rollout.groups_bytes_max, tenants=lambda: callers.count)
        service = _service(rollout, backend, callers, clock, metrics, room)
        shared = Shared(
            service=service,
            runtime=backend.engine,
            served=_served(rollout, backend),
            tokenizer=backend.tokenizer,
            desk=functools.partial(_desk, rollout, callers, clock),
            callers=callers,
            metrics=metrics,
            clock=clock,
        )
        others = beside(settings, shared)
        server = RolloutServer(
            service,
            served=shared.served,
            weights=backend.weights,
            unsupported=backend.unsupported,
            guard=_guard(settings, shared, clock),
            settings=rollout,
            clock=clock,
        )
        probes = Probes(
            why_not_ready=lambda: service.why_not_ready,
            registry=shared.metrics.registry,
            operator=Operator(settings.operator),
        )
        undo.pop_all()
    return RolloutApi(
        settings=settings,
        backend=backend,
        server=server,
        probes=probes,
        beside=others,
    )


def _refuse_open_listeners(settings: Settings) -> None:
    for callers, needs in (
        (Tenants.of(settings.reward), "reward.tenants"),
        (Operator(settings.operator), "operator.token"),
    ):
        refuse_open_listener(
            settings.rollout.host,
            callers,
            setting="rollout.host",
            needs=needs,
            allow=settings.operator.allow_open_ports,
        )
    warn_clear_tokens(settings.rollout.host, settings.rollout.tls_certificate, part="rollout")


def _service(
    rollout: RolloutSettings,
    backend: Backend,
    callers: Tenants,
    clock: Clock,
    metrics: Metrics,
    room: Room,
) -> RolloutService:
    return RolloutService(
        engine=backend.engine,
        desk=functools.partial(_desk, rollout, callers, clock),
        text_of=functools.partial(_text_of, backend.tokenizer),
        clock=clock,
        new_id=lambda: secrets.token_hex(8),
        metrics=metrics,
        room=room,
    )


def _served(rollout: RolloutSettings, backend: Backend) -> Served:
    tokenizer = backend.tokenizer
    return Served(
        model=backend.model,
        vocab_size=backend.vocab_size,
        tokens_max=backend.tokens_max,
        slots=rollout.slots,
        encode=None if tokenizer is None else functools.partial(tokenizer.encode, bos=True),
        encode_more=None if tokenizer is None else functools.partial(tokenizer.encode, bos=False),
        text_bytes_max=0 if tokenizer is None else text_bytes_max(tokenizer, backend.tokens_max),
        stop_ids=() if tokenizer is None else tokenizer.eos_ids,
        groups_open_max=rollout.groups_open_max,
        reward_wait_s=min(rollout.reward_wait_s, rollout.reward_wait_s_max),
        reward_wait_s_max=rollout.reward_wait_s_max,
        device=backend.device,
        device_reason=backend.device_reason,
    )


def _guard(settings: Settings, shared: Shared, clock: Clock) -> CallGuard:
    rollout, callers = settings.rollout, shared.callers
    limits = DoorLimits(
        calls_max=rollout.calls_concurrent_max,
        streams_max=rollout.streams_concurrent_max,
        bytes_max=rollout.bytes_in_flight_max,
        tenants=callers.count,
    )
    return CallGuard(
        callers=callers,
        door=Door(limits, count=lambda: callers.count),
        clock=clock,
        tracer=NoTracer(),
        on_call=shared.metrics.api_called,
        audit=open_audit(settings, "rollout", asks=callers.ask_for_token, clock=clock),
    )


def token_for_rewards(shown: str | None, callers: Tenants) -> str | None:
    """What is shown to the reward service for a caller; `None`: what the environment has.

    A tenant that is known by its certificate showed no token, and gets no one else's.
    """
    return shown or ("" if callers.ask_for_token else None)


def _desk(
    rollout: RolloutSettings,
    callers: Tenants,
    clock: Clock,
    on_judged: Callable[[int, Judged], None],
) -> RewardDesk:
    return RewardServiceDesk(
        connect=lambda token: Client(rollout.reward_url, token=token_for_rewards(token, callers)),
        on_judged=on_judged,
        clock=clock,
        new_id=lambda: secrets.token_hex(8),
        waiting_max=rollout.slots,
    )


def _text_of(tokenizer: Tokenizer | None, tokens: Sequence[int]) -> bytes:
    """The response as judges get it; without a tokenizer, the ids as text."""
    if tokenizer is None:
        return " ".join(map(str, tokens)).encode()
    return tokenizer.decode(list(tokens)).encode("utf-8", "surrogatepass")
