"""What one response gave is remembered for the next: the same verdict, found once."""

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.math import audit, reading, verify
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.math.extract import CARRIERS, final_answer
from assay.verifiers.math.verify import VerifyHandler
from assay.verifiers.options import Strategy
from assay.verifiers.port import ReferenceAudit, Work
from assay.verifiers.text.answers import Extracted
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
NUMBERS = st.from_regex(r"-?[0-9]{1,7}(?:,[0-9]{3})?(?:\.[0-9]{1,3})?", fullmatch=True)
STRATEGIES = st.lists(st.sampled_from(list(CARRIERS)), min_size=1, unique=True).map(tuple)


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


@given(
    golds=st.lists(st.one_of(NUMBERS, ANSWERS), min_size=1, max_size=6),
    strategies=STRATEGIES,
    option_strings=st.sampled_from([(), ("A", "B"), ("1", "2")]),
)
def test_a_reference_has_the_faults_that_it_has_alone_whatever_was_audited_before(
    handler: VerifyHandler,
    golds: list[str],
    strategies: tuple[Strategy, ...],
    option_strings: tuple[str, ...],
) -> None:
    settings = MathSettings(strategies=strategies, option_strings=option_strings)
    audits = audit.Audits(handler._passes)
    for gold in golds:
        reference = MathReference(answers=(gold,))
        alone = audit.Audits(handler._passes).fault(reference, settings, "some")
        assert audits.fault(reference, settings, "some") == alone


@given(number=NUMBERS, strategies=STRATEGIES, random=st.randoms(use_true_random=False))
def test_the_digits_of_a_number_do_not_change_whether_a_carrier_shows_it(
    number: str, strategies: tuple[Strategy, ...], random: Random
) -> None:
    settings = MathSettings(strategies=strategies)
    other = re.sub(r"[0-9]", lambda _: str(random.randrange(10)), number)
    for carrier in CARRIERS.values():
        shown = set()
        for said in (number, other):
            found = final_answer(carrier.format(said), settings, (said,))
            shown.add(not isinstance(found, str) and found.text == said and not found.parts)
        assert len(shown) == 1, (number, other, carrier)


def test_a_number_of_a_known_shape_is_not_searched_for(
    handler: VerifyHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    def search(response: str, *rest: Any) -> Extracted | str:
        searched.append(response)
        return final_answer(response, *rest)

    monkeypatch.setattr(audit, "final_answer", search)
    audits = audit.Audits(handler._passes)
    for gold, searches in (("18", 8), ("25", 0), ("36", 0), ("7", 8), ("\\frac{1}{3}", 8)):
        searched.clear()
        assert audits.fault(MathReference(answers=(gold,)), SETTINGS, "some") == ""
        assert len(searched) == searches, gold
