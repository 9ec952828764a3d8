"""Which sources are the same program: they differ in comments and blanks only. Pure.

Where that cannot be decided by a look at the tokens, a source is the same as itself only: a program
that uses its own line numbers, that turns its text into strings or pastes tokens in macros, that
could use a macro of a header for that, or that continues lines.
"""

import re
from typing import Final

from assay.verifiers.code.cpp.prelude import STANDARD

_TOKEN: Final = re.compile(
    r"""
    (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s"]{0,16})\((?s:.*?)\)(?P=fence)")
    | (?P<text>(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'))
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z_]|[0-9A-Za-z_.])*)
    | (?P<word>[A-Za-z_$\u0080-\U0010ffff][0-9A-Za-z_$\u0080-\U0010ffff]*)
    | (?P<blank>(?:[ \t\r\n]|//[^\n]*|/\*(?s:.*?)\*/)+)
    | (?P<other>.)
    """,
    re.VERBOSE,
)
_NEVER_LONGER: Final = frozenset("(){}[];,")
"""Characters that form no longer token with a neighbour, whatever stands between."""
_ITS_OWN_LINE: Final = re.compile(
    r"LINE|FILE|COUNTER|DATE|TIME|assert|location|stacktrace|contract"
    r"|\\[ \t\v\f]*\r?\n|\?\?|[<%]:|:>"
)
_OF_HEADERS: Final = re.compile(
    r"\b_(?!(?:_int128(?:_t)?|_uint128_t|_builtin_\w+|_gnu_pbds|_gnu_cxx|_gcd|_lg|_attribute__"
    r"|_typeof__|_cplusplus|_GNUC__|_func__|_inline|_restrict|CRT_\w+|USE_MATH_DEFINES)\b)[_A-Z]\w*"
)
"""Names that are reserved for headers, some of whose macros make strings of their arguments:
`__STRING(1 + 1)`. Those that programs use and that are no such macros are left out."""
_INCLUDE: Final = re.compile(r"include(?:_next)?\b[ \t]*(?:<([^>]*)>)?")
_HEADERS: Final = STANDARD | {"cassert", "assert.h", "unistd.h"}
_FOLDERS: Final = ("bits/", "ext/", "sys/", "tr1/", "tr2/", "experimental/")
"""Headers whose macros of this kind have reserved names."""
_COMMENT: Final = re.compile(r"//[^\n]*|/\*(?s:.*?)\*/")
"""In a run of blanks. One of several lines ends no line: what follows it begins no directive."""
_RAW_PREFIXES: Final = frozenset({"R", "u8R", "uR", "UR", "LR"})
_LINE: Final = re.compile(r"[^\n]*")


def shared_text(source: str) -> str:
    """Return a text that is equal for sources of the same meaning, else `source` itself.

    The result is for comparing only: no compiler reads it.
    """
    if _ITS_OWN_LINE.search(source) or _OF_HEADERS.search(source):
        return source
    parts: list[str] = []
    last, last_is_other, blank, starts_line, at = "", False, False, True, 0
    while (token := _TOKEN.match(source, at)) is not None:
        kind, text, at = token.lastgroup, token[0], token.end()
        if kind == "blank":
            blank, starts_line = True, starts_line or "\n" in _COMMENT.sub("", text)
            continue
        if text == "#" and starts_line:
            line = _LINE.match(source, at)
            directive = _directive(line[0]) if line else None
            if line is None or directive is None:
                return source
            at = line.end()
            parts.append(f"\n#{directive}\n")
            last, blank, starts_line = "", False, True
            continue
        if _is_unclear(kind, text, source, at):
            return source
        if blank and last and _may_join(last, last_is_other, text, kind == "other"):
            parts.append(" ")
        parts.append(text)
        last, last_is_other, blank, starts_line = text, kind == "other", False, False
    return "".join(parts)


def _may_join(left: str, left_is_other: bool, right: str, right_is_other: bool) -> bool:  # noqa: FBT001
    """Whether two tokens could be read as others if nothing came between them.

    Names, numbers and literals may join with each other, and so may two other characters; these two
    kinds join in numbers only.
    """
    if left in _NEVER_LONGER or right in _NEVER_LONGER:
        return False
    if left_is_other == right_is_other:
        return True
    if left_is_other:
        return left == "." and right[0].isdigit()
    is_number = left[0].isdigit() or left[0] == "."
    return is_number and (right == "." or (right in "+-" and left[-1] in "eEpP"))


def _directive(line: str) -> str | None:
    """What follows `#` on the line of a directive; `None` if it may reach beyond the line, or
    includes a header with macros of any kind."""
    if '"' not in line and "'" not in line:
        line = line.partition("//")[0]
    include = _INCLUDE.match(line.lstrip(" \t"))
    if include and not (include[1] in _HEADERS or (include[1] or "").startswith(_FOLDERS)):
        return None
    return None if "#" in line or "/*" in line or 'R"' in line else line.strip(" \t\r")


def _is_unclear(kind: str | None, text: str, source: str, after: int) -> bool:
    """Whether a token begins what never ends."""
    following = source[after : after + 1]
    if kind == "word":
        return text in _RAW_PREFIXES and following == '"'
    return kind == "other" and (text in "\"'\\" or (text == "/" and following == "*"))
