r"""Magnitudes, durations, dates, formulas, vectors, multiples of equations, orders: what is read as
the same, and what differs."""

import re
from datetime import date, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.verdicts.mathematics.harnesses import response_of
from tests.fuzz.verdicts.mathematics.pairs import Pairs
from tests.fuzz.verdicts.mathematics.styles import STYLES

from assay.verifiers.math import grammar
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.grammar import Date, Items, Number, Time
from assay.verifiers.math.lexicon import orders, typefaces
from assay.verifiers.math.lexicon.months import MONTHS
from assay.verifiers.math.reading import read_gold
from assay.verifiers.math.verify import judge
from assay.verifiers.math.warm import modules

SETTINGS = MathSettings()
ENGLISH = [name.capitalize() for name in MONTHS if len(name) > 4][:11]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    modules.import_all()


def _passes(gold: str, response: str) -> bool:
    found = final_answer(response, SETTINGS)
    return not isinstance(found, str) and bool(judge((gold,), found.text, SETTINGS).passed)


def _equal(gold: str, answer: str) -> bool:
    return bool(judge((gold,), answer, SETTINGS).passed)


DAYS = st.dates(date(1600, 1, 1), date(2199, 12, 31))


def _spellings(day: date) -> list[str]:
    month = next(name for name, number in MONTHS.items() if number == day.month)
    said = [
        f"{day:%Y-%m-%d}", f"{day.year}/{day.month}/{day.day}", f"{day.year}.{day.month}.{day.day}",
        f"{day.year}年{day.month}月{day.day}日", f"{month.capitalize()} {day.day}, {day.year}",
        f"{day.day} {month.capitalize()} {day.year}", f"{day:%A}, {month} {day.day}, {day.year}",
    ]  # fmt: skip
    if day.day > 12 or day.day == day.month:
        said += [
            f"{day.day}/{day.month}/{day.year}",
            f"{day.month}/{day.day}/{day.year}",
            f"{day.day}.{day.month}.{day.year}",
        ]
    return said


@settings(max_examples=60)
@given(DAYS, DAYS)
def test_every_spelling_of_a_date_is_that_day_and_no_other(day: date, other: date) -> None:
    for said in _spellings(day):
        read = grammar.read(said)
        assert isinstance(read, Date), said
        assert (read.year, read.month, read.day) == (day.year, day.month, day.day), said
    assert all(_equal(_spellings(day)[4], said) for said in _spellings(day))
    assert any(_equal(_spellings(day)[4], said) for said in _spellings(other)) is (day == other)


@given(DAYS.filter(lambda day: day.day <= 12 and day.day != day.month), st.sampled_from("/-."))
def test_a_date_whose_order_is_unknown_is_none(day: date, mark: str) -> None:
    said = mark.join((str(day.day), str(day.month), str(day.year)))
    assert not isinstance(grammar.read(said), Date)
    assert not _equal(f"{day:%Y-%m-%d}", said)


@given(DAYS, st.integers(1, 6))
def test_a_date_on_another_day_of_the_week_contradicts_itself(day: date, later: int) -> None:
    wrong = day + timedelta(days=later)
    assert not _equal(f"{day:%Y-%m-%d}", f"{wrong:%A}, {day:%B} {day.day}, {day.year}")
    assert not _equal(f"{day:%Y-%m-%d}", f"{wrong:%A}, {day:%B} {day.day}")
    assert _equal(f"{day:%Y-%m-%d}", f"{day:%A}, {day:%B} {day.day}")


@pytest.mark.parametrize("said", ["February 30", "2023-02-29", "April 31, 2024", "13/13/2024"])
def test_a_day_that_does_not_exist_is_no_date(said: str) -> None:
    assert not isinstance(grammar.read(said), Date)


@settings(max_examples=40)
@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_hours_with_minutes_are_a_time_and_a_duration(hours: int, minutes: int, other: int) -> None:
    said = f"{hours}h{minutes:02}"
    assert isinstance(grammar.read(said), Time)
    assert _equal(f"{hours}:{minutes:02}", said)
    for gold, right in (
        (f"{60 * hours + other} min", other == minutes),
        (f"{hours} hours {other} minutes", other == minutes),
        (f"{hours}:{other:02}", other == minutes),
        (f"{60 * hours + minutes} seconds", not hours and not minutes),
    ):
        assert _equal(gold, said) is right, (gold, said)
    assert _equal(f"{60 * hours + minutes} min", f"{hours}h {minutes}m")


@settings(max_examples=60)
@given(st.integers(1, 9_999), st.sampled_from("kKMB"), st.sampled_from(["", "\\$"]))
def test_a_magnitude_is_a_number_beside_a_number(count: int, scale: str, money: str) -> None:
    value = count * 10 ** {"k": 3, "K": 3, "M": 6, "B": 9}[scale]
    assert _equal(f"{money}{value}", f"{money}{count}{scale}")
    assert _equal(f"{money}{count}{scale}", str(value))
    for wrong in (value + 1, count, 10 * value, -value):
        assert not _equal(str(wrong), f"{money}{count}{scale}")
    assert not _equal(f"{value} \\text{{ m}}", f"{count}{scale}")
    assert not _equal(str(value), f"{count}{scale}, {scale} \\in \\mathbb{{Z}}")
    if not money:
        assert not _equal(str(value), f"{count} {scale}")


@given(st.integers(1, 999), st.sampled_from(["dozen", "dozen eggs", "dozens of eggs"]))
def test_a_dozen_is_twelve(count: int, said: str) -> None:
    read = grammar.read(f"{count} {said}")
    assert isinstance(read, Number)
    assert read.value == Fraction(12 * count)
    assert not _equal(f"{count} {said}", str(count))
    assert not _equal(str(count), f"{count} {said}")
    assert _equal(str(12 * count), f"{count} {said}")


SMALL = st.integers(-9, 9)


@settings(max_examples=15)
@given(SMALL, SMALL, SMALL, SMALL.filter(bool), st.sampled_from([-3, 2, 5]))
def test_an_equation_is_the_same_times_a_number(
    a: int, b: int, c: int, shift: int, times: int
) -> None:
    gold = f"{abs(a) + 1}x^2+({b})x+({c})=0"
    said = f"({times * (abs(a) + 1)})x^2+({times * b})x+({times * c})=0"
    assert _equal(gold, said)
    for wrong in (
        f"({times * (abs(a) + 1)})x^2+({times * b})x+({times * c + shift})=0",
        f"({times * (abs(a) + 1)})x^2+({times * b + shift})x+({times * c})=0",
        f"({times * (abs(a) + 1)})y^2+({times * b})y+({times * c})=0",
    ):
        assert not _equal(gold, wrong)


def test_an_equation_that_is_not_solved_is_no_value() -> None:
    assert not _equal("x = 5", "2x = 10")
    assert _equal("x = 5", "x = 5")


NAMES = st.lists(st.sampled_from(["Ann", "Ben", "Carl", "Dora", "Eve"]), min_size=3, unique=True)
CUES = st.sampled_from(
    [
        *("{} (in order)", "{} in that order", "{}, in this order", "in ascending order: {}"),
        *("{}, respectively", "{} in order of size", "from smallest to largest: {}"),
        "\\text{{{}, respectively}}",
    ]
)


@settings(max_examples=25)
@given(NAMES, NAMES, CUES)
def test_the_gold_says_whether_the_order_counts(
    names: list[str], others: list[str], cue: str
) -> None:
    listed, other = ", ".join(names), ", ".join(others)
    for gold in (cue.format(listed), r" \to ".join(names)):
        read = read_gold(gold)
        assert read is not None
        assert isinstance(read.answer, Items)
        assert read.answer.kind == "tuple"
        assert _equal(gold, listed)
        assert _equal(gold, other) is (names == others)
        assert _equal(gold, " → ".join(others)) is (names == others)
    assert _equal(listed, cue.format(other)) is (sorted(names) == sorted(others))


@pytest.mark.parametrize(
    "text",
    [
        *("A, B, C, in any order", "A, B, C not in that order", "an order of magnitude", "A to B"),
        *(r"f: A \to B", r"x \to 0", "if x then y + 1", "5, then 6", "2x=4 → x=2 → 2"),
    ],
)
def test_other_texts_say_nothing_about_an_order(text: str) -> None:
    assert orders.listed(text) is None


LABELS = st.lists(st.sampled_from("ABCDE"), min_size=2, unique=True)


@settings(max_examples=60)
@given(LABELS, LABELS)
def test_labels_out_of_the_order_of_the_alphabet_are_a_ranking(
    labels: list[str], others: list[str]
) -> None:
    is_same = labels == others or (labels == sorted(labels) and sorted(others) == labels)
    assert _equal(", ".join(labels), ", ".join(others)) is is_same


LETTERS = st.sampled_from("bdpqruvw")


@settings(max_examples=40)
@given(LETTERS, LETTERS, st.sampled_from(["", "2", r"\frac{1}{2}", "-"]))
def test_an_answer_that_is_one_name_is_that_name(one: str, other: str, factor: str) -> None:
    assert not _equal(f"{factor}{one}", f"{factor}{other.upper()}")
    assert _equal(f"{factor}{one}", f"{factor}{other}") is (one == other)


@settings(max_examples=20)
@given(LETTERS, LETTERS, st.sampled_from(["mathbf", "boldsymbol", "bm", "pmb"]))
def test_a_vector_in_bold_is_the_one_with_an_arrow(one: str, other: str, face: str) -> None:
    gold = rf"2\vec{{{one}}} - 3\vec{{c}}"
    said = rf"2\{face}{{{other}}} - 3\{face}{{c}}"
    assert _equal(gold, said) is (one == other)
    assert not _equal(gold, rf"2\{face}{{{one}}} - 3c")
    assert typefaces.alike(gold, rf"2\vec{{{one}}} - 3\{face}{{c}}") is None


ELEMENTS = st.sampled_from(["H", "O", "Na", "Cl", "Fe", "S", "C"])
GROUPS = st.lists(st.tuples(ELEMENTS, st.integers(1, 4)), min_size=2, max_size=4)


def _formulas(groups: list[tuple[str, int]]) -> list[str]:
    counts = ["" if count == 1 else str(count) for _, count in groups]
    pairs = list(zip([name for name, _ in groups], counts, strict=True))
    plain = "".join(name + count for name, count in pairs)
    lowered = re.sub("([0-9])", r"_\1", plain)
    return [
        rf"\ce{{{plain}}}",
        rf"\mathrm{{{lowered}}}",
        "".join(rf"\text{{{name}}}" + (f"_{count}" if count else "") for name, count in pairs),
        "".join(
            rf"\mathrm{{{name}}}" + (f"_{{{count}}}" if count else "") for name, count in pairs
        ),
    ]


@settings(max_examples=30)
@given(GROUPS, GROUPS)
def test_a_formula_of_chemistry_is_the_same_in_every_spelling(
    groups: list[tuple[str, int]], others: list[tuple[str, int]]
) -> None:
    ours, theirs = _formulas(groups), _formulas(others)
    for gold in ours:
        assert all(_equal(gold, said) for said in ours)
    # `\ce{C2}` and `\ce{CC}` are written otherwise, so they are not the same
    assert _equal(ours[0], theirs[0]) is (groups == others)
    assert _equal(ours[2], theirs[3]) is (groups == others) or "_" not in ours[2] + theirs[3]


@pytest.mark.parametrize("pairs", STYLES, ids=lambda pairs: f"{pairs.style}: {pairs.gold}")
def test_right_answers_pass_and_wrong_ones_do_not(pairs: Pairs) -> None:
    refused = [one for one in pairs.right if not _passes(pairs.gold, response_of(one))]
    passed = [one for one in pairs.wrong if _passes(pairs.gold, response_of(one))]
    assert (refused, passed) == ([], [])


@pytest.mark.parametrize("power", ["2x**2+9*x-7", "2*x**2 + 9*x - 7", "9*x+2x**(2)-7"])
@pytest.mark.parametrize(
    "lead", ["Answer: {}", "**Answer:** {}", "**Answer: {}**", "#### {}", "**Answer: {}**."]
)
def test_a_power_written_with_stars_is_no_bold_type(lead: str, power: str) -> None:
    assert _passes("2x^2 + 9x - 7", lead.format(power))
    assert not _passes("2x^3 + 9x - 7", lead.format(power))


@pytest.mark.parametrize(
    "page",
    [
        "<h3>Final Answer: {}</h3>",
        "<li>Answer: {}</li>",
        '<font color="red">Answer: {}</font>',
        "<p class='a'>The answer is <span style=\"x\">{}</span>.</p>",
        "<center>The answer is <mark>{}</mark></center>",
        "The answer is&nbsp;{}",
        "<td>Answer: {}</td>",
    ],
)
@pytest.mark.parametrize(
    ("gold", "wrong"), [("85", "86"), ("3/4", "3/5"), ("x^2+1", "x^2-1"), ("(1, 2)", "(1, 3)")]
)
def test_tags_of_html_around_an_answer_say_nothing(page: str, gold: str, wrong: str) -> None:
    assert _passes(gold, page.format(gold))
    assert not _passes(gold, page.format(wrong))
    assert not _passes(gold, page.format(f"{gold} <b>or</b> {wrong}"))
    assert not _passes(gold, f"{page.format(gold)}\n{page.format(wrong)}")


@pytest.mark.parametrize(
    ("gold", "said", "wrong"),
    [
        ("x^2", "x<sup>2</sup>", "x<sup>3</sup>"),
        ("10^{-3}", "10<sup>-3</sup>", "10<sup>3</sup>"),
        ("85", "85", "85<sup>2</sup>"),
        ("x_1", "x<sub>1</sub>", "x<sub>2</sub>"),
        ("x>5", "5 &lt; x", "5 &gt; x"),
        ("12", "3 &times; 4", "3 &times; 5"),
        (r"2\pi", "2&pi;", "3&pi;"),
        (r"\sqrt{2}", "&radic;2", "&radic;3"),
        ("1/2", "&frac12;", "&frac14;"),
        ("-7", "&minus;7", "&plusmn;7"),
        (r"45^\circ", "45&deg;", "46&#176;"),
    ],
)
def test_what_html_names_is_read_as_it_looks(gold: str, said: str, wrong: str) -> None:
    for place in ("Answer: {}", "The answer is <b>{}</b>."):
        assert _passes(gold, place.format(said))
        assert not _passes(gold, place.format(wrong))


@pytest.mark.parametrize("gold", ["85", "3/4", "x^2+1", r"\frac{3}{4}"])
@pytest.mark.parametrize(
    "page",
    [
        "[ANSWER]{}[/ANSWER]",
        r"\textbf{{Answer: {}}}",
        r"\textbf{{The answer is ${}$}}",
        "**Answer:**\n> {}",
        "Answer:\n\n> **{}**",
        "Answer:\n>> ${}$",
        r"Answer: $\therefore {}$",
        "The answer is \u2234 {}",
    ],
)
def test_what_surrounds_an_answer_is_no_part_of_it(page: str, gold: str) -> None:
    assert _passes(gold, "We work.\n\n" + page.format(gold))
    assert not _passes(gold, "We work.\n\n" + page.format(f"{gold} + 1"))
    assert not _passes(gold, "We work.\n\n" + page.format(f"{gold} or {gold}5"))


@pytest.mark.parametrize("said", ["Answer: > 85", "Answer:\n>= 85", "Answer:\n$> 85$"])
def test_a_relation_is_no_mark_of_a_quotation(said: str) -> None:
    assert not _passes("85", "We work.\n\n" + said)
