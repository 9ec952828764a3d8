"""The settings tree reads the environment and refuses what it does not know."""

import math
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from assay.config.access import TenantSettings
from assay.config.environment import SettingError, UnknownSettingError
from assay.config.settings import RewardSettings, Settings, StoreSettings, load_settings
from assay.core.records import Quota
from assay.edge.door import DoorLimits
from assay.testing.queue_records import QueueLimits


def test_the_environment_reaches_a_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_STORE__ATTEMPTS_MAX", "7")
    assert load_settings().store.attempts_max == 7


@pytest.mark.parametrize("name", ["ASSAY_STOER__URL", "ASSAY_DATADIR"])
def test_a_misspelt_first_segment_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(UnknownSettingError, match=name):
        load_settings()


def test_a_misspelt_leaf_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_STORE__ATTEMPTSMAX", "7")
    with pytest.raises(ValidationError, match="attemptsmax"):
        load_settings()


def test_mappings_and_branches_are_json_and_a_variable_of_their_own_wins() -> None:
    settings = load_settings(
        {
            "ASSAY_STORE": '{"attempts_max": 2, "shard": "own"}',
            "ASSAY_STORE__ATTEMPTS_MAX": "7",
            "ASSAY_WORKER__STAGES": '["a", "b"]',
            "ASSAY_WORKER__SLOTS_BY_STAGE": '{"a": 1}',
            "ASSAY_WORKER__SLOTS_BY_STAGE__B": "3",
            "assay_data_dir": "[x]",
            "ASSAY_TOKEN": "of a client",
        }
    )
    assert (settings.store.attempts_max, settings.store.shard) == (7, "own")
    assert settings.worker.stages == ("a", "b")
    assert settings.worker.slots_by_stage == {"a": 1, "b": 3}
    assert str(settings.data_dir) == "[x]"


@pytest.mark.parametrize(
    ("name", "text"), [("ASSAY_WORKER__STAGES", "python.run"), ("ASSAY_REWARD__TENANTS", "{bad")]
)
def test_a_value_that_must_be_json_is_refused_with_its_name(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=name):
        load_settings({name: text})


def test_the_tree_cannot_be_changed_after_start() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().store.attempts_max = 3  # type: ignore[misc]  # the point of the test


def leaves(branch: type[BaseModel]) -> Iterator[tuple[type[BaseModel], str, Any]]:
    """Each setting of the tree: its branch, its name, its type."""
    for name, field in branch.model_fields.items():
        yield branch, name, field.annotation
        for of in (field.annotation, *get_args(field.annotation)):
            if isinstance(of, type) and issubclass(of, BaseModel):
                yield from leaves(of)


def refuses(branch: type[BaseModel], name: str, value: object) -> bool:
    try:
        branch.model_validate({name: value})
    except ValidationError as error:
        return any(one["loc"][0] == name for one in error.errors())
    return False


def test_no_number_is_infinite() -> None:
    numbers = [leaf for leaf in leaves(Settings) if "float" in str(leaf[2])]
    assert len(numbers) > 50
    for value in (math.inf, math.nan):
        given = [value, {"some": value}]
        accepted = [
            (branch.__name__, name)
            for branch, name, _ in numbers
            if not all(refuses(branch, name, one) for one in given)
        ]
        assert accepted == []


def test_no_count_per_stage_is_negative() -> None:
    counts = [leaf for leaf in leaves(Settings) if leaf[1].endswith("_by_stage")]
    assert len(counts) > 5
    assert [name for of, name, _ in counts if not refuses(of, name, {"math.verify": -1})] == []


def test_every_leaf_is_documented() -> None:
    schema = Settings.model_json_schema()
    branches = [schema, *schema["$defs"].values()]
    undocumented = [
        f"{branch.get('title')}.{name}"
        for branch in branches
        for name, leaf in branch.get("properties", {}).items()
        if "description" not in leaf and "$ref" not in leaf and name != "host"
    ]
    assert undocumented == []


@pytest.mark.parametrize("branch", ["REWARD", "ROLLOUT"])
def test_a_certificate_without_its_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    monkeypatch.setenv(f"ASSAY_{branch}__TLS_CERTIFICATE", "/etc/tls.crt")
    with pytest.raises(ValidationError, match="tls_key"):
        load_settings()


def links_of(service: str, address: str = "10.96.0.7", port: int = 8470) -> dict[str, str]:
    """What Kubernetes gives each pod for a Service with one named port."""
    url = f"tcp://{f'[{address}]' if ':' in address else address}:{port}"
    return {
        f"{service}_SERVICE_HOST": address,
        f"{service}_SERVICE_PORT": str(port),
        f"{service}_SERVICE_PORT_GRPC": str(port),
        f"{service}_PORT": url,
        f"{service}_PORT_{port}_TCP": url,
        f"{service}_PORT_{port}_TCP_PROTO": "tcp",
        f"{service}_PORT_{port}_TCP_PORT": str(port),
        f"{service}_PORT_{port}_TCP_ADDR": address,
    }


@pytest.mark.parametrize("service", ["ASSAY", "ASSAY_API", "ASSAY_PLANNER", "ASSAY_STORE__URL"])
@pytest.mark.parametrize("address", ["10.96.0.7", "fd00::7"])
def test_what_kubernetes_says_of_services_is_no_setting(service: str, address: str) -> None:
    settings = load_settings({**links_of(service, address), "ASSAY_STORE__ATTEMPTS_MAX": "7"})
    assert settings == Settings(store=StoreSettings(attempts_max=7))


@pytest.mark.parametrize(
    "more",
    [
        {"ASSAY_PROT": "tcp://10.96.0.7:8470"},
        {"ASSAY_API_PORT_X": "tcp://10.96.0.7:8470"},
        {"ASSAY_API_PORT": "8470"},
        {"ASSAY_REWARD_PORT": "8470"},
        {"ASSAY_REWARD_SERVICE_HOST": "10.96.0.7"},
        {"ASSAY_REWARD_SERVICE_HOST": "api", "ASSAY_REWARD_SERVICE_PORT": "8470"},
    ],
)
def test_a_typo_beside_services_is_refused_by_name(more: dict[str, str]) -> None:
    links = {**links_of("ASSAY"), **links_of("ASSAY_API")}
    with pytest.raises(UnknownSettingError, match=next(iter(more))):
        load_settings({**links, **more})


@pytest.mark.parametrize(
    ("kind", "settings", "shared_min"),
    [
        (Quota, TenantSettings, 7),
        (DoorLimits, RewardSettings, 3),
        (QueueLimits, StoreSettings, 4),
    ],
)
def test_what_is_made_of_settings_has_their_defaults(
    kind: Any, settings: type[BaseModel], shared_min: int
) -> None:
    own = {one.name: one.default for one in fields(kind) if one.default is not MISSING}
    told = {
        name: one.default
        for name, one in settings.model_fields.items()
        if name in own and name != "tenants"  # a number here, their settings there
    }
    assert len(told) >= shared_min
    assert {name: own[name] for name in told} == told
