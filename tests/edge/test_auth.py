"""Tenants come from tokens; no one listens to the network without asking for them."""

import contextlib
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from structlog.testing import capture_logs

from assay.config.access import OperatorSettings, TenantSettings
from assay.core.errors import Unauthenticated
from assay.edge.auth import (
    DEFAULT_TENANT,
    Callers,
    MetricsReader,
    OpenToAllError,
    Operator,
    Tenants,
    is_loopback,
    refuse_open_listener,
)


def _settings(token: str, **quota: int) -> TenantSettings:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return TenantSettings(token_sha256=SecretStr(digest), **quota)


def _listen(host: str, callers: Callers, *, allow: bool = False) -> None:
    refuse_open_listener(host, callers, setting="reward.host", needs="reward.tenants", allow=allow)


TENANTS = Tenants({"red": _settings("r3d", requests_open_max=7), "blue": _settings("blu")})


def test_the_token_says_who_is_calling_and_what_it_may_hold() -> None:
    tenant = TENANTS.authenticate("Bearer r3d")
    assert tenant.tenant_id == "red"
    assert tenant.quota.requests_open_max == 7
    assert TENANTS.authenticate("bearer blu").tenant_id == "blue"


@pytest.mark.parametrize("shown", ["", "r3d", "Bearer", "Bearer ", "Bearer red", "Basic r3d"])
def test_no_token_and_a_wrong_one_are_refused(shown: str) -> None:
    with pytest.raises(Unauthenticated):
        TENANTS.authenticate(shown)


@given(st.text())
def test_any_header_at_all_is_a_tenant_or_a_refusal(shown: str) -> None:
    with contextlib.suppress(Unauthenticated):
        assert TENANTS.authenticate(shown).tenant_id in {"red", "blue"}


def test_the_digest_itself_is_no_token() -> None:
    digest = hashlib.sha256(b"r3d").hexdigest()
    with pytest.raises(Unauthenticated):
        TENANTS.authenticate(f"Bearer {digest}")


def test_without_tenants_everybody_is_the_default() -> None:
    anonymous = Tenants({})
    assert anonymous.authenticate("").tenant_id == DEFAULT_TENANT
    assert not anonymous.ask_for_token


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_other_machines_are_not_listened_to_without_tokens(host: str) -> None:
    with pytest.raises(OpenToAllError, match=r"reward\.tenants"):
        _listen(host, Tenants({}))
    _listen(host, TENANTS)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_tokens(host: str) -> None:
    assert is_loopback(host)
    _listen(host, Tenants({}))


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "r3d"])
def test_a_digest_that_is_none_is_found_at_the_start(digest: str) -> None:
    with pytest.raises(ValueError, match=r"reward\.tenants\.red\.token_sha256"):
        Tenants({"red": TenantSettings(token_sha256=SecretStr(digest))})


def test_a_tenant_whose_name_is_none_is_found_at_the_start() -> None:
    with pytest.raises(ValueError, match="is not a name"):
        Tenants({"red team": _settings("x")})


NO_OPERATOR = Operator(OperatorSettings())
OPERATOR = Operator(OperatorSettings(token=SecretStr("0p3rator")))


def test_an_open_port_is_refused_in_one_line_that_names_the_setting_or_logged() -> None:
    with pytest.raises(OpenToAllError) as caught:
        refuse_open_listener(
            "192.0.2.7",
            NO_OPERATOR,
            setting="planner.host",
            needs="operator.token",
            allow=False,
        )
    text = str(caught.value)
    assert "planner.host=192.0.2.7" in text
    assert "operator.token" in text
    assert "\n" not in text
    with capture_logs() as logs:
        _listen("0.0.0.0", Tenants({}), allow=True)
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("port_open_to_all", "warning")
    ]


def test_the_operator_is_who_has_the_token() -> None:
    assert OPERATOR.authenticate("Bearer 0p3rator").tenant_id == "operator"
    for shown in ("", "Bearer", "Bearer r3d", "Bearer 0p3rator!"):
        with pytest.raises(Unauthenticated):
            OPERATOR.authenticate(shown)
    assert NO_OPERATOR.authenticate("").tenant_id == "operator"
    assert not NO_OPERATOR.metadata
    OPERATOR.authenticate(dict(OPERATOR.metadata)["authorization"])


def test_the_operators_token_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0p3rator\n")
    Operator(OperatorSettings(token_file=file)).authenticate("Bearer 0p3rator")
    file.write_text("\n")
    for wrong in (file, tmp_path / "none"):
        with pytest.raises(ValueError, match=r"operator\.token_file"):
            Operator(OperatorSettings(token_file=wrong))


def test_with_tenants_metrics_are_the_operators_alone() -> None:
    MetricsReader(NO_OPERATOR, Tenants({})).admit("")
    MetricsReader(OPERATOR, TENANTS).admit("Bearer 0p3rator")
    for operator, shown in (
        (NO_OPERATOR, ""),
        (NO_OPERATOR, "Bearer r3d"),
        (OPERATOR, "Bearer r3d"),
    ):
        with pytest.raises(Unauthenticated, match=r"operator\.token"):
            MetricsReader(operator, TENANTS).admit(shown)
