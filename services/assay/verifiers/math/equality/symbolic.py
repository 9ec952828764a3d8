r"""Sets and statements in symbols: `B \cup A` for `A \cup B`, `q \land p` for `p \land q`. Pure.

Operands of symmetric signs may stand in any order, and brackets and double negations may differ;
that is all. Statements that follow from each other (`\lnot q \to \lnot p` for `p \to q`) are not
the same answer. Signs mixed without brackets have no agreed order and are left to the other rules.
"""

import re
from typing import Final

from assay.verifiers.math.grammar import Answer, Element, Named, Prose, Words

_SIGNS: Final = {
    "\\cup": "cup", "\\cap": "cap", "\\setminus": "-", "\\backslash": "-",
    "\\land": "land", "\\wedge": "land", "\\lor": "lor", "\\vee": "lor", "\\oplus": "oplus",
    "\\to": "to", "\\rightarrow": "to", "\\Rightarrow": "to", "\\implies": "to",
    "\\leftrightarrow": "iff", "\\Leftrightarrow": "iff", "\\iff": "iff",
}  # fmt: skip
_SYMMETRIC: Final = frozenset({"cup", "cap", "land", "lor", "oplus", "iff"})
_NEGATIONS: Final = frozenset({"\\lnot", "\\neg"})
_PART: Final = re.compile(
    r"(?a)\s*(?:(?P<command>\\[A-Za-z]+)|(?P<name>[A-Za-z](?:_(?:\w|\{\w{1,4}\}))?(?:'|\^\{?[cC]\}?)?)"
    r"|(?P<mark>[()-]))"
)
_CHARS_MAX: Final = 200
_DEPTH_MAX: Final = 12
_FOLLOWS: Final = re.compile(
    r"\\(?:cup|cap|setminus|land|wedge|lor|vee|oplus|to|iff|implies)(?![A-Za-z])"
    r"|\\(?:left)?[rR]ightarrow|-"
)
_SIZED: Final = re.compile(r"\\(?:left|right)(?![A-Za-z])")


class _Unread(Exception):
    """The text is something else."""


def same(gold: Answer, answer: Answer) -> bool:
    """Whether both are such expressions with the same operands of the same signs."""
    texts = [_text(side) for side in (gold, answer)]
    if not all(_FOLLOWS.search(text) and len(text) <= _CHARS_MAX for text in texts):
        return False
    if not any("\\" in text for text in texts):
        return False
    try:
        return _Parser(texts[0]).whole() == _Parser(texts[1]).whole()
    except _Unread:
        return False


def _text(answer: Answer) -> str:
    if isinstance(answer, Named):
        answer = answer.value
    return answer.text.strip(" $.") if isinstance(answer, Element | Words | Prose) else ""


class _Parser:
    """Reads an expression into one spelling."""

    def __init__(self, text: str) -> None:
        self._parts: list[str] = []
        at = 0
        text = _SIZED.sub("", text).rstrip()
        while at < len(text):
            match = _PART.match(text, at)
            if match is None:
                raise _Unread
            self._parts.append(match[0].strip())
            at = match.end()
        self._at = 0

    def whole(self) -> str:
        """The spelling of all of the text.

        Raises:
            _Unread: it is no such expression.
        """
        found = self._chain(0)
        if self._at < len(self._parts) or not found.startswith("("):
            raise _Unread
        return found

    def _next(self) -> str:
        return self._parts[self._at] if self._at < len(self._parts) else ""

    def _chain(self, depth: int) -> str:
        operands = [self._operand(depth)]
        signs = []
        while (sign := self._sign()) is not None:
            signs.append(sign)
            operands.append(self._operand(depth))
        if not signs:
            return operands[0]
        if len(set(signs)) > 1 or (signs[0] not in _SYMMETRIC and len(signs) > 1):
            raise _Unread
        if signs[0] in _SYMMETRIC:
            flat = [part for one in operands for part in _inner(one, signs[0])]
            operands = sorted(flat)
        return f"({signs[0]} {' | '.join(operands)})"

    def _sign(self) -> str | None:
        part = self._next()
        sign = "-" if part == "-" else _SIGNS.get(part)
        if sign is not None:
            self._at += 1
        return sign

    def _operand(self, depth: int) -> str:
        part = self._next()
        self._at += 1
        if depth > _DEPTH_MAX:
            raise _Unread
        if part in _NEGATIONS:
            inner = self._operand(depth + 1)
            return inner[5:-1] if inner.startswith("(not ") else f"(not {inner})"
        if part == "(":
            inner = self._chain(depth + 1)
            if self._next() != ")":
                raise _Unread
            self._at += 1
            return inner
        if not part or part[0] in "\\)-":
            raise _Unread
        return re.sub(r"[{}]", "", part)


def _inner(operand: str, sign: str) -> list[str]:
    """The operands of an operand with the same sign: brackets around them say nothing."""
    prefix = f"({sign} "
    if not operand.startswith(prefix):
        return [operand]
    parts, depth, began = [], 0, len(prefix)
    for at, mark in enumerate(operand):
        depth += (mark == "(") - (mark == ")")
        if depth == 1 and operand.startswith(" | ", at):
            parts.append(operand[began:at])
            began = at + 3
    return [*parts, operand[began:-1]]
