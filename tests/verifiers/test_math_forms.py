"""Golds in the forms of public data sets, with right and wrong answers judged by hand.

`answers_by_form.txt` has a gold per line; `=` before an answer means right, `!` wrong. The forms
are those of MATH, OlympiadBench, CARP, TheoremQA, SciBench and MMLU-Pro. The judgement of each was
written down before the rules were asked.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge_in_time

SETTINGS: Final = MathSettings()
TABLE: Final = Path(__file__).with_name("answers_by_form.txt")
FEW: Final = settings(max_examples=12, deadline=None)


def _entries() -> Iterator[tuple[str, list[str], list[str]]]:
    gold, right, wrong = "", list[str](), list[str]()
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            (right if line[2] == "=" else wrong).append(line[4:])
            continue
        if gold:
            yield gold, right, wrong
        gold, right, wrong = line, [], []
    yield gold, right, wrong


ENTRIES: Final = tuple(_entries())


def _passes(gold: str, answer: str) -> bool:
    said = final_answer(f"The answer is $\\boxed{{{answer}}}$.", SETTINGS, (gold,))
    return not isinstance(said, str) and judge_in_time((gold,), said.text, SETTINGS).passed is True


@pytest.mark.parametrize("at", range(0, len(ENTRIES), 10))
def test_answers(at: int) -> None:
    for gold, right, wrong in ENTRIES[at : at + 10]:
        assert _passes(gold, gold)
        assert [one for one in right if not _passes(gold, one)] == [], gold
        assert [one for one in wrong if _passes(gold, one)] == [], gold


def test_the_table_has_both_kinds() -> None:
    assert sum(len(right) for _, right, _ in ENTRIES) > 600
    assert sum(len(wrong) for _, _, wrong in ENTRIES) > 600


LEFT: Final = (
    (r"\{-2, 2\}", r"\{x : x^2=4\}"),  # which may be the question
    ("x_1=1, x_2=-3", "x_1=-3, x_2=1"),  # roots, or two unknowns
    ("15:33:36", "5:11:12"),  # which may be times
    (r"\text{(A), (C)}", "A or C"),
    ("3", r"3 \bmod 7"),
)


@pytest.mark.parametrize(("gold", "answer"), LEFT)
def test_what_may_be_something_else_is_refused(gold: str, answer: str) -> None:
    assert not _passes(gold, answer)


# -- numbers that a name is not ------------------------------------------------------------------
POINTS: Final = st.lists(st.integers(-20, 20), min_size=2, max_size=4, unique=True)
Spelling = Callable[[list[int]], str]
LEFT_OUT: Final[tuple[Spelling, ...]] = (
    lambda points: ", ".join(f"x \\ne {point}" for point in points),
    lambda points: " \\text{ and } ".join(f"x \\neq {point}" for point in points),
    lambda points: f"x \\ne {', '.join(map(str, points))}",
    lambda points: f"x \\notin \\{{{', '.join(map(str, points))}\\}}",
    lambda points: f"\\mathbb{{R}} \\setminus \\{{{', '.join(map(str, points))}\\}}",
    lambda points: "\\{x \\mid " + ", ".join(f"x \\ne {point}" for point in points) + "\\}",
    lambda points: " 且 ".join(f"x \\neq {point}" for point in points),
    lambda points: (
        f"\\text{{all real numbers except }} {', '.join(map(str, points[:-1]))}"
        f" \\text{{ and }} {points[-1]}"
    ),
    lambda points: "\\cup".join(
        f"({low}, {high})"
        for low, high in zip(
            ["-\\infty", *map(str, sorted(points))],
            [*map(str, sorted(points)), "\\infty"],
            strict=True,
        )
    ),
)
SPELLED: Final = st.sampled_from(LEFT_OUT)


@settings(max_examples=6, deadline=None)
@given(POINTS, SPELLED, SPELLED, st.randoms())
def test_points_that_are_left_out_may_stand_in_any_spelling_and_order(
    points: list[int], one: Spelling, other: Spelling, rng: random.Random
) -> None:
    gold = one(points)
    assert _passes(gold, other(rng.sample(points, len(points))))
    assert not _passes(gold, other([*points[:-1], points[-1] + 41]))
    assert not _passes(gold, other([*points, 99]))
    assert not _passes(gold, ", ".join(map(str, points)))
    assert not _passes(gold, ", ".join(f"x = {point}" for point in points))


@FEW
@given(st.integers(1, 30), SPELLED)
def test_plus_and_minus_are_two_points(point: int, spelled: Spelling) -> None:
    assert _passes(f"x \\ne \\pm {point}", spelled([point, -point]))
    assert not _passes(f"x \\ne \\pm {point}", spelled([point, -point - 1]))


@pytest.mark.parametrize("relation", ["x {} 3", "y {} -1"])
@pytest.mark.parametrize("sign", ["\\ne", ">", "<", "\\le"])
def test_or_between_bounds_of_two_names_says_less(relation: str, sign: str) -> None:
    one, other = relation.format(sign), f"z {sign} 7"
    assert _passes(f"{one}, {other}", f"{other} \\text{{ and }} {one}")
    assert not _passes(f"{one}, {other}", f"{one} \\text{{ or }} {other}")
    assert _passes(f"{one} \\text{{ or }} {other}", f"{other} \\text{{ or }} {one}")


# -- sets by their elements ----------------------------------------------------------------------
ROOTS: Final = st.lists(st.integers(-9, 9), min_size=1, max_size=4, unique=True)


def _expanded(roots: Sequence[int], name: str) -> str:
    """The polynomial with these roots."""
    coefficients = [1]
    for root in roots:
        shifted = [*coefficients, 0]
        coefficients = [
            one - root * other for one, other in zip(shifted, [0, *coefficients], strict=True)
        ]
    degree = len(roots)
    return " + ".join(f"({c}){name}^{degree - at}" for at, c in enumerate(coefficients))


@FEW
@given(ROOTS, st.sampled_from("xyt"), st.sampled_from(["", "\\in \\mathbb{R}", "\\in \\mathbb{Z}"]))
def test_a_set_by_its_condition_has_all_its_elements(
    roots: list[int], name: str, kind: str
) -> None:
    gold = f"\\{{{name} {kind} : {_expanded(roots, name)} = 0\\}}"
    listed = ", ".join(map(str, roots))
    assert _passes(gold, f"\\{{{listed}\\}}")
    assert _passes(gold, " \\text{ or } ".join(f"{name} = {root}" for root in roots))
    assert not _passes(gold, f"\\{{{listed}, 17\\}}")
    assert not _passes(gold, f"\\{{{', '.join(map(str, [*roots[:-1], 17]))}\\}}")
    if len(roots) > 1:
        assert not _passes(gold, f"\\{{{', '.join(map(str, roots[1:]))}\\}}")
        assert not _passes(f"\\{{{listed}\\}}", gold)
    factors = "".join(f"(u - ({root}))" for root in roots)
    assert _passes(gold, f"\\{{u {kind} \\mid {factors} = 0\\}}")
    assert not _passes(gold, f"\\{{u {kind} \\mid {factors}(u - 23) = 0\\}}")


@FEW
@given(st.integers(1, 40), st.sampled_from(["<", "\\le"]))
def test_integers_at_which_a_polynomial_has_a_sign(bound: int, sign: str) -> None:
    gold = f"\\{{n \\in \\mathbb{{Z}} : n^2 {sign} {bound}\\}}"
    members = [n for n in range(-7, 8) if (n * n < bound if sign == "<" else n * n <= bound)]
    assert _passes(gold, f"\\{{{', '.join(map(str, members))}\\}}")
    assert not _passes(gold, f"\\{{{', '.join(map(str, [*members, members[-1] + 1]))}\\}}")


@pytest.mark.parametrize("said", ["x^2 > 4", "x^3 < 4", "x^2 = x^2", "x^{200} = 1", "2000x < 1"])
def test_an_endless_set_has_no_list(said: str) -> None:
    gold = f"\\{{x \\in \\mathbb{{Z}} : {said}\\}}"
    assert not _passes(gold, "\\{0, 1\\}")
    assert _passes(gold, gold)


# -- the rest ------------------------------------------------------------------------------------
@FEW
@given(st.integers(0, 10**9), st.integers(2, 10**6))
def test_a_remainder_that_is_left_to_do_is_the_remainder(value: int, modulus: int) -> None:
    rest = value % modulus
    if value >= modulus:
        assert _passes(str(rest), f"{value} \\bmod {modulus}")
        assert _passes(f"{value} \\bmod {modulus}", str(rest))
        assert not _passes(f"{value} \\bmod {modulus}", str(value))
    assert not _passes(str(rest + 1), f"{value} \\bmod {modulus}")


@pytest.mark.parametrize("gold", ["5:11:12", "7:24:25", "1:12:13", "20:21:29"])
def test_a_ratio_of_three_in_lowest_terms_may_be_a_multiple(gold: str) -> None:
    one, two, three = map(int, gold.split(":"))
    for times in (2, 3):
        assert _passes(gold, f"{one * times} : {two * times} : {three * times}")
        assert not _passes(gold, f"{one * times}:{two * times}:{three * times + 1}")
        assert not _passes(gold, f"{two * times}:{one * times}:{three * times}")


@pytest.mark.parametrize("gold", ["2:20:40", "1:02:03", "4:12:20 pm"])
def test_a_time_has_no_multiple(gold: str) -> None:
    first, *rest = (int(part) for part in gold.removesuffix(" pm").split(":"))
    twice = f"{2 * first}:" + ":".join(f"{2 * part:02}" for part in rest)
    assert not _passes(gold, twice) or "80" in twice


@pytest.mark.parametrize(
    "kind", ["acute", "obtuse", "right", "equilateral", "isosceles", "scalene"]
)
def test_the_kind_of_a_triangle_may_stand_alone(kind: str) -> None:
    spellings = [f"\\text{{{said}}}" for said in (kind, f"{kind} triangle", f"a {kind} triangle")]
    for gold in spellings:
        assert all(_passes(gold, answer) for answer in spellings)
        assert not _passes(gold, f"\\text{{{kind} trapezoid}}")
        assert not _passes(gold, f"\\text{{not {kind}}}")
        assert not _passes(gold, "\\text{triangle}")


@FEW
@given(
    st.integers(-9, 9),
    st.integers(-9, 9),
    st.sampled_from(["array}{l", "array}{ll", "aligned", "cases"]),
)
def test_a_brace_before_equations_joins_them(x: int, y: int, kind: str) -> None:
    end = kind.partition("}")[0]
    gold = f"\\left\\{{\\begin{{{kind}}}x={x} \\\\ &y={y}\\end{{{end}}}\\right."
    if kind in ("array}{l", "cases"):
        gold = gold.replace("&", "")
    if kind == "cases":
        gold = gold.removeprefix("\\left\\{").removesuffix("\\right.")
    assert _passes(gold, f"x={x}, y={y}")
    assert _passes(gold, f"\\begin{{cases}}y={y} \\\\ x={x}\\end{{cases}}")
    assert _passes(gold, f"({x}, {y})")
    assert not _passes(gold, f"x={x + 1}, y={y}")
    assert _passes(gold, f"x={y}, y={x}") is (x == y)


@pytest.mark.parametrize("joiner", ["或", "或者", "且", "和", " 或 "])
@pytest.mark.parametrize("form", ["{}", "\\text{{{}}}", "\\text {{ {} }}", "\\mathrm{{{}}}"])
def test_chinese_joiners_may_be_set_as_text(joiner: str, form: str) -> None:
    said = form.format(joiner)
    assert _passes(f"50^\\circ {said} 130^\\circ", "130^\\circ, 50^\\circ")
    assert not _passes(f"50^\\circ {said} 130^\\circ", "130^\\circ")


@pytest.mark.parametrize(
    ("unit", "same", "other"),
    [
        ("\\text{ m s}^{-1}", "\\text{ m/s}", "\\text{ km/s}"),
        ("\\text{ kJ mol}^{-1}", "\\text{ kJ/mol}", "\\text{ J/mol}"),
        ("\\text{ kg m}^{-3}", "\\text{ kg/m}^3", "\\text{ kg/m}^2"),
        ("\\text{m s}^{-2}", "\\text{ m/s}^2", "\\text{ m s}^{-1}"),
    ],
)
def test_the_power_of_a_unit_may_stand_behind_the_text(unit: str, same: str, other: str) -> None:
    assert _passes(f"5 {unit}", f"5 {same}")
    assert _passes(f"5 {same}", f"5 {unit}")
    assert not _passes(f"5 {unit}", f"5 {other}")
