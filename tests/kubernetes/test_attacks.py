"""What the world does to a planner of pods: objects of any size, storms of errors, other clocks."""

import copy
import time

import pytest
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.cluster import Cluster, not_placed, ready, until
from tests.kubernetes.relay import Server
from tests.kubernetes.scaling import RunScaler, Scaling

from assay.edge.clock import Clock

RUN = "python.run"
LARGE = 240 * 1024
"""Bytes of annotations; Kubernetes permits 256 KiB, and objects of 1.5 MiB."""
HOUR_NS = 3_600 * 10**9


async def is_ready(scaling: Scaling, slots: int) -> bool:
    seen = await scaling.seen(RUN)
    return seen is not None and seen.ready == slots


async def test_a_large_pod_does_not_end_the_watch(
    server: Server, cluster: Cluster, run_scaler: RunScaler
) -> None:
    """Who may label a pod must not be able to blind the planner."""
    await cluster.deploy(RUN, replicas=3)
    await cluster.add_pod(RUN, ready(time.time()))
    scaling = run_scaler(RUN)
    await until(lambda: is_ready(scaling, 1), "it is seen")
    await until(lambda: len(server.streams) == 2, "both watches are open")
    calls = len(server.calls)
    await cluster.add_pod(RUN, ready(time.time()), annotations={"note": "x" * LARGE})
    await cluster.add_pod(RUN, ready(time.time()))
    await until(lambda: is_ready(scaling, 3), "both are seen")
    assert not [call for call in list(server.calls)[calls:] if call.watch], "by the same watch"


@pytest.mark.fake_api
async def test_a_storm_of_versions_that_are_too_old_makes_the_pools_unreachable(
    server: ApiServer, cluster: Cluster, run_scaler: RunScaler
) -> None:
    """A copy that cannot be made again is not taken for the present state."""
    await cluster.deploy(RUN, replicas=1)
    pod = await cluster.add_pod(RUN, ready(time.time()))
    scaling = run_scaler(RUN, stale_s=0.5)
    await until(lambda: is_ready(scaling, 1), "it is seen")
    storm = Fault(method="GET", part="/pods", status=410, times=10**6)
    server.faults.append(storm)
    server.version += 1  # of objects that are not ours
    server.compact()
    server.put("pods", server.objects["pods", pod], "MODIFIED")

    async def is_unreachable() -> bool:
        return await scaling.seen(RUN) is None

    await until(is_unreachable, "no present copy")
    storm.times = 0
    await until(lambda: is_ready(scaling, 1), "it is seen again")


@pytest.mark.fake_api
async def test_a_server_whose_store_was_set_back_is_believed(
    server: ApiServer, cluster: Cluster, run_scaler: RunScaler
) -> None:
    """Pods that it does not have are none, and a size that it does not have is set again."""
    name = await cluster.deploy(RUN, replicas=1)
    await cluster.add_pod(RUN, ready(time.time()))
    scaling = run_scaler(RUN)
    await until(lambda: is_ready(scaling, 1), "it is seen")
    backup = copy.deepcopy((server.version, server.objects, server.events))
    for _ in range(4):
        await cluster.add_pod(RUN, ready(time.time()))
    await scaling.resize(RUN, 5)
    await until(lambda: is_ready(scaling, 5), "they are seen")
    await server.stop()
    server.version, server.objects, server.events = backup
    await server.start()
    await until(lambda: is_ready(scaling, 1), "only the pod of the backup is there")
    assert (await scaling.pool(RUN)).desired == 1
    await scaling.resize(RUN, 5)
    assert await cluster.replicas(name) == 5


class Skewed(Clock):
    """A machine whose clock is wrong."""

    def __init__(self, by_s: float) -> None:
        super().__init__()
        self._by_ns = int(by_s * 1e9)

    def now_ns(self) -> int:
        return super().now_ns() + self._by_ns


@pytest.mark.parametrize("by_s", [-3_600.0, 3_600.0])
async def test_a_planner_with_a_wrong_clock_is_as_patient_as_any(
    cluster: Cluster, run_scaler: RunScaler, by_s: float
) -> None:
    """How long a pod waits for a place is a difference of instants of the API server."""
    await cluster.deploy(RUN, replicas=1)
    now_s = time.time()
    await cluster.add_pod(RUN, not_placed("SchedulingGated", now_s), created_s=now_s)
    patient = run_scaler(RUN, clock=Skewed(by_s), gated_s=600.0)
    assert (await patient.pool(RUN)).slots_max is None
    hasty = run_scaler(RUN, clock=Skewed(by_s), gated_s=1.0)

    async def is_exhausted() -> bool:
        return (await hasty.pool(RUN)).slots_max == 0

    await until(is_exhausted, "after its patience")
