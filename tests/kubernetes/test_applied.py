"""What the chart renders, given to a real API server: it takes every object and warns of nothing.

A schema does not know names that refer to each other, limits below requests, or what one field
means beside another; the server that has to take the objects does. Kinds of others are checked
where `ASSAY_CRDS` names a folder with their CustomResourceDefinitions.
"""

import itertools
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import kubernetes_validate
import pytest
import yaml
from tests.kubernetes.chart import (
    CHART,
    RESOURCES_OF_OTHERS,
    Object,
    ask,
    component,
    pods,
    rendered,
)
from tests.kubernetes.cluster import Cluster, until
from tests.kubernetes.real_server import ADMIN, ASSETS, RealServer, define, definitions

STRENGTH = 3
"""Any so many values are together in some case."""
RESTRICTED = "pod-security.kubernetes.io/enforce"
FACTORS: Mapping[str, Sequence[str]] = {
    "scaler": ('"planner"', '"keda"', '"hpa"', '"none"'),
    "pipelines": ('["math"]', '["code.python", "code.cpp", "sql", "python_function"]'),
    "workers": (
        '{"isolation": "hardened"}',
        '{"isolation": "namespaced", "seccompProfile":'
        ' {"type": "Localhost", "localhostProfile": "p.json"}}',
        '{"isolation": "gvisor", "slotsPerPod": 3, "slotsMin": 2, "kueueQueue": "q",'
        ' "priorityClassName": "system-cluster-critical", "nodeSelector": {"a": "b"},'
        ' "tolerations": [{"key": "a", "operator": "Exists"}]}',
    ),
    "rollout": (
        '{"enabled": false}',
        '{"enabled": true, "modelClaim": "m", "modelPath": "p", "runtimeClassName": "nvidia"}',
        '{"enabled": true, "engineUrl": "http://e:1", "engineTokenSecret": "s", "replicas": 2}',
    ),
    "workerApi": ("{}", '{"keySecret": "k", "tokenSecret": "t"}'),
    "operator": ("{}", '{"existingSecret": "o", "tlsSecret": "ot", "tlsServerName": "n"}'),
    "tls": ("{}", '{"existingSecret": "own"}'),
    "store": ("{}", '{"existingSecret": "s"}'),
    "tenants": ("{}", '{"existingSecret": "t"}'),
    "ingress": ("{}", '{"enabled": true, "className": "c", "host": "a.example", "tlsSecret": "x"}'),
    "gateway": ("{}", '{"enabled": true, "parentRefs": [{"name": "g"}],'
                ' "hostnames": ["a.example"]}'),
    "networkPolicies": (
        '{"enabled": false}', '{"storeCidrs": ["10.0.0.0/8"]}',
        '{"storeCidrs": ["10.0.0.0/8"], "callers": ["a", "b"], "apiServerCidrs": ["10.1.0.1/32"]}',
    ),
    "monitoring": (
        "{}", '{"enabled": true, "dashboards": true, "labels": {"a": "b"}}',
        '{"enabled": true, "grafanaDashboards": true}',
    ),
    "keda": ("{}", '{"tlsSecret": "kt"}'),
    "api": ("{}", '{"replicas": 1, "podDisruptionBudget": false, "priorityClassName":'
            ' "system-cluster-critical", "service": {"type": "LoadBalancer",'
            ' "annotations": {"a": "b"}}}'),
    "settings": ("{}", '{"store.attempts_max": 5, "planner.kubernetes.mark_idle_pods": false,'
                 ' "reward.connections_max": 1000000, "planner.core_cost_by_host": {"s": 0.1}}'),
    "fullnameOverride": ('""', '"a-name-of-sixty-characters-with-dashes-at-every-few-letters-x"'),
    "image": ("{}", '{"pullSecrets": [{"name": "p"}], "pullPolicy": "Always"}'),
}  # fmt: skip
"""Values that change objects; what excludes each other is left to the templates."""
NAMES = tuple(FACTORS)
Case = tuple[int, ...]
"""The choice of each factor."""


def parts(case: Case, strength: int) -> set[tuple[tuple[int, int], ...]]:
    """What of so many factors is together in a case."""
    return set(itertools.combinations(enumerate(case), strength))


def covering(sizes: Sequence[int], strength: int, chooser: random.Random) -> list[Case]:
    """Few cases in which any choices of any `strength` factors are together."""
    missing = {
        tuple(zip(which, choice, strict=True))
        for which in itertools.combinations(range(len(sizes)), strength)
        for choice in itertools.product(*(range(sizes[one]) for one in which))
    }
    cases: list[Case] = []
    while missing:
        first = dict(min(missing))
        tried = [
            tuple(first.get(n, chooser.randrange(size)) for n, size in enumerate(sizes))
            for _ in range(20)
        ]
        best = max(tried, key=lambda case: len(parts(case, strength) & missing))
        missing -= parts(best, strength)
        cases.append(best)
    return cases


CASES = covering([len(one) for one in FACTORS.values()], STRENGTH, random.Random(1))


def test_any_three_values_are_together_in_some_case() -> None:
    sizes = [len(one) for one in FACTORS.values()]
    wanted = sum(a * b * c for a, b, c in itertools.combinations(sizes, STRENGTH))
    there = {part for case in CASES for part in parts(case, STRENGTH)}
    assert len(there) == wanted
    assert len(CASES) < 150


def objects_of(case: Case, major: int) -> Iterator[Object]:
    """What Helm renders of it."""
    values = {name: FACTORS[name][n] for name, n in zip(NAMES, case, strict=True)}
    given = [word for name in NAMES for word in ("--set-json", f"{name}={values[name]}")]
    done = ask(major, "template", "lab", str(CHART), "--namespace", "rewards", *given)
    assert done.returncode == 0, (values, done.stderr)
    return (one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one)


def test_every_object_of_every_case_is_valid_by_schema() -> None:
    seen: set[str] = set()
    for n, case in enumerate(CASES):
        for one in objects_of(case, major=3 + n % 2):
            text = json.dumps(one, sort_keys=True)
            if text not in seen and one["kind"] not in RESOURCES_OF_OTHERS:
                for version in ("1.30", "1.37"):
                    kubernetes_validate.validate(one, version, strict=True)
            seen.add(text)
    assert len(seen) > 500


@dataclass(slots=True, kw_only=True)
class Applier:
    """Gives objects to the server, which does as if."""

    session: aiohttp.ClientSession
    server: RealServer
    kinds: dict[tuple[str, str], str] = field(default_factory=dict)
    """The path of each kind in the namespace."""

    async def discover(self, namespace: str) -> None:
        """Ask the server for its kinds."""
        groups = (await self.get("/apis"))["groups"]
        roots = {version["groupVersion"]: f"/apis/{version['groupVersion']}"
                 for group in groups for version in group["versions"]}  # fmt: skip
        for version, root in {"v1": "/api/v1", **roots}.items():
            for one in (await self.get(root))["resources"]:
                if one["namespaced"] and "/" not in one["name"]:
                    path = f"{root}/namespaces/{namespace}/{one['name']}"
                    self.kinds[version, one["kind"]] = path

    async def get(self, path: str) -> Any:
        async with self.session.get(self.server.url + path) as answer:
            return await answer.json() if answer.status < 300 else {"resources": []}

    async def apply(self, one: Object) -> list[str]:
        """What the server has against an object: its refusal, or its warnings."""
        path = self.kinds[one["apiVersion"], one["kind"]]
        query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "test"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        url = f"{self.server.url}{path}/{one['metadata']['name']}"
        async with self.session.patch(
            url, params=query, headers=headers, data=json.dumps(one)
        ) as answer:
            told = answer.headers.getall("Warning", [])
            found = await answer.json()  # a connection with an unread answer outlives the test
            if answer.status >= 300:
                told.append(found["message"])
            return told


@pytest.fixture
async def applier(real: RealServer | None, cluster: Cluster) -> AsyncIterator[Applier]:
    """On a namespace of the test's own; kinds of others are made where they are given."""
    if real is None:
        pytest.skip(f"{ASSETS} names no kube-apiserver")
    wanted = await define(cluster)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    connector = aiohttp.TCPConnector(ssl=real.authority)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        one = Applier(session=session, server=real)

        async def are_served() -> bool:
            await one.discover(cluster.namespace)
            return wanted <= {kind for _, kind in one.kinds}

        await until(are_served, "the server knows the kinds")
        yield one


OF_OTHERS = {
    "keda.sh", "monitoring.coreos.com", "gateway.networking.k8s.io", "grafana.integreatly.org",
}  # fmt: skip


async def test_a_server_takes_every_object_of_every_case(
    applier: Applier, cluster: Cluster
) -> None:
    seen: set[str] = set()
    faults: dict[str, Case] = {}
    for n, case in enumerate(CASES):
        for rendered_one in objects_of(case, major=3 + n % 2):
            one = {**rendered_one, "metadata": {**rendered_one["metadata"],
                                                "namespace": cluster.namespace}}  # fmt: skip
            text = json.dumps(one, sort_keys=True)
            group = one["apiVersion"].partition("/")[0]
            if text in seen or (not definitions() and group in OF_OTHERS):
                continue
            seen.add(text)
            if one["kind"] == "RoleBinding":
                one["subjects"] = [{**s, "namespace": cluster.namespace} for s in one["subjects"]]
            for fault in await applier.apply(one):
                faults.setdefault(f"{one['kind']} {one['metadata']['name']}: {fault}", case)
    assert faults == {}
    assert len(seen) > 500


NAMED: Mapping[str, tuple[str, str]] = {
    "dots": ("team.a.rewards", '""'),
    "a digit first": ("7b", '""'),
    "the longest": ("r" * 53, '""'),
    "a dash at the cut": ("r" * 38 + "--b", '""'),
    "a name with dashes at its cut": ("lab", f'"{"n" * 38}--b"'),
}
"""A release's name, and `nameOverride`."""


@pytest.mark.parametrize("case", NAMED)
async def test_a_server_takes_what_a_release_of_any_name_has(
    case: str, applier: Applier, cluster: Cluster
) -> None:
    """Helm permits 53 characters, with dots, and a digit first."""
    release, name = NAMED[case]
    more = ("--set-json", f'nameOverride={name},rollout={{"enabled": true, "modelClaim": "m"}}')
    done = ask(4, "template", release, str(CHART), "--namespace", cluster.namespace, *more)
    assert done.returncode == 0, done.stderr
    objects = [one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one]
    faults: list[str] = []
    for one in objects:
        one["metadata"]["namespace"] = cluster.namespace
        told = await applier.apply(one)
        faults += [f"{one['kind']} {one['metadata']['name']}: {fault}" for fault in told]
    assert faults == []


async def test_pods_are_what_their_tier_says(applier: Applier, cluster: Cluster) -> None:
    """`restricted` is enforced by Kubernetes itself, on pods as it would make them."""
    label = {"metadata": {"labels": {RESTRICTED: "restricted"}}}
    await cluster.call("PATCH", f"/api/v1/namespaces/{cluster.namespace}", label)
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
               "metadata": {"name": "gvisor"}, "handler": "runsc"}  # fmt: skip
    path = "/apis/node.k8s.io/v1/runtimeclasses/gvisor?fieldManager=test&force=true"
    await cluster.call("PATCH", path, runtime, "application/apply-patch+yaml")
    more = 'rollout={"enabled": true, "modelClaim": "m"}'
    refused: dict[str, set[str]] = {}
    taken = set()
    for tier in ("hardened", "namespaced", "gvisor"):
        for name, template in pods(rendered(more=f'{more},workers={{"isolation": "{tier}"}}')):
            metadata = {"name": "p", "namespace": cluster.namespace,
                        "labels": template["metadata"]["labels"]}  # fmt: skip
            spec = {k: v for k, v in template["spec"].items() if k != "serviceAccountName"}
            mounts = [m["name"] for c in spec["containers"] for m in c.get("volumeMounts", [])]
            there = {volume["name"] for volume in spec.get("volumes", [])}
            claimed = [{"name": m, "persistentVolumeClaim": {"claimName": m}}
                       for m in mounts if m not in there]  # fmt: skip
            spec["volumes"] = [*spec.get("volumes", []), *claimed]
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            told = await applier.apply(pod)
            what = name if component(template) == "worker" else component(template)
            if told:
                assert all("violates PodSecurity" in one for one in told), told
                refused.setdefault(tier, set()).add(what)
            else:
                taken.add(what)
    foreign = {"lab-assay-python-run"}
    assert refused == {"namespaced": foreign, "gvisor": foreign}
    assert {"api", "planner", "store", "rollout", "lab-assay-math-verify", *foreign} <= taken
