"""Which pods go first when a pool is made smaller, by their deletion cost: those that take work and
end none, then idle ones. Pure.

A ReplicaSet removes pods that are not ready first, then those of the least deletion cost. The
planner knows which pods are idle, so it gives as many of them as have to go a cost below that of
all others, and takes it back from those that it was given to before and that stay. Should there be
fewer idle pods, or should a pod have begun work since, it drains.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Final

from assay.planner.kubernetes.hosts import hostname_of
from assay.planner.kubernetes.pods import DELETION_COST, Json, PodState, PodView

GOES_FIRST: Final = -1_000
"""Of an idle pod."""
DOUBTED: Final = -2_000
"""Of a pod that takes work and ends none, at work or not."""
OURS: Final = frozenset({0, GOES_FIRST, DOUBTED})
MARKS_MAX: Final = 256
"""Pods that are marked before one change of size; which others go is left to Kubernetes."""


def costs(
    pods: Iterable[PodView], *, idle: Set[str], stay: int, doubted: Set[str] = frozenset()
) -> Mapping[str, int]:
    """The deletion costs to set, by pod; 0 = none. Pods of which nothing has to change are absent.

    Args:
        pods: all of the pool.
        idle: hostnames of pods in which no slot works.
        stay: how many pods there are to be.
        doubted: hostnames of pods that take work and end none.
    """
    there = [pod for pod in pods if pod.state is not PodState.ENDING and not pod.over]
    ready = [pod for pod in there if pod.state is PodState.READY]
    # Kubernetes removes those that are not ready before any other, whatever their cost.
    leaving = min(len(ready) - stay, MARKS_MAX)
    cost_of = {
        pod.name: DOUBTED if hostname_of(pod.name) in doubted else GOES_FIRST for pod in ready
    }
    free = [pod for pod in ready if hostname_of(pod.name) in idle | doubted]
    # Doubted ones first. Then marked ones, so that a size that is set again changes nothing; then
    # the youngest: those that have run for long have warm caches.
    free.sort(
        key=lambda pod: (
            cost_of[pod.name], pod.deletion_cost != cost_of[pod.name], -pod.ready_s, pod.name,
        )
    )  # fmt: skip
    first = {pod.name for pod in free[: max(0, leaving)]}
    wanted = {pod.name: cost_of[pod.name] if pod.name in first else 0 for pod in ready}
    known = {pod.name: pod.deletion_cost for pod in ready}
    return {
        name: cost
        for name, cost in wanted.items()
        # A cost that another has set is another's to change.
        if known[name] != cost and known[name] in OURS
    }


def annotated(cost: int) -> Json:
    """The merge patch that gives a pod this cost."""
    value = str(cost) if cost else None
    return {"metadata": {"annotations": {DELETION_COST: value}}}
