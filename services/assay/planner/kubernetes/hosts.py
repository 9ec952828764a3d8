"""Worker hosts in pods: what one held is given back as soon as its pod is known to be gone.

A pod is gone when the API server no longer has it, or says that all its containers have ended. One
on a node that does not answer is not: its process may live, and its leases run out by themselves.
Should a pod that was deleted by force live after all, its reports are stale (leases are fenced).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Final

from assay.core.hosts.record import HOSTS_MAX, HostRecord
from assay.core.ids import StageName, WorkerId
from assay.planner.kubernetes.doubts import PodDoubts, pod_of
from assay.planner.kubernetes.pods import PodState, PodView
from assay.store.operations.hosts import take_back_all
from assay.store.port import Store

KNOWN_MAX: Final = 4 * HOSTS_MAX
"""Hosts that are remembered; beyond that, those known longest are forgotten."""
AT_ONCE_MAX: Final = 16
"""Hosts that are settled per look: each is a search among the leases of its stages."""
HOSTNAME_CHARS_MAX: Final = 63


class PodLives:
    """Which hosts were seen with a pod of theirs. Pure."""

    def __init__(self) -> None:
        self._known: dict[WorkerId, HostRecord] = {}

    def gone(self, records: Iterable[HostRecord], pods: Iterable[PodView]) -> Sequence[HostRecord]:
        """Hosts that were seen with their pod, and whose pod is gone; the same again until each is
        settled. A host whose pod was never seen is not ours.

        Args:
            records: of the live hosts, as they report themselves.
            pods: all that there are at present.
        """
        living = {hostname_of(pod.name) for pod in pods if not pod.over}
        for record in records:
            if pod_of(record.worker) in living:
                self._known.pop(record.worker, None)
                self._known[record.worker] = record
        for worker in list(self._known)[: max(0, len(self._known) - KNOWN_MAX)]:
            del self._known[worker]
        return [one for one in self._known.values() if pod_of(one.worker) not in living]

    def settled(self, worker: WorkerId) -> None:
        """Its leases are given back."""
        self._known.pop(worker, None)


class PodHosts:
    """Gives back the leases of pods that are gone, and knows which pods are idle or doubted."""

    def __init__(self, store: Store, *, attempts_max: int, doubts: PodDoubts | None = None) -> None:
        """Prepare without connecting.

        Args:
            store: of the platform.
            attempts_max: see `Store.take_back`.
            doubts: finds pods that end no work; `None`: every pod is believed.
        """
        self._store = store
        self._doubts = doubts
        self._attempts_max = attempts_max
        self._lives = PodLives()
        self.idle: Set[str] = frozenset()
        """Hostnames of the pods in which no slot was at work at the last look."""

    def doubted(self, stage: StageName) -> frozenset[str]:
        """Hostnames of the stage's pods that take work and end none."""
        return frozenset() if self._doubts is None else self._doubts.of(stage)

    async def settle(
        self,
        pods: Mapping[str, PodView],
        *,
        slots_of: Callable[[StageName], int] = lambda _: 1,
        now_s: float = 0.0,
    ) -> None:
        """Look at all pods.

        Args:
            pods: by name.
            slots_of: slots of one pod of a stage.
            now_s: the instant, by a monotonic clock.

        Raises:
            DependencyDown: the store does not answer; what is left is done at the next look.
        """
        records = await self._store.hosts()
        self.idle = frozenset(pod_of(one.worker) for one in records if one.busy == 0)
        gone = self._lives.gone(records, pods.values())
        for host in gone[:AT_ONCE_MAX]:
            await take_back_all(self._store, host, attempts_max=self._attempts_max)
            self._lives.settled(host.worker)
        if self._doubts is not None:
            await self._doubts.look(
                records, partial(_ready, pods.values()), slots_of=slots_of, now_s=now_s
            )


def hostname_of(pod: str) -> str:
    """The name that the processes of a pod see, by which its host is called."""
    return pod[:HOSTNAME_CHARS_MAX].rstrip("-.")


def _ready(
    pods: Iterable[PodView], stages: Collection[StageName]
) -> Mapping[StageName, frozenset[str]]:
    """Hostnames of the ready pods of some stages."""
    found: dict[StageName, set[str]] = {}
    for pod in pods:
        stage = StageName(pod.stage)
        if stage in stages and pod.state is PodState.READY:
            found.setdefault(stage, set()).add(hostname_of(pod.name))
    return {stage: frozenset(names) for stage, names in found.items()}
