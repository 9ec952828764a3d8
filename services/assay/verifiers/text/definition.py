"""Text pipelines that need no tools: `exact`, `choice`, `regex`, `json_schema`.

They share one stage, `match`. It is cheap and runs in a process that can be killed, because a
pattern or a schema can take unlimited time.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field, PrivateAttr, StrictBool, field_validator, model_validator

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.verifiers.options import Dialect, Strategy
from assay.verifiers.port import (
    Control,
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Tools,
    no_controls,
)

if TYPE_CHECKING:
    from assay.verifiers.text.dialects import Judge

MATCH: Final = StageName("match")
_PATTERN_CHARS_MAX: Final = 8_192
_SCHEMA_CHARS_MAX: Final = 1_000_000
_DOCUMENTS_MAX: Final = 64
_EXAMPLES_MAX: Final = 16
CONTROL_CPU_SHARE: Final = 0.5
"""CPU time that the controls of a reference may take, as a share of that of a match."""
CONTROL_TRIES: Final = 2
"""Of a control that is out of CPU time: the first one in a process compiles its patterns and may
meet a collection of garbage, which is no fault of the reference."""


class TextReference(Reference):
    """Base of all references in this module."""

    _digest: str = PrivateAttr(default="")

    @property
    def digest(self) -> str:
        """Set a key that identifies the content."""
        if not self._digest:
            content = self.model_dump_json(by_alias=True)
            self._digest = hashlib.sha256(content.encode()).hexdigest()
        return self._digest


class ExactSettings(PipelineSettings):
    """Where the answer is looked for, and which differences do not count."""

    strategies: tuple[Strategy, ...] = Field(default=(Strategy.WHOLE,), min_length=1)
    """Where the answer is looked for, in this order."""
    ignore_case: bool = False
    """Compare case-folded text."""
    ignore_space: bool = False
    """Compare with every run of white space as one space."""


class ExactReference(TextReference):
    """The right answers, word for word."""

    answers: tuple[str, ...] = Field(min_length=1, max_length=1_000)
    """The response passes when it equals one of them."""


class ChoiceSettings(PipelineSettings):
    """Where the label is looked for."""

    strategies: tuple[Strategy, ...] = Field(
        default=(
            Strategy.TAG,
            Strategy.BOXED,
            Strategy.HASHES,
            Strategy.ANSWER_IS,
            Strategy.ANSWER_COLON,
            Strategy.WHOLE,
        ),
        min_length=1,
    )
    """Where the answer is looked for, in this order."""


class ChoiceReference(TextReference):
    """The right label, and all labels."""

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


class RegexReference(TextReference):
    """The pattern that a response has to match."""

    pattern: str = Field(min_length=1, max_length=_PATTERN_CHARS_MAX)
    """In the syntax of Python's `re`."""
    flags: tuple[RegexFlag, ...] = ()
    """Flags of the pattern."""
    whole: bool = False
    """The pattern has to match the whole response, not a part of it."""
    is_json: bool = False
    """The whole response has to be JSON as well; a Markdown fence around it is ignored."""

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
    """Where in the response the JSON is."""

    fenced: bool = True
    """Use the last fenced block of the response named `json`, otherwise its last fenced block, if
    any; false = the whole response must be JSON."""


class JsonSchemaReference(TextReference):
    """The schema that the JSON has to satisfy."""

    json_schema: dict[str, Any] | StrictBool = Field(alias="schema")
    """JSON Schema. `$schema` selects the dialect: draft 4, 6, 7, 2019-09 or 2020-12."""
    dialect: Dialect = Dialect.DRAFT_2020_12
    """Dialect of a schema without `$schema`."""
    documents: dict[str, dict[str, Any] | StrictBool] = Field(
        default_factory=dict, max_length=_DOCUMENTS_MAX
    )
    """Other documents that the schema references, by URI, in the same dialect; none is fetched."""
    _judge: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _schema_can_judge(self) -> "JsonSchemaReference":
        if len(json.dumps([self.json_schema, self.documents])) > _SCHEMA_CHARS_MAX:
            message = f"schema and documents are longer than {_SCHEMA_CHARS_MAX} characters"
            raise ValueError(message)
        from assay.verifiers.text.schemas import SchemaRefused, prepare, shown  # heavy

        try:
            self._judge = prepare(self.json_schema, self.documents, self.dialect)
        except SchemaRefused as refused:
            place = "schema" if refused.document is None else f"documents[{refused.document!r}]"
            field = f"reference.{place}{shown(refused.path)}"
            # Not a ValueError: it names a field that pydantic does not know.
            raise InvalidRequest(f"{field}: {refused}", field=field) from None
        return self

    @property
    def judge(self) -> "Judge":
        """The compiled schema."""
        return self._judge


# -- controls ------------------------------------------------------------------------------------
_ANSWERED: Final[Mapping[Strategy, str]] = {
    Strategy.TAG: "<answer>{}</answer>",
    Strategy.BOXED: "\\boxed{{{}}}",
    Strategy.HASHES: "#### {}",
    Strategy.ANSWER_IS: "The answer is {}",
    Strategy.ANSWER_COLON: "Answer: {}",
}


def _answered(answer: str, strategies: Sequence[Strategy]) -> str:
    """A response with `answer` where the first strategy looks for it."""
    return _ANSWERED.get(strategies[0], "{}").format(answer)


def _exact_controls(reference: ExactReference, settings: ExactSettings) -> Sequence[Control]:
    gold = _answered(reference.answers[0], settings.strategies)
    return (Control(name="gold", response=gold, passes=True),)


def _choice_controls(reference: ChoiceReference, settings: ChoiceSettings) -> Sequence[Control]:
    def control(label: str) -> Control:
        passes = label == reference.answer
        name = "gold" if passes else f"label {label}"
        return Control(name=name, response=_answered(label, settings.strategies), passes=passes)

    return tuple(control(label) for label in dict.fromkeys(reference.choices))


def _schema_controls(
    reference: JsonSchemaReference, _settings: JsonSchemaSettings
) -> Sequence[Control]:
    """The schema's own `const` and `examples`, which must pass."""
    schema = reference.json_schema
    if isinstance(schema, bool):
        return ()
    examples = schema.get("examples", ())
    named = [("const", schema["const"])] if "const" in schema else []
    named += [(f"examples[{at}]", value) for at, value in enumerate(examples[:_EXAMPLES_MAX])]
    return tuple(
        Control(name=name, response=json.dumps(value), passes=True) for name, value in named
    )


CONTROLS: Final[Mapping[type[Reference], Callable[[Any, Any], Sequence[Control]]]] = {
    ExactReference: _exact_controls,
    ChoiceReference: _choice_controls,
    RegexReference: no_controls,
    JsonSchemaReference: _schema_controls,
}


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The four text pipelines on their one stage."""
    cpu_s = (1 + CONTROL_TRIES * CONTROL_CPU_SHARE) * settings.match_cpu_s
    stage = StageDefinition(
        spec=StageSpec(
            name=MATCH,
            resources=Resources(cpu_cores=0.5, memory_bytes=256 * 1024 * 1024),
            timeout_s=4 * cpu_s + 5,
            cpu_s_max=cpu_s,
            batch_max=32,
            on_demand=True,
        ),
        handler="assay.verifiers.text.match:MatchHandler",
        confined=True,
        finds_faults=True,
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
            controls=CONTROLS[reference_model],
            deterministic=True,
            tools=Tools(distributions=("jsonschema", "referencing")),
        )
