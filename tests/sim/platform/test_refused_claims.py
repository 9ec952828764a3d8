"""Claims that the store did not answer are made again by the host itself, not by the next sweep."""

import asyncio
from typing import Any, ClassVar, cast

from tests.sim.platform.trace import LONG_S, Platform, Trace, TraceBatch, by_platform

from assay.core.errors import DependencyDown
from assay.sim.platform.nodes import Node
from assay.sim.platform.store import NodeStore, StoreServer
from assay.store.port import Store

S = 1_000_000_000
OPENED_S = 2
REFUSED = 2


class Refuses(NodeStore):
    """The first claims after the batch was opened fail, also one that only wakes another host."""

    def __init__(self, node: Node, server: StoreServer) -> None:
        super().__init__(node, server)
        self.refused = 0

    async def _call(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> object:
        now_s = asyncio.get_running_loop().time()
        if name == "claim" and now_s >= OPENED_S and self.refused < REFUSED:
            self.refused += 1
            raise DependencyDown("no answer from the store")
        return await super()._call(name, args, options)


class RefusingPlatform(Platform):
    """No sweep helps."""

    reap_every_s: ClassVar[float] = LONG_S

    def _store(self, node: Node) -> Store:
        return cast("Store", Refuses(node, self.server))


def test_a_host_whose_claim_failed_claims_again_by_itself() -> None:
    batch = TraceBatch(
        tenant="t", weight=1.0, opened_ns=OPENED_S * S, deadline_ms=60_000, arrived_ns=(0,),
        service_ns=((S,),),
    )  # fmt: skip
    trace = Trace(stages=1, startup_ns=S // 10, batches=(batch,), sizes=((S, 0, 1),))
    assert by_platform(trace, 30 * S, RefusingPlatform)[0, 0, 0].finish_ns is not None
