"""Authentication: a tenant, by the SHA-256 of its bearer token or by its certificate; the operator.

The tenant comes from the token or the certificate and never from a message. Without configured
tenants there is one, `default`, and no token is required. Invariants: a port that requires no token
listens on loopback only; otherwise the service does not start (`refuse_open_listener`). A token
that was removed or has expired is refused within `watched.LOOK_EVERY_S`.
"""

import functools
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pydantic import TypeAdapter, ValidationError

from assay.config.access import (
    ALL_ROLES,
    CALLER_ROLES,
    OperatorSettings,
    Role,
    TenantSettings,
    TokenSettings,
)
from assay.config.settings import RewardSettings
from assay.core.errors import Unauthenticated, field_path
from assay.core.ids import NAME_FORM, TenantId
from assay.core.records import Quota
from assay.edge.access import rules
from assay.edge.clock import Clock

DEFAULT_TENANT: Final = TenantId("default")
OPERATOR: Final = TenantId("operator")
EXPIRED: Final = "authorization: this token has expired"
OF_ANOTHER: Final = "authorization: the certificate is that of another tenant"
SEVERAL: Final = 2
"""How many tenants a file stands for at least: their number may change."""
_DIGEST_FORM = re.compile(r"[0-9a-fA-F]{64}")
_BEARER = "bearer "
_NAME_DIGITS: Final = 8


class OpenToAllError(ValueError):
    """The service would listen on the network without requiring a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLimits:
    """A tenant's own limits at the door; `None`: what the service's settings say."""

    calls_max: int | None = None
    streams_max: int | None = None
    calls_per_s: float | None = None
    requests_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An authenticated tenant, its quotas, and what its token permits."""

    tenant_id: TenantId
    quota: Quota
    weight: float = 1.0
    """Share of each stage relative to the other tenants."""
    roles: frozenset[Role] = ALL_ROLES
    limits: OwnLimits = OwnLimits()
    shown: str = ""
    """The name of the token or certificate, for the audit log."""


class Callers(Protocol):
    """Who may call a port."""

    @property
    def ask_for_token(self) -> bool:
        """False when everyone may call."""

    def authenticate(self, authorization: str, certificate: Iterable[str] = ()) -> Tenant:
        """Return the caller with this `Authorization` value, or with a client certificate of these
        names; raises `Unauthenticated`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The holder of a token, and the end of its validity."""

    tenant: Tenant
    expires_ns: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Directory:
    """All tenants at one time."""

    tokens: Mapping[bytes, _Known] = field(default_factory=dict)
    certificates: Mapping[str, Tenant] = field(default_factory=dict)
    count: int = 0


class Tenants:
    """All tenants that may call."""

    def __init__(
        self,
        settings: Mapping[str, TenantSettings],
        *,
        file: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Read the configured tenants, or those in a file, which may change.

        Raises:
            ValueError: a name or a digest has the wrong form, or the file cannot be read.
        """
        self._clock = clock or Clock()
        self._directory = _directory(settings)
        self._watched = None
        if file is not None:
            from assay.edge.access.watched import Watched  # here: clients that only read a token

            setting = "reward.tenants_file"
            self._watched = Watched(file, _parsed, setting=setting, clock=self._clock)
        self._default = Tenant(tenant_id=DEFAULT_TENANT, quota=Quota())

    @classmethod
    def of(cls, reward: RewardSettings, clock: Clock | None = None) -> "Tenants":
        """The tenants of these settings.

        Raises:
            ValueError: they are wrong.
        """
        return cls(reward.tenants, file=reward.tenants_file, clock=clock)

    @property
    def ask_for_token(self) -> bool:
        """False when every caller is the tenant `default`. An empty file admits no one."""
        return self._watched is not None or bool(self._directory.count)

    @property
    def count(self) -> int:
        """How many there are, for limits that are divided among them; at least one."""
        if self._watched is not None:
            return max(SEVERAL, self._watched.value.count)
        return max(1, self._directory.count)

    def authenticate(self, authorization: str, certificate: Iterable[str] = ()) -> Tenant:
        """Return the tenant of an `Authorization: Bearer ...` value; without one, that of a client
        certificate with these names.

        Raises:
            Unauthenticated: no token, one that no tenant has, an expired one, or one of another
                tenant than the certificate.
        """
        if not self.ask_for_token:
            return self._default
        directory = self._directory if self._watched is None else self._watched.value
        owners = {
            tenant.tenant_id: tenant
            for name in certificate
            if (tenant := directory.certificates.get(name)) is not None
        }
        if owners and not authorization:
            if len(owners) > 1:
                raise Unauthenticated("certificate: its names belong to several tenants")
            return next(iter(owners.values()))
        tenant = _of_token(directory.tokens, authorization, self._clock.now_ns())
        if tenant is None:
            raise Unauthenticated("authorization: no tenant has this token")
        if owners and tenant.tenant_id not in owners:
            raise Unauthenticated(OF_ANOTHER)
        return tenant


class Operator:
    """The operator of the platform, known by its tokens; without a token, every caller is."""

    def __init__(self, settings: OperatorSettings, clock: Clock | None = None) -> None:
        """Read the tokens.

        Raises:
            ValueError: a digest has the wrong form; the token's file cannot be read, or is empty.
        """
        self._clock = clock or Clock()
        self.tls = settings
        self._everyone = Tenant(tenant_id=OPERATOR, quota=Quota())
        token = settings.token.get_secret_value() if settings.token else ""
        self._fixed = _token_of_operator(token) if token else None
        self._watched = None
        if settings.token_file is not None:
            from assay.edge.access.watched import Watched  # as above

            setting = "operator.token_file"
            parse = functools.partial(_operator_token, settings.token_file)
            self._watched = Watched(settings.token_file, parse, setting=setting, clock=self._clock)
        self._more = {
            digest: _Known(
                tenant=Tenant(tenant_id=OPERATOR, quota=Quota(), roles=one.roles, shown=name),
                expires_ns=_expires_ns(one),
            )
            for index, one in enumerate(settings.tokens)
            for digest, name in [_digest(one, f"operator.tokens[{index}]")]
        }

    @property
    def ask_for_token(self) -> bool:
        """False when the ports are protected by listening on loopback only."""
        return self._own() is not None or bool(self._more)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of a gRPC call to an operator's port."""
        own = self._own()
        return () if own is None else (("authorization", f"Bearer {own.token}"),)

    def authenticate(self, authorization: str, certificate: Iterable[str] = ()) -> Tenant:
        """Return the operator; a certificate alone does not make one.

        Raises:
            Unauthenticated: no token, a wrong one, or an expired one.
        """
        del certificate
        if not self.ask_for_token:
            return self._everyone
        own = self._own()
        if own is not None and hmac.compare_digest(_shown(authorization), own.digest):
            return self._everyone
        found = _of_token(self._more, authorization, self._clock.now_ns())
        if found is None:
            raise Unauthenticated("authorization: not the operator's token (operator.token)")
        return found

    def _own(self) -> "_OwnToken | None":
        return self._fixed if self._watched is None else self._watched.value


@dataclass(frozen=True, slots=True)
class _OwnToken:
    token: str
    digest: bytes


class MetricsReader:
    """Who may read the metrics on the tenants' port: with tenants, only the operator."""

    def __init__(self, operator: Operator, tenants: Callers) -> None:
        self._operator = operator
        self._tenants = tenants

    def admit(self, authorization: str) -> None:
        """Admit the operator, and everyone where no token is required.

        Raises:
            Unauthenticated: it is someone else, or the operator has no token.
            PermissionDenied: the token does not permit it.
        """
        if self._tenants.ask_for_token and not self._operator.ask_for_token:
            raise Unauthenticated("metrics: with reward.tenants, set operator.token to read them")
        admit_to_metrics(self._operator, authorization)


def admit_to_metrics(operator: Operator, authorization: str) -> None:
    """Admit an operator's token that may observe.

    Raises:
        Unauthenticated: it is not one.
        PermissionDenied: it may not.
    """
    roles = operator.authenticate(authorization).roles
    rules.check(roles, rules.METRICS, "metrics", who=OPERATOR)


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
    refuse_open_port(host, asks=callers.ask_for_token, setting=setting, needs=needs, allow=allow)


def refuse_open_port(host: str, *, asks: bool, setting: str, needs: str, allow: bool) -> None:
    """Allow an address other than loopback only to a port that `asks` who calls.

    Arguments and errors are those of `refuse_open_listener`.
    """
    if asks or is_loopback(host):
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
    """A host as a URL has it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def one_authorization(values: Iterable[str]) -> str:
    """The `Authorization` of a call that may have several; empty: it has none.

    Different ones are joined, as HTTP says, and so are no one's: a proxy, the log and this service
    could otherwise each take another one for the caller.
    """
    return ", ".join(dict.fromkeys(values))


def presented_token(authorization: str) -> str:
    """The token of an `Authorization: Bearer ...` value.

    Raises:
        Unauthenticated: it has another form.
    """
    if not authorization.lower().startswith(_BEARER):
        raise Unauthenticated("authorization: expected `Bearer TOKEN`")
    return authorization[len(_BEARER) :].strip()


def _shown(authorization: str) -> bytes:
    token = presented_token(authorization)
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _of_token(tokens: Mapping[bytes, _Known], authorization: str, now_ns: int) -> Tenant | None:
    """Who has the token.

    Found by its digest: how long that takes tells nothing about other tokens, because no one can
    choose a token by the digits of its SHA-256.
    """
    known = tokens.get(_shown(authorization))
    if known is None:
        return None
    if now_ns >= known.expires_ns:
        raise Unauthenticated(EXPIRED)
    return known.tenant


# -- reading the settings ------------------------------------------------------------------------
def _token_of_operator(token: str) -> _OwnToken:
    return _OwnToken(token, hashlib.sha256(token.encode()).digest())


def _operator_token(path: Path, content: bytes) -> _OwnToken:
    token = content.decode("utf-8").strip()  # an UnicodeDecodeError is a ValueError
    if not token:
        message = f"{path} is empty"
        raise ValueError(message)
    return _token_of_operator(token)


def _parsed(content: bytes) -> _Directory:
    """The tenants of a file.

    Raises:
        ValueError: they are wrong; the message shows none of the content.
    """
    try:
        settings = TypeAdapter(dict[str, TenantSettings]).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        message = f"{field_path(first['loc']) or 'content'}: {first['msg']}"
        raise ValueError(message) from None
    return _directory(settings)


def _directory(settings: Mapping[str, TenantSettings]) -> _Directory:
    tokens: dict[bytes, _Known] = {}
    certificates: dict[str, Tenant] = {}
    for name, tenant in settings.items():
        setting = f"reward.tenants.{name}"
        for digest, known in _tokens(name, tenant, setting):
            if digest in tokens:
                other = tokens[digest].tenant.tenant_id
                message = f"{setting}: has a token that {other!r} has too"
                raise ValueError(message)
            tokens[digest] = known
        for shown in tenant.certificate_names:
            if shown in certificates:
                other = certificates[shown].tenant_id
                message = f"{setting}.certificate_names: {shown!r} belongs to {other!r} too"
                raise ValueError(message)
            certificates[shown] = _tenant(name, tenant, _simple_roles(tenant), shown)
    return _Directory(tokens=tokens, certificates=certificates, count=len(settings))


def _tokens(name: str, tenant: TenantSettings, setting: str) -> Iterable[tuple[bytes, _Known]]:
    if tenant.token_sha256 is not None:
        only = TokenSettings(sha256=tenant.token_sha256, roles=_simple_roles(tenant))
        digest, shown = _digest(only, setting, "token_sha256")
        yield digest, _Known(tenant=_tenant(name, tenant, only.roles, shown))
    elif not tenant.tokens and not tenant.certificate_names:
        message = f"{setting}: set token_sha256, tokens or certificate_names"
        raise ValueError(message)
    for index, token in enumerate(tenant.tokens):
        digest, shown = _digest(token, f"{setting}.tokens[{index}]")
        held = _tenant(name, tenant, token.roles, shown)
        yield digest, _Known(tenant=held, expires_ns=_expires_ns(token))


def _simple_roles(tenant: TenantSettings) -> frozenset[Role]:
    return CALLER_ROLES | {Role.OPERATE} if tenant.operate else CALLER_ROLES


def _expires_ns(token: TokenSettings) -> float:
    return float("inf") if token.expires is None else token.expires.timestamp() * 1e9


def _digest(token: TokenSettings, setting: str, leaf: str = "sha256") -> tuple[bytes, str]:
    """A token's digest, and its name in the audit log."""
    digest = token.sha256.get_secret_value()
    if not _DIGEST_FORM.fullmatch(digest):
        message = f"{setting}.{leaf}: expected 64 hexadecimal digits"
        raise ValueError(message)
    return bytes.fromhex(digest), token.name or digest[:_NAME_DIGITS].lower()


def _tenant(name: str, settings: TenantSettings, roles: frozenset[Role], shown: str) -> Tenant:
    if not NAME_FORM.fullmatch(name):
        message = f"reward.tenants: {name!r} is not a name"
        raise ValueError(message)
    quota = Quota(
        requests_open_max=settings.requests_open_max,
        bytes_open_max=settings.bytes_open_max,
        batches_open_max=settings.batches_open_max,
        tasks_max=settings.tasks_max,
        results_kept_max=settings.results_kept_max,
        worker_s_per_day_max=settings.worker_s_per_day_max,
        uploads_bytes_max=settings.uploads_bytes_max,
    )
    limits = OwnLimits(
        calls_max=settings.calls_concurrent_max,
        streams_max=settings.streams_concurrent_max,
        calls_per_s=settings.calls_per_s_max,
        requests_per_s=settings.requests_per_s_max,
    )
    return Tenant(
        tenant_id=TenantId(name),
        quota=quota,
        weight=settings.weight,
        roles=roles,
        limits=limits,
        shown=shown,
    )
