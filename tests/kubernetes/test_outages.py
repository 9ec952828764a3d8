"""A real API server and its store that are killed, set back to a backup, or delayed by webhooks."""

import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests import certificates
from tests.kubernetes.cluster import Cluster, ready, until
from tests.kubernetes.real_server import (
    ADMIN,
    ASSETS,
    RealServer,
    assets,
    new_namespace,
    running,
    until_ready,
)
from tests.kubernetes.scaling import Scaling, host_of

from assay.config.kubernetes import KubernetesSettings
from assay.core.errors import AssayError, DependencyDown, InvalidRequest
from assay.edge.clock import Clock
from assay.planner.kubernetes.hosts import PodHosts
from assay.planner.kubernetes.scaler import KubernetesScaler
from assay.store.port import Store

RUN, VERIFY = "python.run", "math.verify"
POLICIES = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One of these tests alone, as they kill it."""
    binaries = assets()
    if binaries is None:
        pytest.skip(f"{ASSETS} names no kube-apiserver")
    with running(binaries, tmp_path_factory.mktemp("own")) as one:
        yield one


@pytest.fixture
async def outage(own: RealServer) -> Cluster:
    """An administrator's view of a namespace."""
    one = Cluster(
        url=own.url, namespace=new_namespace(), authority=own.authority,
        headers={"Authorization": f"Bearer {ADMIN}"},
    )  # fmt: skip
    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}}
    await one.call("POST", "/api/v1/namespaces", named, "application/json")
    for stage in (RUN, VERIFY):
        await one.deploy(stage, replicas=1)
    return one


@pytest.fixture
async def scaling(own: RealServer, outage: Cluster, tmp_path: Path) -> AsyncIterator[Scaling]:
    """A scaler that calls the server itself."""
    file = tmp_path / "kubeconfig"
    own.write_kubeconfig(file)
    settings = KubernetesSettings(
        namespace=outage.namespace, kubeconfig=file, stale_s=2.0,
        deployments={RUN: "assay-python-run", VERIFY: "assay-math-verify"},
    )  # fmt: skip
    one = Scaling()
    one.scaler = KubernetesScaler(settings, running=one.running, clock=Clock(), metrics=one.metrics)
    yield one
    await one.scaler.close()


async def is_ready(scaling: Scaling, slots: int) -> bool:
    seen = await scaling.seen(RUN)
    return seen is not None and seen.ready == slots


async def is_unreachable(scaling: Scaling) -> bool:
    return await scaling.seen(RUN) is None


async def wait_for(own: RealServer) -> None:
    """The server is there again."""
    await until_ready(own.url, own.authority, own.parts)


async def test_a_server_that_was_killed_is_watched_again(
    own: RealServer, outage: Cluster, scaling: Scaling
) -> None:
    pod = await outage.add_pod(RUN, ready(time.time()))
    await until(lambda: is_ready(scaling, 1), "it is seen")
    own.parts.kill("kube-apiserver")
    await until(lambda: is_unreachable(scaling), "no present copy")
    own.parts.start("kube-apiserver")
    await wait_for(own)
    await outage.remove_pod(pod)
    for _ in range(3):
        await outage.add_pod(RUN, ready(time.time()))
    await until(lambda: is_ready(scaling, 3), "what went on is seen, without the pod that went")
    assert (await scaling.resize(RUN, 5)).desired == 5
    assert await outage.replicas("assay-python-run") == 5


async def test_a_server_without_its_store_is_not_taken_for_one_that_refuses(
    own: RealServer, outage: Cluster, scaling: Scaling
) -> None:
    await outage.add_pod(RUN, ready(time.time()))
    await until(lambda: is_ready(scaling, 1), "it is seen")
    own.parts.kill("etcd")
    with pytest.raises(DependencyDown):
        await scaling.resize(RUN, 3)
    own.parts.start("etcd")
    await wait_for(own)

    async def is_resized() -> bool:
        try:
            await scaling.resize(RUN, 3)
        except AssayError:
            return False
        return await outage.replicas("assay-python-run") == 3

    await until(is_resized, "it is sized again")


async def test_a_store_that_was_set_back_to_a_backup_leaves_no_ghosts(
    own: RealServer, outage: Cluster, scaling: Scaling
) -> None:
    """Its versions are older than those that were seen, so a watch of these would be silent."""
    kept = await outage.add_pod(RUN, ready(time.time()))
    own.parts.kill("etcd")
    backup = own.parts.folder / f"backup-{outage.namespace}"
    shutil.copytree(own.parts.folder / "etcd", backup)
    own.parts.start("etcd")
    await wait_for(own)
    for _ in range(40):
        await outage.add_pod(RUN, ready(time.time()))
    await until(lambda: is_ready(scaling, 41), "they are seen")
    await scaling.resize(RUN, 5)
    assert await outage.replicas("assay-python-run") == 5
    for name in ("kube-apiserver", "etcd"):
        own.parts.kill(name)
    shutil.rmtree(own.parts.folder / "etcd")
    shutil.copytree(backup, own.parts.folder / "etcd")
    for name in ("etcd", "kube-apiserver"):
        own.parts.start(name)
    await wait_for(own)
    await until(lambda: is_ready(scaling, 1), "only the pod of the backup is there")
    assert await outage.replicas("assay-python-run") == 1
    await scaling.resize(RUN, 5)
    assert await outage.replicas("assay-python-run") == 5, "a size that was lost is set again"
    await outage.remove_pod(kept)
    await until(lambda: is_ready(scaling, 0), "and what happens to it is seen")


def webhook(outage: Cluster, url: str, **more: object) -> dict[str, Any]:
    """Asked before the scale of one Deployment changes, or before what is said instead."""
    here = {"kubernetes.io/metadata.name": outage.namespace}
    scales = {
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["deployments/scale"],
    }  # fmt: skip
    one = {
        "name": "policy.example.org", "clientConfig": {"url": url}, "rules": [scales],
        "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1"], "namespaceSelector": {"matchLabels": here},
        "matchConditions": [{"name": "run", "expression": "request.name == 'assay-python-run'"}],
        **more,
    }  # fmt: skip
    return {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": outage.namespace}, "webhooks": [one],
    }  # fmt: skip


@pytest.fixture
async def hooks(outage: Cluster) -> AsyncIterator[str]:
    """Where webhooks are made; they go with the test."""
    path = f"{POLICIES}/validatingwebhookconfigurations"
    yield path
    await outage.call("DELETE", f"{path}/{outage.namespace}")


async def refusal(scaling: Scaling) -> AssayError | None:
    """How a new size is refused now."""
    try:
        await scaling.resize(RUN, 7)
    except AssayError as error:
        return error
    return None


async def test_a_webhook_that_is_down_is_named_and_does_not_stop_the_others(
    outage: Cluster, scaling: Scaling, hooks: str
) -> None:
    assert (await scaling.pool(VERIFY)).desired == 1
    body = webhook(outage, "https://127.0.0.1:9/deny")
    await outage.call("POST", hooks, body, "application/json")
    found: AssayError | None = None

    async def is_refused() -> bool:
        nonlocal found
        found = await refusal(scaling)
        return found is not None

    await until(is_refused, "the server has read the webhook")
    assert isinstance(found, InvalidRequest), "it concerns this pool, so the step goes on"
    assert 'failed calling webhook "policy.example.org"' in found.message
    assert (await scaling.pool(RUN)).condition.startswith("Refused: Internal error occurred")
    assert (await scaling.resize(VERIFY, 4)).desired == 4


async def test_a_webhook_that_hangs_delays_its_own_pool_only(
    outage: Cluster, scaling: Scaling, hooks: str
) -> None:
    assert (await scaling.pool(VERIFY)).desired == 1
    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        await outage.call("POST", hooks, webhook(outage, url), "application/json")

        found: AssayError | None = None

        async def is_delayed() -> bool:
            nonlocal found
            found = await refusal(scaling)
            if found is None:
                await outage.scale("assay-python-run", 1)
            return found is not None

        await until(is_delayed, "the server has read the webhook")
        condition = (await scaling.pool(RUN)).condition
        assert condition.startswith("Unanswered: "), (condition, found)
        begun_s = time.monotonic()
        await scaling.resize(RUN, 9)  # not asked again for a while
        assert (await scaling.resize(VERIFY, 4)).desired == 4
        assert time.monotonic() - begun_s < 2.0


async def test_a_webhook_of_pods_that_hangs_stops_no_size(
    outage: Cluster, scaling: Scaling, hooks: str, store: Store
) -> None:
    """Marks of idle pods are patches of pods, which policies like to look at."""
    scaling.scaler._hosts = PodHosts(store, attempts_max=3)
    pods = [await outage.add_pod(RUN, ready(time.time())) for _ in range(4)]
    for pod in pods:
        await store.put_host(host_of(pod, busy=0), lease_s=600.0)
    await until(lambda: is_ready(scaling, 4), "they are seen")
    await scaling.resize(RUN, 4)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["pods"]}  # fmt: skip
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        body = webhook(outage, url, rules=[rule], matchConditions=[])
        await outage.call("POST", hooks, body, "application/json")

        async def is_read() -> bool:
            path = outage.path("pods", pods[0]) + "?timeout=1s"
            try:
                await outage.call("PATCH", path, {"metadata": {"annotations": {"a": "b"}}})
            except (AssertionError, aiohttp.ClientError):
                return True
            return False

        await until(is_read, "the server has read the webhook")
        assert (await scaling.resize(RUN, 2)).desired == 2
        assert await outage.replicas("assay-python-run") == 2


async def test_what_gives_access_is_read_again_when_it_is_refused(
    own: RealServer, outage: Cluster, scaling: Scaling, tmp_path: Path
) -> None:
    """The server comes back with another authority and takes other tokens."""
    await outage.add_pod(RUN, ready(time.time()))
    await until(lambda: is_ready(scaling, 1), "it is seen")
    tokens = own.parts.folder / "tokens.csv"
    before = {path: path.read_bytes() for path in own.parts.folder.iterdir() if path.is_file()}
    own.parts.kill("kube-apiserver")
    certificate, _ = certificates.certificate(own.parts.folder)
    tokens.write_text(tokens.read_text().replace(ADMIN, f"new-{ADMIN}"))
    own.parts.start("kube-apiserver")
    try:
        authority = ssl.create_default_context(cafile=str(certificate))
        await until_ready(own.url, authority, own.parts, token=f"new-{ADMIN}")
        file = tmp_path / "kubeconfig"
        file.write_text(file.read_text().replace(ADMIN, f"new-{ADMIN}"))
        await until(lambda: is_ready(scaling, 1), "it is seen again")
        assert (await scaling.resize(RUN, 5)).desired == 5
    finally:
        own.parts.kill("kube-apiserver")
        for path, content in before.items():
            if path.suffix != ".log":
                path.write_bytes(content)
        own.parts.start("kube-apiserver")
        await wait_for(own)
