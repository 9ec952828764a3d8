"""`exact`, `choice`, `regex`, `json_schema`, `noop`."""

from collections.abc import Callable

import pytest

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Ended

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
        ("[" * 40_000, "not_json"),
    ],
)
def test_json_schema(judge: Judge, response: str, verdict: str) -> None:
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    assert judge("json_schema", response, {"schema": schema}).evidence.verdict == verdict


def test_a_schema_that_is_none_is_refused(judge: Judge) -> None:
    with pytest.raises(InvalidRequest) as caught:
        judge("json_schema", "{}", {"schema": {"type": 3}})
    assert caught.value.field == "reference.schema"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "file:///etc/passwd", "#/absent"])
def test_a_reference_to_another_document_is_never_followed(judge: Judge, url: str) -> None:
    ended = judge("json_schema", "{}", {"schema": {"$ref": url}})
    assert ended.outcome is Outcome.REJECTED_INVALID
    assert ended.reward is None


def test_a_schema_that_refers_to_itself_without_end_is_invalid(judge: Judge) -> None:
    ended = judge("json_schema", "{}", {"schema": {"$ref": "#"}})
    assert ended.outcome is Outcome.REJECTED_INVALID


def test_a_response_over_the_length_limit_is_a_resource_limit(judge: Judge) -> None:
    long = "x" * (VerifierSettings().response_chars_max + 1)
    ended = judge("exact", long, {"answers": ["x"]}, reward_resource_limit=-0.5)
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, -0.5)
