"""Which text of a response a pipeline takes for the program.

Imported by settings, so by every process that knows the pipelines: nothing here reads a response.
"""

from enum import StrEnum
from typing import Final


class Extraction(StrEnum):
    """Where the program is."""

    AUTO = "auto"
    """In a fenced block; the whole response if there is none."""
    FENCED = "fenced"
    """In a fenced block; a response without one has no program."""
    RAW = "raw"
    """The whole response."""


class BlockChoice(StrEnum):
    """Which of several blocks in the right language."""

    LAST = "last"
    FIRST = "first"


PYTHON: Final = frozenset({"python", "py", "python3", "py3", "pypy", "cpython", "ipython", "sage"})
CPP: Final = frozenset(
    {"cpp", "c++", "cc", "cxx", "cpp17", "cpp20", "c", "g++", "gnu++", "cplusplus", "hpp", "h++"}
)
MAIN: Final = r"^[^\n/*#\"]{0,400}\bmain\s{0,8}\("
"""Every program of C, C++ and Java has such a line, and a part of one that is shown has none."""
