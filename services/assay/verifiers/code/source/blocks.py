"""Fenced blocks of a response.

Linear, total on any text. A block is fenced as in Markdown: a line of at least three backticks or
tildes with an optional word for the language, up to a line of at least as many of the same
character that is indented no deeper; its lines lose the fence's indentation. A fence with the name
of a wanted language inside a block without one begins a block of its own: text before it opened the
other by chance. Where no block of the language closes, fences count that a model put behind words
or behind the last line of a program, on one line, or into a quotation (`_apart`). A block that
nothing else closes ends at a fence with words behind it, if these are not the name of the language.
What the text around a block says of it: `assay.verifiers.text.around.blocks`.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from assay.verifiers.text.around.blocks import BLOCKS_MAX, BlockContent, standing, unglued


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str
    closed: bool
    begin: int = 0
    """Number of the line with the fence that opens it."""
    end: int = 0
    """Number of the line with the fence that closes it, that of the text's end if none does."""
    stands: bool = True
    """The text around it does not take it back."""


_DEEPER_MAX: Final = 3
"""Columns that a fence may be indented deeper than the one it closes (CommonMark 4.5)."""
_FENCE: Final = re.compile(
    r"(?P<indent>[ \t\u200b\u2060\ufeff]{0,12}(?P<bullet>(?:[-*+]|[0-9]{1,3}[.)])[ \t]{1,4})?)"
    r"(?P<fence>`{3,}|~{3,})[ \t]{0,12}(?:\{[ ]?\.?)?(?P<word>[^\s`{}:=;,(]{0,40})"
)
"""`{.python}` is how Pandoc names a language."""
_PREFIX: Final = re.compile(r"\A(?:language|lang|highlight|source)[-:_.]")
"""Of a class in HTML (`language-python`)."""
_BLANK: Final = " \t\r\n\f\v\u200b\u2060\ufeff"
_VERSION: Final = re.compile(r"[-_.]?v?[0-9][0-9.]{0,10}[a-z]?\Z")
_QUOTED: Final = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
_QUOTED_FENCE: Final = re.compile(r"^[ ]{0,3}>[ ]?(?:`{3}|~{3})", re.MULTILINE)
_ON_ONE_LINE: Final = re.compile(
    r"^([^`\n]{0,400}?)(`{3,})([\w+#.-]{1,40})[ \t]([^`\n]{1,4000})\2[ \t\r]*$", re.MULTILINE
)
_BEHIND_WORDS: Final = re.compile(
    r"^((?:[^`\n]|`(?!``)){0,400}[^`\s])[ \t]{0,8}(`{3,})([\w+#.-]{1,40})[ \t\r]*$", re.MULTILINE
)
_GLUED: Final = re.compile(r"^([ \t]{0,12})(`{3})(`{3}[\w+#.-]{0,40})[ \t\r]*$", re.MULTILINE)
"""The end of a block and the beginning of the next one on one line."""
_CUT_FENCE: Final = re.compile(r"\n[ \t]{0,12}(?:`{1,2}|~{1,2})[ \t\r\n]*\Z")
_QUOTES: Final = ('"""', "'''")
_STRINGS_MAX: Final = 64
_STRING_LINES_MAX: Final = 200
_BEHIND_CODE: Final = re.compile(r"^([^`\n]{0,4000}[\w)\]};])(`{3,})[ \t\r]*$", re.MULTILINE)
ELSEWHERE: Final = frozenset(
    (  # noqa: SIM905 - a list of 130 strings is harder to read
        "ada algol apl asm assembly awk basic brainfuck c c# c++ cc clojure cobol"
        " coffeescript cpp cs csharp css cuda cxx d dart delphi elixir elm erlang f# forth"
        " fortran fsharp go golang groovy haskell hs html java javascript js julia kotlin kt"
        " lisp lua matlab ml nim nodejs node objc objective-c ocaml octave pascal perl php pl"
        " powershell prolog ps1 py python python3 r racket raku rb rs ruby rust scala scheme"
        " smalltalk solidity sql swift tcl ts tsx typescript vb verilog vhdl wasm zig bash sh"
        " shell zsh fish batch cmd bat makefile make cmake dockerfile text txt plain plaintext"
        " output input stdout stdin console log none result diff patch json jsonl yaml yml"
        " toml xml csv tsv ini md markdown latex tex math mermaid dot http pycon python-repl"
        " doctest pseudocode pseudo algorithm regex graphql proto protobuf"
    ).split()
)
"""Names of languages and of kinds of text. A block with any other word may hold a program of the
wanted language, if no other block does."""


def blocks_of(response: str, languages: frozenset[str]) -> Sequence[Block]:
    """All fenced blocks, in order; the names of wanted languages without versions."""
    text, found = _read(unglued(response), languages)
    if not found:
        return []
    lines = text.split("\n")
    near = found[-BLOCKS_MAX:]
    around, behind = list[str](), near[0].begin if len(near) < len(found) else 0
    for block in near:
        around.append("\n".join(lines[behind : block.begin]))
        behind = block.end
        if behind < len(lines) and (fence := _FENCE.match(lines[behind])):
            lines[behind] = lines[behind][fence.end("fence") :]  # what stands behind its last fence
    around.append("\n".join(lines[behind:]))
    firsts = [block.text.lstrip("\n").partition("\n")[0] for block in near]
    stands = standing(around, firsts, BlockContent.PROGRAM)
    if all(stands):
        return found
    stands = [any(stands)] * (len(found) - len(near)) + stands
    return [
        block if stood else block._replace(stands=False)
        for block, stood in zip(found, stands, strict=True)
    ]


def _read(response: str, languages: frozenset[str]) -> tuple[str, Sequence[Block]]:
    """The blocks, and the text in whose lines they stand."""
    found = list(_fenced(response, languages))
    if any(block.language in languages and _is_whole(block) for block in found):
        return response, found
    text = _apart(response, languages)
    if text == response:
        return response, found
    apart = list(_fenced(text, languages))
    for fits in (languages.__contains__, "".__eq__, _names_no_language):
        for said, blocks in ((response, found), (text, apart)):
            if any(fits(block.language) and _is_whole(block) for block in blocks):
                return said, blocks
    return response, found


def _names_no_language(word: str) -> bool:
    return word not in ELSEWHERE


def _is_whole(block: Block) -> bool:
    """Whether it is closed, and ends where it seems to."""
    text = block.text
    return block.closed and not (_BEHIND_CODE.search(text) or _GLUED.search(text))


def _apart(response: str, languages: frozenset[str]) -> str:
    """The response with each of its fences on a line of its own."""

    def begins(match: re.Match[str]) -> str:
        if _language(match[3], languages) not in languages:
            return match[0]
        before, fence, language, *code = match.groups()
        return "\n".join([before, f"{fence}{language}", *code, *([fence] if code else [])])

    if _QUOTED_FENCE.search(response):
        response = _QUOTED.sub("", response)
    response = _ON_ONE_LINE.sub(begins, _GLUED.sub(r"\1\2\n\1\3", response))
    # A template costs twice as much for each of a hundred thousand matches.
    return _BEHIND_CODE.sub(
        lambda found: f"{found[1]}\n{found[2]}", _BEHIND_WORDS.sub(begins, response)
    )


@lru_cache(maxsize=256)  # a text has few words, and some of them a hundred thousand times
def _language(word: str, languages: frozenset[str]) -> str:
    """The language of a fence: its word, without a version, or the ending of a file's name."""
    if not word:
        return ""
    said = _PREFIX.sub("", word.lower())
    names = (said, _VERSION.sub("", said), said.rpartition(".")[2])
    return next((name for name in names if name in languages), None) or next(
        (name for name in names if name in ELSEWHERE), said
    )


def _fenced(response: str, languages: frozenset[str]) -> Iterator[Block]:
    fence, language, indent, lines, end, said, begin = "", "", "", list[str](), 0, 0, 0
    all_lines, opened, looked, string_end = response.split("\n"), 0, 0, -1
    for at, line in enumerate(all_lines):
        match = _FENCE.match(line)
        closes = bool(match and fence and _closes(match, line, fence))
        if closes and opened and at > string_end and (looked := looked + 1) <= _STRINGS_MAX:
            string_end = _string_ends(all_lines, at, fence, opened, languages)
        if at < string_end:
            match, closes = None, False
        if match and closes and not _deeper(match["indent"], indent):
            yield Block(language, "\n".join([*lines, ""]), True, begin, at)  # noqa: FBT003 - one per fence
            fence = ""
        elif match and (not fence or _begins_over(match, fence, language, languages)):
            fence, language, lines = match["fence"], _language(match["word"], languages), []
            indent, end, said, opened, begin = match["indent"], 0, 0, 0, at
        elif fence:
            end = len(lines) if closes else end
            said = said or (len(lines) if match and _ends(match, fence, indent, languages) else 0)
            lines.append(_unindented(line, len(indent)))
            opened ^= _quotes(line)
    if fence:  # then a fence that is indented deeper closes it, or one with words behind it
        end = end or said
        if not end:
            lines = _CUT_FENCE.sub("", "\n".join(["", *lines])).split("\n")[1:]
        text = "\n".join([*(lines[:end] or lines), ""])
        behind = begin + 1 + end if end else len(all_lines)
        yield Block(language, text, closed=end > 0, begin=begin, end=behind)


def _quotes(line: str) -> int:
    """Which of the two marks of a long string of Python stand in a line an odd number of times."""
    if '"""' not in line and "'''" not in line:  # as most lines
        return 0
    return sum(1 << bit for bit, mark in enumerate(_QUOTES) if line.count(mark) % 2)


def _string_ends(
    lines: Sequence[str], at: int, fence: str, opened: int, languages: frozenset[str]
) -> int:
    """The line of the fence that closes the block, if a string is open at `at`; otherwise -1."""
    if "python" not in languages:
        return -1
    for number, line in enumerate(lines[at + 1 : at + 1 + _STRING_LINES_MAX], at + 1):
        match = _FENCE.match(line)
        if match and _language(match["word"], languages) in languages:
            return -1
        if match and not opened and _closes(match, line, fence):
            return number
        opened ^= _quotes(line)
    return -1


def _begins_over(
    match: re.Match[str], fence: str, language: str, languages: frozenset[str]
) -> bool:
    """Whether a fence inside a block shows that the block was not one."""
    return (
        language not in languages
        and match["fence"] == fence
        and _language(match["word"], languages) in languages
    )


def _ends(match: re.Match[str], fence: str, indent: str, languages: frozenset[str]) -> bool:
    """Whether a fence could close a block, but for the words behind it."""
    return (
        _is_like(match, fence)
        and not _deeper(match["indent"], indent)
        and _language(match["word"], languages) not in languages
    )


def _deeper(indent: str, than: str) -> bool:
    if len(indent) <= _DEEPER_MAX and "\t" not in indent:  # as most fences
        return False
    return len(indent.expandtabs(4)) > len(than.expandtabs(4)) + _DEEPER_MAX


def _unindented(line: str, most: int) -> str:
    spaces = len(line) - len(line.lstrip(" \t"))
    return line[min(spaces, most) :]


def _is_like(match: re.Match[str], fence: str) -> bool:
    is_fence = match["fence"][0] == fence[0] and len(match["fence"]) >= len(fence)
    return is_fence and not match["bullet"]


def _closes(match: re.Match[str], line: str, fence: str) -> bool:
    return _is_like(match, fence) and not line[match.end("fence") :].strip(_BLANK)
