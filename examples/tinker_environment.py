"""Rewards from Assay in the Tinker cookbook: single-turn problems of a data set.

    pip install .               # where the cookbook runs; the service runs where `assay up` does
    assay up                    # on the machine that scores

A response that the platform could not judge raises in `step`: the cookbook's rollout strategy
retries it, leaves it out of its group, or skips the group. docs/integrations/tinker.md
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.types import RLDataset

from assay.integrations.environments.tinker import Scored


class Problem(Scored, ProblemEnv):
    """One question with rewards from Assay."""


class Problems(RLDataset):
    """Rows with `question` and `answer`, as groups of environments."""

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], renderer: Any, *, groups: int, k: int
    ) -> None:
        self._rows, self._renderer, self._groups, self._k = rows, renderer, groups, k

    def get_batch(self, index: int) -> Sequence[ProblemGroupBuilder]:
        """The groups of one step."""
        rows = self._rows[index * self._groups : (index + 1) * self._groups]
        scoring = {"pipeline": "math", "step_size": self._groups * self._k, "deadline_s": 120.0}
        return [
            ProblemGroupBuilder(
                env_thunk=partial(
                    Problem, self._renderer, row["question"], row["answer"], scoring=scoring
                ),
                num_envs=self._k,
            )
            for row in rows
        ]

    def __len__(self) -> int:
        """Number of steps."""
        return len(self._rows) // self._groups
