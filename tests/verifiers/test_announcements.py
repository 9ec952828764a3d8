"""Words that announce an answer state one beside any other statement: every word with every joint.

Alone they change nothing, and what a derivation says on its way announces nothing.
"""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.options import Strategy
from assay.verifiers.text.announcements.search import announced
from assay.verifiers.text.announcements.words import ANSWERS, RESULTS
from assay.verifiers.text.answers import extract

Judge = Callable[..., Ended]

JOINTS = (
    *("{word}: {value}", "{word} = {value}", "{word} -> {value}", "**{word}:** {value}"),
    *("{word} - {value}", "{word} \u2014 {value}", "[{word}] {value}", "## {word}\n\n{value}"),
    *("**{word}**\n{value}", "| {word} | {value} |", "| {word} |\n|---|\n| {value} |"),
    *('{{"{word}": {value}}}', "<{word}>{value}</{word}>", "\u3010{word}\u3011{value}"),
)
VERBS = (
    *("The answer equals {}.", "The answer must be {}.", "The answer to this question is {}."),
    *("The final result is {}.", "The correct value is {}.", "La r\u00e9ponse est {}."),
    *("Die Antwort lautet {}.", "La respuesta es {}.", "La risposta \u00e8 {}."),
    *("A resposta final \u00e9 {}.", "Odpowied\u017a brzmi {}", "Svaret \u00e4r {}."),
    *(
        "\u041e\u0442\u0432\u0435\u0442 \u0440\u0430\u0432\u0435\u043d {}.",
        "\u6700\u7ec8\u7ed3\u679c\u662f{}",
    ),
    *("\u6b63\u89e3\u306f{}", "\uc815\ub2f5\uc740 {}", "answer \u2192 {}", "Answer 1: {}"),
)
ASCII = [word for word in (*ANSWERS, *RESULTS) if word.isascii()]


@pytest.mark.parametrize("word", [*ANSWERS, *RESULTS])
def test_every_word_announces_with_every_joint(word: str) -> None:
    for joint, name in itertools.product(JOINTS, (word, word.capitalize())):
        said = joint.format(word=name, value="5")
        assert [one.text for one in announced(said)] == ["5"], said


@pytest.mark.parametrize("final", ["The answer is 85.", r"\boxed{85}", "#### 85", "Answer: 85"])
def test_a_value_that_is_announced_beside_the_answer_is_another_one(
    judge: Judge, final: str
) -> None:
    ways = [joint.format(word=word, value="{}") for word in ASCII[:12] for joint in JOINTS[:11]]
    for way in (*ways, *VERBS):
        guess = way.replace("{}", "5")
        for response in (f"Some work.\n{guess}\n{final}", f"Some work.\n{final}\n{guess}"):
            assert judge("math", response, {"answers": ["85"]}).reward == 0.0, response
        again = way.replace("{}", "85")
        for response in (f"Some work.\n{again}\n{final}", f"Some work.\n{final}\n{again}"):
            assert judge("math", response, {"answers": ["85"]}).reward == 1.0, response


def test_announcements_beside_each_other_are_one_answer(judge: Judge) -> None:
    for first, then in itertools.product(VERBS[::4], ("Result: {}", "Solution = {}")):
        response = f"Some work.\n{first.format(5)}\n{then.format(85)}"
        assert judge("math", response, {"answers": ["85"]}).reward == 0.0, response
        assert judge("math", response, {"answers": ["5, 85"]}).reward == 1.0, response


@pytest.mark.parametrize(
    "before",
    [
        "So the result is 5 apples per box, then we take 17 boxes.",
        "The result is 5.",
        "Solution: x = 5",
        "Solutions: 1 and 2",
        "Solution: (1, 2)",
        "Solution: There are 17 boxes with 5 apples in each of them.",
        "Step 3 result: 5",
        "We had 10, so we take the answer - 5 of them.",
        "The answer must be positive.",
        "The counter-answer: 5",
        "If the answer equals 5, it is odd.",
        "Wrong answer - 5",
        "The answer for part (a) is between 4 and 6.",
        "The least answer would be 5.",
        "The answer should be close to 80.",
        "| Step | Result |\n|---|---|\n| 1 | 5 |",
        "Result:\nCorrect",
    ],
)
def test_what_a_derivation_says_is_no_announcement(judge: Judge, before: str) -> None:
    response = f"{before}\nThe answer is 85."
    assert judge("math", response, {"answers": ["85"]}).reward == 1.0


@pytest.mark.parametrize("way", ["Result: {}", "Solution = {}", '{{"answer": {}}}', "Answer - {}"])
def test_one_announcement_alone_is_read_as_before(judge: Judge, way: str) -> None:
    for value in ("85", "\\frac{1}{2}"):
        response = "First, 2 + 3 = 5.\n" + way.format(value)
        assert judge("math", response, {"answers": [value]}).reward == 1.0


def test_a_choice_that_is_announced_beside_another_is_ambiguous(judge: Judge) -> None:
    reference = {"answer": "B", "choices": ["A", "B", "C", "D"]}
    for joint in JOINTS:
        said = joint.format(word="Answer", value="A")
        assert judge("choice", f"{said}\nThe answer is B.", reference).reward == 0.0, said
        again = joint.format(word="Answer", value="B")
        assert judge("choice", f"{again}\nThe answer is B.", reference).reward == 1.0, again
    hashed = "The answer is $\\boxed{B}$.\n\n#### A\n\n\u041e\u0442\u0432\u0435\u0442 -> B"
    assert judge("choice", hashed, reference).reward == 0.0
    options = "Answer - A. Rome\nB. Paris"
    assert judge("choice", f"{options}\nThe answer is B.", reference).reward == 1.0


def test_exact_text_counts_announcements_where_it_reads_words(judge: Judge) -> None:
    response = "Result: 5\nThe answer is 85."
    for ways, reward in ((["answer_is"], 0.0), (["whole"], 0.0), (["answer_colon"], 1.0)):
        said = response if ways != ["answer_colon"] else "Answer: 85"
        ended = judge("exact", said, {"answers": ["85"]}, strategies=ways)
        assert ended.reward == reward, ways


CORRECTED = (
    *("The answer is 5. Actually, 85.", "The answer is 5. Wait, actually the answer is 85."),
    *("The answer is 5. No, 85.", "The answer is 5, I mean 85.", "\\boxed{5}\n\nCorrection: 85"),
    *("\\boxed{5}\n\nCorrection: the answer is 85.", "#### 5\nEdit: 85"),
    *("<answer>5</answer> Sorry, it should be 85.", "Answer: 5, or rather 85"),
)


@pytest.mark.parametrize("response", CORRECTED)
def test_what_is_corrected_at_once_is_not_said(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["85"]}).reward == 1.0
    assert judge("math", response, {"answers": ["5"]}).reward == 0.0


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        (r"The answer is \boxed{85} or 5", 0.0),
        (r"$\boxed{85}$ (or 5)", 0.0),
        (r"$\boxed{85}$ or $85$", 1.0),
        ("The answer is 85. Or 5.", 0.0),
        (r"\boxed{85} or so many apples", 1.0),
        (r"\boxed{85}, 5", 0.0),
        (r"\boxed{85} and $5$", 0.0),
        (r"\boxed{85} (alternatively 5)", 0.0),
        (r"\boxed{85}, or maybe 5", 0.0),
        (r"\boxed{85} to 90", 0.0),
        ("\\boxed{85}\n5", 0.0),
        ("\\boxed{85}\n2.", 1.0),
        ("\\boxed{85}\n\n1. First, we count.", 1.0),
        (r"\boxed{85}, 5 more than before.", 1.0),
        (r"\boxed{85}, $y = 5$", 1.0),
        (r"\boxed{85}. No 5 is left.", 1.0),
        (r"\boxed{85}. Actually, 85 = 17 \cdot 5.", 1.0),
    ],
)
def test_or_leaves_both(judge: Judge, response: str, reward: float) -> None:
    assert judge("math", response, {"answers": ["85"]}).reward == reward


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ("Answer: 0.333\nThe answer is $\\frac{1}{3}$", True),
        ("$\\boxed{\\frac{1}{3}}$\nThe answer is about 0.333", True),
        ("$\\boxed{\\frac{1}{3}}$\nThe answer is about 0.4", False),
        ("Result: 0.5\n\\boxed{\\frac{1}{3}}", False),
    ],
)
def test_a_decimal_may_state_an_exact_value_again(judge: Judge, response: str, right: bool) -> None:
    assert judge("math", response, {"answers": ["\\frac{1}{3}"]}).reward == float(right)


@pytest.mark.parametrize(
    ("response", "gold", "reward"),
    [
        ("The answer is 85.\n\n#### Hope this helps!", "85", 1.0),
        ("The answer is 85.\n#### snow falls.", "85", 1.0),
        ("The answer is 85.\n#### snow falls", "snow falls", 0.0),
        ("It is cold.\n#### snow falls", "snow falls", 1.0),
        ("The answer is rain falls.\n#### snow falls", "snow falls", 0.0),
        ("The answer is 85.\n#### not 85", "85", 0.0),
    ],
)
def test_words_behind_hashes_are_no_other_answer_than_a_value(
    judge: Judge, response: str, gold: str, reward: float
) -> None:
    assert judge("math", response, {"answers": [gold]}).reward == reward


TAKEN_BACK = r"\boxed{85}. Wait, I made a mistake: 17 \cdot 5 is 90. The answer is 90."


def test_a_box_that_is_taken_back_is_not_the_answer(judge: Judge) -> None:
    assert judge("math", TAKEN_BACK, {"answers": ["85"]}).reward == 0.0
    assert judge("math", TAKEN_BACK, {"answers": ["90"]}).reward == 1.0
    checked = r"\boxed{85}. Wait, let me check: 17 \cdot 5 = 85. The answer is 85."
    assert judge("math", checked, {"answers": ["85"]}).reward == 1.0


STRUCK = ("~~{}~~", "<del>{}</del>", "<s>{}</s>", "<!-- {} -->")


@pytest.mark.parametrize("way", STRUCK)
def test_what_is_struck_through_is_not_said(judge: Judge, way: str) -> None:
    for said in ("The answer is 5.", r"\boxed{5}", "Answer: 5"):
        response = way.format(said)
        assert judge("math", response, {"answers": ["5"]}).reward == 0.0, response
        again = f"{response} The answer is 85."
        assert judge("math", again, {"answers": ["85"]}).reward == 1.0, again


def test_spaces_and_cancelled_factors_strike_nothing_through(judge: Judge) -> None:
    for response in (r"$x = 5,~~y = 3,~~z = 2$. \boxed{5,~~3,~~2}", r"\boxed{5, \cancel{1} 3, 2}"):
        expected = 1.0 if "~~" in response else 0.0
        assert judge("math", response, {"answers": ["5, 3, 2"]}).reward == expected
    assert judge("math", r"\cancel{\boxed{85}}", {"answers": ["85"]}).reward == 0.0


def test_an_answer_may_stand_in_a_block_of_code(judge: Judge) -> None:
    for way in (
        "The answer is:\n```\n{}\n```",
        "Answer:\n```text\n{}\n```",
        "### Answer\n```\n{}\n```",
    ):
        for value, reward in (("85", 1.0), ("5", 0.0)):
            response = way.format(value)
            assert judge("math", response, {"answers": ["85"]}).reward == reward, response


OPERANDS = (
    *(r"$3 + \boxed{5}$", r"$3 - \boxed{5}$", r"$3 \pm \boxed{5}$", r"$\boxed{5} \pm 2$"),
    *(r"$\frac{2}{\boxed{5}}$", r"$\binom{9}{\boxed{5}}$", r"$x + \boxed{5}$"),
    *(r"$x = 3 + \boxed{5}$", r"The answer is 3 + \boxed{5}", r"$(x + 1)^2 + \boxed{5}$"),
    *(r"We compute 9 - \boxed{5}", r"log 3 - \boxed{5}"),
    *(r"\boxed{5} plus 3", "\\boxed{5} \u00b1 2", "\\boxed{5}\u201390"),
    *(r"8\boxed{5}", r"\boxed{5}0", r"\boxed{5},000", r"\boxed{5}.5", r"0.\boxed{5}"),
    *(r"$\pi\boxed{5}$", r"$\sqrt{2}\boxed{5}$", r"$\log \boxed{5}$", r"$f(\boxed{5})$"),
)
WHOLE = (
    *(r"$x = \boxed{5}$", r"$x = \boxed{5}\text{ cm}$", r"$2 + 3 = \boxed{5}$", r"- \boxed{5}"),
    *(r"+ \boxed{5}", r"Answer - \boxed{5}", r"$8 = 3 + \boxed{5}$", r"$3 + \boxed{5} = 8$"),
    *(r"$y = 2x + \boxed{5}$", r"$\textcolor{red}{\boxed{5}}$", r"\boxed{5} times as many"),
    *(r"$= \boxed{5}a^4b^2$", r"$= \boxed{5}\frac{\text{miles}}{\text{day}}$", "2 + 3\n\\boxed{5}"),
    *(r"Step 3 - \boxed{5}", r"Problem 3 $\boxed{5}$", r"Day 2 - \boxed{5}"),
    *(r"**Section 3** - $\boxed{5}$", r"Sub-question 12 - \boxed{5}", r"Step 12.1 - \boxed{5}"),
)


@pytest.mark.parametrize("response", OPERANDS)
def test_a_box_that_is_a_term_is_not_the_answer(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["5"]}).reward == 0.0


@pytest.mark.parametrize("response", WHOLE)
def test_a_box_that_is_a_side_or_a_place_to_fill_in_is(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["5"]}).reward == 1.0


def test_the_value_of_an_expression_with_a_box_counts(judge: Judge) -> None:
    for response in (r"$3 + \boxed{5}$", r"The answer is 3 + \boxed{5}", r"$x = 3 + \boxed{5}$"):
        assert judge("math", response, {"answers": ["8"]}).reward == 1.0


@given(
    st.text() | st.text(alphabet='Answer: result=-\n|5"<>/$\u7b54\u6848 '),
    st.sampled_from(("Answer", "Result", "\u7b54\u6848", "\u0130answer")),
)
def test_any_text_has_announcements_of_its_own_text(text: str, word: str) -> None:
    said = f"{text}{word}{text}"
    for one in announced(said):
        assert one.text in said[one.start : one.end]
    extract(said, MathSettings().strategies)


def test_a_footnote_behind_the_sentence_is_no_part_of_it() -> None:
    for mark in ("[1]", "[^1]", "[^note]"[:4] + "]"):
        found = extract(f"The answer is 85.{mark}\n\n{mark}: see above", [Strategy.ANSWER_IS])
        assert found is not None
        assert found.text == "85", mark


CALLED = (
    *(
        "Therefore {} is the answer.",
        "So {} is the answer",
        "{} is the answer!",
        "{} is our answer",
    ),
    *("Hence ${}$ is the correct answer.", "{} is my final answer.", "{} is what we want."),
    *(
        "{} would be the answer.",
        "$x = {}$ is the answer.",
        "{} must be the answer to this question",
    ),
    "**{}** is the answer.",
)
NOT_CALLED = (
    *("5 is not the answer.", "I doubt 5 is the answer.", "If n = 3, 5 is the answer."),
    *("You may think 5 is the answer, but it is not.", "Step 5 is the answer to the first part."),
    *("The 5 is the number of apples.", "Many would say 5 is the answer."),
)


@pytest.mark.parametrize("way", CALLED)
@pytest.mark.parametrize(
    "marked", [r"\boxed{85}", "The answer is 85.", "<answer>85</answer>", "#### 85"]
)
def test_a_value_that_is_called_the_answer_is_one(judge: Judge, marked: str, way: str) -> None:
    for value, reward in (("85", 1.0), ("5", 0.0)):
        said = f"{marked}\n\n{way.format(value)}"
        assert judge("math", said, {"answers": ["85"]}).reward == reward, said
    alone = way.format("85")
    assert judge("math", f"We add. {alone}", {"answers": ["85"]}).reward == 1.0, alone


@pytest.mark.parametrize("said", NOT_CALLED)
def test_a_value_that_words_do_not_call_the_answer_is_none(judge: Judge, said: str) -> None:
    for marked in (r"\boxed{85}", "The answer is 85."):
        assert judge("math", f"{marked}\n\n{said}", {"answers": ["85"]}).reward == 1.0, marked


@pytest.mark.parametrize(
    "said",
    [
        *(
            r"It would be wrong to say @",
            "It is a mistake to answer $@$.",
            "It's tempting to say @",
        ),
        "It is tempting to think that the answer is @.",
    ],
)
def test_a_value_that_it_is_a_mistake_to_give_is_none(judge: Judge, said: str) -> None:
    denied = said.replace("@", r"\boxed{85}")
    assert judge("math", denied, {"answers": ["85"]}).reward == 0.0
    other = said.replace("@", "5") + r" But the answer is \boxed{85}."
    assert judge("math", other, {"answers": ["85"]}).reward == 1.0
