"""Lexing of CUDA C++: what is a comment, a literal, a directive; pure, and total on any text.

Findings about a source (a kernel, a launch) are made on its code alone: a `__global__` in a comment
or a string does not count.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""
      (?P<comment>//(?:[^\n\\]|\\[\s\S])*|/\*[\s\S]*?(?:\*/|\Z))
    | (?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z))
    | (?P<text>"(?:[^"\\\n]|\\[\s\S])*(?:"|\Z|(?=\n)))
    | (?P<char>(?<![0-9a-fA-F])'(?:[^'\\\n]|\\[\s\S])*(?:'|\Z|(?=\n)))
    | (?P<directive>^[ \t]*\#(?:[^\n\\/]|\\[\s\S]|/(?![/*]))*)
    | (?P<word>[A-Za-z_$][\w$]*)
    | (?P<space>\s+)
    | (?P<other>[0-9][\w.']*|<<<|>>>|::|[\s\S])
    """,
    re.VERBOSE | re.MULTILINE,
)


class Token(NamedTuple):
    """A piece of a source."""

    kind: str
    """`comment`, `raw`, `text`, `char`, `directive`, `word`, `space` or `other`."""
    text: str


def tokens_of(source: str) -> Iterator[Token]:
    """All pieces in order; together they are the source."""
    for match in _TOKEN.finditer(source):
        yield Token(str(match.lastgroup if match.lastgroup != "mark" else "raw"), match.group())


def code_of(source: str) -> str:
    """The source without comments, and with empty literals."""
    kept = []
    for token in tokens_of(source):
        if token.kind == "comment":
            kept.append(" ")
        elif token.kind in {"raw", "text"}:
            kept.append('""')
        else:
            kept.append("''" if token.kind == "char" else token.text)
    return "".join(kept)
