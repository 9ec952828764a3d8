"""Units of one kind as multiples of one another: SI prefixes, squares and cubes, quotients.

`kJ` is a thousand `J`, `cm^2` a ten-thousandth of `m^2`, `km/h` 5/18 of `m/s`. Exact. Nothing is
converted between the metric and other systems, nor temperatures, which have no common zero.
"""

import re
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
_FAMILIES: Final = (
    ("s", {"min": 60, "h": 3_600, "day": 86_400, "week": 604_800}),
    ("in", {"in": 1, "ft": 12, "yd": 36, "mi": 63_360}),
    ("oz", {"oz": 1, "lb": 16}),
    ("cent", {"cent": 1, "$": 100}),
    ("month", {"month": 1, "year": 12}),
)
"""Units of one kind that have no prefix."""
_SAME: Final = {"mph": "mi/h"}
_POWER: Final = re.compile(r"(?a)(?P<base>[^^/]{1,20})\^(?P<power>[23])")
_QUOTIENT: Final = re.compile(r"(?P<top>[^/]{1,20})/(?P<below>[^/]{1,20})")


class Measure(NamedTuple):
    """A unit as a multiple of the first one of its kind."""

    kind: str
    size: Fraction


def prefixed(said: str) -> str | None:
    """The form of a unit with an SI prefix; `None` if it is none.

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
    if known is not None:
        return known
    quotient = _QUOTIENT.fullmatch(unit)
    if quotient is not None:
        top, below = measure(quotient["top"]), measure(quotient["below"])
        if top is None or below is None:
            return None
        return Measure(f"{top.kind}/{below.kind}", top.size / below.size)
    power = _POWER.fullmatch(unit)
    base = measure(power["base"]) if power is not None else None
    if power is None or base is None:
        return None
    return Measure(f"{base.kind}^{power['power']}", base.size ** int(power["power"]))


def scaled(value: Fraction, unit: str, other: str) -> Fraction | None:
    """A value in `unit` as one in `other`; `None` if they are not of one kind."""
    one, two = measure(unit), measure(other)
    if one is None or two is None or one.kind != two.kind:
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
    found.pop("mHz")  # `mhz` is written for `MHz`
    return found


def _measures() -> dict[str, Measure]:
    found = {unit: Measure(unit, Fraction(1)) for unit in _TAKE_PREFIXES}
    for unit in _TAKE_PREFIXES:
        for prefix, (_, power) in _PREFIXES.items():
            form = _EARLIER.get(prefix + unit, prefix + unit)
            found[form] = Measure(unit, Fraction(10) ** power)
    for kind, sizes in _FAMILIES:
        found.update((unit, Measure(kind, Fraction(size))) for unit, size in sizes.items())
    for form, (kind, size) in list(found.items()):
        if kind == "l":  # a liter is a cubic decimeter
            found[form] = Measure("m^3", size / 1_000)
    return found


_FORM_OF: Final = _forms()
_MEASURES: Final = _measures()
