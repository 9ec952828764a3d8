"""Values that no one would write, one at a time: refused, or rendered as objects that are valid.

Any value of `values.yaml`, a branch too, is replaced by any odd one. What passes for another type
in YAML, ends a line, or is a template must neither change the type of a field nor add one.
"""

import copy
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.kubernetes.chart import CHART, RESOURCES_OF_OTHERS, ask

ODD: tuple[Any, ...] = (
    "", " ", "0", "0x10", "1e3", "true", "no", "null", "~", "-", "-1", "# c", "%", "!!int 3", "&a",
    "*x", 'q"q', "q'q", "a b", "A", "a: b", "a,b", "x\n  injected: true", "{{ .Release.Name }}",
    "$(HOME)", "\u2028", "é", "x" * 70, "x" * 300, "a/b", "../x", "1.5.2.3/99", "::/0", "http://u:p@h:1/x?y#z",
    "10Gi", None, True, False, -1, 0, 1, 1.5, 2**31, 2**63, 1e308, [], {}, [""], [None], ["::/0"],
    [{"a": "b"}], {"": ""}, {"a": None}, {"a": {"b": 1}}, {"injected": "true"},
)  # fmt: skip
BASES: tuple[Mapping[str, Any], ...] = (
    {},
    {
        "scaler": "keda", "keda": {"tlsSecret": "kt"}, "monitoring": {"enabled": True},
        "rollout": {"enabled": True, "modelClaim": "m", "modelPath": "p"},
        "ingress": {"enabled": True, "host": "a.example", "tlsSecret": "i"},
        "gateway": {"enabled": True, "parentRefs": [{"name": "g"}], "hostnames": ["a.example"]},
        "workerApi": {"keySecret": "k", "tokenSecret": "t"}, "store": {"existingSecret": "s"},
        "networkPolicies": {"storeCidrs": ["10.0.0.0/8"], "callers": ["a"]},
        "operator": {"existingSecret": "o", "tlsSecret": "ot", "tlsServerName": "n"},
        "tenants": {"existingSecret": "t"}, "tls": {"existingSecret": "x"},
    },
    {
        "scaler": "hpa", "monitoring": {"enabled": True, "grafanaDashboards": True},
        "rollout": {"enabled": True, "engineUrl": "http://e:1", "engineTokenSecret": "s"},
        "workers": {"isolation": "gvisor", "kueueQueue": "q", "priorityClassName": "p"},
    },
)  # fmt: skip
"""Between them they render every template."""
CASES = 80


def places(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every value and of every branch."""
    for name, value in tree.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from places(value, (*above, name))


def changed(base: Mapping[str, Any], place: tuple[str, ...], value: object) -> dict[str, Any]:
    """The values with another one there."""
    found = copy.deepcopy(dict(base))
    branch = found
    for name in place[:-1]:
        branch = branch.setdefault(name, {})
    branch[place[-1]] = value
    return found


def names(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner)


def faults(values: Mapping[str, Any], file: Path) -> Iterator[str]:
    """What is wrong with what Helm renders of these; nothing if it refuses them."""
    file.write_text(json.dumps(values))
    done = ask(4, "template", "lab", str(CHART), "--namespace", "rewards", "--values", str(file))
    if done.returncode != 0:
        return
    for one in yaml.load_all(done.stdout, yaml.CSafeLoader):
        if one is None or one["kind"] in RESOURCES_OF_OTHERS:
            continue
        try:
            kubernetes_validate.validate(one, "1.37", strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{one['kind']}: {str(error)[:200]}"
        if "injected" in names({k: v for k, v in one.items() if k != "metadata"}):
            yield f"{one['kind']}: a field that no template has"


def test_the_bases_render(tmp_path: Path) -> None:
    for base in BASES:
        (tmp_path / "v.json").write_text(json.dumps(base))
        done = ask(4, "template", "lab", str(CHART), "--values", str(tmp_path / "v.json"))
        assert done.returncode == 0, done.stderr


def test_a_branch_that_is_taken_away_is_refused_by_its_name(tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in (name for name, value in values.items() if isinstance(value, dict)):
        (tmp_path / "v.json").write_text(json.dumps({name: None}))
        done = ask(4, "template", "lab", str(CHART), "--values", str(tmp_path / "v.json"))
        assert done.returncode != 0, name
        assert f"missing property '{name}'" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("base", "place"),
    [
        (0, ("workers", "scratch")),
        (0, ("valkey", "storage")),
        (1, ("networkPolicies", "storePort")),
        (2, ("hpa", "metric")),
        (2, ("hpa", "requestsPerPod")),
    ],
)
def test_a_value_that_objects_need_is_not_taken_away(
    base: int, place: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "v.json").write_text(json.dumps(changed(BASES[base], place, None)))
    done = ask(4, "template", "lab", str(CHART), "--values", str(tmp_path / "v.json"))
    assert done.returncode != 0
    assert f"missing property '{place[1]}'" in done.stderr, done.stderr


@pytest.mark.parametrize("seed", range(len(BASES)))
def test_an_odd_value_is_refused_or_makes_valid_objects(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    everywhere = list(places(yaml.safe_load((CHART / "values.yaml").read_text())))
    found = {}
    for _ in range(CASES):
        place, value = draw.choice(everywhere), draw.choice(ODD)
        if wrong := list(faults(changed(BASES[seed], place, value), tmp_path / "v.json")):
            found[".".join(place), repr(value)] = wrong[0]
    assert found == {}
