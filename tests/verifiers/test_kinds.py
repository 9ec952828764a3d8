"""A value that stands alone behind a box, and is of its kind, is another answer.

Every kind of value with everything that may join two of them. Text that explains the answer, or
repeats it in another form, has no kind.
"""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.text.announcements import kinds, objects

Judge = Callable[..., Ended]

KINDS = (
    *(("85", "5"), (r"\frac{1}{2}", r"\frac{1}{3}"), ("x^2", "x^3"), ("(1, 2)", "(3, 4)")),
    *((r"\{1, 2\}", r"\{3, 4\}"), ("(0, 1]", "[2, 3)"), (r"\text{Monday}", "Tuesday")),
    *((r"\text{Yes}", "No"), ("A", "B"), (r"\$85", r"\$5"), ("4:30", "5:15"), ("4:30 pm", "5:15")),
    *((r"\sqrt{2}", r"\sqrt{3}"), ("2n+1", "2n-1"), ("y=2x+1", "y=2x-1"), (r"85\%", r"5\%")),
    *((r"85\text{ cm}", r"5\text{ cm}"), (r"2\pi", r"\pi"), ("1:2", "2:1"), ("1+2i", "1-2i")),
    *((r"3\frac12", r"2\frac12"), ("x>3", "x<3"), ("85 m/s", "5 m/s"), ("-3", "-5")),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}5&6\\7&8\end{pmatrix}"),
)
JOINTS = (
    *(" or {}", " or ${}$", ", or ${}$", " and ${}$", ", ${}$", " ${}$", " (${}$)", r" \to {}"),
    *(" -> {}", " \u2192 {}", " \u21d2 {}", " <- {}", " | {}", " & {}", "; {}", ". Or {}."),
    *("\n\n${}$", "\nor ${}$", "\n\\[{}\\]", r" \text{{ or }} {}", r" \quad {}", r"\\ {}", " ~ {}"),
    *(" vs {}", " / ${}$", " ({})", " [{}]", " \u2014 ${}$", ": {}", " respectively {}"),
    *(", alternatively ${}$", ", or else {}", " otherwise {}", "\n* ${}$", "\n2. {}", "\n**{}**"),
    *(
        "\n`{}`",
        "\n> {}",
        "\n---\n{}",
        ".\nAlt: {}",
        ".\n2nd: ${}$",
        " (b) {}",
        "\n(ii) ${}$",
        " b) {}",
    ),
    *(
        " P.S. {}",
        "\nN.B. ${}$",
        "\nPS: {}",
        "\nEdit: {}",
        "\nNote ${}$",
        "\nQ2. {}",
    ),
    *(
        "\nPart 2: {}",
        " next {}",
        " \\therefore {}",
        "\n<b>{}</b>",
        "<br>{}",
        "? {}",
        "\n## {}",
        " \u2026 {}",
    ),
    *(
        "\n\\begin{{align*}}{}\\end{{align*}}",
        " \\begin{{equation}} {} \\end{{equation}}",
        ' "{}"',
        ", so {}",
    ),
)
CARRIERS = (r"The answer is $\boxed{@}$", "<answer>@</answer>", r"\boxed{@}")


@pytest.mark.parametrize("joint", JOINTS)
def test_a_value_of_its_kind_behind_an_answer_is_another_one(judge: Judge, joint: str) -> None:
    for at, (gold, other) in enumerate(KINDS):
        marked = CARRIERS[(at + len(joint)) % len(CARRIERS)].replace("@", gold)
        assert judge("math", marked, {"answers": [gold]}).reward == 1.0, marked
        said = marked + joint.format(other)
        assert judge("math", said, {"answers": [gold]}).reward == 0.0, said
        again = marked + joint.format(gold)
        assert judge("math", again, {"answers": [gold]}).reward == 1.0, again


@pytest.mark.parametrize(
    ("said", "gold", "is_right"),
    [
        ("\\boxed{5}. Edit: $- 39$", "39", False),
        ("\\boxed{5}. Edit: $- 39$", "-39", True),
        ("\\boxed{-39}\nEdit: $- 39$", "-39", True),
        ("\\boxed{-39}. Or $- 39$.", "-39", True),
        ("\\boxed{-39}\nPS: $- 39$", "-39", True),
        ("\\boxed{85} | $- 85$", "85", False),
        ("The answer is $\\fbox{18x^2 \u2212 12}$ P.S. $\\fbox{18x^2}$", "18x^2 \u2212 12", False),
        ("$\\boxed{85} - 5 = 80$", "85", True),
        ("\\boxed{85} - no, 39", "39", True),
        ("<answer>\u2212 85</answer>\nor\nFinal Answer: - 85", "-85", True),
        ("<answer>85</answer>\nor\nFinal Answer: - 85", "85", False),
    ],
)
def test_what_is_said_behind_an_answer_is_read_with_its_sign(
    judge: Judge, said: str, gold: str, *, is_right: bool
) -> None:
    assert (judge("math", said, {"answers": [gold]}).reward == 1.0) is is_right


@pytest.mark.parametrize("joint", [" plus {}", " minus {}", " times {}"])
def test_an_operation_in_words_with_another_value_is_another_answer(
    judge: Judge, joint: str
) -> None:
    for gold, other in (("x^2", "x^3"), ("(1, 2)", "(3, 4)"), ("2n+1", "2n-1")):
        said = rf"\boxed{{{gold}}}" + joint.format(other)
        assert judge("math", said, {"answers": [gold]}).reward == 0.0, said


@pytest.mark.parametrize("joint", [" instead of {}", ". Not {}.", " rather than {}", " (not {})"])
def test_a_value_that_is_denied_is_no_other_one(judge: Judge, joint: str) -> None:
    for gold, other in KINDS:
        said = rf"\boxed{{{gold}}}" + joint.format(other)
        assert judge("math", said, {"answers": [gold]}).reward == 1.0, said


EXPLAINED = (
    (r"\boxed{x^2} (x > 0)", "x^2"),
    (r"$\boxed{x>3}, x \neq 5$", "x>3"),
    (r"$\boxed{x^2+C}$, $C \in \mathbb{R}$", "x^2+C"),
    (r"$\boxed{x^2+C}$ ($C$)", "x^2+C"),
    (r"\boxed{3} (x = 2)", "3"),
    (r"\boxed{4} (2, 3, 5, 7)", "4"),
    (r"\boxed{(0,1]} = (0, 1]", "(0,1]"),
    ("$\\boxed{x=3}$\n\n$2x = 6$", "x=3"),
    ("\\boxed{85}\n\n$5 + 80 = 85$", "85"),
    ("\\boxed{85}\n\n1.", "85"),
    (r"\boxed{25} \tag{1}", "25"),
    (r"$\boxed{y=2x+1}$, $y(0)=1$", "y=2x+1"),
    (r"\boxed{120^\circ} (\frac{2\pi}{3})", "120"),
    (r"\boxed{A} (x^2)", "A"),
    (r"\boxed{\text{Monday}} (Day 1)", "Monday"),
    (r"\boxed{3\text{ m}} (300\text{ cm})", r"3\text{ m}"),
    (r"\boxed{\sqrt{2}} (1.414)", r"\sqrt{2}"),
    (r"\boxed{0.5} = 50\%", "0.5"),
    (r"\boxed{1:2} = 1/2", "1:2"),
    (r"\boxed{3\frac12} = \frac72 = 3.5", r"3\frac12"),
    (r"\boxed{\{1,2\}} = \{2,1\}", r"\{1,2\}"),
    (r"\boxed{\frac{n(n+1)}{2}} = \binom{n+1}{2}", r"\frac{n(n+1)}{2}"),
    (r"$\boxed{f(x) = x^2}$ where $f(0) = 0$", "f(x)=x^2"),
    (r"$\boxed{y = x/2}$ or $y = 0.5x$", "y=x/2"),
    (r"\boxed{5} \quad \blacksquare", "5"),
    (r"$3 + \boxed{5} = 8$", "5"),
    (r"$\boxed{A} + B$", "A"),
    (r"$\boxed{x^2}$, $x \neq 0$", "x^2"),
    (r"$\boxed{x=3}$, $x > 0$", "x=3"),
    ("\\boxed{\\frac{1}{2}}\n\u7b2c1\u9898", r"\frac{1}{2}"),
    (r"$\boxed{(n, n+1)}$, e.g. $(3, 4)$", "(n, n+1)"),
    (r"$\boxed{x^2}$, so $f(x) = x^2$", "x^2"),
    ("\\boxed{85}\n\nStep 1: $80 + 5$", "85"),
    ("\\boxed{5} (b) $7$", "(a) 5 (b) 7"),
    ("\\boxed{85}\n\nP.S. I used 2 steps.", "85"),
    ("\\boxed{85}\n\nNote: $85 = 5 \\cdot 17$", "85"),
    ("\\begin{align*} y &= \\boxed{x^2} \\\\ &= x \\cdot x \\end{align*}", "x^2"),
    ("\\boxed{5}, so 10 apples are left.", "5"),
    ("\\boxed{5}' 3''", "5"),
)


@pytest.mark.parametrize(("said", "gold"), EXPLAINED)
def test_what_is_of_another_kind_or_equal_is_no_other_answer(
    judge: Judge, said: str, gold: str
) -> None:
    assert judge("math", said, {"answers": [gold]}).reward == 1.0


@pytest.mark.parametrize(
    ("said", "gold"),
    [
        ("$\\boxed{2:7}$\n- $2$", "2:7"),
        (r"\boxed{85\text{ cm}} | 5", r"85\text{ cm}"),
        ("$\\boxed{2:7}$ \u2014 $2$", "2:7"),
    ],
)
def test_a_number_without_a_unit_is_of_the_kind_of_any(judge: Judge, said: str, gold: str) -> None:
    assert judge("math", said, {"answers": [gold]}).reward == 0.0


@pytest.mark.parametrize(
    ("said", "gold"),
    [
        (r"$\boxed{x > 3}$ and $x < 5$", "3 < x < 5"),
        (r"$\boxed{x = 1}$ or $x = 2$", "x=1, x=2"),
        (r"\boxed{x^2}, x^3", "x^2, x^3"),
        (r"\boxed{2} and 3", "2, 3"),
    ],
)
def test_parts_of_one_answer_are_one(judge: Judge, said: str, gold: str) -> None:
    assert judge("math", said, {"answers": [gold]}).reward == 1.0


@pytest.mark.parametrize("name", ["a", "i", "o", "x", "A", "\\alpha"])
@pytest.mark.parametrize("joint", [" and ${}$", " and {}", "\nEdit: **${}$**", " or {}", ", ${}$"])
def test_a_letter_with_a_value_is_a_name_and_no_word(judge: Judge, name: str, joint: str) -> None:
    said, gold = f"$\\boxed{{{name} = 701}}$", {"answers": [f"{name} = 701"]}
    assert judge("math", said + joint.format(f"{name} = 702"), gold).reward == 0.0
    assert judge("math", said + joint.format(f"{name} = 701"), gold).reward == 1.0


@pytest.mark.parametrize(
    "word",
    [
        *("Edit:", "Wait,", "Actually,", "Correction:", "Oops,", "No,", "My mistake:", "I mean"),
        *("Scratch that,", "I was wrong:", "I made an error:", "Hold on,", "Let me correct that:"),
        *("That's wrong:", "On second thought,", "Make that"),
    ],
)
@pytest.mark.parametrize("name", ["x", "a", "n", "\\theta"])
@pytest.mark.parametrize("between", [". ", "\n", "\n\n**"])
def test_a_correction_with_a_name_takes_the_place_of_a_number(
    judge: Judge, word: str, name: str, between: str
) -> None:
    said = f"$\\boxed{{77}}${between}{word} ${name} = -77$"
    assert judge("math", said, {"answers": ["77"]}).reward == 0.0
    assert judge("math", said, {"answers": ["-77"]}).reward == 1.0
    again = f"$\\boxed{{77}}${between}{word} ${name} = 77$"
    assert judge("math", again, {"answers": ["77"]}).reward == 1.0


@pytest.mark.parametrize(
    "rest",
    [
        "So $n = 12$.",
        "Actually, $7 \\cdot 11 = 77$",
        "where $x = 12$",
        "Actually, $77 + 3 = 80$",
        "Actually, $2x = 154$",
        "Actually, $x = 7 \\cdot 11$",
    ],
)
def test_an_equation_that_explains_an_answer_corrects_nothing(judge: Judge, rest: str) -> None:
    assert judge("math", f"$\\boxed{{77}}$. {rest}", {"answers": ["77"]}).reward == 1.0


def test_a_value_of_the_same_name_with_another_index_is_another_one(judge: Judge) -> None:
    said = "$x_1 = \\boxed{85}$\n$x_2 = {}$"
    assert judge("math", said.replace("{}", "5"), {"answers": ["85"]}).reward == 0.0
    assert judge("math", said.replace("x_2 = {}", "y = 5"), {"answers": ["85"]}).reward == 1.0


@given(
    st.text(alphabet="\\boxed{}$()[]<>=|&/;:.,-+ \n12axB_^*`#\u2192\u2014"),
    st.sampled_from([r"\boxed{85}", r"\boxed{x^2}", "<answer>A</answer>"]),
)
def test_any_rest_has_a_value_in_it_or_none(rest: str, box: str) -> None:
    found = kinds.another(box + rest, 0, len(box), "x_1")
    assert found is None or len(box) <= found[0] < found[1] <= len(box + rest)


BEFORE = (
    *("The answer is {} or @", "The answer is either ${}$ or @.", "${}$ or @", "So it is {}, or @"),
    *("Either ${}$ or else @", "The answer would be {} or maybe @", "**{}** vs @", "{} or {} or @"),
    "We work.\n\nHence the result equals ${}$ or @.",
)


@pytest.mark.parametrize("way", BEFORE)
def test_a_value_of_its_kind_before_an_answer_is_another_one(judge: Judge, way: str) -> None:
    for gold, other in KINDS:
        said = way.replace("@", rf"$\boxed{{{gold}}}$")
        again, offer = said.replace("{}", gold), said.replace("{}", other)
        assert judge("math", again, {"answers": [gold]}).reward == 1.0, again
        assert judge("math", offer, {"answers": [gold]}).reward == 0.0, offer


@pytest.mark.parametrize(
    "said",
    [
        r"half of it, or $\boxed{85}$",
        r"$\frac{170}{2}$, or $\boxed{85}$",
        r"If n is 5 or 6 then $\boxed{85}$",
        r"of the 100, 15 fail and $\boxed{85}$ pass",
        r"We may add 5 to 80. The sum is $80+5$, or $\boxed{85}$.",
        r"The roots are 5 and $\boxed{85}$.",
        r"So $x = 5$ or $x = \boxed{85}$",
        "In step 5 or 6.\nSo $\\boxed{85}$",
    ],
)
def test_what_leads_to_an_answer_is_no_other_one(judge: Judge, said: str) -> None:
    assert judge("math", said, {"answers": ["85"]}).reward == 1.0


LISTS = (
    *('{"answer": [1, 2]}', '{"answer": ["1", "2"]}', "{'answer': [1, 2], 'n': 5}"),
    *('```json\n{"answer": [1, 2]}\n```', '{"answer": [1, 2], "confidence": 0.9}'),
    *("{answer: [1, 2]}", '{"final_answer": {"value": [1, 2], "unit": null}}'),
    *('Done.\n{"why": "\\(x-1\\)", "answer": [1, 2,],}', '{"answer": 1, "answer": 2}'),
)


@pytest.mark.parametrize("said", LISTS)
def test_a_list_in_a_record_is_several_values(judge: Judge, said: str) -> None:
    assert judge("math", said, {"answers": ["1, 2"]}).reward == 1.0
    assert judge("math", said, {"answers": ["1, 3"]}).reward == 0.0
    assert judge("math", said, {"answers": ["1"]}).reward == 0.0


def test_a_list_in_a_record_is_still_the_list_in_its_brackets(judge: Judge) -> None:
    assert judge("math", '{"answer": [1, 2]}', {"answers": ["[1, 2]"]}).reward == 1.0


@pytest.mark.parametrize(
    "name", ["final", "value", "output", "answer_2", "answer b", "second_answer", "guess", "result"]
)
def test_another_member_that_is_named_as_an_answer_is_another_answer(
    judge: Judge, name: str
) -> None:
    said = f'{{"answer": 85, "{name}": @}}'
    assert judge("math", said.replace("@", "5"), {"answers": ["85"]}).reward == 0.0
    assert judge("math", said.replace("@", "85.0"), {"answers": ["85"]}).reward == 1.0
    assert judge("math", said.replace("@", '"so it is"'), {"answers": ["85"]}).reward == 1.0


@pytest.mark.parametrize(
    "said",
    [
        r'{"answer": "\frac{1}{2}"}',
        r'{"answer": "\\frac{1}{2}", "type": 3}',
        r"{answer: '\frac{1}{2}', answer_type: 3}",
        '{"answer": "1/2", "valid": True}',
    ],
)
def test_a_record_is_read_as_models_write_it(judge: Judge, said: str) -> None:
    assert judge("math", said, {"answers": [r"\frac{1}{2}"]}).reward == 1.0
    assert judge("math", said, {"answers": ["3"]}).reward == 0.0


@given(st.text(alphabet="{}[]\"':,\\ answer12truefn\n`", max_size=80))
def test_any_end_of_a_text_is_a_record_or_none(end: str) -> None:
    for text in (end, '{"answer": ' + end, end + "}"):
        found = objects.last(text)
        assert found is None or found.text


def test_a_record_that_nests_deeply_is_none() -> None:
    lists = '{"answer": ' + "[" * 900 + "1" + "]" * 900 + "}"
    for text in ('{"answer": ' * 300 + "1" + "}" * 300, '{"answer": ' + "[" * 3000 + "}", lists):
        assert objects.last(text) is None
