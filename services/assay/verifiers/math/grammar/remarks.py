"""Removes a remark behind an answer: `5, as required`, `5 (not 4)`, `5, since 4 is too small`.

A remark affirms the value before it: it says where that comes from, how it is written, or which
other value it is not. Invariants: the value before the remark is read, never one inside it; words
that deny, hedge or restate the value are no remark, and the text stays as it is. Linear in the
length, which is bounded.
"""

import re
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.read import read
from assay.verifiers.math.grammar.tree import (
    Answer,
    Chain,
    Element,
    Items,
    Prose,
    Words,
    are_same,
)

CHARS_MAX: Final = 300
"""A longer text is not searched."""
_TEXT: Final = r"\\(?:text(?:bf|it|rm|normal)?|mathrm|mbox)\s?\{"
_BEGINS: Final = rf"(?:\s|\\[,;:! ]|~|\\q?quad(?![A-Za-z])|{_TEXT}|[,;(\[*_\u2013\u2014-])+"
_WHY: Final = r"since|because|as(?=\s\w)|by(?=\s[a-z])|using|where"
_HOW: Final = (
    r"exact(?:ly)?|approx(?:\.|imately)?|rounded|to the nearest|simplified|verified|checked|done"
    r"|(?:and )?we(?:'re| are) (?:done|finished)"
    r"|in (?:simplest|lowest|reduced|exact|simplified|decimal|fractional|total|all)"
    r"|which (?:is|completes|concludes|finishes|proves)"
    r"|unique(?:ly)?|(?:the |is the )?(?:only|unique) (?:solution|answer|possibility|value|one)"
    r"|as (?:required|desired|expected|needed|claimed|requested)|q\.?e\.?d\.?"
    r"|(?:this is |that is |is )?(?:the |my |our )?(?:final )?answer|is correct|correct"
)
_NOT: Final = r"(?:and |but )?not|rather than|instead of|as opposed to"
_REMARK: Final = re.compile(
    rf"(?ai){_BEGINS}(?:(?P<rejects>{_NOT})|(?P<why>{_WHY})|(?P<how>{_HOW}))(?![A-Za-z])"
)
_OPEN_TEXT: Final = re.compile(rf"{_TEXT}[^{{}}]*$")
_APART: Final = re.compile(r"[,;(\[\u2013\u2014]")
"""Between words and `not`: `does not exist` is one statement."""
_REMARKS_MAX: Final = 8
"""Places that are tried as the beginning of the remark."""
_MARKUP: Final = re.compile(rf"{_TEXT}|[{{}}$]|\\[()\[\],;:! ]")
_DOUBTS: Final = re.compile(
    r"(?ai)(?<![a-z])(?:or|if|else|otherwise|but|maybe|perhaps|possibly|either|neither|wrong|actually"
    r"|incorrect|false|untrue|impossible|invalid|unless|except|versus|vs|alternatively|also|wait"
    r"|should|could|might|so|thus|hence|therefore|then|however|although|though)(?![a-z])|[?!;]"
    r"|\.\s+\S|,\s*-?[\d\\]"
)
"""Words and marks with which a remark does more than affirm."""
_RESTATES: Final = re.compile(r"(?ai)(?<![a-z])answer(?![a-z])|\bn't\b")
_VALUES: Final = re.compile(r"(?a)[\d=<>]|\\(?!text|math|mbox)[A-Za-z]+")
_NEGATED_ANSWER: Final = re.compile(r"(?ai)(?<![a-z])(?:not|n't|never|no)(?![a-z])")
_SAYS: Final = re.compile(r"(?a)[A-Za-z]{2,}")
_WORDS_MAX: Final = 3
_TOLD: Final = re.compile(
    rf"(?ai)(?:{_TEXT}\s?|\*\*|__)?(?P<told>yes|no|true|false)(?:\s?\}}|\*\*|__)?"
    r"\s?[,.;:\u2013\u2014-]\s?(?:\*\*|__)?(?P<clause>\s?[a-z][^\n]{1,200})"
)
_OPPOSED: Final = {
    True: re.compile(r"(?ai)(?<![a-z])(?:no|false|sure|certain|know)(?![a-z])"),
    False: re.compile(r"(?ai)(?<![a-z])(?:yes|true|sure|certain|know)(?![a-z])"),
}
"""What a clause behind yes (or true), and behind no, must not say."""
_DENIES: Final = re.compile(r"(?ai)(?<![a-z])(?:not|never|no|none|cannot|nothing)(?![a-z])|n't")
_SAYS_IT_IS: Final = re.compile(
    r"(?ai)(?:it|they|this|that|there|he|she|we|you|i) (?:is|are|was|were|does|do|did|can|could"
    r"|will|would|has|have|had|exists?)"
)


def without_remark(text: str) -> str:
    """`text` up to its remark, or all of it."""
    if len(text) > CHARS_MAX:
        return text
    whole, text = text, notation.peel(text.replace("\\$", notation.CURRENCY))
    told = _told(text)
    if told is not None:
        return told
    for number, match in enumerate(_REMARK.finditer(text)):
        if number == _REMARKS_MAX:
            break
        said = _closed(text[: match.start()])
        value = _value(said)
        if value is not None and _affirms(match, text, value):
            return said
    return whole


def _told(text: str) -> str | None:
    """`Yes` of `Yes, it does.`: a clause behind it that says the same, and no value."""
    match = _TOLD.fullmatch(text)
    if match is None:
        return None
    said = _MARKUP.sub(" ", match["clause"]).rstrip(" .,)]*_")
    is_yes = match["told"].lower() in {"yes", "true"}
    if _DOUBTS.search(said) or _VALUES.search(said) or _OPPOSED[is_yes].search(said):
        return None
    is_denied = _DENIES.search(said) is not None
    if is_yes:
        return None if is_denied else match["told"]
    return match["told"] if is_denied or not _SAYS_IT_IS.fullmatch(said.strip()) else None


def _closed(text: str) -> str:
    """The remark may begin inside of `\\text{}`."""
    opened = text.count("{") - text.count("}") == 1 and _OPEN_TEXT.search(text)
    return f"{text.strip()}}}" if opened else text.strip()


def _value(text: str) -> Answer | None:
    """What stands before the remark, if that is an answer by itself."""
    if not text.strip() or not _is_balanced(text):
        return None
    value = read(text)
    if isinstance(value, Words):
        return value if len(value.text.split()) <= _WORDS_MAX else None
    return value if is_mathematics(value) else None


def _is_balanced(text: str) -> bool:
    """An interval may open with one kind of bracket and close with another."""
    opened, closed = (sum(map(text.count, brackets)) for brackets in ("([{", ")]}"))
    return opened == closed and text.count("$") % 2 == 0


def is_mathematics(value: Answer) -> bool:
    """Whether it is a value, or values, without words of prose."""
    match value:
        case Prose() | Words():
            return False
        case Items(items=items):
            return all(map(is_mathematics, items))
        case Element(text=said):
            return not _SAYS.search(re.sub(r"\\[A-Za-z]+(?:\s*\{[a-z]*matrix\})?", " ", said))
    return True


def _affirms(match: re.Match[str], text: str, value: Answer) -> bool:
    said = _MARKUP.sub(" ", text[match.end() :]).rstrip(" .,)]*_")
    if match["rejects"]:
        is_apart = not isinstance(value, Words) or _APART.search(match[0]) is not None
        return is_apart and _rejects_another(said, value)
    if _DOUBTS.search(said):
        return False
    if match["why"]:
        return bool(said.strip()) and _explains(match["why"], said)
    return not _VALUES.search(said) and not _NEGATED_ANSWER.search(said)


def _explains(why: str, said: str) -> bool:
    """A clause with `since` or `because` may contain values; in others they may be the answer."""
    if _RESTATES.search(said):
        return False
    return why.lower() in {"since", "because"} or not _VALUES.search(said)


def _rejects_another(said: str, value: Answer) -> bool:
    """Whether it is one value, and not the same."""
    said = re.sub(r"(?ai)^\s*(?:the|just|simply|equal to)\s+", "", said)
    other = read(said)
    if isinstance(other, Items) and not other.brackets:
        return False
    if isinstance(other, Chain | Prose) or (isinstance(other, Words) != isinstance(value, Words)):
        return False
    if isinstance(other, Words):
        return len(other.text.split()) <= _WORDS_MAX and other.text != getattr(value, "text", "")
    return is_mathematics(other) and not are_same(value, other)
