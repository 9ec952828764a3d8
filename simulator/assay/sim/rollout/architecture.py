"""Inputs of a simulation: an architecture, the fleet that runs it, and the work.

Times are in one unit of the caller's choice (seconds, or the ticks of a published figure), lengths
in tokens. Everything is a value; the lengths of responses come from an iterator, so that a run is
determined by its inputs.
"""

import enum
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.core.errors import InvalidRequest


class Push(enum.StrEnum):
    """How new weights reach the decode slots."""

    PAUSED = "paused"
    """Decoding stops while they are sent."""
    STAGED = "staged"
    """They are sent into an inactive slot while decoding continues; only the exchange pauses it."""
    RELAYED = "relayed"
    """They are sent to a relay, while the trainer continues; each decode slot fetches them between
    two rollouts."""


class InFlight(enum.StrEnum):
    """What happens to unfinished rollouts when weights are activated."""

    CONTINUE = "continue"
    """They continue under the new weights; their keys and values stay."""
    RETRACT = "retract"
    """They continue under the new weights after their prefix was computed again."""
    KEEP = "keep"
    """They end under their old weights, whose slot stays occupied until then."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The order in which generation, training and the push of weights happen."""

    name: str
    barrier: bool
    """Whether a step's rollouts begin only when the weights of the step before are active."""
    push: Push
    in_flight: InFlight = InFlight.CONTINUE
    over_provision: float = 0.0
    """With a barrier: additional groups that are started, as a share of a step's."""
    resume: bool = False
    """Whether rollouts that were stopped, because enough groups had ended, continue in the next
    step; otherwise they are discarded."""

    def __post_init__(self) -> None:
        """Refuse combinations without a meaning."""
        if self.over_provision < 0:
            raise InvalidRequest("must not be negative", field="over_provision")
        if self.over_provision and not self.barrier:
            raise InvalidRequest("needs a barrier", field="over_provision")
        if self.barrier and self.push is not Push.PAUSED:
            raise InvalidRequest("behind a barrier nothing decodes during a push", field="push")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Durations and sizes of the machines."""

    slots: int
    """Rollouts that are decoded at once."""
    train: float
    """Duration of a training step."""
    push: float
    """Duration of sending the weights."""
    flip: float = 0.0
    """How long decoding pauses for the exchange of staged weights, for fetching them from a relay,
    or, after a paused push, until it has returned."""
    prepare: float = 0.0
    """Time that the trainer needs between two training steps, beside the push."""
    push_every: int = 1
    """Training steps per push."""
    token: float = 1.0
    """Duration of a decode step of one rollout."""
    token_per_rollout: float = 0.0
    """What each other rollout in the batch of the same engine adds to it."""
    engines: int = 1
    """Among which the slots are divided evenly."""
    refill: float = 0.0
    """Recomputing one token of a retracted prefix, in decode steps."""
    gpus: int = 1
    payload_bytes: int = 0
    """Size of one push."""

    def __post_init__(self) -> None:
        """Refuse what would never end, and name the field."""
        for name in ("slots", "push_every", "engines", "gpus"):
            if getattr(self, name) < 1:
                raise InvalidRequest("must be at least 1", field=name)
        for name in ("train", "token"):
            if not getattr(self, name) > 0:
                raise InvalidRequest("must be positive", field=name)
        for name in ("push", "flip", "prepare", "token_per_rollout", "refill", "payload_bytes"):
            if not getattr(self, name) >= 0:
                raise InvalidRequest("must not be negative", field=name)

    def token_time(self, decoding: int) -> float:
        """Duration of a decode step while so many rollouts are decoded."""
        return self.token + self.token_per_rollout * max(0.0, decoding / self.engines - 1)


@dataclass(frozen=True, slots=True)
class Work:
    """What is generated and trained on."""

    groups: Iterator[Sequence[float]]
    """The lengths of each group's rollouts, in the order in which groups start. When it ends, no
    further group starts."""
    groups_per_step: int
    warm_groups: int = 0
    """Groups of version 0 that wait for the trainer at the start."""
    open_groups_max: int | None = None
    """Groups begun and not trained on, without a barrier; a full buffer stops the rollouts."""
    staleness_max: int | None = None
    """A group further behind the trainer is discarded when it is read."""

    def __post_init__(self) -> None:
        """Refuse sizes that can never make a step."""
        if self.groups_per_step < 1:
            raise InvalidRequest("must be at least 1", field="groups_per_step")
        if self.open_groups_max is not None and self.open_groups_max < self.groups_per_step:
            raise InvalidRequest("must be at least groups_per_step", field="open_groups_max")


def lognormal_groups(
    seed: int, *, k: int, mean: float, sigma: float, longest: float, likeness: float = 0.5
) -> Iterator[tuple[float, ...]]:
    """Endless groups of `k` lengths with log-normal skew, cut at `longest` tokens.

    `likeness` is the share of the variance (of the logarithm) that the members of a group have in
    common: responses to one prompt are alike.
    """
    chance = random.Random(seed)  # noqa: S311 no secret
    shared, own = sigma * likeness**0.5, sigma * (1 - likeness) ** 0.5

    def length(of_group: float) -> float:
        drawn = mean * math.exp(of_group + chance.gauss(0, own) - sigma**2 / 2)
        return min(longest, max(1.0, round(drawn)))

    for _ in itertools.count():
        of_group = chance.gauss(0, shared)
        yield tuple(length(of_group) for _ in range(k))
