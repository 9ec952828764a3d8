r"""Sums of unit vectors as points: `2\mathbf{i} - 3\mathbf{j}` is `(2, -3)`."""

import re
from fractions import Fraction
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.tree import Answer, Element, Items, Number, Reader

_BASIS: Final = re.compile(r"\\basis(?P<name>[ijk])(?![A-Za-z])")
_PLAIN_SUM: Final = re.compile(
    r"(?a)\s*[-+]?\s*(?:\d+|\\frac\{\d+\}\{\d+\})?\s*[ijk]"
    r"(?:\s*[-+]\s*(?:\d+|\\frac\{\d+\}\{\d+\})?\s*[ijk]){1,2}\s*"
)
_PLAIN_NAME: Final = re.compile(r"(?<![A-Za-z\\])([ijk])(?![A-Za-z])")
_AXES: Final = "ijk"


def read_vector(text: str, reader: Reader) -> Answer | None:
    """A sum in which each term has one unit vector, and no two terms have the same."""
    if not _BASIS.search(text):
        names = _PLAIN_NAME.findall(text) if _PLAIN_SUM.fullmatch(text) else []
        if len(names) < 2:  # `3 + 4i` is a complex number
            return None
        text = _PLAIN_NAME.sub(r"\\basis\1 ", text)
    found = _coordinates(text, reader)
    if found is None:  # one letter among others, in bold
        return reader.part(_BASIS.sub(lambda match: match["name"], text))
    size = max(2, 1 + max(_AXES.index(name) for name in found))
    zero = Number(value=Fraction(0), form="0")
    items = tuple(found.get(name, zero) for name in _AXES[:size])
    form = f"({', '.join(item.form for item in items)})"
    return Items(kind="tuple", items=items, brackets="()", form=form)


def _coordinates(text: str, reader: Reader) -> dict[str, Answer] | None:
    found: dict[str, Answer] = {}
    for term in _terms(text):
        bases = list(_BASIS.finditer(term))
        if len(bases) != 1 or bases[0]["name"] in found:
            return None
        factor = (term[: bases[0].start()] + term[bases[0].end() :]).strip()
        factor = {"": "1", "+": "1", "-": "-1"}.get(factor, factor.removeprefix("+").strip())
        value = reader.part(factor)
        if not isinstance(value, Number | Element) or value.unit:
            return None
        found[bases[0]["name"]] = value
    return found or None


def _terms(text: str) -> list[str]:
    """The terms of a sum, each with its sign."""
    terms: list[str] = []
    began = 0
    for token in notation.tokens(text):
        if token.depth == 0 and token.text in "+-" and text[began : token.start].strip():
            terms.append(text[began : token.start])
            began = token.start
    return [*terms, text[began:]]
