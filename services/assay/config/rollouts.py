"""Settings of the rollout service, its gateway and its engine."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from assay.config.access import TlsBranch
from assay.config.branch import Branch


class GatewaySettings(Branch):
    """The gateway for agents that speak OpenAI's API, at `rollout.gateway_port`."""

    enabled: bool = True
    """The rollout service opens the gateway's port."""
    sessions_max: int = Field(default=4_096, gt=0)
    """Open sessions; one of several tenants may have half of them."""
    turns_max: int = Field(default=256, gt=0)
    """Responses of one session."""
    session_bytes_max: int = Field(default=32 * 1024**2, gt=0)
    """Memory for the captured tokens of one session."""
    idle_s_max: float = Field(default=3_600.0, gt=0)
    """A session that no call named for this long is closed; its trajectories are gone."""
    turns_concurrent_max: int = Field(default=512, gt=0)
    """Calls for completions at once, those that wait for the engine included."""
    turn_wait_s: float = Field(default=300.0, gt=0)
    """How long a turn waits for room in the engine before it is refused."""
    connections_max: int = Field(default=2_048, gt=0)
    """Connections; one address may have all of them."""
    keep_alive_s: float = Field(default=75.0, ge=0)
    """How long a connection without a call is kept: longer than clients keep theirs (openai's 5 s),
    because a call that is sent on a connection that is being closed fails."""
    body_bytes_max: int = Field(default=8 * 1024**2, gt=0)
    """Largest body of a call."""
    chat_template: Path | None = None
    """A Jinja file, for models that come without a chat template."""


class RolloutSettings(TlsBranch):
    """The rollout service. Its tenants are `reward.tenants`."""

    host: str = "127.0.0.1"
    """Address to listen on. Any address other than loopback needs `reward.tenants`."""
    grpc_port: int = Field(default=8480, ge=0, le=65_535)
    """0 = any free port."""
    http_port: int = Field(default=8481, ge=0, le=65_535)
    """Port of `/healthz`, `/readyz` and `/metrics`. 0 = any free port."""
    gateway_port: int = Field(default=8482, ge=0, le=65_535)
    """Port of the gateway for agents that speak OpenAI's API. 0 = any free port."""
    gateway: GatewaySettings = GatewaySettings()
    model: Path | None = None
    """A Hugging Face folder, a `.gguf` file or a llama2.c `.bin` checkpoint."""
    tokenizer: Path | None = None
    """Path of the tokenizer, if it is not with the model."""
    engine_url: str = ""
    """Address of a server that makes the tokens, such as `http://gpu-1:8000`; excludes `model`."""
    engine_dialect: Literal["assay", "vllm", "sglang"] = "assay"
    """Its API: of `python -m assay.rollout.server`, of vLLM or of SGLang."""
    engine_model: str = ""
    """vLLM: the name of its model."""
    engine_vocab_size: int = Field(default=0, ge=0, le=1 << 24)
    """Size of its model's vocabulary; 0 = the server says it, or else the tokenizer."""
    engine_token: SecretStr | None = None
    """Bearer token of every request to it."""
    engine_weights_dir: Path | None = None
    """Folder for pushed weights that its server sees at the same path. Absent: no pushes."""
    engine_away_s: float = Field(default=120.0, ge=0)
    """How long a rollout waits for the server while it is away, before it is tried again as a
    whole, waits as long again, and ends as INFRA_FAILED."""
    slots: int = Field(default=64, gt=0, le=65_536)
    """Concurrent rollouts: those that decode and those that wait for rewards."""
    batch_max: int = Field(default=16, gt=0, le=256)
    """Rollouts per step of the engine."""
    threads: int = Field(default=0, ge=0, le=256)
    """Threads per step; 0 = chosen by the model's size."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """What makes the tokens of `model`. `auto`: a GPU of this machine if there is one that the CUDA
    kernel runs on and the model is one that it takes, or else the CPU; `GetStatus` says which and
    why. `cuda`: that or an error. `threads`, `batch_max` and `second_slot_dir` are the CPU's."""
    adapter_rank_max: int = Field(default=32, ge=0, le=256)
    """Highest rank of a LoRA adapter on a GPU, whose memory and work for adapters grow with it; 0:
    none can be pushed. The CPU takes any."""
    gpu_sm_max: int | None = Field(default=None, gt=0)
    """Multiprocessors of the GPU for decoding, so that other kernels keep the rest. Absent: all."""
    gpu_green_sms: int | None = Field(default=None, gt=0)
    """Multiprocessors that the driver sets aside for decoding (a green context), in whole groups: 8
    on sm_90. Absent: none are."""
    weight_dtype: Literal["bf16", "f32"] = "bf16"
    """Precision of weights. Exact ratios of a float32 trainer need `f32`, at half the speed, on the
    CPU."""
    tokens_max: int = Field(default=1_024, gt=0)
    """Tokens of prompt and response together."""
    groups_open_max: int = Field(default=4_096, gt=0)
    """Groups of one session that were submitted and not yet acknowledged by its reader."""
    groups_bytes_max: int = Field(default=4 * 1024**3, gt=0)
    """Memory of groups not yet acknowledged, at their longest; of several tenants one gets half."""
    reward_url: str = "127.0.0.1:8470"
    """Address of the reward service."""
    reward_wait_s: float = Field(default=600.0, gt=0)
    """How long a response waits for its reward, then INFRA_FAILED; a session may set another."""
    reward_wait_s_max: float = Field(default=3_600.0, gt=0, le=7 * 86_400)
    """Most that it may be: a response that waits keeps its slot in the engine."""
    second_slot_dir: Path | None = None
    """Folder on a disk for pushed whole weights, where memory has room for one set of them:
    `Activate` then holds the engine while it exchanges them with those in use. Absent: they lie in
    memory beside those in use, and activation takes no longer than a token."""
    shared_dir: Path | None = None
    """Folder with weight files of trainers on this machine, such as `/dev/shm/assay`; a push may
    name a file in it. Absent: weights come in messages only."""
    message_bytes_max: int = Field(default=16 * 1024**2, gt=0)
    """Largest message of `SubmitPrompts` and `PushWeights`; other calls: 256 KiB."""
    bytes_in_flight_max: int = Field(default=128 * 1024**2, gt=0)
    """Bytes of messages received and not yet used, over all calls."""
    calls_concurrent_max: int = Field(default=256, gt=0)
    """Concurrent calls, without streams."""
    streams_concurrent_max: int = Field(default=128, gt=0)
    """Concurrent `StreamGroups` and `PushWeights` calls."""
    drain_s: float = Field(default=20.0, ge=0)
    """How long calls may continue after SIGTERM."""
