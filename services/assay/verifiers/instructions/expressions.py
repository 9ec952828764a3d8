r"""Instructions of IFEval that one regular expression can judge, as look-aheads. Pure.

Each instruction becomes a look-ahead at the start of the response, so that several can stand behind
each other. The expressions follow IFEval's checkers. Repetitions are possessive, so matching time
is linear in the response for each instruction.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from assay.verifiers.instructions.arguments import ArgumentError, Arguments, count

_COUNT_MAX: Final = 100_000
_SPLITS_MAX: Final = 30
"""Largest count that is a sum of two counts; each split is tried."""
_OPTIONS: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def look_ahead(name: str, given: Arguments) -> str:
    """The expression of an instruction, for the flag `DOTALL`.

    Args:
        name: of one of `EXPRESSIONS`.
        given: its arguments; those that are absent have their default.

    Raises:
        ArgumentError: names the argument.
    """
    written = EXPRESSIONS[name](given)
    try:
        re.compile(written)
    except (re.error, OverflowError, RecursionError) as error:
        raise ArgumentError(f"keywords: not a regular expression: {error}") from None
    return written


def _words(given: Arguments, key: str) -> list[str]:
    value = given.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(w, str) and w for w in value):
        raise ArgumentError(f"{key}: not a list of words")
    return value


def _word(given: Arguments, key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(f"{key}: not a text")
    return value.strip()


def _number(given: Arguments, key: str) -> int:
    try:
        return count(given.get(key), most=_COUNT_MAX)
    except ArgumentError as error:
        raise ArgumentError(f"{key}: {error}") from None


def _times(one: str, given: Arguments, count: str, relation: str) -> str:
    """`one` matches up to and including the next occurrence."""
    wanted = _number(given, count)
    at_least = f"(?>{one}){{{wanted}}}"
    if given.get(relation, "at least") == "at least":
        return f"(?={at_least})"
    if given[relation] == "less than":
        return f"(?!{at_least})"
    raise ArgumentError(f"{relation}: an unknown relation: {str(given[relation])[:80]}")


def _existence(given: Arguments) -> str:
    return "".join(f"(?=.*?(?i:{word}))" for word in _words(given, "keywords"))


def _frequency(given: Arguments) -> str:
    return _times(rf".*?(?i:{_word(given, 'keyword')})", given, "frequency", "relation")


def _forbidden(given: Arguments) -> str:
    words = _words(given, "forbidden_words")
    return "".join(rf"(?!.*?\b(?i:{word})\b)" for word in words)


def _letters(given: Arguments) -> str:
    letter = _word(given, "letter")
    if len(letter) != 1:
        raise ArgumentError("letter: not a single letter")
    return _times(rf".*?(?i:{re.escape(letter)})", given, "let_frequency", "let_relation")


def _word_count(given: Arguments) -> str:
    return _times(r"\W*+\w++", given, "num_words", "relation")


def _placeholders(given: Arguments) -> str:
    """An unclosed bracket is skipped with the rest of its line."""
    unclosed = r"(?:[^\[]*+\[[^\]\n]*+(?=\n|\Z)|(?!))*+"
    one = rf"{unclosed}[^\[]*+\[[^\]\n]*+\]"
    asked = {"num_placeholders": given.get("num_placeholders")}
    return _times(one, asked, "num_placeholders", "relation")


def _postscript(given: Arguments) -> str:
    marker = _word(given, "postscript_marker")
    known = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return f"(?=.*?(?i:{known.get(marker, re.escape(marker))}))"


def _ending(given: Arguments) -> str:
    """A quotation mark may follow, then only white space."""
    return rf"(?=.*(?i:{re.escape(_word(given, 'end_phrase'))})\"*+\s*+\Z)"


def _sections(given: Arguments) -> str:
    head = rf".*?\s?{_word(given, 'section_spliter')}\s?\d+\s?"
    return _times(head, given, "num_sections", "relation")


def _bullets(given: Arguments) -> str:
    """Exactly that many; two kinds of mark are counted separately."""
    wanted = _number(given, "num_bullets")
    if wanted > _SPLITS_MAX:
        raise ArgumentError("num_bullets: too many to count")
    star, dash = r"(?m-s:^[^\S\n]*+\*[^\*].*$)", r"(?m-s:^[^\S\n]*+-.*$)"
    ways = (f"{_exactly(star, k)}{_exactly(dash, wanted - k)}" for k in range(wanted + 1))
    return f"(?:{'|'.join(ways)})"


def _exactly(one: str, count: int) -> str:
    return f"(?=(?>.*?{one}){{{count}}}(?!.*?{one}))"


def _highlights(given: Arguments) -> str:
    """At least that many that are not blank, with one asterisk or two."""
    wanted = _number(given, "num_highlights")
    if wanted > _SPLITS_MAX:
        raise ArgumentError("num_highlights: too many to count")
    single, double = _highlighted(r"\*"), _highlighted(r"\*\*")
    ways = (f"(?=(?:{single}){{{k}}})(?=(?:{double}){{{wanted - k}}})" for k in range(wanted + 1))
    return f"(?:{'|'.join(ways)})"


def _highlighted(mark: str) -> str:
    """The next one that is not blank; blank ones before it are skipped."""
    any_one, blank = rf"{mark}[^\n*]*{mark}", rf"{mark}[^\S\n]*{mark}"
    next_one = rf"(?>.*?(?={any_one}))"
    return rf"(?>(?:{next_one}{blank}|(?!))*+{next_one}{any_one})"


def _paragraphs(given: Arguments) -> str:
    """Separated by `***`; blank ones only at the beginning and the end, where they do not count."""
    wanted = _number(given, "num_paragraphs")
    if not wanted:
        raise ArgumentError("num_paragraphs: not positive")
    parting = r"(?>\s?\*\*\*\s?)"
    anything = r"(?:(?!\s?\*\*\*).|(?!))*+"
    one = rf"(?!\s*+(?:\*\*\*|\Z)){anything}"
    first, last = rf"(?:(?=\s*+\*\*\*){anything}{parting}|(?!))?+", rf"(?:{parting}\s*+|(?!))?+\Z"
    return rf"(?={first}{one}(?:{parting}{one}){{{wanted - 1}}}{last})"


def _repeated(given: Arguments) -> str:
    return rf"(?=\s*+(?i:{re.escape(_word(given, 'prompt_to_repeat'))}))"


def _first_word(given: Arguments) -> str:
    """Blocks between two line feeds: so many that are not blank; one begins with a word.

    The block is counted with the blank ones, as upstream.
    """
    wanted, at = _number(given, "num_paragraphs"), _number(given, "nth_paragraph")
    if not 1 <= at <= wanted:
        raise ArgumentError("nth_paragraph: not among the paragraphs")
    word = _word(given, "first_word")
    blank, content = r"(?:(?!\n\n)\s|(?!))*+", r"(?:(?!\n\n).|(?!))*+"
    next_one = rf"(?:{blank}\n\n|(?!))*+{blank}\S{content}"
    counted = rf"(?={next_one}(?:\n\n{next_one}){{{wanted - 1}}}(?:\n\n{blank}|(?!))*+\Z)"
    first = rf"'*+\"*+(?i:{re.escape(word)})(?=[.,?!'\"\s]|\Z)"
    if re.search(r"[.,?!'\"\s]", word):
        return r"(?!)"  # no first word contains one of these
    return rf"{counted}(?=(?:{content}\n\n){{{at - 1}}}{blank}{first})"


_RESPONSE: Final = r"(?:(?!\*{6})\S|(?!))++(?:\s++(?:(?!\*{6})\S|(?!))++|(?!))*+"
_TWO_RESPONSES: Final = (
    rf"(?=(?:\s*+\*{{6}}|(?!))?+\s*+(?P<one>{_RESPONSE})\s*+\*{{6}}\s*+"
    rf"(?!(?P=one)\s*+(?:\*{{6}}|\Z)){_RESPONSE}\s*+(?:\*{{6}}\s*+|(?!))?+\Z)"
)
"""Two texts that differ, with six asterisks between them."""
_TITLE: Final = r"(?=.*?(?m:^)(?:(?!<<)[^\n]|(?!))*+<<<*+[^\S\n]*+(?:[^\s>]|>++[^>\n])[^\n]*>>)"
"""Double angle brackets around text without spaces or further brackets of the same side."""
EXPRESSIONS: Final[Mapping[str, Callable[[Arguments], str]]] = {
    "keywords:existence": _existence,
    "keywords:frequency": _frequency,
    "keywords:forbidden_words": _forbidden,
    "keywords:letter_frequency": _letters,
    "length_constraints:number_words": _word_count,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:constrained_response": lambda _given: (
        f"(?=.*?(?:{'|'.join(re.escape(option) for option in _OPTIONS)}))"
    ),
    "combination:repeat_prompt": _repeated,
    "combination:two_responses": lambda _given: _TWO_RESPONSES,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:number_highlighted_sections": _highlights,
    "length_constraints:number_paragraphs": _paragraphs,
    "detectable_format:title": lambda _given: _TITLE,
    "startend:end_checker": _ending,
    "startend:quotation": lambda _given: r"(?=\s*+\".*\"\s*+\Z)",
    "punctuation:no_comma": lambda _given: r"(?![^,]*+,)",
}
