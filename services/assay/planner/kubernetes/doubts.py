"""Pods that take work and end none, found as worker hosts on machines are (`session.trust`).

A pod's word is that it is ready; what it ended is what the store recorded. Its slots are those of
its pool, so all that a pod can pretend is that they are at work.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog

from assay.core.hosts.record import HostRecord
from assay.core.ids import StageName, WorkerId
from assay.core.records import StageDepth
from assay.planner.session.trust import Reading, Trust
from assay.store.port import Store

LOOK_EVERY_S: Final = 2.0
NAMED_MAX: Final = 5
"""Pods named in a log line."""

log = structlog.get_logger(__name__)

TimeoutOf = Callable[[StageName], float]
"""Of a stage, in seconds."""
Doubted = Callable[[StageName, int], None]
"""Called with a stage and the number of pods that are doubted from now on."""


class PodDoubts:
    """Which pods are doubted, by stage and the hostname that their processes see."""

    def __init__(self, store: Store, *, timeout_of: TimeoutOf, on_doubt: Doubted) -> None:
        self._store = store
        self._timeout_of = timeout_of
        self._on_doubt = on_doubt
        self._trust: dict[StageName, Trust] = {}
        self._looked_s: float | None = None

    def of(self, stage: StageName) -> frozenset[str]:
        """Hostnames of the stage's pods whose slots are not counted on; never all of them."""
        trust = self._trust.get(stage)
        return frozenset() if trust is None else frozenset(map(pod_of, trust.doubted))

    async def look(
        self,
        records: Iterable[HostRecord],
        ready: Mapping[StageName, frozenset[str]],
        *,
        slots_of: Callable[[StageName], int],
        now_s: float,
    ) -> None:
        """Compare what ready pods have ended; one alone has nothing to be compared with.

        Args:
            records: of the hosts that live, by their own word.
            ready: hostnames of the ready pods of each stage.
            slots_of: slots of one pod of a stage.
            now_s: the instant, by a monotonic clock.

        Raises:
            DependencyDown: the store does not answer.
        """
        if self._looked_s is not None and now_s - self._looked_s < LOOK_EVERY_S:
            return
        since_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        workers = _by_stage(records, ready)
        self._trust = {stage: one for stage, one in self._trust.items() if stage in workers}
        every = list(dict.fromkeys(worker for some in workers.values() for worker in some))
        ended = await self._store.ended_by(every) if every else {}
        for depth in await self._store.depths(list(workers)) if workers else ():
            readings = [
                Reading(worker, slots_of(depth.stage), ended[worker].get(depth.stage, 0))
                for worker in workers[depth.stage]
            ]
            self._look_at(depth, readings, since_s=since_s, now_s=now_s)
        self._looked_s = now_s

    def _look_at(
        self, depth: StageDepth, readings: Sequence[Reading], *, since_s: float, now_s: float
    ) -> None:
        stage = depth.stage
        trust = self._trust.setdefault(stage, Trust(timeout_s=self._timeout_of(stage)))
        before = trust.doubted
        waited = depth.queued > 0 and depth.oldest_age_s > since_s
        trust.look(readings, now_s=now_s, waited_s=since_s if waited else 0.0)
        if trust.doubted != before:
            pods = sorted(map(pod_of, trust.doubted))
            log.warning("pods_doubted", stage=stage, count=len(pods), pods=pods[:NAMED_MAX])
        if fresh := trust.doubted - before:
            self._on_doubt(stage, len(fresh))


def pod_of(worker: WorkerId) -> str:
    """The hostname of a worker's pod."""
    return worker.partition(":")[0]


def _by_stage(
    records: Iterable[HostRecord], ready: Mapping[StageName, frozenset[str]]
) -> dict[StageName, list[WorkerId]]:
    """Workers in ready pods, by stage; stages with one only are left out."""
    found: dict[StageName, list[WorkerId]] = {}
    for record in records:
        for stage in record.stages:
            if pod_of(record.worker) in ready.get(stage, ()):
                found.setdefault(stage, []).append(record.worker)
    return {stage: workers for stage, workers in found.items() if len(workers) > 1}
