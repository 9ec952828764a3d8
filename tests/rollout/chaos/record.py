"""What trainers asked for and got, and whether it is right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from tests.rollout.service.served import SETTINGS
from tests.rollout.test_weight_slots import alone, version_of

from assay.client import Outcome
from assay.rollout.models import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.client.rollouts import Prompt, RolloutGroup, Trajectory

REWARDED = {Outcome.SCORED, Outcome.RESOURCE_LIMIT}


@dataclass(slots=True)
class Record:
    """All groups of all trainers that stayed."""

    groups: list[tuple[Prompt, bool, RolloutGroup]] = field(default_factory=list)
    """The prompt, whether it is scored, and what came."""
    wrong: list[str] = field(default_factory=list)

    @property
    def _trajectories(self) -> Iterator[Trajectory]:
        return (one for _, _, group in self.groups for one in group.trajectories)

    @property
    def outcomes(self) -> Counter[str]:
        """Trajectories by outcome."""
        return Counter(str(one.outcome) for one in self._trajectories)

    @property
    def versions(self) -> set[int]:
        """Versions that made a token."""
        return {run[0] for one in self._trajectories for run in one.policy_versions}

    @property
    def spanning(self) -> int:
        """Trajectories whose tokens weights of more than one version made."""
        return sum(len(one.policy_versions) > 1 for one in self._trajectories)


def misjudged(record: Record) -> Iterator[str]:
    """Groups that are not whole, and rewards that no judge gave."""
    for prompt, scored, group in record.groups:
        if [one.member for one in group.trajectories] != list(range(prompt.k)):
            yield f"{group.group_id}: not its {prompt.k} members"
        for one in group.trajectories:
            reward = one.reward
            if (one.outcome in REWARDED) != (reward is not None):
                yield f"{group.group_id}: {one.outcome} with reward {reward}"
            if not scored and one.outcome not in {None, Outcome.CANCELLED}:
                yield f"{group.group_id}: {one.outcome} without a pipeline"
            if reward is not None and reward != float(one.response_ids[-1] % 2 == 0):
                yield f"{group.group_id}: reward {reward} is another response's"


class Reference:
    """Engines of one version each, which never held another."""

    def __init__(self) -> None:
        self._engines: dict[int, Engine] = {}

    def mixed(self, record: Record) -> Iterator[str]:
        """Trajectories with a token that its version's weights do not make."""
        for prompt, _, group in record.groups:
            for one in group.trajectories:
                if not self._is_right(list(prompt.prompt_ids), one):
                    runs = list(one.policy_versions)
                    yield f"{group.group_id}[{one.member}]: not made by its weights {runs}"
        for engine in self._engines.values():
            engine.close()

    def _is_right(self, prompt: list[int], one: Trajectory) -> bool:
        ids, at = one.response_ids.tolist(), 0
        logps = np.asarray(one.rollout_logp)
        for version, n in one.policy_versions:
            if version not in self._engines:
                self._engines[version] = Engine.create(version_of(version), SETTINGS)
            made, told = alone(self._engines[version], [*prompt, *ids[:at]], n, one.seed)
            same = np.array_equal(np.array(told, np.float32), logps[at : at + n])
            if made != ids[at : at + n] or not same:
                return False
            at += n
        return at == len(ids)
