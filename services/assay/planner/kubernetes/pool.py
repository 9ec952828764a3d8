"""One stage's pool, from its Deployment or SandboxWarmPool and its pods. Pure: instants are
arguments.

Counts are slots: pods times the slots of a pod. `cap` is what the cluster gives at present; it is
only known while more was asked for, so it holds for `quota_hold_s` after it was last seen.

Slots of doubted pods are not counted, and spare pods are asked for in their place. Where doubted
pods can be made to go first, the spares are given up as soon as as many others are ready, so that
the doubted ones go; elsewhere both stay.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from assay.config.kubernetes import KubernetesSettings
from assay.core.ids import StageName
from assay.planner.kubernetes.hosts import hostname_of
from assay.planner.kubernetes.pods import Json, PodState, PodView, older, part, parts, whole
from assay.planner.session.messages import HostState, PoolState, Startup

STARTUPS_KEPT: Final = 64
STARTUPS_MIN: Final = 3
"""Fewer measured starts than this say nothing."""
STARTUP_QUANTILE: Final = 0.9
"""The planner orders this early: a slot that is late costs a deadline, an early one a second."""
COLD_S_MAX: Final = 600.0
"""A pod that waited for a node for longer waited for capacity; that is no start-up time."""
CHANGES_KEPT: Final = 8
CONTENDED_CHANGES: Final = 3
CONTENDED_WITHIN_S: Final = 60.0
CONTENDED_PATCH_S: Final = 15.0
CONTENDED_PATCH_S_MAX: Final = 120.0
"""While someone else sizes the pool too, it is set so long after the other's change: at each change
for twice as long, up to this. Each change starts and ends pods."""
CONTENDED_OVER_S: Final = 60.0
"""It is over when our size has stood for this time, or the other's for `CONTENDED_GIVEN_UP_S`."""
CONTENDED_GIVEN_UP_S: Final = 2 * CONTENDED_PATCH_S_MAX
HELD_UP_S: Final = 15.0
"""Pause after an attempt that delayed the step."""
PODS_TIMED_MAX: Final = 20_000
SPARES_MAX: Final = 16
"""Pods beyond the wanted ones that a pool has at once in the place of doubted ones."""
NAMED_MAX: Final = 5
"""Pods named in a condition."""
FIELD_MANAGER: Final = "assay-planner"
ANOTHER_PLANNER: Final = f"{FIELD_MANAGER}, another planner of Assay with another store,"
"""Planners with one store have one leader, which alone sets sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The wanted size of a Deployment or a SandboxWarmPool."""

    name: str
    replicas: int
    version: str
    """Its resource version."""
    refused: str = ""
    """Why its controller cannot make pods (a quota, a webhook); empty = it can."""
    manager: str = ""
    """Who set the size last, by the managed fields."""


def target_view(found: Json, *, before: object = None) -> Target:
    """Read either. Absent `replicas` means 1."""
    del before
    metadata, spec = part(found, "metadata"), part(found, "spec")
    refused = next(
        (
            str(c.get("message") or c.get("reason") or "refused")
            for c in parts(part(found, "status"), "conditions")
            if c.get("type") == "ReplicaFailure" and c.get("status") == "True"
        ),
        "",
    )
    return Target(
        name=str(metadata.get("name") or ""),
        replicas=max(whole(spec.get("replicas"), 1), 0),
        version=str(metadata.get("resourceVersion") or ""),
        refused=refused[:200],
        manager=_owner_of_replicas(metadata),
    )


def _owner_of_replicas(metadata: Json) -> str:
    for entry in parts(metadata, "managedFields"):
        if "f:replicas" in part(part(entry, "fieldsV1"), "f:spec"):
            return str(entry.get("manager") or "")
    return ""


@dataclass(slots=True, kw_only=True)
class Pool:
    """What is remembered of a stage's pool between two looks."""

    stage: StageName
    path: str
    """Of its kind."""
    name: str
    slots_per_pod: int
    asked: int | None = None
    """Replicas that we set last; `None` = none yet."""
    asked_version: str = ""
    asked_s: float = 0.0
    problem: str = ""
    """Why the last attempt to size it failed."""
    held_until_s: float = 0.0
    """Not tried before: what the API server needs for it does not answer."""
    cap: int | None = None
    cap_until_s: float = 0.0
    cap_why: str = ""
    startups: deque[float] = field(default_factory=lambda: deque(maxlen=STARTUPS_KEPT))
    """The latest, with and without a new node."""
    cold: deque[float] = field(default_factory=lambda: deque(maxlen=STARTUPS_KEPT))
    """The latest for which a node was added."""
    foreign: deque[float] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT))
    """Instants at which someone else changed the size."""
    foreign_by: str = ""
    fought: int | None = None
    """Sizes of ours that did not stand since someone else keeps sizing it; `None`: no one does."""
    replaces: bool = False
    """Doubted pods go first when the pool is made smaller."""
    wanted: int | None = None
    """Pods by the last size that was asked for, without spares; `None`: none was, so the pods that
    there should be."""
    doubted: tuple[str, ...] = ()
    """Names of ready pods that take work and end none, as of the last look."""
    good: int = 0
    """The other ready pods."""
    _timed: OrderedDict[str, None] = field(default_factory=OrderedDict)

    # -- events --------------------------------------------------------------------------------
    def pod_seen(self, pod: PodView) -> float | None:
        """A pod as it is now; returns its start-up time in seconds, once per pod."""
        took_s = pod.startup_s
        if took_s is None or pod.name in self._timed:
            return None
        self._timed[pod.name] = None
        if len(self._timed) > PODS_TIMED_MAX:
            self._timed.popitem(last=False)
        if pod.cold and took_s > COLD_S_MAX:
            return None
        self.startups.append(took_s)
        if pod.cold:
            self.cold.append(took_s)
        return took_s

    def resized(self, replicas: int, version: str, now_s: float) -> None:
        """We set the size."""
        self.asked, self.asked_version, self.asked_s, self.problem = replicas, version, now_s, ""

    def held_up(self, why: str, now_s: float) -> None:
        """An attempt took long and failed; other pools are tried before this one."""
        self.problem, self.held_until_s = f"Unanswered: {why}", now_s + HELD_UP_S

    def set_back(self) -> None:
        """The API server's store was set back: our size may be lost, and the version is unknown."""
        self.asked, self.asked_version = None, ""

    def target_seen(self, target: Target, now_s: float) -> None:
        """The Deployment as it is now: was its size changed by someone else?"""
        if self.asked is None or target.replicas == self.asked:
            return
        if older(target.version, self.asked_version):
            return
        self._end_of_contention(now_s)
        self.foreign.append(now_s)
        is_planner = target.manager == FIELD_MANAGER
        self.foreign_by = ANOTHER_PLANNER if is_planner else target.manager
        self.asked, self.asked_version = None, ""
        recent = [at for at in self.foreign if now_s - at <= CONTENDED_WITHIN_S]
        if self.fought is not None:
            self.fought += 1
        elif len(recent) >= CONTENDED_CHANGES:
            self.fought = 0

    # -- state ---------------------------------------------------------------------------------
    def desired(self, target: Target) -> int:
        """Wanted slots, without those of spares."""
        return max(0, self.replicas(target) - self.spares) * self.slots_per_pod

    def replicas(self, target: Target) -> int:
        """Wanted pods: ours, as long as only older news arrived."""
        return target.replicas if self.asked is None else self.asked

    def contended(self, now_s: float) -> bool:
        """Whether someone else keeps sizing it."""
        self._end_of_contention(now_s)
        return self.fought is not None

    def _end_of_contention(self, now_s: float) -> None:
        if self.fought is None:
            return
        stands = self.asked is not None and now_s - self.asked_s >= CONTENDED_OVER_S
        if stands or now_s - self.foreign[-1] >= CONTENDED_GIVEN_UP_S:
            self.fought = None
            self.foreign.clear()

    def leaves(self, now_s: float) -> bool:
        """Whether the other's size is left for now."""
        if not self.contended(now_s) or self.fought is None:
            return False
        pause_s = min(CONTENDED_PATCH_S * 2.0**self.fought, CONTENDED_PATCH_S_MAX)
        return now_s - self.foreign[-1] < pause_s

    def pods_for(self, slots: int) -> int:
        """Pods that hold at least this many slots, and the spares; what is wanted from now on."""
        self.wanted = -(-slots // self.slots_per_pod)
        return self.wanted + self.spares

    @property
    def spares(self) -> int:
        """Pods that are asked for in the place of doubted ones."""
        spares = min(len(self.doubted), SPARES_MAX)
        later = len(self.doubted) - spares
        enough = self.wanted is not None and self.good >= self.wanted - later
        return 0 if enough and self.replaces else spares

    def state(
        self,
        target: Target,
        pods: Iterable[PodView],
        *,
        running: int,
        now_s: float,
        ahead_s: float = 0.0,
        patience: KubernetesSettings,
        doubted: Set[str] = frozenset(),
    ) -> PoolState:
        """The pool as the planner sees it.

        Args:
            target: its Deployment.
            pods: its pods.
            running: requests of the stage with a lease.
            now_s: by our clock.
            ahead_s: how far the clock of the pods' instants is ahead of it.
            patience: with pods that have no place.
            doubted: hostnames of pods that take work and end none.
        """
        found = list(pods)
        there = [pod.name for pod in found if pod.state is PodState.READY]
        self.doubted = tuple(sorted(name for name in there if hostname_of(name) in doubted))
        self.good = len(there) - len(self.doubted)
        if self.wanted is None:
            self.wanted = self.replicas(target)
        ready = self.good * self.slots_per_pod
        self._find_cap(target, found, now_s, ahead_s, patience)
        return PoolState(
            stage=self.stage,
            desired=self.desired(target),
            ready=ready,
            busy=min(running, ready),
            slots_max=self.cap,
            startup_ns=p90_ns(self.startups),
            startup_cold_ns=p90_ns(self.cold),
            startup=_startup_of(self.startups),
            condition=self._condition(found, now_s),
        )

    def host_of(self, pod: PodView) -> HostState:
        """One of its pods."""
        slots = self.slots_per_pod
        took_s = pod.startup_s
        state = "Counted" if pod.name not in self.doubted else f"Doubted: {self.stage}"
        return HostState(
            host=pod.name,
            state=state if pod.state is PodState.READY else pod.state.value,
            pools=(
                PoolState(
                    stage=self.stage,
                    desired=slots,
                    ready=slots if pod.state is PodState.READY else 0,
                    busy=0,
                    condition=pod.why,
                    startup=_startup_of([] if took_s is None else [took_s]),
                ),
            ),
        )

    def _find_cap(
        self,
        target: Target,
        pods: list[PodView],
        now_s: float,
        ahead_s: float,
        patience: KubernetesSettings,
    ) -> None:
        waits = {
            PodState.GATED: patience.gated_s,
            PodState.UNSCHEDULABLE: patience.unschedulable_s,
        }
        there_s = now_s + ahead_s
        out = [
            pod
            for pod in pods
            if pod.state in waits and there_s - pod.created_s >= waits[pod.state]
        ]
        admitted = sum(pod.state in {PodState.READY, PodState.STARTING} for pod in pods)
        short = admitted < self.replicas(target)
        admitted -= len(self.doubted)
        if out or (target.refused and short):
            self.cap = admitted * self.slots_per_pod
            self.cap_until_s = now_s + patience.quota_hold_s
            self.cap_why = out[0].why if out else target.refused
        elif now_s >= self.cap_until_s:
            self.cap, self.cap_why = None, ""

    def _condition(self, pods: list[PodView], now_s: float) -> str:
        if self.problem:
            return self.problem
        if self.cap is not None:
            return f"QuotaExhausted: {self.cap} slots are given; {self.cap_why}"
        if self.doubted:
            named = ", ".join(self.doubted[:NAMED_MAX])
            return f"HostsDoubted: {len(self.doubted)} of {len(pods)} pods, {named}"
        for state, name in _BAD.items():
            bad = [pod for pod in pods if pod.state is state]
            if bad:
                return f"{name}: {len(bad)} of {len(pods)} pods; {bad[0].why}"
        if self.contended(now_s):
            other = self.foreign_by or "someone else"
            return f"Contended: {other} sizes it too; give it one owner"
        return ""


_BAD: Final[Mapping[PodState, str]] = {
    PodState.IMAGE_FAILED: "ImagePullFailed",
    PodState.BROKEN: "PodsBroken",
    PodState.LOST: "PodsLost",
}


def p90_ns(startups_s: deque[float]) -> int | None:
    """What nine in ten starts took at most; `None` = too few were measured."""
    if len(startups_s) < STARTUPS_MIN:
        return None
    return _startup_of(startups_s).p90_ns


def _startup_of(startups_s: Iterable[float]) -> Startup:
    in_order = sorted(startups_s)
    if not in_order:
        return Startup()
    last = len(in_order) - 1
    return Startup(
        measured=len(in_order),
        p50_ns=round(in_order[int(0.5 * last + 0.5)] * 1e9),
        p90_ns=round(in_order[int(STARTUP_QUANTILE * last + 0.5)] * 1e9),
    )
