"""`assay status` shows what the planner says of all worker hosts, where one leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest
from tests.console.planner import StandIn, address_of

from assay.cli.operate.status_client import observe
from assay.edge.clock import Clock

if TYPE_CHECKING:
    from assay.cli.operate.snapshot import Snapshot
    from assay.store.port import Store

NOT_LISTENING = "127.0.0.1:1"


async def seen(store: Store, planner: StandIn) -> Snapshot:
    async with address_of(planner) as address:
        return await observe(store, NOT_LISTENING, clock=Clock(), planner=address)


async def test_pools_are_sums_over_all_hosts_and_the_hosts_are_listed(store: Store) -> None:
    planner = StandIn.with_hosts("a", "b")
    planner.everywhere.hosts_all = 1_300
    found = await seen(store, planner)
    pool = found.pools["noop"]
    assert (pool.slots_busy, pool.slots_ready, pool.slots_desired) == (2, 2, 4)
    assert (pool.starts_measured, pool.startup_p90_s) == (3, 0.5)
    assert [(one.host, one.state, len(one.pools)) for one in found.hosts] == [
        ("a", "Counted", 1),
        ("b", "Counted", 1),
    ]
    told = found.as_json()
    assert told["hosts_all"] == 1_300
    assert [host["host"] for host in told["hosts"]] == ["a", "b"]


@pytest.mark.parametrize(
    "planner",
    [
        StandIn(refuses=grpc.StatusCode.UNIMPLEMENTED),
        StandIn(refuses=grpc.StatusCode.UNAVAILABLE),
        StandIn(),
    ],
    ids=["an earlier release", "no host answers it", "it stands by"],
)
async def test_without_a_planners_word_pools_are_those_of_this_machine(
    store: Store, planner: StandIn
) -> None:
    found = await seen(store, planner)
    assert planner.asked_for_pools
    assert not found.pools, "and its worker host does not answer here"
    assert not found.hosts
    assert found.planner == "leading"
