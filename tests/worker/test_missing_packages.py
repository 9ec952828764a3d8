"""What a worker's host counts of programs that import a package which boxes lack."""

import pytest

from assay.core.codec import pack_body
from assay.core.outcome import Outcome
from assay.core.verdict import MISSING_PACKAGE, Evidence, ResourceUse
from assay.worker.finish import missing_package
from assay.worker.slots.messages import SaidEnded, SaidFailed


def said(error: str, stderr: str = "") -> SaidEnded:
    evidence = Evidence(verdict="runtime_error", error=error, stderr_tail=stderr)
    return SaidEnded(outcome=Outcome.SCORED, reward=0.0, body=pack_body(evidence, ResourceUse()))


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (f"{MISSING_PACKAGE}numpy (verifiers.program_packages); exit code 1", "numpy"),
        (f"{MISSING_PACKAGE}sklearn", "sklearn"),
        (f"{MISSING_PACKAGE}my_own_name_{'x' * 60} (", "other"),
        (MISSING_PACKAGE, "other"),
        ("exit code 1", None),
        (f"exit code 1 {MISSING_PACKAGE}numpy", None),
    ],
)
def test_usual_names_are_counted_by_themselves_and_all_others_together(
    error: str, counted: str | None
) -> None:
    assert missing_package(said(error)) == counted


def test_what_a_program_prints_counts_nothing() -> None:
    assert missing_package(said("exit code 1", stderr=f"{MISSING_PACKAGE}numpy")) is None
    assert missing_package(SaidFailed(error=f"{MISSING_PACKAGE}numpy")) is None
