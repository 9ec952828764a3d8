"""Which data sets can be converted."""

from types import MappingProxyType
from typing import Final

from assay.datasets import (
    answers,
    apps,
    code_contests,
    evalplus,
    humaneval,
    ifbench,
    ifeval,
    livecodebench,
    mbpp,
)
from assay.datasets.port import Source

_SOURCES: Final = (
    livecodebench.SOURCE,
    evalplus.SOURCE,
    humaneval.SOURCE,
    mbpp.SOURCE,
    apps.SOURCE,
    code_contests.SOURCE,
    answers.GSM8K,
    answers.MATH,
    ifeval.SOURCE,
    ifbench.SOURCE,
)
SOURCES: Final = MappingProxyType({source.name: source for source in _SOURCES})
"""Sources by name; `taco` is an alias of `apps`."""
ALIASES: Final = MappingProxyType({"taco": "apps", "humanevalplus": "evalplus"})


def source_named(name: str) -> Source | None:
    """Return the source of this name or alias."""
    return SOURCES.get(ALIASES.get(name, name))
