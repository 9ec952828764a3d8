"""Responses to the instructions of IFEval, built to follow them or to break one of them.

As in `instructed`, from plain words and sentences without any of the checker's code; the sentences
of a language are put together from parts that its speakers use.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.fuzz.verdicts.text.sentences import SENTENCES

_WORDS: Final = ("cat", "stone", "river", "green", "map", "lamp", "bread", "winter", "song", "hill")
_ACRONYMS: Final = ("NASA", "USA", "EU", "UNESCO", "BBC")

Drawn = tuple[dict[str, Any], str, str]


def _text(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(count))


def _ended(rng: random.Random, count: int) -> str:
    return " ".join(
        f"The {_text(rng, rng.randint(1, 5))} is here{rng.choice('.!?')}" for _ in range(count)
    )


def _related(
    rng: random.Random, name: str, relation: str, count: int, said: Callable[[int], str]
) -> Drawn:
    """`at least` or `less than` so many; one more or less decides."""
    if rng.random() < 0.5:
        return (
            {name: count, relation: "at least"},
            said(count + rng.choice((0, 0, 3))),
            said(count - 1),
        )
    return (
        {name: count, relation: "less than"},
        said(count - 1),
        said(count + rng.choice((0, 0, 3))),
    )


def _said_in(rng: random.Random, code: str) -> str:
    said = rng.sample(SENTENCES[code], rng.randint(1, len(SENTENCES[code])))
    text = " ".join(said)
    return rng.choice(("{}", "1. {}\n2. {}", "**{}**", "{} (2024)", "# {}")).replace("{}", text)


def _language(rng: random.Random) -> Drawn:
    code, other = rng.sample(sorted(SENTENCES), 2)
    return {"language": code}, _said_in(rng, code), _said_in(rng, other)


def _upper(rng: random.Random) -> Drawn:
    right = _said_in(rng, "en").upper()
    other = rng.choice([code for code in SENTENCES if code != "en"])
    wrong = rng.choice((right.replace("THE", "the", 1) + " a", _said_in(rng, other).upper() + " A"))
    return {}, right, wrong if wrong != right else right + "x"


def _lower(rng: random.Random) -> Drawn:
    right = _said_in(rng, "en").lower()
    other = rng.choice([code for code in SENTENCES if code != "en"])
    return {}, right, rng.choice((right + " I", _said_in(rng, other).lower()))


def _capitals(rng: random.Random) -> Drawn:
    def said(count: int) -> str:
        words = [rng.choice(_ACRONYMS) for _ in range(count)] + [
            rng.choice(_WORDS) for _ in range(3)
        ]
        rng.shuffle(words)
        return ", ".join(words) + "."

    return _related(rng, "capital_frequency", "capital_relation", rng.randint(1, 9), said)


def _sentences(rng: random.Random) -> Drawn:
    return _related(rng, "num_sentences", "relation", rng.randint(2, 9), lambda n: _ended(rng, n))


def _words(rng: random.Random) -> Drawn:
    return _related(rng, "num_words", "relation", rng.randint(2, 60), lambda n: _text(rng, n))


def _letters(rng: random.Random) -> Drawn:
    given, followed, broken = _related(
        rng, "let_frequency", "let_relation", rng.randint(2, 9), lambda n: "z" * n + " a Hut"
    )
    return {**given, "letter": rng.choice("zZ")}, followed, broken


def _keywords(rng: random.Random) -> Drawn:
    words = rng.sample(_WORDS, 3)
    return {"keywords": words}, " met ".join(words).title(), " met ".join(words[1:])


def _forbidden(rng: random.Random) -> Drawn:
    words = rng.sample(_WORDS, 3)
    followed = " ".join(f"x{word}y" for word in words)
    return {"forbidden_words": words}, followed, f"{followed} {rng.choice(words).upper()}!"


def _bullets(rng: random.Random) -> Drawn:
    count = rng.randint(1, 6)

    def said(bullets: int) -> str:
        return "\n".join(
            ["Here:", *(f"{rng.choice('*-')} {_text(rng, 2)}" for _ in range(bullets))]
        )

    return {"num_bullets": count}, said(count), said(count + rng.choice((-1, 1)))


def _paragraphs(rng: random.Random) -> Drawn:
    count = rng.randint(2, 5)

    def said(parts: int) -> str:
        return rng.choice(("\n***\n", " *** ")).join(_text(rng, 3) for _ in range(parts))

    return {"num_paragraphs": count}, said(count), said(count + rng.choice((-1, 1)))


def _json(rng: random.Random) -> Drawn:
    value = {rng.choice(_WORDS): [rng.randint(0, 99), _text(rng, 2), None]}
    right = json.dumps(value, indent=rng.choice((None, 2)))
    wrong = rng.choice((right[:-1], f"Sure: {right}", right.replace('"', "'"), right + right))
    return {}, rng.choice(("{}", "```json\n{}\n```")).replace("{}", right), wrong


def _title(rng: random.Random) -> Drawn:
    title = _text(rng, 3)
    return (
        {},
        f"<<{title}>>\n\n{_text(rng, 5)}",
        rng.choice((f"<{title}>", f"<<{title}", "<<>>", title)),
    )


def _quoted(rng: random.Random) -> Drawn:
    said = _text(rng, 4)
    return {}, f' "{said}"\n', rng.choice((said, f'"{said}', f'"{said}" so', f"'{said}'"))


def _twice(rng: random.Random) -> Drawn:
    one, other = _text(rng, 4), _text(rng, 5)
    wrong = rng.choice(
        (f"{one}\n******\n{one}", f"{one} {other}", f"{one} ****** {other} ****** a")
    )
    return {}, f"{one}\n******\n{other}", wrong


def _ending(rng: random.Random) -> Drawn:
    phrase = f"{_text(rng, 3).capitalize()}."
    return {"end_phrase": phrase}, f"{_text(rng, 4)}. {phrase}", f"{phrase} {_text(rng, 2)}"


ASKED: Final[Mapping[str, Callable[[random.Random], Drawn]]] = {
    "language:response_language": _language,
    "change_case:english_capital": _upper,
    "change_case:english_lowercase": _lower,
    "change_case:capital_word_frequency": _capitals,
    "length_constraints:number_sentences": _sentences,
    "length_constraints:number_words": _words,
    "length_constraints:number_paragraphs": _paragraphs,
    "keywords:letter_frequency": _letters,
    "keywords:existence": _keywords,
    "keywords:forbidden_words": _forbidden,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:json_format": _json,
    "detectable_format:title": _title,
    "startend:quotation": _quoted,
    "startend:end_checker": _ending,
    "combination:two_responses": _twice,
}
"""By name of the instruction."""
