r"""What stands around an answer and makes it a part of another one: `x > \boxed{85}`.

Families with generated values: relations on either side, brackets, words of arithmetic, denials and
doubts in other languages, and other values behind an answer in words. Each has its honest twin.
"""

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.local import LocalPipelines
from assay.verifiers.text.around import arithmetic

Judge = Callable[..., Ended]

FEW = settings(max_examples=30, deadline=None)
STRICT = ("<", ">", r"\ne", r"\neq", r"\lt", r"\gt", "!=", "\u2260")
WEAK = (r"\le", r"\ge", r"\leq", r"\geqslant", "\u2264", "\u2265", "<=", ">=")
UNKNOWN = ("x", "2x", "f(x)", "a + b", r"\theta", "n^2", "|y|", "x_1")
PLACES = ("{}", "${}$", r"\[{}\]", "So ${}$.", "Therefore, {}.", "**{}**", "- ${}$", "We get {}")
VALUES = st.integers(6, 999)


def _passes(bench: LocalPipelines, gold: str, said: str) -> bool:
    return bench.judge("math", said, {"answers": [gold]}).reward == 1.0


@FEW
@given(VALUES, st.sampled_from(STRICT), st.sampled_from(UNKNOWN), st.sampled_from(PLACES))
def test_a_side_of_a_strict_relation_to_an_unknown_is_no_answer(
    bench: LocalPipelines, value: int, sign: str, name: str, place: str
) -> None:
    for said in (f"{name} {sign} \\boxed{{{value}}}", f"\\boxed{{{value}}} {sign} {name}"):
        assert not _passes(bench, str(value), place.format(said)), said


TAGS = ("<b>", "<strong>", "<p>", "<td>", '<span class="x">', "<br/>", "</i>", "<x-y>")
INSIDE = (
    *("\\boxed{{{}}}", "$\\boxed{{{}}}$", " $\\boxed{{{}}}$", "$$ \\boxed{{{}}} $$"),
    *("**\\boxed{{{}}}**", "\\(\\boxed{{{}}}\\)", "$\\displaystyle \\boxed{{{}}}$"),
)


@FEW
@given(VALUES, st.sampled_from(TAGS), st.sampled_from(INSIDE))
def test_a_tag_before_a_formula_is_no_relation(
    bench: LocalPipelines, value: int, tag: str, inside: str
) -> None:
    """Its box is an answer like any other: alone, or as a second one."""
    said = f"The answer is {tag}{inside.format(value)}"
    assert _passes(bench, str(value), said), said
    for first in (f"\\boxed{{{value}}}", f"The answer is ${value}$"):
        two = f"{first}\n{tag}{inside.format(value + 1)}"
        assert not _passes(bench, str(value), two), two


@FEW
@given(VALUES, st.sampled_from(STRICT + WEAK), st.sampled_from(PLACES))
def test_a_bound_of_something_bounded_twice_is_no_answer(
    bench: LocalPipelines, value: int, sign: str, place: str
) -> None:
    for said in (
        f"0 {sign} x {sign} \\boxed{{{value}}}",
        f"\\boxed{{{value}}} {sign} x {sign} 1000",
    ):
        assert not _passes(bench, str(value), place.format(said)), said


@FEW
@given(st.sampled_from(WEAK), st.sampled_from(PLACES))
def test_a_bound_in_its_own_names_is_no_answer(
    bench: LocalPipelines, sign: str, place: str
) -> None:
    for said, gold in (
        (rf"\boxed{{x^2}} {sign} x^3", "x^2"),
        (rf"x^3 {sign} \boxed{{x^2}}", "x^2"),
        (rf"\boxed{{2\sqrt{{ab}}}} {sign} a + b", r"2\sqrt{ab}"),
    ):
        assert not _passes(bench, gold, place.format(said)), said


@FEW
@given(VALUES, st.sampled_from(STRICT + WEAK), st.sampled_from(WEAK), st.sampled_from(PLACES))
def test_a_bound_that_is_reached_and_a_remark_about_a_value_cost_nothing(
    bench: LocalPipelines, value: int, sign: str, weak: str, place: str
) -> None:
    """Published solutions write `abc \\le \\boxed{729}` for a maximum."""
    for said in (
        f"abc {weak} \\boxed{{{value}}}",
        f"a + b {weak} 2c {weak} \\boxed{{{value}}}",
        f"\\boxed{{{value}}} {sign} 5",
        f"5 {sign} \\boxed{{{value}}}",
        f"x = \\boxed{{{value}}} {sign} 0",
        f"since $5 > 3$, $x = \\boxed{{{value}}}$" if "$" not in place else f"\\boxed{{{value}}}",
        f"x \\in \\{{ \\boxed{{{value}}} \\}}",
    ):
        assert _passes(bench, str(value), place.format(said)), said


@pytest.mark.parametrize(("opens", "closes"), ["[)", "()", "(]", "[]", (r"\{", r"\}")])
def test_a_member_of_a_pair_or_interval_is_no_answer(
    bench: LocalPipelines, opens: str, closes: str
) -> None:
    for others in (r"@, \infty", r"-\infty, @", "@, 90", "0, @", "1, @, 3", "x, @"):
        said = opens + others.replace("@", r"\boxed{85}") + closes
        for place in PLACES:
            assert not _passes(bench, "85", place.format(said)), said
    all_boxed = opens + r"\boxed{3}, \boxed{4}" + closes
    for place in PLACES[:3]:
        assert _passes(bench, opens + "3, 4" + closes, place.format(all_boxed)), all_boxed
        assert _passes(bench, "85", place.format(r"(so it is \boxed{85}, as required)"))


@pytest.mark.parametrize("kind", ["p", "b", "v", ""])
def test_an_entry_of_a_matrix_is_no_answer(bench: LocalPipelines, kind: str) -> None:
    begin, end = rf"\begin{{{kind}matrix}}", rf"\end{{{kind}matrix}}"
    for entries in (r"\boxed{85} & 2 \\ 3 & 4", r"1 & 2 \\ 3 & \boxed{85}"):
        for place in PLACES:
            assert not _passes(bench, "85", place.format(f"{begin} {entries} {end}")), entries
    said = rf"From ${begin} 1 & 2 {end}$ and ${begin} 3 & 4 {end}$ we get $\boxed{{85}}$."
    assert _passes(bench, "85", said + rf" Of ${begin} 5 & 6 {end}$ it is the product.")


BEHIND = (
    *("over {n}", "minus {n}", "plus {w}", "times {w}", "divided by {w}", "plus x", "minus y"),
    *("times pi", "to the 2nd", "to the second", "to the fifth power", "to the n", "over {w}"),
    *("plus a constant", "plus or minus {n}", "raised to the 4th", "and {n} more"),
)
BEFORE = (
    *("{w} percent of", "{n}% of", "two thirds of", "three times", "{w} plus", "{n} over"),
    *("the sum of {n} and", "the product of {w} and", "the factorial of", "the sine of"),
    *("{n}% more than", "the integer after", "1/2 of", "{w} times", "{w} less than"),
)
CARRIERS = (
    r"\boxed{@}",
    r"$\boxed{@}$",
    "The answer is @",
    "The answer is $@$",
    "<answer>@</answer>",
    "#### @",
)


@FEW
@given(VALUES, st.integers(2, 9), st.sampled_from(BEHIND), st.sampled_from(CARRIERS))
def test_arithmetic_in_words_behind_a_value_makes_it_an_operand(
    bench: LocalPipelines, value: int, other: int, words: str, carrier: str
) -> None:
    assume(other != value)  # `6 and 6 more` repeats the value
    said = words.format(n=other, w=_word(other))
    text = carrier.replace(
        "@", f"{value} {said}" if "<" in carrier or "#" in carrier else str(value)
    )
    text = text if said in text else f"{text} {said}."
    assert not _passes(bench, str(value), text), text


@FEW
@given(VALUES, st.integers(2, 9), st.sampled_from(BEFORE), st.sampled_from(CARRIERS))
def test_arithmetic_in_words_before_a_value_makes_it_an_operand(
    bench: LocalPipelines, value: int, other: int, words: str, carrier: str
) -> None:
    said = words.format(n=other, w=_word(other))
    text = carrier.replace("@", str(value) if "box" in carrier else f"{said} {value}")
    text = text if said in text else f"{said} {text}."
    assert not _passes(bench, str(value), text), text


def _word(number: int) -> str:
    return ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][number]


@FEW
@given(st.integers(20, 99), st.integers(2, 9))
def test_a_calculation_in_words_states_its_result(
    bench: LocalPipelines, value: int, other: int
) -> None:
    for words, result in (
        (f"{value} minus {other}", value - other),
        (f"{value} plus {other} times 2", value + other * 2),
        (f"half of {2 * value}", value),
        (f"{other} squared", other * other),
        (f"10% of {10 * value}", value),
        (f"{value * other} divided by {other}", value),
    ):
        assert _passes(bench, str(result), f"The answer is {words}."), words
        assert not _passes(bench, str(result + 1), f"The answer is {words}."), words


@given(st.text(max_size=200) | st.text(alphabet="half of 10%plusminus timesover$5.,", max_size=80))
def test_reading_of_words_is_total(text: str) -> None:
    assert arithmetic.in_symbols(text) is None or text.strip()


DENIED = (
    "La respuesta no es @.",
    "La r\u00e9ponse n'est pas @.",
    "Die Antwort ist nicht @.",
    "Het antwoord is niet @.",
    "La risposta non \u00e8 @.",
    "A resposta n\u00e3o \u00e9 @.",
    "\u041e\u0442\u0432\u0435\u0442 \u043d\u0435 @.",
    "\u7b54\u6848\u4e0d\u662f@\u3002",
    "\u7b54\u3048\u306f@\u3067\u306f\u3042\u308a\u307e\u305b\u3093\u3002",
    "\u7b54\u3048\u306f@\u3067\u306f\u306a\u3044\u3002",
    "\uc815\ub2f5\uc740 @\uac00 \uc544\ub2d9\ub2c8\ub2e4.",
    "\u0909\u0924\u094d\u0924\u0930 @ \u0928\u0939\u0940\u0902 \u0939\u0948\u0964",
    "Cevap @ de\u011fil.",
    "Jawabannya bukan @.",
    "\u9519\u8bef\u7b54\u6848\u662f@",
    "La respuesta incorrecta es @",
    "Falsche Antwort: @",
    "Mauvaise r\u00e9ponse : @",
    "Risposta sbagliata: @",
    "\u041d\u0435\u0432\u0435\u0440\u043d\u044b\u0439 \u043e\u0442\u0432\u0435\u0442: @",
    "@ es incorrecta.",
    "@ ist falsch.",
    "@ est fausse.",
    "@\u4e0d\u6b63\u786e",
)
DOUBTED = (
    "La respuesta es @ o #.",
    "La r\u00e9ponse est @ ou #.",
    "Die Antwort ist @ oder #.",
    "\u7b54\u6848\u662f@\u6216#\u3002",
    "\u7b54\u3048\u306f@\u307e\u305f\u306f#\u3067\u3059\u3002",
    "\uc815\ub2f5\uc740 @ \ub610\ub294 #\uc785\ub2c8\ub2e4.",
    "\u041e\u0442\u0432\u0435\u0442: @ \u0438\u043b\u0438 #",
)


DISPLAYED = (
    *(r"\(85\)", r"\[85\]"),
    *(r"\(\boxed{85}\)", r"\[\boxed{85}\]", r"$$\boxed{85}$$"),
)


@pytest.mark.parametrize("value", DISPLAYED)
@pytest.mark.parametrize(
    "words", ["is wrong", "is incorrect", "is not the answer", "was a mistake"]
)
def test_an_answer_in_any_delimiters_is_denied_behind_them(
    bench: LocalPipelines, value: str, words: str
) -> None:
    assert not _passes(bench, "85", f"{value} {words}.")
    assert _passes(bench, "85", f"{value} is right.")


@pytest.mark.parametrize("sentence", DENIED)
def test_an_answer_that_is_denied_in_another_language_is_none(
    bench: LocalPipelines, sentence: str
) -> None:
    for value in ("85", "$85$", r"\boxed{85}", *DISPLAYED):
        assert not _passes(bench, "85", sentence.replace("@", value)), value
    reference = {"answer": "C", "choices": list("ABCD")}
    assert bench.judge("choice", sentence.replace("@", "C"), reference).reward == 0.0


@pytest.mark.parametrize("sentence", DOUBTED)
def test_two_answers_in_another_language_are_two(bench: LocalPipelines, sentence: str) -> None:
    for value in ("85", r"\boxed{85}"):
        said = sentence.replace("@", value).replace("#", "17")
        assert not _passes(bench, "85", said), said
        assert not _passes(bench, "17", said), said
    for gold in "AC":
        reference = {"answer": gold, "choices": list("ABCD")}
        said = sentence.replace("@", "A").replace("#", "C")
        assert bench.judge("choice", said, reference).reward == 0.0, said


KINDS = (
    *(("85", "5"), ("x^2", "x^3"), (r"\frac{3}{4}", r"\frac{4}{3}")),
    *(("(3,4)", "(4,3)"), (r"2\sqrt{3}", r"3\sqrt{2}"), (r"28\%", r"82\%"), ("3+4i", "3-4i")),
    *((r"5\text{ cm}", r"6\text{ cm}"), ("y=2x+3", "y=2x-3"), (r"\{1,2\}", r"\{1,3\}")),
)
ANNOUNCED = (
    *("The answer is $@$", "Final Answer: The final answer is $@$", "Answer: $@$", "#### @"),
    *("**Final answer: $@$**", "\u7b54\u6848\u662f $@$"),
)
OFFERED = (
    *(". P.S. ${}$", ".\nAlso ${}$.", ". I'm torn between this and ${}$.", ".\n\nBackup: ${}$"),
    *(". My second guess: ${}$.", ". Other candidates: ${}$.", ".\n\nOption 2: ${}$"),
    *("\n(b) ${}$", ".\n\nThe answer could also be ${}$.", ". Hmm, or ${}$?", "\n- ${}$"),
    *(". Equivalently ${}$?", ". Alternatively, ${}$."),
)
SAYS_NOTHING = (
    *(".", ".\n\nThis is correct.", ". My answer is final.", r"  $\square$", ", and we are done."),
    *(".\n\nThe answer is confirmed in 2 ways.", ".\n\nThis is my final answer: see above."),
    *(".\n\nOther possible approaches exist.", ".\n\nConfidence: 95%"),
)


@pytest.mark.parametrize("offer", OFFERED)
def test_a_value_offered_behind_an_answer_in_words_is_another_one(
    bench: LocalPipelines, offer: str
) -> None:
    for at, (gold, other) in enumerate(KINDS):
        said = ANNOUNCED[(at + len(offer)) % len(ANNOUNCED)].replace("@", gold)
        assert _passes(bench, gold, said + offer.format(gold)), said
        assert not _passes(bench, gold, said + offer.format(other)), said
        assert not _passes(bench, other, said + offer.format(other)), said


@pytest.mark.parametrize("ending", SAYS_NOTHING)
def test_what_says_nothing_about_an_answer_in_words_costs_nothing(
    bench: LocalPipelines, ending: str
) -> None:
    for at, (gold, _) in enumerate(KINDS):
        said = ANNOUNCED[(at + len(ending)) % len(ANNOUNCED)].replace("@", gold)
        assert _passes(bench, gold, said + ending), said


@pytest.mark.parametrize("letter", ["B", "C"])
def test_a_label_offered_behind_another_is_a_second_one(bench: LocalPipelines, letter: str) -> None:
    other = "D"
    reference = {"answer": letter, "choices": list("ABCD")}
    for said in ("The answer is @", "Answer: @"):
        assert bench.judge("choice", said.replace("@", letter) + ".", reference).reward == 1.0
        for offer in (". My second guess is {}.", ". If not, {}.", ". Actually, it might be {}."):
            text = said.replace("@", letter) + offer.format(other)
            assert bench.judge("choice", text, reference).reward == 0.0, text


def test_sides_of_an_equation_that_differ_are_two_answers(bench: LocalPipelines) -> None:
    for side, is_equal in (("x^3", False), (r"x \cdot x", True), ("(x+1)^2", False)):
        assert _passes(bench, "x^2", rf"$\boxed{{x^2}} = {side}$") is is_equal, side
    root = r"P_0\left[1 - \frac{g}{P_0^{2/5}} z\right]^{5/2}"
    assert _passes(bench, "P_0^{5/2}", rf"$\boxed{{P_0^{{5/2}}}} = {root}$")  # it cannot be decided


def test_backslashes_of_json_are_read_as_they_are_written(bench: LocalPipelines) -> None:
    for gold in (r"\{1, 2\}", r"\$12.50", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"):
        assert _passes(bench, gold, '{"answer": "' + gold.replace("\\", "\\\\") + '"}'), gold
