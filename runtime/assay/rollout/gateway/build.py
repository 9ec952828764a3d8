"""Builds the gateway; the only module here that imports every concrete class."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from assay.core.errors import InvalidRequest
from assay.edge.access.audit import open_audit
from assay.edge.calls import CallGuard
from assay.edge.door import Door, DoorLimit, DoorLimits
from assay.edge.tracing import NoTracer
from assay.rollout.gateway.app import build_app
from assay.rollout.gateway.calls import Calls, ServedModel
from assay.rollout.gateway.listener import BODY_S_MAX, GatewayListener
from assay.rollout.gateway.prompts import PromptReader
from assay.rollout.gateway.rewards import SessionRewards
from assay.rollout.gateway.sessions import SessionCallers, Sessions
from assay.rollout.gateway.turns import AgentTurns
from assay.rollout.models.chat import ChatTemplate

if TYPE_CHECKING:
    from assay.config.rollouts import RolloutSettings
    from assay.config.settings import Settings
    from assay.edge.access.audit import Audit
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.service.build import Shared

TENANT_SHARE = 0.5
"""Of each limit that one of several tenants may hold."""


def beside(settings: Settings, shared: Shared) -> list[GatewayListener]:
    """The gateway, if `rollout.gateway.enabled`; see `build` of the rollout service."""
    if not settings.rollout.gateway.enabled:
        return []
    callers = shared.callers
    audit = open_audit(settings, "gateway", asks=callers.ask_for_token, clock=shared.clock)
    return [build_gateway(settings.rollout, shared, tenants=callers.count, audit=audit)]


def build_gateway(
    settings: RolloutSettings, parts: Shared, *, tenants: int, audit: Audit | None = None
) -> GatewayListener:
    """Build the gateway, on the running event loop.

    Raises:
        InvalidRequest: `rollout.gateway.chat_template` is not a template.
    """
    limits, tokenizer = settings.gateway, parts.tokenizer
    turns = AgentTurns(
        parts.runtime,
        parts.service,
        waiting_max=limits.turns_concurrent_max,
        wait_s=limits.turn_wait_s,
    )
    callers = SessionCallers(parts.callers, asks_certificate=settings.tls_client_ca is not None)
    rewards = SessionRewards(parts.desk)
    sessions = Sessions(
        settings=limits,
        callers=callers,
        limit=DoorLimit(
            "sessions", total=limits.sessions_max, tenants=max(1, tenants), share=TENANT_SHARE
        ),
        rewards=rewards,
        turns=turns,
        clock=parts.clock,
        new_id=_new_id,
        vocab_size=parts.served.vocab_size,
        reward_wait_s=settings.reward_wait_s,
    )
    served = _served(settings, parts)
    calls = Calls(
        sessions=sessions,
        turns=turns,
        reader=PromptReader(tokenizer, served.template, tokens_max=parts.served.tokens_max),
        served=served,
        clock=parts.clock,
        new_id=_new_id,
        metrics=parts.metrics,
    )
    guard = _guard(settings, parts, callers, tenants, audit)
    app = build_app(calls, callers=callers, guard=guard, body_bytes_max=limits.body_bytes_max)
    return GatewayListener(
        app,
        settings=settings,
        sessions=sessions,
        turns=turns,
        rewards=rewards,
        clock=parts.clock,
        metrics=parts.metrics,
    )


def _new_id() -> str:
    return secrets.token_hex(16)


def _served(settings: RolloutSettings, parts: Shared) -> ServedModel:
    tokenizer = parts.tokenizer
    vocab_size = parts.served.vocab_size
    return ServedModel(
        name=parts.served.model,
        vocab_size=vocab_size,
        tokens_max=parts.served.tokens_max,
        tokenizer=tokenizer,
        template=_template(settings, tokenizer),
        token_bytes=() if tokenizer is None else tokenizer.token_bytes(vocab_size),
    )


def _template(settings: RolloutSettings, tokenizer: Tokenizer | None) -> ChatTemplate | None:
    """The operator's, or the model's own."""
    path = settings.gateway.chat_template
    if path is None:
        return getattr(tokenizer, "template", None)
    try:
        return ChatTemplate(path.read_text("utf-8"))
    except (InvalidRequest, OSError, UnicodeDecodeError) as error:
        name = "rollout.gateway.chat_template"
        raise InvalidRequest(f"{name}: {path}: {error}", field=name) from None


def _guard(
    settings: RolloutSettings,
    parts: Shared,
    callers: SessionCallers,
    tenants: int,
    audit: Audit | None,
) -> CallGuard:
    limits = DoorLimits(
        calls_max=settings.calls_concurrent_max,
        streams_max=settings.gateway.turns_concurrent_max,
        bytes_max=settings.bytes_in_flight_max,
        tenants=max(1, tenants),
        tenant_share=TENANT_SHARE,
        body_s_max=BODY_S_MAX,
    )
    return CallGuard(
        callers=callers,
        door=Door(limits),
        clock=parts.clock,
        tracer=NoTracer(),
        on_call=parts.metrics.api_called,
        audit=audit,
    )
