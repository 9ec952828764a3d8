"""What Kubernetes thinks of the pods of each tier of isolation, by its own rules, offline.

`test_applied.py` asks a real API server the same where there is one. The rules here are those of
the API's validation about user namespaces and privileges, and of Pod Security's `baseline`.
"""

import json
from typing import Any

import pytest
from tests.kubernetes.chart import VALUES, Object, component, pods, rendered, stages_file

TIERS = ("hardened", "namespaced", "gvisor")
BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
    "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
MAPPED = {"emptyDir", "secret", "configMap", "projected", "downwardAPI"}
"""Volumes whose owners are mapped into a user namespace on every runtime that has any."""
FOREIGN = {name for name, one in stages_file()["stages"].items() if one["foreignCode"]}
PROFILE = {"type": "Localhost", "localhostProfile": "profiles/assay.json"}


def contexts(template: Object) -> list[dict[str, Any]]:
    """Of each container, with what it has from its pod."""
    shared = template["spec"].get("securityContext", {})
    return [{**shared, **one.get("securityContext", {})} for one in template["spec"]["containers"]]


def baseline_faults(template: Object) -> set[str]:
    """What Pod Security's level `baseline` refuses in it."""
    spec = template["spec"]
    faults = {f"host{x}" for x in ("Network", "PID", "IPC") if spec.get(f"host{x}")}
    faults |= {"hostPath" for one in spec.get("volumes", []) if "hostPath" in one}
    for one in spec["containers"]:
        faults |= {"hostPort" for port in one.get("ports", []) if port.get("hostPort")}
    for own in contexts(template):
        faults |= set(own.get("capabilities", {}).get("add", ())) - BASELINE_CAPABILITIES
        faults |= (
            {"seccomp"} if own.get("seccompProfile", {}).get("type") == "Unconfined" else set()
        )
        faults |= {"procMount"} if own.get("procMount", "Default") != "Default" else set()
        faults |= {"privileged"} if own.get("privileged") else set()
        faults |= {"sysctls"} if own.get("sysctls") else set()
    return faults


def invalid(template: Object) -> set[str]:
    """What the API server refuses, or no runtime starts, whatever the namespace admits."""
    spec, faults = template["spec"], set()
    maps_users = spec.get("hostUsers") is False
    if maps_users:
        faults |= {f"host{x} with hostUsers" for x in ("Network", "PID", "IPC")
                   if spec.get(f"host{x}")}  # fmt: skip
        faults |= {one["name"] for one in spec.get("volumes", []) if not MAPPED & set(one)}
        faults |= {"volumeDevices" for one in spec["containers"] if one.get("volumeDevices")}
    for own in contexts(template):
        may_gain = own.get("allowPrivilegeEscalation", True)
        if own.get("procMount") == "Unmasked" and not maps_users:
            faults.add("procMount without hostUsers")
        if not may_gain and "SYS_ADMIN" in own.get("capabilities", {}).get("add", ()):
            faults.add("SYS_ADMIN without allowPrivilegeEscalation")
        if own.get("runAsNonRoot") and own.get("runAsUser") == 0:
            faults.add("root and runAsNonRoot")
    return faults


def workers_of(tier: str, **more: Any) -> list[Object]:
    """Pods of stages that run foreign code."""
    values = json.dumps({"isolation": tier, **more})
    objects = rendered(more=f'pipelines=["math","code.python","code.cpp"],workers={values}')
    found = [one for _, one in pods(objects) if component(one) == "worker"]
    boxed = [one for one in found if one["metadata"]["labels"]["assay.dev/stage"] in FOREIGN]
    assert len(boxed) >= 3
    return boxed


@pytest.mark.parametrize("tier", TIERS)
def test_each_tier_is_valid_and_asks_for_no_more_than_it_needs(tier: str) -> None:
    wanted = {
        "hardened": set(),
        "namespaced": {"SYS_ADMIN", "seccomp", "procMount"},
        "gvisor": {"SYS_ADMIN"},
    }
    for template in workers_of(tier):
        assert invalid(template) == set()
        assert baseline_faults(template) == wanted[tier]
        spec = template["spec"]
        assert (spec.get("hostUsers") is False) == (tier == "namespaced")
        assert spec.get("runtimeClassName") == ("gvisor" if tier == "gvisor" else None)


def test_with_a_profile_of_the_node_no_system_call_filter_is_switched_off() -> None:
    for template in workers_of("namespaced", seccompProfile=PROFILE):
        assert baseline_faults(template) == {"SYS_ADMIN", "procMount"}
        assert contexts(template)[0]["seccompProfile"] == PROFILE


@pytest.mark.parametrize("values", VALUES)
def test_nothing_else_is_above_the_baseline(values: str) -> None:
    for name, template in pods(rendered(values)):
        assert invalid(template) == set(), name
        if template["metadata"]["labels"].get("assay.dev/stage") not in FOREIGN:
            assert baseline_faults(template) == set(), name


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"hostUsers": True}, "procMount without hostUsers"),
        ({"hostPID": True}, "hostPID with hostUsers"),
        ({"volumes": [{"name": "n", "hostPath": {"path": "/"}}]}, "n"),
        ({"securityContext": {"runAsNonRoot": True}}, "root and runAsNonRoot"),
        ({"securityContext": {"allowPrivilegeEscalation": False}},
         "SYS_ADMIN without allowPrivilegeEscalation"),
    ],
)  # fmt: skip
def test_the_rules_find_what_a_server_would(change: dict[str, Any], fault: str) -> None:
    template = workers_of("namespaced")[0]
    assert invalid({**template, "spec": {**template["spec"], **change}}) == {fault}
