"""Which compiled programs belong to a request of `code.LANGUAGE`, `run.LANGUAGE`, `code.checked` or
`code.interactive`. Pure; see `StageDefinition.artifacts`.
"""

import hashlib
from collections.abc import Sequence

from assay.verifiers.code.source.programs import program_of
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import report_key
from assay.verifiers.port import Work


def program_prefix(language: str, source: bytes) -> str:
    """What the keys of all compilations of `source` begin with."""
    return f"{language}-{hashlib.sha256(source).hexdigest()}-"


def artifacts_of(work: Work) -> Sequence[str]:
    """Prefixes of the keys of artifacts that `work` may create: its programs and its report; for
    judged programs also the reference's own program, and one that does nothing."""
    settings = work.settings
    response = work.response.encode("utf-8", "surrogateescape")
    if isinstance(work.reference, ProgramRun):
        report = report_key(response, work.reference)
        language = getattr(settings, "LANGUAGE", None)
        programs = [] if language is None else [program_prefix(language.name, response)]
        return [*programs, *([report] if report else [])]
    language = settings.own_language()
    found = [program_prefix(language.name, language.empty.encode())]
    text = program_of(
        work.response, settings.extraction, settings.block, language.words, begins=language.begins
    )
    if text is not None:
        found.append(program_prefix(language.name, text.encode("utf-8", "surrogateescape")))
    for name in ("checker", "interactor"):
        judge = getattr(work.reference, name, None)
        if judge is not None:
            source = judge.as_source()
            found.append(program_prefix(source.language.name, source.text))
    return found
