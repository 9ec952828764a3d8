"""What tests do to a cluster, over its API: Deployments and pods as controllers would make them."""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp

SELECTOR = {"app.kubernetes.io/name": "assay", "app.kubernetes.io/component": "worker"}
WAIT_S = 90.0
MERGE = "application/merge-patch+json"


def instant(at_s: float) -> str:
    """RFC 3339, whole seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str, at_s: float, **more: str) -> dict[str, str]:
    """A condition of a pod or a Deployment."""
    return {"type": kind, "status": status, "lastTransitionTime": instant(at_s), **more}


def waiting(reason: str) -> dict[str, Any]:
    """Container statuses of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": "back-off"}}
    return {"containerStatuses": [{"name": "worker", "state": state}]}


@dataclass(slots=True, kw_only=True)
class Cluster:
    """A client of its own, with an administrator's rights."""

    url: str
    namespace: str = "assay"
    headers: dict[str, str] = field(default_factory=dict)
    authority: ssl.SSLContext | None = None
    scalers_token: str = "admin-token"
    """With which a scaler under test calls."""
    made: int = 0

    async def call(
        self, method: str, path: str, body: object = None, content_type: str = MERGE
    ) -> dict[str, Any]:
        """One call; fails on an error status."""
        headers = {**self.headers, "Content-Type": content_type}
        url = f"{self.url}{path}"
        data = None if body is None else json.dumps(body)
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, url, headers=headers, data=data, ssl=self.authority or True
            ) as answer,
        ):
            text = await answer.text()
            assert answer.status < 300, (method, path, answer.status, text)
            found = json.loads(text)
            assert isinstance(found, dict)
            return found

    def path(self, kind: str, *rest: str) -> str:
        groups = {
            "deployments": "/apis/apps/v1",
            "sandboxwarmpools": "/apis/extensions.agents.x-k8s.io/v1beta1",
        }
        group = groups.get(kind, "/api/v1")
        return "/".join([f"{group}/namespaces/{self.namespace}/{kind}", *rest])

    async def deploy(self, stage: str, replicas: int | None = 0) -> str:
        """A Deployment of a stage; returns its name."""
        name = f"assay-{stage.replace('.', '-')}"
        labels = {**SELECTOR, "assay.dev/stage": stage}
        container = {"name": "worker", "image": "assay/worker:test"}
        spec: dict[str, Any] = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        }
        if replicas is not None:
            spec["replicas"] = replicas
        body = {
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "labels": labels}, "spec": spec,
        }  # fmt: skip
        await self.call("POST", self.path("deployments"), body, "application/json")
        return name

    async def add_warm_pool(self, stage: str, name: str, replicas: int = 0) -> None:
        """A SandboxWarmPool of agent-sandbox, whose sandboxes work for a stage."""
        labels = {**SELECTOR, "assay.dev/stage": stage}
        body = {
            "apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool",
            "metadata": {"name": name, "labels": labels},
            "spec": {"replicas": replicas, "sandboxTemplateRef": {"name": "worker"}},
        }  # fmt: skip
        await self.call("POST", self.path("sandboxwarmpools"), body, "application/json")

    async def add_pod(
        self,
        stage: str,
        status: Mapping[str, Any],
        created_s: float = 0.0,
        annotations: Mapping[str, str] | None = None,
    ) -> str:
        """A pod with a status; returns its name."""
        self.made += 1
        name = f"{stage.replace('.', '-')}-{self.made}"
        metadata: dict[str, Any] = {
            "name": name, "labels": {**SELECTOR, "assay.dev/stage": stage},
        }  # fmt: skip
        if annotations:
            metadata["annotations"] = dict(annotations)
        if created_s:
            metadata["creationTimestamp"] = instant(created_s)
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{"name": "worker", "image": "assay/worker:test"}]},
        }  # fmt: skip
        await self.call("POST", self.path("pods"), body, "application/json")
        await self.set_status(name, status)
        return name

    async def set_status(self, pod: str, status: Mapping[str, Any]) -> None:
        await self.call("PATCH", self.path("pods", pod, "status"), {"status": dict(status)})

    async def remove_pod(self, pod: str) -> None:
        await self.call("DELETE", self.path("pods", pod) + "?gracePeriodSeconds=0")

    async def set_deployment_status(self, name: str, status: Mapping[str, Any]) -> None:
        path = self.path("deployments", name, "status")
        await self.call("PATCH", path, {"status": dict(status)})

    async def scale(self, name: str, replicas: int, manager: str = "kubectl") -> None:
        """As someone else."""
        path = self.path("deployments", name, "scale") + f"?fieldManager={manager}"
        await self.call("PATCH", path, {"spec": {"replicas": replicas}})

    async def replicas(self, name: str) -> int:
        scale = await self.call("GET", self.path("deployments", name, "scale"))
        found = scale["spec"].get("replicas", 0)
        assert isinstance(found, int)
        return found


def ready(created_s: float, took_s: float = 0.0) -> dict[str, Any]:
    """Status of a pod that is ready `took_s` after its creation."""
    return {
        "phase": "Running",
        "conditions": [
            condition("PodScheduled", "True", created_s),
            condition("Ready", "True", created_s + took_s),
        ],
    }


def not_placed(reason: str, at_s: float) -> dict[str, Any]:
    """Status of a pod that has no node: `SchedulingGated` or `Unschedulable`."""
    told = condition("PodScheduled", "False", at_s, reason=reason, message="0/3 nodes")
    return {"phase": "Pending", "conditions": [told]}


async def until(holds: Callable[[], Any], what: str) -> None:
    """Wait for a condition of the outer world, which may be asked asynchronously."""
    last: object = None
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                last = holds()
                if asyncio.iscoroutine(last):
                    last = await last
                if last:
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {WAIT_S} s: {what}; last: {last!r}") from None
