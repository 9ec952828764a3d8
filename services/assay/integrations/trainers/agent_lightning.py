"""Agent Lightning: a reward event for each rollout that succeeded, written by its hooks.

    hooks.py:  class Hooks(Scored, RolloutHooks): ...

A response that was not judged is an event without a value, `source: "fallback"` and the reason.
Agent Lightning puts `agentlightning.reward_fillna_value` in its place, which would be a reward:
with `FILL` there, and the external module `verl_baseline`, it gets the mean of its group.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from assay.core.errors import InvalidRequest
from assay.integrations.sample import Sample, group_of, reference_of, response_text
from assay.integrations.scorer import shared_scorer
from assay.integrations.trainers.verl import FILL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from assay.integrations.judgement import Judgement

__all__ = ["FILL", "Scored", "last_response", "post_reward", "reward_data"]

REWARD: Final = "reward"
_MODEL_REQUEST: Final = "model_request"


class Scored:
    """To be mixed in before `agentlightning.hooks.RolloutHooks`."""

    assay_scoring: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options of `Scoring`; the variables of docs/integrations hold without a pipeline."""
    assay_label: ClassVar[str] = "answer"
    """The key of a rollout's input with the label."""

    def on_succeeded(self, rollout: Any, events: Mapping[str, Sequence[Any]], store: Any) -> None:
        """Judge what the model wrote last in the last attempt, and add the event.

        A rollout whose agent has reported a reward of its own is left alone. Raises nothing: Agent
        Lightning prints an error of a hook and goes on with its number for a missing reward.
        """
        attempt = rollout.status.last_attempt_id or "0"
        own = events.get(attempt, [])
        if any(event.event_type == REWARD for event in own):
            return
        try:
            judging = self._judging(rollout, last_response(own))
        except InvalidRequest as error:
            store.add_event(rollout.rollout_id, attempt, REWARD, _missing(error.message))
            return
        store.add_event(rollout.rollout_id, attempt, REWARD, reward_data(judging.result()))

    def _judging(self, rollout: Any, response: str) -> Future[Judgement]:
        row = rollout.input if isinstance(rollout.input, dict) else {}
        if self.assay_label not in row:
            message = f"{self.assay_label}: the rollout's input has none"
            raise InvalidRequest(message, field=self.assay_label)
        group = row.get("data_id") or row.get("instance_id") or row
        return shared_scorer(self.assay_scoring).start_one(
            Sample(
                response=response,
                reference=reference_of(row[self.assay_label]),
                group_id=group_of(group),
            )
        )


def reward_data(judged: Judgement) -> dict[str, Any]:
    """The data of a reward event, as `agentlightning.schemas.RewardData` names its fields."""
    if judged.reward is None:
        return _missing(judged.cause)
    return {"value": judged.reward, "source": "assay"}


def _missing(reason: str) -> dict[str, Any]:
    return {"value": None, "source": "fallback", "reason": reason}


def post_reward(client: Any, rollout_id: str, judged: Judgement, *, attempt_id: str = "0") -> None:
    """Report a judgement from an agent.

    Args:
        client: `AgentLightningSyncClient` with the server's `base_url`.
        rollout_id: which rollout.
        judged: its judgement.
        attempt_id: which attempt of it.
    """
    client.post(
        f"/api/rollouts/{rollout_id}/attempt/{attempt_id}/events",
        json={"event_type": REWARD, "data": reward_data(judged)},
    ).raise_for_status()


def last_response(events: Sequence[Any]) -> str:
    """What the model wrote in the last call that succeeded; empty without one."""
    for event in reversed(events):
        if event.event_type != _MODEL_REQUEST or event.data.get("status") == "error":
            continue
        response = event.data.get("response")
        choices = response.get("choices") if isinstance(response, dict) else None
        if not choices:
            continue
        message = choices[0].get("message")
        return response_text([message]) if message else str(choices[0].get("text") or "")
    return ""
