"""The pipelines `reward_model` and `reward_model.local`: scores of reward models, which a server or
the worker itself holds."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from pydantic import Field

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.port import (
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Tools,
)

REWARD_MODEL: Final = StageName("reward_model.score")
LOCAL_MODEL: Final = StageName("reward_model.local")
TEXT_CHARS_MAX: Final = 200_000
BATCH_MAX: Final = 32
_TIMEOUT_S: Final = 14_400.0
"""Far above the longest time of all calls of a batch: see `assay.verifiers.judge.definition`."""


class Route(StrEnum):
    """Which route of the server scores."""

    CLASSIFY = "classify"
    """`/classify` of vLLM and SGLang: the model's own outputs for the conversation."""
    SCORE = "score"
    """`/score` of vLLM: a cross-encoder of prompt and response."""
    RERANK = "rerank"
    """`/rerank` of vLLM and SGLang: responses as documents for the prompt."""


class RewardModelSettings(PipelineSettings):
    """Settings of `reward_model`; `reward_pass` is not used, and `reward_fail` only for what the
    server refuses to score."""

    provider: str = Field(min_length=1, max_length=128)
    """One of the operator's `verifiers.judges`; its `base_url` is what the route is added to."""
    route: Route = Route.CLASSIFY
    """Which route scores."""
    label: int = Field(default=0, ge=0, le=1_000)
    """Which of the model's outputs is the score, for `classify`."""
    scale: float = Field(default=1.0, ge=-1_000, le=1_000)
    """The reward is the score times this ..."""
    offset: float = Field(default=0.0, ge=-1_000, le=1_000)
    """... plus this."""
    template: str = Field(default="{question}\n\n{response}", max_length=10_000)
    """The text that is classified; `{question}` and `{response}` are replaced."""
    use_activation: bool | None = None
    """vLLM's option of this name: false for raw logits; absent: not sent."""


class LocalModelSettings(PipelineSettings):
    """Settings of `reward_model.local`; `reward_pass` and `reward_fail` are not used."""

    model: str = Field(min_length=1, max_length=128)
    """One of the operator's `verifiers.reward_models`."""
    label: int = Field(default=0, ge=0, le=1_000)
    """Which of the model's outputs (raw logits) is the score."""
    scale: float = Field(default=1.0, ge=-1_000, le=1_000)
    """The reward is the score times this ..."""
    offset: float = Field(default=0.0, ge=-1_000, le=1_000)
    """... plus this."""
    chat: bool = False
    """Put question and response into the tokenizer's chat template, in place of `template`."""
    template: str = Field(default="{question}\n\n{response}", max_length=10_000)
    """The text that is classified; `{question}` and `{response}` are replaced."""


class RewardModelReference(Reference):
    """Reference of both pipelines."""

    question: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """The prompt; empty: the messages of the request before its last one."""


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipelines `reward_model` and `reward_model.local`."""
    del settings
    local = StageDefinition(
        spec=StageSpec(
            name=LOCAL_MODEL,
            resources=Resources(cpu_cores=1.0, memory_bytes=4_096 * MIB),
            timeout_s=_TIMEOUT_S,
            batch_max=BATCH_MAX,
            on_demand=True,
        ),
        handler="assay.verifiers.reward_model.local:LocalModelHandler",
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("reward_model.local"),
            description="The score of a reward model that the worker holds (transformers).",
            stages=(LOCAL_MODEL,),
        ),
        stages=(local,),
        settings=LocalModelSettings,
        reference=RewardModelReference,
        tools=Tools(distributions=("torch", "transformers")),
        example_reference={"question": "What is 6 times 7?"},
    )
    stage = StageDefinition(
        spec=StageSpec(
            name=REWARD_MODEL,
            resources=Resources(cpu_cores=0.25, memory_bytes=256 * MIB),
            timeout_s=_TIMEOUT_S,
            batch_max=BATCH_MAX,
            on_demand=True,
        ),
        handler="assay.verifiers.reward_model.stage:RewardModelHandler",
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("reward_model"),
            description="The score of a reward model on a server (/classify, /score, /rerank).",
            stages=(REWARD_MODEL,),
        ),
        stages=(stage,),
        settings=RewardModelSettings,
        reference=RewardModelReference,
        example_reference={"question": "What is 6 times 7?"},
    )
