"""Builds the rollout service; the only module here that imports every concrete class."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from assay.client import Client
from assay.config.ready_files import Part, ready_file
from assay.core.errors import FailedPrecondition
from assay.edge import lifecycle
from assay.edge.auth import Operator, Tenants, refuse_open_listener
from assay.edge.calls import CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimits
from assay.edge.metrics import Metrics, open_metrics
from assay.edge.probes import Probes
from assay.edge.tracing import NoTracer
from assay.rollout.models.engine import Engine, EngineSettings
from assay.rollout.models.load import load_model, load_tokenizer
from assay.rollout.options import RuntimeOptions
from assay.rollout.runtime import Runtime
from assay.rollout.service.rewards import RewardServiceDesk
from assay.rollout.service.server import RolloutServer
from assay.rollout.service.service import RolloutService
from assay.rollout.service.wire import Served

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.config.settings import RolloutSettings, Settings
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.service.records import Judged
    from assay.rollout.service.rewards import RewardDesk

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutApi:
    """The service, its listener and its engine."""

    settings: Settings
    engine: Engine
    runtime: Runtime
    server: RolloutServer
    probes: Probes

    async def run(self) -> None:
        """Serve until stopped by a signal."""
        with lifecycle.stop_on_signals() as stop:
            with lifecycle.starting():
                address = await self.server.start()
                rollout = self.settings.rollout
                port = await self.probes.start(rollout.host, rollout.http_port)
            listening = {"grpc": address, "http": f"http://{rollout.host}:{port}"}
            log.info("listening", **listening)
            sign = ready_file(self.settings.data_dir, Part.ROLLOUT)
            watching = asyncio.create_task(self.server.watch_readiness(), name="readiness")
            try:
                with lifecycle.listening(sign, listening):
                    await stop.wait()
            finally:
                watching.cancel()
                await self.server.stop()
                await self.probes.stop()
                self.close()

    def close(self) -> None:
        """Free the engine; rollouts in flight are lost."""
        self.runtime.close()
        self.engine.close()


def build(settings: Settings, *, clock: Clock | None = None) -> RolloutApi:
    """Load the model and build the service from the settings.

    Raises:
        FailedPrecondition: no model is set.
        CorruptModel, UnsupportedModel: the model's files are wrong.
        OpenToAllError: it would listen on the network without requiring tokens.
    """
    rollout, clock = settings.rollout, clock or Clock()
    operator = Operator(settings.operator)
    for callers, needs in (
        (Tenants(settings.reward.tenants), "reward.tenants"),
        (operator, "operator.token"),
    ):
        refuse_open_listener(
            rollout.host,
            callers,
            setting="rollout.host",
            needs=needs,
            allow=settings.operator.allow_open_ports,
        )
    if rollout.model is None:
        raise FailedPrecondition("rollout.model: the path of a model", field="rollout.model")
    model = load_model(rollout.model)
    tokenizer = _tokenizer(rollout)
    with contextlib.ExitStack() as undo:
        engine = undo.enter_context(Engine.create(model, _engine_settings(rollout)))
        runtime = undo.enter_context(_runtime(engine, rollout, tokenizer))
        service = _service(rollout, runtime, tokenizer, clock)
        metrics = open_metrics(settings.data_dir)
        server = RolloutServer(
            service,
            served=_served(rollout, engine, tokenizer),
            weights=engine,
            guard=_guard(settings, metrics, clock),
            settings=rollout,
            clock=clock,
        )
        probes = Probes(
            why_not_ready=lambda: "the engine failed" if service.failed else "",
            registry=metrics.registry,
            operator=operator,
        )
        undo.pop_all()
    return RolloutApi(
        settings=settings, engine=engine, runtime=runtime, server=server, probes=probes
    )


def _engine_settings(rollout: RolloutSettings) -> EngineSettings:
    return EngineSettings(
        threads=rollout.threads, batch_max=rollout.batch_max, seq_len_max=rollout.tokens_max
    )


def _runtime(engine: Engine, rollout: RolloutSettings, tokenizer: Tokenizer | None) -> Runtime:
    vocab_size = engine.config.vocab_size
    return Runtime(
        engine,
        slots=rollout.slots,
        options=RuntimeOptions(seq_len_max=_tokens_max(engine, rollout)),
        token_bytes=tokenizer.token_bytes(vocab_size) if tokenizer is not None else None,
    )


def _tokens_max(engine: Engine, rollout: RolloutSettings) -> int:
    return min(rollout.tokens_max, engine.config.positions_max)


def _service(
    rollout: RolloutSettings, runtime: Runtime, tokenizer: Tokenizer | None, clock: Clock
) -> RolloutService:
    return RolloutService(
        engine=runtime,
        desk=functools.partial(_desk, rollout, clock),
        text_of=functools.partial(_text_of, tokenizer),
        clock=clock,
        new_id=lambda: secrets.token_hex(8),
    )


def _served(rollout: RolloutSettings, engine: Engine, tokenizer: Tokenizer | None) -> Served:
    return Served(
        model=rollout.model.name if rollout.model is not None else "",
        vocab_size=engine.config.vocab_size,
        tokens_max=_tokens_max(engine, rollout),
        slots=rollout.slots,
        encode=None if tokenizer is None else functools.partial(_encode, tokenizer),
        stop_ids=() if tokenizer is None else tokenizer.eos_ids,
        groups_open_max=rollout.groups_open_max,
        reward_wait_s=rollout.reward_wait_s,
    )


def _guard(settings: Settings, metrics: Metrics, clock: Clock) -> CallGuard:
    rollout = settings.rollout
    limits = DoorLimits(
        calls_max=rollout.calls_concurrent_max,
        streams_max=rollout.streams_concurrent_max,
        bytes_max=rollout.bytes_in_flight_max,
        tenants=max(1, len(settings.reward.tenants)),
    )
    return CallGuard(
        callers=Tenants(settings.reward.tenants),
        door=Door(limits),
        clock=clock,
        tracer=NoTracer(),
        on_call=metrics.api_called,
    )


def _desk(
    rollout: RolloutSettings, clock: Clock, on_judged: Callable[[int, Judged], None]
) -> RewardDesk:
    return RewardServiceDesk(
        connect=lambda token: Client(rollout.reward_url, token=token),
        on_judged=on_judged,
        clock=clock,
        new_id=lambda: secrets.token_hex(8),
        waiting_max=rollout.slots,
    )


def _tokenizer(rollout: RolloutSettings) -> Tokenizer | None:
    path = rollout.tokenizer or rollout.model
    if path is None or (rollout.tokenizer is None and path.suffix == ".bin"):
        return None
    return load_tokenizer(path)


def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, bos=True)


def _text_of(tokenizer: Tokenizer | None, tokens: Sequence[int]) -> bytes:
    """The response as judges get it; without a tokenizer, the ids as text."""
    if tokenizer is None:
        return " ".join(map(str, tokens)).encode()
    return tokenizer.decode(list(tokens)).encode("utf-8", "surrogatepass")
