"""The one interface of everything that decides how many workers there are."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, Protocol

from assay.model.observation import Observation, Sizing

Sharing = Literal["shared", "dedicated"]


class Policy(Protocol):
    """Asked at each `Cause`; may keep state between calls; reads no clock, draws from its seed."""

    @property
    def name(self) -> str:
        """As in reports: `distrs`."""

    @property
    def sharing(self) -> Sharing:
        """One pool a stage, or one a stage and task."""

    @property
    def elastic(self) -> bool:
        """True = a worker a request; `decide` is not asked for numbers."""

    def decide(self, observation: Observation) -> Sizing:
        """How many workers there should be from now on."""


class PoolPolicy:
    """What most policies have in common: shared pools that somebody sizes."""

    name = "pool"
    sharing: Sharing = "shared"
    elastic = False


def swapped(deadlines_ns: Sequence[int], tenants: Sequence[str]) -> list[int]:
    """Of batches in the order in which they should be served: the deadlines that say so, swapped
    within each tenant."""
    left: dict[str, list[int]] = defaultdict(list)
    for deadline_ns, tenant in zip(deadlines_ns, tenants, strict=True):
        left[tenant].append(deadline_ns)
    for one in left.values():
        one.sort(reverse=True)
    return [left[tenant].pop() for tenant in tenants]
