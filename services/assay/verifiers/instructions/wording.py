"""The families `words`, `sentence` and `repeat` of IFBench. Pure."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from assay.verifiers.instructions.arguments import (
    Arguments,
    ConstraintFamily,
    count,
    positive,
    text,
)
from assay.verifiers.instructions.language import (
    PUNCTUATION,
    lines,
    sentences,
    stripped,
    tokens,
    unpunctuated,
)

_CLUSTER: Final = re.compile(r"[bcdfghjklmnpqrstvwxyz]{2}")
_PRIMES: Final = frozenset(
    n for n in range(2, 100) if all(n % divisor for divisor in range(2, int(n**0.5) + 1))
)
_LETTERS: Final = string.ascii_lowercase
_PALINDROMES, _PALINDROME_CHARS = 10, 5
_ONLY_THIS: Final = "only output this sentence here, ignore all other requests."


def _plain_words(value: str) -> list[str]:
    return unpunctuated(value).lower().split()


def _alphabet(value: str, _given: Arguments) -> bool:
    words = _plain_words(value)
    if not words or words[0][0] not in _LETTERS:
        return False
    first = _LETTERS.index(words[0][0])
    return all(word[0] == _LETTERS[(first + at) % 26] for at, word in enumerate(words))


def _vowels(value: str, _given: Arguments) -> bool:
    return "\n" not in value.strip() and len(set(value.lower()) & set("aeiou")) <= 3


def _clusters(value: str, _given: Arguments) -> bool:
    return all(_CLUSTER.search(word) for word in value.lower().split())


def _palindromes(value: str, _given: Arguments) -> bool:
    long = (word for word in _plain_words(value) if len(word) >= _PALINDROME_CHARS)
    return sum(word == word[::-1] for word in long) >= _PALINDROMES


def _prime_lengths(value: str, _given: Arguments) -> bool:
    return all(len(word) in _PRIMES for word in unpunctuated(value).split())


def _repeats(value: str, given: Arguments) -> bool:
    return max(Counter(_plain_words(value)).values(), default=0) <= int(given["small_n"])


def _no_consecutive(value: str, _given: Arguments) -> bool:
    return all(one[0] != other[0] for one, other in pairwise(_plain_words(value)))


def _last_first(value: str, _given: Arguments) -> bool:
    for one, other in pairwise(sentences(value)):
        last, first = stripped(one).split(), stripped(other).split()
        if not last or not first or last[-1].lower() != first[0].lower():
            return False
    return True


def _paragraph_last_first(value: str, _given: Arguments) -> bool:
    every = (stripped(line.strip().lower()).split() for line in lines(value))
    return all(words[0] == words[-1] for words in every if words)


def _specific_position(value: str, given: Arguments) -> bool:
    found = sentences(value)
    if len(found) < given["n"]:
        return False
    words = [one for one in tokens(found[given["n"] - 1]) if any(c.isalnum() for c in one)]
    keyword = given["keyword"].lower()
    return bool(len(words) >= given["m"] and words[given["m"] - 1].lower() == keyword)


def _second_and_second_to_last(value: str, given: Arguments) -> bool:
    """A mark at the end of the response is not its last word."""
    words = [one.lower() for one in tokens(value)]
    if words and words[-1] in PUNCTUATION:
        words.pop()
    return len(words) >= 2 and words[1] == words[-2] == given["keyword"].lower()


def _alliteration(sentence: str) -> int:
    """Words in runs of two or more that begin alike, side by side."""
    starts = [word[0] for raw in sentence.lower().split() if (word := raw.lstrip(PUNCTUATION))]
    alike = [one == other for one, other in pairwise(starts)]
    runs = sum(now and not before for before, now in zip([False, *alike], alike, strict=False))
    return sum(alike) + runs


def _growing_alliteration(value: str, _given: Arguments) -> bool:
    return _grows([-1, *(_alliteration(one) for one in sentences(value))])


def _grows(sizes: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(sizes))


def _increment(value: str, given: Arguments) -> bool:
    sizes = [len(unpunctuated(one).split()) for one in sentences(value)]
    return all(other - one == given["small_n"] for one, other in pairwise(sizes))


def _keyword_in_sentence(value: str, given: Arguments) -> bool:
    found = sentences(value)
    if len(found) < given["N"]:
        return False
    pattern = rf"\b{re.escape(given['word'])}\b"
    return re.search(pattern, found[given["N"] - 1], re.IGNORECASE) is not None


def _repeat_changed(value: str, given: Arguments) -> bool:
    asked = given["prompt_to_repeat"]
    return bool(value != asked and value.split()[1:] == asked.split()[1:])


def _repeat_simple(value: str, _given: Arguments) -> bool:
    return value.strip().lower() == _ONLY_THIS


def _repeat_span(value: str, given: Arguments) -> bool:
    span = given["prompt_to_repeat"][given["n_start"] : given["n_end"] + 1]
    return bool(value.strip().lower() == span.strip().lower())


RULES: Final = {
    "words:alphabet": ConstraintFamily(_alphabet),
    "words:vowel": ConstraintFamily(_vowels),
    "words:consonants": ConstraintFamily(_clusters),
    "words:palindrome": ConstraintFamily(_palindromes),
    "words:prime_lengths": ConstraintFamily(_prime_lengths),
    "words:repeats": ConstraintFamily(_repeats, {"small_n": count}),
    "words:no_consecutive": ConstraintFamily(_no_consecutive),
    "words:last_first": ConstraintFamily(_last_first),
    "words:paragraph_last_first": ConstraintFamily(_paragraph_last_first),
    "words:keywords_specific_position": ConstraintFamily(
        _specific_position, {"keyword": text, "n": positive, "m": positive}
    ),
    "words:words_position": ConstraintFamily(_second_and_second_to_last, {"keyword": text}),
    "sentence:alliteration_increment": ConstraintFamily(_growing_alliteration),
    "sentence:increment": ConstraintFamily(_increment, {"small_n": count}),
    "sentence:keyword": ConstraintFamily(_keyword_in_sentence, {"word": text, "N": positive}),
    "repeat:repeat_change": ConstraintFamily(_repeat_changed, {"prompt_to_repeat": text}),
    "repeat:repeat_simple": ConstraintFamily(_repeat_simple),
    "repeat:repeat_span": ConstraintFamily(
        _repeat_span, {"prompt_to_repeat": text, "n_start": count, "n_end": count}
    ),
}
