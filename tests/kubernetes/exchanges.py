"""A fixed conversation with an API server, and what of its answers can be compared.

    KUBEBUILDER_ASSETS=FOLDER python -m tests.kubernetes.exchanges

has it with a real kube-apiserver and writes the answers to `recorded/`, by which the tests' own API
server is measured: it may say less than the real one, and nothing else.
"""

import asyncio
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from tests.kubernetes.cluster import SELECTOR, Cluster, condition
from tests.kubernetes.real_server import ADMIN, PLANNER, assets, new_namespace, running

RECORDED = Path(__file__).parent / "recorded" / "kube-apiserver.json"
MERGE, JSON = "application/merge-patch+json", "application/json"
SCALE, PODS = "deployments/d/scale", "pods"
VOLATILE = {
    "uid", "resourceVersion", "creationTimestamp", "message", "continue", "time", "namespace",
    "remainingItemCount", "lastTransitionTime", "startTime",
}  # fmt: skip
"""Present or not, but of another value each time, or said in other words."""
OWN_PATHS = {"deployments": "/apis/apps/v1", "pods": "/api/v1"}
WATCH_S_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request of the conversation."""

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str = MERGE
    query: Mapping[str, str] = field(default_factory=dict)
    token: str = ADMIN
    events: int = 0
    """Of a watch: how many to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came, without what differs each time."""

    name: str
    status: int
    body: Any


def deployment() -> dict[str, Any]:
    container = {"name": "worker", "image": "assay/worker:test"}
    labels = {**SELECTOR, "assay.dev/stage": "python.run"}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": labels},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }  # fmt: skip


def pod(name: str, **labels: str) -> dict[str, Any]:
    container = {"name": "worker", "image": "assay/worker:test"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {**SELECTOR, **labels}},
        "spec": {"containers": [container]},
    }  # fmt: skip


def replicas(count: object, **metadata: str) -> dict[str, Any]:
    return {"spec": {"replicas": count}, **({"metadata": metadata} if metadata else {})}


READY = {"status": {"conditions": [condition("Ready", "True", 1_800_000_000.0)]}}
OURS = {"fieldManager": "assay-planner"}
SELECTED = {"labelSelector": "app.kubernetes.io/name=assay"}
CONVERSATION = (
    Ask(name="make", method="POST", path="deployments", body=deployment(), content_type=JSON),
    Ask(name="make again", method="POST", path="deployments", body=deployment(), content_type=JSON),
    Ask(name="scale", method="GET", path=SCALE),
    Ask(name="resize", method="PATCH", path=SCALE, body=replicas(5), query=OURS),
    Ask(name="resize to the same", method="PATCH", path=SCALE, body=replicas(5), query=OURS),
    Ask(name="owners", method="GET", path="deployments/d"),
    Ask(name="negative", method="PATCH", path=SCALE, body=replicas(-1), query=OURS),
    Ask(name="no number", method="PATCH", path=SCALE, body=replicas("many"), query=OURS),
    Ask(name="plain JSON", method="PATCH", path=SCALE, body=replicas(3), content_type=JSON),
    Ask(name="no such", method="PATCH", path="deployments/e/scale", body=replicas(3), query=OURS),
    Ask(
        name="old version", method="PATCH", path=SCALE, query=OURS,
        body=replicas(7, resourceVersion="1"),
    ),
    Ask(name="pod a", method="POST", path=PODS, body=pod("a"), content_type=JSON),
    Ask(name="pod b", method="POST", path=PODS, body=pod("b", x="y"), content_type=JSON),
    Ask(name="ready", method="PATCH", path="pods/a/status", body=READY),
    Ask(
        name="cheap to delete", method="PATCH", path="pods/b", query=OURS,
        body={"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}},
    ),
    Ask(name="first page", method="GET", path=PODS, query={**SELECTED, "limit": "1"}),
    Ask(name="all", method="GET", path=PODS, query=SELECTED),
    Ask(name="selected", method="GET", path=PODS, query={"labelSelector": "x=y"}),
    Ask(
        name="watch", method="GET", path=PODS, events=4,
        query={**SELECTED, "watch": "true", "resourceVersion": "{before the pods}"},
    ),
    Ask(name="delete", method="DELETE", path="pods/b", query={"gracePeriodSeconds": "0"}),
    Ask(name="delete again", method="DELETE", path="pods/b"),
    Ask(
        name="watch what left the selection", method="GET", path=PODS, events=2,
        query={"labelSelector": "x=y", "watch": "true", "resourceVersion": "{before the pods}"},
    ),
)  # fmt: skip
FORBIDDEN = Ask(
    name="forbidden", method="PATCH", path=SCALE, body=replicas(3), query=OURS, token=PLANNER
)
"""Only the real one knows rights; the tests' own injects the answer."""


async def have(cluster: Cluster, *, rights: bool) -> list[Answer]:
    """Ask everything, in order."""
    answers, before = [], ""
    async with aiohttp.ClientSession() as session:
        for ask in (*CONVERSATION, FORBIDDEN) if rights else CONVERSATION:
            kind, *rest = ask.path.split("/")
            url = f"{cluster.url}{OWN_PATHS[kind]}/namespaces/{cluster.namespace}/"
            url += "/".join([kind, *rest])
            query = {k: v.replace("{before the pods}", before or "0") for k, v in ask.query.items()}
            headers = {"Authorization": f"Bearer {ask.token}", "Content-Type": ask.content_type}
            data = None if ask.body is None else json.dumps(ask.body)
            async with session.request(
                ask.method, url, params=query, data=data, headers=headers,
                ssl=cluster.authority or True,
            ) as found:  # fmt: skip
                if ask.events:
                    async with asyncio.timeout(WATCH_S_MAX):
                        body: Any = [json.loads(await found.content.readline())
                                     for _ in range(ask.events)]  # fmt: skip
                else:
                    body = json.loads(await found.text())
                if ask.name == "owners":
                    before = body["metadata"]["resourceVersion"]
            answers.append(Answer(name=ask.name, status=found.status, body=comparable(body)))
    return answers


def comparable(found: Any) -> Any:
    """Without what differs each time; who owns which field as a sorted list."""
    if isinstance(found, list):
        return [comparable(one) for one in found]
    if not isinstance(found, dict):
        return found
    kept: dict[str, Any] = {}
    for key, value in found.items():
        if key == "managedFields":
            owners = [e["manager"] for e in value
                      if "f:replicas" in e.get("fieldsV1", {}).get("f:spec", {})]  # fmt: skip
            if owners:
                kept["owners of replicas"] = owners
        elif key in VOLATILE:
            kept[key] = "present"
        else:
            kept[key] = comparable(value)
    return kept


def beyond(claimed: Any, real: Any, at: str = "") -> list[str]:
    """Where something is claimed that the real server does not say."""
    if isinstance(claimed, dict) and isinstance(real, dict):
        return [
            fault
            for key, value in claimed.items()
            for fault in (
                beyond(value, real[key], f"{at}.{key}") if key in real else [f"{at}.{key}: absent"]
            )
        ]
    if isinstance(claimed, list) and isinstance(real, list) and len(claimed) == len(real):
        pairs = zip(claimed, real, strict=True)
        return [x for n, (c, r) in enumerate(pairs) for x in beyond(c, r, f"{at}[{n}]")]
    return [] if claimed == real else [f"{at}: {claimed!r}, not {real!r}"]


def _record() -> None:
    binaries = assets()
    assert binaries is not None, "KUBEBUILDER_ASSETS: the folder of etcd and kube-apiserver"
    with tempfile.TemporaryDirectory() as folder, running(binaries, Path(folder)) as real:
        cluster = Cluster(
            url=real.url, namespace=new_namespace(), authority=real.authority,
            headers={"Authorization": f"Bearer {ADMIN}"},
        )  # fmt: skip
        answers = asyncio.run(_talk(cluster))
        body = {"version": real.version, "answers": [asdict(one) for one in answers]}
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(json.dumps(body, indent=1) + "\n")


async def _talk(cluster: Cluster) -> list[Answer]:
    named = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}}
    await cluster.call("POST", "/api/v1/namespaces", named, JSON)
    return await have(cluster, rights=True)


if __name__ == "__main__":
    _record()
