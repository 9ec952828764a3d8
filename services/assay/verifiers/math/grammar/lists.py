"""Several answers without brackets, and the separation of items by commas."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.chains import read_chain
from assay.verifiers.math.grammar.numbers import read_number
from assay.verifiers.math.grammar.tree import (
    ITEMS_MAX,
    Answer,
    Element,
    Items,
    Named,
    Number,
    Prose,
    Reader,
    Words,
)
from assay.verifiers.math.grammar.words import RELATION, WORD, bare

_WORDS: Final = (
    rf"(?a),?\s*(?<![A-Za-z\\])(?:{notation.JOINERS})(?![a-z])\s*(?!\s*$)|\\&"
    rf"|\\text\s*\{{\s*(?:,\s*)?(?:{notation.JOINERS})\s*\}}"
)
_LISTED_WORDS: Final = re.compile(_WORDS)
_LISTED: Final = re.compile(rf"{_WORDS}|\\(?:lor|land)(?![A-Za-z])")
_STATES: Final = re.compile(r"[=<>\d]|\\(?:le|ge|in|neq)(?![A-Za-z])")
"""What statements about values have; `p \\land q` is one formula."""
_EITHER: Final = re.compile(r"(?a)(?<![A-Za-z])(?:or|lor)(?![A-Za-z])")
_BOTH: Final = re.compile(r"(?a)(?<![A-Za-z])(?:and|land)(?![A-Za-z])|&")
_JOINER: Final = re.compile(notation.JOINERS)
_INDIAN: Final = re.compile(r"(?a)-?[1-9]\d?(?:,\d{2})+,\d{3}")
_THOUSANDS: Final = re.compile(r"(?a)(?<![\d,.])[1-9]\d{0,2}(?:,\d{3})+(?!,?\d)")
_COMMA_DECIMAL: Final = re.compile(
    r"(?a)-?\s*(?:\d+|[1-9]\d{0,2}(?: \d{3})+),\d+(?=$|\s*[A-Za-z\\%\u00a4\u20ac])[^\d,]*"
)
"""Also with a percent sign or a unit, and with spaced thousands."""
_SPACED_NUMBERS: Final = re.compile(r"(?a)-?[\d.,/]*\d(?:\s+-?[\d.,/]*\d)+")
_MIXED: Final = re.compile(r"(?a)-?\s*\d+ \d+/\d+")
_SPACED_THOUSANDS: Final = re.compile(r"(?a)-?[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?")
_CIRCLES: Final = frozenset(map(chr, range(0x2460, 0x2474)))
_CIRCLED: Final = re.compile(
    "[\u2460-\u2473](?:(?:\\s|[,;\u548c\u4e0e\u53ca]){0,3}[\u2460-\u2473]){1,19}"
)
"""Numbers of statements, with or without commas."""
_TEXT_PAIR: Final = re.compile(
    r"(?a)\\text\s?\{\s?([A-Z][a-z]{1,20})\s+and\s+([A-Z][a-z]{1,20})\s?\}"
)
"""`\\text{Tom and Mary}`."""
_TEXT_LIST: Final = re.compile(r"\\text\s?\{\s?([A-Za-z][^{}\\$]{0,200},[^{}\\$]{0,200})\}")
COMMA: Final = frozenset({","})
SEMICOLON: Final = frozenset({";"})


def read_list(text: str, reader: Reader) -> Answer | None:
    """A list without brackets: parts between `;`, `,`, `and`, `or`, or spaces between numbers."""
    if _SPACED_NUMBERS.fullmatch(text) and not any(
        one.fullmatch(text) for one in (_MIXED, _SPACED_THOUSANDS, _COMMA_DECIMAL)
    ):
        return read_items("list", text.split(), text, reader)
    if _CIRCLED.fullmatch(text):
        marks = tuple(Words(text=mark, form=mark) for mark in text if mark in _CIRCLES)
        return Items(kind="list", items=marks, form=notation.form(text))
    parts = non_empty(notation.split(text, SEMICOLON))
    if len(parts) < 2:
        parts = _in_text(text) or comma_parts(text)
    if len(parts) < 2 or len(parts) > ITEMS_MAX:
        return None
    if _is_sentence(text, parts):
        return None
    found = read_items("list", parts, text, reader)
    if found is not None:
        found = _told_apart(found, text)
    is_indian = _INDIAN.fullmatch(text) is not None
    if found is not None and reader.depth == 0 and (is_indian or _COMMA_DECIMAL.fullmatch(text)):
        decimal = read_number(text.replace(",", "" if is_indian else "."), reader)
        return Items(
            kind="list",
            items=found.items,
            form=found.form,
            decimal=decimal if isinstance(decimal, Number) else None,
        )
    return found


def _told_apart(found: Items, text: str) -> Items:
    """What joins the items counts: `x = 1 or y = 2` says less than `x = 1, y = 2`. Values of the
    same names again are another group: `x = 1, y = 2 or x = 3, y = 4` are two pairs."""
    joints = [joint[0] for joint in _joints(text)]
    is_either = any(map(_EITHER.search, joints))
    joined = "or" if is_either else "and" if any(map(_BOTH.search, joints)) else ""
    named = [item for item in found.items if isinstance(item, Named)]
    size = len({item.name for item in named})
    if len(named) != len(found.items) or size < 2:
        is_told = is_either and not named and all(map(_is_bound, found.items))
        return replace(found, joined=joined, form=f"{found.form} or" if is_told else found.form)
    groups = [named[at : at + size] for at in range(0, len(named), size)]
    is_parted = any(at % size for at in _alternatives_end_at(text))
    if is_parted or any(len({item.name for item in group}) < size for group in groups):
        form = f"{found.form} or" if is_either else found.form
        return replace(found, joined=joined, form=form)
    if len(groups) == 1:
        return replace(found, joined=joined)
    parts = [", ".join(item.form for item in group) for group in groups]
    items = (
        Items("list", tuple(group), form=form) for group, form in zip(groups, parts, strict=True)
    )
    return replace(found, items=tuple(items), form="; ".join(parts))


def _is_bound(item: Answer) -> bool:
    """`x > 0`, `x \\ne 1`."""
    return isinstance(item, Element) and RELATION.search(item.text) is not None


def _alternatives_end_at(text: str) -> Iterator[int]:
    """The numbers of items before each `or`."""
    ends = [joint for joint in _joints(text) if _EITHER.search(joint[0])]
    return accumulate(
        len(comma_parts(text[begin : end.start()]))
        for begin, end in zip([0, *(one.end() for one in ends)], ends, strict=False)
    )


def _in_text(text: str) -> list[str]:
    """`\\text{Tom, Jack and Mary}`: each part in text of its own; empty if it is something else."""
    if (pair := _TEXT_PAIR.fullmatch(text)) is not None:
        return [f"\\text{{{pair[1]}}}", f"\\text{{{pair[2]}}}"]
    whole = _TEXT_LIST.fullmatch(text)
    if whole is None:
        return []
    return [f"\\text{{{part}}}" for part in comma_parts(whole[1])]


def comma_parts(text: str, *, bracketed: bool = False) -> list[str]:
    """A comma before exactly three digits is part of a number, except inside brackets if commas
    with spaces separate the items."""
    spaced = re.search(r"(?a),\s", text) is not None
    if not bracketed or spaced:
        text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    if not bracketed:
        text = _top_level_and(text)
    return non_empty(notation.split(text, COMMA))


def _top_level_and(text: str) -> str:
    """Replace `and` and `or` outside brackets by commas."""
    parts: list[str] = []
    began = 0
    for joint in _joints(text):
        parts.append(text[began : joint.start()])
        began = joint.end()
    return ", ".join([*parts, text[began:]])


def _joints(text: str) -> Iterator[re.Match[str]]:
    """Each `and` and `or` outside brackets."""
    if "\\&" not in text and not _JOINER.search(text):
        return
    depths = {token.start: token.depth for token in notation.tokens(text)}
    listed = _LISTED if _STATES.search(text) else _LISTED_WORDS
    for match in listed.finditer(text):
        word_at = match.start() + len(match[0]) - len(match[0].lstrip(", "))
        if depths.get(word_at, 1) == 0:
            yield match


def read_items(
    kind: str, parts: list[str], text: str, reader: Reader, brackets: str = ""
) -> Items | None:
    """Items of a list, set or tuple; `None` if one of them is prose."""
    items: list[Answer] = []
    for part in parts:
        item = reader.part(part.strip())
        if kind == "list" and reader.depth == 0:
            item = read_chain(part.strip(), reader, item) or item
        if isinstance(item, Prose):
            return None
        if isinstance(item, Items) and item.brackets == "pm":
            items.extend(item.items)
        else:
            items.append(item)
    form = brackets + ", ".join(notation.form(part) for part in parts)
    return Items(kind=kind, items=tuple(items), brackets=brackets, form=form)


def _is_sentence(text: str, parts: list[str]) -> bool:
    """Clauses between commas are prose, not a list of answers."""
    return any(len(WORD.findall(bare(part))) > 4 for part in parts) or len(
        WORD.findall(bare(text))
    ) > 4 * len(parts)


def non_empty(parts: list[str]) -> list[str]:
    """Parts without surrounding space; blank ones are dropped."""
    return [part.strip() for part in parts if part.strip()]


def read_plus_minus(text: str, reader: Reader) -> Answer | None:
    r"""`1 \pm \sqrt 2` as a list of both values."""
    if not re.search(r"\\(?:pm|mp)(?![A-Za-z])", text) or RELATION.search(text):
        return None
    both = []
    for upper, lower in (("+", "-"), ("-", "+")):
        one = re.sub(r"\\pm(?![A-Za-z])", lambda _, s=upper: s, text)  # type: ignore[misc]
        one = re.sub(r"\\mp(?![A-Za-z])", lambda _, s=lower: s, one)  # type: ignore[misc]
        both.append(re.sub(r"(?a)(^|[({,=])\s*\+", r"\1", one).strip())
    items = [reader.part(one) for one in both]
    if any(isinstance(item, Prose) for item in items):
        return None
    return Items(kind="list", items=tuple(items), brackets="pm", form=notation.form(text))
