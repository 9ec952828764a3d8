"""Responses that no judge saw, and what zeros in their place would have taught the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.core.advantages import MICRO, zero_shift_micro

if TYPE_CHECKING:
    from assay.client.rollouts import RolloutGroup


@dataclass(slots=True)
class Tally:
    """Of the groups of one kind: those of training, or those of the held-out prompts."""

    responses: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    """Responses without a reward, by outcome."""
    shift_micro: int = 0
    """See `zero_shift_micro`, summed over the groups."""

    def add(self, group: RolloutGroup) -> int:
        """Count a group; returns its responses without a reward."""
        missing = [one for one in group.trajectories if one.reward is None]
        self.responses += len(group.trajectories)
        self.causes.update(str(one.outcome or "NONE") for one in missing)
        self.shift_micro += zero_shift_micro([one.reward for one in group.trajectories])
        return len(missing)

    def summary(self) -> dict[str, Any]:
        """Share of the responses by cause, and the mean shift of an advantage; plain data."""
        whole = max(1, self.responses)
        return {
            "responses": self.responses,
            "unjudged": {cause: count / whole for cause, count in sorted(self.causes.items())},
            "bias_avoided": self.shift_micro / MICRO / whole,
        }


def in_words(tallies: dict[str, Tally]) -> str:
    """One line for all of them."""
    return "no judge saw: " + "; ".join(
        f"{name} {_shares(one)}, bias avoided {one.summary()['bias_avoided']:.3f}"
        for name, one in tallies.items()
    )


def _shares(one: Tally) -> str:
    found = one.summary()["unjudged"]
    causes = ", ".join(f"{cause} {share:.1%}" for cause, share in found.items()) or "none"
    return f"{causes} of {one.responses:,}"
