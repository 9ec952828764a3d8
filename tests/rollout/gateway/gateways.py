"""A gateway that listens in this process, on a real engine with a small model."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

import httpx
from tests.rollout.gateway import models

from assay.client import Backoff, Client
from assay.config.rollouts import RolloutSettings
from assay.edge.auth import Tenants
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.rollout import Runtime, RuntimeOptions
from assay.rollout.gateway.build import build_gateway
from assay.rollout.models import DType, Engine, Model
from assay.rollout.models.engine import EngineSettings
from assay.rollout.service.build import Shared
from assay.rollout.service.rewards import RewardServiceDesk
from assay.rollout.service.service import RolloutService
from assay.rollout.service.wire import Served

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from assay.config.access import TenantSettings
    from assay.edge.access.audit import Audit
    from assay.rollout import ProbeEngine
    from assay.rollout.gateway.sessions import Sessions
    from assay.rollout.models.tokenizer import HuggingFaceTokenizer

SLOTS = 12
SETTINGS = EngineSettings(weight_dtype=DType.F32, batch_max=8, step_tokens_max=64, threads=1)
SHORT = Backoff(first_s=0.01, longest_s=0.1, total_s=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """What a test needs of it."""

    url: str
    http: httpx.AsyncClient
    runtime: Runtime
    service: RolloutService
    engine: Engine
    tokenizer: HuggingFaceTokenizer
    sessions: Sessions
    metrics: Metrics

    async def open(self, **body: Any) -> dict[str, Any]:
        answer = await self.http.post("/sessions", json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def chat(self, session: Mapping[str, Any], *said: str, **body: Any) -> dict[str, Any]:
        """One turn of a conversation: user, assistant, user ..."""
        roles = ["user", "assistant"] * len(said)
        messages = [{"role": role, "content": one} for role, one in zip(roles, said, strict=False)]
        return await self.complete(session, messages=messages, **body)

    async def complete(self, session: Mapping[str, Any], **body: Any) -> dict[str, Any]:
        """A chat completion, if there are messages."""
        path = "chat/completions" if "messages" in body else "completions"
        answer = await self.http.post(f"{session['base_url']}/{path}", json=body)
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def read(self, session: Mapping[str, Any], **query: Any) -> dict[str, Any]:
        """The session's trajectories."""
        path = f"/sessions/{session['session_id']}/trajectories"
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()
        return made


RunGateway = Callable[..., Awaitable[Gateway]]


Desk = Callable[[Any], RewardServiceDesk]


def desk_of(reward_url: str, clock: Clock) -> Desk:
    """Makes desks in front of a reward service, with a short patience."""

    def desk(on_judged: Any) -> RewardServiceDesk:
        return RewardServiceDesk(
            connect=lambda token: Client(reward_url, token=token, backoff=SHORT),
            on_judged=on_judged,
            clock=clock,
            new_id=lambda: secrets.token_hex(6),
            waiting_max=SLOTS,
        )

    return desk


def shared_with(
    runtime: Runtime, desk: Desk, clock: Clock, *, tokens_max: int, vocab: int, callers: Tenants
) -> Shared:
    """A rollout service, and what a gateway shares with it."""
    own, metrics = models.tokenizer(), Metrics()
    service = RolloutService(
        engine=runtime,
        metrics=metrics,
        desk=desk,
        text_of=lambda tokens: own.decode(list(tokens)).encode(),
        clock=clock,
        new_id=lambda: secrets.token_hex(4),
    )
    served = Served(
        model="small",
        vocab_size=vocab,
        tokens_max=tokens_max,
        slots=SLOTS,
        encode=None,
        encode_more=None,
        text_bytes_max=0,
        stop_ids=own.eos_ids,
        groups_open_max=32,
        reward_wait_s=30.0,
        reward_wait_s_max=600.0,
    )
    return Shared(
        service=service,
        runtime=runtime,
        served=served,
        tokenizer=own,
        desk=desk,
        callers=callers,
        metrics=metrics,
        clock=clock,
    )


@asynccontextmanager
async def gateway(
    model: Model | None = None,
    *,
    reward_url: str = "127.0.0.1:1",
    tokens_max: int = 256,
    slots: int = SLOTS,
    probe: ProbeEngine | None = None,
    tenants: Mapping[str, TenantSettings] | None = None,
    limits: Mapping[str, Any] | None = None,
    trusted: ssl.SSLContext | None = None,
    audit: Audit | None = None,
    **settings_of: object,
) -> AsyncIterator[Gateway]:
    """On a model of random weights, unless another is given."""
    own, clock, model = models.tokenizer(), Clock(), model or models.random()
    settings = RolloutSettings.model_validate(
        {
            "gateway_port": 0,
            "drain_s": 0.0,
            "gateway": dict(limits or {}),
            "reward_wait_s": 30.0,
            **settings_of,
        }
    )
    vocab, options = model.config.vocab_size, RuntimeOptions(seq_len_max=tokens_max)
    table = own.token_bytes(vocab)
    with (
        Engine.create(model, SETTINGS) as engine,
        Runtime(probe or engine, slots=slots, options=options, token_bytes=table) as runtime,
    ):
        shared = shared_with(
            runtime,
            desk_of(reward_url, clock),
            clock,
            tokens_max=tokens_max,
            vocab=vocab,
            callers=Tenants(tenants or {}),
        )
        listener = build_gateway(settings, shared, tenants=len(tenants or {}), audit=audit)
        shared.service.start()
        url = await listener.start()
        try:
            verify = trusted or True
            async with httpx.AsyncClient(base_url=url, timeout=60.0, verify=verify) as http:
                yield Gateway(
                    url=url,
                    http=http,
                    runtime=runtime,
                    service=shared.service,
                    engine=engine,
                    tokenizer=own,
                    sessions=listener.sessions,
                    metrics=shared.metrics,
                )
        finally:
            await listener.stop()
            await shared.service.close()
