"""Tenants come from tokens; nobody listens to the network without asking for them."""

import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from assay.config.settings import TenantSettings
from assay.core.errors import Unauthenticated
from assay.edge.auth import (
    DEFAULT_TENANT,
    OpenToAllError,
    Tenants,
    is_loopback,
    refuse_open_listener,
)


def _settings(token: str, **quota: int) -> TenantSettings:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return TenantSettings(token_sha256=SecretStr(digest), **quota)


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
    nobody = Tenants({})
    assert nobody.authenticate("").tenant_id == DEFAULT_TENANT
    assert not nobody.ask_for_token


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_other_machines_are_not_listened_to_without_tokens(host: str) -> None:
    with pytest.raises(OpenToAllError, match=r"reward\.tenants"):
        refuse_open_listener(host, Tenants({}))
    refuse_open_listener(host, TENANTS)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_tokens(host: str) -> None:
    assert is_loopback(host)
    refuse_open_listener(host, Tenants({}))


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "r3d"])
def test_a_digest_that_is_none_is_found_at_the_start(digest: str) -> None:
    with pytest.raises(ValueError, match=r"reward\.tenants\.red\.token_sha256"):
        Tenants({"red": TenantSettings(token_sha256=SecretStr(digest))})


def test_a_tenant_whose_name_is_none_is_found_at_the_start() -> None:
    with pytest.raises(ValueError, match="is not a name"):
        Tenants({"red team": _settings("x")})
