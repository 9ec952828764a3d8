"""Programs as notebooks have them: lines for the notebook, and blocks in HTML.

`%%time`, `%matplotlib inline` and `!pip install x` are no Python: outside of strings and brackets
no line of a program begins so. Invariants: a text that is Python stays as it is; lines keep their
numbers. Linear in the length.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_MAGIC: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?:%%?[a-z]\w*|!\s?[\w./~]|\?\w)[^\n]*$", re.MULTILINE
)
_TIMED: Final = re.compile(r"[ \t]*%time[ \t]+(?P<statement>[^\n]+)")
"""It runs the statement behind it."""
_LEXEME: Final = re.compile(
    r"#[^\n]*+|(?P<long>'''|\"\"\")|'(?:\\.|[^'\\\n]|(?!))*+'?|\"(?:\\.|[^\"\\\n]|(?!))*+\"?"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])",
    re.DOTALL,
)
_LONG_ENDS: Final = {
    mark: re.compile(rf"(?:\\.|(?!{mark}).|(?!))*+{mark}", re.DOTALL) for mark in ("'''", '"""')
}
_BLOCK: Final = re.compile(
    r"^[ \t]{0,12}<pre(?:\s[^<>\n]{0,200})?>\s{0,9}(?:<code(?P<attributes>\s[^<>\n]{0,200})?>)?"
    r"(?P<text>(?:(?!</?pre\b|</code>).|(?!))*+)(?:</code>\s{0,9})?</pre>",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_CLASS: Final = re.compile(r"class=[\"']?(?:language-|lang-)?([\w+#]{1,20})", re.IGNORECASE)
_ENTITY: Final = re.compile("&(lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);")
_CHARACTERS: Final = {
    "lt": "<",
    "gt": ">",
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "nbsp": " ",
    "#39": "'",
    "#x27": "'",
    "#34": '"',
}


class HtmlBlock(NamedTuple):
    """`<pre><code class="language-python">`, with its entities as characters."""

    language: str
    text: str
    begin: int
    end: int


class _Span(NamedTuple):
    """A string over several lines, or brackets with what is between them."""

    start: int
    end: int


def without_magics(program: str) -> str:
    """The program with what is for the notebook as comments."""
    if not _MAGIC.search(program):
        return program
    spans = list(_spans(program))
    at = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal at
        while at < len(spans) and spans[at].end <= match.start():
            at += 1
        is_inside = at < len(spans) and spans[at].start < match.start()
        if is_inside or program[: match.start()].endswith("\\\n"):
            return match[0]
        timed = _TIMED.fullmatch(match[0])
        if timed is not None:
            return match["indent"] + timed["statement"]
        return f"{match['indent']}pass" if match["indent"] else f"# {match[0]}"

    return _MAGIC.sub(replaced, program)


def html_blocks(text: str) -> Iterator[HtmlBlock]:
    """Blocks of code in HTML that do not stand in a string of a program."""
    found = list(_BLOCK.finditer(text))
    if not found:
        return
    strings = [span for span in _spans(text) if text[span.start] in "'\""]
    for match in found:
        if any(span.start < match.start() < span.end for span in strings):
            continue
        named = _CLASS.search(match["attributes"] or "")
        said = _ENTITY.sub(lambda entity: _CHARACTERS[entity[1]], match["text"])
        language = named[1].lower() if named else ""
        yield HtmlBlock(language, said.strip("\r\n") + "\n", match.start(), match.end())


def _spans(text: str) -> Iterator[_Span]:
    """Strings in three quotes, and brackets of depth one, in their order."""
    at = depth = began = 0
    while (match := _LEXEME.search(text, at)) is not None:
        at = match.end()
        if match["long"]:
            ending = _LONG_ENDS[match["long"]].match(text, at)
            at = ending.end() if ending is not None else len(text)
            if not depth:
                yield _Span(match.start(), at)
        elif match["open"]:
            began = began if depth else match.start()
            depth += 1
        elif match["close"] and depth:
            depth -= 1
            if not depth:
                yield _Span(began, at)
    if depth:
        yield _Span(began, len(text))
