"""Authentication: a tenant, identified by the SHA-256 of its bearer token, or the operator.

The tenant comes from the token and never from a message. Without configured tenants there is one,
`default`, and no token is required. Invariant: a port that requires no token listens on loopback
only; otherwise the service does not start (`refuse_open_listener`).
"""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from assay.config.settings import OperatorSettings, TenantSettings
from assay.core.errors import Unauthenticated
from assay.core.ids import NAME_FORM, TenantId
from assay.core.records import Quota

DEFAULT_TENANT: Final = TenantId("default")
_DIGEST_FORM = re.compile(r"[0-9a-fA-F]{64}")
_BEARER = "bearer "


class OpenToAllError(ValueError):
    """The service would listen on the network without requiring a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An authenticated tenant and its quotas."""

    tenant_id: TenantId
    quota: Quota
    weight: float = 1.0
    """Share of each stage relative to the other tenants."""
    operate: bool = True
    """Whether it may change the weights of the rollout service and pause it."""


class Callers(Protocol):
    """Who may call a port."""

    @property
    def ask_for_token(self) -> bool:
        """False when everyone may call."""

    def authenticate(self, authorization: str) -> Tenant:
        """Return the caller with this `Authorization` value; raises `Unauthenticated`."""


class Tenants:
    """All tenants that may call."""

    def __init__(self, settings: Mapping[str, TenantSettings]) -> None:
        """Read the configured tenants.

        Raises:
            ValueError: a name or a digest has the wrong form.
        """
        self._by_digest = [
            (_digest(name, tenant), _tenant(name, tenant)) for name, tenant in settings.items()
        ]
        self._default = Tenant(tenant_id=DEFAULT_TENANT, quota=Quota())

    @property
    def ask_for_token(self) -> bool:
        """False when every caller is the tenant `default`."""
        return bool(self._by_digest)

    def authenticate(self, authorization: str) -> Tenant:
        """Return the tenant of an `Authorization: Bearer ...` value.

        Takes the same time for every tenant, and for an unknown token.

        Raises:
            Unauthenticated: no token, or one that no tenant has.
        """
        if not self._by_digest:
            return self._default
        shown = _shown(authorization)
        found = None
        for digest, tenant in self._by_digest:
            if hmac.compare_digest(shown, digest):
                found = tenant
        if found is None:
            raise Unauthenticated("authorization: no tenant has this token")
        return found


class Operator:
    """The operator of the platform, known by one token; without a token, every caller is."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Read the token.

        Raises:
            ValueError: the token's file cannot be read, or is empty.
        """
        self._token = _operator_token(settings)
        self._digest = hashlib.sha256(self._token.encode()).digest()
        self._tenant = Tenant(tenant_id=TenantId("operator"), quota=Quota())

    @property
    def ask_for_token(self) -> bool:
        """False when the ports are protected by listening on loopback only."""
        return bool(self._token)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of a gRPC call to an operator's port."""
        return (("authorization", f"Bearer {self._token}"),) if self._token else ()

    def authenticate(self, authorization: str) -> Tenant:
        """Return the operator.

        Raises:
            Unauthenticated: no token, or the wrong one.
        """
        if self._token and not hmac.compare_digest(_shown(authorization), self._digest):
            raise Unauthenticated("authorization: not the operator's token (operator.token)")
        return self._tenant


class MetricsReader:
    """Who may read the metrics on the tenants' port: with tenants, only the operator."""

    def __init__(self, operator: Operator, tenants: Callers) -> None:
        self._operator = operator
        self._tenants = tenants

    def admit(self, authorization: str) -> None:
        """Admit the operator, and everyone where no token is required.

        Raises:
            Unauthenticated: it is someone else, or the operator has no token.
        """
        if self._tenants.ask_for_token and not self._operator.ask_for_token:
            raise Unauthenticated("metrics: with reward.tenants, set operator.token to read them")
        self._operator.authenticate(authorization)


def refuse_open_listener(
    host: str, callers: Callers, *, setting: str, needs: str, allow: bool
) -> None:
    """Allow an address other than loopback only when callers need a token.

    Args:
        host: address to listen on.
        callers: who may call there.
        setting: the name of `host`'s setting.
        needs: the name of the setting that would require a token.
        allow: `operator.allow_open_ports`; its use is logged.

    Raises:
        OpenToAllError: `host` is not loopback and no token is required.
    """
    if callers.ask_for_token or is_loopback(host):
        return
    if allow:
        import structlog  # here: clients that only read a token log nothing

        log = structlog.get_logger(__name__)
        log.warning("port_open_to_all", setting=setting, host=host, advice=f"set {needs}")
        return
    message = f"{setting}={host} is not loopback: set {needs}, or listen on 127.0.0.1"
    raise OpenToAllError(message)


def warn_clear_tokens(host: str, certificate: Path | None, *, part: str) -> None:
    """Log that tokens cross a network in plain text, where they do.

    Args:
        host: address that `part` listens on.
        certificate: its `tls_certificate`.
        part: a branch of the settings.
    """
    if certificate is None and not is_loopback(host):
        import structlog  # as above

        log = structlog.get_logger(__name__)
        log.warning("tokens_in_the_clear", host=host, advice=f"set {part}.tls_certificate")


def in_url(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _shown(authorization: str) -> bytes:
    if not authorization.lower().startswith(_BEARER):
        raise Unauthenticated("authorization: expected `Bearer TOKEN`")
    token = authorization[len(_BEARER) :].strip()
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _operator_token(settings: OperatorSettings) -> str:
    if settings.token_file is None:
        return settings.token.get_secret_value() if settings.token else ""
    try:
        token = settings.token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"operator.token_file: {error}"
        raise ValueError(message) from error
    if not token:
        message = f"operator.token_file: {settings.token_file} is empty"
        raise ValueError(message)
    return token


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
        tasks_max=settings.tasks_max,
        results_kept_max=settings.results_kept_max,
    )
    return Tenant(
        tenant_id=TenantId(name), quota=quota, weight=settings.weight, operate=settings.operate
    )
