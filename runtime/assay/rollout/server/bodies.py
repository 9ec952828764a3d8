"""Request and response bodies: the fields of vLLM's `/v1/completions`, and Assay's additions.

A field that this engine would have to ignore is refused, unless its value disables it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from assay.rollout.errors import InvalidRollout
from assay.rollout.interface.checks import U32_MAX, U64_MAX
from assay.rollout.interface.rollouts import GroupOptions, Sampling
from assay.rollout.layout import RolloutOutcome, Stop

if TYPE_CHECKING:
    from assay.rollout.models.tokenizer import Tokenizer

MAX_TOKENS_DEFAULT = 16
"""The API's name of the field."""
FINISH_REASONS = {Stop.LENGTH: "length", Stop.ID: "stop", Stop.STRING: "stop"}
PAUSE_MODES = Literal["keep", "wait", "abort"]


class Body(BaseModel):
    """A request body; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StreamOptions(Body):
    """OpenAI's `stream_options`."""

    include_usage: bool = False
    continuous_usage_stats: Literal[False] = False


class SamplingBody(Body):
    """What completions and chat completions have in common."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    user: str | None = None
    # What would change the distribution is taken only where it does not.
    logit_bias: dict[str, Literal[0]] | None = None
    presence_penalty: Literal[0] = 0
    frequency_penalty: Literal[0] = 0
    repetition_penalty: Literal[1] = 1
    min_tokens: Literal[0] = 0

    def sampling(self) -> Sampling:
        """The distribution that tokens are sampled from."""
        return Sampling(
            temperature=self.temperature,
            top_k=max(self.top_k, 0),
            top_p=self.top_p,
            min_p=self.min_p,
        )

    def stop_ids(self, tokenizer: Tokenizer | None) -> list[int]:
        """The requested stop ids, and the model's own."""
        ids = list(self.stop_token_ids or ())
        if tokenizer is not None and not self.ignore_eos:
            ids += [token for token in tokenizer.eos_ids if token not in ids]
        return ids

    def stop_strings(self) -> list[str]:
        """The requested stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class CompletionBody(SamplingBody):
    """`POST /v1/completions`; one prompt, one response."""

    model: str | None = None
    prompt: str | list[int]
    max_tokens: int = Field(MAX_TOKENS_DEFAULT, ge=1)
    seed: int = Field(0, ge=-(1 << 63), le=U64_MAX)
    """Negative seeds mean seed + 2^64: vLLM's seeds are signed."""
    logprobs: int | None = Field(None, ge=0, le=1)
    return_receipt: bool = False
    n: Literal[1] = 1
    best_of: Literal[1] | None = None
    echo: Literal[False] = False
    suffix: None = None

    def token_ids(self, tokenizer: Tokenizer | None) -> list[int]:
        """The prompt.

        Raises:
            InvalidRollout: it is text, and the model has no tokenizer.
        """
        if isinstance(self.prompt, list):
            return self.prompt
        if tokenizer is None:
            raise InvalidRollout("prompt", "token ids are needed: the model has no tokenizer")
        return tokenizer.encode(self.prompt, bos=True)

    def options(self, tokenizer: Tokenizer | None) -> GroupOptions:
        """The group of one rollout for this request."""
        return GroupOptions(
            max_tokens=self.max_tokens,
            seeds=[self.seed % (1 << 64)],
            sampling=self.sampling(),
            stop_ids=self.stop_ids(tokenizer),
            stop_strings=[stop.encode() for stop in self.stop_strings()],
            want_reward=False,
        )


class StageBody(Body):
    """`POST /stage_weights`: stage a version beside the decoding one."""

    version: int = Field(ge=0, le=U32_MAX)
    path: str


class ActivateBody(Body):
    """`POST /activate_weights`: decode with a staged version."""

    version: int = Field(ge=0, le=U32_MAX)
    mode: PAUSE_MODES = "keep"
    timeout_s: float = Field(10.0, gt=0, le=3600)


def finish_reason(outcome: RolloutOutcome, stop: Stop) -> str:
    """OpenAI's finish reasons; `abort` is vLLM's for a response that was cut short."""
    return FINISH_REASONS.get(stop, "abort") if outcome is RolloutOutcome.COMPLETED else "abort"
