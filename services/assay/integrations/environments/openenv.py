"""OpenEnv: an environment whose steps are judged by the platform.

    class Sums(Scored, Environment[Answer, Seen, State]):
        async def step_async(self, action, timeout_s=None, **_):
            told = await self.assay(action.text, label=self.answer, prompt=self.question)
            return Seen(done=True, **told)

OpenEnv's word for "not judged" is the reward `None`; the cause is in the observation's metadata.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.integrations.judgement import Judgement


class Scored:
    """To be mixed in before `openenv.core.env_server.Environment`."""

    assay_scoring: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options of `Scoring`; the variables of docs/integrations hold without a pipeline."""

    async def assay(self, response: str, *, label: object, prompt: object = "") -> dict[str, Any]:
        """Judge a response; `reward` and `metadata` of the observation.

        Args:
            response: what the model wrote.
            label: what it is judged by.
            prompt: what was asked; equal prompts are a group.
        """
        scorer = shared_scorer(self.assay_scoring)
        return told(await scorer.judge_one_async(_sample(response, label, prompt)))

    def assay_sync(self, response: str, *, label: object, prompt: object = "") -> dict[str, Any]:
        """As `assay`, for an environment without a loop."""
        scorer = shared_scorer(self.assay_scoring)
        return told(scorer.judge_one(_sample(response, label, prompt)))


def _sample(response: str, label: object, prompt: object) -> Sample:
    return Sample(response=response, reference=reference_of(label), group_id=group_of(prompt))


def told(judged: Judgement) -> dict[str, Any]:
    """The fields of an observation that say what was judged."""
    metadata = {"outcome": judged.outcome}
    if judged.reward is None:
        metadata["error"] = judged.cause
    return {"reward": judged.reward, "metadata": metadata}
