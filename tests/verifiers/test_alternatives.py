"""A box whose sentence offers another value in its place states both; what explains it does not.

Every joiner with every way to write the two values, and the amounts of one size that are no other.
"""

import itertools
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.text.announcements.alternatives import alternative

Judge = Callable[..., Ended]

FORMULAS = (
    *((r"\boxed{85}", "5"), (r"$\boxed{85}$", "$5$"), (r"\(\boxed{85}\)", r"\(5\)")),
    *((r"\[\boxed{85}\]", r"\[5\]"), (r"$$\boxed{85}$$", "$$5$$"), (r"**\boxed{85}**", "**5**")),
    *(
        (r"<answer>85</answer>", "5"),
        (r"\boxed{85} cm", "5 cm"),
        (r"$\boxed{85}$ apples", "$5$ pears"),
    ),
    *((r"$x = \boxed{85}$", "$x = 5$"), (r"\boxed{85}", "-5"), (r"\boxed{85}", r"\frac{5}{2}")),
)
JOINERS = (
    *("{} or {}", "{}, or {}", "{} (or {})", "{} or maybe {}", "{} or it is {}", "{}; possibly {}"),
    *("{} or else {}.", "{} or {} otherwise", "{} or {} if x < 0", "{} alternatively {}"),
    *("{} (either that or {})", "{} either it or {}.", "{} or (b) {}", "{} xor {}", "{} || {}"),
    *(r"{} \lor {}", r"{} \vee {}"),
)
SENTENCES = (
    r"\boxed{85}\text{ or }5",
    r"\boxed{85}\quad\text{or}\quad 5",
    r"\[\boxed{85} \text{ or } 5\]",
    r"\boxed{85} if $x > 0$, otherwise 5",
    r"\boxed{85} for $x > 0$, else $5$.",
    r"\boxed{85} when n is even and 5 when n is odd",
    r"\boxed{85} if n is even; 5 if n is odd.",
    r"\boxed{85} for even n, 5 for odd n",
    r"\boxed{85} unless x < 0, in which case 5",
    r"\boxed{85} but it could be 5",
    r"\boxed{85}. It might also be 5.",
    r"$\boxed{85}$, though the answer may well be $5$.",
    r"$\boxed{85}$, although $5$ might also be right.",
    r"\boxed{85}. Alternatively, 5.",
    r"\boxed{85}; otherwise it is 5.",
    r"\boxed{85}. Otherwise: $5$",
    r"\boxed{85}. If not, then 5.",
    r"\boxed{85}, failing that 5",
    r"\boxed{85} and/or 5",
    r"\boxed{85} as well as $5$",
    r"\boxed{85} or more likely 5",
    r"\boxed{85}, but most likely $5$",
    r"\boxed{85}, although I think 5",
    r"\boxed{85} but I'd also accept 5",
    r"\boxed{85} (backup answer: 5)",
    r"\boxed{85}. Another possible answer is $5$.",
    r"\boxed{85}, also acceptable: 5",
    r"\boxed{85} (5 is also possible)",
    r"\boxed{85}; $5$ is another possibility.",
    r"\boxed{85}, 5 also works",
    *(r"\boxed{85} o 5", r"\boxed{85} oder 5", r"\boxed{85} ou $5$", "\\boxed{85} \u6216 5"),
    *(
        "\\boxed{85} \u0438\u043b\u0438 5",
        r"\boxed{85} or, less likely, 5",
        r"\boxed{85} or \textbf{5}",
    ),
)
SIGNS = (
    *(
        "",
        "=",
        "->",
        "=>",
        "&",
        "|",
        "-->",
        "~",
        "resp.",
        r"\to",
        r"\rightarrow",
        r"\cup",
        r"\quad",
    ),
    *(r"\\\\", r"\,", r"\mid", "\u2192", "\u21d2", "\u222a"),
)
IN_WORDS = (
    "five",
    "a dozen",
    "minus five",
    "twenty-five",
    "twelve",
    "sixteen",
    "a hundred",
    "zero",
    "one",
)
EXPLAINED = (
    r"\boxed{85} or so many apples",
    r"\boxed{85} or 85",
    r"$\boxed{85}$ or $17 \cdot 5$",
    r"\boxed{85} if $x > 0$.",
    r"\boxed{85} for n = 5, since 5 times 17 is 85",
    r"\boxed{85} when 5 boys and 12 girls come.",
    r"\boxed{85}. One might think that it could be 5.",
    r"\boxed{85}. It could not be 5.",
    r"\boxed{85}. How could it be 5?",
    r"$x = \boxed{85}$, $y = 5$",
    r"$x = \boxed{85}$ or $y = 5$",
    r"$\boxed{85}$, $5 \cdot 17 = 85$",
    r"\boxed{85}. Otherwise, we would have 5 left.",
    r"\boxed{85} apples, 5 more than before",
    r"\boxed{85}. Alternatively, $5 \cdot 17 = 85$.",
    r"\boxed{85}. If not, we would have 5.",
    r"$x = \boxed{85}$. The other root is $5$.",
    r"$\boxed{85}$, which is also our answer to part 5.",
    r"\boxed{85}. 5 also works as a factor of it.",
    r"\boxed{85} as well as we know",
    r"\boxed{85}; 85 is also possible",
    r"So $x = 5$ or $x = \boxed{85}$.",
    r"\boxed{85} dollars, or $85",
    r"\boxed{85} if we multiply 17 and 5 for the total",
    r"\boxed{85} or $5n = 425$",
    r"\boxed{85} (or 5, which is wrong)",
    r"\boxed{85}. Each of these 17 could be 5.",
    r"$\boxed{85}$ (or else $J$ would have more than 5 factors).",
    r"\boxed{85} cm, or 0.85 m",
    r"\boxed{85} cm or 850 mm",
    r"\boxed{85} minutes, or 1 hour 25 minutes",
    r"\boxed{85} or eighty-five",
    r"\boxed{85} or one of its multiples",
    r"\boxed{85} or one of them",
    r"\boxed{85} or one more than 84",
    r"$\boxed{85} = 17 \cdot 5$",
    r"$\boxed{85} = 85.0$",
    r"$\boxed{85} (85)$",
    r"$\boxed{85} \approx 84.9$",
    r"$\boxed{85} \ne 5$",
    r"$\boxed{85} > 5$",
    r"\boxed{85} (5 more than 80)",
    r"\boxed{85} = 5 times 17",
    "\\boxed{85}\n5 is a factor of it.",
    r"\boxed{85}. Alternative: count all 5 groups.",
)


@pytest.mark.parametrize("joiner", JOINERS)
def test_a_value_in_place_of_a_box_is_another_answer(judge: Judge, joiner: str) -> None:
    for box, other in FORMULAS:
        response = f"Some work.\n\nSo {joiner.format(box, other)}"
        assert judge("math", response, {"answers": ["85"]}).reward == 0.0, response


@pytest.mark.parametrize("sign", SIGNS)
def test_a_value_with_no_word_before_it_is_another_one(judge: Judge, sign: str) -> None:
    for box, other in (
        (r"\boxed{85}", "5"),
        ("<answer>85</answer>", "-5"),
        (r"\boxed{85}", "5.5"),
        (r"\boxed{85}", r"5\%"),
    ):
        response = f"So {box} {sign} {other}."
        assert judge("math", response, {"answers": ["85"]}).reward == 0.0, response
        again = f"So {box} {sign} 85"
        assert judge("math", again, {"answers": ["85"]}).reward == 1.0, again


@pytest.mark.parametrize(
    "bracket", ["({})", "[{}]", "{{{}}}", r"\({}\)", r"\[{}\]", "${}$", "( {} )"]
)
def test_brackets_around_a_value_make_no_remark_of_it(judge: Judge, bracket: str) -> None:
    for value, passes in (("5", 0.0), ("85", 1.0), ("5 apples are left", 1.0)):
        response = rf"So \boxed{{85}} {bracket.format(value)}"
        assert judge("math", response, {"answers": ["85"]}).reward == passes, response


@pytest.mark.parametrize("number", IN_WORDS)
def test_a_number_in_words_is_offered_too(judge: Judge, number: str) -> None:
    for joiner in ("{} or {}", "{}, or maybe {}.", "{} (or {})", r"{} \text{{ or }} \text{{{}}}"):
        response = joiner.format(r"\boxed{85}", number)
        assert judge("math", response, {"answers": ["85"]}).reward == 0.0, response


def test_zero_behind_a_polynomial_is_its_equation(judge: Judge) -> None:
    for box in (r"\boxed{x^2 - 4}", "<answer>x^2 - 4</answer>"):
        assert judge("math", f"So ${box} = 0.$", {"answers": ["x^2 - 4"]}).reward == 1.0


def test_a_name_behind_a_number_is_its_name(judge: Judge) -> None:
    for response, passes in (
        (r"\boxed{85} or $x = 5$", 0.0),
        (r"\boxed{85} or $x = 85$", 1.0),
        (r"$y = \boxed{85}$ or $x = 5$", 1.0),
        ("\\boxed{85}\nAlternative: 5", 0.0),
        (r"\boxed{85}, 5 as well", 0.0),
        (r"\boxed{85}. 5 works as well as 17 does.", 1.0),
    ):
        assert judge("math", response, {"answers": ["85"]}).reward == passes, response


@pytest.mark.parametrize("sentence", SENTENCES)
def test_cases_and_what_might_be_are_other_answers(judge: Judge, sentence: str) -> None:
    assert judge("math", f"So {sentence}", {"answers": ["85"]}).reward == 0.0


@pytest.mark.parametrize("sentence", EXPLAINED)
def test_what_explains_a_box_is_no_other_answer(judge: Judge, sentence: str) -> None:
    assert judge("math", f"So {sentence}", {"answers": ["85"]}).reward == 1.0


OTHER_KINDS = (
    *(("Monday", r"\boxed{\text{Monday}} or Tuesday"), ("yes", r"\boxed{\text{yes}} or no")),
    *(("x^2", r"\boxed{x^2} or $x^3$"), ("x^2", r"\boxed{x^2} or x^3"), ("A", r"\boxed{A} or B")),
    *(("x^2", r"\boxed{x^2} if $x > 0$, otherwise $-x^2$"), ("[0,1)", r"\boxed{[0,1)} or $[0,1]$")),
    *(("2", r"\boxed{x = 2} or $x = 3$"), ("2", r"\boxed{x = 2}, $x = 3$")),
    *(("2", r"\boxed{x = 2} if n is even, otherwise $x = 3$"), (r"\pi", r"\boxed{\pi} or $2\pi$")),
    ("(1,2)", r"\boxed{(1,2)} or $(2,1)$"),
    *(
        ("even", r"\boxed{\text{even}}; odd is also possible"),
        ("yes", r"\boxed{yes}; $no$ is also possible"),
    ),
    *(("even", r"\boxed{\text{even}}. It could also be odd."), ("x", r"\boxed{x} or $y$")),
)


@pytest.mark.parametrize(("gold", "response"), OTHER_KINDS)
def test_values_of_every_kind_are_offered(judge: Judge, gold: str, response: str) -> None:
    box = re.split(r"(?<=\})(?=[ ,.;])", response)[0]
    assert judge("math", response, {"answers": [gold]}).reward == 0.0
    assert judge("math", f"So $${box}$$ is the answer.", {"answers": [gold]}).reward == 1.0


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{\text{even}} or, in other words, divisible by 2",
        r"\boxed{\text{even}}, or so it seems",
        r"\boxed{\text{even}} or equivalently $2 \mid n$",
        r"\boxed{\text{even}} if n > 0 and if n < 9",
        r"\boxed{\text{even}} if and only if n is even",
    ],
)
def test_words_behind_a_word_explain_it(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["even"]}).reward == 1.0


@pytest.mark.parametrize("behind", ["as well", "too"])
def test_a_word_beside_a_word_is_another_answer(judge: Judge, behind: str) -> None:
    for said, passes in ((r"\text{odd}", 0.0), ("odd", 0.0), (r"\text{even}", 1.0), ("even", 1.0)):
        response = rf"\boxed{{\text{{even}}}}, ${said}$ {behind}"
        assert judge("math", response, {"answers": ["even"]}).reward == passes, response


def test_a_formula_ends_before_the_words_behind_it(judge: Judge) -> None:
    response = r"\boxed{x^2} or $x \cdot x$ in short"
    assert judge("math", response, {"answers": ["x^2"]}).reward == 1.0


CHOICES = (
    *(
        r"\boxed{A} or B",
        r"$\boxed{A}$ or $B$",
        r"\boxed{A}\text{ or }B",
        r"\boxed{A} or maybe (B)",
    ),
    *(
        r"\boxed{A} if x > 0, otherwise B",
        r"\boxed{A}. It could also be B.",
        "<answer>A</answer> or B",
    ),
    *(r"\boxed{A}, though B might be right", r"\boxed{\text{A}}; possibly B"),
    *(
        r"\boxed{A} (B)",
        r"\boxed{A} -> B.",
        r"$\boxed{A}$ $B$",
        "<answer>A</answer> B",
    ),
    *(r"\boxed{A} & B", r"\boxed{A} | B", r"\boxed{A} \to B"),
)


@pytest.mark.parametrize("response", CHOICES)
def test_a_choice_in_place_of_another_is_ambiguous(judge: Judge, response: str) -> None:
    for gold in "AB":
        assert judge("choice", response, {"answer": gold}).reward == 0.0
    for said in (
        r"\boxed{A} or so I think",
        r"\boxed{A}, though B may be tempting",
        r"\boxed{A} or A",
        r"\boxed{A} (A)",
        r"\boxed{A} (B is tempting)",
        r"\boxed{A} B-trees are not balanced.",
        "\\boxed{A}\nB is wrong.",
    ):
        assert judge("choice", said, {"answer": "A"}).reward == 1.0


AMOUNTS = (
    *(("85 cm", "0.85 m"), ("90 minutes", "1.5 hours"), ("2 km", "2000 m"), ("75 cents", "$0.75")),
    *(
        ("4.5 minutes", "0.075 hours"),
        ("1.5 kg", "1500 g"),
        ("100 minutes", "1.67 hours"),
        ("3 weeks", "21 days"),
    ),
)


@pytest.mark.parametrize(("one", "other"), AMOUNTS)
def test_one_amount_in_two_units_is_one_answer(judge: Judge, one: str, other: str) -> None:
    value = one.split()[0]
    number, unit = other.split(maxsplit=1) if " " in other else (other, "")
    wrong = f"{2 * float(number.strip('$')):g} {unit}".strip()
    for said in (
        f"The answer is {one} or {other}.",
        f"\\boxed{{{value}}} {one.split()[1]}, or {other}",
    ):
        assert judge("math", said, {"answers": [value]}).reward == 1.0, said
        assert judge("math", said.replace(other, wrong), {"answers": [value]}).reward == 0.0, said


RECORDS = (
    *('{"answer": 85, "confidence": 0.9}', '{"answer": "85", "unit": "cm", "ok": true}'),
    *('{"reasoning": "5+80", "answer": 85, "steps": ["5", "17"]}', "{'answer': 85, 'n': 5}"),
    *('```json\n{\n  "answer": 85,\n  "confidence": 5\n}\n```', '[{"answer": 85, "of": {"a": 5}}]'),
    r"""{"answer": 85, "explanation": "the \"5\" stays"}""",
    *('{"final_answer": 85, "checked": null}', '{"result": 85, "status": "5 checks"}'),
)


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_answers_with_the_member_that_says_so(judge: Judge, record: str) -> None:
    assert judge("math", record, {"answers": ["85"]}).reward == 1.0
    swapped = record.replace("85", "@").replace("5", "85", 1).replace("@", "5")
    assert judge("math", swapped, {"answers": ["85"]}).reward == 0.0, swapped


@pytest.mark.parametrize("name", ["answer2", "result", "final_answer", "solution"])
def test_two_members_that_say_so_are_two_answers(judge: Judge, name: str) -> None:
    record = f'{{"answer": 85, "{name}": 5}}'
    assert judge("math", record, {"answers": ["85"]}).reward == 0.0
    assert judge("math", record, {"answers": ["85, 5"]}).reward == 1.0


@pytest.mark.parametrize(
    "way",
    [
        *(
            "Option 1: 5\nOption 2: {}",
            "Possibility 1: 5\nPossibility 2: {}",
            "Guess: 5\nGuess: {}",
        ),
        *(
            "First guess: 5. Second guess: {}.",
            "Candidate A: 5\nCandidate B: {}",
            "I think 5. Or {}.",
        ),
    ],
)
def test_options_of_which_none_is_the_answer_are_all_of_them(judge: Judge, way: str) -> None:
    assert judge("math", way.format(85), {"answers": ["85"]}).reward == 0.0
    assert judge("math", way.format(85), {"answers": ["5"]}).reward == 0.0
    said = f"{way.format(85)}\nThe answer is 85."
    assert judge("math", said, {"answers": ["85"]}).reward == 1.0


@pytest.mark.parametrize("line", ["x = {}", "$n = {}$", "- x = {}", "Total: {}", "cost = {} cm"])
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_last_lines_of_one_name_state_all_values(judge: Judge, line: str, gap: str) -> None:
    values = (5, 85), (85, 5), (4, 5, 85)
    for row in values:
        response = "We solve it.\n" + gap.join(line.format(value) for value in row)
        assert judge("math", response, {"answers": ["85"]}).reward == 0.0, response
    trace = gap.join(line.strip("- ").format(value) for value in (1, 2, 4, 85))
    work = gap.join(("2x = 170", line.format("80 + 5"), "y = 5", line.format(85)))
    for response in (trace, work, f"We solve it.{gap}{line.format(85)}{gap}{line.format(85)}"):
        assert judge("math", response, {"answers": ["85"]}).reward == 1.0, response


@pytest.mark.parametrize("way", ["Step 1: 5\nStep 2: {}", "My best guess is {}", "Estimate: {}"])
def test_steps_and_one_guess_state_the_last(judge: Judge, way: str) -> None:
    assert judge("math", way.format(85), {"answers": ["85"]}).reward == 1.0


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        (r"\boxed{85} (or 5)", "5"),
        (r"\boxed{85} (or $(5, 6]$)", "(5, 6]"),
        (r"\boxed{85} or $\sqrt{5}$.", r"\sqrt{5}"),
        (r"\boxed{85} or $5!$", "5!"),
        (r"{\boxed{85} or \frac{5}{2}}", r"\frac{5}{2}"),
    ],
)
def test_brackets_around_the_sentence_are_no_part_of_it(sentence: str, said: str) -> None:
    found = alternative(sentence, sentence.index("\\"), sentence.index("}") + 1)
    assert found is not None
    assert found.statement.text == said


@given(st.text(max_size=300), st.sampled_from([*itertools.chain(*FORMULAS)]))
def test_any_sentence_has_its_own_alternative_or_none(rest: str, box: str) -> None:
    text = box + rest
    found = alternative(text, 0, len(box))
    if found is not None:
        begin, end, said = found.statement
        assert text[begin:end] == said
        assert begin >= len(box)
