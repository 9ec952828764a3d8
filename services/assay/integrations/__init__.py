"""Adapters: rewards from Assay in the words of each trainer.

Invariants of all of them: an infrastructure failure is never a number that the trainer could take
for a reward; a platform that cannot be reached delays a step for a bounded time, with a message,
and fails no run. One module per trainer or environment, in `trainers` and `environments`; their
packages are imported inside functions only, so that importing an adapter needs the client's
dependencies and nothing else.
"""

from assay.integrations.judgement import (
    Judgement,
    group_advantages,
    judgements,
    unscored_share,
)
from assay.integrations.sample import Sample, reference_of, response_text
from assay.integrations.scorer import Scorer, Scoring

__all__ = [
    "Judgement",
    "Sample",
    "Scorer",
    "Scoring",
    "group_advantages",
    "judgements",
    "reference_of",
    "response_text",
    "unscored_share",
]
