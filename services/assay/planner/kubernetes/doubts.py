"""Pods that take work and end none, found as worker hosts on machines are (`session.trust`).

A pod's word is that it is ready; what it ended is what the store recorded. Its slots are those of
its pool, so all that a pod can pretend is that they are at work.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import structlog

from assay.core.hosts.record import HostRecord
from assay.core.ids import StageName, WorkerId
from assay.core.records import StageDepth
from assay.planner.session.trust import Reading, Trust
from assay.store.port import Store

LOOK_EVERY_S: Final = 2.0
HOSTS_AT_ONCE: Final = 512
"""Hosts of several stages that are compared per look: some 5 ms."""
NAMED_MAX: Final = 5
"""Pods named in a log line."""

log = structlog.get_logger(__name__)

TimeoutOf = Callable[[StageName], float]
"""Of a stage, in seconds."""
ReadyOf = Callable[[Collection[StageName]], Mapping[StageName, frozenset[str]]]
Doubted = Callable[[StageName, int], None]
"""Called with a stage and the number of pods that are doubted from now on."""


@dataclass(slots=True, kw_only=True)
class _Compared:
    """What is known of a stage's pods."""

    trust: Trust
    doubts: frozenset[WorkerId] = frozenset()
    """At the last comparison."""
    compared_s: float = -math.inf
    """Instant of that."""
    waited: bool = False
    """Requests waited at every look after it."""
    waits: bool = False
    """Requests waited at the last look."""


class PodDoubts:
    """Which pods are doubted, by stage and the hostname that their processes see.

    Pods are compared in stages in which requests wait, or some are doubted, and of these a bounded
    number per look: those compared longest ago first. In a large cluster a comparison covers a
    longer time, and takes no more of the planner's.
    """

    def __init__(self, store: Store, *, timeout_of: TimeoutOf, on_doubt: Doubted) -> None:
        self._store = store
        self._timeout_of = timeout_of
        self._on_doubt = on_doubt
        self._stages: dict[StageName, _Compared] = {}
        self._looked_s: float | None = None

    def of(self, stage: StageName) -> frozenset[str]:
        """Hostnames of the stage's pods whose slots are not counted on; never all of them."""
        one = self._stages.get(stage)
        return frozenset() if one is None else frozenset(map(pod_of, one.doubts))

    async def look(
        self,
        records: Sequence[HostRecord],
        ready_of: ReadyOf,
        *,
        slots_of: Callable[[StageName], int],
        now_s: float,
    ) -> None:
        """Compare what ready pods have ended; one alone has nothing to be compared with.

        Args:
            records: of the hosts that live, by their own word.
            ready_of: hostnames of the ready pods of some stages, each with its stage.
            slots_of: slots of one pod of a stage.
            now_s: the instant, by a monotonic clock.

        Raises:
            DependencyDown: the store does not answer.
        """
        if self._looked_s is not None and now_s - self._looked_s < LOOK_EVERY_S:
            return
        since_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        hosts = Counter(stage for record in records for stage in record.stages)
        several = [stage for stage, count in hosts.items() if count > 1]
        for depth in await self._store.depths(several) if several else ():
            self._note(depth, since_s)
        self._stages = {stage: one for stage, one in self._stages.items() if hosts[stage] > 1}
        if due := self._due(hosts, now_s):
            await self._compare(_by_stage(records, ready_of(due), due), slots_of, now_s)
        self._looked_s = now_s

    def _note(self, depth: StageDepth, since_s: float) -> None:
        stage = depth.stage
        if stage not in self._stages:
            self._stages[stage] = _Compared(trust=Trust(timeout_s=self._timeout_of(stage)))
        one = self._stages[stage]
        one.waits = depth.queued > 0 and depth.oldest_age_s > since_s
        one.waited &= one.waits

    def _due(self, hosts: Mapping[StageName, int], now_s: float) -> frozenset[StageName]:
        """Stages that are compared now, within the bound; a larger one by itself, less often."""
        wanted = [
            stage
            for stage, one in self._stages.items()
            if (one.waits or one.doubts)
            and now_s - one.compared_s >= LOOK_EVERY_S * hosts[stage] / HOSTS_AT_ONCE
        ]
        wanted.sort(key=lambda stage: self._stages[stage].compared_s)
        after = accumulate(hosts[stage] for stage in wanted)
        return frozenset(
            stage
            for stage, count in zip(wanted, after, strict=True)
            if stage == wanted[0] or count <= HOSTS_AT_ONCE
        )

    async def _compare(
        self,
        workers: Mapping[StageName, Sequence[WorkerId]],
        slots_of: Callable[[StageName], int],
        now_s: float,
    ) -> None:
        every = list(dict.fromkeys(worker for some in workers.values() for worker in some))
        ended = await self._store.ended_by(every) if every else {}
        for stage, some in workers.items():
            slots = slots_of(stage)
            readings = [Reading(worker, slots, ended[worker].get(stage, 0)) for worker in some]
            self._judge(stage, readings, now_s)

    def _judge(self, stage: StageName, readings: Sequence[Reading], now_s: float) -> None:
        one = self._stages[stage]
        one.trust.look(
            readings, now_s=now_s, waited_s=now_s - one.compared_s if one.waited else 0.0
        )
        one.compared_s, one.waited = now_s, True
        before, one.doubts = one.doubts, one.trust.doubted
        if one.doubts != before:
            pods = sorted(map(pod_of, one.doubts))
            log.warning("pods_doubted", stage=stage, count=len(pods), pods=pods[:NAMED_MAX])
        if fresh := one.doubts - before:
            self._on_doubt(stage, len(fresh))


def pod_of(worker: WorkerId) -> str:
    """The hostname of a worker's pod."""
    return worker.partition(":")[0]


def _by_stage(
    records: Iterable[HostRecord],
    ready: Mapping[StageName, frozenset[str]],
    stages: frozenset[StageName],
) -> dict[StageName, list[WorkerId]]:
    """Workers in ready pods, by stage, of some stages."""
    found: dict[StageName, list[WorkerId]] = {stage: [] for stage in stages}
    for record in records:
        for stage in record.stages:
            if stage in stages and pod_of(record.worker) in ready.get(stage, ()):
                found[stage].append(record.worker)
    return found
