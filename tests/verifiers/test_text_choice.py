"""Multiple choice: the stated forms pass, what is negated, replaced or doubled never does."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.verdicts.text.labels import CHOICES as LETTERS
from tests.fuzz.verdicts.text.labels import SHAPES, label_response
from tests.fuzz.verdicts.text.picks import NOT_PICKED, PICKED
from tests.fuzz.verdicts.text.selections import LABELS as FOUR
from tests.fuzz.verdicts.text.selections import NOT_SELECTED, SELECTED, selection

from assay.verifiers.options import Strategy
from assay.verifiers.text.choice import read_choice
from assay.verifiers.text.definition import ChoiceSettings

CHOICES = ("A", "B", "C", "D", "E")
STRATEGIES = ChoiceSettings().strategies

STATED = (
    "{x}",
    "({x})",
    "**{x}**",
    "{x}.",
    "{x}) Paris",
    "{x}. Paris",
    "option {x}",
    "The answer is {x}",
    "The answer is {x}.",
    "The answer is ({x}).",
    "the correct answer is **{x}**",
    "The answer is: {x}",
    "The answer is:\n\n{x}",
    "Answer: {x}",
    "Answer: ({x})",
    "**Answer:** {x}",
    "Final answer: {x}",
    "Answer:\n{x}",
    "Answer:\n\n{x}",
    "**Answer:**\n \n{x}) Paris\n\n{y} is smaller.",
    "The answer is...\n{x}",
    r"\boxed{{{x}}}",
    r"\boxed{{\text{{{x}}}}}",
    r"$\boxed{{\textbf{{({x})}}}}$",
    "<answer>{x}</answer>",
    "<answer> ({x}) </answer>",
    "<think>Is it {y}? The answer is {y}.</think>\n{x}",
    "I'd go with {x}.",
    "I would choose {x} because it fits.",
    "The best option is {x} because {y} is too small.",
    "The answer is {x}, since {y} is false.",
    "The answer is {x} rather than {y}.",
    "The answer is {x}, not {y}.",
    "I'd go with {x} instead of {y}.",
    "I'd pick {x} over {y}.",
    "The answer is not {y} but {x}.",
    "The answer isn't {y}, it's {x}.",
    "{x} rather than {y}",
    "not {y} but {x}",
    "{y} is wrong, so {x}",
    "{y} and {z} are incorrect, so {x}.",
    "We can eliminate {y} and {z}, which leaves {x}.",
    "Neither {y} nor {z}; {x}",
    "I don't think the answer is {y}. It is {x}.",
    "First I thought {y}. The answer is {x}.",
    "If the answer is {y}, then it breaks. The answer is {x}.",
    "The answer is {y}. Wait, the answer is {x}.",
    "The answer is {y}. No wait, {x}.",
    "Options: A) Paris B) Rome C) Lyon D) Nice\nThe answer is {x}",
    "A. one\nB. two\nC. three\nD. four\n\nAnswer: {x}",
    "A dog barks, so the answer is {x}",
    "The answer is {x}) Vitamin K",
    "Answer: {x}, although {y} is close.",
    "The answer is {x}, even though {y} looks right.",
    "The answer is {y}... just kidding, {x}.",
    "答案是{x}",
    "答案不是{y}\uff0c而是{x}",
    "排除{y}\uff0c选{x}",
    "{y}是错的\uff0c{x}",
    "答えは{x}",
    "{y}ではなく、{x}です",
    "정답은 {x}",
    "{y}가 아니라 {x}",
    "La réponse est {x}.",
    "Ответ: {x}",
    "{y} is larger than {z}.\nSo our selection is option {x}. #### {x}",
    "{y} and {z} are points of the line {x}{y}.\n#### {x}\n",
    "#### {y}\nParis is far.\n#### {z}\nRome is near.\n#### ({x})",
    "#### Option {y}\nThis one is large.\n\nThe answer is {x}.",
    r"Complete $\frac{{6}}{{\boxed{{?}}}} = \frac{{9}}{{12}}$. The answer is {x}.",
    r"Fill in $3 + \boxed{{\quad}} = 11$. I choose {x}.",
)
"""`x` is the answer; `y` and `z` are others."""
NEVER_X = (
    "The answer is not {x}",
    "答案不是{x}",
    "不选{x}",
    "排除{x}",
    "{x}是错的",
    "答えは{x}ではない",
    "{x}가 아니다",
    "答案是{x}或{y}",
    "The answer isn't {x}.",
    "The answer cannot be {x}.",
    "The answer can't be {x}",
    "It is not {x}",
    "not {x}",
    "I don't think the answer is {x}.",
    "I doubt that the answer is {x}.",
    "It is wrong that the answer is {x}.",
    "Is the answer {x}?",
    "If the answer is {x}, then it breaks.",
    "I'd go with {y} instead of {x}",
    "I'd go with {y} rather than {x}",
    "{y} over {x}",
    "{x} is wrong",
    "{x} is incorrect, so {y}",
    "({x}) is not correct.",
    "{x} can be eliminated",
    "{x} and {y} are both wrong.",
    "{y}, {x} and {z} are incorrect.",
    "Eliminate {y}, {x}, and {z}.",
    "We rule out {x}.",
    "Neither {x} nor {y}",
    "anything but {x}",
    "Every option except {x}",
    "The answer is {x}. Wait, the answer is {y}.",
    "The answer is {x}. Actually, it is {y}.",
    "The answer is {x}. No wait, {y}.",
    "The answer is {x} or {y}",
    "The answer is either {y} or {x}.",
    "The answer is {x} and {y}",
    "Both {x} and {y}",
    "{x}, {y}",
    "{x}/{y}",
    "The answer is {x}. The answer is {y}.",
    "The answer is ({x}) or ({y}).",
    "The answer is {x}) or {y})",
    "<answer>{x} or {y}</answer>",
    "<answer>{x}</answer> <answer>{y}</answer>",
    r"\boxed{{{x}}} and \boxed{{{y}}}",
    "<answer>{y}</answer> The answer is {x}",
    "<think>The answer is {x}",
    "A) Paris B) Rome C) Lyon D) Nice",
    "The answer is not {y} or {x}",
    "The incorrect option is {x}.",
    "The answer is {x}.\n#### {y}",
    "#### {x}\n#### {y}",
    "#### {x} or {y}",
    "#### {x}\nParis is far.\n#### {y}\nRome is near.",
    "#### not {x}",
    r"\boxed{{{y}}} goes into \boxed{{?}}. The answer is {x}.",
)


def _read(response: str, choices: tuple[str, ...] = CHOICES) -> frozenset[str]:
    return read_choice(response, choices, STRATEGIES).labels


def _filled(template: str, labels: tuple[str, ...] = CHOICES) -> list[tuple[str, str]]:
    return [(x, template.format(x=x, y=y, z=z)) for x, y, z in itertools.permutations(labels, 3)]


@pytest.mark.parametrize("template", STATED)
def test_what_is_stated_is_read(template: str) -> None:
    for x, response in _filled(template):
        assert _read(response) == {x}, response


@pytest.mark.parametrize("template", NEVER_X)
def test_what_is_negated_replaced_or_doubled_is_never_the_reading(template: str) -> None:
    for x, response in _filled(template):
        assert _read(response) != {x}, response


@pytest.mark.parametrize("template", STATED)
def test_words_are_labels_too(template: str) -> None:
    words = ("Paris-Nord", "Lyon", "Saint Malo")
    for x, response in _filled(template, words):
        if "A) Paris" in template or "A. one" in template:
            continue  # there the labels would have to be letters
        assert _read(response, words) == {x}, response


@pytest.mark.parametrize(
    ("response", "choices", "labels"),
    [
        ("Answer: A dog", CHOICES, set()),
        ("The answer is A because it fits", CHOICES, {"A"}),
        ("I think it is a trap", CHOICES, set()),
        ("I am sure: the answer is I", ("I", "II", "III"), {"I"}),
        ("The answer is I.", ("I", "II", "III"), {"I"}),
        ("I think the answer is II", ("I", "II", "III"), {"II"}),
        ("The answer is AB", ("A", "B", "AB", "O"), {"AB"}),
        ("The answer is A", ("A", "B", "AB", "O"), {"A"}),
        ("The answer is both A and B", ("A", "B", "Both A and B"), {"Both A and B"}),
        ("The answer is none of the above", ("A", "B", "None of the above"), {"None of the above"}),
        ("The statement is false.", ("True", "False"), {"False"}),
        ("The answer is true", ("True", "False"), {"True"}),
        ("yes", ("Yes", "No"), {"Yes"}),
        ("The answer is b", CHOICES, {"B"}),
        ("The answer is b", ("b", "B"), {"b"}),
        ("(c)", CHOICES, {"C"}),
        ("\N{FULLWIDTH LATIN CAPITAL LETTER B}", CHOICES, {"B"}),
        (
            "Answer: \N{FULLWIDTH LEFT PARENTHESIS}\N{FULLWIDTH LATIN SMALL LETTER B}",
            CHOICES,
            {"B"},
        ),
        ("\N{CYRILLIC CAPITAL LETTER VE}", CHOICES, set()),
        ("The answer is F", CHOICES, set()),
        ("The answer is 3", ("1", "2", "3", "4"), {"3"}),
        ("The answer is B \0 \udcff", CHOICES, {"B"}),
        ("", CHOICES, set()),
    ],
)
def test_rules_about_single_labels(
    response: str, choices: tuple[str, ...], labels: set[str]
) -> None:
    assert _read(response, choices) == labels


PIECES = [
    "A",
    "B",
    "C",
    "D",
    "AB",
    "I",
    "a",
    "b",
    "The",
    "answer",
    "is",
    "not",
    "isn't",
    "n't",
    "instead",
    "of",
    "rather",
    "than",
    "Wait,",
    "or",
    "and",
    "neither",
    "nor",
    "because",
    "if",
    "?",
    ".",
    ",",
    ";",
    ":",
    "(",
    ")",
    "**",
    "```",
    "\\boxed{",
    "}",
    "<answer>",
    "</answer>",
    "<think>",
    "</think>",
    "$",
    "\\text{",
    "Answer:",
    "\n",
    "\x00",
    "�",
    "wrong",
    "eliminate",
    "option",
    "I'd",
    "go",
    "with",
    "A)",
    "B.",
    "thought",
]


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(PIECES), max_size=40),
    st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=6, unique=True),
    st.sampled_from(list(Strategy)),
)
def test_any_text_has_a_reading(pieces: list[str], choices: list[str], strategy: Strategy) -> None:
    response = " ".join(pieces)
    for labels in (CHOICES, tuple(choices)):
        reading = read_choice(response, labels, (strategy, Strategy.WHOLE))
        assert reading.labels <= set(labels)


def test_what_goes_before_a_statement_does_not_change_it() -> None:
    """Reasoning that names other labels, glued before a stated answer at random."""
    randomness = random.Random(7)
    reasons = ("{y} looks right at first.", "Let us check {y} and {z}.", "{z} says it is cold.")
    stated = [form for form in STATED if form.startswith(("The answer is", "<answer>", r"\boxed"))]
    for _ in range(2_000):
        x, y, z = randomness.sample(CHOICES, 3)
        before = randomness.choice(reasons)
        after = randomness.choice(stated)
        if "{z}" in after or "Wait" in after or "Options" in after:
            continue
        response = f"{before} {after}".format(x=x, y=y, z=z)
        assert _read(response) == {x}, response


@pytest.mark.parametrize(
    "filler", ["{x} ", "{x}, ", "{x} and ", "not {x}, ", "{x}) ", "wait, {x} "]
)
def test_no_label_hides_behind_many_mentions_of_another(filler: str) -> None:
    many = filler.format(x="A") * 2_000
    assert "B" in _read(f"{many} or B") or len(_read(f"{many} or B")) != 1


LABELS = (CHOICES, tuple("abcd"), ("1", "2", "3", "4"), ("I", "II", "III", "IV"))
ITEMS = (
    "{}. ",
    "{}) ",
    "({}) ",
    "{}: ",
    "[{}] ",
    "**{}.** ",
    "**({})** ",
    "{} - ",
    "| {} | ",
    "{}.",
)
TEXTS = ("5", "-7", "Rome", "a red fox", "$x^2 + 1$", "True", "not blue", "12.5 cm")
PARTINGS = ("\n", "\n\n", "\n- ", ", ", "; ", "  ")
IN_LINES = ("\n", "\n\n")
OPENINGS = (
    "{}",
    "<answer>{}</answer>",
    "\\boxed{{{}}}",
    "Answer: {}",
    "Answer:\n{}",
    "Options:\n{}",
)
FINALS = ("\n\nThe answer is {}.", "\n\nAnswer: {}", "\nFinal answer: ({})", "\n\n\\boxed{{{}}}")


def _options(rng: random.Random) -> tuple[tuple[str, ...], str]:
    """Labels, and a response that lists options with them."""
    choices = rng.choice(LABELS)
    opening = rng.choice(OPENINGS)
    parting = rng.choice(PARTINGS if opening != "Answer:\n{}" else IN_LINES)
    listed = list(choices[: rng.randint(2, len(choices))])
    if parting != "\n\n" and rng.random() < 0.4:
        rng.shuffle(listed)
    item = rng.choice(ITEMS)
    return choices, opening.format(
        parting.join(item.format(label) + rng.choice(TEXTS) for label in listed)
    )


def test_a_list_of_options_is_no_choice_and_hides_none() -> None:
    rng = random.Random(11)
    for _ in range(1_500):
        choices, response = _options(rng)
        assert len(_read(response, choices)) != 1, response
        x = rng.choice(choices)
        final = rng.choice(FINALS).format(x)
        if ("boxed" in response) is ("boxed" in final) and "<answer>" not in response:
            assert _read(response + final, choices) == {x}, response + final


@pytest.mark.parametrize(
    "template",
    [
        "Answer: {x}. 5\n\n{y}. 7 is too large.\n{z}. 9 is too large.",
        "The answer is {x}. 5\n{y}. 7 isn't whole.",
        "<answer>{x}. 5, since {y}. 7 is not whole</answer>",
        "Answer: {x}\n\nExplanation:\n{y}) 7 is wrong.\n{z}) 9 is wrong.",
        "The answer is {x}. 5\n\n{y} and {z} are wrong.",
        "The answer is:\n{x}) Paris",
        "<answer>{x}) 5, not {y}) 7</answer>",
        "Answer: ({x}) 5 rather than ({y}) 7",
    ],
)
def test_comments_on_other_options_are_no_list(template: str) -> None:
    for x, response in _filled(template):
        assert _read(response) == {x}, response


@pytest.mark.parametrize("kind", SHAPES)
def test_only_an_adorned_label_is_the_answer(kind: str) -> None:
    rng = random.Random(kind)
    for shape in SHAPES[kind]:
        for _ in range(3):
            response, right = label_response(rng, kind, shape)
            named = read_choice(response, LETTERS, STRATEGIES).labels
            assert (named == {right}) is (kind == "adornment"), (response, named)


def test_a_selection_among_candidates_is_read_and_a_mention_is_none() -> None:
    rng = random.Random(3)
    selected = {*SELECTED, *PICKED}
    for shape in (*SELECTED, *NOT_SELECTED, *PICKED, *NOT_PICKED):
        for _ in range(4):
            response, label = selection(rng, shape)
            named = read_choice(response, FOUR, STRATEGIES).labels
            assert (named == {label}) is (shape in selected), (response, named)


EITHER = (
    "It is either {y} or {x}, and {y} fails, so {x}.",
    "The answer is {y} or {x}. {y} is wrong, so it's {x}.",
    "It is {y} or {z} or {x}; {y} and {z} fail, hence the answer is {x}.",
    "The answer is either {y} or {x}, and {y} fails, so it must be {x}.",
)
UNDECIDED = (
    "The answer is either {x} or {y}.",
    "The answer is either {x} or {y}, so {x} or {y}.",
    "The answer is {x} or {y}, so {y} is possible too.",
    "The answer is {x} or {y}. So {y}?",
    "The answer is {x} or {y}, and {y} fails, so {y}.",
    "It is {x} or {y}, so not {x} alone.",
)


@pytest.mark.parametrize("template", EITHER)
def test_an_alternative_is_decided_by_its_conclusion(template: str) -> None:
    for x, response in _filled(template):
        assert _read(response) == {x}, response


@pytest.mark.parametrize("template", UNDECIDED)
def test_an_alternative_without_a_conclusion_names_no_label(template: str) -> None:
    for _, response in _filled(template):
        assert len(_read(response)) != 1, response


@pytest.mark.parametrize("label", ["B", "C", "D"])
def test_a_letter_in_a_statement_about_a_quantity_is_no_choice(label: str) -> None:
    for text in (
        "The probability of {x} is 0.5",
        "The probability that {x} wins is 1/2",
        "P({x}) = 0.5",
        "The length of {x} is 3.",
        "Event {x} has probability one half.",
        "{x} = 0.5",
        "${x} = -\\frac{{1}}{{2}}$",
        "{x} is a matrix",
        "{x} is the midpoint of XY.",
        "Let {x} be the midpoint.",
        "Let Y and {x} be points on the circle.",
        "Denote by {x} the midpoint.",
    ):
        assert read_choice(text.format(x=label), CHOICES, STRATEGIES).labels == set()
    for text in (
        "The answer is point {x}.",
        "The value of option {x} is 5.",
        "It is event {x}.",
        "Answer = {x}",
        "Option {x} = 0.5",
        "Answer: {x} = 0.5",
        "{x} = right",
        "{x} is the best answer.",
        "{x} is a correct choice",
        "Option {x} is a matrix.",
        "Let me pick {x}.",
        "Let's choose {x}.",
    ):
        assert read_choice(text.format(x=label), CHOICES, STRATEGIES).labels == {label}


@pytest.mark.parametrize("said", ["B", "b", "(b)", "(B)", "The answer is B.", "Answer: (b) 5"])
def test_a_label_in_brackets_is_its_letter(said: str) -> None:
    assert read_choice(said, ("(a)", "(b)", "(c)"), STRATEGIES).labels == {"(b)"}
    assert read_choice(said, ("(a)", "b", "(c)"), STRATEGIES).labels <= {"b"}
    assert read_choice("A", ("(a)", "(A)"), STRATEGIES).labels == {"(A)"} - {"(A)"}


@pytest.mark.parametrize(
    "said",
    [
        "If x > 0 then C, otherwise D.",
        "C if x > 0, else D",
        "The answer is C unless n is odd, in which case it is D.",
        "Answer: C, except when n = 1",
    ],
)
def test_a_label_for_some_cases_only_is_no_choice(said: str) -> None:
    assert len(read_choice(said, CHOICES, STRATEGIES).labels) != 1


@pytest.mark.parametrize(
    "said",
    ["The answer is C unless I am mistaken.", "The answer is C, because otherwise D would hold."],
)
def test_a_label_with_a_reservation_is_one(said: str) -> None:
    assert read_choice(said, CHOICES, STRATEGIES).labels == {"C"}


def test_the_second_best_is_not_chosen() -> None:
    for text in ("Choose A. B is the runner-up.", "Choose A. B is the next best."):
        assert read_choice(text, CHOICES, STRATEGIES).labels == {"A"}
