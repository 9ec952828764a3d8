"""The settings tree reads the environment and refuses what it does not know."""

import pytest
from pydantic import ValidationError

from assay.config.settings import Settings, UnknownSettingError, load_settings


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


def test_the_tree_cannot_be_changed_after_start() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().store.attempts_max = 3  # type: ignore[misc]  # the point of the test


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
        Settings()
