"""Tinker cookbook: single-turn problems whose response is judged by the platform.

    class Problem(Scored, ProblemEnv): ...
    ProblemGroupBuilder(partial(Problem, renderer, question, answer), num_envs=8)

The cookbook's word for "not judged" is an exception of `step`: its rollout strategy tries again
with a fresh environment, leaves the response out of the group, or skips the group. The group's mean
is taken over the responses that are left.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from assay.integrations.sample import Sample, group_of, reference_of, response_text
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnscoredError(Exception):
    """The response has no reward, through no fault of its own."""


class Scored:
    """To be mixed in before `tinker_cookbook.rl.problem_env.ProblemEnv`."""

    def __init__(
        self,
        renderer: Any,
        question: str,
        label: object,
        *,
        scoring: Mapping[str, Any] = MappingProxyType({}),
        **keywords: Any,
    ) -> None:
        """Make the environment of one response.

        Args:
            renderer: of the cookbook.
            question: what the user asks.
            label: what the response is judged by.
            scoring: options of `Scoring`, plain values: the cookbook pickles environments'
                builders. The variables of docs/integrations hold without a pipeline.
            keywords: of `ProblemEnv`: `convo_prefix`, `format_coef`.
        """
        super().__init__(renderer, **keywords)  # type: ignore[call-arg]
        self._question, self._label = question, label
        self._scorer = shared_scorer(scoring)  # an environment is made for each response
        self._reward = 0.0

    async def step(self, action: Any, *, extra: Any = None) -> Any:
        """Score the response, which ends the episode.

        Raises:
            UnscoredError: it was not judged.
        """
        message, _ = self.renderer.parse_response(action)  # type: ignore[attr-defined]
        judged = await self._scorer.judge_one_async(
            Sample(
                response=response_text([message]),
                reference=reference_of(self._label),
                group_id=group_of(self._question),
            )
        )
        if judged.reward is None:
            raise UnscoredError(judged.cause)
        self._reward = judged.reward
        return await super().step(action, extra=extra)  # type: ignore[misc]

    def get_question(self) -> str:
        return self._question

    def get_reference_answer(self) -> str:
        """The reference, for Tinker's log."""
        return str(self._label)

    def check_answer(self, sample_str: str) -> float:
        """Return the reward; `ProblemEnv` takes it for the share that is correct."""
        del sample_str
        return self._reward

    def check_format(self, sample_str: str) -> bool:
        """Accept every form that ends: the pipeline judges the rest."""
        del sample_str
        return True
