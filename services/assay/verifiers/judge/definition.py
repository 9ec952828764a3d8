"""The pipelines `llm_judge`, `llm_judge.pairwise` and `llm_judge.listwise`.

A language model judges responses by a rubric, or beside the others of their group.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from pydantic import Field

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.judge.conversation import LIST_MAX
from assay.verifiers.judge.rubric import Rubric
from assay.verifiers.port import PipelineDefinition, PipelineSettings, Reference, StageDefinition

JUDGE: Final = StageName("judge.rubric")
PAIRS: Final = StageName("judge.pairs")
LISTS: Final = StageName("judge.lists")
TEXT_CHARS_MAX: Final = 200_000
BATCH_MAX: Final = 16
_TIMEOUT_S: Final = 14_400.0
"""Far above the longest time of all calls of a batch, so that a slow server never looks like a
response that sleeps."""


class OnDrop(StrEnum):
    """What a dropped answer voids."""

    SAMPLE = "sample"
    """The sample: it gets no reward (`REJECTED_INVALID`, verdict `void`)."""
    CRITERION = "criterion"
    """The criterion: the others are the reward."""


class JudgeSettings(PipelineSettings):
    """Settings of `llm_judge`."""

    provider: str = Field(min_length=1, max_length=128)
    """One of the operator's `verifiers.judges`."""
    rubric: Rubric = Rubric()
    """Questions about every response; those of a reference replace them."""
    instructions: str = Field(default="", max_length=20_000)
    """Text for the judge before the questions."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """Of the judge."""
    tokens_max: int = Field(default=1_024, gt=0, le=100_000)
    """Longest reply."""
    votes: int = Field(default=1, gt=0, le=16)
    """Replies per response; their scores are averaged."""
    json_mode: bool = False
    """Ask for `response_format: json_object`."""
    on_drop: OnDrop = OnDrop.SAMPLE
    """What an answer under `drop` voids."""
    readings_max: int = Field(default=3, gt=0, le=10)
    """Replies without a readable verdict after which the attempt fails."""


class JudgeReference(Rubric):
    """Reference of `llm_judge`: a rubric, and what the judge may see beside the response."""

    question: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """The prompt; empty: the messages of the request before its last one."""
    answer: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """The reference answer."""


class BesideSettings(PipelineSettings):
    """What the judges of groups have in common."""

    provider: str = Field(min_length=1, max_length=128)
    """One of the operator's `verifiers.judges`."""
    criterion: str = Field(default="", max_length=20_000)
    """What makes a response better."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """Of the judge."""
    tokens_max: int = Field(default=1_024, gt=0, le=100_000)
    """Longest reply."""
    json_mode: bool = False
    """Ask for `response_format: json_object`."""
    readings_max: int = Field(default=3, gt=0, le=10)
    """Replies without a readable verdict after which the attempt fails."""


class PairSettings(BesideSettings):
    """Settings of `llm_judge.pairwise`."""

    opponents_max: int = Field(default=4, gt=0, le=64)
    """Others that each response is compared with, each in both orders."""


class ListSettings(BesideSettings):
    """Settings of `llm_judge.listwise`."""

    shuffles: int = Field(default=1, gt=0, le=4)
    """Orders in which the responses are shown, each forwards and backwards."""
    list_max: int = Field(default=16, ge=3, le=LIST_MAX)
    """Responses in one question; larger groups are asked about in several lists."""
    response_chars_max: int = Field(default=50_000, gt=0, le=TEXT_CHARS_MAX)
    """Longer responses get `reward_resource_limit`, and the judge does not see them."""


class PairReference(Reference):
    """Reference of `llm_judge.pairwise` and `llm_judge.listwise`."""

    question: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """The prompt; empty: the messages of the request before its last one."""
    answer: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """The reference answer."""


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The three pipelines."""
    del settings
    resources = Resources(cpu_cores=0.25, memory_bytes=256 * MIB)
    rubric = StageDefinition(
        spec=StageSpec(
            name=JUDGE,
            resources=resources,
            timeout_s=_TIMEOUT_S,
            batch_max=BATCH_MAX,
            on_demand=True,
        ),
        handler="assay.verifiers.judge.stage:JudgeHandler",
    )
    pairs = StageDefinition(
        spec=StageSpec(
            name=PAIRS, resources=resources, timeout_s=_TIMEOUT_S, gathers=True, on_demand=True
        ),
        handler="assay.verifiers.judge.pairs:PairHandler",
    )
    lists = StageDefinition(
        spec=StageSpec(
            name=LISTS, resources=resources, timeout_s=_TIMEOUT_S, gathers=True, on_demand=True
        ),
        handler="assay.verifiers.judge.lists:ListHandler",
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("llm_judge"),
            description="A language model answers a rubric about the response.",
            stages=(JUDGE,),
        ),
        stages=(rubric,),
        settings=JudgeSettings,
        reference=JudgeReference,
        example_reference={"question": "What is 6 times 7?", "answer": "42"},
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("llm_judge.pairwise"),
            description="A language model compares the responses of a group, in both orders.",
            stages=(PAIRS,),
        ),
        stages=(pairs,),
        settings=PairSettings,
        reference=PairReference,
        example_reference={"question": "Write a haiku about rain."},
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("llm_judge.listwise"),
            description="A language model ranks all responses of a group in one question.",
            stages=(LISTS,),
        ),
        stages=(lists,),
        settings=ListSettings,
        reference=PairReference,
        example_reference={"question": "Write a haiku about rain."},
    )
