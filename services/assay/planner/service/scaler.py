"""The interface to the pools; `service.hosts` and `planner.kubernetes` implement it.

A scaler knows sizes only. Every method raises `DependencyDown` when the pools cannot be reached;
the pools then stay as they are. A resize names the new size, so it may be repeated.
"""

from collections.abc import Sequence
from typing import Protocol

from assay.core.ids import StageName
from assay.planner.session.messages import HostState, PoolState


class Scaler(Protocol):
    """Sizes of pools, one per stage, over all worker hosts."""

    async def pools(self) -> Sequence[PoolState]:
        """Current state of all pools."""

    async def resize(self, stage: StageName, slots: int) -> PoolState:
        """Set the size of a pool.

        Raises:
            InvalidRequest: there is no such stage, or the hosts allow fewer.
        """

    def hosts(self) -> Sequence[HostState]:
        """The worker hosts (or pods) behind the pools, as last seen, by name."""

    async def close(self) -> None: ...
