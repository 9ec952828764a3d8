"""What a language says where it takes back what was said: phrases, and one pattern of them all.

In a phrase a blank is any white space, brackets only group, `{thing}` is `the code above` and
`{very}` stands for any adverbs. Every pattern takes linear time.
"""

import re
from typing import Final, NamedTuple

SPACED: Final = r"(?!\w)"
_BLANK: Final = r"\s"
_APOSTROPHE: Final = "['\u2019]"
_STARTS: Final = (
    r"(?P<start>(?:^|[\n.!?;$})*\]\u3002\uff01\uff1f\uff1b\u2026]|(?<!<answer)>"
    r"|(?<=[\u3002\uff01\uff1f\uff1b]))"
    "[\\s*_(\\[>\"'\u201c\u201e\u00ab-]{0,9})"
)
_MARK: Final = r"[\s,.:!\u2026\u2013\u2014\uff0c\u3001\u3002\uff01\uff1a-]"
_PAUSES: Final = r"(?=\s?[,.!\u2026\u2014\uff0c\u3001\u3002\uff01])"
_BECAUSE: Final = (
    r"\s(?:car|parce|puisque|porque|pois|perch\u00e9|omdat|want|karena|v\u00ec"
    r"|\u00e7\u00fcnk\u00fc)(?!\w)"
)
_ENDS: Final = (
    r"(?=[\s*_)\]\"'\u201d\u00bb]{0,4}(?:[.,;:!\u2026\u2013\u2014\u3002\uff0c\uff01\uff1b\uff1a\u3001]"
    rf"|\n|\Z)|{_BECAUSE})"
)
_WIDE_MARK: Final = "(?P<mark>[\u3002\uff01\uff1b\uff1a\uff0c\u3001])?"
_ASKS: Final = r"(?![^.!?\n\u3002\uff01\uff1f]{0,80}[?\uff1f])"
CLAUSES: Final = ("drops_named", "named", "drops", "erred", "wrong", "short", "again", "right")


class Tongue(NamedTuple):
    """Phrases of one language."""

    hints: str
    """Parts of words, with `|` between them; one is in each text that has such a sentence."""
    waits: tuple[str, ...]
    """First words of a sentence that say on their own that something changes, before a mark."""
    corrects: str
    """Before a colon and what is right."""
    leads: tuple[str, ...]
    """Before a clause that takes something back; they say nothing on their own."""
    very: str
    thing: tuple[str, ...]
    """`{noun}` is one of `nouns`."""
    nouns: dict[str, str]
    """The beginning of a word, and the word in English."""
    wrong: tuple[str, ...]
    """`That is wrong.`"""
    named: tuple[str, ...]
    """`The code above is wrong.`"""
    drops: tuple[str, ...]
    """`Ignore that.`"""
    drops_named: tuple[str, ...]
    """`Ignore the code above.`"""
    erred: tuple[str, ...]
    """`I made a mistake.`"""
    again: tuple[str, ...]
    """`Let me look again.`"""
    right: tuple[str, ...]
    """`It is correct.`"""
    answers: tuple[str, ...]
    """`The answer is`, where no table of announcements has it at any place of a sentence."""
    unless: str
    """What may follow and makes it a condition."""
    short: tuple[str, ...] = ("(?!)",)
    """`Wrong`, which counts behind one of `leads` only: it may be an answer."""
    denies: str = ""
    """What may follow `answers` and denies it."""
    ends: str = SPACED
    """Behind a clause; the default is for languages with blanks between words."""


ANY_NOUNS: Final = {
    "json": "JSON",
    "sql": "SQL",
    "code": "code",
    "query": "query",
    "script": "script",
}


def pattern(language: Tongue) -> re.Pattern[str]:
    """A sentence of `language`; its groups are `start`, `lead`, one of `CLAUSES`, `waits` and
    `corrects`."""
    is_spaced = language.ends == SPACED
    noun = f"(?:{'|'.join((*language.nouns, *ANY_NOUNS))})" + (r"\w{0,6}" if is_spaced else "")
    very = f"(?:{_any((language.very,))}{_BLANK if is_spaced else ''}){{0,3}}"
    thing = _any(language.thing).replace("{noun}", noun)

    def filled(phrases: tuple[str, ...]) -> str:
        said = _any(phrases).replace("{thing}", thing).replace("{noun}", noun)
        return said.replace(r"{very}", very)

    marks = f"{_MARK}{{1,4}}" if is_spaced else f"{_MARK}{{0,4}}"
    lead = f"(?P<lead>(?:{_any(('wait', *language.waits, *language.leads))}{marks}){{0,4}})"
    clauses = "|".join(f"(?P<{name}>{filled(getattr(language, name))})" for name in CLAUSES)
    unless = rf"(?![,\uff0c]?\s?{_any((language.unless,))})"
    behind = f"{language.ends}{unless}{_ENDS}{_ASKS}"
    return re.compile(
        f"{_STARTS}(?:{lead}(?:{clauses}){behind}|(?P<waits>{_any(language.waits)}){_PAUSES}"
        f"|(?P<corrects>{_any((language.corrects,))})(?=\\s?[:\uff1a])){_WIDE_MARK}",
        re.IGNORECASE,
    )


def announcement(language: Tongue) -> re.Pattern[str]:
    """`The answer is` in `language`, if no denial follows."""
    denied = rf"(?!\s(?:{language.denies})(?!\w))" if language.denies else ""
    return re.compile(
        rf"(?<!\w){_any(language.answers)}(?!\w){denied}(?=[\s:]{{1,4}}\S)", re.IGNORECASE
    )


def _any(phrases: tuple[str, ...]) -> str:
    grouped = "|".join(re.sub(r"(?<!\\)\((?!\?)", "(?:", phrase) for phrase in phrases)
    return f"(?:{grouped})".replace(" ", _BLANK).replace("'", _APOSTROPHE)
