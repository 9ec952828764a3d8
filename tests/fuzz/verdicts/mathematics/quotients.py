"""Amounts in units that are multiplied and divided, in every way to write them, and in other units."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

Factors = tuple[tuple[str, int], ...]
_UNITS: Final[tuple[Factors, ...]] = (
    (("J", 1), ("kg", -1), ("K", -1)), (("J", 1), ("mol", -1), ("K", -1)), (("W", 1), ("m", -2), ("K", -1)), (("W", 1), ("m", -1), ("K", -1)),
    (("N", 1), ("m", -1)), (("kg", 1), ("m", 1), ("s", -1)), (("mol", 1), ("m", -3)), (("m", 1), ("s", -2)), (("km", 1), ("s", -1)),
    (("L", 1), ("atm", 1), ("mol", -1), ("K", -1)), (("C", 1), ("mol", -1)), (("kg", 1), ("m", 1), ("s", -2)), (("N", 1), ("m", 2), ("kg", -2)), (("kJ", 1), ("mol", -1)),
)  # fmt: skip
"""No two of them are of one kind."""
_PREFIXED: Final = frozenset({"J", "K", "mol", "W", "N", "s", "L", "C"})
_MANY_LETTERS: Final = frozenset({"kg", "mol", "atm", "kJ", "km"})


def quotient_case(rng: random.Random) -> Case:
    """The same amount, one in another unit, or another number."""
    unit, other = rng.sample(_UNITS, 2)
    value = rng.choice(("5", "9.8", "0.25", "1200", "6.67 \\times 10^{-11}", "\\frac{3}{4}"))
    kind = rng.choice(("same", "same", "bare", "other unit", "part", "prefix", "other number"))
    said, is_right = unit, kind in {"same", "bare"}
    if kind == "other unit":
        said = other
    elif kind == "part":
        said = unit[:-1]
    elif kind == "prefix":
        place = rng.choice([at for at, (name, _) in enumerate(unit) if name in _PREFIXED])
        said = tuple(
            ("m" + name if at == place else name, power) for at, (name, power) in enumerate(unit)
        )
    number = (
        value if kind != "other number" else f"1{value}" if value[0] != "\\" else "\\frac{5}{4}"
    )
    gold = f"{value} {_as_text(rng, unit)}"
    answer = number if kind == "bare" else f"{number}{_written(rng, said)}"
    return Case(
        pipeline="math",
        kind=f"quotient: {kind}",
        response=rng.choice(
            ("\\boxed{{{}}}", "The answer is ${}$.", "<answer>{}</answer>", "**Answer:** ${}$")
        ).format(answer),
        reference={"answers": [gold]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


def _written(rng: random.Random, unit: Factors) -> str:
    if rng.random() < 0.7 or len(unit) < 2 or not any(name in _MANY_LETTERS for name, _ in unit):
        return rng.choice((" ", "\\ ", "\\,", "~")) + _as_text(rng, unit)
    return " " + rng.choice((_powers(unit, " "), _powers(unit, " \\cdot "), _bracketed(unit, " ")))


def _as_text(rng: random.Random, unit: Factors) -> str:
    command = rng.choice(("\\text", "\\mathrm"))
    ways = [
        f"{command}{{{_bracketed(unit, ' ')}}}",
        command + "{" + _bracketed(unit, " \\cdot ") + "}",
        " ".join(f"{command}{{{name}}}{_power(power)}" for name, power in unit),
        "\\,".join(f"{command}{{{name}}}{_power(power)}" for name, power in unit),
    ]
    below = [(name, -power) for name, power in unit if power < 0]
    if len(below) == 1:
        above = " ".join(name + _power(power) for name, power in unit if power > 0)
        ways.append(f"{command}{{{above}/{below[0][0]}}}{_power(below[0][1])}")
    return rng.choice(ways)


def _bracketed(unit: Factors, joint: str) -> str:
    above = joint.join(name + _power(power) for name, power in unit if power > 0)
    below = [name + _power(-power) for name, power in unit if power < 0]
    if not below:
        return above
    return f"{above}/({joint.join(below)})" if len(below) > 1 else f"{above}/{below[0]}"


def _powers(unit: Factors, joint: str) -> str:
    return joint.join(name + _power(power) for name, power in unit)


def _power(power: int) -> str:
    return "" if power == 1 else f"^{{{power}}}"
