"""Bytes from a caller: every fault is an `InvalidRequest` that names its field."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName
from assay.core.tools.response import response_bytes, response_text
from assay.verifiers.intake import (
    NESTING_MAX,
    last_answer,
    parse_messages,
    parse_reference,
    parse_settings,
    plain_json,
)
from assay.verifiers.local import LocalPipelines
from assay.verifiers.registry import load_pipelines

PIPELINES = load_pipelines(found=())
EXACT = PIPELINES[PipelineName("exact")]
MATH = PIPELINES[PipelineName("math")]
SCHEMA = PIPELINES[PipelineName("json_schema")]


def field_of(data: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse_reference(EXACT, data)
    return caught.value.field


def test_an_empty_reference_is_said_to_lack_a_label_and_another_is_not() -> None:
    with pytest.raises(InvalidRequest, match=r"Field required; .* as of a row without a label"):
        parse_reference(EXACT, b"{}")
    with pytest.raises(InvalidRequest, match=r"Field required$"):
        parse_reference(SCHEMA, b'{"extra": 1}')


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"{}", "reference.answers"),
        (b'{"answers": []}', "reference.answers"),
        (b'{"answers": ["a", 3]}', "reference.answers[1]"),
        (b'{"answers": ["a"], "extra": 1}', "reference.extra"),
        (b"[]", "reference"),
        (b"null", "reference"),
        (b"{", "reference"),
        (b"\xff", "reference"),
        (b'{"answers": ["a"], "answers": ["b"]}', "reference"),
        (b'{"answers": [NaN]}', "reference.answers[0]"),
        (b'{"answers": [-Infinity]}', "reference.answers[0]"),
        (b'{"answers": [1e999]}', "reference.answers[0]"),
        (b'{"answers": ["a", {"b": 1e-400}]}', "reference.answers[1].b"),
        (b'{"answers": [9007199254740993.0]}', "reference.answers[0]"),
        (b'{"answers": [1e400, "', "reference"),
        (b'{"answers": ["a", "\\ud800"]}', "reference.answers[1]"),
        (b'{"\\udfff": 1}', "reference"),
        (b'{"answers": [' + b"9" * 100_000 + b"]}", "reference.answers[0]"),
        (b"[" * 100_000, "reference"),
        (b'{"a":' * 100_000, "reference"),
    ],
)
def test_a_fault_names_its_field(data: bytes, field: str) -> None:
    assert field_of(data) == field


def test_settings_are_checked_the_same_way() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_settings(MATH, b'{"strategies": ["boxed", "guess"]}')
    assert caught.value.field == "settings.strategies[1]"
    with pytest.raises(InvalidRequest) as caught:
        parse_settings(MATH, b'{"reward_pass": 1e400}')
    assert caught.value.field == "settings.reward_pass"


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_numbers_that_python_writes_are_kept_as_they_are(number: float) -> None:
    kept = plain_json(f"{number!r}".encode(), "x")
    assert (kept, type(kept)) == (number, type(number))


@given(st.integers(min_value=2**53, max_value=2**70))
def test_a_whole_number_written_as_a_float_is_kept_exactly_or_refused(number: int) -> None:
    try:
        kept = plain_json(f"[{number}.0]".encode(), "x")
    except InvalidRequest as error:
        assert error.field == "x[0]"  # noqa: PT017 - either is right
    else:
        assert kept == [number]


def test_a_surrogate_pair_is_a_character_and_nul_is_legal() -> None:
    parsed: Any = parse_reference(EXACT, b'{"answers": ["\\ud83d\\ude00", "\\u0000"]}')
    assert parsed.answers == ("\N{GRINNING FACE}", "\0")


def nested(depth: int) -> bytes:
    return json.dumps(
        {"schema": {"const": json.loads("[" * (depth - 2) + "]" * (depth - 2))}}
    ).encode()


def test_nesting_is_bounded_exactly() -> None:
    parse_reference(SCHEMA, nested(NESTING_MAX))
    with pytest.raises(InvalidRequest, match="deeper"):
        parse_reference(SCHEMA, nested(NESTING_MAX + 1))


def test_brackets_inside_strings_are_no_nesting() -> None:
    parse_reference(EXACT, json.dumps({"answers": ["[" * 1_000 + '\\"{' * 1_000]}).encode())


def test_hostile_input_takes_linear_time() -> None:
    hostile = [
        b'{"answers": ["' + b"\\" * 400_000,
        b'{"a"' * 100_000,
        b"[]" * 200_000,
        b'"\\\n' * 100_000,
        b"{" + b",".join(b'"%d":1' % index for index in range(60_000)) + b',"5":1}',
    ]
    began_s = time.perf_counter()
    for data in hostile:
        field_of(data)
    assert time.perf_counter() - began_s < 3


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_taken_or_refused_with_a_field(data: bytes) -> None:
    field = "reference"
    try:
        parse_reference(EXACT, data)
    except InvalidRequest as error:
        field = error.field
    assert field.startswith("reference")


@given(st.text(st.characters()), st.booleans())
def test_the_answer_of_a_transcript_is_the_text_of_the_same_response(
    said: str, in_parts: bool
) -> None:
    """Lone surrogates too, which JSON has as an escape."""
    content = [{"type": "text", "text": said}] if in_parts else said
    data = json.dumps([{"role": "assistant", "content": content}]).encode("ascii")
    answer = last_answer(parse_messages(data, "messages"))
    assert answer == response_text(response_bytes(said))
    assert answer.encode("utf-8", "surrogateescape") == response_bytes(said)


def test_any_answer_of_a_transcript_is_judged(tmp_path: Path) -> None:
    tests = {"tests": [{"stdin": "", "stdout": "7"}]}
    messages = [{"role": "assistant", "content": "print(7)  # \ud800"}]
    whole = {"components": {"tests": {"pipeline": "code.python"}}}
    with LocalPipelines(scratch=tmp_path) as local:
        for pipeline, reference, settings in (
            ("code.python", tests, {}),
            ("code.bash", tests, {}),
            ("composite", {"components": {"tests": tests}}, whole),
            ("run.python", {}, {}),
        ):
            ended = local.judge_request(
                pipeline, reference=reference, settings=settings, messages=messages
            )
            assert ended.reward is not None, pipeline
