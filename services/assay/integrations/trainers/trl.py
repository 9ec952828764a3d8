"""TRL: rewards for `GRPOTrainer`, `RLOOTrainer` and `AsyncGRPOTrainer`.

    GRPOTrainer(reward_funcs=Reward("math", reference="answer"), ...)
    GRPOTrainer(environment_factory=SubmitEnvironments("math", reference="answer"), ...)

`None` is TRL's word for a response that was not judged: it leaves the group's mean and deviation,
and its advantage is 0. TRL does so only where all reward functions return None: with a second one
the sum would count the missing reward as 0, so further functions are handed to `also`.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final

from assay.client import Outcome
from assay.core.errors import InvalidRequest
from assay.integrations.judgement import Judgement, unscored, unscored_share
from assay.integrations.sample import Sample, group_of, reference_of, response_text
from assay.integrations.scorer import Scorer, Scoring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

OtherReward = tuple["Callable[..., Any]", float]
"""A reward function of TRL's form, and its weight."""
METRIC: Final = "assay"
FAILED: Final = "rollout_failed"
"""Column of a `rollout_func`: true where there is no response to judge (`trl_rollouts`)."""


class Reward:
    """A reward function; one call is one batch. It can be pickled, for rollouts in a child."""

    def __init__(
        self,
        scoring: Scoring | str,
        *,
        reference: str | Callable[[Mapping[str, Any]], object] = "answer",
        also: Sequence[OtherReward] = (),
        **options: Any,
    ) -> None:
        """Make a reward function.

        Args:
            scoring: the options, or the name of a pipeline.
            reference: the column with the label; or a function of a row's columns that returns it.
            also: further reward functions with weights, added where the response was judged.
            options: replace those of `scoring`.
        """
        self.scorer = Scorer.of(scoring, **options)
        self.reference = reference
        self.also = tuple(also)
        self.__name__ = f"assay_{self.scorer.scoring.pipeline}"

    def __call__(
        self, prompts: Sequence[object], completions: Sequence[object], **columns: Any
    ) -> list[float | None]:
        """Return a reward or None per completion."""
        samples, at = self._samples(prompts, completions, columns)
        judged = self.scorer.judge(samples) if samples else []
        rewards = self._told(_placed(judged, at, len(completions)), columns)
        for function, weight in self.also:
            found = function(prompts=prompts, completions=completions, **columns)
            rewards = _added(rewards, found, weight)
        return rewards

    def _samples(
        self, prompts: Sequence[object], completions: Sequence[object], columns: Mapping[str, Any]
    ) -> tuple[list[Sample], list[int]]:
        """The samples, and the place of each: a rollout that failed has no response to judge."""
        labels = self._labels(columns, len(completions))
        failed = columns.get(FAILED) or [False] * len(completions)
        at = [place for place, one in enumerate(failed) if not one]
        samples = [
            Sample(
                response=response_text(completions[place]),
                reference=reference_of(labels[place]),
                group_id=group_of(prompts[place]),
            )
            for place in at
        ]
        return samples, at

    def _labels(self, columns: Mapping[str, Any], count: int) -> Sequence[object]:
        if callable(self.reference):
            lists = {name: found for name, found in columns.items() if isinstance(found, list)}
            rows = ({name: found[i] for name, found in lists.items()} for i in range(count))
            return [self.reference(row) for row in rows]
        if self.reference not in columns:
            message = f"reference: the data set has no column {self.reference!r}"
            raise InvalidRequest(message, field="reference")
        found: Sequence[object] = columns[self.reference]
        return found

    def _told(self, judged: Sequence[Judgement], columns: Mapping[str, Any]) -> list[float | None]:
        """The rewards; TRL's log learns the share of samples without one."""
        log_metric = columns.get("log_metric")
        if log_metric is not None:
            for name, share in unscored_share(judged).items():
                log_metric(f"{METRIC}/{name}", share)
        return [one.reward for one in judged]


class AsyncReward(Reward):
    """As `Reward`, awaited by TRL together with other asynchronous reward functions."""

    async def __call__(  # type: ignore[override]
        self, prompts: Sequence[object], completions: Sequence[object], **columns: Any
    ) -> list[float | None]:
        """Return a reward or None per completion."""
        samples, at = self._samples(prompts, completions, columns)
        judged = await self.scorer.judge_async(samples) if samples else []
        rewards = self._told(_placed(judged, at, len(completions)), columns)
        for function, weight in self.also:
            if inspect.iscoroutinefunction(function):
                found = await function(prompts=prompts, completions=completions, **columns)
            else:
                found = await asyncio.to_thread(
                    function, prompts=prompts, completions=completions, **columns
                )
            rewards = _added(rewards, found, weight)
        return rewards


def _placed(judged: Sequence[Judgement], at: Sequence[int], count: int) -> list[Judgement]:
    """Judgements of all completions, in their order."""
    found = dict(zip(at, judged, strict=True))
    lost = unscored(Outcome.INFRA_FAILED.value, "the rollout failed")
    return [found.get(place, lost) for place in range(count)]


def _added(
    rewards: Sequence[float | None], others: Sequence[float | None], weight: float
) -> list[float | None]:
    """A sample without a judgement gets nothing from other functions: it would look like a 0."""
    return [
        None if reward is None else reward + weight * (other or 0.0)
        for reward, other in zip(rewards, others, strict=True)
    ]


class SubmitEnvironment:
    """One episode: the model calls `submit` with its answer, the environment owns the reward."""

    def __init__(self, scorer: Scorer, reference: str) -> None:
        self._scorer = scorer
        self._reference = reference
        self._row: Mapping[str, Any] = {}
        self._judging: Future[Judgement] | None = None

    def reset(self, **row: Any) -> None:
        """Begin an episode on a row of the data set."""
        self._row, self._judging = row, None

    def submit(self, answer: str) -> str:
        """Submit the final answer. Only the first one counts.

        Args:
            answer: The complete final answer.

        Returns:
            A confirmation.
        """
        if self._judging is not None:
            return "An answer was submitted before; it counts."
        self._judge(answer)
        return "Submitted."

    def get_reward(self) -> float | None:
        """The reward; None where the platform could not judge. Without an answer, that of ''."""
        judging = self._judging or self._judge("")
        return judging.result().reward

    def _judge(self, answer: str) -> Future[Judgement]:
        """Scoring begins with the submission, so that episodes are scored at the same time."""
        label = self._row.get(self._reference)
        prompt = group_of(self._row.get("prompt", ""))
        sample = Sample(response=answer, reference=reference_of(label), group_id=prompt)
        self._judging = self._scorer.start_one(sample)
        return self._judging


class SubmitEnvironments:
    """An `environment_factory`; its environments share one connection and the step's batch."""

    def __init__(
        self,
        scoring: Scoring | str,
        *,
        reference: str = "answer",
        **options: Any,
    ) -> None:
        self.scorer = Scorer.of(scoring, **options)
        self.reference = reference

    def __call__(self) -> SubmitEnvironment:
        """Make an environment."""
        return SubmitEnvironment(self.scorer, self.reference)
