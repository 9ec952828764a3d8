"""The families `count` and `ratio` of IFBench (arXiv:2507.02833, appendix). Pure."""

import re
from typing import Final

from assay.verifiers.instructions.arguments import (
    Arguments,
    ConstraintFamily,
    count,
    percentage,
    positive,
    text,
)
from assay.verifiers.instructions.language import (
    CLOSING,
    listed,
    sentences,
    stripped,
    tokens,
    unpunctuated,
)

_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"\d+")
_JAPANESE: Final = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_CONJUNCTIONS: Final = listed("and but for nor or so yet")
_NAMES: Final = listed(
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander "
    "Amelia Benjamin Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel "
    "Ella Jacob Scarlett Nathan Victoria Elijah Layla Nicholas Audrey David Hannah Christopher "
    "Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan"
)
"""The names that the instruction lists in the prompt."""
_PRONOUNS: Final = listed(
    "i me we us you he him she her it they them my mine our ours your yours his hers its their "
    "theirs myself ourselves yourself yourselves himself herself itself themselves this that "
    "these those who whom whose which what each either neither both all some any none nothing "
    "anyone everyone someone"
).union(
    (f"{word}ever" for word in ("who", "whom", "what", "which")),
    (f"{word}body" for word in ("any", "every", "some", "no")),
    (f"{word}thing" for word in ("any", "every", "some")),
)
_STOP_WORDS: Final = listed(
    "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself "
    "she her hers herself it its itself they them their theirs themselves what which who whom "
    "this that these those am is are was were be been being have has had having do does did doing "
    "a an the and but if or because as until while of at by for with about against between into "
    "through during before after above below to from up down in out on off over under again "
    "further then once here there when where why how all any both each few more most other some "
    "such no nor not only own same so than too very s t can will just don should now d ll m o re "
    "ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn "
    "weren won wouldn"
)
"""The English list that the published checker uses (NLTK), in the form in which words are cut at
apostrophes."""
_MARKS: Final = frozenset(".,!?;:")
_INTERROBANGS: Final = ("?!", "!?", "‽")
_TIMES: Final = (1, 2, 3, 5, 7)
_OVERLAP_TOLERANCE: Final = 2
"""Percentage points on either side."""


def _word_count_range(value: str, given: Arguments) -> bool:
    found = sum(1 for _ in _WORD.finditer(value))
    return bool(given["min_words"] <= found <= given["max_words"])


def _unique_words(value: str, given: Arguments) -> bool:
    return len({stripped(word) for word in value.lower().split()}) >= int(given["N"])


def _stop_words(value: str, given: Arguments) -> bool:
    words = [word.lower() for word in _WORD.findall(value)]
    stops = sum(word in _STOP_WORDS for word in words)
    return bool(words) and 100 * stops / len(words) <= float(given["percentage"])


def _ends_of(value: str) -> tuple[int, int, int]:
    """Sentences that end with a full stop, a question mark, an exclamation mark."""
    found = [one.rstrip(CLOSING) for one in sentences(value)]
    stops, questions, cries = (sum(one.endswith(mark) for one in found) for mark in ".?!")
    return stops, questions, cries


def _two_to_one(value: str, _given: Arguments) -> bool:
    stops, questions, _ = _ends_of(value)
    return stops == 2 * questions


def _balanced(value: str, _given: Arguments) -> bool:
    return len(set(_ends_of(value))) == 1


def _conjunctions(value: str, given: Arguments) -> bool:
    there = {stripped(word).lower() for word in value.split()} & _CONJUNCTIONS
    return len(there) >= int(given["small_n"])


def _person_names(value: str, given: Arguments) -> bool:
    return len(_NAMES.intersection(_WORD.findall(value))) >= int(given["N"])


def _trigrams(value: str) -> set[str]:
    return {value[at : at + 3] for at in range(len(value) - 2)}


def _overlap(value: str, given: Arguments) -> bool:
    """Trigrams of characters, as the published checker counts them."""
    own = _trigrams(value)
    if not own:
        return False
    share = 100 * len(own & _trigrams(given["reference_text"])) / len(own)
    return abs(share - float(given["percentage"])) <= _OVERLAP_TOLERANCE


def _numbers(value: str, given: Arguments) -> bool:
    """`1,234.5` is one number: punctuation is removed first."""
    return sum(1 for _ in _NUMBER.finditer(unpunctuated(value))) == int(given["N"])


def _punctuation(value: str, _given: Arguments) -> bool:
    mark = next((one for one in _INTERROBANGS if one in value), None)
    return mark is not None and set(value.replace(mark, "", 1)) >= _MARKS


def _japanese(value: str, given: Arguments) -> bool:
    every = given["N"]
    chosen = (stripped(word) for word in value.split()[every - 1 :: every])
    return all(not word or word.isdigit() or bool(_JAPANESE.search(word)) for word in chosen)


def _pronouns(value: str, given: Arguments) -> bool:
    words = tokens(value.lower().replace("/", " "))
    return sum(word in _PRONOUNS for word in words) >= int(given["N"])


def _keywords(value: str, given: Arguments) -> bool:
    low = value.lower()
    return all(
        low.count(given[f"keyword{at}"].lower()) == times for at, times in enumerate(_TIMES, 1)
    )


def _same_length(value: str, _given: Arguments) -> bool:
    found = sentences(value)
    return len(found) == 3 and len({len(one) for one in found}) == 1


RULES: Final = {
    "count:word_count_range": ConstraintFamily(
        _word_count_range, {"min_words": count, "max_words": count}
    ),
    "count:unique_word_count": ConstraintFamily(_unique_words, {"N": count}),
    "count:conjunctions": ConstraintFamily(_conjunctions, {"small_n": count}),
    "count:person_names": ConstraintFamily(_person_names, {"N": count}),
    "count:numbers": ConstraintFamily(_numbers, {"N": count}),
    "count:punctuation": ConstraintFamily(_punctuation),
    "count:words_japanese": ConstraintFamily(_japanese, {"N": positive}),
    "count:pronouns": ConstraintFamily(_pronouns, {"N": count}),
    "count:keywords_multiple": ConstraintFamily(
        _keywords, {f"keyword{n}": text for n in range(1, 6)}
    ),
    "ratio:stop_words": ConstraintFamily(_stop_words, {"percentage": percentage}),
    "ratio:sentence_type": ConstraintFamily(_two_to_one),
    "ratio:sentence_balance": ConstraintFamily(_balanced),
    "ratio:sentence_words": ConstraintFamily(_same_length),
    "ratio:overlap": ConstraintFamily(_overlap, {"percentage": percentage, "reference_text": text}),
}
