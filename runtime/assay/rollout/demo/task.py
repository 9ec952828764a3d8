"""The problem: sums of three digits, `<3+4+5>` to `12#`. Pure.

`#` ends the response. The prompts are divided once, by a fixed hash of the digits, into those that
are trained on and those that are held out.
"""

import itertools
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALPHABET: Final = "0123456789+<>#"
PAD: Final = len(ALPHABET)
"""Id that fills a batch; the model never has to predict it."""
VOCABULARY: Final = PAD + 1
STOP: Final = ALPHABET.index("#")
RESPONSE_MAX: Final = 4
"""Tokens of a response: two digits and `#`, and one more that is wrong."""
HELD_OUT: Final = 5
"""One of so many problems is held out."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Three digits to be added."""

    digits: tuple[int, int, int]

    @property
    def prompt(self) -> str:
        """As the model reads it."""
        return "<" + "+".join(str(digit) for digit in self.digits) + ">"

    @property
    def answer(self) -> str:
        """The response without its end."""
        return str(sum(self.digits))

    @property
    def name(self) -> str:
        """For ids of groups."""
        return "-".join(str(digit) for digit in self.digits)


def encode(text: str) -> list[int]:
    """Token ids of a text."""
    return [ALPHABET.index(character) for character in text]


def problems(*, held_out: bool) -> list[Problem]:
    """All problems of one part."""
    every = (Problem((a, b, c)) for a, b, c in itertools.product(range(10), repeat=3))
    return [p for p in every if (zlib.crc32(p.name.encode()) % HELD_OUT == 0) is held_out]


def draw(chance: random.Random, among: Sequence[Problem], count: int) -> list[Problem]:
    """Different problems at random."""
    return chance.sample(list(among), count)
