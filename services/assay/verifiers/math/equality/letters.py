r"""Names that the computer algebra cannot tell apart get letters of their own. Pure, on text.

The parser reads `R` as `r`, `A'` as `A`, `A^T` as `A`, powers of `I` as the imaginary unit, and it
works out `\frac{df}{dx}` to 0. So two texts are renamed in the same way before they are compared:
derivatives and names with primes always (an exponent `T` is put into brackets); capital letters
where one of the texts uses a letter in both cases (`R^2 - r^2`), because there case tells names
apart. Otherwise `N` stands for `n`, as many write it. Greek letters are always distinguished.
"""

import math
import re
from collections.abc import Iterator
from typing import Final

_NAME: Final = r"[A-Za-z](?:_(?:\w|\{\w{1,4}\}))?"
_DERIVATIVE: Final = re.compile(
    rf"(?a)\\frac\s?\{{\s?(?:d|\\partial)\s?(?:\^\s?\{{?\d\}}?\s?)?(?:{_NAME})\s?\}}"
    rf"\s?\{{\s?(?:d|\\partial)\s?(?:{_NAME})(?:\s?\^\s?\{{?\d\}}?)?\s?\}}"
)
_PRIMED: Final = re.compile(
    rf"(?a)(?:{_NAME})(?:'{{1,3}}|\s?\^\s?\{{?\s?(?:\\prime\s?){{1,3}}\}}?)"
)
_NO_CONSTANT: Final = re.compile(r"(?a)(?<![A-Za-z\\])[eE]_(?:\w|\{\w{1,6}\})")
"""`E_0`, which the parser cannot read."""
_TURNED: Final = re.compile(r"(?a)(?<=\^)\s?(?:T(?![\w'])|\{\s?T\s?\})")
_SKIPPED: Final = (
    r"\\(?:text\w*|math(?:rm|bb|cal|sf|frak)|operatorname|begin|end)\s?\{[^{}]*\}|\\[A-Za-z]+"
)
_LETTER: Final = re.compile(rf"(?a)(?P<skipped>{_SKIPPED})|(?P<letter>[A-Za-z])")
_DIGITS_BEHIND: Final = re.compile(r"(?a)[A-Za-z]\d")
_WORD: Final = re.compile(
    rf"(?a)(?P<skipped>{_SKIPPED}|[_^]\s?[A-Za-z])|(?P<before>\d?)(?P<word>[A-Za-z]+)"
    r"(?:(?P<digits>\d{1,4})(?![\d.]|\s?\\pi|\s?\^\s?\{?\s?\\circ))?"
)
_NO_NAMES: Final = frozenset(
    [
        *("pi", "sqrt", "log", "ln", "lg", "exp", "sin", "cos", "tan", "cot", "sec", "csc", "mod"),
        *("arcsin", "arccos", "arctan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    ]
)
_INDEXED_X: Final = re.compile(r"(?a)(?<![A-Za-z0-9\\_^])[xX]\d")
_FACTOR_OF_X: Final = re.compile(r"(?a)(\d)(?=[xX]\d)")
_BEFORE_FACTORS: Final = frozenset("ik")
"""`i2` is `2i`, and `k2` may be `2k`, as in `k2\\pi`."""
_SIGNS_BEHIND_DIGITS: Final = frozenset("eExXCP")
"""`1e5`, `2x3`, `10C3`."""
_POWER_OF_TEN: Final = re.compile(r"(?a)(?<=\d)[eE](?=[+-]?\d)")
_CURRENT: Final = re.compile(r"(?a)(?<![A-Za-z\\])(?:[A-Za-z]I|I\s?[A-Za-z_^'])|\dI\s?[A-Za-z_^]")
"""`IR`, `I^2`, `I_1`: a name, and no imaginary unit."""
_GREEK: Final = ("gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "phi", "psi", "omega")
_VECTOR: Final = r"\\(?:vec|overrightarrow)\s?\{\s?[A-Za-z]{1,2}\s?\}"
_CROSS: Final = re.compile(
    rf"(?P<one>{_VECTOR}|\\nabla(?![A-Za-z]))\s?\\times\s?(?P<two>{_VECTOR})"
)
"""The order of its vectors is its sign."""
_TWICE_TURNED: Final = re.compile(r"-\s?\((?P<in>\()?-(?P<name>[a-z])\)(?(in)\))")
_DEFINED: Final = re.compile(
    rf"(?a)\s*(?P<name>{_NAME}'{{0,3}})\s?\((?P<args>\s?[A-Za-z]\s?(?:,\s?[A-Za-z]\s?){{0,3}})\)\s?="
    r"(?P<body>(?:[^=<>]|(?<=_\{[A-Za-z])=){1,1000})"
)
_TERM: Final = re.compile(
    r"(?a)\s*(?P<name>[A-Za-z])_(?:\{\s?)?(?P<args>[a-z])\s?\}?\s?=(?P<body>[^=<>,;]{1,400})"
)
_DIVISOR: Final = re.compile(
    r"(?:\\(?P<command>gcd|lcm)|\\text\s?\{\s?(?P<said>gcd|lcm)\s?\}|(?<![A-Za-z\\])(?P<plain>gcd|lcm))"
    r"\s?\((?P<of>[^()]{1,200})\)"
)
_INTEGERS: Final = re.compile(r"(?a)\s*\d{1,40}\s*(?:,\s*\d{1,40}\s*){1,9}")
_FREE: Final = "uvwzqstyxkmnpabcjr"
"""Letters that may stand for a name; the others mean something else to the parser."""
_CONSTANTS: Final = frozenset("CK")
"""Of integration, which other rules know by these names."""
_ROMAN: Final = re.compile(r"(?=.)M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_CAPITALS: Final = re.compile("[A-Z]{3,}")
_ONE_NAME: Final = re.compile(
    r"(?a)\s*-?\s*(?:\d{1,18}(?:\.\d{1,18})?|\\frac\{\d{1,9}\}\{\d{1,9}\})?\s?(?:\\cdot|\*)?\s?"
    rf"(?P<name>{_NAME})\s*"
)
_NO_LABEL: Final = re.compile("[K-Z]")
"""Without such a letter they may be labels of choices or points, whose order says nothing."""


def bodies(gold: str, answer: str) -> tuple[str, str] | None:
    """What two definitions of one function or sequence say, with the gold's names of its arguments
    in both: `f(t) = t^2` for `f(x) = x^2`, `a_k = 2k` for `a_n = 2n`. Empty for the answer if it
    says something about another name, which nothing equals; `None` if they are no definitions."""
    one, two = (_DEFINED.fullmatch(text) or _TERM.fullmatch(text) for text in (gold, answer))
    if one is None or two is None or one["name"] != two["name"]:
        return None
    ours, theirs = ([arg.strip() for arg in match["args"].split(",")] for match in (one, two))
    if ours == theirs or len({*ours}) != len(ours) or len({*theirs}) != len(theirs):
        return None
    free = {*_letters(two["body"])} - {*theirs}
    if len(ours) != len(theirs) or free & {*ours}:
        return one["body"], ""
    return one["body"], _with_letters(two["body"], dict(zip(theirs, ours, strict=True)))


def indexed(text: str) -> str:
    """`v0t` as `v_{0}t`: digits directly behind a letter are its index, and no factor."""
    if not _DIGITS_BEHIND.search(text):
        return text
    if _INDEXED_X.search(text):  # then `2x2` is no dimension
        text = _FACTOR_OF_X.sub(r"\1 ", text)
    return _WORD.sub(_with_index, text)


def _with_index(match: re.Match[str]) -> str:
    word, digits = match["word"], match["digits"]
    if match["skipped"] or not digits or word.lower() in _NO_NAMES:
        return match[0]
    if match["before"] and word in _SIGNS_BEHIND_DIGITS:
        return match[0]
    if word in _BEFORE_FACTORS and not digits.startswith("0"):
        return match[0]
    return f"{match['before']}{word}_{{{digits}}}"


def told_apart(gold: str, answer: str) -> tuple[str, str]:
    """Both texts, with other letters for the names that would be taken for others."""
    both = f"{gold} {answer}"
    free = _free(both)
    gold, answer = (_TURNED.sub("{(T)}", text) for text in (gold, answer))
    for pattern in (_DERIVATIVE, _PRIMED, _NO_CONSTANT):
        gold, answer = _renamed(pattern, gold, answer, free)
    for name in _GREEK:
        capital = _command(f"\\{name.capitalize()}")
        if capital.search(both) and _command(f"\\{name}").search(both):
            gold, answer = _renamed(capital, gold, answer, free)
    gold, answer = _renamed(_CROSS, gold, answer, free)
    gold, answer = (_DIVISOR.sub(_divisor, text) for text in (gold, answer))
    gold, answer = _renamed(_DIVISOR, gold, answer, free)
    letters = _clashes(gold, answer)
    if _CURRENT.search(gold) or _CURRENT.search(answer):
        letters.add("I")
    names = dict(zip(sorted(letters), free, strict=False))
    return _with_letters(gold, names), _with_letters(answer, names)


def _divisor(match: re.Match[str]) -> str:
    """`\\gcd(12, 18)` as 6: the computer algebra takes anything but plain integers, as
    `\\gcd(a, b)`, for polynomials without a common factor."""
    if not _INTEGERS.fullmatch(match["of"]):
        return match[0]
    values = [int(one) for one in match["of"].split(",")]
    kind = match["command"] or match["said"] or match["plain"]
    return f"({math.gcd(*values) if kind == 'gcd' else math.lcm(*values)})"


def are_other_words(gold: str, answer: str) -> bool:
    """`IV` and `VI` are two Roman numerals, `CAT` and `ACT` two words: no orders of a product."""
    if gold == answer or not _NO_LABEL.search(gold):
        return False
    return any(
        all(pattern.fullmatch(text) is not None for text in (gold, answer))
        for pattern in (_ROMAN, _CAPITALS)
    )


def are_other_names(gold: str, answer: str) -> bool:
    """`R` and `r`, `2R` and `2r`: an answer that is one name is that name."""
    one, two = _ONE_NAME.fullmatch(gold), _ONE_NAME.fullmatch(answer)
    if one is None or two is None:
        return False
    return one["name"] != two["name"] and one["name"].lower() == two["name"].lower()


def _free(text: str) -> Iterator[str]:
    used = {letter.lower() for letter in _letters(text)}
    return iter([letter for letter in _FREE if letter not in used])


def _letters(text: str) -> Iterator[str]:
    text = _POWER_OF_TEN.sub("", text)
    return (match["letter"] for match in _LETTER.finditer(text) if match["letter"])


def _clashes(gold: str, answer: str) -> set[str]:
    """The letters to be renamed: one of each that occurs in both cases, if one text has such."""
    sides = [set(_letters(text)) - {"e", "E"} for text in (gold, answer)]
    if not any(letter.swapcase() in side for side in sides for letter in side):
        return set()
    every = sides[0] | sides[1]
    both = {letter for letter in every if letter.isupper() and letter.lower() in every}
    return {letter.lower() if letter in _CONSTANTS else letter for letter in both}


def _renamed(
    pattern: re.Pattern[str], gold: str, answer: str, free: Iterator[str]
) -> tuple[str, str]:
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        key, sign = match[0], ""
        if "two" in match.groupdict():
            pair = sorted((match["one"], match["two"]))
            key, sign = "".join(pair), "" if pair[0] == match["one"] else "-"
        if "of" in match.groupdict():
            kind = match["command"] or match["said"] or match["plain"]
            key = f"{kind}({','.join(sorted(one.strip() for one in match['of'].split(',')))})"
        key = re.sub(r"[\s{}]", "", key).replace("\\prime", "'").replace("^'", "'")
        if key not in names:
            names[key] = next(free, match[0])
        return f"({sign}{names[key]})" if sign else f"{names[key]} "

    gold, answer = pattern.sub(name, gold), pattern.sub(name, answer)
    return _TWICE_TURNED.sub(r"+\g<name>", gold).lstrip("+"), _TWICE_TURNED.sub(
        r"+\g<name>", answer
    ).lstrip("+")


def _command(name: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(name)}(?![A-Za-z])")


def _with_letters(text: str, names: dict[str, str]) -> str:
    def put(match: re.Match[str]) -> str:
        return match["skipped"] or names.get(match["letter"], match["letter"])

    return _LETTER.sub(put, text) if names else text
