"""Compares two snapshots of a batch: which requests ended, and after how long.

A snapshot lists requests that have not ended. One that ran in the last snapshot and is gone has
ended in between, so its time at its last stage is known to within the gap. Where too many ended
unseen, or the gap is long against the time, what is left is no fair sample (long requests are seen
more often), and there is no evidence.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from assay.core.ids import StageName
from assay.core.records import InFlight, OpenWork
from assay.model.arrays import Ints
from assay.planner.session.plan_view import BatchKey  # noqa: TC001

BATCHES_MAX: Final = 256
ENDED_MAX: Final = 16_384
"""Ended requests that are remembered per batch; the first ones."""
SEEN_SHARE_MIN: Final = 0.8
"""Share of the ended requests whose times must be known."""
EVIDENCE_ROWS_MAX: Final = 2_048
"""Requests of a batch that are learnt from, evenly chosen."""
EVIDENCE_CELLS_MAX: Final = 100_000
"""Rows times stages of the evidence of one batch."""
GAP_SHARE_MAX: Final = 0.4
"""The longest gap between two snapshots, as a share of a time that ended in it."""

Identity = tuple[int, int]
"""Arrival, and number among the requests with that arrival."""


@dataclass(slots=True)
class _Known:
    """What snapshots have shown of an open batch."""

    at_ns: int = 0
    present: dict[Identity, InFlight] = field(default_factory=dict)
    ended: list[tuple[int, ...]] = field(default_factory=list)
    """Times by the pipeline's stages, of those whose times are known."""
    gone_ns: list[int] = field(default_factory=list)
    """Arrivals of those that ended after they were seen."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageTimes:
    """Times of a batch's requests at the stages that they finished."""

    passed_ns: Ints
    """(m, stages)"""
    reached: Ints
    """(m,): the last stage that each came to; -1 = none."""


def evenly(values: Sequence[int], most: int) -> Ints:
    """Every n-th of the values, ascending; at most `most` of them."""
    step = max(-(-len(values) // most), 1)
    return np.array(sorted(values)[step // 2 :: step], np.int64)


class Progress:
    """Remembers the requests of the open batches."""

    def __init__(self) -> None:
        self._known: OrderedDict[BatchKey, _Known] = OrderedDict()

    def see(self, work: Sequence[OpenWork], now_ns: int) -> None:
        """Take note of a snapshot; batches that are no longer open are dropped."""
        keys = {(one.batch.tenant, one.batch.batch_id) for one in work}
        for key in [key for key in self._known if key not in keys]:
            del self._known[key]
        for one in work[:BATCHES_MAX]:
            key = one.batch.tenant, one.batch.batch_id
            self._take(self._known.setdefault(key, _Known()), one, now_ns)

    def _take(self, known: _Known, work: OpenWork, now_ns: int) -> None:
        present = identified(work.requests)
        pipeline = work.task.stages
        for identity, before in known.present.items():
            if identity in present:
                continue
            if len(known.gone_ns) < ENDED_MAX:
                known.gone_ns.append(before.arrived_after_ns)
            times = last_times(before, pipeline, known.at_ns, now_ns)
            if times is not None and len(known.ended) < ENDED_MAX:
                known.ended.append(times)
        known.at_ns, known.present = now_ns, present

    def arrivals_ns(self, work: OpenWork) -> Ints:
        """When the batch's requests arrived; empty where too many came and went unseen."""
        known = self._known.get((work.batch.tenant, work.batch.batch_id))
        if known is None or len(known.gone_ns) < SEEN_SHARE_MIN * work.batch.ended:
            return np.zeros(0, np.int64)
        present = [one.arrived_after_ns for one in known.present.values()]
        return np.maximum(evenly([*known.gone_ns, *present], EVIDENCE_ROWS_MAX), 0)

    def stage_times(self, work: OpenWork, stages: Sequence[StageName]) -> StageTimes | None:
        """In the columns of `stages`; `None` = what is known is no fair sample."""
        known = self._known.get((work.batch.tenant, work.batch.batch_id))
        if known is None or len(known.ended) < SEEN_SHARE_MIN * work.batch.ended:
            return None
        column = {stage: j for j, stage in enumerate(stages)}
        present = [one for one in known.present.values() if one.stage in column]
        rows_max = min(max(EVIDENCE_CELLS_MAX // max(len(stages), 1), 64), EVIDENCE_ROWS_MAX)
        step = max(-(-(len(known.ended) + len(present)) // rows_max), 1)
        ended, present = known.ended[::step], present[::step]
        rows = np.zeros((len(ended) + len(present), len(stages)), np.int64)
        reached = np.full(len(rows), -1, np.int64)
        times = [*ended, *(one.service_ns for one in present)]
        for k, stage in enumerate(work.task.stages):
            if stage in column:
                rows[:, column[stage]] = [one[k] if k < len(one) else 0 for one in times]
        reached[:] = np.max(np.where(rows > 0, np.arange(len(stages)), -1), axis=1, initial=-1)
        here = np.array([column[one.stage] for one in present], np.int64)
        reached[len(ended) :] = np.maximum(reached[len(ended) :], here)
        return StageTimes(passed_ns=np.maximum(rows, 0), reached=reached)


def identified(requests: Sequence[InFlight]) -> dict[Identity, InFlight]:
    """The requests by arrival, and by their order among those that arrived together."""
    found: dict[Identity, InFlight] = {}
    count: dict[int, int] = {}
    for one in requests:
        number = count.get(one.arrived_after_ns, 0)
        count[one.arrived_after_ns] = number + 1
        found[one.arrived_after_ns, number] = one
    return found


def last_times(
    before: InFlight, pipeline: Sequence[StageName], seen_ns: int, now_ns: int
) -> tuple[int, ...] | None:
    """Times at all stages of a request that ended after `seen_ns`; `None` = not known."""
    stages = list(pipeline)
    if not before.claimed_ns or before.stage not in stages:
        return None
    longest, gap = now_ns - before.claimed_ns, now_ns - seen_ns
    if longest <= 0 or gap > GAP_SHARE_MAX * longest:
        return None
    times = [*before.service_ns, *[0] * len(stages)][: len(stages)]
    times[stages.index(before.stage)] = longest - gap // 2
    return tuple(times)
