"""Sweeps for expired leases and overdue batches, which stages have their turn, and claims whose
answers were lost."""

from collections.abc import Collection, Sequence
from heapq import nlargest
from typing import Final

import structlog

from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.core.records import Lease
from assay.core.store_limits import HELD_NAMED_MAX
from assay.worker.parts import HostParts
from assay.worker.reports import note_reaped

IN_TURN: Final = 4
"""Stages without work that are swept at once. A sweep of any stage ends overdue batches of
all; a sweep of each stage in each turn would find nothing more."""
REAP_JOBS_MAX: Final = 1_000
OTHERS_S: Final = 3.0
"""After an outage of the store, the time in which all hosts renew their leases: each beats every
second, after a pause of a second at most."""

log = structlog.get_logger(__name__)


class LostAnswers:
    """Claims of a stage that the store may have made and this host has not got.

    A store that is stopped, or a network that is cut, may do so after the claim and before its
    answer. Those requests are leased to this host, which has begun none of them: it gives them back
    as soon as the store answers, before its next claim and before its end.
    """

    def __init__(self, parts: HostParts, stage: StageName, held: Collection[Lease]) -> None:
        """Owe none; `held`: the leases that the host has of the stage, at present."""
        self._parts = parts
        self._stage = stage
        self._held = held
        self._is_noted = False
        self._regained_ns = parts.health.regained_ns

    def note(self) -> None:
        """A claim was not answered."""
        self._is_noted = True

    @property
    def _is_owed(self) -> bool:
        """There may be some. Whenever the store was lost, too: a call that brought claims may have
        lost the last of them."""
        return self._is_noted or self._parts.health.regained_ns != self._regained_ns

    async def settle(self) -> None:
        """Give them back, if there may be some. Only while no claim of the stage is in flight.

        Raises:
            AssayError: the store does not answer; they are still owed.
        """
        if not self._is_owed:
            return
        regained_ns = self._parts.health.regained_ns
        newest = nlargest(HELD_NAMED_MAX, self._held, key=lambda lease: lease.fence)
        given = await self._parts.store.give_back_undelivered(
            self._stage, worker=self._parts.worker, leases=newest
        )
        self._is_noted, self._regained_ns = False, regained_ns
        if given:
            log.warning("undelivered_given_back", stage=self._stage, count=given)

    async def settle_in_time(self) -> None:
        """The same, again and again until the store answers; a host that ends cancels it."""
        failures = 0
        while self._is_owed:
            try:
                await self.settle()
            except AssayError as error:
                self._parts.health.failed(error)
                failures += 1
                await self._parts.health.pause(failures)


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
            holds none. After an outage nothing is taken back before that, nor before the other
            hosts had the time to renew theirs.

    Returns:
        Whether there were any.
    """
    regained_ns = parts.health.regained_ns
    if not parts.health.is_up or (beaten_ns is not None and beaten_ns < regained_ns):
        return False
    if regained_ns and parts.clock.monotonic_ns() - regained_ns < OTHERS_S * 1e9:
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
