"""Units of one kind as multiples of one another: SI prefixes, squares and cubes, quotients.

`kJ` is a thousand `J`, `cm^2` a ten-thousandth of `m^2`, `km/h` 5/18 of `m/s`. Derived units are
products of powers of basic ones: `N` is `kg*m/s^2`. Exact. Nothing is converted between the metric
and other systems, nor temperatures, which have no common zero.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

_PREFIXES: Final = {
    "tera": ("T", 12),
    "giga": ("G", 9),
    "mega": ("M", 6),
    "kilo": ("k", 3),
    "hecto": ("h", 2),
    "deci": ("d", -1),
    "centi": ("c", -2),
    "milli": ("m", -3),
    "micro": ("micro", -6),
    "nano": ("n", -9),
    "pico": ("p", -12),
}
"""Name -> symbol, power of ten. A micro sign is spelled out before units are read."""
_TAKE_PREFIXES: Final = {
    "m": "m meter metre",
    "g": "g gram gramme",
    "s": "s second",
    "l": "L l liter litre",
    "j": "J joule",
    "n": "N newton",
    "w": "W watt",
    "v": "V volt",
    "a": "A ampere amp",
    "k": "K kelvin",
    "hz": "Hz hertz",
    "pa": "Pa pascal",
    "ev": "eV electronvolt",
    "mol": "mol mole",
    "ohm": "ohm",
    "c": "C coulomb",
    "f": "F farad",
    "tesla": "T tesla",
    "henry": "H henry",
    "wb": "Wb weber",
    "bq": "Bq becquerel",
    "sv": "Sv sievert",
    "lm": "lm lumen",
    "lx": "lx lux",
    "cal": "cal calorie",
    "bar": "bar",
    "wh": "Wh",
}
"""Form of a unit -> its symbols and names."""
_EARLIER: Final = {
    "kilom": "km",
    "centim": "cm",
    "millim": "mm",
    "kilog": "kg",
    "millil": "ml",
    "microm": "micrometer",
}
"""Forms without a spelled prefix."""
_AMBIGUOUS: Final = frozenset({"pm", "hm", "Tm"})
"""First of all something else: `4 pm`."""
_USUAL_CASE: Final = {
    **{name.lower(): name for name in ("kJ", "kW", "kN", "kV", "kPa", "keV", "MeV", "GeV")},
    **{name.lower(): name for name in ("kHz", "MHz", "GHz")},
}
"""Symbols that mean one thing in small letters too."""
_DERIVED: Final = {
    "n": "kg*m/s^2",
    "pa": "n/m^2",
    "j": "n*m",
    "w": "j/s",
    "c": "a*s",
    "v": "w/a",
    "ohm": "v/a",
    "f": "c/v",
    "wb": "v*s",
    "tesla": "wb/m^2",
    "henry": "wb/a",
    "hz": "1/s",
    "wh": "w*h",
}
"""In the order in which they follow from one another."""
_FAMILIES: Final = (
    ("s", {"min": 60, "h": 3_600, "day": 86_400, "week": 604_800, "fortnight": 1_209_600}),
    ("in", {"in": 1, "ft": 12, "yd": 36, "mi": 63_360}),
    ("oz", {"oz": 1, "lb": 16}),
    ("cent", {"cent": 1, "$": 100}),
    ("penny", {"penny": 1, "£": 100}),
    ("month", {"month": 1, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}),
    ("cup", {"cup": 1, "pint": 2, "quart": 4, "gallon": 16}),
)
"""Units of one kind that have no prefix."""
_SAME: Final = {"mph": "mi/h"}
_FACTOR: Final = re.compile(r"(?a)(?P<base>[^^*/]{1,20})(?:\^(?P<power>-?[1-9]))?")
_FACTORS_MAX: Final = 8
_ONE: Final = Fraction(1)


class Measure(NamedTuple):
    """A unit as a multiple of the first one of its kind."""

    powers: tuple[tuple[str, int], ...]
    """Of basic units; the same for all units of a kind."""
    size: Fraction


def prefixed(said: str) -> str | None:
    """The form of a unit with an SI prefix; `None` if it has none.

    Symbols are read with their case, since `mW` is no `MW`.
    """
    if said in _AMBIGUOUS:
        return None
    usual = "k" + said[1:] if said[:1] == "K" else _USUAL_CASE.get(said, said)
    return _FORM_OF.get(said) or _FORM_OF.get(usual)


@lru_cache(maxsize=1_024)
def measure(unit: str) -> Measure | None:
    """The kind and size of a unit, given by its form; `None` if nothing is a multiple of it."""
    unit = _SAME.get(unit, unit)
    known = _MEASURES.get(unit)
    return known if known is not None else _product(unit, _MEASURES)


def _product(unit: str, known: Mapping[str, Measure]) -> Measure | None:
    """Factors with their powers, divided by all that stand behind a `/`."""
    powers: dict[str, int] = {}
    size = Fraction(1)
    parts = [part.split("*") for part in unit.split("/")]
    if sum(map(len, parts)) > _FACTORS_MAX:
        return None
    for at, factors in enumerate(parts):
        for said in factors if at or factors != ["1"] else ():
            match = _FACTOR.fullmatch(said)
            base = known.get(_SAME.get(match["base"], match["base"])) if match else None
            if match is None or base is None:
                return None
            power = int(match["power"] or 1) * (-1 if at else 1)
            size *= base.size**power
            for name, times in base.powers:
                powers[name] = powers.get(name, 0) + times * power
    return Measure(tuple(sorted((name, times) for name, times in powers.items() if times)), size)


def scaled(value: Fraction, unit: str, other: str) -> Fraction | None:
    """A value in `unit` as one in `other`; `None` if they are not of one kind."""
    one, two = measure(unit), measure(other)
    if one is None or two is None or one.powers != two.powers:
        return None
    return value * one.size / two.size


def _forms() -> dict[str, str]:
    found: dict[str, str] = {}
    for unit, said in _TAKE_PREFIXES.items():
        for prefix, (letter, _) in _PREFIXES.items():
            form = _EARLIER.get(prefix + unit, prefix + unit)
            for name in said.split():
                if len(name) > 3:
                    found.update({prefix + name: form, f"{prefix}{name}s": form})
                else:
                    found.update({letter + name: form, prefix + name: form})
    return found


def _measures() -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for kind, sizes in _FAMILIES:
        found.update((unit, _basic(kind, Fraction(size))) for unit, size in sizes.items())
    for unit in (*(one for one in _TAKE_PREFIXES if one not in _DERIVED), *_DERIVED):
        base = _product(_DERIVED[unit], found) if unit in _DERIVED else None
        if base is None:
            is_liter = unit == "l"  # a cubic decimeter
            base = Measure((("m", 3),), Fraction(1, 1_000)) if is_liter else _basic(unit)
        found[unit] = base
        for prefix, (_, power) in _PREFIXES.items():
            form = _EARLIER.get(prefix + unit, prefix + unit)
            found[form] = base._replace(size=base.size * Fraction(10) ** power)
    return found


def _basic(unit: str, size: Fraction = _ONE) -> Measure:
    return Measure(((unit, 1),), size)


_FORM_OF: Final = _forms()
_MEASURES: Final = _measures()
