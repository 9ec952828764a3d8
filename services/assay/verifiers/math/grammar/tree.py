"""The tree of an answer: what it says, without what it means.

Each node carries `form`, the spelling that texts share which differ only in spaces and redundant
braces. An `Element` keeps its text: its mathematical meaning is decided by the comparison.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

ITEMS_MAX: Final = 256
"""Maximum number of items of a list; a longer one is read as text."""


@dataclass(frozen=True, slots=True)
class Number:
    """An exact value, how it was written, and its unit."""

    value: Fraction
    is_decimal: bool = False
    is_percent: bool = False
    unit: str = ""
    form: str = ""
    is_compound: bool = False
    """Written with several units: `2 hours 15 minutes`."""
    is_spelled: bool = False
    """Written in words with what it counts, `two triangles`, or a place, `4th`."""


@dataclass(frozen=True, slots=True)
class Element:
    """An expression, equation or relation, for the computer algebra system."""

    text: str
    unit: str = ""
    form: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words: `Monday`, `\\text{even}`, `(C)`."""

    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """Several values between brackets, or between none."""

    kind: str
    """`list` (no brackets, any order), `set` (`\\{\\}`, any order), `tuple` (order counts)."""
    items: tuple["Answer", ...]
    brackets: str = ""
    form: str = ""
    decimal: Number | None = None
    """`1,22` may also be a decimal comma, and `12,34,567` one number."""
    joined: str = ""
    """`or`, `and`, or empty."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of one length."""

    rows: tuple[tuple["Answer", ...], ...]
    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Union:
    """Intervals and sets that `\\cup` joins."""

    parts: tuple["Answer", ...]
    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Ratio:
    """`3:4`, `1:2:3`."""

    terms: tuple["Answer", ...]
    form: str = ""


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day or a duration; `4:30`, `4:30 pm`, `1:02:03`."""

    seconds: int
    half: str = ""
    """`am`, `pm`, or empty."""
    terms: tuple[int, ...] = ()
    form: str = ""
    is_duration: bool = False
    """`1h30`: of the day, or as long as 90 minutes."""


@dataclass(frozen=True, slots=True)
class Date:
    """A day; the year may be left out (0)."""

    year: int
    month: int
    day: int
    form: str = ""
    weekday: int = -1
    """From 0 for Monday; -1 if the text does not say it."""


@dataclass(frozen=True, slots=True)
class Based:
    """Digits with the base they are written in: `101_2`."""

    digits: str
    base: int
    form: str = ""
    is_prefixed: bool = False
    """`0x2A`: the digits do not stand alone for it."""


@dataclass(frozen=True, slots=True)
class Named:
    """`x = 5`, `(p, q) = (3, 2)`, `x \\in [0, 1]`: a name and its value."""

    name: str
    value: "Answer"
    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """`\\pi \\approx 3.14`, `2 + 3 = 5`: sides that are one value if they agree."""

    sides: tuple["Answer", ...]
    """Numbers and expressions."""
    rounds: tuple[bool, ...]
    """For each side: whether it stands behind a sign of approximation."""
    is_claimed: bool
    """The text says that the sides are equal; `1 or 2` may be two answers."""
    otherwise: "Answer"
    """What the text says if the sides do not agree."""
    form: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences, in which the answer must be searched."""

    text: str
    form: str = ""


Answer = (
    Number
    | Element
    | Words
    | Items
    | Matrix
    | Union
    | Ratio
    | Time
    | Date
    | Based
    | Named
    | Chain
    | Prose
)


def are_same(one: Answer, other: Answer) -> bool:
    """Whether they are plainly the same, as `5` and `5.0` are."""
    match one, other:
        case Number(value=left), Number(value=right) if left == right:
            return True
    return one.form == other.form


class Reader(Protocol):
    """Reads parts of an answer: what a rule needs to know of the rules around it."""

    @property
    def depth(self) -> int:
        """Number of brackets and separators around the text."""

    def part(self, text: str) -> Answer:
        """Read a part of the text, one level deeper."""
