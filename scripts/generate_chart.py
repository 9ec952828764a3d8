"""Write what the Helm chart takes from the code: `python scripts/generate_chart.py [OUT]`.

`files/stages.json` has the stages of the built-in pipelines with what a slot needs,
`values.schema.json` the values with every leaf of the settings tree, `README.md` a table of the
values. `tests/kubernetes/test_chart.py` proves that what is committed is fresh.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from assay.config.settings import Settings
from assay.verifiers.registry import load_pipelines, stages_of

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "assay"
Schema = dict[str, Any]

CHARTS_OWN = re.compile(
    r"^(data_dir|operator\..*|store\.url|planner\.(host|grpc_port|http_port|scaler|enabled"
    r"|kubernetes\.(namespace|deployments|warm_pools|selector|pool_label|slots_per_pod.*|kubeconfig|keda_.*|tls_.*)"
    r"|slots_(min|max)_by_stage)|reward\.(host|grpc_port|http_port|probe_port|planner_address|worker_key_file|worker_port|tenants|tenants_file|tls_.*)"
    r"|worker\.(host|control_host|control_port|http_port|api|api_token_file|api_ca|slots|slots_by_stage|slots_max|stages"
    r"|drain_s)|rollout\.(host|grpc_port|http_port|gateway_port|model|engine_url|engine_dialect|engine_token|reward_url|drain_s|tls_.*))$"
)
"""Settings that the templates set, that are secrets, or whose service the chart does not run."""

OPEN = {"type": "object"}
LABEL = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
LABEL_TEXT: Schema = {"type": "string", "pattern": f"^{LABEL}$"}
LABELS: Schema = {"type": "object", "additionalProperties": LABEL_TEXT}
NAME: Schema = {"type": "string", "pattern": r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$"}
"""Of an object; empty: none."""
OWN_NAME: Schema = {"type": "string", "pattern": r"^([a-z]([-a-z0-9]{0,61}[a-z0-9])?)?$"}
"""What names of Services begin with."""
IMAGE: Schema = {"type": "string", "pattern": r"^[a-z0-9][A-Za-z0-9._/:@-]*$"}
QUANTITY = r"[0-9]+(\.[0-9]+)?([eE][0-9]+|m|k|[KMGTPE]i?)?"
TEXT_QUANTITY: Schema = {"type": "string", "pattern": f"^{QUANTITY}$"}
AMOUNTS: Schema = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "number", "minimum": 0}, TEXT_QUANTITY]},
}
NAMES: Schema = {"type": "array", "items": {**NAME, "minLength": 1}}
CIDRS: Schema = {
    "type": "array",
    "items": {"type": "string", "pattern": r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"},
}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
STRINGS: Schema = {"type": "array", "items": {"type": "string"}}
OF_A_STAGE: Schema = {"$ref": "#/$defs/workersOfAStage"}
RESOURCES: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": dict.fromkeys(("requests", "limits"), AMOUNTS),
}
BY_NAME: Mapping[str, Schema] = {
    "scaler": {"enum": ["planner", "keda", "hpa", "none"]},
    "isolation": {"enum": ["hardened", "namespaced", "gvisor"]},
    "engineDialect": {"enum": ["assay", "vllm", "sglang"]},
    "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "digests": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            role: {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
            for role in ("api", "planner", "worker", "rollout")
        },
    },
    "seccompProfile": {
        "type": "object",
        "required": ["type"],
        "additionalProperties": False,
        "properties": {
            "type": {"enum": ["Unconfined", "RuntimeDefault", "Localhost"]},
            "localhostProfile": {"type": "string"},
        },
    },
    "nodeSelector": LABELS,
    "annotations": TEXTS,
    "labels": LABELS,
    "grafanaSelector": LABELS,
    "resources": RESOURCES,
    "tolerations": OBJECTS,
    "pullSecrets": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"name": {**NAME, "minLength": 1}},
        },
    },
    "parentRefs": OBJECTS,
    "hostnames": STRINGS,
    "storeCidrs": CIDRS,
    "apiServerCidrs": CIDRS,
    "callers": NAMES,
    "namespaces": NAMES,
    **dict.fromkeys(
        (
            *("existingSecret", "tlsSecret", "keySecret", "tokenSecret", "engineTokenSecret"),
            *("className", "runtimeClassName", "priorityClassName", "storageClassName"),
            *("modelClaim", "host", "warmPool"),
        ),
        NAME,
    ),
    **dict.fromkeys(("nameOverride", "fullnameOverride"), OWN_NAME),
    "repository": IMAGE,
    "image": IMAGE,
    "type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "tag": {"type": "string", "pattern": r"^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$"},
    "kueueQueue": LABEL_TEXT,
    "interval": {"type": "string", "pattern": r"^([0-9]+(ms|[smhd]))+$"},
    "metric": {"type": "string", "pattern": r"^[A-Za-z_:][A-Za-z0-9_:.-]*$"},
    **dict.fromkeys(("scratch", "storage"), TEXT_QUANTITY),
    "storePort": {"type": "integer", "minimum": 1, "maximum": 65_535},
}


def stages() -> dict[str, Any]:
    """The stages of every built-in pipeline, and what one slot of each needs."""
    known = load_pipelines()
    return {
        "pipelines": {str(name): list(one.spec.stages) for name, one in sorted(known.items())},
        "stages": {
            str(name): {
                "cpuMillis": round(stage.spec.resources.cpu_cores * 1_000),
                "memoryMiB": -(-stage.spec.resources.memory_bytes // 1024**2),
                "gpu": stage.spec.resources.gpu,
                "foreignCode": stage.runs_untrusted_code,
            }
            for name, stage in sorted(stages_of(known).items())
        },
    }


NEEDED: Final = {
    "hpa": ["metric", "requestsPerPod"],
    "networkPolicies": ["storePort"],
    "valkey": ["storage"],
    "workers": ["scratch"],
}
"""Values that templates write into objects as they are, by branch."""


def leaves(schema: Schema, definitions: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """Dotted names of all settings with their schemas."""
    for name, field in schema.get("properties", {}).items():
        reference = field.get("$ref", "").removeprefix("#/$defs/")
        inner = definitions.get(reference, {})
        if inner.get("type") == "object" and "properties" in inner:
            yield from leaves(inner, definitions, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", {k: v for k, v in field.items() if k != "default"}


def settings_schema(tree: Schema) -> Schema:
    """Every leaf that is the operator's to set, by its dotted name."""
    found = dict(leaves(tree, tree.get("$defs", {})))
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: one for name, one in found.items() if not CHARTS_OWN.match(name)},
    }


def schema_of(value: object, name: str) -> Schema:
    """What a value may be, from its default and its name."""
    known = BY_NAME.get(name)
    if known is not None and (known.get("type") == "object" or not isinstance(value, dict)):
        return dict(known)
    if isinstance(value, dict):
        properties = {key: schema_of(inner, key) for key, inner in value.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    if isinstance(value, str):
        return {"type": "string"}
    message = f"{name}: say what it may be, in BY_NAME"
    raise ValueError(message)


def values_schema(values: Mapping[str, Any], known: Mapping[str, Any]) -> Schema:
    """The schema of `values.yaml`."""
    tree = Settings.model_json_schema()
    plain = {k: v for k, v in values.items() if k not in {"pipelines", "settings", "workers"}}
    schema = schema_of(plain, "")
    workers = {k: v for k, v in values["workers"].items() if k != "stages"}
    of_workers = schema_of(workers, "")
    of_workers["properties"]["slotsPerPod"]["minimum"] = 1
    of_stage = {**of_workers, "properties": {**of_workers["properties"], "resources": RESOURCES}}
    of_stages = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: dict(OF_A_STAGE) for name in known["stages"]},
    }
    of_workers = {**of_workers, "properties": {**of_workers["properties"], "stages": of_stages}}
    items = {"enum": sorted(known["pipelines"])}
    schema["properties"] |= {
        "pipelines": {"type": "array", "minItems": 1, "uniqueItems": True, "items": items},
        "settings": settings_schema(tree),
        "workers": of_workers,
        "global": OPEN,
    }
    # `null` takes a branch or a value away, which no template expects of these.
    schema["required"] = sorted(name for name, value in values.items() if isinstance(value, dict))
    for branch, names in NEEDED.items():
        schema["properties"][branch] |= {"required": names}
    definitions = {**tree.get("$defs", {}), "workersOfAStage": of_stage}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Assay"}
    return {**head, **schema, "$defs": definitions}


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Dotted name, default and comment of every value that has a comment or no inner values."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("#"):
            comment.append(bare.lstrip("# "))
        elif match := re.match(r"^( *)([A-Za-z]+):(.*)$", line):
            depth = len(match[1])
            path = [step for step in path if step[0] < depth] + [(depth, match[2])]
            default = match[3].strip()
            if default or comment:
                yield ".".join(name for _, name in path), default, " ".join(comment)
            comment = []
        else:
            comment = []


def readme(text: str) -> str:
    """The chart's page."""
    lines = [
        "# Assay on Kubernetes",
        "",
        "Generated by `scripts/generate_chart.py` from `values.yaml`; how the parts fit together",
        "is in [docs/kubernetes.md](../../../docs/kubernetes.md).",
        "",
        "```sh",
        "helm install assay deploy/helm/assay --namespace assay --create-namespace",
        "helm test assay --namespace assay",
        "```",
        "",
        "| value | default | meaning |",
        "|---|---|---|",
    ]
    for name, default, comment in rows(text):
        shown = f"`{default}`" if default else ""
        lines.append(f"| `{name}` | {shown} | {comment} |".replace("  |", " |"))
    return "\n".join(lines) + "\n"


def generate(out: Path) -> None:
    """Write the three files under `out`."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    known = stages()
    schema = values_schema(yaml.safe_load(text), known)
    (out / "files").mkdir(parents=True, exist_ok=True)
    for name, content in (("files/stages.json", known), ("values.schema.json", schema)):
        (out / name).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")
    (out / "README.md").write_text(readme(text), encoding="utf-8")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else CHART)
