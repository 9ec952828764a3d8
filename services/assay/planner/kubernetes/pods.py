"""What a pod's status says about its slots. Pure.

A pod that waits for quota (a scheduling gate, no room on any node) is distinguished from one
that starts slowly: more patience helps the second, a smaller plan the first.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

Json = Mapping[str, Any]

IMAGE: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
     "ErrImageInspect", "RegistryUnavailable"}
)  # fmt: skip
"""Reasons of a container whose image cannot be obtained."""
BROKEN: Final = frozenset(
    {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError",
     "RunContainerError", "StartError"}
)  # fmt: skip
WHY_CHARS_MAX: Final = 200
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation; Kubernetes reads an absent one as 0."""


class PodState(StrEnum):
    """The state of a pod, as its pool counts it."""

    READY = "ready"
    STARTING = "starting"
    GATED = "gated"
    """Not admitted: a scheduling gate is left (Kueue's quota)."""
    UNSCHEDULABLE = "unschedulable"
    """Admitted, and no node has room."""
    IMAGE_FAILED = "image_failed"
    BROKEN = "broken"
    """Its container cannot start or ends again and again."""
    ENDING = "ending"
    """Deleted, draining."""
    LOST = "lost"
    """Evicted, preempted, ended, or on a node that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod. Times are seconds of the API server's clock (whole seconds), 0 = not known."""

    name: str
    stage: str
    state: PodState
    why: str = ""
    created_s: float = 0.0
    scheduled_s: float = 0.0
    ready_s: float = 0.0
    gated: bool = False
    """It has, or had when last seen, to wait for its admission."""
    cold: bool = False
    """It finds no node, or found none when last seen: one has to be added."""
    over: bool = False
    """All its containers have ended, and none is started again."""
    deletion_cost: int = 0
    """Of the pods of a ReplicaSet that is made smaller, those of the least cost go first."""

    @property
    def startup_s(self) -> float | None:
        """Time from its creation, or from its placement if it had to wait for its admission, until
        ready."""
        begun_s = self.scheduled_s if self.gated and self.scheduled_s else self.created_s
        if self.state is not PodState.READY or not begun_s or not self.ready_s:
            return None
        return max(self.ready_s - begun_s, 0.0)


def pod_view(pod: Json, *, pool_label: str, before: PodView | None = None) -> PodView:
    """Read a pod; `before` = what was known of it."""
    metadata, status = part(pod, "metadata"), part(pod, "status")
    conditions = {str(c.get("type")): c for c in parts(status, "conditions")}
    state, why = _state(metadata, status, conditions)
    return PodView(
        name=str(metadata.get("name") or ""),
        stage=str(part(metadata, "labels").get(pool_label) or ""),
        state=state,
        why=why[:WHY_CHARS_MAX],
        created_s=seconds(metadata.get("creationTimestamp")),
        scheduled_s=_since(conditions, "PodScheduled"),
        ready_s=_since(conditions, "Ready"),
        gated=state is PodState.GATED or (before is not None and before.gated),
        cold=state is PodState.UNSCHEDULABLE or (before is not None and before.cold),
        over=status.get("phase") in {"Failed", "Succeeded"},
        deletion_cost=_cost(part(metadata, "annotations").get(DELETION_COST)),
    )


def _state(metadata: Json, status: Json, conditions: Mapping[str, Json]) -> tuple[PodState, str]:
    phase = str(status.get("phase") or "Pending")
    if metadata.get("deletionTimestamp"):
        return PodState.ENDING, "deleted"
    if phase in {"Failed", "Succeeded", "Unknown"}:
        return PodState.LOST, str(status.get("reason") or phase)
    disrupted = conditions.get("DisruptionTarget", {})
    if disrupted.get("status") == "True":
        return PodState.LOST, str(disrupted.get("reason") or "DisruptionTarget")
    placed = conditions.get("PodScheduled", {})
    if placed.get("status") == "False":
        why = f"{placed.get('reason')}: {placed.get('message') or ''}"
        if placed.get("reason") == "SchedulingGated":
            return PodState.GATED, why
        if placed.get("reason") == "Unschedulable":
            return PodState.UNSCHEDULABLE, why
    ready = conditions.get("Ready", {})
    if ready.get("status") == "True":
        return PodState.READY, ""
    if ready.get("status") == "Unknown" or ready.get("reason") == "NodeNotReady":
        return PodState.LOST, str(ready.get("reason") or "NodeNotReady")
    return _containers(status)


def _containers(status: Json) -> tuple[PodState, str]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in parts(status, kind):
            waiting = part(part(container, "state"), "waiting")
            reason = str(waiting.get("reason") or "")
            why = f"{reason}: {waiting.get('message') or ''}"
            if reason in IMAGE:
                return PodState.IMAGE_FAILED, why
            if reason in BROKEN:
                return PodState.BROKEN, _last_words(container) or why
    return PodState.STARTING, ""


def _last_words(container: Json) -> str:
    """How its last run ended, in its own words where it has any; empty: there was none."""
    ended = part(part(container, "lastState"), "terminated")
    said = str(ended.get("message") or ended.get("reason") or "").strip()
    return f"exit code {ended.get('exitCode')}: {said.splitlines()[-1]}" if said else ""


def part(of: Json, name: str) -> Json:
    """A member that should be an object; empty where it is absent, null or something else."""
    found = of.get(name)
    return found if isinstance(found, Mapping) else {}


def parts(of: Json, name: str) -> Sequence[Json]:
    """A member that should be a list of objects."""
    found = of.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def older(version: str, than: str) -> bool:
    """Whether a resource version is known to be the older one (decimal since Kubernetes 1.35)."""
    if not (version.isdecimal() and than.isdecimal()):
        return False
    return int(version) < int(than)


def whole(value: object, absent: int) -> int:
    """A count; Kubernetes omits one that has its default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else absent


def seconds(value: object) -> float:
    """Unix time of an RFC 3339 instant; 0 where there is none."""
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0


def _cost(value: object) -> int:
    """A cost as Kubernetes reads it: 32 bits; anything else is as if it were absent."""
    text = str(value)
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        return 0
    return int(text) if -(2**31) <= int(text) < 2**31 else 0


def _since(conditions: Mapping[str, Json], name: str) -> float:
    condition = conditions.get(name, {})
    if condition.get("status") != "True":
        return 0.0
    return seconds(condition.get("lastTransitionTime"))
