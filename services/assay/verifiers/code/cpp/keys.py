"""Which compiled programs belong to a request of `code.cpp` or `run.cpp`. Pure.

A slot names the artifacts that it makes, and the host believes it only names that begin with one of
these (`StageDefinition.artifacts`).
"""

import hashlib
from collections.abc import Sequence

from assay.verifiers.code.cpp.same import shared_text
from assay.verifiers.code.source.choices import CPP, MAIN
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import report_key
from assay.verifiers.port import Work


def program_prefix(source: str) -> str:
    """What the keys of all compilations of `source` begin with."""
    return f"cpp-{hashlib.sha256(source.encode('utf-8', 'surrogateescape')).hexdigest()}-"


def artifacts_of(work: Work) -> Sequence[str]:
    """Prefixes of the keys of artifacts that `work` may create: its programs and its report."""
    if isinstance(work.reference, ProgramRun):
        report = report_key(work.response.encode("utf-8", "surrogateescape"), work.reference)
        return [*_programs(work.response), *([report] if report else [])]
    settings = work.settings
    source = program_of(work.response, settings.extraction, settings.block, CPP, begins=MAIN)
    return [] if source is None else _programs(source)


def _programs(source: str) -> list[str]:
    return [program_prefix(source), program_prefix(shared_text(source))]
