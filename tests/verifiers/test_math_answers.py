"""The grammar of answers: what each form equals, what it does not, in every carrier.

Golds come from tables and, by seed, from the generator that `benchmarks.verdicts.golds` uses too.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from benchmarks.verdicts.generated_golds import golds
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.math import controls, grammar, search
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.math.extract import CARRIERS
from assay.verifiers.math.notation import _repeating, tidy
from assay.verifiers.math.verify import judge as compare

Judge = Callable[..., Ended]
ROOT = Path(__file__).resolve().parents[2]
GENERATED = list(golds(random.Random(20_261_122), 390))

PIECES = (
    *"0123456789.,;:=+-_^()[]{}%$& x",
    *("\\frac", "\\text{", "\\boxed{", "\\(", "\\pm", "\\{", "\\}", "\\cup", "\\in", "\\\\"),
    *("and", "or", "Monday", "4:30", "pm", "cm", "\\%", "\\begin{pmatrix}", "\ud800", "\x00"),
)
EQUAL = [
    ("- 1", "-1"),
    ("-1", "\N{MINUS SIGN} 1"),
    ("3, 5, 7", "7, 5, 3"),
    ("3, 5, 7", "3 and 5 and 7"),
    ("3, 5, 7", r"\{3, 5, 7\}"),
    ("1/2, 1/3", r"\frac13, \frac12"),
    ("12; 15", "15, 12"),
    ("1 and 2", "2 or 1"),
    ("x=1 or x=2", "x = 2, x = 1"),
    ("x=1 or x=2", "1, 2"),
    ("x=1, y=2", "1, 2"),
    ("1,234", "1234"),
    ("1234", "1{,}234"),
    ("1234", r"1\,234"),
    ("1.22", "1,22"),
    ("1 1/2", r"\frac{3}{2}"),
    (r"1\frac12", "1.5"),
    ("1/3", "0.333333"),
    (r"1.6 \times 10^{-19}", "1.6e-19"),
    ("4:30", "04:30"),
    ("4:30 pm", "16:30"),
    ("4:30 pm", "4:30 p.m."),
    ("3:4", "6:8"),
    ("3:4", "0.75"),
    ("7:32", "14:64"),
    ("5 cm", "5"),
    ("5", "5 apples"),
    ("5 cm", r"5 \text{ centimeters}"),
    (r"15\pi \text{ cm}^2", r"15 \pi"),
    (r"\$5", "5 dollars"),
    ("90", r"90^\circ"),
    ("28%", "0.28"),
    ("(1, 2)", r"\left(1, 2\right)"),
    ("(1, 2)", "x = (1, 2)"),
    ("(p, q) = (3, 2)", "(3, 2)"),
    (r"(0, 1) \cup (2, 3)", r"(2, 3) \cup (0, 1)"),
    (r"1 \pm \sqrt{2}", r"1 - \sqrt{2}, 1 + \sqrt{2}"),
    ("101_2", "101_{2}"),
    ("101_2", "5_{10}"),
    (r"\text{Monday}", "monday"),
    (r"\text{(C)}", "C"),
    ("March 3, 2020", "2020-03-03"),
    ("(x+1)^2", "x^2+2x+1"),
    ("5", "5, 5"),
    (r"\ln \left(\frac{1}{\sqrt{e}}\right)=-\frac{1}{2}", "-0.5"),
    (r"\sin \left(78.95^{\circ}\right) \approx 0.981", "0.981"),
]
DIFFERENT = [
    ("- 1", "1"),
    ("3, 5, 7", "7"),
    ("7", "3, 5, 7"),
    ("7", "1 2 3 4 5 6 7"),
    ("3, 5, 7", "3, 5"),
    ("3, 5", "3, 5, 7"),
    ("1,234", "1, 234"),
    ("12", "1 2"),
    ("x=1, y=2", "2, 1"),
    ("(1, 2)", "(2, 1)"),
    ("(1, 2)", "[1, 2]"),
    ("[0, 1)", "(0, 1)"),
    ("(1, 2)", r"\{1, 2\}"),
    ("4:30", "4:31"),
    ("4:30 pm", "4:30 am"),
    ("2:15", "4:30"),
    ("3:4", "4:3"),
    ("5 cm", "5 m"),
    (r"\$5", "5 cents"),
    (r"1.6 \times 10^{-19}", r"2.6 \times 10^{-19}"),
    (r"1.6 \times 10^{-19}", "0"),
    ("101_2", "101_3"),
    ("101_2", "110_2"),
    ("Monday", "Tuesday"),
    (r"\pm 3", "3"),
    ("March 3, 2020", "March 4, 2020"),
    ("5t", "5"),
    (r"\log_{36}\left(36^{216}\right)=216", r"\log_{36}\left(36^{216}\right)=316"),
    (r"\sin \left(78.95^{\circ}\right) \approx 0.981", r"\sin(78.95^{\circ}) \approx 1.981"),
    ("x > 2", "x < 2"),
    (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}"),
]


def carriers(answer: str) -> Iterator[str]:
    for strategy in CARRIERS:
        yield controls.carried(answer, strategy)


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_what_a_form_equals(judge: Judge, gold: str, answer: str) -> None:
    for response in carriers(answer):
        assert judge("math", response, {"answers": [gold]}).reward == 1.0, response


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_what_a_form_does_not_equal(judge: Judge, gold: str, answer: str) -> None:
    for response in carriers(answer):
        assert judge("math", response, {"answers": [gold]}).reward == 0.0, response


@pytest.mark.parametrize(
    "response",
    [
        "The answer is 5. The answer is 6",
        "The answer is 5 or the answer is 6.",
        "5 or 6",
        "Answer: 5\nAnswer: 6",
        "#### 5\n#### 6",
        "<answer>5</answer><answer>6</answer>",
        r"\boxed{5} \boxed{6}",
        r"$\boxed{5}$, or maybe $\boxed{6}$",
        r"\boxed{5, 6}",
        r"\boxed{5} cups and \boxed{6}",
    ],
)
def test_several_final_answers_are_a_list_and_never_the_last_one(
    judge: Judge, response: str
) -> None:
    for gold in ("5", "6"):
        assert judge("math", response, {"answers": [gold]}).reward == 0.0
    assert judge("math", response.replace("6", "5"), {"answers": ["5"]}).reward == 1.0


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{3} is a first step. Then, after a long calculation, we get \boxed{7}.",
        r"\boxed{3} and \boxed{4} are parts. Final Answer: The final answer is $7$. I hope so.",
        "The answer is 3. No, wait: the answer is 7.",
    ],
)
def test_intermediate_results_are_no_final_answers(judge: Judge, response: str) -> None:
    assert judge("math", response, {"answers": ["7"]}).reward == 1.0


@pytest.mark.parametrize(
    "response",
    [
        r"So it is \boxed{7",
        r"\boxed{7} and then \boxed{8",
        "<answer>7",
        "The answer is 7 +",
        r"The answer is \frac{7}{",
        "so 3 + 4 =",
        "The answer is 7.\n" * 40,
        r"Thus \boxed{7}. " * 300,
        "wait, let me see again: 7 " * 100,
    ],
)
def test_what_is_cut_off_or_repeats_itself_has_no_answer(judge: Judge, response: str) -> None:
    ended = judge("math", response, {"answers": ["7"]})
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "no_answer"


@pytest.mark.parametrize("gold", GENERATED)
def test_generated_golds_pass_in_every_carrier(judge: Judge, gold: str) -> None:
    for response in carriers(gold):
        assert judge("math", response, {"answers": [gold]}).reward == 1.0, response


def test_mutants_of_generated_golds_never_pass() -> None:
    tried = 0
    for gold in GENERATED[::9]:
        for name, mutant in controls.mutants(gold, MathSettings()):
            tried += 1
            assert not compare((gold,), mutant, MathSettings()).passed, (name, gold, mutant)
    assert tried > 50


@given(
    st.lists(
        st.sampled_from(PIECES),
        max_size=30,
    ).map(" ".join)
    | st.text(max_size=60)
)
@settings(deadline=None)
def test_any_text_is_read(text: str) -> None:
    assert grammar.read(text) == grammar.read(text)
    search.find(text)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_integers_are_equal_when_they_are(one: int, other: int) -> None:
    for gold in (str(one), f"{one:,}", f"${one}$"):
        assert compare((gold,), str(other), MathSettings()).passed == (one == other)
        assert compare((gold,), f"{one:,}", MathSettings()).passed


@given(st.lists(st.integers(-99, 99), min_size=2, max_size=6, unique=True), st.randoms())
def test_a_list_passes_in_any_order_and_a_tuple_in_its_own(
    values: list[int], draw: random.Random
) -> None:
    mixed = draw.sample(values, len(values))
    bare, other = (", ".join(map(str, order)) for order in (values, mixed))
    assert compare((bare,), other, MathSettings()).passed
    assert compare((f"({bare})",), f"({other})", MathSettings()).passed == (values == mixed)


# -- references --------------------------------------------------------------------------------


@pytest.mark.parametrize("gold", ["3, 5, 7", r"\frac{1}{2}", "(1, 2)", "3:4", "x = 5", "7"])
def test_controls_hold_for_sound_references(judge: Judge, gold: str) -> None:
    made = controls.controls(MathReference(answers=(gold,)), MathSettings())
    assert {control.passes for control in made} == {True, False}
    for control in made:
        ended = judge("math", control.response, {"answers": [gold]})
        assert (ended.reward == 1.0) == control.passes, control


def test_a_reference_that_fails_its_own_control_is_refused_or_reported(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.verifiers.math import verify

    real = verify.judge

    def lax(golds: tuple[str, ...], text: str, given: MathSettings) -> verify.Judged:
        said = real(golds, text, given)
        return said._replace(passed=said.passed or text == "-(90217)" or text == "-90217")

    monkeypatch.setattr(verify, "judge", lax)
    refused = judge("math", r"\boxed{90217}", {"answers": ["90217"]})
    assert refused.outcome is Outcome.REJECTED_INVALID
    assert "reference.answers[0] sign_flipped" in refused.evidence.error
    reported = judge("math", r"\boxed{90217}", {"answers": ["90217"]}, reference_audit="report")
    assert reported.reward == 1.0
    assert "sign_flipped" in reported.evidence.error
    silent = judge("math", r"\boxed{90217}", {"answers": ["90217"]}, reference_audit="off")
    assert (silent.reward, silent.evidence.error) == (1.0, "")


def test_a_reference_is_audited_once(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.verifiers.math import audit
    from assay.verifiers.math.extract import final_answer

    seen: list[object] = []

    def counted(response: str, given: MathSettings, answers: Sequence[str]) -> object:
        seen.append(response)
        return final_answer(response, given, answers)

    monkeypatch.setattr(audit, "final_answer", counted)
    gold = "\\sqrt{8191}"
    judge("math", "1", {"answers": [gold]})
    after_one = len(seen)
    assert after_one > 0
    for response in ("1", "8191", rf"\boxed{{{gold}}}"):
        judge("math", response, {"answers": [gold]})
    assert len(seen) == after_one


@pytest.mark.parametrize(
    "gold",
    ["\\int_0^1 x^x e^{\\sin(x^2)} dx", "\\int_0^2 e^{\\cos(x^3)} x^x dx"],
)
def test_a_gold_too_slow_to_compare_is_refused_unless_the_task_says_otherwise(
    judge: Judge, gold: str
) -> None:
    """Another answer would use up its time; found in the audit's own time, which is bounded."""
    response, reference = f"\\boxed{{{gold}}}", {"answers": [gold]}
    ended = judge("math", response, reference)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert ended.evidence.error.startswith("reference.answers[0] ")
    assert "s of CPU time for one comparison" in ended.evidence.error
    told = judge("math", response, reference, reference_audit="report")
    assert told.reward == 1.0
    assert "s of CPU time" in told.evidence.error


def test_an_answer_to_a_slow_gold_that_is_not_decided_in_time_is_wrong(judge: Judge) -> None:
    told = {"answers": ["\\int_0^1 x^x e^{\\sin(x^2)} dx"]}
    ended = judge("math", r"\boxed{x^2+\pi}", told, reference_audit="report")
    assert (ended.outcome, ended.evidence.verdict) == (Outcome.SCORED, "wrong_answer")


@pytest.mark.parametrize("gold", ["2^{1000000007}", "9^{9^{9}}", "(10)^{(9^{99})}", "10000000!"])
def test_a_gold_too_large_to_compute_passes_for_itself_alone(judge: Judge, gold: str) -> None:
    for answer, reward in ((gold, 1.0), ("17", 0.0), ("2^{10}", 0.0), ("x+1", 0.0)):
        ended = judge("math", f"\\boxed{{{answer}}}", {"answers": [gold]})
        assert (ended.outcome, ended.reward) == (Outcome.SCORED, reward)
        assert ended.use.cpu_s < 20


def test_powers_that_can_be_computed_are(judge: Judge) -> None:
    assert judge("math", "\\boxed{4^{500}}", {"answers": ["2^{1000}"]}).reward == 1.0
    assert judge("math", "\\boxed{2^{1024}}", {"answers": ["2^{2^{10}}"]}).reward == 1.0


# -- what a response may provoke ---------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "(" * 900 + "1" + ")" * 900,
        "\\frac{1}{0}",
        "\\text{nan}",
        "1e999999999",
        "9" * 1_500,
        "0." + "3" * 1_500,
        "\\sqrt{" * 200 + "2" + "}" * 200,
        "\\begin{pmatrix}1&2\\\\3\\end{pmatrix}",
        "\x00",
        "\\infty - \\infty",
        "\\{" * 40 + "\\}" * 40,
        "x^{x^{x^x}}",
        "\\int_0^1",
        "\\zeta(3)",
        "\\sin",
        "{" * 500,
        "1_{99}",
        ":" * 300,
        "25:61:99",
    ],
)
@pytest.mark.parametrize("gold", ["7", "\\frac{x}{2}", "(1, 2)", "\\{1, 2\\}", "x > 2", "Monday"])
def test_hostile_answers_are_wrong_and_nothing_else(judge: Judge, answer: str, gold: str) -> None:
    for response in (f"\\boxed{{{answer}}}", f"<answer>{answer}</answer>"):
        ended = judge("math", response, {"answers": [gold]})
        assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)


def test_a_long_decimal_is_read_in_little_time() -> None:
    """Of every length in between, three digits and any number of them are a period."""
    for digits in ("3" * 3_000, "3" * 3_000 + "...", "12" * 1_500 + "3..."):
        began_s = time.process_time()
        tidy(f"0.{digits}")
        assert time.process_time() - began_s < 2.0


@pytest.mark.parametrize(
    ("shown", "meant"),
    [
        ("0.333...", r"0.\overline{3}"),
        ("0.1666 ...", r"0.1\overline{6}"),
        ("2.1231231231\\dots", r"2.1\overline{231}"),
        ("0.33...", "0.33..."),
        ("0.12121...", "0.12121..."),
        ("0.333", "0.333"),
    ],
)
def test_a_period_is_what_the_last_digits_repeat_three_times(shown: str, meant: str) -> None:
    assert _repeating(shown) == meant


def test_nothing_is_imported_after_the_warm_up() -> None:
    """In a process of its own: here, other tests have imported what they like."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.verifiers.late_imports"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    said = json.loads(done.stdout)
    assert said["compared"] > 300
    assert said["imported"] == []
    assert said["loaded_for_nothing"] == []


# -- the second judge --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "answer", "opinion"),
    [
        ("(x+1)^2", "x^2+2x+1", "agrees"),
        ("\\frac{1}{2}", "0.25", "agrees"),
        ("Monday", "Tuesday", "abstains"),
        ("1, 2", "2, 1", "agrees"),
    ],
)
def test_a_second_judge_sees_the_sample_and_changes_no_reward(
    judge: Judge, gold: str, answer: str, opinion: str
) -> None:
    asked = judge("math", answer, {"answers": [gold]}, second_judge_share=1.0)
    unasked = judge("math", answer, {"answers": [gold]}, second_judge_share=0.0)
    assert asked.evidence.error == f"second judge: {opinion}"
    assert asked.reward == unasked.reward
    assert "second judge" not in unasked.evidence.error
