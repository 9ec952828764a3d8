"""`python_function`: the user's function decides, and cannot hurt anybody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Component, Ended
from assay.sandbox.port import SandboxError
from assay.verifiers.function.stage import FunctionFailed

FUNCTIONS = Path(__file__).with_name("functions")


@pytest.fixture(scope="module")
def score(new_bench: Any) -> Iterator[Any]:
    bench = new_bench(VerifierSettings(function_paths=(FUNCTIONS,)))

    def judge(function: str, response: str, value: object = None, **settings: Any) -> Ended:
        reference = {"value": value}
        ended: Ended = bench.judge(
            "python_function", response, reference, function=f"mine:{function}", **settings
        )
        return ended

    yield judge
    bench.close()


def test_the_functions_number_is_the_reward(score: Any) -> None:
    ended = score("length", "four", {"per": 8})
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.5)


def test_other_keys_of_a_dict_are_evidence(score: Any) -> None:
    ended = score("told", "r", [1])
    assert (ended.reward, ended.evidence.extracted) == (0.5, '{"why": ["r", [1]]}')


def test_components_are_parts_of_the_reward(score: Any) -> None:
    ended = score("in_parts", "four")
    assert ended.reward == 0.75
    assert ended.components == (
        Component(name="length", value=1.0, weight=0.5),
        Component(name="is it polite?", value=0.25),
    )
    assert ended.evidence.extracted == ""


def test_a_function_that_a_candidates_file_breaks_judged_it_wrong(new_bench: Any) -> None:
    bench = new_bench(VerifierSettings(function_paths=(FUNCTIONS,)))
    messages: list[dict[str, object]] = [{"role": "assistant", "content": "x"}, {"role": "user"}]
    artifacts = {"out/a.bin": b"\xff\xff"}

    def score(said: list[dict[str, object]], files: dict[str, bytes]) -> Ended:
        ended: Ended = bench.judge_request(
            "python_function",
            "",
            {},
            settings={"function": "mine:looks_at_all"},
            messages=said,
            artifacts=files,
        )
        return ended

    assert score(messages[:1], artifacts).reward == 2.2
    broken = score(messages, artifacts)  # its last message has no content
    assert (broken.reward, broken.evidence.verdict) == (0.0, "broke_the_run")
    bench.close()


@pytest.mark.parametrize("function", ["looking", "calling"])
def test_the_function_is_isolated(score: Any, function: str) -> None:
    assert score(function, "x").reward == 0.0


def test_a_response_that_leads_it_into_a_loop_is_a_resource_limit(score: Any) -> None:
    ended = score("looping", "x", cpu_s=0.3, reward_resource_limit=-1.0)
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, -1.0)


@pytest.mark.parametrize("function", ["raising", "nothing", "infinite", "not_there"])
def test_a_function_that_says_nothing_is_an_infrastructure_failure(
    score: Any, function: str
) -> None:
    with pytest.raises(FunctionFailed, match=f"mine:{function}"):
        score(function, "x")


@pytest.mark.parametrize("function", ["beyond_doubles", "beyond_texts"])
def test_a_number_that_no_reward_may_be_is_named_as_such(score: Any, function: str) -> None:
    with pytest.raises(FunctionFailed, match="finite number"):
        score(function, "x")


def test_details_that_cannot_be_shown_cost_no_reward(score: Any) -> None:
    ended = score("details_beyond_texts", "x")
    assert (ended.reward, ended.evidence.extracted[:7]) == (1.0, "details")


@pytest.mark.parametrize("response", ["bool", "fraction", "decimal", "index"])
def test_any_number_is_one(score: Any, response: str) -> None:
    """The control gets a float, so a type that is refused would cost this response its reward."""
    ended = score("numbers", response)
    assert (ended.evidence.verdict, ended.reward) == ("scored", 1.0)


@pytest.mark.parametrize(
    "response", ["text", "bytes", "huge", "signalling", "complex", "list", "hostile"]
)
def test_what_is_no_number_is_no_reward(score: Any, response: str) -> None:
    ended = score("no_numbers", response)
    assert (ended.evidence.verdict, ended.reward) == ("broke_the_run", 0.0)


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        ("keys a b", "{\"keys\": {\"('keys', 'a')\": 1, \"('a', 'b')\": 1}}"),
        ("deep", '{"deep": {"(1, 2)": [{"(3,)": [{"4.5": 6}]}]}}'),
        ("text", "details that cannot be shown: RuntimeError"),
        ("circle", "details that cannot be shown: ValueError"),
    ],
)
def test_details_in_any_form_cost_no_reward(score: Any, response: str, shown: str) -> None:
    ended = score("details", response)
    assert (ended.evidence.verdict, ended.reward) == ("scored", 1.0)
    assert ended.evidence.extracted == shown


def test_components_that_cannot_be_shown_are_left_out(score: Any) -> None:
    long = "z" * 129
    ended = score("parts", f"a||\u200b|{long}")
    assert ended.reward == 1.0
    assert [part.name for part in ended.components] == ["a", "last"]
    assert "components left out" in ended.evidence.extracted
    many = score("parts", "|".join(map(str, range(100))))
    assert (many.reward, len(many.components)) == (1.0, 64)
    for function in ("bad_parts", "part_beyond_doubles"):
        assert score(function, "x").components == ()


def test_a_response_that_the_function_cannot_read_is_wrong(score: Any) -> None:
    assert score("strict", "18", {"answer": "18"}).reward == 1.0
    ended = score("strict", "no number", {"answer": "18"}, reward_fail=-1.0)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, -1.0)
    assert ended.evidence.verdict == "broke_the_run"
    assert "ValueError" in ended.evidence.error


def test_a_function_that_ends_its_process_is_an_infrastructure_failure(score: Any) -> None:
    with pytest.raises(SandboxError):
        score("leaving", "x")


def test_the_function_has_to_be_named(judge: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        judge("python_function", "x")
    assert caught.value.field == "settings.function"
