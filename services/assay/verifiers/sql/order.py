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
_LIMIT: Final = re.compile(
    r"\b(?:limit\s+(?P<count>\d{1,9})(?:\s+offset\s+(?P<skipped>\d{1,9})|\s*,\s*(?P<taken>\d{1,9}))?"
    r"|offset\s+(?P<over>\d{1,9})(?:\s+rows?)?"
    r"(?:\s+(?:limit\s+(?P<left>\d{1,9})|fetch\s+(?:first|next)\s+(?P<next>\d{1,9})\s+rows?\s+only))?"
    r"|fetch\s+(?:first|next)\s+\d{1,9}\s+rows?\s+only)\s*;?\s*\Z",
    re.I,
)
_DIRECTION: Final = re.compile(r"(?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?\s*\Z", re.I)
_ALIAS: Final = re.compile(r"\s+as\s+\S+\s*\Z", re.I)
_SELECT: Final = re.compile(r"\bselect\b(?:\s+(?:distinct|all)\b)?", re.I)
_COMPOUND: Final = re.compile(r"\b(?:union|intersect|except)\b", re.I)
_DISTINCT: Final = re.compile(r"\bselect\s+distinct\b", re.I)
_DISTINCT_ON: Final = re.compile(r"\s*on\b", re.I)
_STAR: Final = re.compile(r"(?:\A|\.)\s*\*")
_COLLATE: Final = re.compile(r"\s+collate\s+(\w+)\s*\Z", re.I)
_COLLATIONS: Final = {"nocase": "lower", "rtrim": "rtrim", "binary": ""}
_ROWS: Final = "rows_of_query"
_FROM: Final = re.compile(r"\bfrom\b", re.I)
_NAME: Final = re.compile(r"[^\W\d]\w*|\"(?:[^\"]|\"\")+\"|`[^`]+`|\[[^\[\]]+\]")
_PLAIN: Final = re.compile(rf"(?:(?:{_NAME.pattern})\s*\.\s*)*(?:{_NAME.pattern})")
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
    head = whole.part(0, order.start())
    selected, terms = _selected(head), [_without(_DIRECTION, one) for one in _terms(whole, order)]
    found = [_column(one, names, selected) for one in terms]
    if _COMPOUND.search(head.mask) is None:
        return found
    firsts = [_of_first(one, selected) for one in terms]
    return [first if at is None else at for at, first in zip(found, firsts, strict=True)]


def _terms(whole: _Masked, order: re.Match[str]) -> Sequence[_Masked]:
    end = _END.search(whole.mask, order.end())
    return whole.part(order.end(), end.start() if end else len(whole.mask)).items()


def is_distinct(query: str) -> bool:
    """Whether the query says at its outermost level that its rows are distinct."""
    return _DISTINCT.search(_masked(query).mask) is not None


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
    aliases = _aliases(head, names)
    if order is None or aliases is None:
        return None
    columns, more = list[int](), list[str]()
    for term, column in zip(_terms(whole, order), _columns(whole, order, names), strict=True):
        said = term.text[: m.start()] if (m := _DIRECTION.search(term.mask)) else term.text
        key = _collated(said)
        if column is None and (key is None or aliases & set(_WORD.findall(said.casefold()))):
            return None  # in the list of columns a name does not stand for a column of the result
        columns.append(len(names) + len(more) if column is None else column)
        more += [key] if column is None and key is not None else []
    further = "".join(f", ({said}) " for said in more)
    if _COMPOUND.search(head.mask):  # its order sees the columns of its result and no others
        rows = f"SELECT {_ROWS}.*{further} FROM ({head.text}) AS {_ROWS} "  # noqa: S608 - the reference's own
        return Widened(rows + whole.text[order.start() :], columns)
    begin = _FROM.search(head.mask)
    if begin is None:
        return None
    return Widened(f"{query[: begin.start()]}{further}{query[begin.start() :]}", columns)


def _aliases(head: _Masked, names: Sequence[str]) -> set[str] | None:
    """Names of columns that are no names in FROM; `None`: no further columns can be asked for."""
    selects = list(_SELECT.finditer(head.mask))
    if ";" in head.mask:
        return None
    if _COMPOUND.search(head.mask):
        return set()
    if len(selects) != 1 or _DISTINCT_ON.match(head.mask, selects[0].end()):
        return None
    selected = _selected(head)
    if len(selected) == len(names):
        return {
            name.casefold()
            for name, said in zip(names, selected, strict=True)
            if said.casefold().rpartition(".")[2].strip('"`[]') != name.casefold()
        }
    items = [item.text.strip() for item in _items(head)]
    if not any(_STAR.search(item) for item in items):
        return None
    named = [item for item in items if not _STAR.search(item) and not _PLAIN.fullmatch(item)]
    return {words[-1] for item in named if (words := _WORD.findall(item.casefold()))}


def _collated(term: str) -> str | None:
    """The term so that what its collation finds equal is equal; `None`: not known."""
    found = _COLLATE.search(term)
    if found is None:
        return term
    by = _COLLATIONS.get(found[1].casefold())
    return None if by is None else f"{by}({term[: found.start()]})"


class Unlimited(NamedTuple):
    """A query without the LIMIT and the OFFSET that end it."""

    query: str
    skipped: int
    """Rows that the OFFSET leaves out."""


def unlimited(query: str) -> Unlimited | None:
    """The query without its LIMIT and OFFSET; `None` if it has neither, or not as plain numbers."""
    whole = _masked(query)
    order = _LAST_ORDER.search(whole.mask)
    limit = _LIMIT.search(whole.mask, order.end()) if order else None
    if limit is None:
        return None
    # `LIMIT 2, 3` leaves out 2 rows.
    skipped = limit["count"] if limit["taken"] else limit["skipped"] or limit["over"]
    return Unlimited(query[: limit.start()], int(skipped or 0))


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


def _items(query: _Masked) -> Sequence[_Masked]:
    """What is between the first SELECT and its FROM."""
    select = _SELECT.search(query.mask)
    if select is None:
        return []
    end = _FROM.search(query.mask, select.end())
    return query.part(select.end(), end.start() if end else len(query.mask)).items()


def _selected(query: _Masked) -> Sequence[str]:
    """What is between SELECT and FROM, item by item; empty if that does not say the columns. Of a
    compound query the first one's."""
    compound = _COMPOUND.search(query.mask)
    query = query.part(0, compound.start()) if compound else query
    if len(_SELECT.findall(query.mask)) != 1:
        return []
    texts = [_without(_ALIAS, item) for item in _items(query)]
    return [] if any(_STAR.search(text) for text in texts) else texts


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


def _of_first(term: str, selected: Sequence[str]) -> int | None:
    """`s.a` in the order of a compound query, where the first one selects `a`."""
    if _PLAIN.fullmatch(term) is None or "." not in term:
        return None
    name = term.rpartition(".")[2].casefold()
    plain = [at for at, one in enumerate(selected) if one.casefold() == name]
    return plain[0] if len(plain) == 1 else None
