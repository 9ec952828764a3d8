"""Rewards from Assay in verifiers v1 and prime-rl: a taskset of sums.

    pip install .               # where the environment runs; the service runs where `assay up` does
    assay up                    # on the machine that scores
    PYTHONPATH=examples vf-eval verifiers_taskset --model MODEL \\
        --client.base-url http://HOST:8000/v1 \\
        --env.agent.harness.id null --env.agent.runtime.type subprocess

A reply that the platform could not judge is an error of its trace, on which prime-rl does not
train. docs/integrations/verifiers.md
"""

from collections.abc import Iterable
from typing import ClassVar

import verifiers.v1 as vf

from assay.integrations.environments.verifiers import Scored

__all__ = ["Sums"]  # by which verifiers finds the taskset of a module


class SumData(vf.TaskData):
    """A question and its answer."""

    answer: str


class Sum(Scored, vf.Task[SumData]):
    """One question with rewards from Assay."""

    assay_scoring: ClassVar = {"pipeline": "math", "deadline_s": 120.0}


class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self) -> Iterable[Sum]:
        """Make the tasks."""
        for left in range(10):
            data = SumData(prompt=f"What is {left} + 3?", answer=str(left + 3))
            yield Sum(data, self.config.task)
