"""Request bodies of the gateway: sessions, and OpenAI's chat completions and completions.

Unknown fields are errors, and so are values that the engine cannot honour: an agent that asks for a
JSON schema has to learn that it does not get one. Fields without an effect on tokens are accepted.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from typing_extensions import TypedDict

from assay.rollout.interface.checks import U64_MAX
from assay.rollout.server.bodies import SamplingBody

N_MAX = 64
NAME = r"^[A-Za-z0-9._-]{1,128}$"
DEADLINE_S_MAX = 7 * 24 * 3600.0
WAIT_S_MAX = 300.0
Json = dict[str, Any]


class Strict(BaseModel):
    """Unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Loose(BaseModel):
    """Unknown fields are dropped."""

    model_config = ConfigDict(frozen=True, extra="ignore")


# -- conversations -----------------------------------------------------------------------------
# Messages are dictionaries: a conversation is validated again with every turn, and one of a model
# per message and part would cost several times as much.
class TextPart(TypedDict):
    """A part of a message's content. The models here read text only."""

    type: NotRequired[Literal["text", "input_text", "output_text"]]
    text: str


class FunctionCall(TypedDict):
    """What a tool call calls."""

    name: str
    arguments: NotRequired[str | Json | None]


class CalledTool(TypedDict):
    """A tool call in a message that the agent sends back."""

    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: FunctionCall


def _text_or(content: object, parts: ValidatorFunctionWrapHandler) -> object:
    """A text as it is, so that an error names the part and not every kind it could have been."""
    return content if isinstance(content, str) else parts(content)


class ChatMessage(TypedDict):
    """One message; unknown fields are dropped, as agents send back what they were given and more.

    `content` is a text, parts or null.
    """

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: NotRequired[Annotated[list[TextPart] | None, WrapValidator(_text_or)]]
    name: NotRequired[str | None]
    tool_calls: NotRequired[list[CalledTool] | None]
    tool_call_id: NotRequired[str | None]
    reasoning_content: NotRequired[str | None]


class ResponseFormat(Strict):
    type: Literal["text"] = "text"


class AgentBody(SamplingBody):
    """What agents send with both kinds of completion."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: object) -> object:
        """As in OpenAI's API, where most fields may be null."""
        if isinstance(data, dict) and None in data.values():
            return {name: value for name, value in data.items() if value is not None}
        return data

    model: str | None = Field(None, max_length=256)
    """Any name: agents have theirs built in. The answer names the model that is served."""
    n: int = Field(1, ge=1, le=N_MAX)
    seed: int | None = Field(None, ge=-(1 << 63), le=U64_MAX)
    max_tokens: int | None = Field(None, ge=1)
    # Hints to OpenAI's own models and service, which change nothing here.
    metadata: Json | None = None
    prediction: Json | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    reasoning_effort: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    verbosity: str | None = None


class ChatBody(AgentBody):
    """`POST .../v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=4_096)]
    tools: list[Json] | None = Field(None, max_length=512)
    functions: Annotated[list[Json], Field(max_length=0)] | None = None
    """OpenAI's older form of `tools`."""
    function_call: Literal["auto", "none"] | None = None
    modalities: list[Literal["text"]] | None = None
    tool_choice: Literal["auto", "none", "required"] | None = None
    """`required`: the reply begins with the opening of a call. One function cannot be forced."""
    parallel_tool_calls: Literal[True] | None = None
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: Literal[0] | None = None
    response_format: ResponseFormat | None = None
    chat_template_kwargs: Json | None = None
    """More variables of the chat template."""

    @property
    def tokens_max(self) -> int | None:
        """The limit of the response."""
        return self.max_completion_tokens or self.max_tokens


class AgentCompletionBody(AgentBody):
    """`POST .../v1/completions`."""

    prompt: str | list[int]
    logprobs: int | None = Field(None, ge=0, le=1)
    best_of: Literal[1] | None = None
    echo: Literal[False] = False
    suffix: None = None

    @property
    def tokens_max(self) -> int | None:
        """The limit of the response."""
        return self.max_tokens


# -- sessions ----------------------------------------------------------------------------------
class SamplingDefaults(Strict):
    """How the responses of a session are sampled where a call does not say it."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None


class SessionBody(Strict):
    """Body of `POST /sessions`."""

    session_id: str | None = Field(None, pattern=NAME)
    """Absent: chosen by the gateway."""
    pipeline: str | None = Field(None, min_length=1, max_length=128)
    """Absent: no reward."""
    settings: Json = Field(default_factory=dict)
    """Of the pipeline."""
    reference: Json = Field(default_factory=dict)
    """What the answer is judged against."""
    deadline_s: float | None = Field(None, gt=0, le=DEADLINE_S_MAX)
    """When the trainer needs the reward, from now."""
    group_id: str | None = Field(None, pattern=NAME)
    """Sessions of one group are attempts at one task; their rewards are one batch."""
    group_size: int = Field(1, ge=1, le=4_096)
    sampling: SamplingDefaults = Field(default_factory=SamplingDefaults)
    override_sampling: bool = False
    """The session's values instead of the agent's, where both are given."""
    seed: int | None = Field(None, ge=0, le=U64_MAX)
    """Turn i of the session is sampled with seed + i; absent: chosen by the gateway."""


class EndBody(Strict):
    """`POST /sessions/{id}/end`."""

    response: str | None = None
    """What is judged; absent: the text of the last turn."""
    reference: Json | None = None
    """Instead of the session's."""


class TrajectoriesQuery(Loose):
    """The query of `GET /sessions/{id}/trajectories`."""

    wait_s: float = Field(0.0, ge=0, le=WAIT_S_MAX)
    layout: Literal["json", "packed"] = "json"
    columns: bool = True


def effective(
    body: ChatBody | AgentCompletionBody, defaults: SamplingDefaults, *, override: bool
) -> ChatBody | AgentCompletionBody:
    """The call with its session's sampling where it has none of its own.

    Args:
        body: the agent's call.
        defaults: of the session.
        override: the session's values win.
    """
    if not defaults.model_fields_set:
        return body
    own = {name for name in body.model_fields_set if getattr(body, name) is not None}
    if body.tokens_max is not None:
        own.add("max_tokens")
    update = {
        name: value
        for name in SamplingDefaults.model_fields
        if (value := getattr(defaults, name)) is not None and (override or name not in own)
    }
    if "max_tokens" in update and isinstance(body, ChatBody):
        update["max_completion_tokens"] = None
    return body.model_copy(update=update)
