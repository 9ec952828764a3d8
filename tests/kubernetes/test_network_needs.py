"""The chart's NetworkPolicies beside what its services are set to call and where they listen.

`test_network.py` lists what the policies allow; here both lists are worked out. What a service
calls is in its variables; where it listens is in its settings. In every file of values for
continuous integration, and in further ones: each call is allowed, and no port is open on which
nothing listens.
"""

import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from urllib.parse import urlsplit

import pytest
from tests.kubernetes.chart import VALUES, Object, component, of_kind, pods, rendered
from tests.kubernetes.test_network import METADATA, Flow, flows

from assay.config.settings import Settings, load_settings

STEPS = [value.rpartition("/")[2] or "defaults" for value in VALUES]
MORE = {
    "keda with its certificate": 'scaler="keda",keda={"tlsSecret":"k"},monitoring={"enabled":true}',
    "by the API": 'workerApi={"keySecret":"k","tokenSecret":"t"}',
    "rollouts, named callers": (
        'rollout={"enabled":true,"modelClaim":"m"},networkPolicies={"callers":["team-a"]},'
        'monitoring={"enabled":true}'
    ),
    "nothing scales": 'scaler="none"',
}
CASES = [*((values, "") for values in VALUES), *(("", more) for more in MORE.values())]
NAMES = [*STEPS, *MORE]
STORE, KUBERNETES = 6379, 443
POLICIES_OWN = {"names", "store", "kubernetes", "web", "metadata"}
"""Ends that are no service of ours."""


def settings_of(template: Object) -> Settings:
    """As the service reads them."""
    found = {}
    for one in template["spec"]["containers"][0].get("env", []):
        found[one["name"]] = one.get("value", "given").replace("$(POD_IP)", "10.0.0.9")
    found.pop("ASSAY_OPERATOR__TOKENS", None)
    if "ASSAY_STORE__URL" in found:
        found["ASSAY_STORE__URL"] = f"redis://store:{STORE}"
    return load_settings(found)


def services(objects: tuple[Object, ...]) -> dict[str, Settings]:
    """The settings of each of our services that has any pods."""
    return {
        component(template): settings_of(template)
        for _, template in pods(objects)
        if component(template) in {"api", "planner", "worker", "rollout"}
    }


def listening(name: str, given: Settings) -> set[int]:
    """Ports on which others than the pod itself can reach a service."""
    match name:
        case "api":
            work = {given.reward.worker_port} if given.reward.worker_key_file else set()
            probes = {given.reward.probe_port or 0}
            return {given.reward.grpc_port, given.reward.http_port, *work, *probes}
        case "planner":
            keda = {given.planner.kubernetes.keda_port} if given.planner.scaler == "keda" else set()
            return {given.planner.grpc_port, given.planner.http_port, *keda}
        case "worker":
            return {given.worker.control_port, given.worker.http_port}
    own = given.rollout
    return {own.grpc_port, own.http_port, own.gateway_port}


def port_in(address: str) -> int:
    """The port of `host:port` or of a URL."""
    return urlsplit(address if "://" in address else f"//{address}").port or 0


def calls(objects: tuple[Object, ...], store_port: int) -> Iterator[Flow]:
    """What the services call, by their settings."""
    found = services(objects)
    for name, given in found.items():
        yield name, "names", 53
        if given.store.url:
            yield name, "store", store_port
        if name == "worker" and given.worker.api:
            yield name, "api", port_in(given.worker.api)
        if name == "api" and given.reward.planner_address:
            yield name, "planner", port_in(given.reward.planner_address)
        if name == "rollout":
            yield name, "api", port_in(given.rollout.reward_url)
        if name == "planner":
            yield name, "kubernetes", KUBERNETES
            if given.planner.scaler == "keda":
                yield "keda", name, port_in(given.planner.kubernetes.keda_address)
                yield name, name, port_in(given.planner.kubernetes.keda_address)
    for one in of_kind(objects, "PodMonitor"):
        target = one["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]
        for end in one["spec"]["podMetricsEndpoints"]:
            yield "prometheus", target, port_named(objects, target, end["port"])
    for one in of_kind(objects, "Pod"):
        for variable in one["spec"]["containers"][0].get("env", []):
            if variable["name"] == "ASSAY_URL":
                yield "test", "api", port_in(variable["value"])
                yield "test", "names", 53


def port_named(objects: tuple[Object, ...], target: str, name: str) -> int:
    ports = {
        port["name"]: port["containerPort"]
        for _, template in pods(objects)
        if component(template) == target
        for port in template["spec"]["containers"][0]["ports"]
    }
    return int(ports[name])


def outside_of(objects: tuple[Object, ...]) -> tuple[Mapping[str, str], int]:
    """Addresses outside of the cluster, and the store's port."""
    store_port = STORE
    outside = {"web": "192.0.2.1", "metadata": METADATA, "kubernetes": "192.0.2.7"}
    for one in of_kind(objects, "NetworkPolicy"):
        for rule in one["spec"].get("egress", []):
            ports = {port["port"] for port in rule.get("ports", [])}
            for block in (peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer):
                first = str(ip_network(block["cidr"])[0])
                if KUBERNETES in ports and block["cidr"] != "0.0.0.0/0":
                    outside["kubernetes"] = first
                elif KUBERNETES not in ports:
                    outside["store"], store_port = first, ports.pop()
    return outside, store_port


@pytest.mark.parametrize(("values", "more"), CASES, ids=NAMES)
def test_every_call_of_a_service_is_allowed(values: str, more: str) -> None:
    objects = rendered(values, more)
    outside, store_port = outside_of(objects)
    wanted = set(calls(objects, store_port))
    assert wanted - flows(objects, outside) == set()
    assert len(wanted) >= 5


@pytest.mark.parametrize(("values", "more"), CASES, ids=NAMES)
def test_no_port_is_open_on_which_nothing_listens_and_none_is_named_wrongly(
    values: str, more: str
) -> None:
    objects = rendered(values, more)
    outside, store_port = outside_of(objects)
    there = {name: listening(name, given) for name, given in services(objects).items()}
    for _, template in pods(objects):
        if (name := component(template)) in there:
            ports = {one["containerPort"] for one in template["spec"]["containers"][0]["ports"]}
            assert ports - {8474} <= there[name], "KEDA's has a name in every planner"
    ours = {flow for flow in flows(objects, outside) if flow[1] not in POLICIES_OWN}
    assert {(to, port) for _, to, port in ours if port not in there.get(to, ())} == set()
    wanted = set(calls(objects, store_port))
    among = set(there) | {"test"}
    extra = {flow for flow in ours if flow[0] in among} - wanted
    assert extra == set(), "services reach each other only where one calls the other"


def test_a_policy_that_lacks_a_port_is_found() -> None:
    text = json.dumps(rendered())
    objects = tuple(json.loads(text.replace('"port": 8473', '"port": 8479')))
    outside, store_port = outside_of(objects)
    missing = set(calls(objects, store_port)) - flows(objects, outside)
    assert missing == {("api", "planner", 8473)}
