"""JSON Schema in five dialects: what is judged, what is refused beforehand, and that every text
has a verdict."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.options import Dialect
from assay.verifiers.text import json_text
from assay.verifiers.text.dialects import Number, is_multiple
from assay.verifiers.text.json_schema import judge_json
from assay.verifiers.text.json_text import fenced
from assay.verifiers.text.schemas import SchemaRefused, prepare

Judge = Callable[..., Ended]
D7 = "http://json-schema.org/draft-07/schema#"
D2020 = "https://json-schema.org/draft/2020-12/schema"


def _verdict(schema: Any, text: str, dialect: Dialect = Dialect.DRAFT_2020_12) -> str:
    return judge_json(text, prepare(schema, {}, dialect)).verdict


def _passes(schema: Any, text: str, dialect: Dialect = Dialect.DRAFT_2020_12) -> bool:
    verdict = _verdict(schema, text, dialect)
    assert verdict in ("pass", "wrong_answer"), verdict
    return verdict == "pass"


# -- dialects ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dialect", "schema", "text", "passes"),
    [
        ("draft4", {"type": "integer"}, "1.0", False),
        ("draft6", {"type": "integer"}, "1.0", True),
        ("draft4", {"minimum": 1, "exclusiveMinimum": True}, "1", False),
        ("draft6", {"exclusiveMinimum": 1}, "1", False),
        ("draft7", {"items": [{"type": "null"}], "additionalItems": False}, "[null, 1]", False),
        ("draft7", {"if": {"const": 1}, "then": False}, "1", False),
        ("draft6", {"if": {"const": 1}, "then": False}, "1", True),
        (
            "draft7",
            {"$ref": "#/definitions/a", "type": "null", "definitions": {"a": True}},
            "1",
            True,
        ),
        ("draft2019-09", {"$ref": "#/$defs/a", "type": "null", "$defs": {"a": True}}, "1", False),
        ("draft2020-12", {"prefixItems": [{"type": "null"}], "items": False}, "[null, 1]", False),
        ("draft2020-12", {"format": "email"}, '"no"', True),
        ("draft2020-12", {"dependencies": {"a": ["b"]}}, '{"a": 1}', False),
    ],
)
def test_a_schema_is_judged_in_its_dialect(
    dialect: str,
    schema: Any,
    text: str,
    passes: bool,
) -> None:
    assert _passes(schema, text, Dialect(dialect)) is passes
    named = {**schema, "$schema": _URIS[dialect]}
    assert _passes(named, text) is passes, "and where `$schema` says so"


_URIS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema",
    "draft7": "https://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": D2020,
}


def test_the_reference_says_the_dialect_of_a_schema_that_does_not(judge: Judge) -> None:
    schema = {"items": [{"type": "null"}], "additionalItems": False}
    assert judge("json_schema", "[1]", {"schema": schema, "dialect": "draft7"}).reward == 0.0
    assert judge("json_schema", "[null]", {"schema": schema, "dialect": "draft7"}).reward == 1.0
    with pytest.raises(InvalidRequest) as caught:
        judge("json_schema", "[1]", {"schema": schema})
    assert caught.value.field == "reference.schema.items"


@pytest.mark.parametrize("schema", [True, False])
def test_a_truth_value_is_a_schema(judge: Judge, schema: bool) -> None:
    assert judge("json_schema", "[]", {"schema": schema}).reward == float(schema)


# -- references ----------------------------------------------------------------------------------
def test_references_inside_the_schema_and_to_given_documents(judge: Judge) -> None:
    schema = {
        "$id": "http://a.example/root",
        "properties": {
            "near": {"$ref": "#name"},
            "far": {"$ref": "b"},
            "itself": {"$ref": D2020},
        },
        "$defs": {"x": {"$anchor": "name", "type": "string"}},
    }
    reference = {"schema": schema, "documents": {"http://a.example/b": {"type": "integer"}}}
    right = '{"near": "x", "far": 7, "itself": {"type": "string"}}'
    assert judge("json_schema", right, reference).reward == 1.0
    for wrong in ('{"near": 1}', '{"far": "x"}', '{"itself": {"type": "text"}}'):
        assert judge("json_schema", wrong, reference).reward == 0.0


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"$ref": "http://127.0.0.1:9/x"}, "reference.schema.$ref"),
        ({"$ref": "file:///etc/passwd"}, "reference.schema.$ref"),
        ({"properties": {"a": {"$ref": "#/absent"}}}, "reference.schema.properties.a.$ref"),
        ({"$ref": "#nowhere"}, "reference.schema.$ref"),
        ({"$ref": "#"}, "reference.schema"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "items": {"$ref": "#/$defs/a"}}, None),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "reference.schema"),
        ({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}, None),
        ({"type": 3}, "reference.schema.type"),
        ({"properties": {"a": {"minLength": -1}}}, "reference.schema.properties.a.minLength"),
        ({"items": {"pattern": "("}}, "reference.schema.items.pattern"),
        ({"items": {"pattern": r"\Z"}}, "reference.schema.items.pattern"),
        ({"patternProperties": {"(?i)x": True}}, "reference.schema.patternProperties['(?i)x']"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "reference.schema.$schema"),
        ({"$schema": "urn:mine"}, "reference.schema.$schema"),
        ({"items": {"$schema": D7, "type": "null"}}, "reference.schema.items.$schema"),
        ({"$ref": "#/$comment", "$comment": "no schema"}, "reference.schema.$ref"),
        (7, None),
        ("true", None),
    ],
)
def test_a_schema_that_cannot_judge_is_refused_at_the_intake(
    judge: Judge, schema: Any, field: str | None
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        judge("json_schema", "{}", {"schema": schema})
    assert caught.value.field.startswith("reference.schema" if field is None else field)


def test_a_fault_in_a_document_is_named_there(judge: Judge) -> None:
    with pytest.raises(InvalidRequest) as caught:
        judge("json_schema", "{}", {"schema": {}, "documents": {"urn:x": {"type": 3}}})
    assert caught.value.field == "reference.documents['urn:x'].type"


def test_a_schema_whose_work_explodes_is_refused_not_the_response(judge: Judge) -> None:
    doubled: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**doubled, "d40": True}}
    ended = judge("json_schema", "1", {"schema": schema})
    assert ended.outcome is Outcome.REJECTED_INVALID
    assert "trivial" in ended.evidence.error


# -- texts ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1e400", "pass"),
        ("-0", "pass"),
        ("9" * 6_000, "pass"),
        ("-1e-400", "pass"),
        ("1e99999999999999999999", "number_limit"),
        ('"\\ud800"', "pass"),
        ('"\\u0000"', "pass"),
        ('{"a": 1, "a": 2}', "pass"),
        ("[" * 300 + "]" * 300, "pass"),
        ("[" * 1_000 + "]" * 1_000, "pass"),
        ("[" * 1_001 + "]" * 1_001, "nesting_limit"),
        ('{"a":' * 25_000 + "1" + "}" * 25_000, "nesting_limit"),
        ("[" * 300, "not_json"),
        ('"\udcff"', "not_json"),
        ('"\0"', "not_json"),
        ("\0", "not_json"),
        ("\ufeff1", "not_json"),
        ("NaN", "not_json"),
        ("-Infinity", "not_json"),
        ("01", "not_json"),
        ("1 2", "not_json"),
        ("", "not_json"),
        ("'a'", "not_json"),
    ],
)
def test_what_is_json_is_judged(text: str, verdict: str) -> None:
    assert _verdict(True, text) == verdict


@pytest.mark.parametrize(
    ("schema", "text", "passes"),
    [
        ({"multipleOf": 0.01}, "19.99", True),
        ({"multipleOf": 0.01}, "19.995", False),
        ({"multipleOf": 0.0001}, "0.0075", True),
        ({"multipleOf": 0.5}, "1e400", True),
        ({"multipleOf": 3}, "1e400", False),
        ({"multipleOf": 7}, "7" * 5_000, True),
        ({"multipleOf": 1e-8}, "12391239123", True),
        ({"maximum": 0.3}, "0.3", True),
        ({"maximum": 0.3}, "0.30000000000000001", False),
        ({"minimum": 1e300}, "1e301", True),
        ({"type": "integer"}, "1.0", True),
        ({"type": "integer"}, "1e400", True),
        ({"type": "integer"}, "1e-1", False),
        ({"type": "integer"}, "9" * 6_000, True),
        ({"const": 0}, "-0.0", True),
        ({"const": 1}, "true", False),
        ({"enum": [0.1]}, "1e-1", True),
        ({"uniqueItems": True}, "[1, true, 1.5]", True),
        ({"uniqueItems": True}, "[[1], [true], [1.0]]", False),
        ({"uniqueItems": True}, '[{"a": 1, "b": [0]}, {"b": [0.0], "a": 1}]', False),
        ({"uniqueItems": True}, json.dumps(list(range(8_000))), True),
        ({"uniqueItems": True}, json.dumps([{"a": n} for n in range(4_000)]), True),
        ({"const": {"a": [1]}}, '{"a": [9], "a": [1]}', True),
        ({"maxLength": 1}, '"\\ud83d\\ude00"', True),
        ({"pattern": "^a$"}, '"a\\n"', False),
        (
            {"additionalProperties": False, "patternProperties": {r"^\d+$": {}}},
            '{"\u0661": 1}',
            False,
        ),
        (
            {"additionalProperties": False, "patternProperties": {r"^\p{L}+$": {}}},
            '{"\u00e9": 1}',
            True,
        ),
    ],
)
def test_values_are_exact(schema: Any, text: str, passes: bool) -> None:
    assert _passes(schema, text) is passes


NESTED = {
    "$ref": "#/$defs/n",
    "$defs": {
        "n": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/list"}]},
        "list": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/n"}]}},
    },
}


@pytest.mark.parametrize("depth", [1, 300, 1_000])
def test_deep_values_are_judged_to_the_bottom(depth: int) -> None:
    assert _passes(NESTED, "[" * depth + "7" + "]" * depth)
    assert not _passes(NESTED, "[" * depth + "true" + "]" * depth)


def test_what_breaks_a_limit_of_the_judge_is_a_resource_limit(judge: Judge) -> None:
    reference = {"schema": True}
    for text in ("[" * 2_000 + "]" * 2_000, "1e99999999999999999999"):
        ended = judge("json_schema", text, reference, reward_resource_limit=-0.5)
        assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, -0.5)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("x\n```json\n1\n```\ny", "1"),
        ("```json\n1\n```\n```python\n2\n```", "1"),
        ("```\n1\n```\n```\n2\n```", "2"),
        ("```json\n1\n```\nthen\n```json\n2", "2"),
        ("````json\n```\n1\n```\n````", "```\n1\n```"),
        ("~~~json\n1\n~~~", "1"),
        ("~~~\n```\n~~~", "```"),
        ("- so:\n\n      ```JSON\r\n      1\r\n      ```", "      1\r"),
        ("``` a`b\n1", "``` a`b\n1"),
        ("1", "1"),
        ("```", "```"),
        ("{}<|im_end|>", "{}"),
        ("```json\n1\n```</s>", "1"),
        ("```json\n1\n``` <|eot_id|>\n", "1"),
        ("```json5 title=x\n1\n```\n```\n2\n```", "1"),
        ("```jsonl\n1\n```\n```\n2\n```", "2"),
        ("\ufeff```json\n1\n```", "1"),
        ("```json\n{}```", "{}"),
        ("```json\n{}\n", "{}"),
        ("```json\n{}\n```.", "{}"),
        ("```json\n{}\n``` ```", "{}"),
        ("```json\n{}\n```The schema is `{}`.\n", "{}"),
        ("```\n[\n1]\n  ``` That is all.\nReally.", "[\n1]"),
        ("```json\n1\n```\nthen\n```json\n2\n```!", "2"),
        ("So: ```json\n{}\n```", "{}"),
        ("In: ```json\n[]\n```\nOut: ```json5\n{}\n```\nDone.", "{}"),
        ("- ```json\n  {}\n  ```\n- done", "  {}"),
        ("1. ```\n   []\n   ```\n2. ```\n   {}\n   ```", "   {}"),
        ("In: ```json\n[]```\n\nOut: ```json\n{}```", "{}"),
        ("```\n{}\n```\nRead it:\n```python\nimport json\n```", "{}"),
        ("```json\n{}\n```\n```json\n```", "{}"),
        ("```json\n{}\n``", "{}\n"),
        ("{}<\uff5cend\u2581of\u2581sentence\uff5c>", "{}"),
        ("```json\n{\n\n```json\n{}\n```\n", "{}"),
        ("```json\n[]\n``` or\n```json\n{}\n``` so.", "{}"),
        ("```markdown\n```json\n{}\n```\n```", "{}"),
        ("```{.json}\n{}\n```\n```\n[]\n```", "{}"),
        ("So: ```{}``` it is", "{}"),
        ("> ```json\n> {}\n> ```", "{}"),
        ('{"a": "```", "b": "```"}', '{"a": "```", "b": "```"}'),
        ('{"a": "x</s>"}', '{"a": "x</s>"}'),
    ],
)
def test_where_the_json_stands(response: str, text: str) -> None:
    assert json_text.fenced(response) == text


# -- generated -----------------------------------------------------------------------------------
numbers = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e308, -0.0, 5e-324]),
)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values, st.sampled_from(list(Dialect)))
def test_a_value_equals_itself_and_is_its_own_constant(value: Any, dialect: Dialect) -> None:
    text = json.dumps(value)
    schema = {"enum": [value]}
    assert _passes(schema, text, dialect)
    assert not _passes({"not": schema}, text, dialect)
    assert not _passes({"uniqueItems": True}, f"[{text}, {text}]", dialect)


@given(st.integers(-(10**6), 10**6), st.integers(-8, 8), st.integers(1, 10**4), st.integers(-8, 8))
def test_multiples_are_those_of_arithmetic(n: int, e: int, d: int, f: int) -> None:
    from fractions import Fraction

    exact = Fraction(n) * Fraction(10) ** e / (Fraction(d) * Fraction(10) ** f)
    assert is_multiple(Number(f"{n}e{e}"), Number(f"{d}e{f}")) is (exact.denominator == 1)


SCHEMAS: tuple[Any, ...] = (
    NESTED,
    {"uniqueItems": True, "items": {"multipleOf": 0.1}, "unevaluatedItems": False},
    {"patternProperties": {r"\w": {"maximum": 1e300}}, "unevaluatedProperties": {"type": "string"}},
    {"anyOf": [{"minProperties": 1}, {"contains": {"const": 1}, "maxContains": 2}]},
)
PIECES = (
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        '"a"',
        "1",
        "-1",
        "1e400",
        "1e-400",
        "0.1",
        "true",
        "null",
    ),
    *("\\", "\\u0000", "\\ud800", "\ud800", "\0", "NaN", "```", "\n", " ", "\u00e9"),
)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(SCHEMAS))
def test_any_text_has_a_verdict(pieces: list[str], schema: Any) -> None:
    assert _verdict(schema, "".join(pieces)) in ("pass", "wrong_answer", "not_json")


def test_a_broken_text_of_valid_json_has_a_verdict() -> None:
    randomness = random.Random(11)
    judges = [prepare(schema, {}, Dialect.DRAFT_2020_12) for schema in SCHEMAS]
    for _ in range(1_000):
        text = list(json.dumps({"a": [1, 2.5, {"b": "é\u2028"}], "c": None}, ensure_ascii=False))
        for _ in range(randomness.randrange(4)):
            text[randomness.randrange(len(text))] = chr(
                randomness.choice((0, 34, 48, 91, 125, 0xD800))
            )
        verdict = judge_json("".join(text), randomness.choice(judges)).verdict
        assert verdict in ("pass", "wrong_answer", "not_json")


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ('<think>{"a": "no"}</think>{"a": 1}', '{"a": 1}'),
        ('The user wants JSON: {"b": 2}\n</think>\n\n{"a": 1}', '{"a": 1}'),
        ('<think>\n```json\n{"b": 2}\n```\n</think>\n{"a": 1}', '{"a": 1}'),
        ('<think>x</think>\n```json\n{"a": 1}\n```', '{"a": 1}'),
        ('<answer>{"a": 1}</answer>', '{"a": 1}'),
        ('<think>x</think>\n<answer>\n```json\n{"a": 1}\n```\n</answer>', '{"a": 1}'),
        ('{"a": "<think>x</think>"}', '{"a": "<think>x</think>"}'),
        ('["</think>", "<answer>"]', '["</think>", "<answer>"]'),
        ('<think>{"a": 1}', ""),
        ('<think>\n```json\n{"a": 1}\n```\nor', ""),
        ('Well. <|channel|>analysis<|message|>```json\n{"a": 1}\n```', "Well."),
        ('[THINK]x[/THINK]{"a": 1}', '{"a": 1}'),
        ('[THINK]{"a": 1}', ""),
        ('<think>x</think>{"a": "</think>"}', '{"a": "</think>"}'),
        ('So:\n```json\n{"a": "<think>"}\n```', '{"a": "<think>"}'),
        ('The mark `<think>`:\n```json\n{"a": 1}\n```', '{"a": 1}'),
        ('I do it. <answer>{"a": "<answer>"}</answer>', '{"a": "<answer>"}'),
        ('<tool_call>\n{"a": 1}\n</tool_call>', '{"a": 1}'),
        ('Not <json>{"a": 1}</json>', 'Not <json>{"a": 1}</json>'),
        ('<answer>{"a": 1}', '<answer>{"a": 1}'),
        ('<answer>{"a": 1}</answer> or so', '<answer>{"a": 1}</answer> or so'),
    ],
)
def test_what_was_thought_aloud_and_a_tag_around_the_answer_are_no_json(
    response: str, found: str
) -> None:
    assert fenced(response).strip() == found


@given(values.filter(lambda value: isinstance(value, dict)))
def test_any_object_is_a_schema_or_is_refused(schema: Any) -> None:
    try:
        judge = prepare(schema, {}, Dialect.DRAFT_7)
    except SchemaRefused:
        return
    assert judge_json("{}", judge).verdict in ("pass", "wrong_answer")
