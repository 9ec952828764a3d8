"""The 25 instructions of IFEval. Pure, linear in the text.

20 are judged by an expression or by a parser of JSON, as the published checkers judge them. The
other five ask a detector of languages or NLTK's trained splitters there, and rules here: three are
about the language (`languages.py`), two about sentences and words (`language.py`).
"""

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from assay.verifiers.instructions import expressions
from assay.verifiers.instructions.arguments import ArgumentError, Arguments, ConstraintFamily, count
from assay.verifiers.instructions.language import sentences, tokens
from assay.verifiers.instructions.languages import LANGUAGES, has_letters, language, may_be

JSON_FORMAT: Final = "detectable_format:json_format"
_RELATIONS: Final = ("at least", "less than")


def _expression(name: str) -> ConstraintFamily:
    def reads(given: Arguments) -> Arguments:
        written = expressions.look_ahead(name, given)
        return MappingProxyType({"pattern": re.compile(written, re.DOTALL)})

    return ConstraintFamily(_matches, reads=reads)


def _matches(value: str, given: Arguments) -> bool:
    return given["pattern"].match(value) is not None


def _is_json(value: str, _given: Arguments) -> bool:
    # Heavy; the stage loads it ahead.
    from assay.verifiers.text.json_schema import judge_is_json
    from assay.verifiers.text.json_text import unwrapped

    return judge_is_json(unwrapped(value)).verdict == "pass"


def _code(value: object) -> str:
    if not isinstance(value, str) or value.partition("-")[0].lower() not in LANGUAGES:
        raise ArgumentError("not a language that is known here")
    return value.partition("-")[0].lower()


def _in_language(value: str, given: Arguments) -> bool:
    """Text without letters is in any language, as upstream."""
    code = given["language"]
    return not has_letters(value) or language(value) == code or may_be(value, code)


def _is_english(value: str) -> bool:
    """Unless two words tell another language: a headline has no frequent word, or one by chance."""
    return language(value, words_min=2) in {"en", None}


def _capitals(value: str, _given: Arguments) -> bool:
    return value.isupper() and _is_english(value)


def _lowercase(value: str, _given: Arguments) -> bool:
    return value.islower() and _is_english(value)


def _counted(counted: Callable[[str], int], number: str, relation: str) -> ConstraintFamily:
    """So many of something, `at least` or `less than`."""

    def reads(given: Arguments) -> Arguments:
        told: dict[str, Any] = {"at_least": given.get(relation, _RELATIONS[0]) == _RELATIONS[0]}
        if given.get(relation, _RELATIONS[0]) not in _RELATIONS:
            raise ArgumentError(f"{relation}: an unknown relation: {str(given[relation])[:80]}")
        try:
            told["number"] = count(given.get(number))
        except ArgumentError as error:
            raise ArgumentError(f"{number}: {error}") from None
        return MappingProxyType(told)

    def follows(value: str, given: Arguments) -> bool:
        return (counted(value) >= given["number"]) is given["at_least"]

    return ConstraintFamily(follows, reads=reads)


def _sentences(value: str) -> int:
    return len(sentences(value))


def _capital_words(value: str) -> int:
    return sum(word.isupper() for word in tokens(value))


RULES: Final = {
    **{name: _expression(name) for name in expressions.EXPRESSIONS},
    JSON_FORMAT: ConstraintFamily(_is_json),
    "language:response_language": ConstraintFamily(_in_language, {"language": _code}),
    "change_case:english_capital": ConstraintFamily(_capitals),
    "change_case:english_lowercase": ConstraintFamily(_lowercase),
    "change_case:capital_word_frequency": _counted(
        _capital_words, "capital_frequency", "capital_relation"
    ),
    "length_constraints:number_sentences": _counted(_sentences, "num_sentences", "relation"),
}
