"""Sweeps for expired leases and overdue batches, and which stages have their turn."""

from collections.abc import Collection, Sequence
from typing import Final

from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.worker.parts import HostParts
from assay.worker.reports import note_reaped

IN_TURN: Final = 4
"""Stages without work that are swept at once. A sweep of any stage ends overdue batches of
all; a sweep of each stage in each turn would find nothing more."""
REAP_JOBS_MAX: Final = 1_000


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


async def reap(parts: HostParts, stage: StageName, beaten_ns: int | None) -> bool:
    """Requeue a stage's requests with expired leases, of other hosts or of this one before a
    restart; end overdue batches.

    Args:
        beaten_ns: when this host last renewed its own leases, by the monotonic clock; `None`: it
            holds none. After an outage nothing is taken back before that.

    Returns:
        Whether there were any.
    """
    if not parts.health.is_up or (beaten_ns is not None and beaten_ns < parts.health.regained_ns):
        return False
    try:
        reaped = await parts.store.reap(
            stage, attempts_max=parts.attempts_max, jobs_max=REAP_JOBS_MAX
        )
    except AssayError as error:
        parts.health.failed(error)
        return False
    note_reaped(stage, reaped, parts.metrics)
    return bool(reaped.redelivered or reaped.dead or reaped.expired or reaped.completed)
