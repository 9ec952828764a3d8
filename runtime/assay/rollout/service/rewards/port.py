"""Where finished responses are judged: the interface, and what it takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.rollout.service.records import Judged

if TYPE_CHECKING:
    from assay.rollout.service.records import RewardPlan, SessionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One finished response; `number` identifies it within the service."""

    number: int
    group_id: str
    text: bytes
    reference_json: bytes


class RewardDesk(Protocol):
    """Where finished responses go."""

    async def open_session(self, key: SessionKey, plan: RewardPlan, *, token: str | None) -> None:
        """Judge the responses of this session, on behalf of the token's owner.

        Raises:
            NotFound: no such pipeline.
            InvalidRequest: its settings are wrong.
            DependencyDown: the reward service cannot be reached.
        """
        ...

    def open_batch(self, key: SessionKey, batch_id: str, *, deadline_s: float | None) -> None:
        """Name the deadline of a batch, from now, before its first response."""
        ...

    def announce(self, key: SessionKey, responses: int) -> None:
        """Rollouts have begun: this many responses will come."""
        ...

    def hand_in(self, key: SessionKey, batch_id: str, response: Response) -> None:
        """Have it judged.

        Raises:
            Saturated: too many wait already.
        """
        ...

    def forget(self, number: int) -> None:
        """Its answer is no longer needed: withdraw it, if there is none yet."""
        ...

    def seal(self, key: SessionKey, batch_id: str) -> None:
        """No more responses of this batch will come."""
        ...

    async def close_session(self, key: SessionKey) -> None:
        """Cancel the session's remaining responses."""
        ...

    @property
    def waiting(self) -> int:
        """Responses without an answer yet."""
        ...

    async def close(self) -> None:
        """Close all sessions."""
        ...


def infra_failed(why: str) -> Judged:
    """End it as INFRA_FAILED; `why` goes into the evidence."""
    return Judged(outcome=Outcome.INFRA_FAILED, evidence=Evidence(error=why))


def json_object(text: str | bytes, field_name: str) -> dict[str, Any]:
    """Parse a JSON object; empty text is the empty object.

    Raises:
        InvalidRequest: it is not a JSON object.
    """
    try:
        parsed = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{field_name}: {error}", field=field_name) from None
    if not isinstance(parsed, dict):
        raise InvalidRequest(f"{field_name}: not a JSON object", field=field_name)
    return parsed
