r"""Answers in parts that have labels, and functions given by cases.

`(a) 5 (b) 7` is a list whose items have names, not a product; `\begin{cases}` is a set of pairs of
value and condition.
"""

import re
from collections.abc import Iterator
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.relations import is_name
from assay.verifiers.math.grammar.tree import Answer, Items, Named, Prose, Reader, Words

_PARTS_MAX: Final = 10
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_SEQUENCES: Final = (
    tuple("abcdefghij"),
    tuple("ABCDEFGHIJ"),
    _ROMAN,
    tuple(one.upper() for one in _ROMAN),
    tuple(map(str, range(1, _PARTS_MAX + 1))),
)
_LABEL: Final = re.compile(
    r"(?a)(?:(?<=[\s,;}\\])|^)(?:\\text\s*\{\s*)?"
    r"(?:(?:[Pp]art|[Qq]uestion)\s+\(?(?P<part>[A-Za-z]{1,4}|\d{1,2})[).:]{1,2}"
    r"|\(?(?P<name>[A-Za-z]{1,4}|\d{1,2})[).]:?)(?:\s*\}|(?=\s))[:=\s]*"
)
"""`(a)`, `b)`, `ii.`, `Part 2:`, in text or not, with something behind it."""
_CASES: Final = re.compile(
    r"(?:(?P<name>[^=<>]{1,40})=\s*)?(?P<open>\\\{\s*)?"
    r"\\begin\s*\{(?P<kind>[dr]?cases|array|aligned)\}(?:\{[clr| @{}]{0,20}\}(?!\s*&))?"
    r"(?P<rows>(?:(?!\\(?:begin|end)\s*\{).)*)\\end\s*\{(?P=kind)\}[\s.]*",
    re.DOTALL,
)
"""Also a table behind one brace."""
_WHEN: Final = re.compile(
    r"(?:\\text\s*\{\s*)?(?:,?\s*(?:if|for|when|where|whenever)(?![A-Za-z]))?\s*\}?\s*"
)
_OTHERWISE: Final = re.compile(r"(?:\\text\s*\{\s*)?(?:otherwise|else|elsewhere)\s*\}?")
OTHERWISE: Final = Words(text="otherwise", form="otherwise")


def read_parts(text: str, reader: Reader) -> Answer | None:
    """Two or more values, each behind its label; the labels are the first of a sequence."""
    if reader.depth or not text.startswith(("(", "\\text", "P", "p", "Q", "q", *_FIRSTS)):
        return None
    labels = list(_LABEL.finditer(text))
    names = [label["part"] or label["name"] for label in labels]
    if not 2 <= len(labels) <= _PARTS_MAX or labels[0].start():
        return None
    sequence = next((one for one in _SEQUENCES if set(names) == set(one[: len(names)])), None)
    if sequence is None:
        return None
    items: list[Answer] = []
    for name, said in zip(names, _between(text, labels), strict=True):
        value = reader.part(said) if said else None
        if value is None or isinstance(value, Prose):
            return None
        place = f"p_{{{sequence.index(name) + 1}}}"
        items.append(Named(place, value, f"{place}={said}", f"{place}={notation.form(said)}"))
    return Items(kind="list", items=tuple(items), form=notation.form(text))


_FIRSTS: Final = tuple("abcdefghijABCDEFGHIJivxIVX123456789")


def _between(text: str, labels: list[re.Match[str]]) -> Iterator[str]:
    ends = [label.start() for label in labels[1:]] + [len(text)]
    for label, end in zip(labels, ends, strict=True):
        said = text[label.end() : end].strip()
        for word in ("\\\\", "and", "\\text{and}", ",", ";", "."):
            said = said.removesuffix(word).rstrip()
        yield said


def read_cases(text: str, reader: Reader) -> Answer | None:
    """Pairs of value and condition, in any order."""
    match = _CASES.fullmatch(text.strip())
    if match is None or not (match["open"] or "cases" in match["kind"]):
        return None
    pairs: list[Answer] = []
    for row in filter(None, (row.strip() for row in match["rows"].split("\\\\"))):
        value, mark, condition = row.partition("&")
        if not mark or "&" in condition or len(pairs) == _PARTS_MAX:
            return None
        said = condition.strip().lstrip(", ").rstrip(" ,.;")
        when = _WHEN.match(said)
        said = said[when.end() :].strip() if when else said
        parts = reader.part(value.strip().rstrip(", ")), _condition(said, reader)
        if any(isinstance(part, Prose) for part in parts):
            return None
        form = f"({', '.join(part.form for part in parts)})"
        pairs.append(Items(kind="tuple", items=parts, brackets="()", form=form))
    if len(pairs) < 2:
        return None
    said = text.strip()[match.end("name") + 1 :] if match["name"] else text
    found = Items(kind="set", items=tuple(pairs), brackets="{}", form=notation.form(said))
    name = (match["name"] or "").strip()
    if name and not is_name(name):
        return None
    return Named(notation.form(name), found, text, notation.form(text)) if name else found


def _condition(said: str, reader: Reader) -> Answer:
    return OTHERWISE if _OTHERWISE.fullmatch(said) else reader.part(said)
