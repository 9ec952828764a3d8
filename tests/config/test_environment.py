"""Variables become the tree that pydantic-settings makes of them, which is asked as well."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from assay.config.environment import SettingError, read_tree
from assay.config.settings import ENV_PREFIX, NOT_SETTINGS, Settings


class Theirs(Settings, BaseSettings):
    """The same tree, as pydantic-settings wants it."""

    model_config = SettingsConfigDict(defer_build=True)


def paths(branch: type[BaseModel], before: str = "") -> Iterator[str]:
    """Names of all fields, and of entries of mappings."""
    for name, field in branch.model_fields.items():
        path = f"{before}{name}"
        yield path
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from paths(kind, f"{path}__")
        elif "dict[" in str(kind):
            yield f"{path}__some"
            value = kind.__args__[1]
            if isinstance(value, type) and issubclass(value, BaseModel):
                yield from paths(value, f"{path}__some__")


PATHS = sorted(paths(Settings))
TEXTS = st.sampled_from(
    ["", "1", "-1.5", "true", "null", "x", "[1]", '["a"]', "{}", '{"a": 1}', '{"some": {"b": 2}}',
     '{"host": "::"}', "[", '"s"', "NaN"]
)  # fmt: skip


def theirs(variables: dict[str, str]) -> object:
    """What pydantic-settings makes of them; `None`: it refuses."""
    source = EnvSettingsSource(Theirs, env_prefix=ENV_PREFIX, env_nested_delimiter="__")
    shortest_first = sorted(variables.items(), key=lambda one: (one[0].count("__"), one[0]))
    source.env_vars = {name.lower(): value for name, value in shortest_first}
    try:
        return validated(source())
    except SettingsError:
        return None


def ours(variables: dict[str, str]) -> object:
    """What is made of them here."""
    try:
        return validated(read_tree(Settings, variables, prefix=ENV_PREFIX, ignored=NOT_SETTINGS))
    except SettingError:
        return None


def validated(tree: dict[str, Any]) -> object:
    """The settings; `None`: they are refused."""
    try:
        return Settings.model_validate(tree)
    except ValidationError:
        return None


@given(variables=st.dictionaries(st.sampled_from(PATHS), TEXTS, max_size=4))
def test_variables_make_the_settings_that_pydantic_settings_makes(
    variables: dict[str, str],
) -> None:
    named = {f"{ENV_PREFIX}{path.upper()}": value for path, value in variables.items()}
    if holds_below_null(variables):
        assert ours(named) is None, "pydantic-settings forgets such a variable in silence"
    else:
        assert ours(named) == theirs(named)


def holds_below_null(variables: dict[str, str]) -> bool:
    """Whether a variable lies below one that is null."""
    nulls = [f"{path}__" for path, value in variables.items() if value == "null"]
    return any(path.startswith(null) for path in variables for null in nulls)


@pytest.mark.parametrize("text", ["1", "null", "[]", '{"some": 1}', '["a"]'])
def test_each_variable_alone_does(text: str) -> None:
    for path in PATHS:
        named = {f"{ENV_PREFIX}{path.upper()}": text}
        assert ours(named) == theirs(named), path


def test_a_variable_within_one_that_holds_nothing_is_refused_by_name() -> None:
    variables = {"ASSAY_STORE": "null", "ASSAY_STORE__URL": "redis://store"}
    with pytest.raises(SettingError, match="ASSAY_STORE__URL"):
        read_tree(Settings, variables, prefix=ENV_PREFIX, ignored=NOT_SETTINGS)


def test_variables_of_parts_without_settings_stand_beside_them() -> None:
    """The client's, the adapters', and the CUDA engine's folder, which a service may have, too."""
    client = "ASSAY_TOKEN", "ASSAY_CA", "ASSAY_ROLLOUT_URL"
    names = *client, "ASSAY_CUDA_CACHE", "ASSAY_ROLLOUT_API_KEY"
    variables = dict.fromkeys(names, "x")
    assert read_tree(Settings, variables, prefix=ENV_PREFIX, ignored=NOT_SETTINGS) == {}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-1"])
def test_the_start_up_time_of_a_stage_is_a_number_of_seconds(text: str) -> None:
    assert ours({"ASSAY_PLANNER__STARTUP_S_BY_STAGE__RUN": text}) is None
