"""Packages beside the standard library that programs import: which boxes have, which they miss."""

import re
from dataclasses import replace
from typing import Final

from assay.config.settings import VerifierSettings
from assay.core.outcome import Outcome
from assay.core.verdict import MISSING_PACKAGE, TEXT_CHARS_MAX, Ended
from assay.sandbox.launchers.packages import Packages, find_packages
from assay.verifiers.port import Tools

SETTING: Final = "verifiers.program_packages"
USUAL_PACKAGES: Final = frozenset({
    "atcoder", "bs4", "cachetools", "dateutil", "gmpy2", "matplotlib", "more_itertools",
    "mpmath", "networkx", "numba", "numpy", "pandas", "pytest", "pytz", "regex", "requests",
    "scipy", "seaborn", "shapely", "six", "sklearn", "sortedcontainers", "statsmodels", "sympy",
    "tabulate", "tensorflow", "torch", "tqdm", "typing_extensions", "yaml",
})  # fmt: skip
"""Names that a metric counts by themselves."""
_NOT_FOUND: Final = re.compile(
    r"\bModuleNotFoundError: No module named ['\"]([A-Za-z_][A-Za-z0-9_]{0,79})(?![A-Za-z0-9_])"
)
_MISSING_VERDICT: Final = "runtime_error"


def program_packages(settings: VerifierSettings) -> Packages:
    """The packages that boxes of programs show.

    Raises:
        SettingError: `verifiers.program_packages` names one that is not installed here.
    """
    return find_packages(settings.program_packages, setting=SETTING)


def program_tools(settings: VerifierSettings) -> Tools:
    """What programs can import, as part of a pipeline's version.

    Raises:
        SettingError: as `program_packages`.
    """
    return Tools(
        folders=settings.program_paths, distributions=program_packages(settings).distributions
    )


def naming_missing(ended: Ended) -> Ended:
    """Name the package in the evidence of a program that failed because boxes lack it."""
    evidence = ended.evidence
    if ended.outcome is not Outcome.SCORED or evidence.verdict != _MISSING_VERDICT:
        return ended
    last = evidence.stderr_tail.rstrip().rpartition("\n")[2]
    found = _NOT_FOUND.search(evidence.error) or _NOT_FOUND.match(last)
    if found is None:
        return ended
    error = f"{MISSING_PACKAGE}{found[1]} ({SETTING}); {evidence.error}"[:TEXT_CHARS_MAX]
    return replace(ended, evidence=replace(evidence, error=error))
