"""The order that a query gives its result: whether it has one, and by which columns. Pure.

Linear, total on any text. Rows that are equal in all columns of the order may stand in any order
among themselves: the engine chooses it, and another right query may choose another. Where the order
goes by anything but columns of the result, the query is written again with that as further
columns, which tell such rows.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

_LAST_ORDER: Final = re.compile(r"\border\s+by\b(?![\s\S]*\b(?:from|where|group)\b)", re.I)
_TOKEN: Final = re.compile(
    r"--[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\[\]]*\]|[\s\S]"
)
_COMMENT: Final = ("--", "/*")
_HIDDEN: Final = "\x01"
"""In place of each character within parentheses and quotes; comments are spaces."""
_END: Final = re.compile(r"\b(?:limit|offset|fetch)\b|;", re.I)
_LIMIT: Final = re.compile(r"\blimit\s+\d{1,9}\s*;?\s*\Z", re.I)
_DIRECTION: Final = re.compile(r"(?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?\s*\Z", re.I)
_ALIAS: Final = re.compile(r"\s+as\s+\S+\s*\Z", re.I)
_SELECT: Final = re.compile(r"\bselect\b(?:\s+(?:distinct|all)\b)?", re.I)
_COMPOUND: Final = re.compile(r"\b(?:union|intersect|except)\b", re.I)
_FROM: Final = re.compile(r"\bfrom\b", re.I)
_NAME: Final = re.compile(r"[^\W\d]\w*|\"(?:[^\"]|\"\")+\"|`[^`]+`|\[[^\[\]]+\]")
_WORD: Final = re.compile(r"\w+")
_QUOTES: Final = {'"': '"', "`": "`", "[": "]"}


class _Masked(NamedTuple):
    """A query, and the same with `_HIDDEN` for what is not of its outermost level."""

    text: str
    mask: str

    def part(self, start: int, end: int) -> "_Masked":
        return _Masked(self.text[start:end], self.mask[start:end])

    def items(self) -> "list[_Masked]":
        """What its commas divide."""
        cuts = [-1, *(at for at, char in enumerate(self.mask) if char == ","), len(self.mask)]
        return [self.part(a + 1, b) for a, b in pairwise(cuts)]


def has_order(query: str) -> bool:
    """Whether the query ends in an ORDER BY of its own, not of a subquery or a window."""
    return _LAST_ORDER.search(_masked(query).mask) is not None


def order_columns(query: str, names: Sequence[str]) -> Sequence[int] | None:
    """The columns of the result by which the query orders it; `None` if it goes by something else.

    Args:
        query: with an ORDER BY of its own.
        names: of the result's columns.
    """
    whole = _masked(query)
    order = _LAST_ORDER.search(whole.mask)
    if order is None:
        return None
    found = _columns(whole, order, names)
    known = [column for column in found if column is not None]
    return known if len(known) == len(found) else None


def _columns(whole: _Masked, order: re.Match[str], names: Sequence[str]) -> "Sequence[int | None]":
    selected = _selected(whole.part(0, order.start()))
    return [_column(_without(_DIRECTION, one), names, selected) for one in _terms(whole, order)]


def _terms(whole: _Masked, order: re.Match[str]) -> Sequence[_Masked]:
    end = _END.search(whole.mask, order.end())
    return whole.part(order.end(), end.start() if end else len(whole.mask)).items()


class Widened(NamedTuple):
    """A query with further columns."""

    query: str
    columns: Sequence[int]
    """All that its order goes by; the further ones stand behind those of the result."""


def widened(query: str, names: Sequence[str]) -> Widened | None:
    """The query with what its order goes by as columns; `None` if it cannot be written so.

    The caller makes sure that the rows are the same without them.

    Args:
        query: as for `order_columns`.
        names: of the result's columns.
    """
    whole = _masked(query)
    order = _LAST_ORDER.search(whole.mask)
    head = whole.part(0, order.start()) if order else whole
    selected = _selected(head)
    select, begin = _SELECT.search(head.mask), _FROM.search(head.mask)
    if order is None or select is None or begin is None or len(selected) != len(names):
        return None
    if select[0].lower().endswith("distinct"):
        return None
    aliases = {
        name.casefold()
        for name, said in zip(names, selected, strict=True)
        if said.casefold().rpartition(".")[2].strip('"`[]') != name.casefold()
    }
    columns, more = list[int](), list[str]()
    for term, column in zip(_terms(whole, order), _columns(whole, order, names), strict=True):
        said = term.text[: m.start()] if (m := _DIRECTION.search(term.mask)) else term.text
        if column is None and aliases & set(_WORD.findall(said.casefold())):
            return None  # in the list of columns a name does not stand for a column of the result
        columns.append(len(names) + len(more) if column is None else column)
        more += [said] if column is None else []
    further = "".join(f", ({said}) " for said in more)
    return Widened(f"{query[: begin.start()]}{further}{query[begin.start() :]}", columns)


def unlimited(query: str) -> str | None:
    """The query without the LIMIT that ends it; `None` if it has none, or an OFFSET."""
    whole = _masked(query)
    order = _LAST_ORDER.search(whole.mask)
    limit = _LIMIT.search(whole.mask, order.end()) if order else None
    return None if limit is None else query[: limit.start()]


def _masked(query: str) -> _Masked:
    text, mask, depth = list[str](), list[str](), 0
    for token in _TOKEN.findall(query):
        depth -= token == ")" and depth > 0  # noqa: S105 - not a password
        shown = depth == 0 and len(token) == 1
        token = " " * len(token) if token.startswith(_COMMENT) else token
        text.append(token)
        mask.append(token if shown or token.isspace() else _HIDDEN * len(token))
        depth += token == "("  # noqa: S105 - not a password
    return _Masked("".join(text), "".join(mask))


def _without(ending: re.Pattern[str], part: _Masked) -> str:
    """The text without an ending of its outermost level, normalised for a comparison."""
    match = ending.search(part.mask)
    text = part.text if match is None else part.text[: match.start()]
    return re.sub(r"\s+", " ", text).strip()


def _selected(query: _Masked) -> Sequence[str]:
    """What is between SELECT and FROM, item by item; empty if that does not say the columns."""
    selects = list(_SELECT.finditer(query.mask))
    if len(selects) != 1 or _COMPOUND.search(query.mask):
        return []
    start = selects[0].end()
    end = _FROM.search(query.mask, start)
    items = query.part(start, end.start() if end else len(query.mask)).items()
    texts = [_without(_ALIAS, item) for item in items]
    return [] if any(text.endswith("*") for text in texts) else texts


def _column(term: str, names: Sequence[str], selected: Sequence[str]) -> int | None:
    """The column that a term of an ORDER BY is: by its number, its name, or its expression."""
    if term.isdecimal() and len(term) < 4:
        return int(term) - 1 if 0 < int(term) <= len(names) else None
    if _NAME.fullmatch(term):
        name = term[1:-1] if term[0] in _QUOTES else term
        called = [at for at, one in enumerate(names) if one.casefold() == name.casefold()]
        if called:
            return called[0] if len(called) == 1 else None
    if len(selected) != len(names):
        return None
    same = [at for at, one in enumerate(selected) if one.casefold() == term.casefold()]
    return same[0] if same else None
