"""`helm upgrade` on a real API server, after the planner has scaled."""

import asyncio
import subprocess

import pytest
from tests.kubernetes.chart import CHART, binary
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.real_server import ADMIN, ASSETS, PLANNER, RealServer
from tests.kubernetes.scaling import RunScaler

STAGE = "math.verify"
HANGS_S = 240
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


async def helm(major: int, real: RealServer, cluster: Cluster, *arguments: str) -> None:
    """Run Helm against the server; fails with its words."""
    command = [
        str(binary(major)), *arguments, "--namespace", cluster.namespace,
        "--kube-apiserver", real.url, "--kube-token", ADMIN, "--kube-insecure-skip-tls-verify",
    ]  # fmt: skip
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def give_the_planners_rights(cluster: Cluster) -> None:
    """Bind the chart's Role to the user as whom the scaler of a test calls."""
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "test"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "assay-planner",
        },
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "assay-planner"}
        ],
    }  # fmt: skip
    path = f"{RBAC}/{cluster.namespace}/rolebindings"
    await cluster.call("POST", path, body, "application/json")


async def replicas(cluster: Cluster, name: str) -> int | None:
    found = await cluster.call("GET", cluster.path("deployments", name))
    wanted = found["spec"].get("replicas")
    assert wanted is None or isinstance(wanted, int)
    return wanted


@pytest.fixture
def api(real: RealServer | None, cluster: Cluster) -> RealServer:
    """Needs a server that merges fields as Kubernetes does."""
    if real is None:
        pytest.skip(f"{ASSETS} names no kube-apiserver")
    cluster.scalers_token = PLANNER
    return real


@pytest.mark.parametrize("major", [3, 4])
async def test_an_upgrade_and_a_rollback_leave_the_size_that_the_planner_set(
    major: int, api: RealServer, cluster: Cluster, run_scaler: RunScaler
) -> None:
    # No kubelet is there to run the hook.
    named = ("--set", "fullnameOverride=assay,scaler=planner,settingsCheck=false")
    await helm(major, api, cluster, "install", "assay", str(CHART), *named)
    await give_the_planners_rights(cluster)
    scaling = run_scaler(STAGE, selector="app.kubernetes.io/component=worker")
    name = f"assay-{STAGE.replace('.', '-')}"
    assert (await scaling.resize(STAGE, 5)).desired == 5
    assert await replicas(cluster, name) == 5
    upgrade = ("upgrade", "assay", str(CHART), *named)
    await helm(major, api, cluster, *upgrade, "--set", "image.tag=next")
    changed = await cluster.call("GET", cluster.path("deployments", name))
    [container] = changed["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(":next"), "it did change the Deployment"
    assert await replicas(cluster, name) == 5
    await scaling.resize(STAGE, 0)
    await helm(major, api, cluster, *upgrade)
    assert await replicas(cluster, name) == 0, "nothing wakes it either"
    await scaling.resize(STAGE, 3)
    await helm(major, api, cluster, "rollback", "assay", "1")
    assert await replicas(cluster, name) == 3
