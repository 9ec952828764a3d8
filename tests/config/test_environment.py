"""The variables of the environment become the tree that pydantic-settings would make of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from assay.config.environment import SettingError, read_tree
from assay.config.settings import NOT_SETTINGS, Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "ASSAY_"
Path = tuple[str, ...]


class Theirs(Settings, BaseSettings):
    """The tree as pydantic-settings wants it."""

    model_config = SettingsConfigDict(defer_build=True)


def fields(branch: type[BaseModel], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every branch and leaf with its type."""
    for name, field in branch.model_fields.items():
        kind: Any = field.annotation
        yield (*above, name), kind
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, (*above, name))


ALL = dict(fields(Settings))
BRANCHES = [path for path, kind in ALL.items() if any(p[:-1] == path for p in ALL)]
MAPPINGS = [path for path, kind in ALL.items() if get_origin(kind) is dict]
TEXTS = [path for path, kind in ALL.items() if kind in {str, int, float, bool, int | None}]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab_", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text("ab", min_size=1, max_size=2), JSON, max_size=3)


def variable(path: Path, upper: bool) -> str:
    name = PREFIX + "__".join(path)
    return name.upper() if upper else name.lower()


@st.composite
def environments(draw: st.DrawFn) -> dict[str, str]:
    """Branches and mappings as JSON, and leaves in variables of their own.

    None of the JSON is inside of another: what pydantic-settings makes of that depends on the order
    of the variables.
    """
    found: dict[str, str] = {}
    whole = draw(st.lists(st.sampled_from([*BRANCHES, *MAPPINGS]), max_size=3, unique=True))
    for path in [one for one in whole if not any(one[:n] in whole for n in range(1, len(one)))]:
        value = draw(OBJECTS)
        for leaf in draw(st.lists(st.sampled_from([p[-1] for p in TEXTS]), max_size=2)):
            value[leaf] = draw(JSON)
        found[variable(path, draw(st.booleans()))] = json.dumps(value)
    for path in draw(st.lists(st.sampled_from(TEXTS), max_size=5, unique=True)):
        found[variable(path, draw(st.booleans()))] = draw(st.text('1{[ab"_ ', max_size=4))
    return found


def theirs(environment: Mapping[str, str]) -> dict[str, Any]:
    source = EnvSettingsSource(Theirs, env_prefix=PREFIX, env_nested_delimiter="__")
    source.env_vars = {name.lower(): value for name, value in environment.items()}
    return source()


@given(environment=environments())
def test_the_tree_is_that_of_pydantic_settings(environment: dict[str, str]) -> None:
    ours = read_tree(Settings, environment, prefix=PREFIX, ignored=NOT_SETTINGS)
    assert ours == theirs(environment)


def test_of_two_variables_the_inner_one_wins_in_any_order() -> None:
    inner = {"ASSAY_PLANNER__KUBERNETES__DEPLOYMENTS": '{"a": "own"}'}
    outer = {"ASSAY_PLANNER__KUBERNETES": '{"deployments": {"a": "x", "b": "y"}}'}
    for environment in (inner | outer, outer | inner):
        made = load_settings(environment).planner.kubernetes.deployments
        assert made == {"a": "own", "b": "y"}


def test_an_entry_of_a_mapping_of_branches_has_variables_of_its_own() -> None:
    environment = {
        "ASSAY_REWARD__TENANTS": json.dumps({"red": {"weight": 2}, "blue": {}}),
        "ASSAY_REWARD__TENANTS__RED__CERTIFICATE_NAMES": json.dumps(["red.example"]),
    }
    red = load_settings(environment).reward.tenants["red"]
    assert (red.weight, red.certificate_names) == (2.0, frozenset({"red.example"}))
    with pytest.raises(SettingError, match="RED__CERTIFICATE_NAMES is not JSON"):
        load_settings({"ASSAY_REWARD__TENANTS__RED__CERTIFICATE_NAMES": "red.example"})
