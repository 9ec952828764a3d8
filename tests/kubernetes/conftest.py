"""A cluster's API, a scaler on it, and whole planners."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.real_server import ADMIN, RealServer, assets, new_namespace, running
from tests.kubernetes.relay import Relay
from tests.kubernetes.scaling import RunPlanner, RunScaler, Scaling, write_kubeconfig

from assay.config.kubernetes import KubernetesSettings
from assay.config.settings import PlannerSettings, Settings, StoreSettings
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.build import PlannerService
from assay.planner.build import build as build_planner
from assay.planner.kubernetes.hosts import PodHosts
from assay.planner.kubernetes.keda import KedaScaler
from assay.planner.kubernetes.scaler import KubernetesScaler

QUICK = {"tick_s": 0.2, "replan_s": 0.5, "search_s": 1.0, "hold_s": 0.2, "lease_s": 2.0}


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer | None]:
    """A kube-apiserver, where there is one."""
    binaries = assets()
    if binaries is None:
        yield None
        return
    with running(binaries, tmp_path_factory.mktemp("kubernetes")) as one:
        yield one


@pytest.fixture
async def server(
    request: pytest.FixtureRequest, real: RealServer | None
) -> AsyncIterator[ApiServer | Relay]:
    """The API server: that of the tests, or a real one unless the test is marked `fake_api`."""
    is_fake = real is None or request.node.get_closest_marker("fake_api") is not None
    one = ApiServer() if real is None or is_fake else Relay(real.url, real.authority)
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def cluster(server: ApiServer | Relay, real: RealServer | None) -> Cluster:
    """An administrator's view of it; on a real one, of a namespace of the test's own."""
    if real is None or isinstance(server, ApiServer):
        return Cluster(url=f"http://127.0.0.1:{server.port}")
    one = Cluster(
        url=real.url, namespace=new_namespace(), authority=real.authority,
        headers={"Authorization": f"Bearer {ADMIN}"},
    )  # fmt: skip
    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}}
    await one.call("POST", "/api/v1/namespaces", named, "application/json")
    return one


@pytest.fixture
async def run_scaler(
    server: ApiServer | Relay, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[RunScaler]:
    """Start scalers; they end with the test."""
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, port=server.port, token=cluster.scalers_token)
    async with AsyncExitStack() as stack:

        def run(
            *stages: str,
            keda: bool = False,
            hosts: PodHosts | None = None,
            clock: Clock | None = None,
            **more: Any,
        ) -> Scaling:
            settings = KubernetesSettings(
                namespace=cluster.namespace,
                kubeconfig=kubeconfig,
                deployments={stage: f"assay-{stage.replace('.', '-')}" for stage in stages},
                **more,
            )
            scaling = Scaling()
            kind = KedaScaler if keda else KubernetesScaler
            scaling.scaler = kind(
                settings,
                running=scaling.running,
                clock=clock or Clock(),
                metrics=scaling.metrics,
                hosts=hosts,
            )
            stack.push_async_callback(scaling.scaler.close)
            return scaling

        yield run


@pytest.fixture
def addresses() -> list[str]:
    """Where the planners listen, in the order of their start."""
    return []


@pytest.fixture
async def run_planner(
    cluster: Cluster,
    store_settings: StoreSettings,
    run_scaler: RunScaler,
    tmp_path: Path,
    addresses: list[str],
) -> AsyncIterator[RunPlanner]:
    """Start planners of a stage's Deployment; they end with the test."""
    run_scaler()  # writes the kubeconfig
    async with AsyncExitStack() as stack:

        async def run(stage: str, **kubernetes: Any) -> PlannerService:
            settings = Settings(
                data_dir=tmp_path / "data",
                store=store_settings,
                planner=PlannerSettings.model_validate(
                    {
                        "grpc_port": 0, "slots_min": 0, "slots_max": 8, **QUICK,
                        "scaler": "kubernetes",
                        "kubernetes": {
                            "namespace": cluster.namespace,
                            "kubeconfig": tmp_path / "kubeconfig",
                            "deployments": {stage: f"assay-{stage.replace('.', '-')}"},
                            **kubernetes,
                        },
                    }
                ),
            )  # fmt: skip
            service = build_planner(settings, metrics=Metrics())
            addresses.append((await service.server.start())["grpc"])
            stop = asyncio.Event()
            running = asyncio.create_task(service.work(stop))

            async def end() -> None:
                stop.set()
                await running
                await service.stop()

            stack.push_async_callback(end)
            return service

        yield run
