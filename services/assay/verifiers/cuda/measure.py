"""Times of trials into a speed-up; pure.

A trial has three steps, timed by the referee's clock: `prepare` reveals the seed and makes the
inputs, `call` computes, `give` delivers the outputs. What runs beside a kernel in its process can
do the work in another step than `call`. So not only `call` counts: what a candidate's whole trial
takes longer than the reference's steps around its call is work too, wherever it was done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

CALL_S_MIN: Final = 1e-6
"""No call is shorter: the round trip to another process takes longer."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Times of one call, in seconds."""

    prepare_s: float
    call_s: float
    give_s: float

    @property
    def total_s(self) -> float:
        """From the seed to the outputs."""
        return self.prepare_s + self.call_s + self.give_s

    @property
    def around_s(self) -> float:
        """Seconds of a trial outside of the call itself."""
        return self.prepare_s + self.give_s


def call_s(candidate: Sequence[Trial], reference: Sequence[Trial]) -> float:
    """What a call of the candidate takes.

    The median of its calls, or, where that is more, the work that its quickest trial must have
    done: its total less the most that the reference ever needed around its call. Moving work from
    `call` to another step of a trial therefore gains no more than the reference's own steps vary.

    Args:
        candidate: at least one trial.
        reference: at least one trial of the same inputs, in the same protocol.
    """
    visible = median(trial.call_s for trial in candidate)
    hidden = min(trial.total_s for trial in candidate) - max(one.around_s for one in reference)
    return max(visible, hidden, CALL_S_MIN)


def speed_up(candidate: Sequence[Trial], reference: Sequence[Trial]) -> float:
    """How many times as fast as the reference a candidate is."""
    own = max(median(trial.call_s for trial in reference), CALL_S_MIN)
    return own / call_s(candidate, reference)
