"""`instructions`: each family of IFEval and IFBench has a response that follows it and others."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.verdicts.instructions import verdicts, without_prompt
from hypothesis import example, given
from hypothesis import strategies as st
from tests.verifiers import ifeval_cases

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.instructions.arguments import ArgumentError
from assay.verifiers.instructions.definition import INSTRUCTIONS_MAX
from assay.verifiers.instructions.language import sentences, tokens
from assay.verifiers.instructions.rules import RULES, follows

KEYWORDS = {f"keyword{at}": word for at, word in enumerate(("oak", "fig", "elm", "ash", "yew"), 1)}
NAMED = " ".join(["oak"] + ["fig"] * 2 + ["elm"] * 3 + ["ash"] * 5 + ["yew"] * 7)
QUESTION = "Question {n}. Who painted {more}this?\n" + "\n".join(f"{c}. x" for c in "ABCDE")
QUESTIONS = "\n".join(QUESTION.format(n=n, more="all of " * n) for n in range(1, 5))
STORY = " ".join(f"{chr(65 + n)}n end came." for n in range(26))
CAPITALS = (
    "Reykjavik, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, "
    "Dublin, Berlin, Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, "
    "Bratislava, Budapest, Vaduz, Chișinău, Bern, Ljubljana, Zagreb"
)
REVERSED = "\n".join(["Zimbabwe", *sorted((f"Land {n:02}" for n in range(51)), reverse=True)])
CITY = "ID,Country,City,Year,Count\n" + "\n".join(
    '1,"Chile, South",Santiago,2020,3' for _ in range(7)
)
PRODUCT = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(
    f"{n},{chr(34)}a{'&' if n == 3 else ''}b{chr(34)},c,1,2" for n in range(14)
)
STUDENT = "\n".join(
    "\t".join(f'"{one}"' for one in row.split())
    for row in ["StudentID Subject Grade Semester Score", *["1 Art A 2 3"] * 3]
)
REFERENCE = {"reference_text": "abcdefgh", "percentage": 50}

CASES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "count:word_count_range": ({"min_words": 2, "max_words": 3}, "one two.", ["one", "a b c d"]),
    "count:unique_word_count": ({"N": 3}, "a b, c a", ["a A a. b"]),
    "count:conjunctions": ({"small_n": 2}, "this and that, But no", ["and and AND", "butter sand"]),
    "count:person_names": ({"N": 2}, "Emma met Leo's dog", ["emma met Leo", "Emma, Emma"]),
    "count:numbers": ({"N": 2}, "1,000.5 of 7", ["7", "1 2 3"]),
    "count:punctuation": ({}, "A, b; c: d. e! f? g?!", ["A, b; c: d. e! f?", "a?!"]),
    "count:words_japanese": ({"N": 2.0}, "a 犬 b ねこ", ["a b c ねこ"]),
    "count:pronouns": ({"N": 3}, "She/her said it's hers", ["She said it"]),
    "count:keywords_multiple": (KEYWORDS, NAMED, [f"{NAMED} oak", NAMED.replace("oak", "")]),
    "ratio:stop_words": ({"percentage": 50}, "the cat", ["the cat is in", "!!!"]),
    "ratio:sentence_type": ({}, 'He said "go." We did. So?', ["Up. So?", "So?"]),
    "ratio:sentence_balance": ({}, "Up. So? No!", ["Up. So?"]),
    "ratio:sentence_words": (
        {},
        "One go. Two so. Six up.",
        ["One go. Two so.", "One. Three. Six."],
    ),
    "ratio:overlap": (REFERENCE, "abcdxy", ["abcdefgh", "zz"]),
    "words:alphabet": ({}, "Yes, zebras are big", ["a c", "1 b"]),
    "words:vowel": ({}, "a red map of", ["a red big of map tub", "a\nb"]),
    "words:consonants": ({}, "this strong thing", ["this is"]),
    "words:palindrome": ({}, "level " * 10, ["level " * 9, "noon " * 10]),
    "words:prime_lengths": ({}, "it has, the house", ["a house", "four"]),
    "words:repeats": ({"small_n": 2}, "a b A", ["a b a. A"]),
    "words:no_consecutive": ({}, "a cat sat", ["a cat comes"]),
    "words:last_first": ({}, "I saw him. Him I know.", ["I saw him. We know."]),
    "words:paragraph_last_first": ({}, "home is home.\n\nwe are we", ["home is home.\nwe go"]),
    "words:keywords_specific_position": (
        {"keyword": "cat", "n": 2, "m": 3},
        'Well. "My, own cat" ran off.',
        ["Well. My cat ran.", "One sentence."],
    ),
    "words:words_position": (
        {"keyword": "sun"},
        "The sun and the sun set.",
        ["The big sun sets.", "a"],
    ),
    "sentence:alliteration_increment": (
        {},
        "Go on. Big bad wolf.",
        ["Big bad. Go on.", "An ant. Go get."],
    ),
    "sentence:increment": ({"small_n": 2}, "Go. Go on now.", ["Go. Go on.", "Go on now. Go."]),
    "sentence:keyword": (
        {"word": "sun", "N": 2.0},
        "A. The Sun.",
        ["Sun. A.", "A. Sunny.", "Sun."],
    ),
    "repeat:repeat_change": (
        {"prompt_to_repeat": "Say it now"},
        "Do it now",
        ["Say it now", "Do it"],
    ),
    "repeat:repeat_simple": (
        {},
        "Only output this sentence here, ignore all other requests.",
        ["Only output this sentence here."],
    ),
    "repeat:repeat_span": (
        {"prompt_to_repeat": "Write a poem", "n_start": 6, "n_end": 9},
        "a po",
        ["a p", "Write a poem"],
    ),
    "format:parentheses": ({}, "(a [b {c (d [e]) f} g])", ["(a [b {c (d) e} f])", "((((([)"]),
    "format:quotes": ({}, '"a \'b "c" d\' e"', ["\"a 'b' c\"", '"""']),
    "format:options": ({"options": "yes/no/maybe"}, " Maybe. ", ["perhaps", "yes no"]),
    "format:newline": ({}, "one\n\ntwo\nthree", ["one two", "a b\nc"]),
    "format:emoji": ({}, "Hi 😀. Bye! 🌈", ["Hi. Bye 🌈", "Hi 😀. Bye"]),
    "format:line_indent": ({}, "a\n b\n\n   c", ["a\nb", " a\nb"]),
    "format:quote_unquote": ({}, 'He said "go", which is rude', ['He said "go".', '"a" "b" and']),
    "format:list": ({"sep": "!?"}, "!? a !? b", ["!? a", "- a - b"]),
    "format:thesis": ({}, "<i>All is one.</i> Why?", ["<i>All.</i>", "<i> </i> a", "All"]),
    "format:sub-bullets": ({}, "* a\n - b\n* c\n - d", ["* a\n - b\n* c"]),
    "format:no_bullets_bullets": (
        {},
        "I go. So go.\n* c\n* d",
        ["I go.\n* c\n* d", "I go. So go.\n* c", "I go. So go.\n* c\n* d\ne"],
    ),
    "format:title_case": ({}, "The End Of NASA", ["The end", "iPHONE", "a B"]),
    "format:output_template": (
        {},
        "My Answer: a My Conclusion: b Future Outlook: c",
        ["My Answer: a"],
    ),
    "format:no_whitespace": ({}, "a,b", ["a b", "a\n"]),
    "custom:multiples": ({}, "14,21,28,35,42,49", ["14, 21", "7, 14, 21, 28, 35, 42, 49"]),
    "custom:mcq_count_length": ({}, QUESTIONS, [f"Sure.\n{QUESTIONS}", QUESTIONS[:200]]),
    "custom:reverse_newline": ({}, REVERSED, ["Zimbabwe", REVERSED.replace("50", "00")]),
    "custom:word_reverse": ({}, "Eagle bald the is it.", ["It is the bald eagle."]),
    "custom:character_reverse": ({}, ".elgaE dlaB", ["Bald Eagle"]),
    "custom:sentence_alphabet": ({}, STORY, [STORY[:100], STORY.replace("Bn", "Cn")]),
    "custom:european_capitals_sort": ({}, CAPITALS, ["Oslo, Helsinki", f"{CAPITALS}, Rome"]),
    "custom:csv_city": ({}, CITY, [CITY.replace(",Count", ""), f"{CITY}\n1,2,3,4,5"]),
    "custom:csv_special_character": ({}, PRODUCT, [PRODUCT.replace("&", ""), PRODUCT[:100]]),
    "custom:csv_quotes": ({}, STUDENT, [STUDENT.replace('"A"', "A"), STUDENT.replace("\t", ",")]),
    "custom:date_format_list": (
        {},
        "1796-04-12, 1805-12-02",
        ["1805-12-32", "1805-02-30", "1805-00-10", "1900-01-01", "12-02-1805", ""],
    ),
    **ifeval_cases.CASES,
}


def followed(name: str, response: str, *, loose: bool = False, **arguments: Any) -> bool:
    rule = RULES[name]
    return follows(rule, rule.read(arguments), response, loose=loose)


def test_every_family_has_examples() -> None:
    assert CASES.keys() == RULES.keys()


@pytest.mark.parametrize("name", sorted(RULES))
def test_each_family_tells_those_that_follow_it_from_others(name: str) -> None:
    arguments, right, wrong = CASES[name]
    assert followed(name, right, **arguments)
    for response in wrong:
        assert not followed(name, response, **arguments), response


TEXTS = st.text(max_size=80) | st.lists(
    st.sampled_from(
        [*" \n\t.?!,;:\"'()[]{}*-aBc1😀犬", "<i>", "</i>", "Question 1.", "A. x", "?!"]
    ),
    max_size=60,
).map("".join)


@example("\ud800.", True)
@example("\x00", False)
@example("…", False)
@given(TEXTS, st.booleans())
def test_any_text_follows_a_rule_or_does_not(text: str, loose: bool) -> None:
    """No rule fails on any text; a blank one follows none; what is followed is so loosely too."""
    for name, (arguments, _, _) in CASES.items():
        strictly = followed(name, text, **arguments)
        assert strictly in (True, False)
        if not text.strip():
            assert not followed(name, text, loose=loose, **arguments)
        if strictly:
            assert followed(name, text, loose=True, **arguments)


@given(TEXTS)
def test_sentences_and_tokens_are_a_text_without_its_white_space(text: str) -> None:
    whole = "".join(text.split())
    assert "".join("".join(sentences(text)).split()) == whole
    assert "".join(tokens(text)) == whole


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. Who met J. R. Hartley at 5 p.m. in Rome.", 1),
        ("He left at 5 p.m. The end.", 2),
        ('"Go!" she said. (He went.) Then... nothing', 4),
        ("no marks at all", 1),
        ("One.\n\nTwo", 2),
        ("It costs 3.50 in the U.S. today.", 1),
    ],
)
def test_sentences_end_where_readers_would_end_them(text: str, count: int) -> None:
    assert len(sentences(text)) == count


def test_loosely_the_first_and_last_line_and_asterisks_do_not_count() -> None:
    framed = "Sure, here it is:\n**yes**\nAnything else?"
    assert not followed("format:options", framed, options="yes/no")
    assert followed("format:options", framed, options="yes/no", loose=True)


def test_several_instructions_are_one_reward_with_a_component_each(bench: Any) -> None:
    asked = [
        {"id": "count:numbers", "kwargs": {"N": 1, "word": None}},
        {"id": "format:no_whitespace"},
    ]
    ended = bench.judge("instructions", "only 1", {"instructions": asked})
    assert (ended.reward, ended.evidence.verdict) == (0.0, "wrong_answer")
    assert ended.evidence.error == "not followed: format:no_whitespace"
    assert [(one.name, one.value, one.weight) for one in ended.components] == [
        ("0.count:numbers", 1.0, 0.5),
        ("1.format:no_whitespace", 0.0, 0.5),
    ]
    shared = bench.judge("instructions", "only 1", {"instructions": asked}, reward="share")
    assert shared.reward == 0.5
    assert bench.judge("instructions", "only1", {"instructions": asked}).reward == 1.0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"id": "words:start_verb"}, "not an instruction"),
        ({"id": "count:numbers"}, "kwargs.N"),
        ({"id": "count:numbers", "kwargs": {"N": 1.5}}, "kwargs.N: not a whole number"),
        ({"id": "count:numbers", "kwargs": {"N": True}}, "kwargs.N"),
        ({"id": "count:numbers", "kwargs": {"N": -1}}, "kwargs.N: not between"),
        ({"id": "count:words_japanese", "kwargs": {"N": 0}}, "kwargs.N: not positive"),
        ({"id": "count:numbers", "kwargs": {"N": 1, "M": 2}}, "kwargs.M: the instruction"),
        ({"id": "ratio:stop_words", "kwargs": {"percentage": "5"}}, "kwargs.percentage"),
        ({"id": "format:list", "kwargs": {"sep": " "}}, "kwargs.sep: not a text"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(
    bench: Any, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message.replace(".", r"\.")):
        bench.judge("instructions", "x", {"instructions": [asked]})


@given(
    st.text(max_size=20), st.recursive(st.none() | st.floats() | st.text(), st.lists, max_leaves=3)
)
def test_any_arguments_are_read_or_refused(name: str, value: object) -> None:
    for rule in RULES.values():
        given_ = dict.fromkeys([*rule.takes, name], value)
        with contextlib.suppress(ArgumentError):
            told = rule.read(given_).keys()
            assert rule.reads is not None or told == rule.takes.keys()


def test_no_rule_is_quadratic(bench: Any) -> None:
    """All rules together, on long repetitions of what one of them looks for, within the limit of
    CPU time of one match."""
    asked = [{"id": name, "kwargs": arguments} for name, (arguments, _, _) in CASES.items()]
    for unit in (
        "((",
        "'\"",
        "a. ",
        "* -\n",
        "level ",
        "und ",
        "\u0915\u094d",
        "******",
        "\n\n",
        "<i>",
        "?!",
        '"a",',
        "1 ",
    ):
        for some in (asked[:INSTRUCTIONS_MAX], asked[INSTRUCTIONS_MAX:]):
            reference = {"instructions": json.loads(json.dumps(some))}
            ended = bench.judge("instructions", unit * (40_000 // len(unit)), reference)
            assert ended.outcome is Outcome.SCORED


def test_published_verdicts_of_prompts_that_are_not_there_are_counted(tmp_path: Path) -> None:
    """Published prompts change; a comparison has to say how many responses it left out."""
    asked = {"prompt": "p", "instruction_id_list": ["count:numbers"], "kwargs": [{"N": 1}]}
    said = {"response": "1", "follow_instruction_list": [True]}
    prompts, published = tmp_path / "prompts.jsonl", tmp_path / "verdicts.jsonl"
    prompts.write_text(json.dumps(asked))
    rows = [{**said, "prompt": "p"}, {**said, "prompt": "another"}]
    published.write_text("\n".join(map(json.dumps, rows)))
    assert [one.own for one in verdicts(prompts, published, loose=False)] == [True]
    assert without_prompt(prompts, published) == 1
