"""rLLM: an `Evaluator` of episodes.

    trainer = AgentTrainer(..., evaluator=Evaluator("math"))

The word of rLLM for "not judged" is an exception of `evaluate`: its engine tries the rollout again
and in the end returns an episode of `TerminationReason.ERROR` without trajectories, which belongs
to no group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.core.errors import InvalidRequest
from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import Scorer, Scoring

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnscoredError(Exception):
    """The episode has no reward, through no fault of its own."""


class Evaluator:
    """Satisfies `rllm.types.Evaluator`; rLLM calls it in threads."""

    def __init__(
        self, scoring: Scoring | str, *, reference: str = "answer", **options: Any
    ) -> None:
        """Make an evaluator.

        Args:
            scoring: the options, or the name of a pipeline.
            reference: the key of the task's metadata with the label.
            options: replace those of `scoring`.
        """
        self.scorer = Scorer.of(scoring, **options)
        self.reference = reference

    def evaluate(self, task: Any, episode: Any) -> Any:
        """Judge the last response of the episode; rLLM's `EvalOutput`.

        Raises:
            InvalidRequest: the task has no label.
            UnscoredError: the response was not judged.
        """
        from rllm.eval.types import EvalOutput, Signal

        reward = self.reward(task, episode)
        signals = [Signal(name="assay", value=reward)]
        return EvalOutput(reward=reward, is_correct=reward > 0, signals=signals)

    def reward(self, task: Any, episode: Any) -> float:
        """The reward alone.

        Raises:
            InvalidRequest, UnscoredError: see `evaluate`.
        """
        row: Mapping[str, Any] = getattr(task, "metadata", task)
        if self.reference not in row:
            message = f"reference: the task's metadata has no {self.reference!r}"
            raise InvalidRequest(message, field="reference")
        judged = self.scorer.judge_one(
            Sample(
                response=last_response(episode),
                reference=reference_of(row[self.reference]),
                group_id=group_of(getattr(task, "id", row)),
            )
        )
        if judged.reward is None:
            raise UnscoredError(judged.cause)
        return judged.reward


def last_response(episode: Any) -> str:
    """What the model wrote last; empty for an episode without a step."""
    for trajectory in reversed(episode.trajectories):
        if trajectory.steps:
            return str(trajectory.steps[-1].model_response or "")
        if isinstance(trajectory.output, str):
            return trajectory.output
    return ""
