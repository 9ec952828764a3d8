"""`instructions` at the edge of each family: what is just enough, and what is just too little."""

from typing import Any

import pytest

from assay.verifiers.instructions.rules import RULES, follows

NAMED = "oak fig fig elm elm elm ash ash ash ash ash yew yew yew yew yew yew yew"
KEYWORDS = {f"keyword{n}": word for n, word in enumerate(("OAK", "Fig", "elm", "ash", "yew"), 1)}
QUESTION = "Question {n}. {stem}\n" + "\n".join(f"{letter}. x" for letter in "ABCDE")


PRODUCT = "ProductID,Category,Brand,Price,Stock"
SPAN = {"prompt_to_repeat": "Write a poem", "n_start": 5, "n_end": 9}


def table(header: str, first: str, more: int) -> str:
    return "\n".join([header, first, *["1,2,3,4,5"] * more])


def questions(*stems: str) -> str:
    return "\n".join(QUESTION.format(n=n, stem=stem) for n, stem in enumerate(stems, 1))


def position(text: str, n: int, m: int) -> tuple[str, dict[str, Any], str]:
    return ("words:keywords_specific_position", {"keyword": "Cat", "n": n, "m": m}, text)


Case = tuple[str, dict[str, Any], str]
ENOUGH: list[Case] = [
    ("count:word_count_range", {"min_words": 2, "max_words": 3}, "one two three"),
    ("count:pronouns", {"N": 2}, "She saw it"),
    ("count:pronouns", {"N": 2}, "SHE SAW IT"),
    ("count:punctuation", {}, "A, b; c: d. e! f? ?!"),
    ("count:punctuation", {}, "A, b; c: d. e! f? g ?! h @"),
    ("count:punctuation", {}, ".,!?;:?!"),
    ("count:punctuation", {}, "A,;:. ?! ?!"),
    ("count:keywords_multiple", KEYWORDS, NAMED.upper()),
    ("count:keywords_multiple", KEYWORDS, NAMED),
    ("ratio:stop_words", {"percentage": 50}, "THE cat"),
    ("ratio:overlap", {"reference_text": "abcdefgh", "percentage": 48}, "abcdxy"),
    ("ratio:overlap", {"reference_text": "abcdefgh", "percentage": 52}, "abcdxy"),
    ("format:parentheses", {}, "] (a [b {c (d [e]) f} g])"),
    ("format:options", {"options": "(a) yes/(b) no"}, "(a) yes"),
    ("format:options", {"options": "A), B), C)"}, "B)"),
    ("format:options", {"options": "Yes / No"}, "nO!"),
    ("format:newline", {}, "\none\n\ntwo\n"),
    ("format:emoji", {}, "Hi 😀. "),
    ("format:sub-bullets", {}, "* a\n- b\n* c - d"),
    ("format:no_bullets_bullets", {}, "I go. So go.\n  * c\n  * d"),
    ("format:title_case", {}, "A Big iPhone"),
    ("custom:mcq_count_length", {}, questions("a", "ab", "abc", "abcd")),
    ("custom:mcq_count_length", {}, questions("a", "ab", "abc", "abcd").replace("\n", "\n  ")),
    ("custom:csv_quotes", {}, '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n'
     + "\n".join(['"1"\t "a" \t""\t"b c"\t"2"'] * 3)),
    ("custom:european_capitals_sort", {}, "{CAPITALS}"),
    ("words:vowel", {}, "\nA RED MAP of\n"),
    ("words:consonants", {}, "THIS STRONG thing"),
    ("words:prime_lengths", {}, "aaaaa aaaaaaa aaaaaaaaaaa aaaaaaaaaaaaa aa"),
    ("words:repeats", {"small_n": 0}, "!!!"),
    ("words:repeats", {"small_n": 1}, "a b c"),
    ("words:last_first", {}, "I saw HIM. Him I know."),
    ("words:paragraph_last_first", {}, "  Home is home.  \n\nWE are we"),
    position("Well. My, own cat", 2, 3),
    position("CAT ran.", 1, 1),
    ("words:words_position", {"keyword": "SUN"}, "The Sun and the SUN set."),
    position("I see. My don't cat", 2, 4),
    ("words:words_position", {"keyword": "sun"}, "sun sun"),
    ("words:words_position", {"keyword": "sun"}, "The sun set"),
    ("words:words_position", {"keyword": "sun"}, "a sun b."),
    ("sentence:increment", {"small_n": 1}, "Go. Go on. Go on now."),
    ("sentence:alliteration_increment", {}, "Go on. Big bad wolf. Big bad BEES buzz."),
    ("sentence:alliteration_increment", {}, "Big bad wolf. Big bad cold cats."),
    ("sentence:alliteration_increment", {}, "Big bad bees. Big bad cold cats."),
    ("sentence:alliteration_increment", {}, 'Go on. Big "bad" wolf.'),
    ("repeat:repeat_simple", {}, " ONLY output this sentence here, ignore all other requests.\n"),
    ("repeat:repeat_span", SPAN, " A PO "),
    ("custom:csv_special_character", {}, table(PRODUCT, '"&",2,3,4,5', 13)),
]  # fmt: skip
TOO_LITTLE: list[Case] = [
    ("count:word_count_range", {"min_words": 2, "max_words": 3}, "one"),
    ("count:pronouns", {"N": 3}, "She saw it"),
    ("count:punctuation", {}, "A, b; c: d. e! f ?!"),
    ("ratio:stop_words", {"percentage": 40}, "THE cat"),
    ("ratio:overlap", {"reference_text": "abcdefgh", "percentage": 47}, "abcdxy"),
    ("ratio:overlap", {"reference_text": "abcdefgh", "percentage": 53}, "abcdxy"),
    ("format:parentheses", {}, "(a [b {c (d] e)})"),
    ("format:options", {"options": "A), B), C)"}, "b)"),
    ("format:options", {"options": "yes/no"}, "yes/no"),
    ("format:line_indent", {}, "a\n b\n b"),
    ("format:line_indent", {}, "a\n  b\n c\n    d"),
    ("format:emoji", {}, "Hi 😀. ..."),
    ("format:thesis", {}, "<i>All is one."),
    ("format:thesis", {}, "<i>  </i> and then"),
    ("format:thesis", {}, "<i>All is one.</i>  "),
    ("format:sub-bullets", {}, "* a\n - b\n* c"),
    ("format:title_case", {}, "a Big One"),
    ("format:title_case", {}, "The bIG One"),
    ("custom:mcq_count_length", {}, questions("a", "ab", "abc")),
    ("custom:mcq_count_length", {}, questions("a", "ab", "ab", "abcd")),
    ("custom:mcq_count_length", {}, questions("abcd", "ab", "abc", "abcde")),
    ("custom:csv_city", {}, table("ID,Country,City,Year,Count", "1,2,3,4", 6)),
    ("custom:csv_special_character", {}, table("A,B,C,D,E", '"&",2,3,4,5', 13)),
    ("custom:csv_special_character", {}, table(PRODUCT, '"&",2,3,4', 13)),
    ("custom:csv_quotes", {}, "\n".join('"1"\t"a"\t"b"\t"c"\t"2"' for _ in range(4))),
    ("custom:date_format_list", {}, "1805-12-02, 1900-01-01"),
    ("words:vowel", {}, "a red map of tub"),
    ("words:vowel", {}, "A RED MAP OF U"),
    ("words:prime_lengths", {}, "aaaaaaaaa"),
    ("words:prime_lengths", {}, "a"),
    ("words:repeats", {"small_n": 1}, "a b a"),
    ("words:last_first", {}, "I saw him. !"),
    position("Well. My own.", 2, 3),
    position("Well.", 2, 1),
    position("Well. My own dog ran.", 2, 3),
    ("words:words_position", {"keyword": "sun"}, "The moon and the sun set."),
    ("words:words_position", {"keyword": "sun"}, "sun"),
    ("sentence:increment", {"small_n": 1}, "Go. Go on. Go on."),
    ("sentence:alliteration_increment", {}, "Big bad wolf. Big bad cat."),
    ("repeat:repeat_span", SPAN, "a poe"),
]  # fmt: skip


def followed(case: Case) -> bool:
    name, given, text = case
    rule = RULES[name]
    return follows(rule, rule.read(given), text, loose=False)


CAPITALS = (
    " Reykjavik ,Helsinki,Oslo,Tallinn,Stockholm,Riga,Moscow,Copenhagen,Vilnius,Minsk,Dublin,"
    "Berlin,Amsterdam,Warsaw,London,Brussels,Prague,Luxembourg,Paris,Vienna,Bratislava,Budapest,Vaduz,"
    "Chisinau,Bern,Ljubljana,Zagreb, ,"
)


@pytest.mark.parametrize("case", ENOUGH, ids=lambda case: f"{case[0]} {case[2][:30]!r}")
def test_what_is_just_enough_follows(case: Case) -> None:
    name, given, text = case
    assert followed((name, given, text.replace("{CAPITALS}", CAPITALS)))


@pytest.mark.parametrize("case", TOO_LITTLE, ids=lambda case: f"{case[0]} {case[2][:30]!r}")
def test_what_is_just_too_little_does_not(case: Case) -> None:
    assert not followed(case)


def test_dates_are_days_of_the_calendar_in_napoleons_years() -> None:
    days = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    for month, last in enumerate(days, 1):
        for day in range(33):
            date = f"1796-{month:02}-{day:02}"
            assert followed(("custom:date_format_list", {}, f" {date} ")) == (1 <= day <= last)
    for year in range(1760, 1830):
        right = followed(("custom:date_format_list", {}, f"1800-01-01,{year}-01-01"))
        assert right == (1769 <= year <= 1821)
    assert not followed(("custom:date_format_list", {}, "1800-00-01"))
    assert not followed(("custom:date_format_list", {}, "1800-13-01"))
