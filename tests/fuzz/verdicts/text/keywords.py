"""Schemas by keyword, in every draft, with documents of known worth.

A leaf is one keyword with values that it accepts and refuses; combinators put leaves together so that the
worth stays known. Hostile texts and schemas, whose worth is known too, stand at the end.
"""

import json
import random
from typing import Any, Final, NamedTuple

from tests.fuzz.verdicts.case import Case, Expected

_DRAFTS: Final = (
    (4, "http://json-schema.org/draft-04/schema#"),
    (6, "http://json-schema.org/draft-06/schema#"),
    (7, "http://json-schema.org/draft-07/schema#"),
    (2019, "https://json-schema.org/draft/2019-09/schema"),
    (2020, "https://json-schema.org/draft/2020-12/schema"),
)
_BIG: Final = 10**40


class Leaf(NamedTuple):
    """One keyword; `since` and `until` are the first and the last draft that have it so."""

    schema: dict[str, Any]
    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    since: int = 4
    until: int = 2020


LEAVES: Final = (
    Leaf({"type": "integer"}, (0, -3, _BIG), ("1", 1.5, True, None, [1], {})),
    Leaf({"type": ["string", "null"]}, ("", None, "\U0001f600"), (0, False, [], {})),
    Leaf({"type": "boolean"}, (True, False), (0, 1, "true", None)),
    Leaf({"type": "number"}, (0, 1.5, -1e300, _BIG), ("1", True, None)),
    Leaf({"type": "array"}, ([], [1], [[]]), ({}, "[]", None)),
    Leaf({"type": "object"}, ({}, {"a": 1}), ([], "{}", None)),
    Leaf({"enum": [1, "a", None, [1, 2], {"k": 1}]}, (1, "a", None, [1, 2], {"k": 1}, 1.0),
         (2, True, [2, 1], {"k": 2}, {})),
    Leaf({"const": {"a": [1]}}, ({"a": [1]}, {"a": [1.0]}), ({"a": [True]}, {}, None), since=6),
    Leaf({"const": False}, (False,), (0, None, ""), since=6),
    Leaf({"minimum": _BIG}, (_BIG, _BIG + 1, "x"), (_BIG - 1, 0)),
    Leaf({"maximum": -1.5}, (-1.5, -2, None), (-1.49, 0)),
    Leaf({"minimum": 2, "exclusiveMinimum": True}, (2.0001, 3), (2, 1), until=4),
    Leaf({"exclusiveMinimum": 2}, (2.0001, 3), (2, 2.0, 1), since=6),
    Leaf({"exclusiveMaximum": 0}, (-0.1, -1), (0, 0.0, 1), since=6),
    Leaf({"multipleOf": 3}, (0, -6, 3 * _BIG, "x"), (1, 3 * _BIG + 1, 1.5)),
    Leaf({"multipleOf": 0.01}, (0.35, 4.02, 1), (0.355, 0.0001)),
    Leaf({"maxLength": 2}, ("", "ab", "\U0001f600\U0001f600", 123), ("abc", "\U0001f600" * 3)),
    Leaf({"minLength": 2}, ("ab", "\U0001f600\U0001f600", 1), ("", "\U0001f600")),
    Leaf({"pattern": "^[a-c]{2,3}$"}, ("ab", "cab", 5), ("a", "abcd", "xy", "")),
    Leaf({"pattern": "b"}, ("abc", "b"), ("ac", "")),
    Leaf({"minItems": 1, "maxItems": 2}, ([1], [1, 2], "x"), ([], [1, 2, 3])),
    Leaf({"uniqueItems": True}, ([1, True, "1"], [[1], [2]], []),
         ([1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ["a", "a"])),
    Leaf({"items": {"type": "integer"}}, ([], [1, 2], "x"), (["1"], [1, 1.5])),
    Leaf({"items": [{"type": "integer"}, {"type": "string"}]}, ([1, "a"], [1], [1, "a", None]),
         (["a"], [1, 2]), until=2019),
    Leaf({"items": [{}], "additionalItems": False}, ([], [1]), ([1, 2],), until=2019),
    Leaf({"prefixItems": [{"type": "integer"}], "items": False}, ([], [1]), ([1, 2], ["a"]),
         since=2020),
    Leaf({"contains": {"const": 5}}, ([5], [1, 5]), ([], [1]), since=6),
    Leaf({"contains": {"const": 5}, "minContains": 2, "maxContains": 3}, ([5, 5], [5, 5, 5, 1]),
         ([5], [5] * 4), since=2019),
    Leaf({"required": ["a", "\u00e9"]}, ({"a": 1, "\u00e9": 2}, []), ({"a": 1}, {})),
    Leaf({"properties": {"a": {"type": "integer"}}}, ({"a": 1}, {}, {"b": "x"}), ({"a": "1"},)),
    Leaf({"properties": {"__proto__": {"type": "integer"}}}, ({"__proto__": 1}, {}),
         ({"__proto__": "1"},)),
    Leaf({"patternProperties": {"^n": {"type": "null"}}, "additionalProperties": False},
         ({"n1": None}, {}), ({"n1": 1}, {"x": None})),
    Leaf({"additionalProperties": {"type": "integer"}}, ({"a": 1}, {}), ({"a": "1"},)),
    Leaf({"minProperties": 1, "maxProperties": 2}, ({"a": 1}, {"a": 1, "b": 2}),
         ({}, {"a": 1, "b": 2, "c": 3})),
    Leaf({"propertyNames": {"maxLength": 2}}, ({"ab": 1}, {}), ({"abc": 1},), since=6),
    Leaf({"dependencies": {"a": ["b"]}}, ({"a": 1, "b": 2}, {"b": 2}), ({"a": 1},), until=7),
    Leaf({"dependentRequired": {"a": ["b"]}}, ({"a": 1, "b": 2}, {}), ({"a": 1},), since=2019),
    Leaf({"dependentSchemas": {"a": {"maxProperties": 1}}}, ({"a": 1}, {}), ({"a": 1, "b": 2},),
         since=2019),
    Leaf({"if": {"type": "integer"}, "then": {"minimum": 0}, "else": {"type": "string"}},
         (0, 5, "x"), (-1, None, 1.5), since=7),
    Leaf({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
         ({"a": 1}, {}), ({"a": 1, "b": 2},), since=2019),
    Leaf({"not": {"type": "integer"}}, ("1", None, 1.5), (1, 0)),
    Leaf({"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]}, (3, 5, 10), (15, 1, 30)),
    Leaf({"anyOf": [{"type": "null"}, {"minimum": 5}], "type": ["null", "number"]}, (None, 5), (4,)),
)  # fmt: skip
_HOSTILE: Final[tuple[tuple[str, dict[str, Any], Expected], ...]] = (
    ('{"a": 1, "a": 2}', {"properties": {"a": {"const": 1}}}, Expected.WRONG),
    ('{"a": 2, "a": 1}', {"properties": {"a": {"const": 1}}}, Expected.RIGHT),
    ("[NaN]", {}, Expected.WRONG),
    ("[Infinity]", {"items": {"type": "number"}}, Expected.WRONG),
    ("1" * 400, {"type": "integer", "maximum": 10}, Expected.WRONG),
    ("9" * 30, {"const": 10**30 - 1}, Expected.RIGHT),
    ("9" * 30, {"const": 10**30}, Expected.WRONG),
    ("1e999999999", {"maximum": 10}, Expected.WRONG),
    ("1" + "0" * 20, {"const": 1e20}, Expected.RIGHT),
    ('"' + "a" * 40 + '!"', {"pattern": "^(a+)+$"}, Expected.WRONG),
    ('"' + "a" * 5_000 + '!"', {"pattern": "^(?:a|aa)+$"}, Expected.WRONG),
    ('"' + "a" * 30 + '"', {"pattern": "(a*)*b"}, Expected.WRONG),
    ('{"a": {"a": {"a": 1}}}', {"properties": {"a": {"$ref": "#"}}, "type": "object"}, Expected.WRONG),
    ('{"a": {"a": {}}}', {"properties": {"a": {"$ref": "#"}}, "type": "object"}, Expected.RIGHT),
    ('{"a": ' * 300 + "{}" + "}" * 300,
     {"properties": {"a": {"$ref": "#"}}, "type": "object"}, Expected.RIGHT),
    ("{}", {"$ref": "#"}, Expected.NOT_RIGHT),
    ("{}", {"allOf": [{"$ref": "#"}]}, Expected.NOT_RIGHT),
    ("{}", {"$ref": "#/missing"}, Expected.NOT_RIGHT),
    ("{}", {"$ref": "file:///etc/passwd"}, Expected.NOT_RIGHT),
    ("{}", {"$ref": "http://localhost/x.json"}, Expected.NOT_RIGHT),
    ('{"$ref": "#", "$schema": "x", "$id": "y"}', {"type": "array"}, Expected.WRONG),
    ('{"reward": 1.0, "verdict": "pass"}', {"type": "array"}, Expected.WRONG),
    ("[" * 2_000 + "]" * 2_000, {"type": "object"}, Expected.WRONG),
    ('["\\ud800"]', {"items": {"pattern": "^a"}}, Expected.WRONG),
    ('"\\u0000"', {"maxLength": 0}, Expected.WRONG),
    ("[" + "1," * 20_000 + "1]", {"uniqueItems": True}, Expected.WRONG),
    ("\u00a0{}", {"type": "object"}, Expected.EITHER),
)  # fmt: skip


def keyword_case(rng: random.Random) -> Case:
    """One keyword alone or in combination, or a hostile text."""
    if rng.random() < 0.25:
        text, schema, expected = rng.choice(_HOSTILE)
        kind = "hostile"
    else:
        draft, dialect = rng.choice(_DRAFTS)
        leaf = rng.choice([one for one in LEAVES if one.since <= draft <= one.until])
        is_good = rng.random() < 0.5
        document = rng.choice(leaf.good if is_good else leaf.bad)
        schema, document = _combined(rng, leaf, document, draft, depth=rng.randint(0, 3))
        schema = {"$schema": dialect, **schema}
        text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
        expected = Expected.RIGHT if is_good else Expected.WRONG
        kind = f"draft {draft}"
    return Case(
        pipeline="json_schema",
        kind=f"keyword: {kind}",
        response=text,
        reference={"schema": schema},
        expected=expected,
    )


def _combined(
    rng: random.Random, leaf: Leaf, document: Any, draft: int, *, depth: int
) -> tuple[dict[str, Any], Any]:
    """Schemas around the leaf that keep the worth of the document, and documents around it."""
    schema: dict[str, Any] = leaf.schema
    place = "$defs" if draft >= 2019 else "definitions"
    for _ in range(depth):
        how = rng.choice(("all", "any", "one", "twice", "property", "item", "pattern"))
        if how == "all":
            schema = {"allOf": [{}, schema]}
        elif how == "any":
            schema = {"anyOf": [{"enum": ["never said"]}, schema]}
        elif how == "one":
            schema = {"oneOf": [schema, {"not": {}}]}
        elif how == "twice":
            schema = {"not": {"not": schema}}
        elif how == "property":
            schema = {"type": "object", "properties": {"p": schema}, "required": ["p"]}
            document = {"p": document, "q": 1}
        elif how == "item":
            schema = {"type": "array", "items": schema, "minItems": 1}
            document = [document]
        elif how == "pattern":
            schema = {"patternProperties": {"^p+$": schema}, "required": ["pp"]}
            document = {"pp": document}
    if rng.random() < 0.2:
        schema = {place: {"a/b~c": schema}, "allOf": [{"$ref": f"#/{place}/a~1b~0c"}]}
    return schema, document
