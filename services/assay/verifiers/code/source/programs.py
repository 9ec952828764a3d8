"""Finds the program in a response.

One linear pass over the lines, total on any text. A block is fenced as in Markdown: a line of at
least three backticks or tildes with an optional word for the language, up to a line of at least as
many of the same character that is indented no deeper; its lines lose the fence's indentation. A
fence with the name of a wanted language inside a block without one begins a block of its own: text
before it opened the other by chance. An unclosed block counts only if no block is closed. What a
model thinks aloud (`assay.verifiers.text.thoughts`) has a say only if there is no block behind it.
Without a fence, `<pre>` in HTML is one (`notebook`). Without either, the marks of chat templates
and of few-shot prompts around the whole response (`<code>`, `<answer>`, `[PYTHON]`, `[BEGIN]`,
`<|eot_id|>`) are no part of the program.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from assay.verifiers.code.source.notebook import html_blocks
from assay.verifiers.text.thoughts import behind_thoughts


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
_FRAMES: Final = (
    *(("<code>", "</code>"), ("[PYTHON]", "[/PYTHON]"), ("[BEGIN]", "[DONE]")),
    *((f"<{name}>", f"</{name}>") for name in ("answer", "python", "solution")),
)
_ENDS: Final = re.compile(r"(?:<\|\w{1,30}\|>|</s>)\s*$")
_DEEPER_MAX: Final = 3
"""Columns that a fence may be indented deeper than the one it closes (CommonMark 4.5)."""
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
    found = list(_blocks(response, languages))
    answer = behind_thoughts(response) or ""
    behind = [block for block in _blocks(answer, languages) if block.closed]
    for blocks in (behind, found):
        wanted = _wanted(blocks, languages)
        defining = _defining(wanted, defines)
        if blocks is behind and defines and not defining:
            continue  # behind the thought stands at most an example of its use
        if wanted:
            return _chosen(defining or wanted, choice).removeprefix(_BYTE_ORDER_MARK)
    if not found:  # an answer in HTML
        pages = [Block(one.language, one.text, closed=True) for one in html_blocks(response)]
        wanted = _wanted(pages, languages)
        if wanted:
            return _chosen(_defining(wanted, defines) or wanted, choice)
    if extraction is Extraction.FENCED or found:
        return None
    return _unframed(answer if answer.startswith(("\n", "\r")) else response)


def _chosen(programs: Sequence[str], choice: BlockChoice) -> str:
    return programs[-1 if choice is BlockChoice.LAST else 0]


def _wanted(blocks: Sequence[Block], languages: frozenset[str]) -> list[str]:
    """The best kind of blocks that there is: closed before unclosed, named before unnamed."""
    for closed in (True, False):
        for named in (True, False):
            kind = [
                block.text
                for block in blocks
                if block.closed == closed
                and (block.language in languages if named else not block.language)
            ]
            if kind:
                return kind
    return []


def _defining(blocks: Sequence[str], names: Sequence[str]) -> list[str]:
    """The blocks that define one of the names."""
    if not names:
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


def _blocks(response: str, languages: frozenset[str]) -> Iterator[Block]:
    fence, language, indent, lines, end = "", "", "", list[str](), 0
    for line in response.split("\n"):
        match = _FENCE.match(line)
        closes = bool(match and fence and _closes(match, line, fence))
        if match and closes and not _deeper(match["indent"], indent):
            yield Block(language, "\n".join([*lines, ""]), closed=True)
            fence = ""
        elif match and (not fence or _begins_over(match, fence, language, languages)):
            fence, language, lines, end = match[2], match[3].lower(), [], 0
            indent = match["indent"]
        elif fence:
            end = len(lines) if closes else end
            lines.append(_unindented(line, len(indent)))
    if fence:  # then a fence that is indented deeper closes it, if there is one
        yield Block(language, "\n".join([*(lines[:end] or lines), ""]), closed=end > 0)


def _begins_over(
    match: re.Match[str], fence: str, language: str, languages: frozenset[str]
) -> bool:
    """Whether a fence inside a block says that the block was none."""
    return language not in languages and match[2] == fence and match[3].lower() in languages


def _deeper(indent: str, than: str) -> bool:
    return len(indent.expandtabs(4)) > len(than.expandtabs(4)) + _DEEPER_MAX


def _unindented(line: str, most: int) -> str:
    spaces = len(line) - len(line.lstrip(" \t"))
    return line[min(spaces, most) :]


def _closes(match: re.Match[str], line: str, fence: str) -> bool:
    return (
        match[2][0] == fence[0] and len(match[2]) >= len(fence) and not line[match.end(2) :].strip()
    )
