"""The answer of `GetPools`: bounded, whatever hosts and pods there are."""

import pytest

from assay.core.ids import StageName
from assay.planner.service.wire import (
    HOST_POOLS_LISTED_MAX,
    HOSTS_LISTED_MAX,
    host_messages,
)
from assay.planner.session.messages import HostState, PoolState
from assay.v1 import planner_pb2

GRPC_BYTES_MAX = 4 * 1024**2
"""Of a message, for clients that set no limit."""


def host(number: int, stages: int) -> HostState:
    pools = tuple(
        PoolState(
            stage=StageName(f"some.package.of-pipelines.stage-{stage}"),
            desired=1, ready=1, busy=1, condition="QuotaExhausted: " + "why " * 500,
        )
        for stage in range(stages)
    )  # fmt: skip
    return HostState(host=f"assay-some-stage-5d9c7bd5f-{number}", state="Counted", pools=pools)


@pytest.mark.parametrize(
    ("hosts", "stages"), [(0, 3), (1_300, 0), (1_024, 1), (1_025, 1), (1_300, 9), (157, 64)]
)
def test_any_number_of_hosts_is_an_answer_that_can_be_read(hosts: int, stages: int) -> None:
    listed = host_messages([host(number, stages) for number in range(hosts)], "")
    answer = planner_pb2.GetPoolsResponse(leading=True, **listed)
    assert answer.ByteSize() < GRPC_BYTES_MAX
    assert answer.hosts_all == hosts
    assert len(answer.hosts) == min(
        hosts, HOSTS_LISTED_MAX, HOST_POOLS_LISTED_MAX // stages if stages else hosts
    )


def test_of_one_stage_only_its_hosts_are_listed() -> None:
    found = host_messages([host(1, 2), host(2, 1)], "some.package.of-pipelines.stage-1")
    assert [(one.host[-1], len(one.pools)) for one in found["hosts"]] == [("1", 1)]
    assert found["hosts_all"] == 1
