"""The rollout runtime of the chart: its values, and the service with what the chart gives it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

pytest.importorskip("numpy")

from tests.kubernetes.chart import (
    CHART,
    Object,
    ask,
    component,
    environment,
    named,
    of_kind,
    pods,
    rendered,
)
from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.service.test_process import running

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = 'rollout={"enabled": true, "modelClaim": "models", "modelPath": "some.bin"}'
PREFIX = "ASSAY_ROLLOUT__"


def template_of(more: str) -> Any:
    [found] = [one for _, one in pods(rendered(more=more)) if component(one) == "rollout"]
    return found


def of_rollouts(policies: list[Object]) -> Object:
    [found] = [one for one in policies if one["metadata"]["name"].endswith("-rollout")]
    return found


@pytest.mark.parametrize("major", [3, 4])
@pytest.mark.parametrize("own", ["{}", '{"modelClaim": "m", "engineUrl": "http://e:1"}'])
def test_a_runtime_has_one_source_of_tokens(major: int, own: str) -> None:
    given = json.dumps({"enabled": True, **json.loads(own)})
    done = ask(major, "template", "lab", str(CHART), "--set-json", f"rollout={given}")
    assert done.returncode != 0
    assert "name a modelClaim, or the engineUrl" in done.stderr


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert not [name for name, one in pods(rendered()) if component(one) == "rollout"]
    assert not [one for one in rendered() if "rollout" in one["metadata"]["name"]]


def test_it_holds_no_credential_of_the_store_and_reaches_the_api_only() -> None:
    objects = rendered(more=LOCAL)
    found = environment(template_of(LOCAL))
    assert not {name for name in found if "STORE" in name}
    policy = of_rollouts(of_kind(objects, "NetworkPolicy"))["spec"]
    [names, api] = policy["egress"]
    assert {one["port"] for one in names["ports"]} == {53}
    assert {one["port"] for one in api["ports"]} == {8470}
    selected = api["to"][0]["podSelector"]["matchLabels"]
    assert selected["app.kubernetes.io/component"] == "api"
    address = found[f"{PREFIX}REWARD_URL"].removeprefix("grpc://")
    assert address == f"{named(objects, 'Service', '-api')['metadata']['name']}:8470"


def test_a_gpu_and_its_runtime_class_reach_the_pod_and_pods_have_names_of_their_own() -> None:
    gpu = {"limits": {"nvidia.com/gpu": 1}}
    more = (
        'rollout={"enabled": true, "engineUrl": "http://e:1", "replicas": 3,'
        f' "runtimeClassName": "nvidia", "resources": {json.dumps(gpu)}}}'
    )
    spec = template_of(more)["spec"]
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    [many] = [
        one for one in of_kind(rendered(more=more), "StatefulSet") if "rollout" in str(one["spec"])
    ]
    service = named(rendered(more=more), "Service", "-rollout")
    assert (many["spec"]["serviceName"], service["spec"]["clusterIP"]) == (
        service["metadata"]["name"],
        "None",
    )


async def test_the_service_runs_with_what_the_chart_gives_it(tmp_path: Path) -> None:
    """With the mounts of the pod as folders, on loopback."""
    write_checkpoint(tmp_path / "some.bin", dim=64, hidden=176, layers=2, positions=128)
    token = "t" * 32
    digest = hashlib.sha256(token.encode()).hexdigest()
    (tmp_path / "tenants.json").write_text(json.dumps({"a": {"token_sha256": digest}}))
    (tmp_path / "token").write_text("operator" * 4)
    [container] = template_of(LOCAL)["spec"]["containers"]
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    files = {
        "/models/some.bin": tmp_path / "some.bin",
        "/etc/assay/tenants/tenants.json": tmp_path / "tenants.json",
        "/etc/assay/operator/token": tmp_path / "token",
    }
    given = environment(template_of(LOCAL))
    for path, file in files.items():
        [name] = [key for key, value in given.items() if value == path]
        assert any(path.startswith(f"{one}/") for one in mounts), path
        given[name] = str(file)
    given |= {f"{PREFIX}HOST": "127.0.0.1", "ASSAY_ROLLOUT__TOKENS_MAX": "64"}
    del given["ASSAY_DATA_DIR"]
    async with (
        running(tmp_path / "data", given) as where,
        httpx.AsyncClient(base_url=where["http"]) as http,
    ):
        for probe in ("startupProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            assert (await http.get(path)).status_code == 200
        assert (await http.get("/metrics")).status_code == 401
        headers = {"authorization": f"Bearer {'operator' * 4}"}
        assert "assay_rollouts" in (await http.get("/metrics", headers=headers)).text
