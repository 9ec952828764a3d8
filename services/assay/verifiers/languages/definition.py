"""The pipelines `code.LANGUAGE` and `run.LANGUAGE` of the languages beside Python and C++.

They share two stages, `program.compile` and `program.run`, because hosts differ in toolchains and
not in the resources that languages need. A host without a language's tools cannot judge its
programs, which is never the program's fault (`INFRA_FAILED`).
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from pydantic import Field

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.code.controls import language_controls
from assay.verifiers.code.references import CppReference
from assay.verifiers.code.settings import CodeSettings
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.languages.commands import CompileLimits, Flags
from assay.verifiers.languages.language import (
    BASH,
    GO,
    JAVA,
    JAVASCRIPT,
    RUST,
    TYPESCRIPT,
    C,
    Language,
)
from assay.verifiers.port import (
    Control,
    PipelineDefinition,
    PipelineSettings,
    StageDefinition,
    Tools,
)

PROGRAM_COMPILE: Final = StageName("program.compile")
PROGRAM_RUN: Final = StageName("program.run")
_RUN_TIMEOUT_S: Final = 4_200.0
"""As for the stages of C++: ten times the longest time of all tests of one response."""


class LanguageSettings(CodeSettings):
    """Settings of a language whose source is run."""

    LANGUAGE: ClassVar[Language]

    def own_language(self) -> Language:
        """The language of the response."""
        return self.LANGUAGE

    def flags(self) -> Flags:
        """What the settings choose of the compiler."""
        return Flags()

    def compile_limits(self) -> CompileLimits:
        """Bounds of the compilation."""
        return CompileLimits(cpu_s=20.0, memory_bytes=1_024 * MIB)


class CompiledSettings(LanguageSettings):
    """Settings of a compiled language."""

    compile_cpu_s: float = Field(default=20.0, gt=0, le=120)
    """CPU time of the compilation."""
    compile_memory_bytes: int = Field(default=1_024 * MIB, ge=256 * MIB, le=8_192 * MIB)
    """Memory of the compilation."""

    def compile_limits(self) -> CompileLimits:
        """Bounds of the compilation."""
        return CompileLimits(cpu_s=self.compile_cpu_s, memory_bytes=self.compile_memory_bytes)


class CSettings(CompiledSettings):
    """Settings of `code.c`."""

    LANGUAGE: ClassVar[Language] = C
    standard: str = Field(default="gnu17", pattern=r"^(c|gnu)(90|99|11|17|2x)$")
    """`-std=` of the compiler."""
    optimize: str = Field(default="2", pattern=r"^[0123s]$")
    """`-O` of the compiler."""

    def flags(self) -> Flags:
        """Standard and optimization."""
        return Flags(standard=self.standard, optimize=self.optimize)


class JavaSettings(CompiledSettings):
    """Settings of `code.java`."""

    LANGUAGE: ClassVar[Language] = JAVA
    release: str = Field(default="", pattern=r"^(8|11|17|21|25)?$")
    """`--release` of the compiler; empty: that of the installed one."""

    def flags(self) -> Flags:
        return Flags(standard=self.release)


class RustSettings(CompiledSettings):
    """Settings of `code.rust`."""

    LANGUAGE: ClassVar[Language] = RUST
    edition: str = Field(default="2021", pattern=r"^(2015|2018|2021|2024)$")
    """`--edition` of the compiler."""
    optimize: str = Field(default="2", pattern=r"^[0123s]$")
    """`-C opt-level` of the compiler; below 2 integers that overflow end the program."""

    def flags(self) -> Flags:
        """Edition and optimization."""
        return Flags(standard=self.edition, optimize=self.optimize)


class GoSettings(CompiledSettings):
    """Settings of `code.go`."""

    LANGUAGE: ClassVar[Language] = GO


class TypeScriptSettings(CompiledSettings):
    """Settings of `code.typescript`."""

    LANGUAGE: ClassVar[Language] = TYPESCRIPT


class JavaScriptSettings(LanguageSettings):
    """Settings of `code.javascript`."""

    LANGUAGE: ClassVar[Language] = JAVASCRIPT


class BashSettings(LanguageSettings):
    """Settings of `code.bash`."""

    LANGUAGE: ClassVar[Language] = BASH


class LanguageReference(CppReference):
    """Runs of a program: `tests`, and `solution` to audit them with."""


class RunSettings(PipelineSettings):
    """Settings of `run.LANGUAGE`."""

    LANGUAGE: ClassVar[Language]


CODE_SETTINGS: Final[dict[str, type[LanguageSettings]]] = {
    one.LANGUAGE.name: one
    for one in (
        *(CSettings, JavaSettings, JavaScriptSettings, TypeScriptSettings),
        *(GoSettings, RustSettings, BashSettings),
    )
}
RUN_SETTINGS: Final[dict[str, type[RunSettings]]] = {
    name: type(
        f"{one.__name__}Run", (RunSettings,), {"LANGUAGE": one.LANGUAGE, "__module__": __name__}
    )
    for name, one in CODE_SETTINGS.items()
}
PROGRAM_COMPILE_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=PROGRAM_COMPILE,
        resources=Resources(memory_bytes=2_048 * MIB),
        timeout_s=1_800.0,
        on_demand=True,
    ),
    handler="assay.verifiers.languages.stages:CompileHandler",
    artifacts="assay.verifiers.languages.keys:artifacts_of",
    runs_untrusted_code=True,
)
PROGRAM_RUN_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=PROGRAM_RUN,
        resources=Resources(memory_bytes=1_024 * MIB),
        timeout_s=_RUN_TIMEOUT_S,
        on_demand=True,
    ),
    handler="assay.verifiers.languages.stages:RunHandler",
    artifacts="assay.verifiers.languages.keys:artifacts_of",
    runs_untrusted_code=True,
)


def stages_for(language: Language) -> tuple[StageDefinition, ...]:
    """The stages that a program of `language` goes through."""
    if language.is_compiled:
        return (PROGRAM_COMPILE_STAGE, PROGRAM_RUN_STAGE)
    return (PROGRAM_RUN_STAGE,)


def _controls(reference: LanguageReference, settings: LanguageSettings) -> list[Control]:
    language = settings.own_language()
    return list(
        language_controls(
            reference,
            settings,
            name=language.name,
            empty=language.empty,
            echo=language.echo,
        )
    )


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """Two pipelines per language."""
    del settings
    for name, own in CODE_SETTINGS.items():
        language = own.LANGUAGE
        stages = stages_for(language)
        names = tuple(stage.spec.name for stage in stages)
        tools = Tools(programs=language.tools)
        how = "compiled once, passes" if language.is_compiled else "passes"
        yield PipelineDefinition(
            spec=PipelineSpec(
                name=PipelineName(f"code.{name}"),
                description=f"A {language.title} program, {how} its tests."
                if language.is_compiled
                else f"A {language.title} program passes its tests.",
                stages=names,
            ),
            stages=stages,
            settings=own,
            reference=LanguageReference,
            controls=_controls,
            tools=tools,
            example_reference={"tests": [{"stdin": "2 3\n", "stdout": "5\n"}]},
        )
        yield PipelineDefinition(
            spec=PipelineSpec(
                name=PipelineName(f"run.{name}"),
                description=f"Runs a {language.title} program; passes if it ends with exit code 0.",
                stages=names,
            ),
            stages=stages,
            settings=RUN_SETTINGS[name],
            reference=ProgramRun,
            tools=tools,
            example_reference={"stdin": "2 3\n"},
        )
