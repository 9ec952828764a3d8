"""Units of measure: one spelling for each, and quantities of several units."""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from assay.verifiers.math.lexicon import measures

_UNITS: Final = {
    "$": "dollar dollars usd",
    "cent": "cents \u00a2",
    "penny": "pence",
    "€": "euro euros eur",
    "£": "gbp sterling quid",
    "¥": "yen jpy yuan cny rmb \u5143",
    "₹": "rupee rupees inr",
    "°": "degree degrees deg",
    "cm": "centimeter centimeters centimetre centimetres cms \u5398\u7c73",
    "mm": "millimeter millimeters millimetre millimetres \u6beb\u7c73",
    "km": "kilometer kilometers kilometre kilometres kms \u5343\u7c73 \u516c\u91cc",
    "m": "meter meters metre metres \u7c73",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yard yards yds",
    "mi": "mile miles",
    "mph": "mi/h mile/hour miles/hour milesperhour mileperhour mi/hr",
    "km/h": "kmh kmph kph km/hr kilometersperhour kilometers/hour kilometer/hour",
    "m/s": "meterspersecond meters/second meter/second m/sec",
    "cm^3": "cc ccs",
    "g": "gram grams gm gms \u514b",
    "kg": "kilogram kilograms kgs \u5343\u514b \u516c\u65a4",
    "lb": "pound pounds lbs",
    "oz": "ounce ounces",
    "l": "liter liters litre litres \u5347",
    "ml": "milliliter milliliters millilitre millilitres \u6beb\u5347",
    "s": "second seconds sec secs \u79d2",
    "min": "minute minutes mins \u5206\u949f",
    "h": "hour hours hr hrs \u5c0f\u65f6 \u65f6",
    "day": "days \u5929",
    "week": "weeks \u5468",
    "month": "months \u6708",
    "year": "years yr yrs \u5e74",
    "fortnight": "fortnights",
    "decade": "decades",
    "century": "centuries",
    "millennium": "millennia millenniums",
    "rad": "radian radians",
    "v": "volt volts",
    "a": "ampere amperes amp amps",
    "w": "watt watts",
    "j": "joule joules",
    "n": "newton newtons",
    "k": "kelvin",
    "hz": "hertz",
    "pa": "pascal pascals",
    "mol": "mole moles",
    "ev": "electronvolt electronvolts",
    "t": "ton tons tonne tonnes \u5428",
    "°c": "celsius degreescelsius degc",
    "°f": "fahrenheit degreesfahrenheit degf",
    "ohm": "ohms",
    "'": "arcminute arcminutes",
    "''": "arcsecond arcseconds",
    "micrometer": "microm micron microns",
    "c": "coulomb coulombs",
    "f": "farad farads",
    "tesla": "teslas",
    "henry": "henrys henries",
    "wb": "weber webers",
    "bq": "becquerel becquerels",
    "sv": "sievert sieverts",
    "lm": "lumen lumens",
    "lx": "lux",
    "cal": "calorie calories cals",
    "bar": "bars",
    "cup": "cups",
    "pint": "pints",
    "quart": "quarts qt qts",
    "gallon": "gallons gal gals",
    "acre": "acres",
    "hectare": "hectares",
    "atm": "atmosphere atmospheres",
    "torr": "mmhg",
    "gauss": "",
    "dyne": "dynes dyn",
    "erg": "ergs",
    "knot": "knots",
    "lightyear": "lightyears light-year light-years",
    "rpm": "revolutionsperminute",
    "rev": "revolution revolutions",
    "psi": "",
    "decibel": "decibels",
    "horsepower": "",
}
_CAPITALS: Final = {"T": "tesla", "H": "henry"}
"""Symbols that mean something else in small letters."""
_UNIT_OF: Final = {
    alias: unit for unit, aliases in _UNITS.items() for alias in (unit, *aliases.split())
}
_PRODUCTS: Final = frozenset({"wb", "bq", "sv", "lm", "lx", "qt", "rev"})
"""Two or three letters that are rather a product of names, unless they are set as text."""
PLAIN: Final = (
    frozenset(unit for unit in _UNIT_OF if len(unit) > 1 and unit.isalpha()) - _PRODUCTS
) | {"unit", "units"}
NOT_UNITS: Final = frozenset(
    [
        *("is", "are", "was", "were", "be", "isn't", "aren't", "not", "no", "nor", "or", "never"),
        *("if", "else", "otherwise", "but", "maybe", "perhaps", "possibly", "either", "neither"),
        *("wrong", "incorrect", "false", "untrue", "impossible", "invalid", "unless", "except"),
        *("versus", "vs", "alternatively", "instead", "rather"),
        *("ist", "est", "es", "nicht", "niet", "pas", "falsch", "faux", "fausse", "falso", "falsa"),
        *("incorrecto", "incorrecta", "errado", "errada", "sbagliato", "sbagliata", "bukan"),
        *("to", "plus", "minus", "times", "over", "divided", "multiplied", "mod", "modulo", "out"),
        *(
            "squared",
            "cubed",
            "doubled",
            "tripled",
            "halved",
            "half",
            "halves",
            "tenth",
            "tenths",
            "hundredth",
            "hundredths",
        ),
        *("thousandth", "thousandths", "fifth", "fifths", "sixth", "sixths", "eighth", "eighths"),
        *("thirds", "seventh", "sevenths", "ninth", "ninths", "fails"),
        *("hundred", "hundreds", "thousand", "thousands", "million", "millions", "billion"),
        *("billions", "trillion", "trillions", "factorial", "between", "dozen", "dozens"),
    ]
)
"""Words that say something about a number or change it; none of them is part of a unit."""
_POWER_WORDS: Final = {"square": "^2", "sq": "^2", "cubic": "^3", "cu": "^3"}
COUNTERS: Final = re.compile(
    "(?:\u5e73\u65b9|\u7acb\u65b9)?(?:\u5398|\u5343|\u6beb|\u5206)?\u7c73|\u516c[\u91cc\u65a4\u9877]|\u5343?\u514b|\u6beb?\u5347|\u5428|\u5143|\u89d2|\u5c0f?\u65f6|\u5206\u949f?"
    "|[\u500b\u679a\u5186\uac1c\uba85\uc6d0\u79d2\u5929\u5468\u6708\u5e74\u5c81\u5ea6\u4eba\u4e2a\u53ea\u672c\u6761\u5f20\u68f5\u540d\u6b21\u79cd\u4ef6\u8f86\u53f0\u652f\u9875\u5957\u5757\u7ec4\u4efd\u888b\u7bb1\u74f6\u4f4d\u9053\u9898\u6b65\u6839\u5934\u5339\u5ea7\u95f4\u5c42\u6392\u6735\u9897\u7c92\u53cc\u5bf9]"
)
"""Chinese units and counting words; none of them changes the number."""
_CHINESE_POWERS: Final = {"\u5e73\u65b9": "^2", "\u7acb\u65b9": "^3"}
_PER: Final = re.compile(r"(?a)\s([A-Za-z]{1,4})\s?\^\s?-(\d)")
"""`m s^-1` is `m/s`."""
_BRACED: Final = re.compile(r"(?a)\^\s?\{\s?(-?\d)\s?\}")
_MARKS: Final = re.compile(r"[{}.]|\\cdot(?![A-Za-z])")
_MULTIPLIED: Final = re.compile(r"\\cdot(?![A-Za-z])|[*\u00b7\u22c5{}.~]|\\[,;: ]")
_FACTOR: Final = r"[A-Za-z\u00b0\u20ac\u00a3]{1,20}(?:\^-?[1-9])?"
_COMPOUND: Final = re.compile(
    rf"(?a)(?P<above>1|{_FACTOR}(?: {_FACTOR}){{0,4}})"
    rf"(?: ?/ ?\(? ?(?P<below>{_FACTOR}(?:[ /]{_FACTOR}){{0,4}}) ?\)?)?"
)
_IS_COMPOUND: Final = re.compile(r"/ ?\(|/ ?[^ /]+ |\^-|\A[^ /]+ [^/]*/")
"""Other units are read as they stand."""
_FACTORS_MIN: Final = 2
_LETTERS: Final = re.compile(r"(?a)(?<![\\a-z])[a-z]{2,}")
_PER_WORD: Final = re.compile(r" (?:per|an?) (?=[a-z])")
_PART: Final = re.compile(
    r"(?a)\s*(?:,|and(?![A-Za-z])|\\text\s*\{\s*,?\s*and\s*\})?\s*(?P<value>\d+(?:\.\d+)?)\s*"
    r"(?:\\text\s*\{\s*(?P<said>[A-Za-z]+)\.?\s*(?:,|and)?\s*\}|(?P<word>[A-Za-z]+)\.?(?![A-Za-z]))"
)
_PARTS_MAX: Final = 5


class Compound(NamedTuple):
    """`2 hours 15 minutes` as a number of the last unit."""

    value: Fraction
    unit: str


def compound(text: str) -> Compound | None:
    """Read a quantity of two or more units of one kind, the larger first."""
    parts: list[tuple[Fraction, str]] = []
    at = 0
    while at < len(text.rstrip()):
        match = _PART.match(text, at)
        said = (match["said"] or match["word"]).lower() if match else ""
        unit = "min" if said == "m" and parts and parts[-1][1] == "h" else _UNIT_OF.get(said)
        if match is None or unit is None or len(parts) == _PARTS_MAX:
            return None
        parts.append((Fraction(match["value"]), unit))
        at = match.end()
    found = [one for _, unit in parts if (one := measures.measure(unit)) is not None]
    if len(parts) < 2 or len(found) != len(parts) or len({one.powers for one in found}) != 1:
        return None
    sizes = [one.size for one in found]
    if sorted(set(sizes), reverse=True) != sizes:
        return None
    total = sum((value * size for (value, _), size in zip(parts, sizes, strict=True)), Fraction())
    return Compound(total / sizes[-1], parts[-1][1])


def is_counter(said: str) -> bool:
    """Whether it is a Chinese unit or counting word."""
    return COUNTERS.fullmatch(said) is not None


def is_plain(said: str) -> bool:
    """A unit of several letters, or letters with a power, needs no `\\text`."""
    words = [word for word in said.split() if word.rstrip(".") not in _POWER_WORDS]
    base = re.sub(r"(?a)[\s^{}\d.]", "", "".join(words))
    if len(words) < len(said.split()) and base in _UNIT_OF:  # `sq m`
        return True
    return base in PLAIN or ("/" in base and all(part in _UNIT_OF for part in base.split("/")))


def unit_form(said: str) -> str:
    """One spelling of a unit: `square centimeters` and `cm^2` are the same."""
    power = ""
    words = []
    said = _BRACED.sub(r"^\1", said)
    if said[:2] in _CHINESE_POWERS:
        said, power = said[2:], _CHINESE_POWERS[said[:2]]
    if quotient := compound_form(said):
        return quotient
    if product := _product(_words(said)):
        return product + power
    said = _PER.sub(lambda m: f"/{m[1]}" + ("" if m[2] == "1" else f"^{m[2]}"), said)
    for word in _words(said):
        if word.lower() in _POWER_WORDS:
            power = _POWER_WORDS[word.lower()]
        else:
            words.append(_quotient_form(word))
    name, _, raised = "".join(words).partition("^")
    if raised[:1].isdigit() and "/" not in raised:
        power = f"^{raised}"
    elif raised:
        name = f"{name}^{raised}"
    return _UNIT_OF.get(name, name) + power


def compound_form(said: str, *, any_quotient: bool = False) -> str:
    """`J/(kg K)`, `W/m K`, `J kg^-1 K^-1`: units that are multiplied and divided; empty if it is
    anything else. What follows a `/` is divided by, unless its power says so already."""
    said = " ".join(_MULTIPLIED.sub(" ", _BRACED.sub(r"^\1", said)).split())
    match = _COMPOUND.fullmatch(said)
    is_one = _IS_COMPOUND.search(said) or (any_quotient and "/" in said)
    if match is None or not is_one:
        return ""
    above, below = _raised(match["above"]), _raised(match["below"] or "")
    if above is None or below is None or len(above) + len(below) < _FACTORS_MIN:
        return ""
    over = [(name, -power if power > 0 else power) for name, power in below]
    factors = sorted((*above, *over))
    top = [_power_form(name, power) for name, power in factors if power > 0]
    bottom = [_power_form(name, -power) for name, power in factors if power < 0]
    return "/".join(("*".join(top) or "1", *bottom))


def plain_compound(said: str) -> str:
    """As `compound_form`, without `\\text`: one of the units has several letters that are no
    product of names, as in `J/(kg K)`. `2 m v/T` is a formula."""
    if PLAIN.isdisjoint(_LETTERS.findall(said.lower())):
        return ""
    return compound_form(said, any_quotient=True)


def _raised(said: str) -> list[tuple[str, int]] | None:
    """Factors with their powers; `None` if one is no unit."""
    found = []
    for factor in said.replace("/", " ").split():
        base, _, power = factor.partition("^")
        name = _base_form(base, is_part=True)
        if not is_known_unit(name):
            return None
        found.append((name, int(power or 1)))
    return found


def _power_form(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


def _words(said: str) -> Sequence[str]:
    return _PER_WORD.sub("/", _MARKS.sub(" ", said)).split()


def _product(words: Sequence[str]) -> str:
    """Several units of measure that are multiplied; empty if they are something else."""
    said = "*".join(_quotient_form(word) for word in words) if len(words) > 1 else ""
    return said if measures.measure(said) is not None else ""


def _quotient_form(word: str) -> str:
    parts = word.split("/")
    return "/".join(_base_form(one, is_part=len(parts) > 1) for one in parts)


def _base_form(said: str, *, is_part: bool) -> str:
    """One unit; the case of a symbol with a prefix matters. `is_part`: of a quotient."""
    base, mark, power = said.partition("^")
    low = _CAPITALS.get(base, base.lower())
    return (measures.prefixed(base) or (_UNIT_OF.get(low, low) if is_part else low)) + mark + power


def is_known_unit(unit: str) -> bool:
    """Whether it is a unit of measure, not just a counted noun."""
    if measures.measure(unit) is not None:
        return True
    base = unit.split("^")[0]
    parts = re.split(r"[/*]", re.sub(r"(?a)\^\d", "", unit))
    return base in _UNITS or (
        len(parts) > 1
        and all(part in _UNIT_OF or measures.measure(part) is not None for part in parts)
    )
