"""Who is calling: a tenant, known by the SHA-256 of its bearer token.

The tenant comes from the token and never from a message. Without configured tenants there is one,
`default`, and no token is asked for; that is allowed on loopback only.
"""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from assay.config.settings import TenantSettings
from assay.core.errors import Unauthenticated
from assay.core.ids import NAME_FORM, TenantId
from assay.core.records import Quota

DEFAULT_TENANT: Final = TenantId("default")
_DIGEST_FORM = re.compile(r"[0-9a-fA-F]{64}")
_BEARER = "bearer "


class OpenToAllError(ValueError):
    """The service would listen to the network without asking anybody for a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who is authenticated, and what it may hold."""

    tenant_id: TenantId
    quota: Quota


class Tenants:
    """All tenants that may call."""

    def __init__(self, settings: Mapping[str, TenantSettings]) -> None:
        """Read the configured tenants.

        Raises:
            ValueError: a name or a digest is not of its form.
        """
        self._by_digest = [
            (_digest(name, tenant), _tenant(name, tenant)) for name, tenant in settings.items()
        ]
        self._default = Tenant(tenant_id=DEFAULT_TENANT, quota=Quota())

    @property
    def ask_for_token(self) -> bool:
        """False when everybody is the tenant `default`."""
        return bool(self._by_digest)

    def authenticate(self, authorization: str) -> Tenant:
        """Return the tenant of an `Authorization: Bearer ...` value.

        Takes the same time whichever tenant it is, or none.

        Raises:
            Unauthenticated: no token, or one that no tenant has.
        """
        if not self._by_digest:
            return self._default
        if not authorization.lower().startswith(_BEARER):
            raise Unauthenticated("authorization: expected `Bearer TOKEN`")
        token = authorization[len(_BEARER) :].strip()
        shown = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for digest, tenant in self._by_digest:
            if hmac.compare_digest(shown, digest):
                found = tenant
        if found is None:
            raise Unauthenticated("authorization: no tenant has this token")
        return found


def refuse_open_listener(host: str, tenants: Tenants) -> None:
    """Listen to other machines only when callers are asked for a token.

    Raises:
        OpenToAllError: `host` is not loopback and there are no tenants.
    """
    if tenants.ask_for_token or is_loopback(host):
        return
    message = (
        f"reward.host={host} is not loopback: configure reward.tenants, or listen on 127.0.0.1"
    )
    raise OpenToAllError(message)


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _digest(name: str, settings: TenantSettings) -> bytes:
    digest = settings.token_sha256.get_secret_value()
    if not _DIGEST_FORM.fullmatch(digest):
        message = f"reward.tenants.{name}.token_sha256: expected 64 hexadecimal digits"
        raise ValueError(message)
    return bytes.fromhex(digest)


def _tenant(name: str, settings: TenantSettings) -> Tenant:
    if not NAME_FORM.fullmatch(name):
        message = f"reward.tenants: {name!r} is not a name"
        raise ValueError(message)
    quota = Quota(
        requests_open_max=settings.requests_open_max,
        bytes_open_max=settings.bytes_open_max,
        batches_open_max=settings.batches_open_max,
    )
    return Tenant(tenant_id=TenantId(name), quota=quota)
