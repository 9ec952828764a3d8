"""Invariants of the store, checked from outside: from the commands and their results alone.

The ledger tracks where each accepted request is (queued, leased, ended), and checks every result
against that. It does not depend on how the store works. A violated invariant is a `Finding`. The
invariants are listed in `trainers` and `workers`.
"""

from collections.abc import Sequence

from assay.sim.platform.ledger.books import Books
from assay.sim.platform.ledger.entries import Lead
from assay.sim.platform.ledger.trainers import TrainerCommands
from assay.sim.platform.ledger.workers import WorkerCommands
from assay.sim.platform.store import SimulatedCall


class Ledger(Books):
    """Folds commands into the books and checks them."""

    def __init__(self, *, is_calm: bool) -> None:
        """`is_calm`: no faults in this run, except what the requests themselves do."""
        super().__init__(is_calm=is_calm)
        lead = Lead()
        self._takes = {
            **TrainerCommands(self).takes,
            **WorkerCommands(self).takes,
            "lead": lead.take_lead,
            "resign": lead.take_resign,
        }

    def take(self, command: SimulatedCall) -> None:
        """Check one command against the known state.

        Raises:
            Finding: an invariant is violated.
        """
        self.now_ns = command.now_ns
        take = self._takes.get(command.name)
        if take is not None:
            take(command)


def refold(commands: Sequence[SimulatedCall], *, is_calm: bool) -> Ledger:
    """The ledger of a truncated log, after a failover."""
    ledger = Ledger(is_calm=is_calm)
    for command in commands:
        ledger.take(command)
    return ledger
