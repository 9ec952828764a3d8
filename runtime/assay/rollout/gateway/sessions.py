"""The open sessions: who owns them, their keys, their limits, their end.

    open -> judging -> ended

A session is open for calls until `end`; then its answer is judged, and its trajectories stay until
it is closed, or unused for `idle_s_max`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from assay.core.errors import (
    Conflict,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    TooLarge,
    Unauthenticated,
)
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.edge.auth import OF_ANOTHER
from assay.rollout.errors import InvalidRollout
from assay.rollout.gateway.record import TurnRecord
from assay.rollout.interface.checks import check_sampling, check_stops
from assay.rollout.service.records import NOT_ASKED, Judged, RewardPlan, SessionKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assay.config.rollouts import GatewaySettings
    from assay.core.ids import TenantId
    from assay.edge.auth import Callers, Tenant
    from assay.edge.clock import Clock
    from assay.edge.door import DoorLimit
    from assay.rollout.gateway.bodies import EndBody, SamplingDefaults, SessionBody
    from assay.rollout.gateway.rewards import BatchPart, SessionRewards
    from assay.rollout.gateway.turns import AgentTurns
    from assay.rollout.server.hub import Ticket

KEY_PREFIX: Final = "sk-assay-session-"
BYTES_PER_TOKEN: Final = 17
"""Of a captured token in memory: id twice, log-prob, mask, and its share of runs."""
SEED_MASK: Final = (1 << 64) - 1
NO_TURN: Final = Judged(
    outcome=Outcome.CANCELLED, evidence=Evidence(error="the session ended without a turn")
)
OVER: Final = "the session has ended"


class State(StrEnum):
    """How far a session is."""

    OPEN = "open"
    JUDGING = "judging"
    ENDED = "ended"


@dataclass(slots=True, kw_only=True, eq=False)
class AgentSession:
    """See the module."""

    key: SessionKey
    tenant: Tenant
    spec: SessionBody
    api_key: str
    seed: int
    opened_ns: int
    used_ns: int
    """By the monotonic clock, like `deadline_ns`."""
    deadline_ns: int | None
    claim: BatchPart | None = None
    record: TurnRecord = field(default_factory=TurnRecord)
    state: State = State.OPEN
    turns: int = 0
    """Responses begun; the seed's offset."""
    running: set[Ticket] = field(default_factory=set)
    answer: str = ""
    """Text of the last turn."""
    judged: Judged | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    def settle(self, judged: Judged) -> None:
        """The session's reward, or why there is none."""
        self.judged = judged
        self.state = State.ENDED
        self.settled.set()


class SessionCallers:
    """Callers with a tenant's token or certificate, or with the key of one session."""

    def __init__(self, tenants: Callers, *, asks_certificate: bool = False) -> None:
        """`asks_certificate`: of callers without a session's key; standard agents have none."""
        self._tenants = tenants
        self._asks_certificate = asks_certificate
        self._owners: dict[bytes, AgentSession] = {}

    @property
    def ask_for_token(self) -> bool:
        """See `Callers`."""
        return self._tenants.ask_for_token

    def authenticate(self, authorization: str, certificate: Iterable[str] = ()) -> Tenant:
        """See `Callers`; the key of a session stands for its tenant."""
        if not is_session_key(authorization):
            if self._asks_certificate and not certificate:
                raise Unauthenticated("certificate: this call needs one")
            return self._tenants.authenticate(authorization, certificate)
        tenant = self.session(authorization).tenant
        if self._of_another(tenant, certificate):
            raise Unauthenticated(OF_ANOTHER)
        return tenant

    def _of_another(self, tenant: Tenant, certificate: Iterable[str]) -> bool:
        """Whether the certificate beside a session's key stands for another tenant."""
        if not certificate:
            return False
        try:
            return self._tenants.authenticate("", certificate).tenant_id != tenant.tenant_id
        except Unauthenticated:
            return False  # it stands for no one

    def session(self, authorization: str) -> AgentSession:
        """The session of a key.

        Raises:
            Unauthenticated: no session has this key.
        """
        found = self._owners.get(_digest(shown(authorization)))
        if found is None:
            raise Unauthenticated("authorization: no session has this key")
        return found

    def add(self, session: AgentSession) -> None:
        """Accept the session's key."""
        self._owners[_digest(session.api_key)] = session

    def remove(self, session: AgentSession) -> None:
        """Its key means nothing any more."""
        self._owners.pop(_digest(session.api_key), None)


def shown(authorization: str) -> str:
    """The token of an `Authorization: Bearer ...` value."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_session_key(authorization: str) -> bool:
    """Whether it has the form of a session's key."""
    return shown(authorization).startswith(KEY_PREFIX)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


class Sessions:
    """All sessions; every call comes from the event loop."""

    def __init__(
        self,
        *,
        settings: GatewaySettings,
        callers: SessionCallers,
        limit: DoorLimit,
        rewards: SessionRewards,
        turns: AgentTurns,
        clock: Clock,
        new_id: Callable[[], str],
        vocab_size: int,
        reward_wait_s: float,
    ) -> None:
        """Make the registry.

        Args:
            settings: limits.
            callers: learns the sessions' keys.
            limit: number of sessions, in total and per tenant.
            rewards: judges.
            turns: cancels what a closed session has in the engine.
            clock: for deadlines and idle time.
            new_id: random text for ids, keys and seeds: 32 hexadecimal digits.
            vocab_size: of the model.
            reward_wait_s: how long an answer waits for its reward.
        """
        self._settings = settings
        self._callers = callers
        self._limit = limit
        self._rewards = rewards
        self._turns = turns
        self._clock = clock
        self._new_id = new_id
        self._vocab_size = vocab_size
        self._reward_wait_s = reward_wait_s
        self._sessions: dict[SessionKey, AgentSession] = {}
        self._opening: set[SessionKey] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def counts(self) -> dict[str, int]:
        """Number of sessions in each state."""
        found = Counter(session.state for session in self._sessions.values())
        return {state.value: found[state] for state in State}

    async def open(self, tenant: Tenant, spec: SessionBody, *, token: str | None) -> AgentSession:
        """Open a session.

        Raises:
            Conflict: one of that name is open.
            Saturated: there are too many.
            InvalidRequest: a field is wrong.
            NotFound, DependencyDown: from the reward service.
        """
        key = SessionKey(tenant.tenant_id, spec.session_id or self._new_id()[:16])
        if key in self._sessions or key in self._opening:
            raise Conflict("session_id: a session of that name is open", field="session_id")
        self._check(spec.sampling)
        self._limit.take(tenant.tenant_id)
        self._opening.add(key)
        try:
            claim = await self._claim(key, spec, token)
        except BaseException:
            self._limit.give_back(tenant.tenant_id)
            raise
        finally:
            self._opening.discard(key)
        session = self._made(key, tenant, spec, claim)
        self._sessions[key] = session
        self._callers.add(session)
        return session

    def _made(
        self, key: SessionKey, tenant: Tenant, spec: SessionBody, claim: BatchPart | None
    ) -> AgentSession:
        now_ns = self._clock.monotonic_ns()
        deadline_s = spec.deadline_s
        return AgentSession(
            key=key,
            tenant=tenant,
            spec=spec,
            api_key=KEY_PREFIX + self._new_id(),
            seed=int(self._new_id()[:16], 16) if spec.seed is None else spec.seed,
            opened_ns=self._clock.now_ns(),
            used_ns=now_ns,
            deadline_ns=None if deadline_s is None else now_ns + round(deadline_s * 1e9),
            claim=claim,
        )

    def _check(self, sampling: SamplingDefaults) -> None:
        given = sampling.model_dump(exclude_none=True)
        stops = [sampling.stop] if isinstance(sampling.stop, str) else sampling.stop or []
        try:
            check_sampling(
                temperature=given.get("temperature", 1.0),
                top_k=max(0, given.get("top_k", 0)),
                top_p=given.get("top_p", 1.0),
                min_p=given.get("min_p", 0.0),
            )
            ids, texts = sampling.stop_token_ids or [], [stop.encode() for stop in stops]
            check_stops(ids, texts, vocab_size=self._vocab_size)
        except InvalidRollout as error:
            field_name = f"sampling.{openai_field(error.field)}"
            message = error.message.removeprefix(f"{error.field}: ")
            raise InvalidRequest(f"{field_name}: {message}", field=field_name) from None

    async def _claim(
        self, key: SessionKey, spec: SessionBody, token: str | None
    ) -> BatchPart | None:
        if spec.pipeline is None:
            return None
        plan = RewardPlan(
            pipeline=spec.pipeline,
            settings_json=json.dumps(spec.settings),
            wait_s_max=self._reward_wait_s,
        )
        return await self._rewards.open(
            key.tenant_id,
            plan,
            group_id=spec.group_id or key.session_id,
            size=spec.group_size if spec.group_id else 1,
            token=token,
        )

    def find(self, tenant_id: TenantId, session_id: str) -> AgentSession:
        """A session of this tenant; it is in use now.

        Raises:
            NotFound: none has that name.
        """
        session = self._sessions.get(SessionKey(tenant_id, session_id))
        if session is None:
            raise NotFound(f"no session {session_id!r} is open", field="session_id")
        session.used_ns = self._clock.monotonic_ns()
        return session

    def admit_turns(self, session: AgentSession, count: int) -> None:
        """Check the session's limits before `count` more responses.

        Raises:
            FailedPrecondition: it has ended.
            TooLarge: it is at its limit; a new session is needed.
        """
        if session.state is not State.OPEN:
            raise FailedPrecondition(OVER, field="session_id")
        if session.turns + count > self._settings.turns_max:
            message = f"rollout.gateway.turns_max is {self._settings.turns_max}; open a session"
            raise TooLarge(message, field="session_id")
        if session.record.tokens * BYTES_PER_TOKEN > self._settings.session_bytes_max:
            limit = self._settings.session_bytes_max
            message = f"rollout.gateway.session_bytes_max is {limit}; open a session"
            raise TooLarge(message, field="session_id")
        session.turns += count

    def end(self, session: AgentSession, body: EndBody) -> None:
        """No more turns; ask for the reward. Has no effect on a session that ended before.

        Raises:
            Saturated: too many answers wait for rewards; the session is still open.
        """
        if session.state is not State.OPEN:
            return
        text = session.answer if body.response is None else body.response
        if session.claim is None:
            session.settle(NOT_ASKED)
        elif not session.record.branches:
            self._rewards.skip(session.claim)
            session.settle(NO_TURN)
        else:
            self._ask(session, session.claim, text, body)
        self._stop_turns(session)

    def _ask(self, session: AgentSession, claim: BatchPart, text: str, body: EndBody) -> None:
        left_s = None
        if session.deadline_ns is not None:
            left_s = (session.deadline_ns - self._clock.monotonic_ns()) / 1e9
        reference = session.spec.reference if body.reference is None else body.reference
        session.asked = self._rewards.ask(
            claim, text=text, reference=reference, left_s=left_s, on_judged=session.settle
        )
        if session.state is State.OPEN:
            session.state = State.JUDGING

    def _stop_turns(self, session: AgentSession) -> None:
        for ticket in list(session.running):
            self._turns.tickets.give_up(ticket, FailedPrecondition(OVER, field="session_id"))
        session.running.clear()

    def close(self, session: AgentSession) -> None:
        """Drop a session and what it has in the engine and at the reward service."""
        if self._sessions.pop(session.key, None) is None:
            return
        self._callers.remove(session)
        self._limit.give_back(session.key.tenant_id)
        self._stop_turns(session)
        if session.claim is not None:
            if session.state is State.OPEN:
                self._rewards.skip(session.claim)
            self._rewards.forget(session.asked)
            self._rewards.leave(session.claim)
        if session.judged is None:
            session.settle(Judged(outcome=Outcome.CANCELLED))

    def close_idle(self) -> int:
        """Close the sessions that no one used for `idle_s_max`; return their number."""
        before_ns = self._clock.monotonic_ns() - round(self._settings.idle_s_max * 1e9)
        idle = [
            session
            for session in self._sessions.values()
            if session.used_ns < before_ns and not session.running
        ]
        for session in idle:
            self.close(session)
        return len(idle)


def openai_field(name: str) -> str:
    """The API's name of a field of the engine."""
    name = name.removeprefix("sampling.")
    return {"stop_ids": "stop_token_ids", "stop_strings": "stop", "seeds": "seed"}.get(name, name)
