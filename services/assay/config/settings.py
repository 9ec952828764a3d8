"""The one frozen settings tree.

Only the entry points read it (`load_settings`); each part receives its own branch. A leaf has one
name in two spellings: `settings.store.attempts_max` and `ASSAY_STORE__ATTEMPTS_MAX`. An unknown
name is an error.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from assay.config.access import AuditSettings, OperatorSettings, TenantSettings, TlsBranch
from assay.config.branch import Branch
from assay.config.environment import read_tree
from assay.config.kubernetes import KubernetesSettings
from assay.config.planning import PlanSettings
from assay.config.rollouts import RolloutSettings
from assay.config.service_links import service_links
from assay.config.telemetry import TelemetrySettings

ENV_PREFIX = "ASSAY_"
NOT_SETTINGS = frozenset(
    {
        *("ASSAY_CA", "ASSAY_CERTIFICATE", "ASSAY_KEY", "ASSAY_CUDA_CACHE"),
        *("ASSAY_ROLLOUT_API_KEY", "ASSAY_ROLLOUT_URL"),
        *("ASSAY_VENV", "ASSAY_TOKEN", "ASSAY_URL", "ASSAY_PIPELINE", "ASSAY_PIPELINE_SETTINGS"),
        *("ASSAY_TASK", "ASSAY_DEADLINE_S", "ASSAY_PATIENCE_S", "ASSAY_STEP_SIZE"),
    }
)
"""Variables of the setup script, of the client and of the trainers' adapters."""


class EnvironmentSettings(Branch):
    """An environment of the Open Reward Standard with tasks of its own."""

    pipeline: str
    """What judges its responses."""
    tasks: Path
    """JSON lines with `prompt` (text, or messages), `reference` (or a gold answer) and `split`
    (default `train`). References are not sent to clients."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Settings of the pipeline."""


class RewardSettings(TlsBranch):
    """The reward API."""

    host: str = "127.0.0.1"
    """Address to listen on. Any address other than loopback needs `tenants`."""
    grpc_port: int = Field(default=8470, ge=0, le=65_535)
    """0 = any free port."""
    http_port: int = Field(default=8471, ge=0, le=65_535)
    """0 = any free port."""
    probe_port: int | None = Field(default=None, ge=0, le=65_535)
    """Port of `/healthz` and `/readyz` alone, in plain HTTP and without a token: connections to the
    HTTP port are bounded per address, and a kubelet may share the address of many callers. Absent:
    only the HTTP port has both paths; 0 = any free port."""
    worker_key_file: Path | None = None
    """A file with secret keys, one per line of at least 32 characters, the newest first; read again
    when it changes. With it the API gives work to hosts without access to the store, on a port of
    its own; `assay worker-token` makes their tokens. Absent: there is no such port."""
    worker_port: int = Field(default=8476, ge=0, le=65_535)
    """Port of that; 0 = any free one."""
    worker_tls_client_ca: Path | None = None
    """PEM certificates of authorities; there a worker must show one of theirs beside its token."""
    worker_token_s: float = Field(default=600.0, ge=10)
    """How long the token is valid that a worker gets when it enrolls; it asks again in time."""
    worker_calls_concurrent_max: int = Field(default=8_192, gt=0)
    """Concurrent calls on that port: each waiting stage of a worker holds one. Three quarters
    of them may wait for work, and half of them with one token."""
    console: bool = True
    """Serve the web console at `/console` of the HTTP port."""
    planner_address: str = ""
    """`HOST:PORT` of a planner's gRPC, for the console and the commands that ask it; empty: that of
    `data_dir`."""
    tenants: dict[str, TenantSettings] = Field(default_factory=dict)
    """Tenant name -> tokens and quotas. Empty: one tenant `default` without a token."""
    tenants_file: Path | None = None
    """A JSON file with the same content, instead of `tenants`; read again when it changes, so that
    tokens, quotas and tenants change without a restart."""
    environments: dict[str, EnvironmentSettings] = Field(default_factory=dict)
    """Environments of the Open Reward Standard beside the pipelines; the first is the default."""
    message_bytes_max: int = Field(default=16 * 1024**2, gt=0)
    """Largest HTTP body of `Submit` and `Score`, and largest message of `SubmitParts` and
    `ScoreParts`, all parts together; other calls: 256 KiB."""
    grpc_message_bytes_max: int = Field(default=4 * 1024**2, gt=0)
    """Largest single gRPC message of `Submit` and `Score`, if `message_bytes_max` is not smaller;
    larger ones are sent in parts. gRPC's own default; receiving a message blocks all calls for some
    0.4 ms per MiB."""
    bytes_in_flight_max: int = Field(default=64 * 1024**2, gt=0)
    """Bytes of messages received and not yet stored, over all calls."""
    read_inline_bytes_max: int = Field(default=16 * 1024, ge=0)
    """Messages up to this size are parsed in the API process itself; larger ones in separate reader
    processes, so that no message blocks other calls."""
    readers_max: int = Field(default=3, ge=2)
    """Most reader processes at once; one of them is reserved for messages up to 1 MiB."""
    read_cpu_s_per_mib: float = Field(default=0.25, gt=0)
    """CPU time per MiB for reading and checking a message; at least that of 1 MiB."""
    read_memory_bytes_max: int = Field(default=192 * 1024**2, ge=64 * 1024**2)
    """Memory limit of one reader process."""
    body_s_max: float = Field(default=30.0, gt=0)
    """How long a message or body may take to arrive, from the headers to its end; also how long a
    caller may take to read a part of a response."""
    requests_per_message_max: int = Field(default=4_096, gt=0)
    """Requests in one Submit or Score."""
    response_bytes_max: int = Field(default=4 * 1024**2, gt=0)
    """Largest `response` of one request; a longer one is judged as `too_long`."""
    reference_bytes_max: int = Field(default=12 * 1024**2, gt=0)
    """Largest `reference_json` of one request."""
    messages_bytes_max: int = Field(default=4 * 1024**2, gt=0)
    """Largest transcript of one request."""
    request_artifacts_bytes_max: int = Field(default=12 * 1024**2, gt=0)
    """Largest artifacts of one request, all together."""
    deadline_default_s: float = Field(default=600.0, gt=0)
    """Deadline of a batch that names none, until there is history to derive one from."""
    deadline_min_s: float = Field(default=1.0, ge=0)
    """Earliest deadline, counted from the opening; a batch that asks for less gets this one."""
    calls_concurrent_max: int = Field(default=1_024, gt=0)
    """Concurrent calls, without streams; more are refused as saturated."""
    streams_concurrent_max: int = Field(default=512, gt=0)
    """Concurrent `StreamResults` and `SubmitStream` calls; more are refused as saturated."""
    tenant_share_max: float = Field(default=0.5, gt=0, le=1)
    """Share of calls, streams and bytes in flight that one tenant may hold. Half of each total is
    divided among the tenants and reserved for them."""
    tenant_calls_per_s_max: float = Field(default=100.0, gt=0)
    """Calls per second, refused ones included, of one tenant of several; faster calls wait."""
    tenant_bytes_per_s_max: int = Field(default=16 * 1024**2, gt=0)
    """Bytes per second of large messages of one tenant, if there are several; faster ones wait."""
    tenant_requests_per_s_max: float = Field(default=500.0, gt=0)
    """Requests stored per second of one tenant, if there are several, with a burst of one second's
    worth; faster ones wait."""
    stream_idle_s_max: float = Field(default=900.0, gt=0)
    """A stream without a message for this long ends as saturated; its caller can resume."""
    stream_s_max: float = Field(default=14_400.0, gt=0)
    """A stream of this age ends in the same way."""
    connections_max: int = Field(default=4_096, gt=0)
    """Concurrent connections on each of the two ports."""
    connections_per_peer_max: int = Field(default=256, gt=0)
    """Concurrent HTTP connections per address. One more closes that which has been without a call
    for longest; if all have calls, it is closed itself."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long calls may continue after SIGTERM."""

    @model_validator(mode="after")
    def _tenants_once(self) -> Self:
        if self.tenants and self.tenants_file is not None:
            raise ValueError("tenants and tenants_file: set only one of them")
        return self


class StoreSettings(Branch):
    """Where Valkey or Redis is, what is kept there and for how long."""

    url: str = ""
    """`redis://`, `rediss://` or `unix://`. Empty: an embedded Valkey in `data_dir`. With `rediss://`
    the server's certificate must be of a known authority:
    `rediss://HOST:PORT?ssl_ca_certs=CA.pem`; `&ssl_certfile=OWN.pem&ssl_keyfile=OWN.key` shows one
    of our own to a server that asks."""
    shard: str = "0"
    """Hash tag of all keys."""
    appendfsync: str = Field(default="everysec", pattern="^(everysec|always)$")
    """`appendfsync` of the embedded server. The end of a process, `kill -9` too, loses nothing
    acknowledged under either value. `everysec`: the log is synced each second; power loss can lose
    that second. `always`: synced before each reply; power loss loses nothing acknowledged. An
    external server has its own setting, and its `everysec` guarantees less: docs/operations.md."""
    attempts_max: int = Field(default=3, gt=0)
    """Claims per stage before a request ends as INFRA_FAILED."""
    held_s_max: float = Field(default=86_400.0, gt=0)
    """How long a worker may hold one claim, however often it renews the lease; then it is a failed
    attempt and another worker's. Longer than the longest `timeout_s` of your stages."""
    inline_bytes_max: int = Field(default=64 * 1024, gt=0)
    """Payload parts larger than this are stored once, by content hash."""
    results_kept_s: float = Field(default=3_600.0, gt=0)
    """How long a finished batch can be read."""
    batch_overdue_s: float = Field(default=3_600.0, gt=0)
    """How long past its deadline an unfinished batch is kept before its requests end as EXPIRED."""
    history_batches: int = Field(default=20, gt=0)
    """Finished batches per task that are kept for the planner."""
    dead_letters_max: int = Field(default=10_000, gt=0)
    """Dead letters per stage; the oldest are removed first."""
    dead_letters_per_tenant_max: int = Field(default=2_000, gt=0)
    """Dead letters of one tenant per stage."""
    implicit_tasks_kept_s: float = Field(default=7_200.0, ge=3_660)
    """How long a task created by a `Score` call with its own settings is kept after its last use;
    longer than the API remembers it."""
    artifact_bytes_max: int = Field(default=64 * 1024**2, gt=0)
    """Largest artifact (a compiled program)."""
    hosts_max: int = Field(default=1_024, ge=1, le=4_096)
    """Worker hosts that may be registered. One beyond works, but no planner counts or sizes it."""
    artifacts_bytes_max: int = Field(default=1024**3, gt=0)
    """Total size of all artifacts; beyond it the tenant that holds most loses its oldest first."""
    uploads_kept_s: float = Field(default=86_400.0, gt=0)
    """How long a file that was uploaded ahead is kept after it was uploaded last."""
    artifacts_kept_s: float = Field(default=3_600.0, gt=0)
    """How long an artifact is kept after it was made."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Timeout of one non-blocking call to the store."""
    start_wait_s: float = Field(default=10.0, ge=0)
    """How long a starting service waits for a store that does not answer."""
    accept_data_loss: bool = False
    """DANGER: accept a server without an append-only file; its end loses acknowledged work."""
    accept_unverified: bool = False
    """Accept a server that does not report its persistence and its eviction policy (INFO)."""


class WorkerSettings(Branch):
    """The worker host of this machine."""

    slots: int = Field(default=2, ge=0)
    """Worker slots per stage. A stage starts them with its first request, unless `stages`,
    `slots_by_stage` or `pipelines_awake` names it, or it is your own and not `on_demand`."""
    slots_by_stage: dict[str, Annotated[int, Field(ge=0)]] = Field({})
    """Other values of `slots`, by stage."""
    pipelines_awake: tuple[str, ...] = ()
    """Pipelines whose stages start with the host, so that the first request waits for no import:
    of `math` that is two seconds, of others a tenth to a quarter of one."""
    slots_max: int = Field(default=256, gt=0)
    """Most slots per stage that a resize may ask for."""
    stages: tuple[str, ...] = ()
    """Stages to serve; empty = those of all pipelines."""
    control_host: str = "127.0.0.1"
    """Address of the pool service (resize) and probes; beyond loopback needs `operator.token`."""
    control_port: int = Field(default=8472, ge=0, le=65_535)
    """0 = any free port."""
    address: str = ""
    """`host:port` under which planners reach the pool service. Empty: where it listens, or with
    `control_host` 0.0.0.0 this machine's name and that port."""
    http_port: int = Field(default=0, ge=0, le=65_535)
    """Port of the host's probes and `/metrics` (the API of this machine has the same); 0 = any."""
    api: str = ""
    """Addresses of the API's port for workers (`reward.worker_port`), `HOST:PORT` separated by
    commas, `grpcs://HOST:PORT` for TLS; such a host needs no store. Empty: the store itself."""
    api_token_file: Path | None = None
    """A file with the token for `api`, of `assay worker-token`; read again when it is needed."""
    api_ca: Path | None = None
    """PEM certificates of the authority of the API's certificate. Absent: the system's."""
    api_certificate: Path | None = None
    """PEM chain for an API that asks for it (`reward.worker_tls_client_ca`); with `api_key`."""
    api_key: Path | None = None
    """PEM private key."""
    environment: tuple[str, ...] = ()
    """Names of environment variables passed to slots in addition to the harmless ones. Handlers can
    read them, and so can code that escapes from a sandbox."""
    artifact_cache_bytes_max: int = Field(default=2 * 1024**3, gt=0)
    """Disk space in `data_dir` for artifacts fetched or made on this host."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long running work may continue after SIGTERM before it is given back."""
    reap_every_s: float = Field(default=1.0, gt=0)
    """Interval between searches for expired leases."""

    def slots_at_start(self, stage: str, *, on_demand: bool) -> int:
        """Slots of a stage when the host starts."""
        is_named = stage in self.stages
        return self.slots_by_stage.get(stage, 0 if on_demand and not is_named else self.slots)


class PlannerSettings(PlanSettings):
    """The planner: how many slots each stage has over time."""

    enabled: bool = True
    """`assay up` starts a planner; false = pools keep their size."""
    host: str = "127.0.0.1"
    """Address on which its gRPC service (plans, explanations) and its probes listen. Any address
    other than loopback needs `operator.token`."""
    grpc_port: int = Field(default=8473, ge=0, le=65_535)
    """0 = any free port."""
    http_port: int = Field(default=0, ge=0, le=65_535)
    """Port of `/healthz`, `/readyz` and `/metrics`; 0 = any free port."""
    slots_min: int | None = Field(default=None, ge=0)
    """Slots per stage that stay warm without work, so that a single `Score` call finds one. Absent:
    the worker host's start values (`worker.slots`, `worker.slots_by_stage`); 0 = scale to zero."""
    slots_min_by_stage: dict[str, Annotated[int, Field(ge=0)]] = Field({})
    """Other values of `slots_min`, by stage."""
    slots_max: int | None = Field(default=None, ge=0)
    """Most slots per stage. Absent: as many as fit into the cores and the memory of this machine,
    and never fewer than `slots_min`."""
    slots_max_by_stage: dict[str, Annotated[int, Field(ge=0)]] = Field({})
    """Other values of `slots_max`, by stage."""
    memory_mean_share_by_stage: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field({})
    """Mean memory of a stage's slots as a share of what one may use, where most use far less: so
    many fit that all memory is needed with a chance of 0.001. Absent = 1: each keeps all of it."""
    core_cost: float = Field(default=0.025, ge=0)
    """Cost of a core for a second, in GPU-seconds (the unit of a task's `trainer_cost_rate`). A
    slot-second costs its stage's cores times this, plus 1 for each of its GPUs."""
    core_cost_by_host: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Other values of `core_cost` of worker hosts whose names match a pattern (`spot-*`); the first
    that matches counts. A host's own word about its cost would attract slots."""
    startup_s: float = Field(default=1.0, ge=0)
    """Typical time from requesting a slot until it is ready, until three starts were measured."""
    startup_s_by_stage: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Other values of `startup_s`, by stage."""
    scaler: Literal["local", "kubernetes", "keda"] = "local"
    """What the pools are: `local`, the worker host of this machine; `kubernetes`, one Deployment
    per stage, sized by the planner; `keda`, the same, sized by KEDA as the planner says."""
    kubernetes: KubernetesSettings = KubernetesSettings()
    lease_s: float = Field(default=10.0, gt=0)
    """Duration of the leader's lease; a standby takes over within this time."""
    planning_s_max: float = Field(default=60.0, gt=0)
    """A planning process that does not answer for this long is killed and started again."""
    planning_idle_s: float = Field(default=300.0, gt=0)
    """After this long without work, the planning process exits and frees its memory."""
    drain_s: float = Field(default=2.0, ge=0)
    """How long calls may continue after SIGTERM."""


class SandboxSettings(Branch):
    """Isolation of untrusted code."""

    allow_unisolated: bool = False
    """DANGER: run untrusted code without isolation where the host cannot provide it. Logged."""
    uid: int = Field(default=64_001, gt=0)
    """First unprivileged uid and gid that runs use when the launcher starts as root."""
    cgroup: str = Field(default="auto", pattern="^(auto|v2|v1|none)$")
    """Which cgroup backend; `auto` takes the best that works."""
    scratch_bytes_max: int = Field(default=64 * 1024**2, gt=0)
    """Largest scratch file system of a run, regardless of its own limits."""


class JudgeProvider(Branch):
    """A server that judges for the platform: an LLM, or a reward model."""

    base_url: str = Field(pattern=r"^https?://[^/\s]+(/\S*)?$")
    """Up to and with `/v1`: `https://api.example.com/v1`."""
    model: str = Field(min_length=1)
    """Name of the model in requests."""
    api_key_env: str = ""
    """Environment variable with the key, which `worker.environment` has to pass to slots; empty: no
    key is sent."""
    check_model: bool = True
    """Refuse answers of a model whose name does not begin with `model`."""
    requests_per_minute: int = Field(default=0, ge=0)
    """Most calls per minute and tenant, of all workers together; 0 = any number."""
    tokens_per_minute: int = Field(default=0, ge=0)
    """Most tokens per minute and tenant, as estimated before a call; 0 = any number."""
    timeout_s: float = Field(default=120.0, gt=0, le=900)
    """Time of one call."""
    total_s: float = Field(default=600.0, gt=0, le=1_500)
    """Time of one call with all its attempts and waits."""
    attempts_max: int = Field(default=4, gt=0, le=20)
    """Attempts of one call."""


class LocalRewardModel(Branch):
    """A reward model that workers load themselves: a sequence classifier of transformers."""

    path: Path
    """Folder with `config.json`, safetensors and the tokenizer; nothing is downloaded."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:[0-9]{1,3})?)$")
    """Where it runs; each slot of the stage has a copy."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of its weights."""
    tokens_max: int = Field(default=4_096, gt=0, le=1_000_000)
    """Longer texts end as RESOURCE_LIMIT, as do those beyond the model's own positions."""
    batch_tokens_max: int = Field(default=16_384, gt=0, le=10_000_000)
    """Places of one padded batch; a longer text is a batch of its own."""


class VerifierSettings(Branch):
    """Limits of the built-in pipelines, set by the operator."""

    response_chars_max: int = Field(default=50_000, gt=0)
    """Text pipelines read no more of a response, without its thoughts: the end where an answer is
    looked for; the others end a longer one as RESOURCE_LIMIT."""
    math_cpu_s: float = Field(default=5.0, gt=0)
    """CPU time of one math verification."""
    match_cpu_s: float = Field(default=2.0, gt=0)
    """CPU time of one text match (`regex`, `json_schema` ...)."""
    program_paths: tuple[Path, ...] = ()
    """Directories that programs and tests of `code.python` may import from, and read as a whole."""
    program_packages: tuple[str, ...] = Field(default=(), max_length=64)
    """Packages of this environment (`numpy`) that they may import, with those these require."""
    function_paths: tuple[Path, ...] = ()
    """Directories whose modules `python_function` may import inside the sandbox (read-only)."""
    judges: dict[str, JudgeProvider] = Field(default_factory=dict)
    """Providers that tasks of `llm_judge` and `reward_model` may name."""
    reward_models: dict[str, LocalRewardModel] = Field(default_factory=dict)
    """Models that tasks of `reward_model.local` may name; needs the extra `reward-model`."""


class Settings(Branch):
    """The root; `load_settings` reads it from `ASSAY_*` environment variables."""

    data_dir: Path = Path.home() / ".local" / "share" / "assay"
    """Directory of the embedded store, sockets, scratch space and the artifact cache."""
    operator: OperatorSettings = OperatorSettings()
    audit: AuditSettings = AuditSettings()
    reward: RewardSettings = RewardSettings()
    rollout: RolloutSettings = RolloutSettings()
    store: StoreSettings = StoreSettings()
    worker: WorkerSettings = WorkerSettings()
    planner: PlannerSettings = PlannerSettings()
    sandbox: SandboxSettings = SandboxSettings()
    verifiers: VerifierSettings = VerifierSettings()
    telemetry: TelemetrySettings = TelemetrySettings()


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the tree from the environment; Kubernetes' variables of Services are passed over.

    Raises:
        SettingError: a variable such as `ASSAY_STOER__URL`, or a value that is no JSON.
        pydantic.ValidationError: a value or an inner name is wrong.
    """
    ignored = NOT_SETTINGS | service_links(environment, prefix=ENV_PREFIX)
    tree = read_tree(Settings, environment, prefix=ENV_PREFIX, ignored=ignored)
    return Settings.model_validate(tree)
