"""`exact`: the whole response word for word, or what a strategy finds, without marks around it."""

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.verdict import Ended
from assay.verifiers.text.around.marks import layers

Judge = Callable[..., Ended]
WAYS = ["tag", "boxed", "hashes", "answer_is", "answer_colon"]


def _reward(judge: Judge, response: str, gold: str, **more: Any) -> float | None:
    return judge("exact", response, {"answers": [gold]}, strategies=WAYS, **more).reward


@pytest.mark.parametrize(
    "response",
    [
        "<answer>**Paris**</answer>",
        "<answer>\n```\nParis\n```\n</answer>",
        "<answer>The answer is Paris.</answer>",
        "\\boxed{\\text{Paris}}",
        "\\boxed{\\textbf{\\text{Paris}}}",
        "The final answer is $\\text{Paris}$.",
        'The answer is "Paris".',
        "The answer is Paris!",
        "Answer: `Paris`.",
        "Answer: \u201cParis\u201d",
        "Answer: \u200bParis\u200b",
        "Answer: Paris<|im_end|>",
        "Answer: <b>Paris</b>",
        "<b>Answer:</b> Paris",
        "Answer: ~~Rome~~ Paris",
        "Answer: Rome. Wait, actually, the answer is Paris.",
        "<think>Answer: Rome</think>\nAnswer: Paris\n\nI hope this helps!",
    ],
)
def test_marks_around_what_a_strategy_finds_are_no_part_of_it(judge: Judge, response: str) -> None:
    assert _reward(judge, response, "Paris") == 1.0
    assert _reward(judge, response.replace("Paris", "Oslo"), "Paris") == 0.0
    assert _reward(judge, response, "paris") == 0.0
    assert _reward(judge, response, "paris", ignore_case=True) == 1.0


REMARKS = """
 (see above)
 (see the text above)
 (see step 3)
 (as shown above)
, as shown above
, as required
 (final answer)
, because it is the capital of France
 because it is the capital
, since it is on the Seine
 (not Rome)
, not Rome
, rather than Rome
 [1]
 (from the passage)
, according to the passage
 - as stated above
 (QED)
, which is correct
 (since it is the capital)
\u2014 see the table below
, as stated in the text
 (derived above)
"""
NO_REMARKS = """
 (the capital)
, Texas
 or Rome
 (or Rome)
, not Paris
 (not sure)
, because I guess
, since it could be Rome
, because Rome is wrong, so Rome
 (maybe)
 (see above?)
 (see above or Rome)
, but not sure
, probably
 (wrong)
, not Rome or Paris
, because it was, actually Rome
 and Rome
, see Rome
, instead of the answer
, since the answer is Rome
, rather than Oslo or Rome
"""
PLACES = (
    "The answer is {}.",
    "Answer: {}",
    "<answer>{}</answer>",
    "\\boxed{\\text{{}}}",
    "#### {}",
    "**Answer:** {}",
)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Answer: Paris. Wait, Oslo.", "Oslo"),
        ("The answer is Paris. Actually, it is Oslo.", "Oslo"),
        ("Answer: Paris.\nNo, Oslo", "Oslo"),
        ("<answer>Paris</answer>. Sorry, I mean Oslo.", "Oslo"),
        ("\\boxed{Paris}. Correction: the answer is Oslo.", "Oslo"),
        ("The answer is Paris. No, really.", "Paris"),
        ("The answer is Paris. Actually, it is the capital of France, too.", "Paris"),
        ("Answer: Hold on. Wait, Oslo", "Hold on. Wait, Oslo"),
    ],
)
def test_words_that_a_last_sentence_puts_in_place_of_the_answer_are_the_answer(
    judge: Judge, response: str, answer: str
) -> None:
    assert _reward(judge, response, answer) == 1.0
    assert _reward(judge, response, "Paris" if answer == "Oslo" else "Rome") == 0.0


@pytest.mark.parametrize("place", PLACES)
def test_a_remark_behind_the_answer_is_no_part_of_it(judge: Judge, place: str) -> None:
    for remark in REMARKS.strip("\n").split("\n"):
        for said in (f"Paris{remark}", f"**Paris**{remark}"):
            response = place.replace("{}", said)
            assert _reward(judge, response, "Paris") == 1.0, response
            assert _reward(judge, response.replace("Paris", "Oslo"), "Paris") == 0.0, response


@pytest.mark.parametrize("place", PLACES)
def test_words_that_do_more_than_affirm_the_answer_are_no_remark(judge: Judge, place: str) -> None:
    for words in NO_REMARKS.strip("\n").split("\n"):
        response = place.replace("{}", f"Paris{words}")
        assert _reward(judge, response, "Paris") == 0.0, response


@pytest.mark.parametrize(
    ("gold", "response", "reward"),
    [
        ("Paris (see above)", "Answer: Paris (see above)", 1.0),
        ("Paris (see above)", "Answer: Paris", 0.0),
        ("Paris (see above)", "Answer: Paris (see above), as required", 0.0),
        ("a, not b", "Answer: a, not b", 1.0),
        ("a, not b", "Answer: a", 0.0),
        ("a, not b", "Answer: a, not c", 0.0),
        ("x[1]", "Answer: x[1]", 1.0),
        ("x", "Answer: x[i]", 0.0),
        ("No, because it is odd", "Answer: No, because it is odd", 1.0),
        ("No, because it is odd", "Answer: No, because it is even", 0.0),
    ],
)
def test_an_answer_with_a_remark_of_its_own_is_compared_with_it(
    judge: Judge, gold: str, response: str, reward: float
) -> None:
    assert _reward(judge, response, gold) == reward
    whole = judge("exact", response, {"answers": [gold]}).reward
    assert whole == 0.0


@pytest.mark.parametrize(
    "response",
    [
        "Answer: Paris\n\nWait, that is wrong.",
        "Answer: ~~Paris~~",
        "Answer: not Paris",
        "Answer: Paris or Rome",
        "Answer: (not Paris)",
        "Answer: **Paris** or **Rome**",
        'Answer: "Paris" and "Rome"',
        "Answer: Paris?",
        "Answer: Paris, Texas",
        "Answer: Paris (the capital)",
        "Answer: P\u0430ris",
        "<think>Answer: Paris",
    ],
)
def test_other_words_and_words_that_are_taken_back_are_wrong(judge: Judge, response: str) -> None:
    assert _reward(judge, response, "Paris") == 0.0


@pytest.mark.parametrize(
    ("gold", "right", "wrong"),
    [
        ("__init__", "Answer: __init__", "Call `__init__`.\n\nAnswer: init"),
        ("__init__", "Answer: `__init__`", "Answer: _init_"),
        ("*args", "The answer is *args.", "The answer is args."),
        ("U.S.", "The answer is U.S.", "The answer is U."),
        ("5!", "Answer: 5!", "Answer: 5"),
        ("5", "Answer: **5**", "Answer: 5!"),
        ("Yahoo!", "Answer: Yahoo!", "Answer: Yahoo"),
        ("<b>x</b>", "Answer: <b>x</b>", "Answer: x"),
        ("\U0001f642", "Answer: \U0001f642", "Answer: \U0001f641"),
        ("Done", "Answer:\nDone", "Answer:\nNot done"),
        ('"a"', 'Answer: "a"', "Answer: a"),
        ("f'", "Answer: f'", "Answer: f"),
    ],
)
def test_an_answer_keeps_the_marks_that_are_its_own(
    judge: Judge, gold: str, right: str, wrong: str
) -> None:
    assert _reward(judge, right, gold) == 1.0
    assert _reward(judge, wrong, gold) == 0.0


@pytest.mark.parametrize(
    "response", ["**Paris**", "Paris.", "`Paris`", "Answer: Paris", "Paris</s>"]
)
def test_the_whole_response_is_compared_word_for_word(judge: Judge, response: str) -> None:
    assert judge("exact", response, {"answers": ["Paris"]}).reward == 0.0


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("**`x`**.", "x"),
        ("**a** or **b**", "**a** or **b**"),
        ("```py\na\nb\n```", "a\nb"),
        ("```\na\n```\n```\nb\n```", "```\na\n```\n```\nb\n```"),
        ("\\text{a} \\text{b}", "\\text{a} \\text{b}"),
        ("$5 and $6", "$5 and $6"),
        ("", ""),
        ("**", "**"),
        (".", "."),
    ],
)
def test_each_mark_is_taken_off_by_itself(text: str, last: str) -> None:
    assert list(layers(text))[-1] == last
