"""Tuples, intervals, sets, unions and matrices."""

import re
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.lists import COMMA, SEMICOLON, comma_parts, non_empty, read_items
from assay.verifiers.math.grammar.relations import read_ratio
from assay.verifiers.math.grammar.tree import (
    ITEMS_MAX,
    Answer,
    Element,
    Items,
    Matrix,
    Prose,
    Reader,
    Union,
)
from assay.verifiers.math.grammar.words import RELATION

_MATRIX: Final = re.compile(
    r"(?:\(|\[)?\s*\\begin\s*\{(?:[pbB]?matrix|smallmatrix|array)\}(?:\{[clr| ]*\})?(?P<rows>.*)"
    r"\\end\s*\{(?:[pbB]?matrix|smallmatrix|array)\}\s*(?:\)|\])?",
    re.DOTALL,
)
_OUTER: Final = re.compile(r"(?P<open>[\[\]])(?P<a>[^\[\]]+),(?P<b>[^\[\]]+)(?P<close>[\[\]])")
_EMPTY: Final = re.compile(
    r"(?a)\\emptyset|\\\{\s*\\\}|(?:\\text\s*\{\s*)?(?:the\s+)?(?:empty|null)\s+set\s*\}?",
    re.IGNORECASE,
)
_SET_BUILDER: Final = re.compile(r"(?a)(?<!\\)\||\\mid(?![A-Za-z])|:|\\vert")
_SOLUTIONS: Final = re.compile(
    r"(?a)(?P<name>[A-Za-z])\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?:\||\\mid(?![A-Za-z])|:|\\vert)"
    r"(?P<said>[^|:]*(?<![A-Za-z\\])(?P=name)(?![A-Za-z])[^|:]*)"
)
"""The real values of one name for which something holds."""
_CUP: Final = frozenset({"\\cup"})


def read_empty_set(text: str, _reader: Reader) -> Answer | None:
    """The empty set, in symbols or in words."""
    return Items(kind="set", items=(), brackets="{}", form="{}") if _EMPTY.fullmatch(text) else None


def read_outward(text: str, reader: Reader) -> Answer | None:
    """An interval with brackets that point outward, as `]0, 1]`."""
    if not _OUTER.fullmatch(text) or (text[0], text[-1]) == ("[", "]"):
        return None
    return read_bracketed(text, reader)


def read_bracketed(text: str, reader: Reader) -> Answer | None:
    """A tuple, point, interval or set; redundant brackets around one value."""
    outer = _OUTER.fullmatch(text)
    if outer and (outer["open"], outer["close"]) != ("[", "]"):
        opens = "(" if outer["open"] == "]" else "["
        text = f"{opens}{outer['a']},{outer['b']}{')' if outer['close'] == '[' else ']'}"
    opening = "\\{" if text.startswith("\\{") else text[:1]
    if text.startswith("\\langle"):
        opening = "\\langle"
    if opening not in {"(", "[", "\\{", "{", "\\langle"}:
        return None
    end = notation.closing(text, 0)
    if end != len(text) - 1:
        return None
    closer = "\\}" if text.endswith("\\}") else text[-1]
    closer = "\\rangle" if text.endswith("\\rangle") else closer
    inside = text[len(opening) : len(text) - len(closer)].strip()
    return _within(text, opening, inside, closer, reader)


def _within(text: str, opening: str, inside: str, closer: str, reader: Reader) -> Answer | None:
    if opening == "{":
        return reader.part(inside) if closer == "}" and inside else None
    if opening == "\\{":
        return _set(text, inside, reader)
    separators = SEMICOLON if ";" in inside and "," not in inside else COMMA
    parts = (
        non_empty(notation.split(inside, separators))
        if separators is SEMICOLON
        else comma_parts(inside, bracketed=True)
    )
    brackets = opening + closer
    if len(parts) == 1 and brackets == "()":
        inner = reader.part(inside)
        return None if isinstance(inner, Element | Prose) else inner
    if len(parts) < 2 or len(parts) > ITEMS_MAX:
        return None
    return read_items("tuple", parts, text, reader, "()" if "langle" in opening else brackets)


def _set(text: str, inside: str, reader: Reader) -> Answer | None:
    if not inside:
        return Items(kind="set", items=(), brackets="{}", form="{}")
    if _SET_BUILDER.search(inside) and not read_ratio(inside, reader):
        built = _SOLUTIONS.fullmatch(inside)
        if built and RELATION.search(built["said"]):
            return reader.part(built["said"].strip())
        return Element(text=text, form=notation.form(text))
    inside = inside.replace(";", ",") if "," not in inside else inside
    parts = comma_parts(inside, bracketed=True)
    if len(parts) > ITEMS_MAX:
        return None
    return read_items("set", parts, text, reader, "{}")


def read_solutions(text: str, reader: Reader) -> Answer | None:
    """`x | -1 < x < 2`, whose braces LaTeX does not show."""
    built = _SOLUTIONS.fullmatch(text)
    if built is None or not RELATION.search(built["said"]):
        return None
    return reader.part(built["said"].strip())


def read_union(text: str, reader: Reader) -> Answer | None:
    r"""Intervals and sets joined by `\cup`."""
    parts = notation.split(text, _CUP)
    if len(parts) < 2 or not all(part.strip() for part in parts):
        return None
    read = tuple(reader.part(part.strip()) for part in parts)
    if not all(isinstance(part, Items) and part.brackets for part in read):
        return None
    return Union(parts=read, text=text, form=notation.form(text))


def read_matrix(text: str, reader: Reader) -> Answer | None:
    """A LaTeX matrix or array; all rows have one length."""
    match = _MATRIX.fullmatch(text)
    if match is None or "\\begin" in match["rows"]:
        return None
    rows = [row for row in match["rows"].split("\\\\") if row.strip()]
    if not 0 < len(rows) <= ITEMS_MAX:
        return None
    read = [read_items("tuple", row.split("&"), row, reader, "()") for row in rows]
    items = tuple(row.items for row in read if row is not None)
    if len(items) != len(rows) or len({len(row) for row in items}) != 1:
        return None
    return Matrix(rows=items, text=text, form=notation.form(text))
