"""Where a response puts its JSON, its query or its words: fences, thoughts, tags, lists, marks.

Each case is put together from pieces whose worth is known, so the verdict follows from the order of
the pieces and not from any reader.
"""

import random
from typing import Any, Final, NamedTuple

from tests.fuzz.verdicts.case import Case, Expected

_SCHEMA: Final = {
    "type": "object",
    "required": ["name", "age"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "additionalProperties": False,
}
_FITS: Final = (
    '{"name": "Ann", "age": 3}', '{\n  "name": "Ann",\n  "age": 3.0\n}', '{"name": "```", "age": 3}',
    '{"name": "</think>", "age": 3}', '{"name": "<think>", "age": -1}', '{"age": 0, "name": ""}',
    '{"name": "see ```json", "age": 7}', '{"name": "<answer>1</answer>", "age": 3}',
    '{\n\n"name": "a\\"b </think> c", "age": 2}', '{"name": "x<|im_end|>", "age": 1}',
)  # fmt: skip
_FAILS: Final = (
    '{"name": "Ann"}', '{"name": 5, "age": 3}', '["Ann", 3]', '{"name": "Ann", "age": "3"}', "{}",
    '{"name": "Ann", "age": 3,}', "{'name': 'Ann', 'age': 3}", '{"name": "Ann", "age": 3.5}',
    '{"name": "Ann", "age": 3} // done', '{"name": "Ann", "age": 3}{}', '{"name": "Ann", "age": NaN}',
    '{"name": "Ann", "\\u0430ge": 3}', '{"name": "Ann", "age": 3, "b": 1}', '{"name": "Ann", "age": 3',
)  # fmt: skip
_NAMED: Final = ("json", "JSON", " json", "json5", "jsonc", 'json title="a.json"', "{.json}")
_PLAIN: Final = ("", "text", "javascript", "output")
_OTHERS: Final = (
    ("python", "import json\ndata = json.loads(text)"), ("bash", "curl -d @a.json localhost"),
    ("yaml", "name: Ann\nage: 3"), ("xml", "<a/>"), ("python", 'print({"name": "Ann", "age": 3})'),
)  # fmt: skip
_OPENED: Final = ("", "", "", "- ", "1. ", "   ")
_BEHIND: Final = ("Output: ", "So: ", "**Answer:** ", "It is `name`: ")
_THOUGHTS: Final = (
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"), ("", "</think>"),
    ("<seed:think>", "</seed:think>"), ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)  # fmt: skip
_TAGS: Final = ("answer", "json", "tool_call", "output", "response")
_MARKS: Final = ("<|im_end|>", "</s>", "<|eot_id|>", "<\uff5cend\u2581of\u2581sentence\uff5c>")
_WORDS: Final = (
    "Here it is.",
    "Note that `age` is a number.",
    "1. First\n2. Second",
    "# A heading",
)


class _Block(NamedTuple):
    rank: int
    """2: named after JSON; 1: named after nothing; 0: after another language."""
    is_right: bool
    text: str


def _block(rng: random.Random, *, is_last: bool) -> _Block:
    rank = rng.choice((2, 2, 2, 1, 0))
    is_right = rank > 0 and rng.random() < 0.6
    content = rng.choice(_FITS if is_right else _FAILS)
    word = rng.choice(_NAMED if rank == 2 else _PLAIN)
    if rank == 0:
        word, content = rng.choice(_OTHERS)
    fence = rng.choice(("```", "```", "```", "````", "~~~"))
    opened = rng.choice(_BEHIND) if rank == 2 and fence == "```" and rng.random() < 0.2 else ""
    opened = opened if opened and word in ("json", "JSON", "json5") else rng.choice(_OPENED)
    closed = f"\n{fence}"
    if rank == 2 and rng.random() < 0.1:
        closed = fence
    elif is_last and rank == 2 and rng.random() < 0.15:
        closed = rng.choice(("", f"\n{fence[:2]}", f"\n{fence} That is it."))
    return _Block(rank, is_right, f"{opened}{fence}{word}\n{content}{closed}")


def json_place_case(rng: random.Random) -> Case:
    """JSON between words, other blocks, thoughts and tags."""
    kind = rng.choice(("blocks", "blocks", "blocks", "bare", "unended", "tag"))
    drafted = rng.choice(_FITS + _FAILS)
    draft = rng.choice(
        (f"```json\n{drafted}\n```", "so `name` is a string", f"maybe {drafted} then")
    )
    opening, ending = rng.choice(_THOUGHTS)
    before = f"{opening}{draft}\n{ending}" if rng.random() < 0.4 else ""
    if kind == "unended":
        text, is_right = f"{opening or '<think>'}\n```json\n{rng.choice(_FITS[:2])}\n```\n", False
    elif kind == "blocks":
        count = rng.randint(1, 3)
        blocks = [_block(rng, is_last=at + 1 == count) for at in range(count)]
        best = max(block.rank for block in blocks)
        is_right = [block for block in blocks if block.rank == best][-1].is_right
        parts = [part for block in blocks for part in (rng.choice((*_WORDS, "")), block.text)]
        ends_open = not blocks[-1].text.endswith(("```", "~~~"))
        text = before + "\n".join([*parts, *([] if ends_open else [rng.choice((*_WORDS, ""))])])
    else:
        is_right = rng.random() < 0.6
        content = rng.choice(_FITS if is_right else _FAILS)
        tag = rng.choice(_TAGS)
        lead = rng.choice(("", "I do it. ")) if tag == "answer" else ""
        tagged = f"{lead}<{tag}>\n{content}\n</{tag}>"
        text = f"{before}{tagged if kind == 'tag' else content}"
    if rng.random() < 0.2:
        text += rng.choice(_MARKS)
    if rng.random() < 0.1:
        text = text.replace("\n", "\r\n")
    return Case(
        pipeline="json_schema",
        kind=f"place: {kind}",
        response=text,
        reference={"schema": _SCHEMA},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


# -- queries -------------------------------------------------------------------------------------
_SETUP: Final = (
    "CREATE TABLE goods(id INT, name VARCHAR, size INT, place VARCHAR);"
    "INSERT INTO goods VALUES (1, 'ann', 3, 'x'), (2, 'bob', 5, 'y'), (3, 'cid', 3, 'y'),"
    " (4, 'dee', 5, 'x'), (5, 'eve', 1, 'x');"
)
_ASKED: Final = "SELECT name, size FROM goods WHERE place = 'x'"
_RIGHT: Final = (
    _ASKED, f"{_ASKED};", f"-- all of x; by name\n{_ASKED};", f"SELECT 1;\n{_ASKED};\n-- done",
    "WITH a AS (SELECT * FROM goods)\nSELECT name, size FROM a WHERE place = 'x'",
    'select "name" AS "Name", size\nfrom goods\nwhere (place IN (\'x\'))\norder by size desc;',
    "(SELECT name, size FROM goods WHERE place = 'x' AND size > 2) UNION ALL\n".strip("()\n")
    .replace(") UNION", " UNION") + " SELECT name, size FROM goods WHERE place = 'x' AND size <= 2",
)  # fmt: skip
_OTHER_ROWS: Final = (
    "SELECT name, size FROM goods", "SELECT name, size FROM goods WHERE place = 'y'", "SELECT 1",
    "SELECT size, name FROM goods WHERE place = 'x'", "SELECT * FROM goods WHERE place = 'x'",
    f"{_ASKED} LIMIT 2", "SELECT name, CAST(size AS VARCHAR) FROM goods WHERE place = 'x'",
)  # fmt: skip
_NO_RESULT: Final = (
    "CREATE INDEX by_place ON goods(place);", "-- Expected:\n-- ann | 3", "", "CREATE TABLE b(a INT);",
    "DROP TABLE goods;\nCREATE TABLE goods(id INT);", "ALTER TABLE goods ADD COLUMN more INT;",
)  # fmt: skip
_DONE: Final = "UPDATE goods SET size = 0 WHERE place = 'y'"
_LOOKS: Final = (
    "SELECT * FROM goods WHERE place = 'y';",
    "SELECT COUNT(*) FROM goods",
    "-- 2 rows",
)
_ORDERS: Final = (
    ("SELECT name FROM goods", "size DESC"), ("SELECT name, place FROM goods", "goods.size + 0"),
    ("SELECT g.name FROM goods AS g", "g.size"), ("SELECT name, size AS s FROM goods", "abs(size)"),
    ("SELECT name, goods.size FROM goods", "size DESC"), ("SELECT name, size FROM goods", "2"),
)  # fmt: skip


def query_place_case(rng: random.Random) -> Case:
    """A query among other blocks, a change and a look at it, rows that an order leaves open."""
    kind = rng.choice(("result", "result", "change", "ties"))
    reference: dict[str, Any] = {"databases": [{"setup": _SETUP}], "query": _ASKED}
    is_right = rng.random() < 0.6
    if kind == "ties":
        asked, order = rng.choice(_ORDERS)
        finer = order + rng.choice((", id", ", id DESC", ", name DESC", ""))
        turned = order.replace(" DESC", "") if "DESC" in order else f"{order} DESC"
        limit = rng.choice(("", "", " LIMIT 2", " LIMIT 4"))
        reference["query"] = f"{asked} ORDER BY {order}{limit}"
        by = finer if is_right else rng.choice((turned, "id", "name"))
        parts = [f"{asked} ORDER BY {by}{limit}"]
    elif kind == "change":
        reference |= {"query": _DONE, "check": "SELECT id, size FROM goods"}
        done = rng.choice((_DONE, f"{_DONE};", f"BEGIN;\n{_DONE};\nCOMMIT;"))
        undone = rng.choice((_DONE.replace("'y'", "'x'"), f"BEGIN; {_DONE}; ROLLBACK;"))
        parts = [*rng.choices(_LOOKS, k=rng.randint(0, 1)), done if is_right else undone]
        parts += rng.choices((*_LOOKS, ""), k=rng.randint(0, 2))
    else:
        parts = [rng.choice(_RIGHT if is_right else _OTHER_ROWS)]
        parts = [*rng.choices(_OTHER_ROWS + _NO_RESULT, k=rng.randint(0, 1)), *parts]
        parts += rng.choices(_NO_RESULT, k=rng.randint(0, 2))
    word = rng.choice(("sql", "SQL", "sqlite", "postgresql"))
    blocks = [f"```{word}\n{part}\n```" for part in parts]
    text = f"{rng.choice(('', 'So:', '# A'))}\n" + "\n\nThen:\n".join(blocks) + "\n\nThat is it."
    if len(parts) == 1 and rng.random() < 0.5:
        frame = rng.choice(("{}", "<answer>{}</answer>", "I see. <answer>\n{}\n</answer>",
                            "<sql>{}</sql>", "[SQL]\n{}\n[/SQL]", "{}<|im_end|>"))  # fmt: skip
        text = frame.replace("{}", parts[0])
    return Case(
        pipeline="sql",
        kind=f"place: {kind}",
        response=text,
        reference=reference,
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


# -- words ---------------------------------------------------------------------------------------
_GOLDS: Final = (
    "Paris", "H2O", "New York", "C++", "__init__", "a_b_c", "U.S.", "x = 5.", "Ph.D.", "3/4", "*args",
    "-5", "Yahoo!", "D'Arcy", "10%", "$5", "f'", "foo(bar)", "1, 2", "(a)", "O(n log n)", "\U0001f642",
)  # fmt: skip
_AROUND: Final = (
    "{}", "{}", "**{}**", "*{}*", "`{}`", '"{}"', "\u201c{}\u201d", "\\text{{}}", "$\\text{{}}$", "{}\u200b",
    "\\textbf{{}}", "\\mathrm{{}}", "```\n{}\n```", "```text\n{}\n```",
)  # fmt: skip
_SAID: Final = (
    "<answer>{}</answer>", "<answer>\n{}\n</answer>", "\\boxed{{}}", "$\\boxed{{}}$", "#### {}", "The answer is {}.",
    "Answer: {}", "**Answer:** {}", "I see.\n\nAnswer: {}", "Final answer: {}", "<think>Answer: Oslo</think>Answer: {}",
    "Answer: {}<|im_end|>", "Answer: {}\n\nI hope this helps!", "<b>Answer:</b> {}", "Answer: Oslo. Wait, actually, the answer is {}.",
)  # fmt: skip
_TAKEN_BACK: Final = (
    "\n\nWait, that is wrong.",
    "\n\nHmm, this is not correct.",
    "\nActually, ignore that.",
)
_WRONG_WORDS: Final = (
    "Oslo",
    "{} or Oslo",
    "not {}",
    "{0}{0}",
    "{}, Oslo",
    "{}x",
    "(not {})",
    "~~{}~~ Oslo",
)


def words_case(rng: random.Random) -> Case:
    """Words that a strategy finds, with marks around them; or other words, or taken back."""
    gold = rng.choice(_GOLDS)
    kind = rng.choice(("marked", "marked", "other", "taken back"))
    said = (
        gold
        if kind != "other"
        else rng.choice(_WRONG_WORDS).replace("{0}", gold).replace("{}", gold)
    )
    around, place = rng.choice(_AROUND), rng.choice(_SAID)
    if not _keeps(gold, around, place):
        around, place = "{}", "<answer>{}</answer>"
    text = place.replace("{}", around.replace("{}", said), 1)
    if kind == "taken back":
        text = f"Answer: {gold}{rng.choice(_TAKEN_BACK)}"
        kind = "taken back" if gold != "\U0001f642" else "emoji taken back"
    wrong = kind == "other" or kind == "taken back"
    right = Expected.EITHER if kind == "emoji taken back" else Expected.RIGHT
    return Case(
        pipeline="exact",
        kind=f"words: {kind}",
        response=text,
        reference={"answers": [gold]},
        expected=Expected.WRONG if wrong else right,
        settings={"strategies": ["tag", "boxed", "hashes", "answer_is", "answer_colon"]},
    )


def _keeps(gold: str, around: str, place: str) -> bool:
    """Whether the gold can be read in these marks at all: none of its own is one of them, nor is it
    layout itself, as a picture is."""
    marks = set("*_`'\"$\\!%&#~<\U0001f642") & set(gold)
    lines = "\n" in around and "answer>" not in place
    sentence = "answer is" in place and ("." in gold or lines)
    return not (marks or lines or sentence) or (around, place) == ("{}", "<answer>{}</answer>")


# -- long thoughts -------------------------------------------------------------------------------
_LONG_PIPELINES: Final[tuple[tuple[str, dict[str, Any], dict[str, Any], str, str], ...]] = (
    ("math", {"answers": ["10"]}, {}, "So \\boxed{10}.", "So \\boxed{11}."),
    ("choice", {"answer": "B"}, {}, "The answer is B.", "The answer is A."),
    ("exact", {"answers": ["Paris"]}, {"strategies": ["answer_colon"]}, "Answer: Paris", "Answer: Oslo"),
    ("json_schema", {"schema": _SCHEMA}, {}, f"```json\n{_FITS[0]}\n```", f"```json\n{_FAILS[0]}\n```"),
)  # fmt: skip
_LONG_CHARS: Final = 60_000
_THOUGHT: Final = (
    "Wait, 5 + 5 is 10. ",
    "Maybe A, maybe B.\n",
    '{"name": 1} ',
    "Answer: Oslo\n",
    "hm ",
)
_REASONING: Final = ("First, 5 + 5 is 10. ", "hm ", "So we go on, step by step.\n")


def long_thought_case(rng: random.Random) -> Case:
    """More thoughts than a reader reads, or as much reasoning without their marks, and an answer
    behind them, or none."""
    pipeline, reference, settings, right, wrong = rng.choice(_LONG_PIPELINES)
    opening, ending = rng.choice([one for one in _THOUGHTS if one[0]])
    said = rng.choice(_THOUGHT)
    kind = rng.choice(("right", "wrong", "unended"))
    if pipeline != "json_schema" and kind != "unended" and rng.random() < 0.5:
        opening, ending, said = "", "\n\n", rng.choice(_REASONING)
    behind = "" if kind == "unended" else ending + (right if kind == "right" else wrong)
    return Case(
        pipeline=pipeline,
        kind=f"long thought: {kind}",
        response=opening + said * (_LONG_CHARS // len(said)) + behind,
        reference=reference,
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
        settings=settings,
    )
