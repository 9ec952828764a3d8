"""Cases of the text pipelines: `choice`, `exact`, `regex`, `json_schema`."""

import json
import random
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

_SAID: Final = (
    "The answer is {0}.",
    "The answer is ({0}).",
    "Answer: {0}",
    "**Answer: {0}**",
    "{0}",
    "({0})",
    "{0}.",
    "\\boxed{{{0}}}",
    "\\boxed{{\\text{{{0}}}}}",
    "<answer>{0}</answer>",
    "The correct answer is {0}",
    "The answer is {0}: because it is so.",
    "Final answer: {0}",
    "After a long look at it, the answer is {0}.",
    "The answer is option {0}.",
    "The answer is **{0}**.",
    "I considered all of them.\n\nAnswer: ({0})",
)
_TURNED: Final = (
    "The answer is {0}, not {1}.",
    "I'd go with {0} instead of {1}.",
    "The answer is {0} rather than {1}.",
    "The answer is not {1}, it is {0}.",
    "{1} is wrong, so the answer is {0}.",
)
_DENIED: Final = (
    "The answer is not {1}.",
    "Answer: not {1}",
    "I'd go with {0} instead of {1}.",
    "The answer is {0} rather than {1}.",
    "It cannot be {1}. The answer is {0}.",
    "Not {1} but {0}.",
    "The answer is {0} and not {1}.",
)
_BOTH: Final = (
    "The answer is {0} or {1}.",
    "Answer: {0}, {1}",
    "\\boxed{{{0}, {1}}}",
    "{0} {1}",
    "The answer is {0} and {1}.",
    "<answer>{0}/{1}</answer>",
)
_OPENINGS: Final = (
    "{}",
    "<answer>{}</answer>",
    "\\boxed{{{}}}",
    "Answer: {}",
    "Answer:\n{}",
    "The answer is:\n{}",
    "Options:\n{}",
)
_ITEMS: Final = ("{}. {}", "{}) {}", "({}) {}", "{}: {}", "[{}] {}", "**{}.** {}", "{} - {}")
_FINALS: Final = ("\n\nThe answer is {}.", "\n\nAnswer: {}", "\nFinal answer: ({})")


_DIALECTS: Final = (
    ("http://json-schema.org/draft-04/schema#", "definitions"),
    ("http://json-schema.org/draft-06/schema#", "definitions"),
    ("http://json-schema.org/draft-07/schema#", "definitions"),
    ("https://json-schema.org/draft/2019-09/schema", "$defs"),
    ("https://json-schema.org/draft/2020-12/schema", "$defs"),
)


def choice_case(rng: random.Random) -> Case:
    """A multiple choice; `I` and `A` are labels too."""
    choices = rng.choice((list("ABCD"), list("ABCDE"), list("ABCDEFGHIJ")))
    right, other = rng.sample(choices, 2)
    kind = one_of(rng, {"said": 4, "turned": 1, "wrong": 3, "denied": 2, "both": 1, "options": 2})
    if kind == "options":
        return _options_case(rng, choices, right)
    shapes = {"said": _SAID, "turned": _TURNED, "wrong": _SAID, "denied": _DENIED, "both": _BOTH}[
        kind
    ]
    first, second = (other, right) if kind in {"wrong", "denied"} else (right, other)
    return Case(
        pipeline="choice",
        kind=f"choice: {kind}",
        response=rng.choice(shapes).format(first, second),
        reference={"answer": right, "choices": choices},
        expected=Expected.RIGHT if kind in {"said", "turned"} else Expected.WRONG,
    )


def _options_case(rng: random.Random, choices: list[str], right: str) -> Case:
    """The options repeated, with a final statement or without."""
    listed = choices[: rng.randint(2, len(choices))]
    item, parting = rng.choice(_ITEMS), rng.choice(("\n", "\n\n", "\n- "))
    if parting == "\n" and rng.random() < 0.4:
        rng.shuffle(listed)
    lines = (item.format(label, rng.choice(("5", "-7", "Rome", "$x^2$"))) for label in listed)
    opening = rng.choice(_OPENINGS)
    response = opening.format(parting.join(lines))
    ends = "answer>" not in opening and "boxed" not in opening and rng.random() < 0.5
    if ends:
        response += rng.choice(_FINALS).format(right)
    return Case(
        pipeline="choice",
        kind="choice: options and answer" if ends else "choice: options",
        response=response,
        reference={"answer": right, "choices": choices},
        expected=Expected.RIGHT if ends else Expected.WRONG,
    )


def exact_case(rng: random.Random) -> Case:
    """Text as it is."""
    word = "".join(rng.choice("abc äß\u202e{}\\'") for _ in range(rng.randint(1, 9))).strip() or "a"
    right = rng.random() < 0.5
    return Case(
        pipeline="exact",
        kind="exact",
        response=word if right else word + rng.choice(("x", "\0", "\ud800", ".")),
        reference={"answers": [word]},
        expected=Expected.RIGHT if right else Expected.WRONG,
    )


def regex_case(rng: random.Random) -> Case:
    """A pattern that responses try to keep busy."""
    number = rng.randint(100, 999)
    kind = one_of(rng, {"found": 2, "missing": 2, "busy": 0.2, "garbage": 1})
    response = {
        "found": f"it is <{number}>",
        "missing": f"it is <{number + 1}> {number}",
        "busy": "<" + "1" * 40 + "!",
        "garbage": "\ud800\0" + "<" * 2000,
    }[kind]
    return Case(
        pipeline="regex",
        kind=f"regex: {kind}",
        response=response,
        reference={"pattern": rf"<(?:{number})+>"},
        expected=Expected.RIGHT if kind == "found" else Expected.WRONG,
    )


def schema_case(rng: random.Random) -> Case:
    """A schema, and a document that is made to fit it, or not to."""
    schema, good, bad = _schema(rng, depth=rng.randint(0, 3))
    kind = one_of(rng, {"fits": 4, "differs": 4, "odd": 3, "deep": 0.5, "multiple": 1})
    drawn = {"odd": _odd, "deep": _deep, "multiple": _multiple}
    if kind in drawn:
        text, reference, expected = drawn[kind](rng)
    else:
        document = good if kind == "fits" else bad
        text = json.dumps(document, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1)))
        reference = {"schema": _referring(rng, schema, good)}
        expected = Expected.RIGHT if kind == "fits" else Expected.WRONG
    if rng.random() < 0.5:
        text = f"Here:\n```json\n{text}\n```\n"
    return Case(
        pipeline="json_schema",
        kind=f"schema: {kind}",
        response=text,
        reference=reference,
        expected=expected,
    )


def _schema(rng: random.Random, depth: int) -> tuple[Any, Any, Any]:
    """A schema, a value that it accepts, one that it refuses."""
    kind = rng.choice(
        ("integer", "string", "enum", "number") if depth == 0 else ("object", "array", "any")
    )
    if kind == "integer":
        low = rng.randint(-100, 100)
        return (
            {"type": "integer", "minimum": low},
            rng.choice((low, low + 5, float(low + 1))),
            rng.choice((low - 1, "x", low + 0.5)),
        )
    if kind == "string":
        return {"type": "string", "pattern": "^a+$"}, "aaa", rng.choice(("b", 5, "aab"))
    if kind == "enum":
        return (
            {"enum": [1, "one", None]},
            rng.choice((1, "one", None)),
            rng.choice((2, "two", True)),
        )
    if kind == "number":
        return (
            {"type": "number", "multipleOf": 0.5},
            rng.choice((1.5, 2, -0.5)),
            rng.choice((0.3, "0.5")),
        )
    inner, good, bad = _schema(rng, depth - 1)
    if kind == "object":
        schema = {
            "type": "object",
            "required": ["a"],
            "properties": {"a": inner},
            "additionalProperties": False,
        }
        return schema, {"a": good}, rng.choice(({"a": bad}, {}, {"a": good, "b": 1}, [good]))
    if kind == "array":
        return (
            {"type": "array", "items": inner, "minItems": 1},
            [good, good],
            rng.choice(([bad], [], {"a": good})),
        )
    return {"anyOf": [inner, {"const": "never said"}]}, good, bad


def _referring(rng: random.Random, schema: Any, good: Any) -> Any:
    """The same schema said by reference, in a dialect of its own."""
    if rng.random() < 0.6:
        return schema
    dialect, place = rng.choice(_DIALECTS)
    if "draft-04" in dialect and ("const" in json.dumps(schema) or ".0" in json.dumps(good)):
        dialect, place = _DIALECTS[1]
    return {"$schema": dialect, place: {"x": schema}, "allOf": [{"$ref": f"#/{place}/x"}]}


def _deep(rng: random.Random) -> tuple[str, dict[str, Any], Expected]:
    """Values within values, which a schema follows down to the innermost one."""
    depth = rng.choice((50, 150, 300, 600, 900))
    schema = rng.choice(
        (
            {"type": "object", "properties": {"a": {"$ref": "#"}}},
            {"type": ["object", "null"], "additionalProperties": {"$ref": "#"}},
            {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"$ref": "#"}}}]},
        )
    )
    is_right = rng.random() < 0.6
    innermost = "{}" if is_right else '"x"'
    text = '{"a": ' * depth + innermost + "}" * depth
    return text, {"schema": schema}, Expected.RIGHT if is_right else Expected.WRONG


def _multiple(rng: random.Random) -> tuple[str, dict[str, Any], Expected]:
    """A number of any size that is a multiple of another one, or almost."""
    divisor, power = rng.choice((1, 2, 5, 3, 7, 25)), rng.randint(-20, 5)
    times, more = rng.randint(1, 10**6), rng.choice((0, 1, 9, 30, 320, 700))
    is_right = rng.random() < 0.5
    number = f"{divisor * times}e{power + more}"
    if not is_right:
        number = f"{divisor * times * 10 + 1}e{power - 1}"
    schema = {"type": "number", "multipleOf": float(f"{divisor}e{power}")}
    return number, {"schema": schema}, Expected.RIGHT if is_right else Expected.WRONG


def _odd(rng: random.Random) -> tuple[str, dict[str, Any], Expected]:
    """Documents at the edge of JSON; whether they fit is known."""
    right, wrong = Expected.RIGHT, Expected.WRONG
    deep = rng.choice((100, 300, 900))
    odd: tuple[tuple[str, dict[str, Any], Expected], ...] = (
        ("1e400", {"schema": {"multipleOf": 0.01}}, right),
        ("1e308", {"schema": {"multipleOf": 1e-300}}, right),
        ("1" * 6000, {"schema": {"type": "integer"}}, right),
        ("1" * 6000, {"schema": {"type": "string"}}, wrong),
        ("[" * deep + "]" * deep, {"schema": {"type": "array"}}, right),
        ("[" * deep + "]" * deep, {"schema": {"type": "object"}}, wrong),
        ("[" * 100_000, {"schema": {"type": "array"}}, wrong),
        (
            '{"a": ' * deep + "1" + "}" * deep,
            {"schema": {"type": "object", "required": ["b"]}},
            wrong,
        ),
        ("NaN", {"schema": {}}, wrong),
        ("-Infinity", {"schema": {"type": "number"}}, wrong),
        ('"\\ud800"', {"schema": {"type": "string", "maxLength": 0}}, wrong),
        ('{"a": 1, "a": "x"}', {"schema": {"type": "array"}}, wrong),
        ("\0", {"schema": {"type": "null"}}, wrong),
        ("true", {"schema": {"type": "integer"}}, wrong),
        ("1.0", {"schema": {"type": "integer"}}, right),
        ("[1, true]", {"schema": {"uniqueItems": True}}, right),
        ("[1, 1.0]", {"schema": {"uniqueItems": True}}, wrong),
        ('{"' + "k" * 100_000 + '": 1}', {"schema": {"propertyNames": {"maxLength": 3}}}, wrong),
        (json.dumps(list(range(3000))), {"schema": {"uniqueItems": True}}, right),
    )
    return rng.choice(odd)
