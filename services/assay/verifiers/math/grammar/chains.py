r"""Chains of equal sides: `\frac13 \approx 0.333`, `x = \sqrt{12} = 2\sqrt{3}`, `1/3 (about 0.33)`.

Whether the sides agree is not decided here; a chain keeps what the text says otherwise.
"""

import re
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.relations import is_name
from assay.verifiers.math.grammar.tree import Answer, Chain, Element, Named, Number, Reader, Words

_SIDES_MAX: Final = 16
_CHARS_MAX: Final = 1_000
_ABOUT: Final = (
    r"approximately|approx(?:\.|imates)?|about|roughly|around|nearly|close to|which rounds to"
)
_THAT_IS: Final = (
    r"or(?: equivalently)?|i\.?e\.?,?|that is,?|which is(?: equal to)?|which equals|equivalently"
    r"|which (?:simplifies|reduces|evaluates) to"
)
_JOINED: Final = re.compile(
    rf"(?ai)(?:\s*[,;])?\s*(?:(?:\\text\s*\{{|\()\s*)*(?:,\s*)?(?:"
    rf"(?:(?:{_THAT_IS})\s*\}}?\s*)?(?:\\text\s*\{{\s*)?(?P<about>(?<![A-Za-z])(?:{_ABOUT})(?![A-Za-z])"
    r"(?:\s+equal to)?|\\approx(?![A-Za-z]))"
    rf"|(?<![A-Za-z])(?P<or>{_THAT_IS})(?![A-Za-z]))\s*\}}?\s*(?:\(\s*)?(?=[\d.\\{notation.CURRENCY}-])"
)
"""Words and brackets that join two spellings of one value."""
_BRACKETS_AS_TEXT: Final = re.compile(r"\\text\s*\{\s*([)\].,]*)\s*\}")
_RESTATED: Final = re.compile(r"(?a)\s\(\s?(-?[\d.,/]+(?:\\overline\{\d+\})?\s?(?:\\?%)?)\s?\)$")
"""`3/4 (75\\%)`; `3 (4)` is a product, whose sides do not agree."""
_DOTS: Final = re.compile(r"(?a)(?<=\.\d)(\d*)\s?(?:\.{3}|\\[lc]?dots)$")
_OTHER_RELATION: Final = re.compile(
    r"[<>]|!=|:=|=="
    r"|\\(?:le|ge|neq|equiv|sim|in|to|pmod|bmod|mod|Rightarrow|iff|implies)(?![A-Za-z])"
)
_HINT: Final = re.compile(
    rf"(?ai)=|\\(?:approx|simeq|cong)(?![A-Za-z])|(?<![a-z])(?:{_ABOUT}|{_THAT_IS})|\)$"
)
_APPROX: Final = frozenset({"\\approx", "\\simeq", "\\cong", "\\doteq"})
_CONSTANTS: Final = frozenset({"\\pi", "e", "i"})


def read_chain(text: str, reader: Reader, found: Answer) -> Answer | None:
    """The chain that `text` is; `found` is what the other rules read.

    A name in front names the value; a name alone with its value is no chain. Of two decimals with
    `or` between them each might be the answer.
    """
    if len(text) > _CHARS_MAX or not _HINT.search(text) or _OTHER_RELATION.search(text):
        return None
    joined, is_worded = _with_signs(text)
    sides, rounds = _sides(joined)
    if not 2 <= len(sides) <= _SIDES_MAX or not all(sides):
        return None
    name = sides[0] if is_name(sides[0]) and sides[0] not in _CONSTANTS else ""
    values = [reader.part(_DOTS.sub(r"\1", side)) for side in sides[1 if name else 0 :]]
    if not all(isinstance(value, Number | Element) for value in values):
        return None
    decimals = [one for one in values if isinstance(one, Number) and one.is_decimal]
    if is_worded and len(decimals) > 1 and len({one.unit for one in decimals}) == 1:
        return None
    form = notation.form(text)
    if len(values) == 1:
        is_approximate = rounds[-1] and not isinstance(found, Named | Words)
        return Named(notation.form(name), values[0], text, form) if is_approximate else None
    rounds = rounds[len(sides) - len(values) :]
    ends_rounded = bool(name) and rounds[-1] and isinstance(found, Element)
    otherwise = values[-1] if ends_rounded else found
    chain = Chain(tuple(values), rounds, not is_worded, otherwise, form)
    return Named(notation.form(name), chain, text, form) if name else chain


def _with_signs(text: str) -> tuple[str, bool]:
    """Words between two values as signs, and whether there was an `or` between them."""
    is_worded = False

    def sign(match: re.Match[str]) -> str:
        nonlocal is_worded
        is_worded = is_worded or match["about"] is None
        return " \\approx " if match["about"] else " = "

    joined = _JOINED.sub(sign, _BRACKETS_AS_TEXT.sub(r"\1", text))
    restated = _RESTATED.search(joined)
    if restated:
        is_worded = True
        joined = f"{joined[: restated.start()]} = {restated[1]}"
    missing = sum(map(joined.count, "([{")) - sum(map(joined.count, ")]}"))
    while missing < 0 and joined.rstrip(" .").endswith((")", "}")):
        joined = joined.rstrip(" .")[:-1]
        missing += 1
    return joined, is_worded


def _sides(text: str) -> tuple[list[str], tuple[bool, ...]]:
    """The parts between signs outside all brackets, and whether an approximation precedes each."""
    parts: list[str] = []
    rounds = [False]
    began = 0
    for token in notation.tokens(text):
        if token.depth or not (token.text == "=" or token.text in _APPROX):
            continue
        parts.append(text[began : token.start].strip())
        rounds.append(token.text in _APPROX)
        began = token.start + len(token.text)
    return [*parts, text[began:].strip()], tuple(rounds)
