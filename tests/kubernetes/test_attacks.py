"""What the world does to a planner of pods: objects of any size, storms of errors, other clocks."""

import contextlib
import copy
import random
import time
from typing import Any

import pytest
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.cluster import Cluster, not_placed, ready, until
from tests.kubernetes.relay import Server
from tests.kubernetes.scaling import RunScaler, Scaling

from assay.core.errors import AssayError
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
    """Pods that do not exist do not count, and a size that was lost is set again."""
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


# -- lives and faults that are drawn -------------------------------------------------------------


STATUSES: list[Any] = [
    {}, {"phase": "Pending"}, {"phase": "Unknown"}, {"phase": "Failed", "reason": "Evicted"},
    {"phase": "Succeeded"}, {"phase": 7, "conditions": "none"}, {"conditions": [None, 3, {}]},
    {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
    {"phase": "Running", "containerStatuses": [{"restartCount": 9, "state": {"waiting": None}}]},
    {"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    {"phase": "Running", "conditions": [{"type": "Ready", "lastTransitionTime": "yesterday"}]},
]  # fmt: skip
FAULTS = [400, 401, 403, 404, 405, 409, 410, 415, 422, 429, 500, 502, 503, 504]
CALLS = [("GET", "/pods"), ("GET", "/deployments"), ("PATCH", "/scale")]
"""Of the scaler, and of no one else here."""
AFTER = ["0", "0.05", "-5", "nan", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"]


class Drawn:
    """A cluster to which anything happens, and the scaler that has to live with it."""

    def __init__(self, server: ApiServer, cluster: Cluster, scaling: Scaling, seed: int) -> None:
        self.server, self.cluster, self.scaling = server, cluster, scaling
        self.draw = random.Random(seed)
        self.pods: list[str] = []

    async def step(self) -> None:
        match self.draw.choice(["size", "look", "fault", "come", "go", "change", "cut", "compact"]):
            case "size":
                with contextlib.suppress(AssayError):
                    await self.scaling.resize(RUN, self.draw.randint(0, 9))
            case "look":
                with contextlib.suppress(AssayError):
                    await self.scaling.scaler.pools()
            case "fault":
                after = self.draw.choice(AFTER)
                method, part = self.draw.choice(CALLS)
                self.server.faults.append(
                    Fault(
                        method=method,
                        part=part,
                        status=self.draw.choice(FAULTS),
                        times=self.draw.randint(1, 3),
                        headers={"Retry-After": after} if self.draw.random() < 0.5 else {},
                    )
                )
            case "come":
                status = self.draw.choice([*STATUSES, ready(time.time())])
                self.pods.append(await self.cluster.add_pod(RUN, status))
            case "go" if self.pods:
                await self.cluster.remove_pod(self.pods.pop(self.draw.randrange(len(self.pods))))
            case "change" if self.pods:
                await self.cluster.set_status(
                    self.draw.choice(self.pods), self.draw.choice(STATUSES)
                )
            case "cut":
                self.server.cut_watches()
            case "compact":
                self.server.compact()


@pytest.mark.fake_api
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_the_api_server_did_the_truth_is_known_when_it_answers_again(
    server: ApiServer, cluster: Cluster, run_scaler: RunScaler, seed: int
) -> None:
    """Only the errors of a scaler come out of it meanwhile, and none ends it."""
    name = await cluster.deploy(RUN)
    scaling = run_scaler(RUN, stale_s=0.3)
    await until(lambda: is_ready(scaling, 0), "it is seen")
    drawn = Drawn(server, cluster, scaling, seed)
    for _ in range(80):
        await drawn.step()
    server.faults.clear()
    for pod in drawn.pods:
        await cluster.set_status(pod, ready(time.time()))
    await until(lambda: is_ready(scaling, len(drawn.pods)), f"seed {seed}: all are seen")

    async def is_sized() -> bool:
        with contextlib.suppress(AssayError):
            await scaling.resize(RUN, 5)
        return await cluster.replicas(name) == 5

    await until(is_sized, f"seed {seed}: it is sized")
