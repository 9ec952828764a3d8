"""The Helm chart, rendered."""

import functools
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.get_helm import helm

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "assay"
VALUES = ("", *sorted(str(path) for path in (CHART / "ci").glob("*.yaml")))
NAMESPACE = "rewards"
RESOURCES_OF_OTHERS = {
    "ScaledObject", "TriggerAuthentication", "PodMonitor", "PrometheusRule", "HTTPRoute",
    "GRPCRoute", "GrafanaDashboard",
}  # fmt: skip
"""Their schemas are not Kubernetes' own."""
Object = Mapping[str, Any]


def binary(major: int) -> Path:
    """Helm; the test is skipped where it cannot be downloaded."""
    try:
        return helm(major)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"Helm {major} cannot be downloaded: {error.stderr.decode()[-200:]}")


def ask(major: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binary(major)), *arguments], capture_output=True, text=True, check=False
    )


@functools.cache
def rendered(values: str = "", more: str = "", major: int = 4) -> tuple[Object, ...]:
    """All objects of the chart with a file of values, and further ones as JSON."""
    files = ["--values", values] if values else []
    given = ["--set-json", more] if more else []
    done = ask(major, "template", "lab", str(CHART), "--namespace", NAMESPACE, *files, *given)
    assert done.returncode == 0, done.stderr
    return tuple(one for one in yaml.safe_load_all(done.stdout) if one)


def of_kind(objects: tuple[Object, ...], *kinds: str) -> list[Object]:
    return [one for one in objects if one["kind"] in kinds]


def pods(objects: tuple[Object, ...]) -> Iterator[tuple[str, Object]]:
    """Name and pod template of everything that runs pods."""
    for one in of_kind(objects, "Deployment", "StatefulSet"):
        yield one["metadata"]["name"], one["spec"]["template"]
    for one in of_kind(objects, "Pod"):
        yield one["metadata"]["name"], one


def environment(template: Object) -> dict[str, str]:
    """Variables of the first container; what comes from a secret or a field is `given`."""
    [container] = template["spec"]["containers"]
    return {one["name"]: one.get("value", "given") for one in container.get("env", [])}


def component(template: Object) -> str:
    return str(template["metadata"]["labels"]["app.kubernetes.io/component"])


def workers(objects: tuple[Object, ...]) -> list[Object]:
    deployments = of_kind(objects, "Deployment")
    return [one for one in deployments if component(one["spec"]["template"]) == "worker"]


def named(objects: tuple[Object, ...], kind: str, end: str) -> Object:
    """The one object of this kind whose name ends so."""
    [found] = [one for one in of_kind(objects, kind) if one["metadata"]["name"].endswith(end)]
    return found


def stages_file() -> Any:
    return json.loads((CHART / "files" / "stages.json").read_text("utf-8"))
