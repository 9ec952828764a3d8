"""The Helm chart: what it renders, under both majors of Helm, without a cluster."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from scripts.generate_chart import CHARTS_OWN, generate
from tests.kubernetes.api_server import ApiServer, Call
from tests.kubernetes.chart import (
    CHART,
    NAMESPACE,
    RESOURCES_OF_OTHERS,
    VALUES,
    Object,
    ask,
    component,
    environment,
    named,
    of_kind,
    pods,
    rendered,
    stages_file,
    workers,
)
from tests.kubernetes.cluster import Cluster, ready, until
from tests.kubernetes.scaling import RunScaler, host_of

from assay.config.settings import load_settings
from assay.planner.kubernetes.hosts import PodHosts
from assay.store.port import Store

VERSIONS = ("1.30", "1.34", "1.35", "1.36", "1.37")
STEPS = [Path(v).stem or "defaults" for v in VALUES]


def test_what_is_generated_is_fresh(tmp_path: Path) -> None:
    generate(tmp_path)
    for name in ("files/stages.json", "values.schema.json", "README.md"):
        assert (tmp_path / name).read_text() == (CHART / name).read_text(), (
            f"{name}: python scripts/generate_chart.py"
        )


@pytest.mark.parametrize("major", [3, 4])
@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_helm_lints_it(major: int, values: str) -> None:
    files = ["--values", values] if values else []
    done = ask(major, "lint", "--strict", str(CHART), *files)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_both_majors_render_the_same_workers(values: str) -> None:
    assert workers(rendered(values, major=3)) == workers(rendered(values, major=4))


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_objects_are_valid_in_every_kubernetes_that_is_supported(values: str) -> None:
    objects = rendered(values)
    assert objects
    for one in objects:
        if one["kind"] not in RESOURCES_OF_OTHERS:
            for version in VERSIONS:
                kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize(
    "wrong",
    [
        'settings={"store.attempt_max": 3}', 'settings={"store.attempts_max": "three"}',
        'settings={"store.url": "redis://elsewhere"}', 'settings={"reward.host": "::"}',
        'pipelines=["maths"]', 'pipelines=[]', 'scaler="keda2"', 'workers={"slotMax": 3}',
        'workers={"stages": {"python.ran": {}}}', 'workers={"isolation": "none"}',
        'workers={"slotsPerPod": 0}', 'image={"digests": {"api": "latest"}}',
        'api={"replicas": "2"}', 'apis={}', 'workers={"stages": {"cpp.run": {"slotsMax": 3}}}',
        'store={"existingSecret": "s"}', 'operator={"tlsSecret": "s"}',
        'workers={"slotsMin": 8, "slotsMax": 4}',
        'workers={"stages": {"python.run": {"slotsMin": 17}}}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("major", [3, 4])
def test_a_mistake_in_the_values_is_refused(major: int, wrong: str) -> None:
    done = ask(major, "template", "lab", str(CHART), "--set-json", wrong)
    assert done.returncode != 0, wrong


@pytest.mark.parametrize("release", ["lab", "7b", "7assay", "0.1", "9" * 53])
def test_a_service_begins_with_a_letter_whatever_the_release_begins_with(release: str) -> None:
    done = ask(4, "template", release, str(CHART), "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stderr
    objects = tuple(one for one in yaml.safe_load_all(done.stdout) if one)
    services = [one["metadata"]["name"] for one in of_kind(objects, "Service")]
    assert services
    assert [one for one in services if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", one)] == []


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_the_settings_of_every_pod_are_settings(values: str) -> None:
    seen = set()
    for name, template in pods(rendered(values)):
        if component(template) not in {"api", "planner", "worker", "rollout"}:
            continue
        seen.add(component(template))
        found = environment(template)
        if "ASSAY_OPERATOR__TOKENS" in found:
            found["ASSAY_OPERATOR__TOKENS"] = "[]"
        settings = load_settings(found)
        on_store = not settings.worker.api and component(template) != "rollout"
        assert (settings.store.url == "given") == on_store, name
    assert {"api", "worker"} <= seen


def test_every_setting_that_the_chart_does_not_set_itself_can_be_set() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = set(schema["properties"]["settings"]["properties"])
    assert {"store.attempts_max", "planner.epsilon", "planner.prior.span_s",
            "planner.kubernetes.stale_s", "sandbox.cgroup"} <= names  # fmt: skip
    assert [name for name in names if CHARTS_OWN.match(name)] == []


@pytest.mark.parametrize("scaler", ["planner", "keda", "hpa", "none"])
def test_workers_have_a_fixed_size_only_where_nothing_scales_them(scaler: str) -> None:
    objects = rendered(more=f'scaler="{scaler}"')
    sized = {"replicas" in one["spec"] for one in workers(objects)}
    assert sized == {scaler == "none"}
    assert bool(of_kind(objects, "ScaledObject")) == (scaler == "keda")
    assert bool(of_kind(objects, "HorizontalPodAutoscaler")) == (scaler == "hpa")
    planners = [t for _, t in pods(objects) if component(t) == "planner"]
    assert bool(planners) == (scaler in {"planner", "keda"})


def test_the_stages_of_the_chosen_pipelines_have_a_deployment_each() -> None:
    known = stages_file()
    for pipeline, stages in known["pipelines"].items():
        found = {
            one["metadata"]["labels"]["assay.dev/stage"]
            for one in workers(rendered(more=f'pipelines=["{pipeline}"]'))
        }
        assert found == set(stages), pipeline


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_the_planner_finds_the_pods_of_every_stage(values: str) -> None:
    objects = rendered(values, more='scaler="planner"')
    [planner] = [t for _, t in pods(objects) if component(t) == "planner"]
    settings = load_settings(environment(planner)).planner
    there = {one["metadata"]["labels"]["assay.dev/stage"]: one for one in workers(objects)}
    names = {stage: one["metadata"]["name"] for stage, one in there.items()}
    assert settings.kubernetes.deployments == names
    wanted = dict(pair.split("=") for pair in settings.kubernetes.selector.split(","))
    for stage, one in there.items():
        for labels in (one["metadata"]["labels"], one["spec"]["template"]["metadata"]["labels"]):
            assert wanted.items() <= labels.items()
            assert labels[settings.kubernetes.pool_label] == stage
        worker = load_settings(
            environment(one["spec"]["template"]) | {"ASSAY_OPERATOR__TOKENS": "[]"}
        ).worker
        assert worker.stages == (stage,)
        assert worker.slots == settings.kubernetes.slots_per_pod_by_stage[stage]


# -- who may do what ---------------------------------------------------------------------------
def needed(call: Call) -> tuple[str, str, str, str]:
    """The right that a call of the Kubernetes API needs: group, resource, verb, name."""
    steps = call.path.strip("/").split("/")
    group = steps[1] if steps[0] == "apis" else ""
    rest = steps[steps.index("namespaces") + 2 :]
    assert steps[steps.index("namespaces") + 1] == "assay", "only its own namespace"
    resource = "/".join([rest[0], *rest[2:]])
    verb = {"PATCH": "patch", "GET": "get" if len(rest) > 1 else "list"}[call.method]
    named = len(rest) > 1 and resource != "pods"  # pods are made with names that no Role knows
    return group, resource, "watch" if call.watch else verb, rest[1] if named else ""


def allowed_by(role: Object) -> set[tuple[str, str, str, str]]:
    """Group, resource, verb and name of every call that a Role allows."""
    return {
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


@pytest.mark.fake_api
async def test_the_planners_role_allows_what_its_scaler_calls_and_nothing_else(
    server: ApiServer, cluster: Cluster, run_scaler: RunScaler, store: Store
) -> None:
    objects = rendered(more='fullnameOverride="assay"')
    stages = [one["metadata"]["labels"]["assay.dev/stage"] for one in workers(objects)]
    for stage in stages:
        await cluster.deploy(stage)
    idle = [await cluster.add_pod(stages[0], ready(time.time())) for _ in range(2)]
    for pod in idle:
        await store.put_host(host_of(pod, busy=0), lease_s=600.0)
    server.calls.clear()
    scaling = run_scaler(*stages, hosts=PodHosts(store, attempts_max=3))
    for stage in stages:
        await scaling.resize(stage, 3)
    await until(lambda: scaling.seen(stages[0]), "the pods are seen")
    await scaling.resize(stages[0], 1)
    server.cut_watches()
    await scaling.scaler.close()
    used = {needed(call) for call in server.calls}
    [role] = of_kind(objects, "Role")
    assert used == allowed_by(role)
    unmarked = rendered(more='settings={"planner.kubernetes.mark_idle_pods": false}')
    [role] = of_kind(unmarked, "Role")
    [of_pods] = [rule for rule in role["rules"] if rule["resources"] == ["pods"]]
    assert of_pods["verbs"] == ["list", "watch"]
    assert of_kind(objects, "ClusterRole", "ClusterRoleBinding") == []


@pytest.mark.fake_api  # a real one has no such resource without agent-sandbox
async def test_a_stage_of_a_warm_pool_has_no_deployment_and_the_planner_may_size_the_pool(
    server: ApiServer, cluster: Cluster, run_scaler: RunScaler
) -> None:
    more = 'workers={"stages": {"python.run": {"warmPool": "boxes"}}},fullnameOverride="assay"'
    objects = rendered(more=f'{more},settings={{"planner.kubernetes.mark_idle_pods": false}}')
    stages = {one["metadata"]["labels"]["assay.dev/stage"] for one in workers(objects)}
    assert stages == {"math.verify"}
    planner = named(objects, "Deployment", "-planner")["spec"]["template"]
    given = json.loads(environment(planner)["ASSAY_PLANNER__KUBERNETES__WARM_POOLS"])
    assert given == {"python.run": "boxes"}
    assert "python.run" in json.loads(environment(planner)["ASSAY_PLANNER__SLOTS_MAX_BY_STAGE"])
    for stage in stages:
        await cluster.deploy(stage)
    await cluster.add_warm_pool("python.run", "boxes")
    server.calls.clear()
    scaling = run_scaler(*stages, warm_pools=given, mark_idle_pods=False)
    for stage in (*stages, "python.run"):
        await scaling.resize(stage, 3)
    await until(lambda: len(server.streams) == 3, "all watches are open")
    await scaling.scaler.close()
    [role] = of_kind(objects, "Role")
    assert {needed(call) for call in server.calls} == allowed_by(role)


@pytest.mark.parametrize("scaler", ["none", "hpa", "keda"])
def test_a_warm_pool_that_the_planner_does_not_size_is_refused(scaler: str) -> None:
    more = f'workers={{"stages": {{"python.run": {{"warmPool": "boxes"}}}}}},scaler="{scaler}"'
    done = ask(4, "template", "lab", str(CHART), "--set-json", more)
    assert done.returncode != 0
    assert "a warmPool needs scaler: planner" in done.stderr


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_only_the_planner_may_call_kubernetes(values: str) -> None:
    for name, template in pods(rendered(values)):
        mounted = template["spec"]["automountServiceAccountToken"]
        assert mounted == (component(template) == "planner"), name


def restricted_faults(template: Object) -> list[str]:
    """What Pod Security's level `restricted` would refuse."""
    spec = template["spec"]
    pod = spec.get("securityContext", {})
    faults = [f"host{x}" for x in ("Network", "PID", "IPC") if spec.get(f"host{x}")]
    permitted = {"emptyDir", "secret", "persistentVolumeClaim"}
    faults += [v["name"] for v in spec.get("volumes", []) if not permitted & set(v)]
    for container in spec["containers"] + spec.get("initContainers", []):
        own = container.get("securityContext", {})
        both = {**pod, **own}
        checks = {
            "runAsNonRoot": both.get("runAsNonRoot") is True and both.get("runAsUser") != 0,
            "privilege": own.get("allowPrivilegeEscalation") is False,
            "privileged": not own.get("privileged"),
            "drop": own.get("capabilities", {}).get("drop") == ["ALL"],
            "add": not own.get("capabilities", {}).get("add"),
            "seccomp": both.get("seccompProfile", {}).get("type") == "RuntimeDefault",
            "procMount": "procMount" not in own,
        }
        faults += [name for name, good in checks.items() if not good]
    return faults


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_no_pod_gets_the_variables_of_services(values: str) -> None:
    """In the namespace of the Service `assay-api` one is `ASSAY_API_PORT`, which is no setting."""
    for name, template in pods(rendered(values)):
        assert template["spec"].get("enableServiceLinks") is False, name


def test_the_planner_keeps_machine_code_where_it_can_write() -> None:
    [template] = [one for _, one in pods(rendered()) if component(one) == "planner"]
    [container] = template["spec"]["containers"]
    emptied = {one["name"] for one in template["spec"]["volumes"] if "emptyDir" in one}
    writable = [one["mountPath"] for one in container["volumeMounts"] if one["name"] in emptied]
    cache = environment(template)["XDG_CACHE_HOME"]
    assert any(cache.startswith(f"{path}/") for path in writable)


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_every_pod_is_restricted_except_those_that_box_foreign_code(values: str) -> None:
    foreign = {name for name, one in stages_file()["stages"].items() if one["foreignCode"]}
    for name, template in pods(rendered(values)):
        stage = template["metadata"]["labels"].get("assay.dev/stage")
        if stage in foreign:
            boxed = template["spec"]
            assert boxed.get("hostUsers") is False or boxed.get("runtimeClassName") == "gvisor"
        else:
            assert restricted_faults(template) == [], name
        for container in template["spec"]["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"], name
            assert container["resources"]["limits"]["memory"], name


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_workers_hold_no_operators_token(values: str) -> None:
    objects = rendered(values)
    for one in workers(objects):
        spec = one["spec"]["template"]["spec"]
        by_api = "workerApi" in Path(values).read_text() if values else False
        mounted = [item["key"] for v in spec["volumes"] if "secret" in v
                   for item in v["secret"]["items"]]  # fmt: skip
        stage = one["metadata"]["labels"]["assay.dev/stage"]
        tls = ["ca.crt", "tls.crt", "tls.key"]  # the multi-tenant values have it all
        assert mounted == ([*tls, stage, "ca.crt"] if by_api else [])
        keys = {
            variable["valueFrom"]["secretKeyRef"]["key"]
            for variable in spec["containers"][0]["env"]
            if "valueFrom" in variable
        }
        assert keys == ({"tokens.json"} if by_api else {"url", "tokens.json"})
    for secret in of_kind(objects, "Secret"):
        token = secret["stringData"].get("token")
        hashed = secret["stringData"].get("tokens.json", "")
        assert not token or token not in hashed


def selected(policy: Object, labels: Object) -> bool:
    """Whether a NetworkPolicy is about a pod."""
    selector = policy["spec"]["podSelector"]
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    return all(
        labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", [])
    )


def exits(objects: tuple[Object, ...], labels: Object) -> list[Any]:
    """Where a pod may connect to, besides name servers."""
    found = [
        rule
        for policy in of_kind(objects, "NetworkPolicy")
        if selected(policy, labels) and "Egress" in policy["spec"]["policyTypes"]
        for rule in policy["spec"].get("egress", [])
    ]
    return [rule for rule in found if {port["port"] for port in rule["ports"]} != {53}]


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_every_pod_is_under_a_default_deny_and_workers_reach_the_store_or_the_api(
    values: str,
) -> None:
    objects = rendered(values)
    deny = [
        one
        for one in of_kind(objects, "NetworkPolicy")
        if not one["spec"].get("ingress") and not one["spec"].get("egress")
    ]
    assert [set(one["spec"]["policyTypes"]) for one in deny] == [{"Ingress", "Egress"}]
    for name, template in pods(objects):
        labels = template["metadata"]["labels"]
        assert selected(deny[0], labels), name
        if component(template) == "worker":
            [rule] = exits(objects, labels)
            by_api = "ASSAY_WORKER__API" in environment(template)
            reached = {port["port"] for port in rule["ports"]}
            assert reached == {8476} if by_api else reached <= {6379, 6380}, name
        if component(template) == "api":  # the store, and the planner for the console
            reached = {port["port"] for rule in exits(objects, labels) for port in rule["ports"]}
            assert reached <= {6379, 6380, 8473}, name
        if component(template) == "store":
            assert exits(objects, labels) == []


def test_every_pod_has_the_secrets_with_which_images_are_pulled() -> None:
    given = 'image={"pullSecrets": [{"name": "p"}]},rollout={"enabled": true, "modelClaim": "m"}'
    found = pods(rendered(more=given))
    assert {"api", "planner", "worker", "rollout", "store", "test", "check"} <= {
        component(one) for _, one in found
    }
    for name, one in found:
        assert one["spec"]["imagePullSecrets"] == [{"name": "p"}], name


TESTED = {
    "": ("lab-assay-tenants", "grpc"),
    'tenants={"existingSecret": "t"}': None,
    'tenants={"existingSecret": "t", "testSecret": "own"}': ("own", "grpc"),
    'tls={"existingSecret": "s"}': ("lab-assay-tenants", "grpcs"),
    'pipelines=["code.python"]': None,
}


@pytest.mark.parametrize(("given", "wanted"), TESTED.items())
def test_a_release_is_tested_with_the_token_of_a_tenant_by_tls_where_the_api_has_it(
    given: str, wanted: tuple[str, str] | None
) -> None:
    found = [one for _, one in pods(rendered(more=given)) if component(one) == "test"]
    assert bool(found) == (wanted is not None)
    if wanted is None:
        return
    [container] = found[0]["spec"]["containers"]
    variables = {one["name"]: one for one in container["env"]}
    token = variables["ASSAY_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert token == {"name": wanted[0], "key": "token"}
    assert variables["ASSAY_URL"]["value"] == f"{wanted[1]}://lab-assay-api:8470"
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    assert ("ASSAY_CA" in variables) == ("/etc/assay/tls" in mounted) == (wanted[1] == "grpcs")


def test_the_pods_of_hooks_run_where_the_api_does() -> None:
    place = {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
    placed = {
        component(one): {name: one["spec"].get(name) for name in place}
        for _, one in pods(rendered(more=f"api={json.dumps(place)}"))
    }
    assert placed["api"] == placed["check"] == placed["test"] == place


@pytest.mark.parametrize("slash", ["", "/"])
def test_runbooks_are_links_where_the_files_can_be_read(slash: str) -> None:
    base = "https://git.example/assay/blob/v1"
    objects = rendered(more=f'monitoring={{"enabled": true, "runbooks": "{base}{slash}"}}')
    [rule] = of_kind(objects, "PrometheusRule")
    [plain] = of_kind(rendered(more='monitoring={"enabled": true}'), "PrometheusRule")
    asked = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    shipped = [one for group in plain["spec"]["groups"] for one in group["rules"]]
    assert len(asked) == len(shipped) > 0
    for one, before in zip(asked, shipped, strict=True):
        path = before["annotations"]["runbook_url"]
        link = {**before["annotations"], "runbook_url": f"{base}/{path}"}
        assert one == {**before, "annotations": link}


def test_alerts_and_dashboards_are_shipped_as_they_are() -> None:
    objects = rendered(more='monitoring={"enabled": true, "dashboards": true}')
    [rule] = of_kind(objects, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "rules" / "alerts.yaml").read_text())
    boards = {
        name: content
        for one in of_kind(objects, "ConfigMap")
        for name, content in one["data"].items()
        if one["metadata"]["labels"]["grafana_dashboard"] == "1"
    }
    there = {p.name: p.read_text() for p in (CHART / "dashboards").glob("*.json")}
    assert boards == there
    more = {"grafanaDashboards": True, "grafanaSelector": {"dashboards": "rewards"}}
    resources = of_kind(rendered(more=f"monitoring={json.dumps(more)}"), "GrafanaDashboard")
    assert sorted(one["spec"]["json"] for one in resources) == sorted(there.values())
    selectors = [one["spec"]["instanceSelector"] for one in resources]
    assert selectors == [{"matchLabels": {"dashboards": "rewards"}}] * len(there)


def test_keda_is_asked_for_the_metric_that_the_planner_serves() -> None:
    objects = rendered(more='scaler="keda"')
    service = named(objects, "Service", "planner")
    port = next(p["port"] for p in service["spec"]["ports"] if p["name"] == "keda")
    for one in of_kind(objects, "ScaledObject"):
        [trigger] = one["spec"]["triggers"]
        address = f"{service['metadata']['name']}.{NAMESPACE}:{port}"
        assert trigger["metadata"]["scalerAddress"] == address
        assert trigger["metadata"]["stage"] in stages_file()["stages"]
    planner = named(objects, "Deployment", "planner")
    assert planner["spec"]["replicas"] == 2
    own = environment(planner["spec"]["template"])
    assert own["ASSAY_PLANNER__KUBERNETES__KEDA_ADDRESS"] == f"$(POD_IP):{port}", "for the standby"


def test_the_test_of_a_release_scores_a_real_batch(tmp_path: Path) -> None:
    [pod] = [t for n, t in pods(rendered()) if n.endswith("-test")]
    [container] = pod["spec"]["containers"]
    script = container["args"][0].replace('--url "$ASSAY_URL" ', "")
    assert script != container["args"][0], "here it starts a platform of its own"
    script = script.replace("/tmp/", f"{tmp_path}/")
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                 "HOME": str(tmp_path), "ASSAY_DATA_DIR": str(tmp_path / "data")}  # fmt: skip
    done = subprocess.run(
        [*container["command"], script], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_keda_shows_a_certificate_or_the_network_admits_it_alone() -> None:
    def planner(more: str) -> tuple[dict[str, str], tuple[Any, ...]]:
        objects = rendered(more=more)
        pod = named(objects, "Deployment", "planner")
        env = pod["spec"]["template"]["spec"]["containers"][0]["env"]
        return {one["name"]: one.get("value", "") for one in env}, objects

    ours = "ASSAY_PLANNER__KUBERNETES__"
    env, objects = planner('scaler="keda",keda={"tlsSecret": "keda-tls"}')
    assert env[f"{ours}TLS_CLIENT_CA"] == "/etc/assay/keda/ca.crt"
    assert f"{ours}KEDA_OPEN" not in env
    shown = {one["metadata"]["name"] for one in of_kind(objects, "TriggerAuthentication")}
    asked = {
        one["spec"]["triggers"][0]["authenticationRef"]["name"]
        for one in of_kind(objects, "ScaledObject")
    }
    assert shown == asked != set()
    env, objects = planner('scaler="keda"')
    assert env[f"{ours}KEDA_OPEN"] == "true"
    assert not of_kind(objects, "TriggerAuthentication")
    env, _ = planner("")
    assert f"{ours}KEDA_OPEN" not in env


def test_workers_of_the_api_have_a_token_of_their_stage_and_no_way_to_the_store() -> None:
    given = {"keySecret": "keys", "tokenSecret": "tokens"}
    objects = rendered(more=f"workerApi={json.dumps(given)}")
    api = named(objects, "Deployment", "api")["spec"]["template"]
    settings = load_settings(environment(api) | {"ASSAY_OPERATOR__TOKENS": "[]"})
    assert settings.reward.worker_key_file == Path("/etc/assay/workers/worker.keys")
    ports = {port["port"] for port in named(objects, "Service", "api")["spec"]["ports"]}
    assert settings.reward.worker_port in ports
    for one in workers(objects):
        template = one["spec"]["template"]
        found = environment(template)
        assert found["ASSAY_WORKER__API"] == f"lab-assay-api:{settings.reward.worker_port}"
        assert "lab-assay-store" not in json.dumps(template)
        [store] = [p for p in of_kind(objects, "NetworkPolicy")
                   if p["metadata"]["name"].endswith("-store")
                   and "Ingress" in p["spec"]["policyTypes"]]  # fmt: skip
        [rule] = store["spec"]["ingress"]
        assert not any(selected({"spec": peer}, template["metadata"]["labels"])
                       for peer in rule["from"])  # fmt: skip
    assert "keys" not in json.dumps([one["spec"] for one in workers(objects)])


@pytest.mark.parametrize("major", [3, 4])
def test_workers_of_the_api_without_tokens_are_refused(major: int) -> None:
    done = ask(major, "template", "lab", str(CHART), "--set", "workerApi.keySecret=keys")
    assert done.returncode != 0
    assert "workerApi.tokenSecret" in done.stderr


@pytest.mark.parametrize("values", VALUES, ids=STEPS)
def test_an_eviction_leaves_one_of_each_service_that_has_two(values: str) -> None:
    objects = rendered(values)
    budgets = of_kind(objects, "PodDisruptionBudget")
    services = [
        one for one in of_kind(objects, "Deployment") if one["spec"].get("replicas", 0) >= 2
    ]
    assert services or "small" in values
    for one in services:
        labels = one["spec"]["template"]["metadata"]["labels"]
        [own] = [
            budget
            for budget in budgets
            if budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
        ]
        assert own["spec"]["maxUnavailable"] == 1
