r"""Classes of integers: `x \equiv 10 \pmod 7`, `3 mod 7`, `7k + 3` with an integer k.

Two of them are equal if they have the same modulus and the same remainders. Works on the form of a
text (`notation.form`), from which spaces are gone. Linear in its length, which is bounded.
"""

import re
from typing import Final, NamedTuple

from assay.verifiers.math.reading import Read

_CHARS_MAX: Final = 200
_PARTS_MAX: Final = 32
_VALUES: Final = r"-?\d{1,12}(?:(?:,|or|and|,or|,and)-?\d{1,12})*"
_CONGRUENCE: Final = re.compile(
    rf"(?a)(?:(?:[A-Za-z]|-?\d{{1,12}})\\equiv|[A-Za-z]=)?(?P<values>{_VALUES}),?\\?[pb]?mod(?:ulo)?(?P<modulus>\d{{1,12}})"
)
_LINEAR: Final = re.compile(
    r"(?a)(?:(?P<name>[a-z])=)?(?:(?P<a>-?\d{1,12})(?P<k>[a-z])(?P<b>[+-]\d{1,12})?"
    r"|(?P<b1>-?\d{1,12})(?P<a1>[+-]\d{1,12})(?P<k1>[a-z]))"
)
_INTEGER: Final = re.compile(r"(?a)-?\d{1,12}")
_OR: Final = re.compile(r"(?:,|\\lor|or|and)+(?=[A-Za-z](?:\\equiv|=))|,(?=-?\d+[a-z](?:[+-]|$))")
_MARKS: Final = re.compile(r"[(){}\s]|\\cdot(?![A-Za-z])")
_IN_BRACKETS: Final = re.compile(r"\(\s?\\?[{}]?mod(?:ulo)?[{}]?\d{1,12}\)|\{\(mod\}\d{1,12}\)")
"""`7 (mod 12)` is a class, as `7 \\pmod{12}` is."""
_INTEGERS: Final = re.compile(r"[A-Za-z]\\in\\mathbbZ")
"""The condition that makes an expression a class."""


class _Class(NamedTuple):
    modulus: int
    written: tuple[int, ...]
    is_linear: bool
    is_named: bool = True
    """`x \\equiv 3`; `75 \\bmod 123` is to be worked out."""
    is_class: bool = True
    """`10 \\pmod 7`; `10 \\bmod 7` is the number 3."""

    @property
    def remainders(self) -> frozenset[int]:
        return frozenset(value % self.modulus for value in self.written)


def same(gold: Read, answer: Read) -> bool | None:
    """Whether both are the same class; `None` if they are not to be compared as classes."""
    one, two = _class_of(gold), _class_of(answer)
    if one is None or two is None:
        if one is not None:
            return _is_remainder(one, answer)
        if two is None:
            return None
        return _is_remainder(two, gold) if two.is_named else _is_worked_out(two, gold) or None
    if one.is_linear and two.is_linear and not _INTEGERS.fullmatch(gold.condition):
        return None  # expressions in a name
    return (one.modulus, one.remainders) == (two.modulus, two.remainders)


def _is_remainder(said: _Class, other: Read) -> bool | None:
    """A reference of which only the remainder is stated, or an answer that states more."""
    number = _INTEGER.fullmatch(other.form)
    if number is None or said.is_linear:
        return None
    (value, *more) = said.written
    may_stand = said.is_named or said.is_class or value < said.modulus
    stated = (value, value % said.modulus) if may_stand else (value % said.modulus,)
    return not more and int(number[0]) in stated


def _is_worked_out(said: _Class, gold: Read) -> bool:
    """`7 \\bmod 3` for 1, and `1 \\pmod 3`, which says the remainder."""
    number = _INTEGER.fullmatch(gold.form)
    if number is None or said.is_linear or len(said.written) != 1 or said.modulus < 2:
        return False
    (value,) = said.written
    if said.is_class:
        return int(number[0]) == value < said.modulus
    return value >= said.modulus and int(number[0]) == value % said.modulus


def _class_of(read: Read) -> _Class | None:
    form = getattr(read.answer, "form", "") if read.condition else read.form
    if not 0 < len(form) <= _CHARS_MAX:
        return None
    is_class = _IN_BRACKETS.search(form) is not None
    parts = [_part(part) for part in _OR.split(_MARKS.sub("", form))[:_PARTS_MAX]]
    found = [part for part in parts if part is not None]
    if len(found) != len(parts) or len({part.modulus for part in found}) != 1:
        return None
    if len({part.is_linear for part in found}) != 1:
        return None
    written = tuple(value for part in found for value in part.written)
    first = found[0]
    return first._replace(written=written, is_class=first.is_class or is_class)


def _part(form: str) -> _Class | None:
    congruence = _CONGRUENCE.fullmatch(form)
    if congruence is not None:
        modulus = int(congruence["modulus"])
        values = tuple(map(int, _INTEGER.findall(congruence["values"])))
        is_named = "\\equiv" in form
        is_class = "\\pmod" in form
        found = _Class(modulus, values, is_linear=False, is_named=is_named, is_class=is_class)
        return found if modulus else None
    linear = _LINEAR.fullmatch(form)
    if linear is None or linear["name"] == (linear["k"] or linear["k1"]):
        return None
    modulus = abs(int(linear["a"] or linear["a1"]))
    value = int(linear["b"] or linear["b1"] or 0)
    return _Class(modulus, (value,), is_linear=True) if modulus > 1 else None
