"""Which reports belong to a request of `run.python`. Pure; see `StageDefinition.artifacts`."""

from collections.abc import Sequence

from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import report_key
from assay.verifiers.port import Work


def artifacts_of(work: Work) -> Sequence[str]:
    """The key of its report, if its call has a name."""
    if not isinstance(work.reference, ProgramRun):
        return []
    report = report_key(work.response.encode("utf-8", "surrogateescape"), work.reference)
    return [report] if report else []
