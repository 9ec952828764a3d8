"""Whether worker hosts have the slots that they report, by the requests that they end. Pure.

If a host reports slots that it does not have, the plan counts them and requests wait. So its
reports are compared with the requests that the store has seen it end. Only time during
which requests waited all along counts, since an idle slot takes one then. In that time a host is
expected to end as many requests per slot-second as the median of the other hosts; it is doubted
when it ended less than a part of that (`DOUBTED_PART`), or none within two time-outs. Slow hosts
are far from that, and a host that ends what it should is believed again.

A host that ends requests very fast can make others look slow, so a doubted host keeps the slots
that it has: they are not counted on, and it gets no further ones.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.core.ids import WorkerId

DOUBTED_PART: Final = 32
"""A host that ends less than one of so many requests that it should is doubted."""
BELIEVED_PART: Final = 8
"""And one that ends at least one of so many is believed again."""
EXPECTED_MIN: Final = 20.0
"""Fewer expected requests are no evidence."""
EXPECTED_KEPT: Final = 160.0
"""From so many on, older evidence is worth half."""
STUCK_S_MIN: Final = 30.0
STUCK_TIMEOUTS: Final = 2.0
"""No request takes longer than so many time-outs of its stage, or `STUCK_S_MIN`."""
DOUBT_S_MAX: Final = 600.0
"""Then a doubted host gets another chance."""


class Reading(NamedTuple):
    """One host at one look, for one stage."""

    host: WorkerId
    ready: int
    """Slots, as it says."""
    ended: int
    """Requests that it has judged, as the store counts them; begins again at 0 now and then."""


@dataclass(slots=True)
class _Record:
    """What is known of one host."""

    ended: int
    """At the last look."""
    slot_s: float = 0.0
    """Slot-seconds during which requests waited."""
    waited_s: float = 0.0
    """Seconds of those without an end."""
    done: float = 0.0
    """Requests that it ended in that time; others say nothing about its slots."""
    doubted_s: float | None = None
    """Since when."""


class Trust:
    """The hosts of one stage."""

    def __init__(self, *, timeout_s: float) -> None:
        """Believe all.

        Args:
            timeout_s: of the stage.
        """
        self._stuck_s = max(STUCK_S_MIN, STUCK_TIMEOUTS * timeout_s)
        self._records: dict[WorkerId, _Record] = {}

    @property
    def doubted(self) -> frozenset[WorkerId]:
        """Hosts whose slots are not counted on; never all of them."""
        doubted = {host for host, one in self._records.items() if one.doubted_s is not None}
        return frozenset(doubted) if len(doubted) < len(self._records) else frozenset()

    def look(self, readings: Sequence[Reading], *, now_s: float, waited_s: float) -> None:
        """Take in one look at all hosts of the stage; those that are missing are forgotten.

        Args:
            readings: each host once.
            now_s: the instant.
            waited_s: seconds since the last look during which requests waited all along.
        """
        before = self._records
        self._records = {
            one.host: _after(before.get(one.host), one, max(0.0, waited_s)) for one in readings
        }
        rates = {
            host: one.done / one.slot_s for host, one in self._records.items() if one.slot_s > 0
        }
        in_order = sorted(rates.values())
        for host, record in self._records.items():
            expected = record.slot_s * median_of_others(in_order, rates.get(host))
            self._judge(host, record, expected, now_s)

    def _judge(self, host: WorkerId, record: _Record, expected: float, now_s: float) -> None:
        stuck = record.waited_s >= self._stuck_s
        if record.doubted_s is None:
            if stuck or (expected >= EXPECTED_MIN and record.done * DOUBTED_PART < expected):
                record.doubted_s = now_s
        elif now_s - record.doubted_s >= DOUBT_S_MAX:
            self._records[host] = _Record(ended=record.ended)
        elif not stuck and record.done > 0 and record.done * BELIEVED_PART >= expected:
            record.doubted_s = None
        if expected >= EXPECTED_KEPT:
            record.slot_s, record.done = record.slot_s / 2, record.done / 2


def median_of_others(in_order: Sequence[float], own: float | None) -> float:
    """The lower median of the rates without one's own; 0 where there are no others.

    A pool has thousands of pods, so the rates are sorted once for all of them.

    Args:
        in_order: rates of all, ascending.
        own: one of them; `None`: it is not among them.
    """
    if own is None:
        return in_order[(len(in_order) - 1) // 2] if in_order else 0.0
    middle = (len(in_order) - 2) // 2
    if middle < 0:
        return 0.0
    return in_order[middle + (bisect_left(in_order, own) <= middle)]


def _after(before: _Record | None, now: Reading, waited_s: float) -> _Record:
    """The record with one more reading."""
    if before is None:
        return _Record(ended=now.ended)
    ended = now.ended - before.ended if now.ended >= before.ended else now.ended
    before.ended = now.ended
    before.done += ended if waited_s else 0
    if ended:
        before.waited_s = 0.0
    elif now.ready:
        before.waited_s += waited_s
    before.slot_s += now.ready * waited_s
    return before
