"""Which stages a host sweeps for expired leases and overdue batches, turn by turn."""

from collections.abc import Collection, Sequence
from typing import Final

from assay.core.ids import StageName

IN_TURN: Final = 4
"""Stages without work that are swept at once. A sweep of any stage ends overdue batches of
all; a sweep of each stage in each turn would find nothing more."""


class SweepTurns:
    """Stages with work are swept in each turn, the others one after the other."""

    def __init__(self, stages: Sequence[StageName]) -> None:
        self._waiting = list(stages)

    def next(self, at_work: Collection[StageName]) -> Sequence[StageName]:
        """The stages of this turn, each once; at least one, if there is any."""
        idle = [stage for stage in self._waiting if stage not in at_work]
        chosen = [stage for stage in self._waiting if stage in at_work] + idle[:IN_TURN]
        self._waiting = [stage for stage in self._waiting if stage not in chosen] + chosen
        return chosen
