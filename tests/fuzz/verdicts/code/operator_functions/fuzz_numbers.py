"""Functions of an operator that return numbers of many types, and details in any form."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from itertools import pairwise
from typing import Any


class _Grade(IntEnum):
    NONE = 0
    FULL = 1


class _Scalar:
    """As an array with one item."""

    def __init__(self, value: float) -> None:
        self._value = float(value)

    def __float__(self) -> float:
        return self._value

    def __repr__(self) -> str:
        raise RuntimeError("no text")


_TYPES = (bool, int, float, Fraction, Decimal, _Grade, _Scalar, lambda value: 1.0 * value)


def typed(response: str, reference: dict[str, Any]) -> Any:
    """1 for the right answer, in a type that the response decides; 0.0 without an answer."""
    found = re.search(r"answer: (-?[0-9]{1,9})\b", response)
    if found is None:
        return 0.0
    return _TYPES[len(response) % len(_TYPES)](int(found[1]) == reference["answer"])


def detailed(response: str, reference: dict[str, Any]) -> dict[Any, Any]:
    """The score, with details and components made of the response."""
    words = response.split()
    details: dict[Any, Any] = {"score": typed(response, reference)}
    circle: list[Any] = []
    circle.append(circle)
    forms: tuple[Any, ...] = (
        Counter(pairwise(words)), {None: 1, 2: {(3, 4): words}}, set(words), deque(words), response.encode("utf-8", "replace"),
        _Scalar(1.0), circle, defaultdict(list, {frozenset(words): 1}), 10**5_000, float("nan"), [words] * 99, dict.fromkeys(words), object, iter(words),
    )  # fmt: skip
    if words:
        details["what"] = forms[len(words) % len(forms)]
        details[response[:99]] = forms[len(response) % len(forms)]
        details["components"] = {
            word: forms[at % len(forms)] if at % 3 else True for at, word in enumerate(words)
        }
    return details
