"""A cluster's API and a scaler on it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.scaling import RunScaler, Scaling

from assay.config.kubernetes import KubernetesSettings
from assay.edge.clock import Clock
from assay.planner.kubernetes.hosts import PodHosts
from assay.planner.kubernetes.keda import KedaScaler
from assay.planner.kubernetes.scaler import KubernetesScaler


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """The API server."""
    one = ApiServer()
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
def cluster(server: ApiServer) -> Cluster:
    """An administrator's view of it."""
    return Cluster(url=f"http://127.0.0.1:{server.port}")


@pytest.fixture
async def run_scaler(cluster: Cluster, tmp_path: Path) -> AsyncIterator[RunScaler]:
    """Start scalers; they end with the test."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{cluster.url}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
    )
    async with AsyncExitStack() as stack:

        def run(
            *stages: str, keda: bool = False, hosts: PodHosts | None = None, **more: Any
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
                clock=Clock(),
                metrics=scaling.metrics,
                hosts=hosts,
            )
            stack.push_async_callback(scaling.scaler.close)
            return scaling

        yield run
