"""Pipelines over text that need no tool: `exact`, `choice`, `regex`, `json_schema`.

They share one stage, `match`: cheap, in a process that can be killed, since a pattern or a schema
can be made to take for ever.
"""

import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator
from pydantic import Field, field_validator, model_validator

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.verifiers.port import (
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
)
from assay.verifiers.text.answers import Strategy

MATCH: Final = StageName("match")
_PATTERN_CHARS_MAX: Final = 8_192
_SCHEMA_CHARS_MAX: Final = 1_000_000


class ExactSettings(PipelineSettings):
    """Settings of `exact`."""

    strategies: tuple[Strategy, ...] = Field(default=(Strategy.WHOLE,), min_length=1)
    """Where the answer is looked for, in this order."""
    ignore_case: bool = False
    """Compare case-folded text."""
    ignore_space: bool = False
    """Compare with every run of white space taken as one blank."""


class ExactReference(Reference):
    """Reference of `exact`."""

    answers: tuple[str, ...] = Field(min_length=1, max_length=1_000)
    """The response passes when it equals one of them."""


class ChoiceSettings(PipelineSettings):
    """Settings of `choice`."""

    strategies: tuple[Strategy, ...] = Field(
        default=(
            Strategy.TAG,
            Strategy.BOXED,
            Strategy.ANSWER_IS,
            Strategy.ANSWER_COLON,
            Strategy.WHOLE,
        ),
        min_length=1,
    )
    """Where the answer is looked for, in this order."""


class ChoiceReference(Reference):
    """Reference of `choice`."""

    answer: str = Field(min_length=1, max_length=64)
    """The right label."""
    choices: tuple[str, ...] = Field(default=("A", "B", "C", "D", "E"), min_length=2, max_length=64)
    """All labels. A response that names more than one is wrong."""

    @model_validator(mode="after")
    def _answer_is_a_choice(self) -> "ChoiceReference":
        if self.answer not in self.choices:
            raise ValueError("answer is not among choices")
        return self


class RegexFlag(StrEnum):
    """Flags of Python's `re`."""

    IGNORECASE = "ignorecase"
    MULTILINE = "multiline"
    DOTALL = "dotall"


class RegexReference(Reference):
    """Reference of `regex`."""

    pattern: str = Field(min_length=1, max_length=_PATTERN_CHARS_MAX)
    """In the syntax of Python's `re`."""
    flags: tuple[RegexFlag, ...] = ()
    """How it is read."""
    whole: bool = False
    """The pattern has to match the whole response, not a part of it."""

    @field_validator("pattern")
    @classmethod
    def _pattern_compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            message = f"not a regular expression: {error}"
            raise ValueError(message) from None
        return pattern


class JsonSchemaSettings(PipelineSettings):
    """Settings of `json_schema`."""

    fenced: bool = True
    """Take the last Markdown block of the response where there is one; false = the response must
    be JSON as it is."""


class JsonSchemaReference(Reference):
    """Reference of `json_schema`."""

    json_schema: dict[str, Any] = Field(alias="schema")
    """JSON Schema, draft 2020-12. References to other documents are never followed."""

    @field_validator("json_schema")
    @classmethod
    def _schema_is_valid(cls, schema: dict[str, Any]) -> dict[str, Any]:
        if len(json.dumps(schema)) > _SCHEMA_CHARS_MAX:
            message = f"longer than {_SCHEMA_CHARS_MAX} characters"
            raise ValueError(message)
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            message = f"not a JSON Schema: {error.message[:200]}"
            raise ValueError(message) from None
        return schema


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The four text pipelines on their one stage."""
    stage = StageDefinition(
        spec=StageSpec(
            name=MATCH,
            resources=Resources(cpu_cores=0.5, memory_bytes=256 * 1024 * 1024),
            timeout_s=4 * settings.match_cpu_s + 5,
            cpu_s_max=settings.match_cpu_s,
            batch_max=32,
        ),
        handler="assay.verifiers.text.match:MatchHandler",
        confined=True,
    )
    rows: tuple[tuple[str, str, type[PipelineSettings], type[Reference], dict[str, Any]], ...] = (
        (
            "exact",
            "The answer equals one of the reference answers.",
            ExactSettings,
            ExactReference,
            {"answers": ["Paris"]},
        ),
        (
            "choice",
            "The answer is the right label of a multiple choice.",
            ChoiceSettings,
            ChoiceReference,
            {"answer": "B", "choices": ["A", "B", "C", "D"]},
        ),
        (
            "regex",
            "The response matches a regular expression.",
            PipelineSettings,
            RegexReference,
            {"pattern": r"\bParis\b", "flags": ["ignorecase"]},
        ),
        (
            "json_schema",
            "The response is JSON that a schema accepts.",
            JsonSchemaSettings,
            JsonSchemaReference,
            {"schema": {"type": "object", "required": ["name"]}},
        ),
    )
    for name, description, settings_model, reference_model, example in rows:
        yield PipelineDefinition(
            spec=PipelineSpec(name=PipelineName(name), description=description, stages=(MATCH,)),
            stages=(stage,),
            settings=settings_model,
            reference=reference_model,
            example_reference=example,
        )
