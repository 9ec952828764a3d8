"""Blocks that the words around them withdraw, call wrong or strike through, and remarks behind words.

Sentences are put together from parts, so each says for sure whether its block still stands.
"""

import random
from typing import Any, Final, NamedTuple

from tests.fuzz.verdicts.case import Case, Expected

_SETUP: Final = "CREATE TABLE t(a INT); INSERT INTO t VALUES (1), (2), (3);"


class _Kind(NamedTuple):
    pipeline: str
    word: tuple[str, ...]
    nouns: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    reference: dict[str, Any]


_KINDS: Final = (
    _Kind("sql", ("sql", "SQL", "sqlite"), ("query", "code", "solution", "SQL", "version"),
          ("SELECT SUM(a) FROM t", "SELECT 6;", "-- all\nSELECT sum(a) AS s FROM t", "SELECT 1 + 2 + 3"),
          ("SELECT a FROM t", "SELECT MAX(a) FROM t", "SELECT '6'", "SELECT 6 FROM t", "SELECT sum(b) FROM t"),
          {"databases": [{"setup": _SETUP}], "query": "SELECT SUM(a) FROM t"}),
    _Kind("json_schema", ("json", "JSON", "jsonc"), ("JSON", "object", "output", "answer", "version"),
          ('{"a": 1}', '{\n  "a": 7\n}', '{"a": 0, "note": "wait, that is wrong"}', '{"a": 2, "s": "~~x~~"}'),
          ('{"a": "1"}', "{}", "[1]", '{"b": 1}', '{"a": 1,}'),
          {"schema": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}}),
    _Kind("code.python", ("python", "py", "python3"), ("code", "function", "program", "solution", "version"),
          ("def f(n):\n    return n + 1", "def f(n):\n    # that was wrong before\n    return 1 + n", "f = lambda n: n + 1"),
          ("def f(n):\n    return n", "def f(n):\n    return n + 2", "def f(n):\n    raise ValueError('wait')"),
          {"asserts": {"code": ["assert f(1) == 2", "assert f(5) == 6"]}}),
)  # fmt: skip
_SURPRISE: Final = ("Wait, ", "Oops, ", "Hmm, ", "No, ", "Actually, ", "Oh wait, ", "Sorry, ", "Hold on, ", "On second thought, ", "Hmm. Wait, ", "Oops! Sorry, ")  # fmt: skip
_NOT_SO: Final = ("wrong", "incorrect", "not right", "not correct", "a mistake", "clearly wrong")
_REASONS: Final = ("the second case is missing", "it has to be the other way round", "it leaves out the last one", "I mixed up two of them")  # fmt: skip
_AGAIN: Final = ("", "", " Let me redo this.", " Let me try again.", "\n\nLet me look again.", " Sorry for the confusion.")  # fmt: skip
_LEADS_ON: Final = ("", "So:", "Here is the corrected version:", "This should be right:", "Corrected:", "This one is correct:", "The right one:", "Now it is complete:", "Second attempt:", "## Final answer")  # fmt: skip
_SAYS_NOTHING: Final = (
    "", "", "That is it.", "This handles the empty case, too.", "That is correct.", "No error is raised here.", "It is used like this.",
    "Wrong inputs are left out.", "This is not wrong, only slow.", "Note that it would be wrong to sort first.", "Ignore the order of the rest.",
    "I do not think that more is needed.", "Do not forget to test it.", "Waiting is not needed.", "The first idea was wrong for long inputs, so I changed it.",
    "If it is wrong, tell me.", "I hope this helps!", "Some say that is wrong. It is not.", "Errors like this one are common; here there is none.",
    "Wait, that is wrong? I check it again: no, it is correct.", "It cannot be wrong, as all cases were tried.", "Please ignore the comments in it.",
)  # fmt: skip
_CALLS_WRONG: Final = (
    "{}Wrong{}", "{}Wrong:{}", "{}Incorrect NOUN:{}", "{}The wrong NOUN:{}", "{}Bad example:{}", "{}Do not do this:{}", "{}Don't write this:{}", "{}Never do this:{}",
    "{}What not to do:{}", "{}Here is an example of what not to do:{}", "{}A common mistake is:{}", "{}A common mistake:{}", "{}This is wrong:{}", "{}The following NOUN is wrong:{}",
    "{}\u274c Wrong:{}", "{}\u274c Before:{}", "{}Not this:{}", "{}Avoid this:{}", "{}Wrong answer:{}", "{}NOUN (incorrect):{}", "{}My first, wrong attempt. Wrong version:{}",
)  # fmt: skip
_FACES: Final = (("", ""), ("**", "**"), ("### ", ""), ("- ", ""), ("*", "*"), ("> ", ""))
_LEAVES: Final = ("", "So:", "Right:", "\u2705 Good:", "The mend for the wrong result:", "Correct NOUN:", "To avoid this mistake:", "Instead of a guess, I computed it:", "Do not worry about its length:", "### NOUN")  # fmt: skip
_STRIKES: Final = (("~~\n", "\n~~"), ("<del>\n", "\n</del>"), ("<s>\n\n", "\n\n</s>"), ("<strike>", "</strike>"), ("<!--\n", "\n-->"), ("~~", "~~"), ("~~Draft:\n", "\n~~"), ("<del>So:\n", "\nThat.</del>"))  # fmt: skip
_STRAY: Final = (
    "",
    "",
    "",
    "~~old~~ ",
    "about ~~ ten. ",
    "<del>a</del> ",
    "<!-- x --> ",
    "a<s>b</s> ",
)


def _withdrawal(rng: random.Random, noun: str) -> str:
    kind = rng.choice(("bare", "bare", "named", "named", "dropped", "dropped", "erred"))
    lead = rng.choice(_SURPRISE)
    reason = rng.choice((".", "!", f": {rng.choice(_REASONS)}.", f", because {rng.choice(_REASONS)}."))  # fmt: skip
    if kind == "bare":
        subject = rng.choice(("that is", "this is", "that was", "it is", "that's"))
        said = f"{lead}{subject} {rng.choice(_NOT_SO)}{reason}"
    elif kind == "named":
        subject = rng.choice((f"the {noun} above", f"the above {noun}", f"this {noun}", f"that {noun}", f"my {noun}", f"my last {noun}"))  # fmt: skip
        said = f"{rng.choice((lead, ''))}{subject} {rng.choice(('is', 'was'))} {rng.choice(_NOT_SO)}{reason}"
    elif kind == "dropped":
        verb = rng.choice(("ignore", "disregard", "please ignore", "please disregard", "scratch", "do not use", "forget"))  # fmt: skip
        what = rng.choice(("that", "this", "the above", f"the {noun} above", f"the above {noun}", f"the previous {noun}", "the block above", f"that {noun}"))  # fmt: skip
        said = f"{rng.choice((lead, ''))}{verb} {what}."
    else:
        said = f"{rng.choice((lead, ''))}I {rng.choice(('made a mistake', 'made an error', 'was wrong', 'have made a small mistake'))}."
    return said[0].upper() + said[1:] + rng.choice(_AGAIN)


def withdrawn_block_case(rng: random.Random) -> Case:
    """Up to three blocks, each left, withdrawn, called wrong or struck through."""
    kind = rng.choice(_KINDS)
    count = rng.choice((1, 1, 2, 2, 3))
    is_right, text, how = False, "", "left"
    for at in range(count):
        noun = rng.choice(kind.nouns)
        fits = rng.random() < 0.6
        content = rng.choice(kind.right if fits else kind.wrong)
        fence = rng.choice(("```", "```", "````", "~~~"))
        block = f"{fence}{rng.choice(kind.word)}\n{content}\n{fence}"
        fate = rng.choice(("left", "left", "left", "withdrawn", "called wrong", "struck"))
        before, behind = rng.choice(_LEAVES), rng.choice(_SAYS_NOTHING)
        if fate == "called wrong":
            before = rng.choice(_CALLS_WRONG).format(*rng.choice(_FACES))
        elif fate == "struck":
            block = block.replace("~~~", "```")
            opening, closing = rng.choice(_STRIKES)
            block, before = f"{opening}{block}{closing}", ""
        elif fate == "withdrawn":
            behind = _withdrawal(rng, noun)
        elif fate == "left" and rng.random() < 0.2:
            behind = f"{rng.choice(_STRAY)}{behind}"
        if fate == "withdrawn" and at + 1 < count:
            behind += rng.choice(("", "\n\n" + rng.choice(_LEADS_ON)))
            text += f"{before}\n{block}\n{behind}\n".replace("NOUN", noun)
            continue
        text += f"{before}\n{block}\n{behind}\n\n".replace("NOUN", noun)
        if fate == "withdrawn" and " block" not in behind:  # the response takes its answer back
            is_right = False
        elif fate == "left":
            is_right = fits
        how = fate
    return Case(
        pipeline=kind.pipeline,
        kind=f"blocks: {how}",
        response=text,
        reference=kind.reference,
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


# -- remarks -------------------------------------------------------------------------------------
_GOLDS: Final = ("Paris", "New York", "H2O", "O(n log n)", "blue whale", "1984", "a binary tree", "Ann", "x86", "42 km", "Ada Lovelace")  # fmt: skip
_OTHERS: Final = ("Oslo", "gold", "O(n)", "a stack", "Bob", "2001")
_PLACES: Final = ("The answer is {}.", "Answer: {}", "Answer: {}.", "<answer>{}</answer>", "#### {}", "**Answer:** {}", "Final answer: {}", "So the answer is {}.")  # fmt: skip
_SOURCE: Final = ("the text", "the passage", "step 2", "table 1", "section 3", "line 4", "the figure", "the article")  # fmt: skip
_CAUSES: Final = ("the text says that", "all others are too small", "it came first", "it is named in the first line", "no other one fits")  # fmt: skip
_DOUBTFUL: Final = (" or {o}", " (or {o})", ", maybe {o}", " (maybe)", ", not sure", " (I guess)", ", but {o} is possible", " and {o}", ", {o}", "? Or {o}", ", because I guess so", ", since it could be {o}", " (not {g})", ", not {g}", " (wrong)", ", so {o}", ". Wait, {o}", " instead of the answer {o}", ", otherwise {o}", "x", " (the first)")  # fmt: skip


def _remark(rng: random.Random, other: str) -> str:
    source, cause = rng.choice(_SOURCE), rng.choice(_CAUSES)
    said = rng.choice((
        f"see {source}", "see above", f"from {source}", f"as shown in {source}", "as shown above", "as stated above", "as required", f"according to {source}",
        "final answer", f"because {cause}", f"since {cause}", f"not {other}", f"rather than {other}", "as explained above", f"by {source}", "QED",
    ))  # fmt: skip
    if rng.random() < 0.1:
        return f" [{rng.randint(1, 9)}]"
    return rng.choice((f" ({said})", f", {said}", f" - {said}", f" \u2014 {said}"))


def remark_case(rng: random.Random) -> Case:
    """Words for `exact` with a remark behind them, with a doubt, or other words with a remark."""
    gold, other = rng.choice(_GOLDS), rng.choice(_OTHERS)
    kind = rng.choice(("remark", "remark", "doubt", "other"))
    said = gold if kind != "other" else other
    face = rng.choice(("{}", "{}", "**{}**", "`{}`", '"{}"'))
    behind = rng.choice(_DOUBTFUL).format(o=other, g=gold) if kind == "doubt" else _remark(rng, "Rome")  # fmt: skip
    return Case(
        pipeline="exact",
        kind=f"remarks: {kind}",
        response=rng.choice(_PLACES).replace("{}", face.replace("{}", said) + behind),
        reference={"answers": [gold]},
        expected=Expected.RIGHT if kind == "remark" else Expected.WRONG,
        settings={"strategies": ["tag", "boxed", "hashes", "answer_is", "answer_colon"]},
    )
