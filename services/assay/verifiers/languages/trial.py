"""What `assay doctor` says about languages: a program of each is compiled and run in boxes."""

from collections.abc import Iterator
from dataclasses import dataclass

from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.sandbox.port import Limits, SandboxError
from assay.verifiers.languages.go_packages import go_folder
from assay.verifiers.languages.language import GO, LANGUAGES, Language
from assay.verifiers.languages.programs import Programs
from assay.verifiers.languages.toolchains import ToolMissing, find_toolchain
from assay.verifiers.local import MemoryArtifacts


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageFinding:
    """Whether programs of a language can be judged here."""

    language: Language
    available: bool
    detail: str
    """Versions of the tools, or what is missing."""


def try_languages(sandbox: SandboxSettings) -> Iterator[LanguageFinding]:
    """Try all languages. Go's library is not compiled for this (`go_packages.py`)."""
    programs = Programs(sandbox, MemoryArtifacts())
    try:
        for language in LANGUAGES.values():
            yield _tried(language, programs)
    finally:
        programs.close()


def _tried(language: Language, programs: Programs) -> LanguageFinding:
    try:
        detail = find_toolchain(language).version.replace("\n", "; ")
        if language is GO and not any(go_folder().glob("*/packages")):
            detail += "; the first program waits until its library is compiled (minutes)"
        else:
            programs.check(language, Limits())
    except (ToolMissing, IsolationUnavailable, SandboxError, RuntimeError) as error:
        return LanguageFinding(language=language, available=False, detail=str(error)[-300:])
    return LanguageFinding(language=language, available=True, detail=detail)
