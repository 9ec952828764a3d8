"""The pipeline `math` on real answers with upstream labels, and on hostile ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.math.verify import LateImports

Judge = Callable[..., Ended]

GRADERS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


def test_rewards_agree_with_every_upstream_label_of_gsm8k(judge: Judge, shared_data: Path) -> None:
    wrong = []
    rows = 0
    text = (shared_data / "gsm8k" / "example_model_solutions.jsonl").read_text()
    for line in text.splitlines():
        problem = json.loads(line)
        gold = problem["ground_truth"].rsplit("A:", 1)[1].strip()
        for grader in GRADERS:
            rows += 1
            answer = problem[grader]
            ended = judge("math", answer["solution"], {"answers": [gold]})
            if (ended.reward == 1.0) != answer["is_correct"]:
                wrong.append((answer["solution"], gold))
    assert rows == 5_276
    assert wrong == []


@pytest.mark.parametrize(
    ("response", "gold", "passed"),
    [
        (r"\boxed{\frac{2}{4}}", "1/2", True),
        (r"\boxed{0.5}", r"\frac{1}{2}", True),
        (r"The answer is $x^2+2x+1$.", "(x+1)^2", True),
        (r"\boxed{(1,2)}", "(1, 2)", True),
        (r"\boxed{\{1,2\}}", r"\{2,1\}", True),
        (r"\boxed{18}", r"\boxed{18}", True),
        (r"\boxed{18}", "$18$", True),
        ("#### 1,234", "1234", True),
        (r"\boxed{18} and \boxed{19}", "18", False),
        (r"\boxed{18} or \boxed{19}", "19", False),
        (r"\boxed{18}, \boxed{19}", r"\{18, 19\}", True),
        (r"\boxed{18 dollars}", "18", True),
        (r"\boxed{\$16,\!386.20}", "16386.2", True),
        (r"So we get $x = 5$.", "5", True),
        ("I think it is 7 or so", "7", True),
        (r"\boxed{18 \text{ or } 19}", "18", False),
        (r"\boxed{}", "18", False),
        (r"\boxed{\text{nan}}", "18", False),
        ("\N{ARABIC-INDIC DIGIT ONE}", "1", True),
        ("\N{ARABIC-INDIC DIGIT ONE}", "2", False),
        ("So it must be 12!", "12", True),
        ("The answer is 10!", "10", True),
        ("The answer is 10!", "3628800", True),
        ("I am confident that the answer is **10**!", "10", True),
        ("I am confident that the answer is **10**!", "100", False),
        (r"<think>\boxed{10}</think>The answer is 11.", "10", False),
        (r"\boxed{10!}", "10", False),
        (r"\boxed{10}", "10!", False),
    ],
)
def test_mathematical_equality(judge: Judge, response: str, gold: str, passed: bool) -> None:
    assert judge("math", response, {"answers": [gold]}).reward == float(passed)


def test_several_reference_answers_are_alternatives(judge: Judge) -> None:
    assert judge("math", r"\boxed{7}", {"answers": ["3", "7"]}).reward == 1.0


def test_settings_reach_the_comparison(judge: Judge) -> None:
    reference = {"answers": ["0.333"]}
    assert judge("math", r"\boxed{\frac13}", reference).reward == 0.0
    assert judge("math", r"\boxed{\frac13}", reference, float_rounding=3).reward == 1.0


def test_a_reference_that_nobody_can_read_is_invalid_and_no_reward(judge: Judge) -> None:
    ended = judge("math", r"\boxed{7}", {"answers": ["   "]})
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)


def test_a_too_long_answer_is_a_resource_limit(judge: Judge) -> None:
    answer = r"\boxed{" + "1+" * 1_500 + "1}"
    assert judge("math", answer, {"answers": ["1"]}).outcome is Outcome.RESOURCE_LIMIT


def test_an_import_that_fails_late_is_noticed() -> None:
    late = LateImports()
    for name in ("sympy.not_there", "sympy.core", "a_plugin_that_sympy_only_looks_for"):
        assert late.find_spec(name) is None
    assert late.take_failed() == ["sympy.not_there"]
    assert late.take_failed() == []


SENTENCES = "We have $A^{-1} X = X$. Thus the eigenvalues\n\nare 1 and 2."


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        (f"The answer is {SENTENCES}", 1.0),
        (f"#### {SENTENCES}\n", 1.0),
        (f"Answer: {SENTENCES}", 1.0),
        (f"The answer is not {SENTENCES}", 0.0),
        (f"The answer is {SENTENCES} No, it is 3.", 0.0),
        (f"The answer is {SENTENCES.replace('1 and 2', '1 and 3')}", 0.0),
    ],
)
def test_a_reference_of_several_sentences_is_found_word_for_word(
    judge: Judge, response: str, reward: float
) -> None:
    ended = judge("math", response, {"answers": [SENTENCES]}, reference_audit="off")
    assert ended.reward == reward, ended.evidence
