"""What one response gave is remembered for the next: the same verdict, found once."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.math import reading, verify
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.math.verify import VerifyHandler
from assay.verifiers.port import ReferenceAudit, Work
from assay.verifiers.total import HostAtFault

PARTS = st.sampled_from(
    [
        *("0123456789-.,%/$x^= ()!"),
        *("\\frac{1}{2}", "\\boxed{3}", "\\sqrt{2}", "\\text{ cm}", "\\pi"),
        *("A", "yes", "1,000", "0.5", " and "),
    ]
)
ANSWERS = st.lists(PARTS, min_size=1, max_size=5).map("".join)
SETTINGS = MathSettings(reference_audit=ReferenceAudit.OFF)


@pytest.fixture(scope="module")
def handler() -> Iterator[VerifyHandler]:
    made = VerifyHandler(None)
    yield made
    made.close()


def work(gold: str, answer: str, **settings: Any) -> Work:
    return Work(
        response="",
        reference=MathReference(answers=(gold,)),
        settings=SETTINGS.model_copy(update=settings),
        handover=f"boxed\n{answer}".encode(),
    )


@given(golds=st.lists(ANSWERS, min_size=1, max_size=3), answers=st.lists(ANSWERS, max_size=3))
def test_what_is_remembered_is_what_would_be_found(
    handler: VerifyHandler, golds: list[str], answers: list[str]
) -> None:
    for gold in golds:
        for answer in (*answers, gold):
            found = verify.judge((gold,), answer, SETTINGS)
            read = reading._read(answer, (), is_gold=False)
            for _ in range(2):
                assert reading.read_answer(answer) == read
                assert handler._judge((gold,), answer, SETTINGS, "some") == found


def test_each_pair_and_setting_is_judged_once(
    handler: VerifyHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []

    def judge(golds: tuple[str, ...], text: str, settings: MathSettings) -> verify.Judged:
        judged.append((golds, text))
        return before(golds, text, settings)

    before = verify.judge
    monkeypatch.setattr(verify, "judge", judge)
    works = [
        *[work("0.3333", "1/3", float_rounding=places) for places in (2, 6)],
        *[work("0.3334", "1/3", float_rounding=places) for places in (2, 6)],
    ]
    first = handler.run(works)
    again = handler.run([replace(one, fault=None) for one in works])
    assert len(judged) == 4
    rewards = [[getattr(one, "reward", None) for one in ended] for ended in (first, again)]
    assert rewards[0] == rewards[1]
    assert len(set(rewards[0])) == 2, "rounding decides"


def test_long_answers_are_not_kept(handler: VerifyHandler) -> None:
    gold, short = "1" + "0" * 400, "5"
    handler.run([work(gold, short), work(short, short)])
    kept = handler._judged_before
    assert kept.get("", ((gold,), short, SETTINGS)) is None
    assert kept.get("", ((short,), short, SETTINGS)) is not None


@pytest.mark.parametrize("trouble", ["a module is missing", "the comparison failed"])
def test_what_a_failure_of_the_machine_gave_is_not_remembered(
    handler: VerifyHandler, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    asked = (("17",), f"\\frac{{{17 * len(trouble)}}}{{{len(trouble)}}}", SETTINGS)
    right = verify.judge(*asked)
    assert right.passed

    def judge(*_: object) -> verify.Judged:
        if trouble == "a module is missing":
            handler._late_imports.find_spec("sympy.that_is_not_there")
            return right._replace(passed=False)
        return right._replace(passed=False, error="out of something")

    with monkeypatch.context() as patch:
        patch.setattr(verify, "judge", judge)
        assert not handler._judge(*asked, "some").passed
    handler._late_imports.take_failed()
    assert handler._judge(*asked, "some").passed


def test_an_answer_that_was_read_without_a_module_is_read_again(
    handler: VerifyHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\\sqrt{289} + 4"
    read = reading.read_answer(text)

    def control(*_: object) -> None:
        handler._late_imports.find_spec("sympy.that_is_not_there")

    monkeypatch.setattr(Comparison, "control", control)
    said = verify.judge(("21",), text, SETTINGS)
    handler._late_imports.find_spec("sympy.that_is_not_there")
    with pytest.raises(HostAtFault, match="that_is_not_there"):
        handler._check_imports(said)
    assert reading.read_answer(text) is not read
