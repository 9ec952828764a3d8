"""Sentences and words of English text, by rules. Pure, linear in the text.

The published checkers of IFBench split with NLTK's trained models. These rules follow what those
models do (a full stop ends a sentence, whatever follows, unless it belongs to an abbreviation, an
initial or an ellipsis); `docs/pipelines.md` says how often the verdicts agree.
"""

import re
import string
from typing import Final

PUNCTUATION: Final = string.punctuation


def listed(words: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(words.split())


_STRIPPED: Final = PUNCTUATION + " "
_WITHOUT_PUNCTUATION: Final = str.maketrans("", "", PUNCTUATION)
_TOKEN: Final = re.compile(r"\S+")
CLOSING: Final = "\"')]}”\u2019»*_"
"""Marks that may stand behind the end of a sentence."""
_ABBREVIATIONS: Final = listed(
    "dr mr mrs ms prof rev gen sen rep gov capt lt col sgt st mt jr sr vs inc corp co ltd bros "
    "dept est fig vol no e.g i.e u.s u.k u.n d.c a.m p.m ph.d b.c a.d jan feb mar apr jun jul aug "
    "sep sept oct nov dec ave blvd al"
)
_STARTERS: Final = listed(
    "the this that these those there it he she they we you i in on at but and however when if for "
    "as so then what why how a an"
)
"""Words that begin a sentence even behind an abbreviation."""
_CORE: Final = re.compile(r"\w(?:.*\w)?")
_CONTRACTION: Final = re.compile(r"(?i)(?<=[a-z])(n't|'(?:s|m|d|ll|re|ve))\Z")


def stripped(word: str) -> str:
    """The word without punctuation and spaces around it."""
    return word.strip(_STRIPPED)


def unpunctuated(text: str) -> str:
    """The text without ASCII punctuation, also inside of words."""
    return text.translate(_WITHOUT_PUNCTUATION)


def sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space around them."""
    found, begin = [], 0
    words = list(_TOKEN.finditer(text))
    for token, following in zip(words, (*words[1:], None), strict=False):
        if following is None or _ends(token.group(), following.group()):
            found.append(text[begin : token.end()].strip())
            begin = token.end()
    return found


def _ends(token: str, following: str) -> bool:
    """Whether a sentence ends between two tokens."""
    bare = token.rstrip(CLOSING)
    if bare.endswith(("?", "!")):
        return True
    if not bare.endswith("."):
        return False
    word = bare[:-1].lstrip("\"'([{“\u2018*_").lower()
    first = following.lstrip("\"'([{“\u2018*_")
    if bare.endswith("..") or (len(word) == 1 and word.isalpha()):
        return stripped(first).lower() in _STARTERS and first[:1].isupper()
    if word.isdecimal() and first[:1].islower():
        return False  # the number of an item
    if word in _ABBREVIATIONS or word.rpartition("-")[2] in _ABBREVIATIONS:
        return stripped(first).lower() in _STARTERS and first[:1].isupper()
    return True


def tokens(text: str) -> list[str]:
    """Words and marks: punctuation and English contractions stand apart from their words."""
    found: list[str] = []
    for token in _TOKEN.findall(text):
        core = _CORE.search(token)
        word = core.group() if core else ""
        before, _, after = token.partition(word) if word else (token, "", "")
        found += before
        contraction = _CONTRACTION.search(word)
        if contraction is not None:
            word = word[: contraction.start()]
        found += [part for part in (word, contraction and contraction.group()) if part]
        found += after
    return found


def lines(text: str) -> list[str]:
    """The lines that are not blank."""
    return [line for line in text.split("\n") if line.strip()]
