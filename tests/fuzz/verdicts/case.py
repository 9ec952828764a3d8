"""One generated request and what its reward has to be."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Expected(StrEnum):
    """What a true verdict is; in every case but two the request ends with a reward."""

    RIGHT = "right"
    """The full reward."""
    WRONG = "wrong"
    """A reward, and not the full one."""
    EITHER = "either"
    """Any reward."""
    UNJUDGED = "unjudged"
    """No reward: nothing can be judged here."""
    NOT_RIGHT = "not_right"
    """The reference itself is broken: anything but the full reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A response of known worth."""

    pipeline: str
    kind: str
    """The class of attack or of answer; findings are counted by it."""
    response: str | bytes
    reference: Mapping[str, Any]
    expected: Expected
    settings: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Mapping[str, Any]] = ()
    """The transcript, where the response is in one."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict)


Generator = Callable[[random.Random], Case]


def one_of(rng: random.Random, weighted: Mapping[Any, float]) -> Any:
    """Draw a key by its weight."""
    return rng.choices(list(weighted), weights=list(weighted.values()))[0]
