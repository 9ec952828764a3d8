"""What the chart's NetworkPolicies mean: every connection that they allow, and no other.

Evaluated as Kubernetes defines them: a connection needs a rule at both ends, where any policy
selects the pod in that direction. Enforcing them is the network plug-in's business.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from tests.kubernetes.chart import NAMESPACE, ROOT, Object, component, of_kind, pods, rendered

METADATA = "169.254.169.254"
DNS = 53
CI = ROOT / "deploy" / "helm" / "assay" / "ci"
ELSEWHERE = {"callers": "team-a", "keda": "keda", "prometheus": "monitoring", "stranger": "other"}
"""Pods that are not the chart's, by their namespace."""


@dataclass(frozen=True, slots=True)
class End:
    """A pod, or an address outside of the cluster."""

    name: str
    labels: Mapping[str, str]
    namespace: str = ""
    address: str = ""


Flow = tuple[str, str, int]
"""From, to, port."""


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """A label selector; the empty one selects everything."""
    if not dict(selector.get("matchLabels", {})).items() <= dict(labels).items():
        return False
    expressions = selector.get("matchExpressions", [])
    assert all(one["operator"] == "In" for one in expressions)
    return all(labels.get(one["key"]) in one["values"] for one in expressions)


def is_peer(peer: Object, end: End) -> bool:
    """Whether an entry of `from` or `to` means this end."""
    if block := peer.get("ipBlock"):
        if not end.address:
            return False
        address = ip_address(end.address)
        excepted = any(address in ip_network(one) for one in block.get("except", []))
        return address in ip_network(block["cidr"]) and not excepted
    if not end.namespace:
        return False
    namespaces = peer.get("namespaceSelector")
    here = {"kubernetes.io/metadata.name": end.namespace}
    if namespaces is None and end.namespace != NAMESPACE:
        return False
    if namespaces is not None and not selects(namespaces, here):
        return False
    return selects(peer.get("podSelector", {}), end.labels)


def allows(policies: list[Object], own: End, other: End, port: int, way: str) -> bool:
    """Whether one end lets a connection through: `Ingress` or `Egress`."""
    if own.namespace != NAMESPACE:
        return True  # another's policies
    field, peers = ("ingress", "from") if way == "Ingress" else ("egress", "to")
    about = [
        one["spec"]
        for one in policies
        if way in one["spec"]["policyTypes"] and selects(one["spec"]["podSelector"], own.labels)
    ]
    rules: list[Any] = [rule for one in about for rule in one.get(field, [])]
    return not about or any(
        port in {one["port"] for one in rule.get("ports", [{"port": port}])}
        and (peers not in rule or any(is_peer(peer, other) for peer in rule[peers]))
        for rule in rules
    )


def ends(objects: tuple[Object, ...], outside: Mapping[str, str]) -> Iterator[End]:
    seen = set()
    for _, template in pods(objects):
        kind = component(template)
        if kind not in seen:
            yield End(kind, template["metadata"]["labels"], NAMESPACE)
        seen.add(kind)
    for name, namespace in ELSEWHERE.items():
        yield End(name, {}, namespace)
    yield End("names", {}, "kube-system")
    for name, address in outside.items():
        yield End(name, {}, address=address)


def flows(objects: tuple[Object, ...], outside: Mapping[str, str]) -> set[Flow]:
    """Every allowed connection of which one end is the chart's."""
    policies = of_kind(objects, "NetworkPolicy")
    ports = {
        port["port"]
        for one in policies
        for rule in (*one["spec"].get("ingress", []), *one["spec"].get("egress", []))
        for port in rule["ports"]
    } | {22, 80, 8080, 8472, 8477}
    found = list(ends(objects, outside))
    return {
        (one.name, other.name, port)
        for one in found
        for other in found
        for port in ports
        if NAMESPACE in {one.namespace, other.namespace}
        and one.namespace
        and allows(policies, one, other, port, "Egress")
        and allows(policies, other, one, port, "Ingress")
    }


def to(ends_of: str, other: str, *ports: int) -> set[Flow]:
    return {(one, other, port) for one in ends_of.split() for port in ports}


OUTSIDE = {"web": "192.0.2.1", "metadata": METADATA}


def test_on_the_store_with_a_planner_and_a_runtime() -> None:
    objects = rendered(more='rollout={"enabled": true, "modelClaim": "m"}')
    inside = "callers keda prometheus stranger names"
    assert flows(objects, OUTSIDE) == {
        *to("api planner worker", "store", 6379),
        *to("api planner worker test rollout", "names", DNS),
        *to("api", "planner", 8473),
        *to("test rollout", "api", 8470),
        *to("planner", "web", 443, 6443),
        *to(inside, "api", 8470, 8471),
        *to(inside, "planner", 8475),
        *to(inside, "worker", 8475),
        *to(inside, "rollout", 8481),
    }


def test_workers_of_the_api_reach_it_alone_and_a_store_outside_is_out_of_their_reach() -> None:
    objects = rendered(str(CI / "multi-tenant-values.yaml"))
    outside = {**OUTSIDE, "store": "10.1.2.3", "kubernetes": "10.2.0.1"}
    inside = "callers keda prometheus stranger names"
    assert flows(objects, outside) == {
        *to("api planner", "store", 6380),
        *to("worker", "api", 8476),
        *to("api planner worker test rollout", "names", DNS),
        *to("api", "planner", 8473),
        *to("test rollout", "api", 8470),
        *to("keda planner", "planner", 8474),
        *to("planner", "kubernetes", 443, 6443),
        *to("callers", "api", 8470, 8471),
        *to("prometheus", "api", 8471),
        *to("callers", "rollout", 8480, 8482),
        *to(inside, "rollout", 8481),
        *to(inside, "planner", 8475),
        *to(inside, "worker", 8475),
    }


@pytest.mark.parametrize("address", [METADATA, "192.0.2.1", "10.1.2.3"])
def test_no_worker_reaches_an_address_outside(address: str) -> None:
    for values in sorted(CI.glob("*.yaml")):
        found = flows(rendered(str(values)), {"outside": address})
        assert not {one for one in found if one[:2] == ("worker", "outside")}, values


@pytest.mark.parametrize(("callers", "named"), [("[]", set()), ('["team-a"]', {"callers"})])
def test_only_the_releases_namespace_and_named_ones_reach_rollouts(
    callers: str, named: set[str]
) -> None:
    """No front stands before their gRPC, which strangers could block."""
    rollout = '{"enabled": true, "modelClaim": "m"}'
    more = f'rollout={rollout},networkPolicies={{"callers": {callers}}}'
    objects = rendered(more=more)
    policies = of_kind(objects, "NetworkPolicy")
    [own] = [one for one in ends(objects, {}) if one.name == "rollout"]
    neighbour = End("neighbour", {}, NAMESPACE)
    for port in (8480, 8482):
        reach = {
            one.name
            for one in (neighbour, *(End(name, {}, of) for name, of in ELSEWHERE.items()))
            if allows(policies, own, one, port, "Ingress")
        }
        assert reach == {"neighbour"} | named
