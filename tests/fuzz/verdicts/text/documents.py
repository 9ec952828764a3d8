"""JSON at the edge of its grammar, fences around it, and texts that only look like the answer."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

_SCHEMA: Final = {
    "type": "object",
    "required": ["a"],
    "properties": {"a": {"type": "integer", "minimum": 0}},
    "additionalProperties": {"type": "string"},
}
_FITS: Final = (
    '{"a": 1}', ' \n\t{"a" : 1}\r\n', '{"\\u0061": 1}', '{"a": 1E2}', '{"a": 1e0}', '{"a": -0}',
    '{"a": 1.0}', '{"a": 100000000000000000000000000}', '{"b": "x", "a": 7}', '{"a": "x", "a": 1}',
    '{"a": 1, "b": "\\ud83d\\ude00"}', '{"a": 1, "b": "\\ud800"}', '{"a": 1, "": ""}',
    '{"a": 1, "b": "\u2028\u202e\u200b"}', '{"a": 1, "__proto__": "x"}', '{"a":1,"b":"\\u0000"}',
    '{"a": 0.1e1}', '{"a": 1, "b": "```"}', '{"a": 1, "b": "{\\"a\\": -1}"}', '{"a": 3e400}',
)  # fmt: skip
_DIFFERS: Final = (
    '{"a": -1}', '{"a": 1.5}', '{"a": true}', '{"a": "1"}', '{"a": null}', '{"A": 1}', "{}", "[]",
    '{"\u0430": 1}', '{"a ": 1}', '{"a\\u200b": 1}', '[{"a": 1}]', '"{\\"a\\": 1}"', '{"a": [1]}',
    '{"a": 1, "a": "x"}', '{"a": 1, "b": 2}', '{"a": -1e-400}', '{"b": "a"}', "1", '"a"', "null",
)  # fmt: skip
_BROKEN: Final = (
    "{'a': 1}", '{"a": 1,}', '// no\n{"a": 1}', '{"a": 1} // no', '{"a": 1} end', '\ufeff{"a": 1}',
    '{"a": 01}', '{"a": .5}', '{"a": +1}', '{"a": 0x1}', '{"a": 1.}', '{"a": 1, "b": "x\ny"}',
    '{"a": Infinity}', '{"a": NaN}', '{"a": tru}', "undefined", "{a: 1}", '["a" "b"]', '{"a" = 1}',
    '{"a"; 1}', '{"a": 1}{"a": 1}', '{"a": 1}\n{"a": 1}', '\u200b{"a": 1}', "{\u201ca\u201d: 1}",
    '{"a": 1}\0', '{"a": 1,, "b": ""}', '{,"a": 1}', '{"a": 1, "b"}', '{"a": 1', '"a": 1', "", " ",
    '{"a": 1, "b": "\\x41"}', '{"a": 1, "b": "\\u12"}', '{"a": \u0661}', '{"a": \uff11}', '{"a": 1_0}',
    '{"a": 1n}', '{"a": 1f}', '{"a": --1}', '{"a": 1e}', '{"a": 1}\u00a0', "<json>{}</json>",
)  # fmt: skip
_FENCED: Final = (
    ("```json\n{bad}\n```\nBetter:\n```json\n{good}\n```", True),
    ("```json\n{good}\n```\nOr:\n```json\n{bad}\n```", False),
    ("```json\n{good}\n```\n```text\n{bad}\n```", True),
    ("```\n{bad}\n```\n```\n{good}\n```", True),
    ("```json\n{good}", True),
    ("~~~json\n{good}\n~~~", True),
    ("````json\n{good}\n````\nDone.", True),
    ("   ```JSON\n{good}\n   ```", True),
    ("```json\n{bad}\n```\n{good}", False),
    ("`{good}`", False),
    ("Here: {good}", False),
    ("{good}\nThat is it.", False),
    ("```json\n{good}\n{good}\n```", False),
    ("```json\n```\n{good}", False),
)
_WORDS: Final = ("Paris", "blue", "H2O", "x-ray", "New York")
_SAME: Final = ("{}", " {} ", "{}\n", "\t{}", "\u00a0{}\u3000")
_LIKE: Final = (
    "{}.", "{}!", "{}\u200b", "\u200b{}", "\u202e{}", "{}\u0336", "<b>{}</b>", "**{}**", "not {}",
    "{0} {0}", "{0}\n{0}", "{} or not", "{}\0", "\ufeff{}", "&#80;{}", "{}\u00ad", "(({}))", "{}s",
)  # fmt: skip


def document_case(rng: random.Random) -> Case:
    """A document and one schema: it fits, differs, is no JSON, or is in fences."""
    kind = one_of(rng, {"fits": 3, "differs": 3, "broken": 3, "fenced": 2})
    if kind == "fenced":
        shape, right = rng.choice(_FENCED)
        bad = rng.choice(_DIFFERS)
        text = shape.replace("{good}", rng.choice(_FITS[:3]).strip()).replace("{bad}", bad)
    else:
        text = rng.choice({"fits": _FITS, "differs": _DIFFERS, "broken": _BROKEN}[kind])
        right = kind == "fits"
    return Case(
        pipeline="json_schema",
        kind=f"document: {kind}",
        response=text,
        reference={"schema": _SCHEMA},
        expected=Expected.RIGHT if right else Expected.WRONG,
    )


def text_case(rng: random.Random) -> Case:
    """The very text, or one that looks like it; exact, or by a pattern of the whole."""
    word = rng.choice(_WORDS)
    right = rng.random() < 0.4
    pipeline = rng.choice(("exact", "regex"))
    if right:
        said = word if pipeline == "regex" else rng.choice(_SAME).format(word)
    else:
        said = rng.choice(_LIKE).format(word)
        if rng.random() < 0.2:
            said = word.replace("a", "\u0430").replace("e", "\u0435").replace("H", "\u041d")
            said = said if said != word else word.swapcase()
    reference: dict[str, object] = {"answers": [word]}
    if pipeline == "regex":
        reference = {"pattern": word, "whole": True}
    return Case(
        pipeline=pipeline,
        kind=f"text: {'same' if right else 'like'}",
        response=said,
        reference=reference,
        expected=Expected.RIGHT if right else Expected.WRONG,
    )
