"""An example pipeline in one file: how well does a response keep to a number of words?

`PIPELINE` is what the entry point names: plain data, read by the API and by every worker. The
handler is imported only in the worker processes that run the stage. Try it without a service:

    python examples/pipelines/word_budget.py "a response of six short words" 6
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from assay.core.ids import PipelineName, StageName
from assay.core.outcome import Outcome
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.core.verdict import Ended, Evidence, StageVerdict
from assay.verifiers.local import LocalPipelines
from assay.verifiers.port import (
    HandlerContext,
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Work,
)


class WordBudgetSettings(PipelineSettings):
    """Settings of a task; a trainer sends them with `RegisterTask`."""

    tolerance: float = Field(default=0.5, gt=0)
    """Relative miss at which the reward has fallen to `reward_fail`."""


class WordBudgetReference(Reference):
    """What comes with each request."""

    words: int = Field(gt=0)
    """How many words the response should have."""


class WordBudgetHandler:
    """Judges up to `batch_max` requests per call."""

    def __init__(self, _context: HandlerContext) -> None:
        """Load here what is slow to load: a handler lives as long as its worker."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Return one verdict per request, in order; an exception is an infrastructure failure."""
        return [self._one(work.response, work.reference, work.settings) for work in works]

    def close(self) -> None:
        """Give back what `__init__` took."""

    def _one(
        self, response: str, reference: WordBudgetReference, settings: WordBudgetSettings
    ) -> Ended:
        words = len(response.split())
        miss = abs(words - reference.words) / reference.words
        share = max(0.0, 1.0 - miss / settings.tolerance)
        reward = settings.reward_fail + (settings.reward_pass - settings.reward_fail) * share
        evidence = Evidence(verdict="pass" if share == 1.0 else "partial", error=f"{words} words")
        return Ended(outcome=Outcome.SCORED, reward=reward, evidence=evidence)


STAGE = StageDefinition(
    spec=StageSpec(
        name=StageName("word_budget"),
        resources=Resources(cpu_cores=0.1, memory_bytes=64 * 1024 * 1024),
        timeout_s=10.0,
        batch_max=64,
    ),
    handler="word_budget:WordBudgetHandler",
)
PIPELINE = PipelineDefinition(
    spec=PipelineSpec(
        name=PipelineName("word_budget"),
        description="The response keeps to a number of words.",
        stages=(STAGE.spec.name,),
    ),
    stages=(STAGE,),
    settings=WordBudgetSettings,
    reference=WordBudgetReference,
    example_reference={"words": 100},
)


def main() -> None:
    """Judge the response on the command line."""
    parser = argparse.ArgumentParser(description="Judge a response by its number of words.")
    parser.add_argument("response")
    parser.add_argument("words", type=int, help="how many it should have")
    given = parser.parse_args()
    name = PIPELINE.spec.name
    with (
        tempfile.TemporaryDirectory() as scratch,
        LocalPipelines(scratch=Path(scratch), pipelines={name: PIPELINE}) as local,
    ):
        print(local.judge(name, given.response, {"words": given.words}))


if __name__ == "__main__":
    main()
