"""Finds the program in a response.

One linear pass over the lines, total on any text. A block is fenced as in Markdown: a line of at
least three backticks or tildes with an optional word for the language, up to a line of at least as
many of the same character; its lines lose the fence's indentation. An unclosed block counts only if
no block is closed. Without a fence, the marks of chat templates and of few-shot prompts around the
whole response (`<code>`, `[PYTHON]`, `[BEGIN]`, `<|eot_id|>`) are no part of the program.
"""

import re
from collections.abc import Iterator, Sequence
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


_END_CHARS_MAX: Final = 100
PYTHON: Final = frozenset({"python", "py", "python3", "py3"})
CPP: Final = frozenset({"cpp", "c++", "cc", "cxx", "cpp17", "cpp20", "c"})
_BYTE_ORDER_MARK: Final = "\ufeff"
_FRAMES: Final = (("<code>", "</code>"), ("[PYTHON]", "[/PYTHON]"), ("[BEGIN]", "[DONE]"))
_ENDS: Final = re.compile(r"(?:<\|\w{1,30}\|>|</s>)\s*$")
_FENCE: Final = re.compile(r"(?P<indent>[ \t]{0,12})(`{3,}|~{3,})[ \t]{0,12}([^\s`{]{0,40})")


def program_of(
    response: str,
    extraction: Extraction,
    choice: BlockChoice,
    languages: frozenset[str],
    defines: Sequence[str] = (),
) -> str | None:
    """Return the program, or `None` if the response has none.

    Blocks named after one of `languages` are preferred to blocks without a name; blocks in other
    languages are never used.

    Args:
        defines: names that the tests use. Of several blocks, those that define one of them are
            preferred: an example of its use, in a block behind the program, is not the program.
    """
    if extraction is Extraction.RAW:
        return response
    response = response.removeprefix(_BYTE_ORDER_MARK)
    response = response[:-_END_CHARS_MAX] + _ENDS.sub("", response[-_END_CHARS_MAX:])
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
                wanted = _defining(wanted, defines) or wanted
                return wanted[-1 if choice is BlockChoice.LAST else 0].removeprefix(
                    _BYTE_ORDER_MARK
                )
    if extraction is Extraction.FENCED or found:
        return None
    return _unframed(response)


def _defining(blocks: Sequence[str], names: Sequence[str]) -> list[str]:
    """The blocks that define one of the names."""
    if len(blocks) < 2 or not names:
        return []
    said = "|".join(map(re.escape, names))
    defines = re.compile(
        rf"^[ \t]{{0,12}}(?:(?:async[ \t]{{1,4}})?def|class)[ \t]{{1,4}}(?:{said})\b"
        rf"|^(?:{said})[ \t]{{0,4}}(?::[^=\n]{{0,80}})?=(?!=)",
        re.MULTILINE,
    )
    return [block for block in blocks if defines.search(block)]


def _unframed(response: str) -> str:
    """Without what encloses a whole response; anything else stays as it is, spaces too."""
    stripped = response.strip()
    for opening, closing in _FRAMES:
        if stripped.startswith(opening) and stripped.endswith(closing):
            return stripped[len(opening) : -len(closing)].strip("\r\n") + "\n"
    return response


def _blocks(response: str) -> Iterator[Block]:
    fence, language, indent, lines = "", "", "", list[str]()
    for line in response.split("\n"):
        match = _FENCE.match(line)
        if not fence:
            if match:
                fence, language, lines = match[2], match[3].lower(), []
                indent = match["indent"]
        elif match and _closes(match, line, fence):
            yield Block(language, "\n".join([*lines, ""]), closed=True)
            fence = ""
        else:
            lines.append(_unindented(line, len(indent)))
    if fence:
        yield Block(language, "\n".join([*lines, ""]), closed=False)


def _unindented(line: str, most: int) -> str:
    spaces = len(line) - len(line.lstrip(" \t"))
    return line[min(spaces, most) :]


def _closes(match: re.Match[str], line: str, fence: str) -> bool:
    return (
        match[2][0] == fence[0] and len(match[2]) >= len(fence) and not line[match.end(2) :].strip()
    )
