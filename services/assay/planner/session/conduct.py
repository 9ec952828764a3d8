"""Whether a worker host has the slots of one stage that it promised. Pure.

The planner asks a host for slots, and the host says how many it has. Invariants:

* slots beyond those that it was asked for count for nothing;
* missing slots are waited for once, even if the reported numbers change: from `patience_with`
  on they do not count, and after `SHORT_NS` the host has to give them back;
* a host that does not deliver is asked for no more than it has, each time for twice as long.
"""

from dataclasses import dataclass
from typing import Final

from assay.core.tools.backoff import pause_s
from assay.planner.session.messages import PoolState, Startup

SHORT_NS: Final = 150 * 10**9
"""A host on which no slot of those missing became ready for this long starts none: a slot may take
two minutes to start."""
LATE_STARTS: Final = 4
"""Slots that take longer than so many usual starts, or `LATE_NS_MIN`, do not count before they are
ready; the host goes on starting them."""
LATE_NS_MIN: Final = 10 * 10**9
STUBBORN_NS: Final = 30 * 10**9
"""How long a host that broke its word is asked for no more than it has."""
STUBBORN_NS_MAX: Final = 600 * 10**9
"""That doubles up to this; after as long without an offence, it begins again."""
FAILURES_MAX: Final = 3
"""Sizes in a row that a host does not answer, though it answers looks."""
CHANGES_MAX: Final = 3
"""How often a host may have another size than it took: operators set sizes, too."""


@dataclass(slots=True)
class Conduct:
    """What is remembered of one host and stage."""

    asked: int | None = None
    """The size that it took last; `None` = none is known."""
    differs: int | None = None
    """The other size that it says that it has since."""
    missing_ns: int | None = None
    """Since when slots are missing and none became ready."""
    ready_most: int = 0
    """Most slots that were ready in that time."""
    is_late: bool = False
    """Others get the missing slots meanwhile."""
    is_short: bool = False
    """It was waited for long enough."""
    failures: int = 0
    changes: int = 0
    changed_ns: int = 0
    offences: int = 0
    until_ns: int = 0
    """It is asked for no more before."""

    def took(self, wanted: int, pool: PoolState, now_ns: int, patience_ns: int = SHORT_NS) -> bool:
        """Note its answer to a new size; returns whether it took it."""
        self.failures, self.differs = 0, None
        self.asked = min(wanted, pool.desired)
        self.said(pool, now_ns, patience_ns)
        if pool.desired == wanted:
            return True
        self._offend(now_ns)
        return False

    def failed(self, now_ns: int) -> None:
        """It did not answer a new size, so it may have either."""
        self.asked = self.differs = None
        self.failures += 1
        if self.failures >= FAILURES_MAX:
            self._offend(now_ns)

    def said(self, pool: PoolState, now_ns: int, patience_ns: int = SHORT_NS) -> None:
        """Note what it says of its slots.

        Args:
            pool: its word.
            now_ns: the instant.
            patience_ns: see `patience_with`.
        """
        if self.asked not in {None, pool.desired} and pool.desired != self.differs:
            self.differs = pool.desired
            self._changed(now_ns)
        if pool.ready >= (pool.desired if self.asked is None else self.asked):
            self.missing_ns = None
        elif self.missing_ns is None or pool.ready > self.ready_most:
            self.missing_ns, self.ready_most = now_ns, pool.ready
        missing_for_ns = 0 if self.missing_ns is None else now_ns - self.missing_ns
        self.is_late = missing_for_ns >= min(patience_ns, SHORT_NS)
        was_short, self.is_short = self.is_short, missing_for_ns >= SHORT_NS
        if self.is_short and not was_short:
            self._offend(now_ns)

    def believed(self, pool: PoolState) -> int:
        """Slots that it has or will have soon."""
        return min(pool.ready, self._counted(pool)) if self.is_late else self._counted(pool)

    def ready(self, pool: PoolState, now_ns: int) -> int:
        """Those of its ready slots that count; a good host may still have more than it should."""
        return min(pool.ready, self.believed(pool)) if self._is_limited(now_ns) else pool.ready

    def room(self, pool: PoolState, slots_max: int, now_ns: int) -> int:
        """Most slots that it may be asked for."""
        return self.believed(pool) if self._is_limited(now_ns) else slots_max

    def is_to_be_asked(self, wanted: int, pool: PoolState, now_ns: int) -> bool:
        """Whether a new size is to be sent to it: not again one that it has just not taken."""
        if wanted == pool.desired:
            return False
        if self.is_late and not self.is_short and wanted == self.believed(pool):
            return False  # it goes on starting the others
        if now_ns >= self.until_ns:
            return True
        return self.failures < FAILURES_MAX and (self.is_short or wanted != self.asked)

    def _is_limited(self, now_ns: int) -> bool:
        return self.is_late or now_ns < self.until_ns

    def _counted(self, pool: PoolState) -> int:
        return pool.desired if self.asked is None else min(pool.desired, self.asked)

    def _changed(self, now_ns: int) -> None:
        if now_ns - self.changed_ns >= STUBBORN_NS_MAX:
            self.changes = 0
        self.changes, self.changed_ns = self.changes + 1, now_ns
        if self.changes >= CHANGES_MAX:
            self._offend(now_ns)

    def _offend(self, now_ns: int) -> None:
        if now_ns < self.until_ns:  # it is not asked, so this is no further offence
            return
        if now_ns - self.until_ns >= STUBBORN_NS_MAX:
            self.offences = 0
        self.offences += 1
        stubborn_ns = pause_s(self.offences, first_s=STUBBORN_NS, longest_s=STUBBORN_NS_MAX)
        self.until_ns = now_ns + round(stubborn_ns)


def patience_with(startup: Startup) -> int:
    """How long the missing slots of a host count, by the starts of all hosts."""
    if not startup.measured:
        return SHORT_NS
    return min(max(LATE_STARTS * startup.p90_ns, LATE_NS_MIN), SHORT_NS)
