"""What a trainer reads of a session: JSON, and the binary layout of the rollout service."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.core.trajectory import pack

if TYPE_CHECKING:
    from assay.rollout.gateway.record import TurnBranch
    from assay.rollout.gateway.sessions import AgentSession

Json = dict[str, Any]


def opened(session: AgentSession, base_url: str) -> Json:
    """The answer to `POST /sessions`: what an agent needs in its environment."""
    return {
        "session_id": session.key.session_id,
        "base_url": f"{base_url}/sessions/{session.key.session_id}/v1",
        "api_key": session.api_key,
        "seed": session.seed,
    }


def state(session: AgentSession) -> Json:
    """The session without its trajectories."""
    judged = session.judged
    outcome = None if judged is None or judged.outcome is None else judged.outcome.value
    return {
        "session_id": session.key.session_id,
        "group_id": session.spec.group_id,
        "state": session.state.value,
        "outcome": outcome,
        "reward": None if judged is None else judged.reward,
        "evidence": None if judged is None else asdict(judged.evidence),
        "opened_ns": session.opened_ns,
        "counts": asdict(session.record.counts),
        "tokens": session.record.tokens,
    }


def trajectories(session: AgentSession, *, columns: bool) -> Json:
    """The session and its trajectories.

    Args:
        session: to show.
        columns: with the tokens; without, they are read from `packed`.
    """
    branches = session.record.branches
    return {
        **state(session),
        "trajectories": [
            _trajectory(index, branch, columns=columns) for index, branch in enumerate(branches)
        ],
    }


def packed(session: AgentSession) -> bytes:
    """The tokens of the trajectories, in order, as `assay.core.trajectory.unpack` reads them."""
    return pack([branch.tokens for branch in session.record.branches])


def _trajectory(index: int, branch: TurnBranch, *, columns: bool) -> Json:
    tokens = branch.tokens
    parent = branch.parent
    shown: Json = {
        "trajectory": index,
        "parent": None
        if parent is None
        else {"trajectory": parent.trajectory, "tokens": parent.position},
        "prompt_tokens": len(tokens.prompt_ids),
        "response_tokens": tokens.tokens,
        "finish_reason": branch.turns[-1].finish_reason,
        "turns": [{**asdict(turn), "how": turn.how.value} for turn in branch.turns],
        "segments": [[int(segment.speaker), segment.tokens] for segment in tokens.segments],
        "versions": [[run.policy_version, run.tokens] for run in tokens.versions],
    }
    if columns:
        shown["prompt_ids"] = list(tokens.prompt_ids)
        shown["response_ids"] = list(tokens.response_ids)
        shown["response_mask"] = list(tokens.response_mask)
        shown["rollout_logp"] = list(tokens.rollout_logp)
    return shown
