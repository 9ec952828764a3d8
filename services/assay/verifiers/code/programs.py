"""Finds the program in a response.

One linear pass over the lines, total on any text. A block is fenced as in Markdown: a line of at
least three backticks or tildes with an optional word for the language, up to a line of at least as
many of the same character. An unclosed block counts only if no block is closed.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple


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


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str
    closed: bool


PYTHON: Final = frozenset({"python", "py", "python3", "py3"})
CPP: Final = frozenset({"cpp", "c++", "cc", "cxx", "cpp17", "cpp20", "c"})
_FENCE: Final = re.compile(r"[ \t]{0,12}(`{3,}|~{3,})[ \t]{0,12}([^\s`{]{0,40})")


def program_of(
    response: str, extraction: Extraction, choice: BlockChoice, languages: frozenset[str]
) -> str | None:
    """Return the program, or `None` if the response has none.

    Blocks named after one of `languages` are preferred to blocks without a name; blocks in other
    languages are never used.
    """
    if extraction is Extraction.RAW:
        return response
    found = list(_blocks(response))
    for closed in (True, False):
        for named in (True, False):
            wanted = [
                block.text
                for block in found
                if block.closed == closed
                and (block.language in languages if named else not block.language)
            ]
            if wanted:
                return wanted[-1 if choice is BlockChoice.LAST else 0]
    if extraction is Extraction.FENCED or found:
        return None
    return response


def _blocks(response: str) -> Iterator[Block]:
    fence, language, lines = "", "", list[str]()
    for line in response.split("\n"):
        match = _FENCE.match(line)
        if not fence:
            if match:
                fence, language, lines = match[1], match[2].lower(), []
        elif match and _closes(match, line, fence):
            yield Block(language, "\n".join([*lines, ""]), closed=True)
            fence = ""
        else:
            lines.append(line)
    if fence:
        yield Block(language, "\n".join([*lines, ""]), closed=False)


def _closes(match: re.Match[str], line: str, fence: str) -> bool:
    return (
        match[1][0] == fence[0] and len(match[1]) >= len(fence) and not line[match.end(1) :].strip()
    )
