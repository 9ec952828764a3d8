"""AReaL: a workflow whose episode is rejected where the platform could not judge the response.

    class Workflow(Scored, RLVRWorkflow): ...

AReaL's word for "not judged" is an episode that returns None. Its own reward wrapper knows no such
word: it gives 0 to what fails or takes longer than 15 s, so `Scored` takes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.core.errors import InvalidRequest
from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import Scorer, Scoring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _UnscoredError(Exception):
    """The response has no reward; ends the episode."""


class Scored:
    """To be mixed in before a workflow of AReaL that asks `async_reward_fn` for its reward."""

    def __init__(
        self,
        *arguments: Any,
        scoring: Scoring | str,
        options: Mapping[str, Any] | None = None,
        reference: str = "answer",
        **keywords: Any,
    ) -> None:
        """Make a workflow.

        Args:
            arguments: of the workflow.
            scoring: the options, or the name of a pipeline.
            options: replace those of `scoring`.
            reference: the column with the label.
            keywords: of the workflow, without `reward_fn`.
        """
        super().__init__(*arguments, reward_fn=_never_called, **keywords)  # type: ignore[call-arg]
        self.scorer = Scorer.of(scoring, **(options or {}))
        self.reference = reference
        self.async_reward_fn = self._reward

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        """Run the workflow's episode; None where the response was not judged."""
        episode: Callable[[Any, dict[str, Any]], Any] = super().arun_episode  # type: ignore[misc]
        try:
            return await episode(engine, data)
        except _UnscoredError:
            return None

    async def _reward(
        self, prompt: str, completion: str, _prompt_ids: Any, _completion_ids: Any, **row: Any
    ) -> float:
        if self.reference not in row:
            message = f"reference: the data set has no column {self.reference!r}"
            raise InvalidRequest(message, field="reference")
        judged = await self.scorer.judge_one_async(
            Sample(
                response=completion,
                reference=reference_of(row[self.reference]),
                group_id=group_of(prompt),
            )
        )
        if judged.reward is None:
            raise _UnscoredError(judged.cause)
        return judged.reward


def _never_called(*_: Any, **__: Any) -> float:
    """In place of the function that AReaL's wrapper would call in a process of its own."""
    raise AssertionError("the workflow does not ask async_reward_fn")


def whole_group(group_size: int) -> Callable[[Mapping[str, Any]], bool]:
    """Return a `dynamic_filter_fn` that refuses a group of which an episode was rejected.

    AReaL's normalisation with `mean_level: group` cuts the batch into slices of `group_size`: a
    group with fewer episodes would shift all groups behind it into each other.
    """

    def accepts(trajectory: Mapping[str, Any]) -> bool:
        return len(trajectory["rewards"]) == group_size

    return accepts
