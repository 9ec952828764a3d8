r"""Units generated as products of powers: the same quantity passes however it is written, one with
another dimension or size does not."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.verify import judge

DIMENSIONS = {
    "kg": (1, 0, 0, 0),
    "m": (0, 1, 0, 0),
    "s": (0, 0, 1, 0),
    "A": (0, 0, 0, 1),
    "N": (1, 1, -2, 0),
    "Pa": (1, -1, -2, 0),
    "J": (1, 2, -2, 0),
    "W": (1, 2, -3, 0),
    "C": (0, 0, 1, 1),
    "V": (1, 2, -3, -1),
    "\\Omega": (1, 2, -3, -2),
    "F": (-1, -2, 4, 2),
    "T": (1, 0, -2, -1),
    "Wb": (1, 2, -2, -1),
    "H": (1, 2, -2, -2),
}
"""Powers of kg, m, s and A."""
SYMBOLS = [one for one in DIMENSIONS if one != "\\Omega"]
NAMED = {
    "N": "newtons", "J": "joules", "W": "watts", "C": "coulombs", "V": "volts", "T": "tesla",
    "H": "henries", "F": "farads", "Pa": "pascals", "A": "amperes", "Wb": "webers",
}  # fmt: skip
PREFIXES = {"k": 3, "m": -3, "n": -9, "M": 6}
SETTINGS = MathSettings()
EQUAL = {
    r"9.8 \text{ m/s}^2": ("9.8 meters per second squared", r"9.8 \text{ N/kg}", "9.8 m/s²"),
    r"1000 \text{ kg/m}^3": ("1000 kilograms per cubic meter", r"1\text{ kg/L}"),
    r"2 \text{ kWh}": (r"7.2 \text{ MJ}", r"2000 \text{ Wh}"),
    r"5 \text{ N}": (r"5 \text{ kg·m/s²}", r"5\,\mathrm{kg\,m\,s^{-2}}", "5 N", r"0.005\text{ kN}"),
    "75 cents": ("75c", r"75 \text{ c}", r"\$0.75"),
    r"20^\circ\text{C}": (r"20 \text{ C}", "20 C"),
    "30 miles per hour": (r"30 \text{ miles an hour}", "30 mph", r"30\text{ mi/h}"),
    r"5 \text{ cups per day}": (r"5 \text{ cups a day}", "5"),
    "5 tons": ("5 t", r"5\text{ T}"),
    "2 gallons": ("8 quarts", "32 cups", "2 gal"),
    "$1.6 \\times 10^{-19}$ C": ("1.6e-19 C", r"1.6 \times 10^{-19} C", "1.6e-19"),
    r"1.6 \times 10^{-19} C": ("1.6e-19", r"1.6\times 10^{-19}\text{ coulombs}"),
    r"5 \mu\text{C}": (r"5 \times 10^{-6} \text{ C}", r"5 \text{ microcoulombs}"),
    r"5 \text{ J/(kg K)}": (
        "5 J/(kg K)",
        r"5 \mathrm{J/(kg\cdot K)}",
        r"5 J kg^{-1} K^{-1}",
        r"5 \text{ J/kg K}",
        r"5 \frac{\text{J}}{\text{kg K}}",
        r"0.005 \text{ kJ/(kg K)}",
    ),
    r"5 \text{ W/(m}^2\text{ K)}": (
        r"5 \mathrm{W/(m^{2} \cdot K)}",
        r"5 \text{W}\,\text{m}^{-2}\,\text{K}^{-1}",
    ),
    r"5 \text{ L atm/(mol K)}": (r"5 \text{L \cdot atm/(mol \cdot K)}", "5 L atm mol^-1 K^-1", "5"),
    "9.8 m/s^2": ("9.8 m s^{-2}", "9.8 m·s⁻²", r"9.8 \frac{m}{s^2}"),
    "5 N": ("5 kg·m/s²", "5 kg m s^{-2}"),
    r"1200 \text{ kJ/mol}": ("1200 kJ/mol", "1.2 MJ/mol"),
}
OTHERS = {
    r"9.8 \text{ m/s}^2": ("9.8 meters per second", r"9.8 \text{ m}"),
    r"2 \text{ kWh}": (r"2 \text{ kW}", r"2\text{ MWh}"),
    "75 cents": (r"75 \text{ N}", r"\$75"),
    r"20^\circ\text{C}": (r"20\text{ N}", "20 K"),
    "2 gallons": ("8 cups", "2 liters"),
    "$1.6 \\times 10^{-19}$ C": ("1.6e-19 N", r"1.6 \times 10^{-19} J", "1.6e-19 kg"),
    r"1.6 \times 10^{-19} C": ("1.6e-19 N", r"1.6\times 10^{-19}\text{ joules}"),
    r"5 \mu\text{C}": (r"5\text{ C}", r"5\ \mu F"),
    r"3 \text{ cups}": ("3 liters", "3 quarts"),
    r"5 \text{ J/(kg K)}": (
        "5 J",
        "5 J/kg",
        "5 m/s",
        r"5 \text{ kJ/(kg K)}",
        r"5 \text{ J/(mol K)}",
    ),
    r"5 \text{ L atm/(mol K)}": (r"5 \text{ L atm/mol}", "5 J", r"5 \text{ L atm/(mol mK)}"),
    "2 m n^{-1}": ("2 m n", "2 m"),
}


def _passes(gold: str, answer: str) -> bool:
    return judge((gold,), answer, SETTINGS).passed is True


@pytest.mark.parametrize(("gold", "said"), [(g, a) for g, all_ in EQUAL.items() for a in all_])
def test_one_quantity_in_other_units_passes(gold: str, said: str) -> None:
    assert _passes(gold, said)


@pytest.mark.parametrize(("gold", "said"), [(g, a) for g, all_ in OTHERS.items() for a in all_])
def test_another_quantity_does_not_pass(gold: str, said: str) -> None:
    assert not _passes(gold, said)


@given(st.integers(1, 999), st.sampled_from(sorted(NAMED)), st.sampled_from(sorted(NAMED)))
def test_no_symbol_stands_for_another_unit(value: int, unit: str, other: str) -> None:
    for said in (f"{value} \\text{{ {other}}}", f"${value}$ {other}", f"{value} {NAMED[other]}"):
        assert _passes(f"{value} \\text{{ {unit}}}", said) == (unit == other)


FACTORS = st.lists(
    st.tuples(st.sampled_from(SYMBOLS), st.sampled_from([1, 1, 1, 2, -1, -2])),
    min_size=1, max_size=3, unique_by=lambda factor: factor[0],
)  # fmt: skip


def _dimension(factors: list[tuple[str, int]]) -> tuple[int, ...]:
    parts = [[times * power for times in DIMENSIONS[unit]] for unit, power in factors]
    return tuple(map(sum, zip(*parts, strict=True)))


def _written(factors: list[tuple[str, int]], separator: str) -> str:
    raised = [unit + (f"^{{{power}}}" if power != 1 else "") for unit, power in factors]
    return "\\mathrm{" + separator.join(raised) + "}"


@settings(max_examples=300)
@given(st.integers(1, 99), FACTORS, FACTORS, st.sampled_from(["\\,", "\\cdot ", "~"]))
def test_products_are_equal_with_one_dimension(
    value: int, one: list[tuple[str, int]], two: list[tuple[str, int]], separator: str
) -> None:
    gold = f"{value}\\,{_written(one, separator)}"
    assert _passes(gold, f"{value}\\,{_written(list(reversed(one)), separator)}")
    if _dimension(one) != _dimension(two):
        assert not _passes(gold, f"{value}\\,{_written(two, separator)}")


@given(
    st.integers(1, 999), st.sampled_from(sorted(PREFIXES)), st.sampled_from(["C", "F", "T", "H"])
)
def test_prefixes_of_electric_units(value: int, prefix: str, unit: str) -> None:
    said = Fraction(value) * Fraction(10) ** PREFIXES[prefix]
    exact = f"\\frac{{{said.numerator}}}{{{said.denominator}}} \\text{{ {unit}}}"
    assert _passes(f"{value} \\text{{ {prefix}{unit}}}", exact)
    assert not _passes(f"{value} \\text{{ {prefix}{unit}}}", f"{value} \\text{{ {unit}}}")
