"""The one interface of everything that decides how many slots there are."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, Protocol

from assay.model.observation import Observation, Sizing

Sharing = Literal["shared", "dedicated"]


class Policy(Protocol):
    """Asked at each `Cause`; may keep state; reads no clock, uses only its own seed."""

    @property
    def name(self) -> str:
        """Name in reports, such as `distrs`."""

    @property
    def sharing(self) -> Sharing:
        """`shared`: one pool per stage; `dedicated`: one per stage and task."""

    @property
    def elastic(self) -> bool:
        """True = one slot per request; the sizes of `decide` are ignored."""

    def decide(self, observation: Observation) -> Sizing:
        """Return the number of slots from now on."""


class PoolPolicy:
    """Common base of most policies: shared pools of a chosen size."""

    name = "pool"
    sharing: Sharing = "shared"
    elastic = False


def swapped(deadlines_ns: Sequence[int], tenants: Sequence[str]) -> list[int]:
    """New deadlines for batches that are listed in the order in which to serve them.

    Each tenant's deadlines stay within the tenant: its earliest goes to its first batch, and so on.
    """
    left: dict[str, list[int]] = defaultdict(list)
    for deadline_ns, tenant in zip(deadlines_ns, tenants, strict=True):
        left[tenant].append(deadline_ns)
    for one in left.values():
        one.sort(reverse=True)
    return [left[tenant].pop() for tenant in tenants]
