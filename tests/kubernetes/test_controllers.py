"""The scaler beside Kubernetes' own controllers, which make and remove the pods.

Needs kube-controller-manager beside etcd and kube-apiserver; there is no node, so the test says
which pods are ready.
"""

import time
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.kubernetes.cluster import Cluster, ready, until
from tests.kubernetes.real_server import ASSETS, RealServer, assets, free_port, running
from tests.kubernetes.scaling import RunScaler, host_of

from assay.planner.kubernetes.hosts import PodHosts
from assay.store.port import Store

RUN = "python.run"
NAME = "assay-python-run"
MANAGER = "kube-controller-manager"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """In place of the one without controllers."""
    binaries = assets()
    if binaries is None or not (binaries / MANAGER).exists():
        pytest.skip(f"{ASSETS} names no {MANAGER}")
    folder = tmp_path_factory.mktemp("controlled")
    with running(binaries, folder) as one:
        file = folder / "manager.kubeconfig"
        one.write_kubeconfig(file)
        one.parts.commands[MANAGER] = [
            f"--kubeconfig={file}", "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", f"--cert-dir={folder / 'manager'}",
            "--controllers=deployment-controller,replicaset-controller,resourcequota-controller",
        ]  # fmt: skip
        one.parts.start(MANAGER)
        yield one


async def pods_of(cluster: Cluster) -> list[str]:
    """Names of the pods that are not being deleted."""
    found = await cluster.call("GET", cluster.path("pods"))
    return [
        one["metadata"]["name"]
        for one in found["items"]
        if "deletionTimestamp" not in one["metadata"]
    ]


async def has_pods(cluster: Cluster, count: int) -> bool:
    return len(await pods_of(cluster)) == count


async def test_a_quota_of_the_namespace_is_named_and_bounds_the_plan(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
             "spec": {"hard": {"pods": "2"}}}  # fmt: skip
    await cluster.call("POST", cluster.path("resourcequotas"), quota, "application/json")

    async def is_counted() -> bool:
        found = await cluster.call("GET", cluster.path("resourcequotas", "q"))
        return bool(found.get("status", {}).get("hard"))

    await until(is_counted, "the quota is in force")
    await cluster.deploy(RUN, replicas=0)
    scaling = run_scaler(RUN, quota_hold_s=0.5)
    await scaling.resize(RUN, 5)
    await until(lambda: has_pods(cluster, 2), "as many as the quota permits")

    async def is_exhausted() -> bool:
        pool = await scaling.pool(RUN)
        return pool.slots_max == 2 and "exceeded quota: q" in pool.condition

    await until(is_exhausted, "the plan is bounded")
    raised = {"spec": {"hard": {"pods": "9"}}}
    await cluster.call("PATCH", cluster.path("resourcequotas", "q"), raised)
    await until(lambda: has_pods(cluster, 5), "the controller makes the others")

    async def is_free() -> bool:
        pool = await scaling.pool(RUN)
        return pool.slots_max is None and not pool.condition

    await until(is_free, "nothing bounds it")


async def test_a_quota_that_is_lowered_below_what_there_is_bounds_the_plan_until_it_is_raised(
    cluster: Cluster, run_scaler: RunScaler
) -> None:
    """Pods above it stay; one that ends is not replaced, and nothing more is asked for."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
            "spec": {"hard": {"pods": "9"}}}  # fmt: skip
    await cluster.call("POST", cluster.path("resourcequotas"), body, "application/json")

    async def set_quota(pods: int) -> None:
        hard = {"spec": {"hard": {"pods": str(pods)}}}
        await cluster.call("PATCH", cluster.path("resourcequotas", "q"), hard)

        async def is_in_force() -> bool:
            found = await cluster.call("GET", cluster.path("resourcequotas", "q"))
            return bool(found.get("status", {}).get("hard", {}).get("pods") == str(pods))

        await until(is_in_force, f"a quota of {pods} pods")

    await set_quota(9)
    await cluster.deploy(RUN, replicas=0)
    scaling = run_scaler(RUN, quota_hold_s=1.0)
    await scaling.resize(RUN, 5)
    await until(lambda: has_pods(cluster, 5), "all are made")
    for name in await pods_of(cluster):
        await cluster.set_status(name, ready(time.time() - 60))
    await set_quota(2)
    pool = await scaling.pool(RUN)
    assert (pool.slots_max, pool.condition) == (None, ""), "what there is stays"
    await cluster.remove_pod((await pods_of(cluster))[0])

    async def is_exhausted() -> bool:
        now = await scaling.pool(RUN)
        named = now.condition.startswith("QuotaExhausted: 4 slots") and "exceeded quota: q" in (
            now.condition
        )
        return named and (now.ready, now.slots_max) == (4, 4)

    await until(is_exhausted, "four are given")
    await scaling.resize(RUN, 4)

    async def is_free() -> bool:
        now = await scaling.pool(RUN)
        return now.slots_max is None and not now.condition

    await until(is_free, "the plan is within what is given, and may ask for more after a while")
    await scaling.resize(RUN, 5)
    await until(is_exhausted, "it is refused again")
    await set_quota(9)
    await until(lambda: has_pods(cluster, 5), "the controller makes the fifth")
    await until(is_free, "nothing bounds it")


async def test_the_idle_pods_are_those_that_kubernetes_removes(
    cluster: Cluster, run_scaler: RunScaler, store: Store
) -> None:
    """By the costs, as the ReplicaSet controller reads them."""
    await cluster.deploy(RUN, replicas=6)
    await until(lambda: has_pods(cluster, 6), "all are made")
    names = sorted(await pods_of(cluster))
    busy = set(names[::2])
    for name in names:
        await cluster.set_status(name, ready(time.time() - 60))
        await store.put_host(host_of(name, busy=int(name in busy)), lease_s=600.0)
    scaling = run_scaler(RUN, hosts=PodHosts(store, attempts_max=3))

    async def are_ready() -> bool:
        return (await scaling.pool(RUN)).ready == 6

    await until(are_ready, "all are seen")
    await scaling.resize(RUN, 3)
    await until(lambda: has_pods(cluster, 3), "three went")
    assert set(await pods_of(cluster)) == busy


@pytest.fixture
async def denied(cluster: Cluster) -> AsyncIterator[str]:
    """A policy by which the cluster's owner denies all pods of the namespace."""
    path = "/apis/admissionregistration.k8s.io/v1"
    here = {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["pods"]}  # fmt: skip
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": cluster.namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
            "validations": [{"expression": "false", "message": "not on a Friday"}],
        },
    }  # fmt: skip
    bound = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": cluster.namespace},
        "spec": {"policyName": cluster.namespace, "validationActions": ["Deny"]},
    }  # fmt: skip
    for kind, body in (
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", bound),
    ):
        await cluster.call("POST", f"{path}/{kind}", body, "application/json")
    yield "not on a Friday"
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        await cluster.call("DELETE", f"{path}/{kind}/{cluster.namespace}")


async def test_a_policy_that_refuses_pods_is_named(
    cluster: Cluster, run_scaler: RunScaler, denied: str
) -> None:
    await cluster.deploy(RUN, replicas=0)
    scaling = run_scaler(RUN)

    async def is_named() -> bool:
        for pod in await pods_of(cluster):  # made before the policy was read
            await cluster.remove_pod(pod)
        await scaling.resize(RUN, 2)
        pool = await scaling.pool(RUN)
        return pool.slots_max == 0 and denied in pool.condition

    await until(is_named, "the owner's words are shown")
