"""Who may call: tokens, roles, tenants with their quotas, the operator, TLS and the audit log."""

from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from pydantic import AwareDatetime, Field, SecretStr, model_validator

from assay.config.branch import Branch


class Role(StrEnum):
    """What a caller may do; each call names the roles that suffice (`assay.edge.access.rules`)."""

    SUBMIT = "submit"
    """Tasks, batches, requests, rollouts of its tenant."""
    READ = "read"
    """Results and states of its tenant; of the operator: metrics, plans, pools."""
    OPERATE = "operate"
    """Weights and pauses of the rollout service; of the operator: everything."""
    WORKER = "worker"
    """Of the operator only: the sizes of worker pools."""


CALLER_ROLES: Final = frozenset({Role.SUBMIT, Role.READ})
ALL_ROLES: Final = frozenset(Role)


class TokenSettings(Branch):
    """A bearer token, what it permits, and until when."""

    sha256: SecretStr
    """SHA-256 of the token, in hex; the token itself is never stored."""
    name: str = Field(default="", max_length=64)
    """Its name in the audit log; empty: the first eight digits of `sha256`."""
    roles: frozenset[Role] = CALLER_ROLES
    """What it permits: `submit`, `read`, `operate`, `worker`."""
    expires: AwareDatetime | None = None
    """The instant from which it is refused, such as `2027-01-31T00:00:00Z`. Absent: never."""


class TenantSettings(Branch):
    """A tenant's tokens, weight and quotas."""

    token_sha256: SecretStr | None = None
    """SHA-256 of the tenant's bearer token, in hex, for a tenant with one token that permits
    `submit` and `read` (and, with `operate`, that too) and never expires."""
    tokens: tuple[TokenSettings, ...] = Field(default=(), max_length=64)
    """More tokens of the tenant, each with its own roles and its end: two that overlap make a
    rotation without a gap."""
    certificate_names: frozenset[str] = frozenset()
    """Names of client certificates (subject's common name, DNS and URI names) that stand for the
    tenant where a call shows no token; needs `tls_client_ca`. They permit what `token_sha256`
    does."""
    weight: float = Field(default=1.0, ge=0.001, le=1_000.0)
    """Share of each stage relative to the other tenants with work there; also how much a second of
    its waiting trainers counts in plans. Batches keep the weight they were opened with."""
    operate: bool = False
    """Whether `token_sha256` may push and activate weights of the rollout service, and pause it:
    the trainer whose model it serves. Without `reward.tenants`, everyone may."""
    requests_open_max: int = Field(default=200_000, gt=0)
    """Open requests: accepted and not yet ended."""
    bytes_open_max: int = Field(default=4 * 1024**3, gt=0)
    """Payload bytes of open requests."""
    batches_open_max: int = Field(default=1_000, gt=0)
    """Open batches."""
    tasks_max: int = Field(default=1_000, gt=0)
    """Registered tasks. A task is forgotten 30 days after its last use; one created by a `Score`
    call with its own settings, after `store.implicit_tasks_kept_s`."""
    results_kept_max: int = Field(default=1_000_000, gt=0)
    """Results, and batches, of finished batches that can still be read; beyond that the oldest
    batches are removed before `store.results_kept_s`."""
    worker_s_per_day_max: float | None = Field(default=None, gt=0)
    """Seconds that the tenant's requests held workers in the last 24 hours. Beyond that its new
    requests are refused, with the time until enough of them are a day old; those accepted are
    judged. Absent: any."""
    uploads_bytes_max: int = Field(default=1024**3, gt=0)
    """Files uploaded ahead of their requests (`PutArtifact`), kept for `store.uploads_kept_s`."""
    calls_concurrent_max: int | None = Field(default=None, gt=0)
    """Concurrent calls without streams. Absent: its share of the service's."""
    streams_concurrent_max: int | None = Field(default=None, gt=0)
    """Open streams of results. Absent: its share of the service's."""
    calls_per_s_max: float | None = Field(default=None, gt=0)
    """Calls per second; faster ones wait. Absent: `reward.tenant_calls_per_s_max`."""
    requests_per_s_max: float | None = Field(default=None, gt=0)
    """Requests stored per second; faster ones wait. Absent: `reward.tenant_requests_per_s_max`."""


class TlsBranch(Branch):
    """Of services whose callers send tokens over a network."""

    tls_certificate: Path | None = None
    """PEM certificate chain; together with `tls_key` enables TLS on the ports of callers."""
    tls_key: Path | None = None
    """PEM private key."""
    tls_client_ca: Path | None = None
    """PEM certificates of authorities; a caller must show a certificate of one of them. Needs
    `tls_certificate`."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key: set both, or neither")
        asks = (name for name in type(self).model_fields if name.endswith("tls_client_ca"))
        asked = next((name for name in asks if getattr(self, name) is not None), "")
        if asked and self.tls_certificate is None:
            raise ValueError(f"{asked}: needs tls_certificate and tls_key")
        return self


class OperatorSettings(TlsBranch):
    """Access to the operator's ports: metrics, the pool service, the planner.

    `tls_certificate` is for these ports, and shown where a service calls another one's."""

    token: SecretStr | None = None
    """Bearer token of the operator's calls; services require it and send it to each other. Absent:
    the operator's ports listen on loopback only, and with `reward.tenants` the API does not serve
    `/metrics`."""
    token_file: Path | None = None
    """A file that holds the token, instead of `token`; read again when it changes."""
    tokens: tuple[TokenSettings, ...] = Field(default=(), max_length=64)
    """Further tokens that are accepted, such as one with the role `read` for Prometheus, or the old
    one while a new one is rolled out."""
    tls_ca: Path | None = None
    """PEM certificates of the authority that callers of these ports believe; with it, or with
    `tls_certificate`, they speak TLS. Absent: `tls_client_ca`, or else `tls_certificate` itself."""
    tls_server_name: str = ""
    """The name that callers look for in a certificate, for one that all services share. Empty: the
    host that is called."""
    allow_open_ports: bool = False
    """DANGER: listen on addresses other than loopback without requiring a token. Logged."""


class AuditSettings(Branch):
    """Who did what: one line of JSON per call that changes something, and per refused caller."""

    folder: Path | None = None
    """Where the files are. Absent: `DATA_DIR/audit` where callers need a token, and none
    elsewhere."""
    payload_calls: bool = False
    """Also `Submit` and `Score` calls, which are many."""
    file_bytes_max: int = Field(default=64 * 1024**2, ge=4096)
    """A file of this size is renamed, and a new one begun."""
    files_max: int = Field(default=8, gt=0)
    """Files kept per service and kind, the present one included."""
