"""The one frozen settings tree.

Only the entry points read it (`Settings()` reads the environment); each part receives its own
branch. A leaf has one name in three spellings: `settings.store.attempts_max`,
`ASSAY_STORE__ATTEMPTS_MAX`, Helm `store.attempts_max`. A name that no leaf has is an error.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from assay.config.branch import Branch
from assay.config.planning import PlanSettings

ENV_PREFIX = "ASSAY_"
NOT_SETTINGS = frozenset({"ASSAY_VENV", "ASSAY_TOKEN"})
"""Variables of the set-up script and of the client."""


class TenantSettings(Branch):
    """Who may call, and how much they may hold."""

    token_sha256: SecretStr
    """SHA-256 of the tenant's bearer token, in hex; the token itself is never kept."""
    weight: float = Field(default=1.0, ge=0.001, le=1_000.0, allow_inf_nan=False)
    """Its share of each stage against the other tenants that have work there, and how much a second
    of its waiting trainers counts in plans; batches keep the weight they were opened with."""
    requests_open_max: int = Field(default=200_000, gt=0)
    """Requests accepted and not ended."""
    bytes_open_max: int = Field(default=4 * 1024**3, gt=0)
    """Payload bytes of those."""
    batches_open_max: int = Field(default=1_000, gt=0)
    """Batches not over."""
    tasks_max: int = Field(default=1_000, gt=0)
    """Tasks registered; one is forgotten 30 days after it was last used, one that a `Score` with
    settings of its own made after `store.implicit_tasks_kept_s`."""
    results_kept_max: int = Field(default=1_000_000, gt=0)
    """Results, and batches, of batches that are over and can still be read; beyond that the oldest
    batches go before `store.results_kept_s`."""


class RewardSettings(Branch):
    """The reward API."""

    host: str = "127.0.0.1"
    """Address to listen on. Other than loopback needs `tenants`."""
    grpc_port: int = Field(default=8470, ge=0, le=65_535)
    """0 = any free port."""
    http_port: int = Field(default=8471, ge=0, le=65_535)
    """0 = any free port."""
    tenants: dict[str, TenantSettings] = Field(default_factory=dict)
    """Tenant name -> token and quotas. Empty: one tenant `default` without a token."""
    message_bytes_max: int = Field(default=16 * 1024**2, gt=0)
    """Largest gRPC message or HTTP body of `Submit` and `Score`; of other calls: 256 KiB."""
    bytes_in_flight_max: int = Field(default=64 * 1024**2, gt=0)
    """Bytes of messages that were received and not yet stored, of all calls together."""
    read_inline_bytes_max: int = Field(default=16 * 1024, ge=0)
    """Messages up to this size are read in the API itself; larger ones in processes of their own,
    so that no message holds up other calls."""
    readers_max: int = Field(default=3, ge=2)
    """Those processes at once; one of them is kept for messages up to 1 MiB."""
    read_cpu_s_per_mib: float = Field(default=0.25, gt=0, allow_inf_nan=False)
    """CPU time that reading and checking a message may take per MiB of it, and at least for one."""
    read_memory_bytes_max: int = Field(default=192 * 1024**2, ge=64 * 1024**2)
    """Memory of one of those processes."""
    body_s_max: float = Field(default=30.0, gt=0)
    """How long a message or body may take to arrive, from the headers to its end; also how long a
    caller may take to read a part of an answer."""
    requests_per_message_max: int = Field(default=4_096, gt=0)
    """Requests in one Submit or Score."""
    response_bytes_max: int = Field(default=4 * 1024**2, gt=0)
    """Largest `response` of one request."""
    reference_bytes_max: int = Field(default=12 * 1024**2, gt=0)
    """Largest `reference_json` of one request."""
    deadline_default_s: float = Field(default=600.0, gt=0)
    """Deadline of a batch that names none, until history says better."""
    deadline_min_s: float = Field(default=1.0, ge=0)
    """Earliest deadline, counted from the opening: a batch that asks for less is given this."""
    calls_concurrent_max: int = Field(default=1_024, gt=0)
    """Calls at once, without streams; more are refused as saturated."""
    streams_concurrent_max: int = Field(default=512, gt=0)
    """Open `StreamResults` and `SubmitStream` at once; more are refused as saturated."""
    tenant_share_max: float = Field(default=0.5, gt=0, le=1)
    """Share of calls, streams and bytes in flight that one tenant may hold. Half of each total is
    divided among the tenants and kept for them, whatever the others do."""
    tenant_calls_per_s_max: float = Field(default=100.0, gt=0)
    """Calls per second of one of several tenants, refused ones too; what comes faster waits."""
    tenant_bytes_per_s_max: int = Field(default=16 * 1024**2, gt=0)
    """Bytes per second of large messages of one of several tenants; what comes faster waits."""
    tenant_requests_per_s_max: float = Field(default=500.0, gt=0)
    """Requests per second of one of several tenants that are stored, one second's worth at once;
    what comes faster waits."""
    stream_idle_s_max: float = Field(default=900.0, gt=0)
    """A stream without a message for so long ends as saturated; its caller goes on from its
    cursor."""
    stream_s_max: float = Field(default=14_400.0, gt=0)
    """So does one that is this old."""
    connections_max: int = Field(default=4_096, gt=0)
    """Connections at once, on each of the two ports."""
    connections_per_peer_max: int = Field(default=256, gt=0)
    """HTTP connections of one address at once; more are closed at once."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long calls may go on after SIGTERM."""
    tls_certificate: Path | None = None
    """PEM chain; with `tls_key` switches TLS on."""
    tls_key: Path | None = None
    """PEM private key."""


class RolloutSettings(Branch):
    """The rollout service. Its tenants are `reward.tenants`."""

    host: str = "127.0.0.1"
    """Address to listen on. Other than loopback needs `reward.tenants`."""
    grpc_port: int = Field(default=8480, ge=0, le=65_535)
    """0 = any free port."""
    http_port: int = Field(default=8481, ge=0, le=65_535)
    """Of `/healthz`, `/readyz` and `/metrics`. 0 = any free port."""
    model: Path | None = None
    """A Hugging Face folder, a .gguf file or a llama2.c .bin checkpoint."""
    tokenizer: Path | None = None
    """Where the tokenizer is, if not with the model."""
    slots: int = Field(default=64, gt=0, le=65_536)
    """Rollouts at once: those that decode and those that wait for rewards."""
    batch_max: int = Field(default=16, gt=0, le=256)
    """Rollouts in one step of the engine."""
    threads: int = Field(default=0, ge=0, le=256)
    """Threads of a step; 0 = chosen by the model's size."""
    tokens_max: int = Field(default=1_024, gt=0)
    """Tokens of prompt and response together."""
    groups_open_max: int = Field(default=4_096, gt=0)
    """Groups of one session that were submitted and not acknowledged by its reader."""
    reward_url: str = "127.0.0.1:8470"
    """Where the reward service listens."""
    reward_wait_s: float = Field(default=600.0, gt=0)
    """How long a response waits for its reward before it ends as INFRA_FAILED, if its session does
    not say."""
    message_bytes_max: int = Field(default=16 * 1024**2, gt=0)
    """Largest message of `SubmitPrompts` and `PushWeights`; of other calls: 256 KiB."""
    bytes_in_flight_max: int = Field(default=128 * 1024**2, gt=0)
    """Bytes of messages that were received and not yet used, of all calls together."""
    calls_concurrent_max: int = Field(default=256, gt=0)
    """Calls at once, without streams."""
    streams_concurrent_max: int = Field(default=128, gt=0)
    """Open `StreamGroups` and `PushWeights` at once."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long calls may go on after SIGTERM."""


class OperatorSettings(Branch):
    """Who may use the operator's ports: metrics, the pool service, the planner."""

    token: SecretStr | None = None
    """Bearer token of the operator's calls; services ask for it and show it to each other. Absent:
    the operator's ports listen on loopback only, and with `reward.tenants` the API shows no
    `/metrics`."""
    token_file: Path | None = None
    """A file that holds the token, instead of `token`."""
    allow_open_ports: bool = False
    """DANGER: listen on other addresses than loopback without asking for a token. Logged."""


class StoreSettings(Branch):
    """Valkey/Redis."""

    url: str = ""
    """`redis://`, `rediss://` or `unix://`. Empty: an embedded Valkey in `data_dir`."""
    shard: str = "0"
    """Hash tag of all keys."""
    appendfsync: str = Field(default="everysec", pattern="^(everysec|always)$")
    """Of the embedded server; the end of a process, `kill -9` too, loses nothing acknowledged under
    either. `everysec`: its log is synced each second, which is what power loss may take. `always`:
    synced before each answer; power loss takes nothing that was acknowledged. A server of your own
    has its own setting, and its `everysec` promises less: docs/operations.md."""
    attempts_max: int = Field(default=3, gt=0)
    """Claims of one stage before a request ends as INFRA_FAILED."""
    inline_bytes_max: int = Field(default=64 * 1024, gt=0)
    """Payload parts larger than this are stored once, by content hash."""
    results_kept_s: float = Field(default=3_600.0, gt=0)
    """How long a finished batch can still be read."""
    batch_overdue_s: float = Field(default=3_600.0, gt=0)
    """How long past its deadline an unfinished batch is kept before its requests end as EXPIRED."""
    history_batches: int = Field(default=20, gt=0)
    """Finished batches a task that are kept for the planner."""
    dead_letters_max: int = Field(default=10_000, gt=0)
    """Dead letters per stage; the oldest go first."""
    dead_letters_per_tenant_max: int = Field(default=2_000, gt=0)
    """Of those, one tenant's."""
    implicit_tasks_kept_s: float = Field(default=7_200.0, ge=3_660)
    """How long a task that a `Score` with settings of its own made is kept after its last use;
    longer than the API remembers it."""
    artifact_bytes_max: int = Field(default=64 * 1024**2, gt=0)
    """Largest artifact (a compiled program)."""
    artifacts_bytes_max: int = Field(default=1024**3, gt=0)
    """All artifacts together; the oldest go first."""
    artifacts_kept_s: float = Field(default=3_600.0, gt=0)
    """How long an artifact is kept after it was made."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Of one non-blocking call to the store."""
    start_wait_s: float = Field(default=10.0, ge=0)
    """How long a service that starts waits for a store that does not answer, before it gives up."""
    accept_data_loss: bool = False
    """DANGER: take a server without an append-only file, whose end loses acknowledged work."""
    accept_unverified: bool = False
    """Take a server that does not tell its persistence and its eviction policy (INFO)."""


class WorkerSettings(Branch):
    """The worker host of this machine."""

    slots: int = Field(default=2, ge=0)
    """Worker slots a stage at start."""
    slots_by_stage: dict[str, int] = Field(default_factory=dict)
    """Stages that start with another number."""
    slots_max: int = Field(default=256, gt=0)
    """Most slots a stage that a resize may ask for."""
    stages: tuple[str, ...] = ()
    """Stages to serve; empty = those of all pipelines."""
    control_host: str = "127.0.0.1"
    """Where the internal pool service (resize) and probes listen. Other than loopback needs
    `operator.token`."""
    control_port: int = Field(default=8472, ge=0, le=65_535)
    """0 = any free port."""
    http_port: int = Field(default=0, ge=0, le=65_535)
    """`/healthz`, `/readyz` and `/metrics` of the host; 0 = any free port (the API of this machine
    shows the same metrics)."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that slots are given beside the harmless ones. Handlers see
    them, and so might what breaks out of one."""
    artifact_cache_bytes_max: int = Field(default=2 * 1024**3, gt=0)
    """Disk space in `data_dir` for artifacts fetched or made here."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long running work may go on after SIGTERM before it is given back."""
    reap_every_s: float = Field(default=1.0, gt=0)
    """How often expired leases are looked for."""


class PlannerSettings(PlanSettings):
    """The planner: how many slots each stage has at each moment."""

    enabled: bool = True
    """`assay up` starts a planner; false = pools keep their size."""
    host: str = "127.0.0.1"
    """Where its gRPC (plans, explanations) and probes listen. Other than loopback needs
    `operator.token`."""
    grpc_port: int = Field(default=8473, ge=0, le=65_535)
    """0 = any free port."""
    http_port: int = Field(default=0, ge=0, le=65_535)
    """`/healthz`, `/readyz` and `/metrics`; 0 = any free port."""
    slots_min: int | None = Field(default=None, ge=0)
    """Slots per stage that stay warm without work, so that a lone `Score` finds one. Absent: what
    the worker host starts with (`worker.slots`, `worker.slots_by_stage`); 0 = down to nothing."""
    slots_min_by_stage: dict[str, int] = Field(default_factory=dict)
    """Other values of `slots_min`, by stage."""
    slots_max: int | None = Field(default=None, ge=0)
    """Most slots per stage. Absent: as many as fit into the cores and the memory of this
    machine, and never below `slots_min`."""
    slots_max_by_stage: dict[str, int] = Field(default_factory=dict)
    """Other values of `slots_max`, by stage."""
    core_cost: float = Field(default=0.025, ge=0, allow_inf_nan=False)
    """Cost of a core for a second, in GPU-seconds (the unit of a task's `trainer_cost_rate`). A
    slot-second costs its stage's cores times this, and 1 for each of its GPUs."""
    startup_s: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Typical time from ordering a slot to its readiness."""
    startup_s_by_stage: dict[str, float] = Field(default_factory=dict)
    """Other values of `startup_s`, by stage."""
    lease_s: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    """The leader's lease on planning; a standby takes over within this time."""
    planning_s_max: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    """A planning process that does not answer for so long is killed and started again."""
    planning_idle_s: float = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Without work for so long, the planning process ends and gives its memory back."""
    drain_s: float = Field(default=2.0, ge=0)
    """How long calls may continue after SIGTERM."""


class SandboxSettings(Branch):
    """Isolation of untrusted code."""

    allow_unisolated: bool = False
    """DANGER: run untrusted code without isolation where the host cannot give it. Said loudly."""
    uid: int = Field(default=64_001, gt=0)
    """First unprivileged uid and gid that runs use when the launcher starts as root."""
    cgroup: str = Field(default="auto", pattern="^(auto|v2|v1|none)$")
    """Which cgroup backend; `auto` takes the best that works."""
    scratch_bytes_max: int = Field(default=64 * 1024**2, gt=0)
    """Largest scratch file system of a run, whatever its own limits say."""


class VerifierSettings(Branch):
    """Limits of the built-in pipelines that the operator sets."""

    response_chars_max: int = Field(default=50_000, gt=0)
    """Longer answers end as RESOURCE_LIMIT in the text pipelines."""
    math_cpu_s: float = Field(default=5.0, gt=0)
    """CPU time of one math verification."""
    match_cpu_s: float = Field(default=2.0, gt=0)
    """CPU time of one text match (`regex`, `json_schema` ...)."""
    program_paths: tuple[Path, ...] = ()
    """Directories with packages that programs and tests of `code.python` may import, such as the
    `site-packages` of an environment with NumPy. Programs can read all that lies there."""
    function_paths: tuple[Path, ...] = ()
    """Directories whose modules `python_function` may import inside the sandbox (read-only)."""


class TelemetrySettings(Branch):
    """Logs, metrics, traces."""

    log_level: str = "info"
    """debug, info, warning, error."""
    log_json: bool = True
    """One JSON object a line; false = for people."""
    otlp_endpoint: str = ""
    """OpenTelemetry collector (gRPC); empty = no spans."""


class Settings(BaseSettings):
    """The root; reads `ASSAY_*` from the environment."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
    )

    data_dir: Path = Path.home() / ".local" / "share" / "assay"
    """Embedded store, sockets, scratch space, artifact cache."""
    operator: OperatorSettings = OperatorSettings()
    reward: RewardSettings = RewardSettings()
    rollout: RolloutSettings = RolloutSettings()
    store: StoreSettings = StoreSettings()
    worker: WorkerSettings = WorkerSettings()
    planner: PlannerSettings = PlannerSettings()
    sandbox: SandboxSettings = SandboxSettings()
    verifiers: VerifierSettings = VerifierSettings()
    telemetry: TelemetrySettings = TelemetrySettings()


class UnknownSettingError(ValueError):
    """An environment variable with our prefix that no leaf of the tree has."""


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the tree from the environment.

    pydantic refuses a misspelt leaf but silently skips a misspelt first segment; this does not.

    Raises:
        UnknownSettingError: `ASSAY_STOER__URL`.
        pydantic.ValidationError: a value or an inner name is wrong.
    """
    known = {name.upper() for name in Settings.model_fields}
    for name in sorted(environment):
        upper = name.upper()
        if not upper.startswith(ENV_PREFIX) or upper in NOT_SETTINGS:
            continue
        if upper.removeprefix(ENV_PREFIX).split("__")[0] not in known:
            raise UnknownSettingError(name)
    return Settings()
