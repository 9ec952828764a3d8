"""`exact`, `choice`, `regex`, `json_schema`, `noop`."""

import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.local import LocalPipelines
from assay.verifiers.text.choice import Reading, read_choice

Judge = Callable[..., Ended]


def test_noop_passes_everything(judge: Judge) -> None:
    assert judge("noop", "anything").reward == 1.0


@pytest.mark.parametrize(
    ("response", "settings", "verdict"),
    [
        ("Paris", {}, "pass"),
        (" Paris\n", {}, "pass"),
        ("paris", {}, "wrong_answer"),
        ("paris", {"ignore_case": True}, "pass"),
        ("Rio  de\nJaneiro", {"ignore_space": True}, "pass"),
        ("Rio  de\nJaneiro", {}, "wrong_answer"),
        ("I say <answer>Paris</answer>", {"strategies": ["tag"]}, "pass"),
        ("I say Paris", {"strategies": ["tag"]}, "no_answer"),
        ("", {}, "no_answer"),
        ("P\N{CYRILLIC SMALL LETTER A}ris", {}, "wrong_answer"),
    ],
)
def test_exact(judge: Judge, response: str, settings: dict[str, object], verdict: str) -> None:
    ended = judge("exact", response, {"answers": ["Paris", "Rio de Janeiro"]}, **settings)
    assert ended.evidence.verdict == verdict
    assert ended.reward == (1.0 if verdict == "pass" else 0.0)


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ("B", "pass"),
        ("The answer is (B).", "pass"),
        ("Answer: B. Lyon", "pass"),
        (r"\boxed{B}", "pass"),
        (r"\boxed{\text{B}}", "pass"),
        ("A dog barks, so the answer is **B**", "pass"),
        ("The answer is A", "wrong_answer"),
        ("The answer is A or B", "ambiguous"),
        ("B and D", "ambiguous"),
        ("I do not know", "wrong_answer"),
        ("", "no_answer"),
        ("\N{CYRILLIC CAPITAL LETTER VE}", "wrong_answer"),
    ],
)
def test_choice(judge: Judge, response: str, verdict: str) -> None:
    reference = {"answer": "B", "choices": ["A", "B", "C", "D"]}
    assert judge("choice", response, reference).evidence.verdict == verdict


def test_regex(judge: Judge) -> None:
    assert judge("regex", "in PARIS", {"pattern": "paris", "flags": ["ignorecase"]}).reward == 1.0
    assert judge("regex", "in Paris", {"pattern": "Paris", "whole": True}).reward == 0.0
    with pytest.raises(InvalidRequest) as caught:
        judge("regex", "x", {"pattern": "("})
    assert caught.value.field == "reference.pattern"


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ('{"name": "x"}', "pass"),
        ('Here:\n```json\n{"name": "x"}\n```\nbye', "pass"),
        ('{"name": 3}', "wrong_answer"),
        ("no", "not_json"),
        ('{"name": NaN}', "not_json"),
        ("[" * 40_000, "nesting_limit"),
    ],
)
def test_json_schema(judge: Judge, response: str, verdict: str) -> None:
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    assert judge("json_schema", response, {"schema": schema}).evidence.verdict == verdict


# -- references that cannot judge ----------------------------------------------------------------
def test_a_pattern_out_of_time_for_a_trivial_response_is_refused(judge: Judge) -> None:
    hopeless = "(?:(?:(?:(?:(?:a?){99}){99}){99}){99}){99}$x"
    ended = judge("regex", "x", {"pattern": hopeless})
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert ended.evidence.error.startswith("reference.pattern:")


UNSOUND = [
    ("exact", {"answers": ["1.5 m. wide"]}, {"strategies": ["last_number"]}),
    ("json_schema", {"schema": {"type": "string", "examples": ["a", 1]}}, {}),
    ("json_schema", {"schema": {"const": 1, "type": "string"}}, {}),
]


@pytest.mark.parametrize(("pipeline", "reference", "settings"), UNSOUND)
def test_a_reference_that_fails_its_controls_is_refused_unless_the_task_says_otherwise(
    judge: Judge, pipeline: str, reference: dict[str, object], settings: dict[str, object]
) -> None:
    refused = judge(pipeline, "1", reference, **settings)
    assert (refused.outcome, refused.evidence.verdict) == (
        Outcome.REJECTED_INVALID,
        "invalid_reference",
    )
    assert "control" in refused.evidence.error
    reported = judge(pipeline, "1", reference, reference_audit="report", **settings)
    assert reported.outcome is Outcome.SCORED
    assert "control" in reported.evidence.error
    unseen = judge(pipeline, "1", reference, reference_audit="off", **settings)
    assert unseen.outcome is Outcome.SCORED
    assert "control" not in unseen.evidence.error


labels = st.text(
    st.characters(categories=["L", "N"], max_codepoint=0x4FF), min_size=1, max_size=4
) | st.sampled_from(["I", "AB", "True", "False", "Both A and B", "none of the above", "A, B", "-1"])


@pytest.fixture(scope="module")
def patient(new_bench: Callable[[VerifierSettings], LocalPipelines]) -> Iterator[LocalPipelines]:
    """A collection of this process's large heap takes longer than a control may in a worker."""
    with new_bench(VerifierSettings(match_cpu_s=600.0)) as made:
        yield made


@given(
    st.lists(labels, min_size=2, max_size=6, unique_by=lambda label: label.casefold()),
    st.sampled_from(["tag", "boxed", "answer_is", "answer_colon", "whole", "hashes"]),
)
def test_labels_pass_their_own_controls(
    patient: LocalPipelines, choices: list[str], strategy: str
) -> None:
    for answer in choices:
        reference = {"answer": answer, "choices": choices}
        ended = patient.judge("choice", "x", reference, strategies=[strategy])
        assert ended.outcome is Outcome.SCORED, ended.evidence.error


STRANGE = (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"a\0b", b"\xc0\xaf", b"\xf4\x90\x80\x80")
JUDGED: dict[str, dict[str, Any]] = {
    "exact": {"answers": ["Paris"]},
    "choice": {"answer": "B"},
    "regex": {"pattern": "Paris"},
    "json_schema": {"schema": {"type": "object"}},
    "noop": {},
}


@pytest.mark.parametrize("pipeline", JUDGED)
@given(response=st.binary(max_size=60) | st.sampled_from(STRANGE) | st.text(max_size=20))
def test_any_bytes_have_a_reward(
    bench: LocalPipelines, pipeline: str, response: bytes | str
) -> None:
    ended = bench.judge(pipeline, response, JUDGED[pipeline])
    assert ended.outcome in (Outcome.SCORED, Outcome.RESOURCE_LIMIT)
    assert ended.reward is not None


@pytest.mark.parametrize("pipeline", ["exact", "regex", "json_schema"])
def test_bytes_that_are_no_text_change_the_verdict_as_any_others_do(
    judge: Judge, pipeline: str
) -> None:
    right = {"exact": b"Paris", "regex": b"Paris", "json_schema": b"{}"}[pipeline]
    wanted = {"pattern": "Paris", "whole": True} if pipeline == "regex" else JUDGED[pipeline]
    assert judge(pipeline, right, wanted).reward == 1.0
    for more in (b"\0", b"\xff"):
        assert judge(pipeline, right + more, wanted).reward == 0.0


def test_a_response_over_the_length_limit_is_a_resource_limit(judge: Judge) -> None:
    long = "x" * (VerifierSettings().response_chars_max + 1)
    ended = judge("exact", long, {"answers": ["x"]}, reward_resource_limit=-0.5)
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, -0.5)


HIDDEN = ("\u200b", "\u202e", "\u2066", "\ufeff", "\0", "\u0301", "\u00ad", "\ufe0f", "\ud800", ".")
GOLDS = ("Zürich", "e\u0301clair", "naïve 7", "\u202eabc", "a\0b", "ﬁne", "Ⅳ", "x" * 300, "I", "{}")


def _disguised(gold: str) -> Iterator[str]:
    """Texts that look like the gold, or hold it, and are not equal to it."""
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield unicodedata.normalize(form, gold)
    for old, new in (("a", "а"), ("e", "е"), ("i", "і"), ("x", "х"), ("I", "Ι"), ("7", "７")):  # noqa: RUF001
        yield gold.replace(old, new)
    yield from (gold.swapcase(), gold.upper(), gold.lower(), gold[:-1], gold[1:], gold[::-1])
    yield from (gold * 2, f"{gold} {gold}", f"{gold}\n{gold}", f"not {gold}", f'"{gold}"')
    for mark in HIDDEN:
        yield from (mark + gold, gold + mark, gold[:1] + mark + gold[1:], mark.join(gold))


@pytest.mark.parametrize("gold", GOLDS)
def test_exact_text_is_neither_normalised_nor_searched(judge: Judge, gold: str) -> None:
    reference = {"answers": [gold]}
    assert judge("exact", gold, reference).reward == 1.0
    assert judge("exact", f"\n\u2003{gold}\u00a0\r\n", reference).reward == 1.0
    others = {other for other in _disguised(gold) if other.strip() != gold}
    assert [other for other in others if judge("exact", other, reference).reward != 0.0] == []


@pytest.mark.parametrize(
    ("pattern", "response"),
    [
        (r"^(a+)+$", "a" * 40_000 + "!"),
        (r"^(a|aa)+$", "a" * 40_000 + "!"),
        (r"^(\w+\s?)*$", "word " * 9_000 + "!"),
        (r"(x+x+)+y", "x" * 40_000),
        (r"(.*)*(.*)*=", "=" * 5 + "a" * 40_000),
    ],
)
def test_a_response_that_keeps_a_pattern_busy_has_a_reward_and_the_next_one_too(
    new_bench: Callable[[VerifierSettings], LocalPipelines], pattern: str, response: str
) -> None:
    with new_bench(VerifierSettings(match_cpu_s=0.2)) as bench:
        ended = bench.judge("regex", response, {"pattern": pattern})
        assert ended.reward is not None
        assert ended.outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}
        assert ended.evidence.verdict in {"cpu_limit", "wrong_answer", "pass"}
        assert bench.judge("regex", "a=xxy", {"pattern": "a=x"}).reward == 1.0


FLOODS = (
    *("A ", "A, ", "A) ", "not A, ", "A and ", "answer is A ", "I'd go with ", "wait, ", "A.\n"),
    *(
        "\\boxed{",
        "\\boxed{A}",
        "<answer>",
        "####",
        "**Answer:** ",
        "\\text{",
        "{",
        "$",
        "1 ",
        "1/",
    ),
)


@pytest.mark.parametrize("piece", FLOODS)
def test_a_long_response_of_one_piece_is_judged_within_its_cpu_time(
    judge: Judge, piece: str
) -> None:
    """The limit is two seconds on the stage; a reading that is not linear exceeds it far."""
    response = piece * (49_000 // len(piece)) + "!"
    for pipeline, reference in (
        ("choice", {"answer": "B", "choices": ["A", "B", "C"]}),
        ("exact", {"answers": ["x"]}),
    ):
        ended = judge(pipeline, response, reference)
        assert ended.reward == 0.0, pipeline
        assert ended.evidence.verdict != "cpu_limit", (pipeline, ended.evidence)


@pytest.mark.parametrize("slow_times", [1, 2])
def test_a_control_that_is_slow_only_once_is_no_fault_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_times: int
) -> None:
    """A collection of garbage, or the first use of a pattern, may take the time of one control."""
    slow = [True] * slow_times

    def read(*args: Any) -> Reading:
        if slow.pop() if slow else False:
            until_s = time.process_time() + 60.0
            while time.process_time() < until_s:
                pass
        return read_choice(*args)

    monkeypatch.setattr("assay.verifiers.text.match.read_choice", read)
    limits = VerifierSettings(match_cpu_s=0.4)
    with LocalPipelines(scratch=tmp_path, verifiers=limits) as pipelines:
        ended = pipelines.judge("choice", "The answer is A.", {"answer": "A"})
    assert (ended.reward == 1.0) is (slow_times == 1)
    assert (ended.outcome is Outcome.REJECTED_INVALID) is (slow_times == 2)
