"""The pipelines `code.checked` and `code.interactive`: programs of the reference judge.

`code.checked` gives each output to a *checker*, `code.interactive` connects the program with an
*interactor*. Both are programs of the form of testlib, in any language; neither ever shares a box's
files, memory or process namespace with the response.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.code.controls import EMPTY, GOLD, response_of
from assay.verifiers.languages.commands import AUTO, CompileLimits, Flags, SourceFile, default_flags
from assay.verifiers.languages.definition import (
    PROGRAM_COMPILE,
    PROGRAM_COMPILE_STAGE,
    CompiledSettings,
)
from assay.verifiers.languages.language import ALL_LANGUAGES, Language
from assay.verifiers.port import (
    Control,
    PipelineDefinition,
    Reference,
    StageDefinition,
    Tools,
)

JUDGED_RUN: Final = StageName("judged.run")
TESTS_MAX: Final = 1_000
SOURCE_CHARS_MAX: Final = 500_000
HEADERS_MAX: Final = 8
HEADER_CHARS_MAX: Final = 500_000
_TIMEOUT_S: Final = 8_400.0
"""As for other programs, and as much again for the judge."""

LanguageName = Literal[
    "bash", "c", "cpp", "go", "java", "javascript", "python", "rust", "typescript"
]


class JudgedSettings(CompiledSettings):
    """Settings of both pipelines."""

    language: LanguageName = "cpp"
    """The language of the response."""
    standard: str = Field(default="", pattern=r"^(auto|(c|gnu)(\+\+)?[0-9]{1,2}|20[0-9]{2})?$")
    """`-std` for C and C++, the edition for Rust; empty: `gnu17`, `auto`, `2021`. `auto`, for C++:
    the first of gnu++17, gnu++23 and gnu++14 in which the program compiles."""
    optimize: str = Field(default="2", pattern=r"^[0123s]$")
    """Optimization of C, C++ and Rust."""
    judge_cpu_s: float = Field(default=10.0, gt=0, le=60)
    """CPU time of the checker or interactor for one test."""
    total_judge_s: float = Field(default=600.0, gt=0, le=3_600)
    """CPU time and blocked time of the checker for all tests of one response; then no other test
    runs. (An interactor's time counts for `total_cpu_s` and `total_blocked_s`.)"""
    judge_memory_bytes: int = Field(default=512 * MIB, ge=32 * MIB, le=4_096 * MIB)
    """Memory of the checker. An interactor shares the box's `memory_bytes` in addition."""

    def own_language(self) -> Language:
        """The language of the response."""
        return ALL_LANGUAGES[self.language]

    def flags(self) -> Flags:
        """How the response is compiled."""
        standard = self.standard or _standard(self.own_language())
        return Flags(standard=standard, optimize=self.optimize)

    @model_validator(mode="after")
    def _auto_is_of_cpp(self) -> Self:
        if self.standard == AUTO and self.language != "cpp":
            raise ValueError("standard: auto is for language cpp")
        return self


def _standard(language: Language) -> str:
    return AUTO if language.name == "cpp" else default_flags(language).standard


class JudgeProgram(Reference):
    """A checker or an interactor."""

    language: LanguageName = "cpp"
    """Its language."""
    source: str = Field(min_length=1, max_length=SOURCE_CHARS_MAX)
    """Its text."""
    headers: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}$")],
        Annotated[str, Field(max_length=HEADER_CHARS_MAX)],
    ] = Field(default_factory=dict, max_length=HEADERS_MAX)
    """Files beside a source in C or C++, such as `testlib.h`."""

    def as_source(self) -> SourceFile:
        """For the compiler."""
        language = ALL_LANGUAGES[self.language]
        standard = _standard(language)
        headers = tuple((name, text.encode()) for name, text in sorted(self.headers.items()))
        return SourceFile(
            language=language,
            text=self.source.encode(),
            flags=Flags(standard=standard, optimize="2" if standard else "", headers=headers),
            limits=CompileLimits(cpu_s=60.0, memory_bytes=2_048 * MIB),
        )


class JudgedTest(Reference):
    """One run of the program."""

    stdin: str = ""
    """Standard input of the program, or what the interactor reads."""
    answer: str = ""
    """The jury's answer, for the judge."""


class JudgedReference(Reference):
    """What both have."""

    tests: tuple[JudgedTest, ...] = Field(min_length=1, max_length=TESTS_MAX)
    """Runs of the program."""
    points_max: float | None = Field(default=None, gt=0, le=1e9)
    """Points of a test, where the judge gives points (testlib's `quitp`); all of them pass it."""
    solution: str = ""
    """A right program, to audit the judge with; no response ever sees it."""


class CheckedReference(JudgedReference):
    """Reference of `code.checked`."""

    checker: JudgeProgram
    """Called as `checker input output answer`: exit code 0 accepts, 1 and 2 refuse."""


class InteractiveReference(JudgedReference):
    """Reference of `code.interactive`."""

    interactor: JudgeProgram
    """Called as `interactor input output answer`; its standard output and input are the program's
    input and output. Exit code 0 accepts, 1 and 2 refuse."""


JUDGED_RUN_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=JUDGED_RUN,
        resources=Resources(memory_bytes=2_048 * MIB),
        timeout_s=_TIMEOUT_S,
        on_demand=True,
    ),
    handler="assay.verifiers.judged.stage:JudgedHandler",
    artifacts="assay.verifiers.languages.keys:artifacts_of",
    runs_untrusted_code=True,
    audits=True,
)


def _controls(reference: JudgedReference, settings: JudgedSettings) -> list[Control]:
    """The data set's solution, if given, and a program that does nothing."""
    language = settings.own_language()
    programs = [(EMPTY, language.empty, False)]
    if reference.solution:
        programs.insert(0, (GOLD, reference.solution, True))
    return [
        Control(
            name=name,
            response=response_of(text, settings.extraction, settings.language),
            passes=passes,
        )
        for name, text, passes in programs
    ]


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipelines `code.checked` and `code.interactive`."""
    del settings
    tools = Tools(
        programs=tuple(sorted({tool for one in ALL_LANGUAGES.values() for tool in one.tools}))
    )
    stages = (PROGRAM_COMPILE_STAGE, JUDGED_RUN_STAGE)
    checker = {"language": "python", "source": "raise SystemExit(open('output').read() != '5\\n')"}
    interactor = {"language": "python", "source": "print(2, 3)\nraise SystemExit(input() != '5')"}
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("code.checked"),
            description="A program's outputs are judged by a checker program of the reference.",
            stages=(PROGRAM_COMPILE, JUDGED_RUN),
        ),
        stages=stages,
        settings=JudgedSettings,
        reference=CheckedReference,
        controls=_controls,
        tools=tools,
        example_reference={"tests": [{"stdin": "2 3\n", "answer": "5\n"}], "checker": checker},
    )
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("code.interactive"),
            description="A program talks with an interactor program of the reference.",
            stages=(PROGRAM_COMPILE, JUDGED_RUN),
        ),
        stages=stages,
        settings=JudgedSettings,
        reference=InteractiveReference,
        controls=_controls,
        tools=tools,
        example_reference={"tests": [{"stdin": "2 3\n"}], "interactor": interactor},
    )
