"""verifiers v1 and prime-rl: tasks whose reward is the platform's.

    class Sum(Scored, vf.Task[SumData]): ...

The word of verifiers for "not judged" is an exception of a reward, which becomes the trace's
`TaskError`; prime-rl trains on traces without an error only, and the group's mean is theirs.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from assay.core.errors import InvalidRequest
from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnscoredError(Exception):
    """The response has no reward, through no fault of its own."""


class Scored:
    """To be mixed in before `verifiers.v1.Task`."""

    assay_scoring: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options of `Scoring`; the variables of docs/integrations hold without a pipeline."""
    assay_label: ClassVar[str] = "answer"
    """The field of the task's data that the response is judged by."""

    async def assay(self, task: Any, trace: Any) -> float:
        """Judge the last reply of the trace.

        Raises:
            InvalidRequest: the data has no such field.
            UnscoredError: the reply was not judged.
        """
        label = getattr(task, self.assay_label, None)
        if label is None:
            message = f"{self.assay_label}: the task's data has none"
            raise InvalidRequest(message, field=self.assay_label)
        judged = await shared_scorer(self.assay_scoring).judge_one_async(
            Sample(
                response=trace.last_reply,
                reference=reference_of(label),
                group_id=group_of(task.prompt_text),
            )
        )
        if judged.reward is None:
            raise UnscoredError(judged.cause)
        return judged.reward

    # What `@vf.reward(weight=1.0)` sets; verifiers itself is not imported here.
    assay.reward = True  # type: ignore[attr-defined]
    assay.reward_priority = 0  # type: ignore[attr-defined]
    assay._vf_weight = 1.0  # type: ignore[attr-defined]  # noqa: SLF001
