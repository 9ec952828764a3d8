"""The API server makes trouble while requests are in flight on the workers of its pods.

The planner, the store and the worker hosts are real; a pod that the test's node starts is a host.
Whatever the trouble, every request ends once, with the reward that it deserves, those that come in
the midst of it too, and the pool is given back afterwards.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.cluster import Cluster, ready, until
from tests.kubernetes.real_server import PLANNER
from tests.kubernetes.relay import Server
from tests.kubernetes.scaling import RunPlanner
from tests.kubernetes.test_upgrade import RBAC, give_the_planners_rights
from tests.worker.hosts import Trainer

from assay.config.settings import Settings, StoreSettings, WorkerSettings
from assay.edge.metrics import Metrics
from assay.store.port import Store
from assay.worker.build import WorkerService, build

STAGE, POOL = "match", "assay-match"
REQUESTS = 1_500
Trouble = Callable[[Server, Cluster], Awaitable[None]]
REAL = {"rights"}
"""Troubles that only a real API server makes, and `410` only that of the tests."""


@dataclass(slots=True, kw_only=True)
class Node:
    """Runs a worker host for each pod that the Deployment wants."""

    cluster: Cluster
    settings: StoreSettings
    folder: Path
    hosts: dict[str, WorkerService] = field(default_factory=dict)
    made: int = 0

    async def keep(self) -> None:
        """Without end; while the API server is away its pods go on."""
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                wanted = await self._wanted()
                while len(self.hosts) < wanted:
                    await self._start()
                while len(self.hosts) > wanted:
                    pod, host = self.hosts.popitem()
                    await host.stop()
                    await self.cluster.remove_pod(pod)
            await asyncio.sleep(0.02)

    async def _wanted(self) -> int:
        """Without the Deployment its pods are deleted, too."""
        found = await self.cluster.call("GET", self.cluster.path("deployments"))
        return sum(int(one["spec"].get("replicas", 1)) for one in found["items"])

    async def _start(self) -> None:
        created_s = time.time()
        worker = WorkerSettings.model_validate(
            {"stages": [STAGE], "slots": 1, "control_port": 0, "drain_s": 2.0}
        )
        self.made += 1
        host = build(
            Settings(data_dir=self.folder / str(self.made), store=self.settings, worker=worker),
            metrics=Metrics(),
        )
        await host.start()
        try:
            pod = await self.cluster.add_pod(STAGE, ready(created_s), created_s=created_s)
        except BaseException:
            await host.stop()
            raise
        self.hosts[pod] = host

    async def stop(self) -> None:
        """End all hosts."""
        for host in self.hosts.values():
            await host.stop()


@pytest.fixture
async def node(
    cluster: Cluster, store_settings: StoreSettings, tmp_path: Path
) -> AsyncIterator[Node]:
    """With the Deployment, which has no pods yet."""
    await cluster.deploy(STAGE, replicas=0)
    one = Node(cluster=cluster, settings=store_settings, folder=tmp_path)
    keeping = asyncio.create_task(one.keep())
    yield one
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await one.stop()


def sizes_refused(status: int, times: int, **headers: str) -> Trouble:
    async def make(server: Server, _: Cluster) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        server.faults.append(
            Fault(method="PATCH", part="/scale", status=status, times=times, headers=named)
        )

    return make


def lists_refused(status: int) -> Trouble:
    async def make(server: Server, _: Cluster) -> None:
        server.faults.append(Fault(method="GET", part="/pods", status=status, times=3))
        server.cut_watches()

    return make


async def compacted(server: Server, _: Cluster) -> None:
    assert isinstance(server, ApiServer)
    server.compact()
    server.cut_watches()


async def away(server: Server, _: Cluster) -> None:
    await server.stop()
    await asyncio.sleep(2.0)
    await server.start()


async def deleted(_: Server, cluster: Cluster) -> None:
    """And made again, without a size, as from its manifest."""
    await cluster.call("DELETE", cluster.path("deployments", POOL))
    await asyncio.sleep(2.0)
    await cluster.deploy(STAGE, replicas=None)


async def sized_by_another(_: Server, cluster: Cluster) -> None:
    for size in (0, 7, 0, 7, 0, 1):
        await cluster.scale(POOL, size)
        await asyncio.sleep(0.5)


async def rights_taken(server: Server, cluster: Cluster) -> None:
    """And given back."""
    path = f"{RBAC}/{cluster.namespace}/rolebindings"
    bound = await cluster.call("GET", f"{path}/test")
    await cluster.call("DELETE", f"{path}/test")
    server.cut_watches()
    await asyncio.sleep(3.0)
    again = {**bound, "metadata": {"name": "test"}}
    await cluster.call("POST", path, again, "application/json")


async def give_rights(cluster: Cluster) -> None:
    """Those of the chart's Role, to the user as whom the planner calls."""
    verbs = {"pods": ["list", "watch", "patch"], "deployments": ["list", "watch"],
             "deployments/scale": ["patch"]}  # fmt: skip
    rules = [{"apiGroups": ["apps" if what.startswith("deployments") else ""],
              "resources": [what], "verbs": some} for what, some in verbs.items()]  # fmt: skip
    path = f"{RBAC}/{cluster.namespace}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "assay-planner"}, "rules": rules}  # fmt: skip
    await cluster.call("POST", f"{path}/roles", role, "application/json")
    await give_the_planners_rights(cluster)


TROUBLES = {
    "409": sizes_refused(409, 2),
    "403": sizes_refused(403, 1),
    "403 lists": lists_refused(403),
    "429": sizes_refused(429, 2, Retry_After="1"),
    "500": sizes_refused(500, 1),
    "503 lists": lists_refused(503),
    "410": compacted,
    "away": away,
    "deleted": deleted,
    "another": sized_by_another,
    "rights": rights_taken,
}


@pytest.fixture
async def rights(server: Server, cluster: Cluster) -> None:
    """On a real server the planner has those of the chart, and no others."""
    if not isinstance(server, ApiServer):
        cluster.scalers_token = PLANNER
        await give_rights(cluster)


@pytest.mark.usefixtures("rights")
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_requests_in_flight_end_whatever_the_api_server_does(
    server: Server,
    cluster: Cluster,
    store: Store,
    node: Node,
    run_planner: RunPlanner,
    trouble: str,
    request: pytest.FixtureRequest,
) -> None:
    if trouble == "410" and not isinstance(server, ApiServer):
        pytest.skip("a real server is not compacted on demand")
    if trouble in REAL and isinstance(server, ApiServer):
        pytest.skip("needs a server that knows rights")
    await run_planner(STAGE, stale_s=1.0)
    trainer = Trainer(store=store)
    responses = ["Paris" if n % 3 else "London" for n in range(REQUESTS)]
    first = await trainer.submit("exact", responses)
    await trainer.until_ended(first, 1)
    ended = (await trainer.record(first)).ended
    assert ended < REQUESTS, "some are in flight"
    making = asyncio.create_task(_made(TROUBLES[trouble], server, cluster))
    second = await trainer.submit("exact", responses)
    for batch in (first, second):
        rewards = [one.record.reward for one in await trainer.results(batch)]
        assert rewards == [float(bool(n % 3)) for n in range(REQUESTS)]
    await making

    async def given_back() -> bool:
        return await cluster.replicas(POOL) == 0 and not node.hosts

    await until(given_back, "the pool is given back")
    assert all(fault.times == 0 for fault in server.faults), "the trouble came"
    third = await trainer.submit("exact", responses[:10])
    assert len(await trainer.results(third)) == 10, "and the pool grows again from nothing"


async def _made(trouble: Trouble, server: Server, cluster: Cluster) -> None:
    await trouble(server, cluster)
