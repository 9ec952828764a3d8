"""The grammar of answers: numbers, lists, sets, tuples, ratios, times, units, words.

docs/verdicts.md describes the grammar with examples. `read` turns text into a tree of the classes
below. The same rules apply to references and responses. Invariants: total (any text has a tree,
`Prose` if no rule matches), pure, and linear in the text times the nesting depth, which is bounded.
The mathematical meaning of an element is not decided here: an `Element` that is not a plain number
keeps its text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.lexicon import spelled, units

DEPTH_MAX: Final = 12
"""Maximum bracket depth that is read as structure; deeper brackets stay text."""
CHARS_MAX: Final = 4_000
"""A longer text is prose."""
ITEMS_MAX: Final = 256
"""Maximum number of items of a list; a longer one is read as text."""
_DIGITS_MAX: Final = 400
_NAME_CHARS_MAX: Final = 60
_EXPONENT_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Number:
    """An exact value, how it was written, and its unit."""

    value: Fraction
    is_decimal: bool = False
    is_percent: bool = False
    unit: str = ""
    form: str = ""


@dataclass(frozen=True, slots=True)
class Element:
    """An expression, equation or relation, for the computer algebra system."""

    text: str
    unit: str = ""
    form: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words: `Monday`, `\\text{even}`, `(C)`."""

    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """Several values between brackets, or between none."""

    kind: str
    """`list` (no brackets, any order), `set` (`\\{\\}`, any order), `tuple` (order counts)."""
    items: tuple["Answer", ...]
    brackets: str = ""
    form: str = ""
    decimal: Number | None = None
    """`1,22` may also be a decimal comma, and `12,34,567` one number."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of one length."""

    rows: tuple[tuple["Answer", ...], ...]
    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Union:
    """Intervals and sets that `\\cup` joins."""

    parts: tuple["Answer", ...]
    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Ratio:
    """`3:4`, `1:2:3`."""

    terms: tuple["Answer", ...]
    form: str = ""


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day or a duration; `4:30`, `4:30 pm`, `1:02:03`."""

    seconds: int
    half: str = ""
    """`am`, `pm`, or empty."""
    terms: tuple[int, ...] = ()
    form: str = ""


@dataclass(frozen=True, slots=True)
class Date:
    """A day; the year may be left out (0)."""

    year: int
    month: int
    day: int
    form: str = ""


@dataclass(frozen=True, slots=True)
class Based:
    """Digits with the base they are written in: `101_2`."""

    digits: str
    base: int
    form: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """`x = 5`, `(p, q) = (3, 2)`, `x \\in [0, 1]`: a name and its value."""

    name: str
    value: "Answer"
    text: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences, in which the answer must be searched."""

    text: str
    form: str = ""


Answer = (
    Number | Element | Words | Items | Matrix | Union | Ratio | Time | Date | Based | Named | Prose
)

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}

_PLAIN: Final = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?:[ ]\d{3})+(?!\d)|\d+)?(?:\.\d+)?"
_NUMBER: Final = re.compile(
    rf"(?a)(?P<sign>[-+]?)\s*(?P<money>[{notation.CURRENCY}€£¥₹]\s*)?(?P<sign2>[-+]?)\s*(?P<plain>{_PLAIN})\.?"
    r"(?:\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{\s*(?P<power>[-+]?\s*\d+)\s*\}|(?P<power1>-?\d+))"
    r"|[eE](?P<exponent>[-+]?\d+))?"
    r"(?P<percent>\s*\\?(?:%|\\%)|\s*(?:percent|percentage|pct)\b|\s*\\text\s*\{\s*(?:percent|percentage|pct)\s*\})?"
    r"(?P<rest>.*)",
    re.DOTALL,
)
_FRACTION: Final = re.compile(
    r"(?a)(?P<sign>[-+]?)\s*(?:(?P<whole>\d+)\s*(?=\\frac)|(?P<whole1>\d+)[ ]+(?=\d+\s*/))?"
    r"(?P<sign2>[-+]?)\s*(?:\\frac\s*(?:\{\s*(?P<n>-?\s*\d+)\s*\}|(?P<n1>\d))\s*(?:\{\s*(?P<d>-?\s*\d+)\s*\}|(?P<d1>\d))"
    r"|(?P<n2>\d+)\s*/\s*(?P<d2>\d+))(?P<percent>\s*\\?%)?(?P<rest>.*)",
    re.DOTALL,
)
_REPEATING: Final = re.compile(
    r"(?a)(?P<sign>-?)\s*(?P<whole>\d*)\.(?P<fixed>\d*)\s*\\overline\s*\{\s*(?P<block>\d+)\s*\}"
    r"(?P<percent>\s*\\?%)?(?P<rest>.*)",
    re.DOTALL,
)
_UNIT_COMMANDS: Final = re.compile(r"\\text\s*\{[^{}]*\}|\\circ|\\cdot|\\%")
_UNIT_CHARS: Final = re.compile(r"(?a)[A-Za-z.°/ ^{}\d-]*")
_UNIT_PART: Final = rf"(?:\\text ?\{{[^{{}}]*\}}|{notation.CURRENCY})(?: ?\^ ?\{{? ?-?\d ?\}}?)?"
_TRAILING_TEXT: Final = re.compile(
    rf"(?a)(?P<core>.*?[^\s\\({{\[,=:+*/^_-]) ?(?P<unit>{_UNIT_PART}(?: ?/? ?{_UNIT_PART}){{0,4}})",
    re.DOTALL,
)
_DEGREES: Final = re.compile(r"(?a)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)\s*$")
_TRAILING_WORD: Final = re.compile(r"(?a)(?P<core>.*[\d})\]])\s+(?P<unit>[A-Za-z]{2,})$", re.DOTALL)
_MATRIX: Final = re.compile(
    r"(?:\(|\[)?\s*\\begin\s*\{(?:[pbB]?matrix|smallmatrix|array)\}(?:\{[clr| ]*\})?(?P<rows>.*)"
    r"\\end\s*\{(?:[pbB]?matrix|smallmatrix|array)\}\s*(?:\)|\])?",
    re.DOTALL,
)
_BASED: Final = re.compile(
    r"(?a)(?:\\text\s*\{)?\(?(?P<digits>[0-9A-Za-z]+)\)?\}?\s*_\s*(?:\{\s*(?:\\text\s*\{)?\(?(?P<base>\d{1,2}|[a-z]{3,8})\)?\}?\s*\}|(?P<base1>\d))"
)
_TIME: Final = re.compile(
    r"(?a)(?P<h>\d{1,2})\s*:\s*(?P<m>[0-5]\d)(?:\s*:\s*(?P<s>[0-5]\d))?"
    r"\s*(?:\\text\s*\{\s*)?(?P<half>[aApP]\.?\s*[mM]\.?|o'clock)?\s*\}?"
)
_CLOCK: Final = re.compile(
    r"(?a)(?P<h>\d{1,2})\s*(?:\\text\s*\{\s*)?(?P<half>[aApP]\.?\s*[mM]\.?)\s*\}?"
)
_DOTTED_CLOCK: Final = re.compile(
    r"(?a)\d{1,2}\.[0-5]\d\s*(?:\\text\s*\{\s*)?[aApP]\.?\s*[mM]\.?\s*\}?"
)
_DATE: Final = re.compile(
    r"(?a)(?:(?P<month>[A-Za-z]{3,9})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:\s*,?\s+(?P<year>\d{4}))?"
    r"|(?:the\s+)?(?P<day1>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month1>[A-Za-z]{3,9})\.?(?:\s*,?\s+(?P<year1>\d{4}))?"
    r"|(?P<year2>\d{4})-(?P<month2>\d{2})-(?P<day2>\d{2}))"
)
_LISTED: Final = re.compile(
    r"(?a),?\s*(?<![A-Za-z\\])(?:and|or)(?![a-z])\s*(?!\s*$)|\\&|\\text\s*\{\s*(?:,\s*)?(?:and|or)\s*\}"
)
_RISING: Final = {">": "<", "\\ge": "\\le", ">=": "\\le"}
_FALLING: Final = frozenset({">", "ge", ">="})
_FALLS: Final = re.compile(r"(>=|>|\\ge(?![A-Za-z]))")
_RISES: Final = re.compile(r"<|\\le(?![A-Za-z])|=")
_BOUND: Final = (
    r"(?P<x{n}>[a-z])\s*(?P<r{n}>[<>]=?|\\[lg]e(?![A-Za-z]))\s*(?P<v{n}>-?[\w./\\{{}}]+)"
)
_BOTH_BOUNDS: Final = re.compile(
    rf"(?a){_BOUND.format(n='')}\s*(?:and|\\text\s*\{{\s*and\s*\}}|\\land|\\wedge)\s*{_BOUND.format(n=1)}"
)
_MIXED_AND: Final = re.compile(r"(?a)(-?\d+)\s+and\s+(\d+/\d+|\\frac\{\d+\}\{\d+\})")
_POINTS: Final = re.compile(r"(?a)-?[1-9]\d{0,2}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})")
_INDIAN: Final = re.compile(r"(?a)-?[1-9]\d?(?:,\d{2})+,\d{3}")
_LETTER: Final = re.compile(
    r"(?a)(?:(?:option|choice|answer)\s+)?(?:\\text\s*\{\s*)?\(\s*([A-Za-z])\s*\)\s*\}?"
    r"|(?:option|choice)\s+(?:\\text\s*\{\s*)?([A-Za-z])\s*\}?",
    re.IGNORECASE,
)
_EMPTY: Final = re.compile(
    r"(?a)\\emptyset|\\\{\s*\\\}|(?:\\text\s*\{\s*)?(?:the\s+)?(?:empty|null)\s+set\s*\}?",
    re.IGNORECASE,
)
_REAL: Final = re.compile(
    r"(?a)(?:\\text\s*\{\s*)?(?:(?:the\s+)?set\s+of\s+)?all\s+(?:reals|real\s+numbers)\s*\}?",
    re.IGNORECASE,
)
_THOUSANDS: Final = re.compile(r"(?a)(?<![\d,.])[1-9]\d{0,2}(?:,\d{3})+(?!,?\d)")
_COMMA_DECIMAL: Final = re.compile(r"(?a)-?\s*\d+,\d+")
_SPACED_NUMBERS: Final = re.compile(r"(?a)-?[\d.,/]*\d(?:\s+-?[\d.,/]*\d)+")
_MIXED: Final = re.compile(r"(?a)-?\s*\d+ \d+/\d+")
_SPACED_THOUSANDS: Final = re.compile(r"(?a)-?[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?")
_WORD: Final = re.compile(r"[A-Za-z]{3,}")
_WORDS_ONLY: Final = re.compile(r"(?a)\(?[A-Za-z][A-Za-z\s'.\-,()!?\"&]*")
_FUNCTIONS: Final = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "log",
        "exp",
        "sqrt",
        "min",
        "max",
        "inf",
        "sup",
        "lim",
        "det",
        "gcd",
        "lcm",
        "mod",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "pmatrix",
        "bmatrix",
        "matrix",
        "vmatrix",
        "array",
        "cases",
        "aligned",
        "infty",
    ]
)
_OUTER: Final = re.compile(r"(?P<open>[\[\]])(?P<a>[^\[\]]+),(?P<b>[^\[\]]+)(?P<close>[\[\]])")
_POINT: Final = re.compile(r"(?a)[A-Z](?:_\w)?'?\s*(?P<at>\(.+,.+\))", re.DOTALL)
_EQUALS: Final = re.compile(r"(?a)(?<![<>!=\\:])=(?!=)")
_RELATION: Final = re.compile(r"[<>]|\\(?:le|ge|neq|equiv|approx|sim)(?![A-Za-z])|!=|<=|>=")
_VALUE_FOLLOWS: Final = re.compile(r"(?a)(?<![<>!=\\:])=(?!=)|\\approx(?![A-Za-z])")
_ORDER: Final = re.compile(
    r"[<>]|\\(?:le|ge|neq|equiv|sim|pmod|theta|alpha|beta|gamma|text)(?![A-Za-z])"
)
_NAME: Final = re.compile(r"(?a)[\w\s(),.'|{}\\:;^*/\[\]<>-]*[A-Za-z][\w\s(),.'|{}\\:;^*/\[\]<>-]*")
_SET_BUILDER: Final = re.compile(r"(?a)(?<!\\)\||\\mid(?![A-Za-z])|:|\\vert")
_COMMA: Final = frozenset({","})
_SEMICOLON: Final = frozenset({";"})
_COLON: Final = frozenset({":"})
_CUP: Final = frozenset({"\\cup"})


def read(text: str) -> Answer:
    """Parse `text` as an answer."""
    if len(text) > CHARS_MAX:
        return Prose(text=text, form=notation.form(text))
    return _read(notation.tidy(text), 0)


def _read(text: str, depth: int) -> Answer:
    if depth > DEPTH_MAX:
        return Element(text=text, form=notation.form(text))
    text = _ascending(text)
    for rule in (_date, _whole, _listed, _element):
        found = rule(text, depth)
        if found is not None:
            return found
    return Prose(text=text, form=notation.form(text))


def _ascending(text: str) -> str:
    """`4 > x \\ge -1`, and `x \\ge -1 and x < 4`, as `-1 \\le x < 4`."""
    both = _BOTH_BOUNDS.fullmatch(text)
    if (
        both
        and both["x"] == both["x1"]
        and (both["r"][-2:] in _FALLING) != (both["r1"][-2:] in _FALLING)
    ):
        lower, upper = (
            (("v", "r"), ("v1", "r1"))
            if both["r"][-2:] in _FALLING
            else (
                ("v1", "r1"),
                ("v", "r"),
            )
        )
        rising = _RISING[both[lower[1]]]
        return f"{both[lower[0]]} {rising} {both['x']} {both[upper[1]]} {both[upper[0]]}"
    parts = _FALLS.split(text)
    if len(parts) == 5 and not _RISES.search(text) and "," not in text:
        first, one, middle, two, last = (part.strip() for part in parts)
        return f"{last} {_RISING[two]} {middle} {_RISING[one]} {first}"
    return text


def _whole(text: str, depth: int) -> Answer | None:
    """Forms that are one element although they contain words or commas."""
    if _OUTER.fullmatch(text) and (text[0], text[-1]) != ("[", "]"):
        return _bracketed(text, depth)
    return (
        (_REAL.fullmatch(text) and Element(text="\\mathbb{R}", form="\\mathbb{R}"))
        or (
            Items(kind="set", items=(), brackets="{}", form="{}")
            if _EMPTY.fullmatch(text)
            else None
        )
        or _spelled(text)
        or _mixed(text)
        or _foreign_decimal(text)
    )


def _mixed(text: str) -> Answer | None:
    """`2 and 3/4`, `2 + \\frac{3}{4}`."""
    match = _MIXED_AND.fullmatch(text)
    return _fraction(f"{match[1]} {match[2]}") if match else None


def _foreign_decimal(text: str) -> Answer | None:
    """`1.234.567` and `1.234,5`: no other form has two points, or a comma after one."""
    if not _POINTS.fullmatch(text):
        return None
    return _decimal(text.replace(".", "").replace(",", "."))


# -- lists -----------------------------------------------------------------------------------------


def _listed(text: str, depth: int) -> Answer | None:
    """A list without brackets: parts between `;`, `,`, `and`, `or`, or spaces between numbers."""
    if _SPACED_NUMBERS.fullmatch(text) and not (
        _MIXED.fullmatch(text) or _SPACED_THOUSANDS.fullmatch(text)
    ):
        return _items("list", text.split(), text, depth)
    parts = _non_empty(notation.split(text, _SEMICOLON))
    if len(parts) < 2:
        parts = _comma_parts(text)
    if len(parts) < 2 or len(parts) > ITEMS_MAX:
        return None
    if _is_sentence(text, parts):
        return None
    found = _items("list", parts, text, depth)
    is_indian = _INDIAN.fullmatch(text) is not None
    if found is not None and depth == 0 and (is_indian or _COMMA_DECIMAL.fullmatch(text)):
        decimal = _number(text.replace(",", "" if is_indian else "."), depth)
        return Items(
            kind="list",
            items=found.items,
            form=found.form,
            decimal=decimal if isinstance(decimal, Number) else None,
        )
    return found


def _comma_parts(text: str, *, bracketed: bool = False) -> list[str]:
    """A comma before exactly three digits is part of a number, except inside brackets if commas
    with spaces separate the items."""
    spaced = re.search(r"(?a),\s", text) is not None
    if not bracketed or spaced:
        text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    if not bracketed:
        text = _top_level_and(text)
    return _non_empty(notation.split(text, _COMMA))


def _top_level_and(text: str) -> str:
    """Replace `and` and `or` outside brackets by commas."""
    if "and" not in text and "or" not in text and "\\&" not in text:
        return text
    depths = {token.start: token.depth for token in notation.tokens(text)}

    def replace(match: re.Match[str]) -> str:
        word_at = match.start() + len(match[0]) - len(match[0].lstrip(", "))
        return ", " if depths.get(word_at, 1) == 0 else match[0]

    return _LISTED.sub(replace, text)


def _items(kind: str, parts: list[str], text: str, depth: int, brackets: str = "") -> Items | None:
    items: list[Answer] = []
    for part in parts:
        item = _read(part.strip(), depth + 1)
        if isinstance(item, Prose):
            return None
        if isinstance(item, Items) and item.brackets == "pm":
            items.extend(item.items)
        else:
            items.append(item)
    form = brackets + ", ".join(notation.form(part) for part in parts)
    return Items(kind=kind, items=tuple(items), brackets=brackets, form=form)


def _is_sentence(text: str, parts: list[str]) -> bool:
    """Clauses between commas are prose, not a list of answers."""
    return any(len(_WORD.findall(_bare(part))) > 4 for part in parts) or len(
        _WORD.findall(_bare(text))
    ) > 4 * len(parts)


def _bare(text: str) -> str:
    return re.sub(r"\\[A-Za-z]+", " ", text)


def _non_empty(parts: list[str]) -> list[str]:
    return [part.strip() for part in parts if part.strip()]


# -- one element -----------------------------------------------------------------------------------


def _element(text: str, depth: int) -> Answer | None:
    for rule in _RULES:
        found = rule(text, depth)
        if found is not None:
            return found
    return None


def _number(text: str, _depth: int) -> Answer | None:
    return _repeating(text) or _fraction(text) or _decimal(text) or _spelled(text)


def _repeating(text: str) -> Answer | None:
    """`0.1\\overline{6}`, exactly."""
    match = _REPEATING.fullmatch(text)
    unit = _unit(match["rest"]) if match else None
    if match is None or unit is None or len(match[0]) > _DIGITS_MAX:
        return None
    whole, fixed, block = match["whole"] or "0", match["fixed"], match["block"]
    nines = 10 ** len(block) - 1
    value = Fraction(int(whole + fixed) * nines + int(block), nines * 10 ** len(fixed))
    return Number(
        value=-value if match["sign"] else value,
        is_percent=bool(match["percent"]),
        unit=unit,
        form=notation.form(text),
    )


def _spelled(text: str) -> Answer | None:
    """`twelve`, `three quarters`, `2.5 million`, `2 hours 15 minutes`."""
    value = spelled.number(notation.words_of(text))
    if value is not None:
        return Number(value=value, form=notation.form(text))
    found = units.compound(text)
    return found and Number(value=found.value, unit=found.unit, form=notation.form(text))


def _decimal(text: str) -> Answer | None:
    match = _NUMBER.fullmatch(text)
    if match is None or not match["plain"] or match["plain"] == ".":
        return None
    if match["sign"] and match["sign2"]:
        return None
    digits = match["plain"].replace(",", "").replace(" ", "")
    power = (match["power"] or match["power1"] or match["exponent"] or "0").replace(" ", "")
    if len(digits) > _DIGITS_MAX or len(power) > 4 or abs(int(power)) > _EXPONENT_MAX:
        return None
    unit = _unit(match["rest"])
    if unit is None:
        return None
    value = Fraction(digits) * Fraction(10) ** int(power)
    if "-" in (match["sign"], match["sign2"]):
        value = -value
    if match["money"]:
        unit = unit or match["money"].strip().replace(notation.CURRENCY, "$")
    return Number(
        value=value,
        is_decimal="." in digits or bool(match["exponent"]) or power.startswith("-"),
        is_percent=bool(match["percent"]),
        unit=unit,
        form=notation.form(text),
    )


def _fraction(text: str) -> Answer | None:
    match = _FRACTION.fullmatch(text)
    if match is None or (match["sign"] and match["sign2"]):
        return None
    whole = match["whole"] or match["whole1"] or "0"
    top = (match["n"] or match["n1"] or match["n2"]).replace(" ", "")
    below = (match["d"] or match["d1"] or match["d2"]).replace(" ", "")
    unit = _unit(match["rest"])
    too_long = max(len(whole), len(top), len(below)) > _DIGITS_MAX
    if unit is None or too_long or int(below) == 0 or (int(whole) and match["sign2"]):
        return None
    value = int(whole) + Fraction(int(top), int(below))
    if "-" in (match["sign"], match["sign2"]):
        value = -value
    return Number(
        value=value, is_percent=bool(match["percent"]), unit=unit, form=notation.form(text)
    )


def _unit(text: str) -> str | None:
    """The normalised unit of `text`; "" for no unit, `None` if it is something else."""
    text = text.strip()
    if not text:
        return ""
    if _DEGREES.fullmatch(text):
        return "°"
    if text.strip("{} ") in {notation.CURRENCY, "€", "£", "¥"}:
        return text.strip("{} ").replace(notation.CURRENCY, "$")
    if not _UNIT_CHARS.fullmatch(_UNIT_COMMANDS.sub("", text)):
        return None
    in_text = "\\text" in text
    said = notation.words_of(text).strip().rstrip(".").lower()
    if not in_text and (re.search(r"(?a)[\d^{}_\\]", said) and not units.is_plain(said)):
        return None
    if (
        not in_text
        and not units.is_plain(said)
        and not all(len(word) >= 3 for word in re.findall(r"[a-z]+", said))
    ):
        return None
    if len(said.split()) > 4 or not re.search(r"[a-z°]", said):
        return None if said else ""
    return units.unit_form(said)


def _time(text: str, _depth: int) -> Answer | None:
    match = _TIME.fullmatch(text)
    if match:
        half = _half(match["half"])
        hours, minutes = int(match["h"]), int(match["m"])
        seconds = int(match["s"] or 0)
        if hours <= 24 and (not half or 1 <= hours <= 12):
            terms = (hours, minutes) if match["s"] is None else (hours, minutes, seconds)
            return Time(
                seconds=(hours * 60 + minutes) * 60 + seconds,
                half=half,
                terms=() if match["half"] else terms,
                form=notation.form(text),
            )
    match = _CLOCK.fullmatch(text)
    if match is None and _DOTTED_CLOCK.fullmatch(text):
        return _time(text.replace(".", ":", 1), _depth)
    if match and 1 <= int(match["h"]) <= 12:
        return Time(
            seconds=int(match["h"]) * 3600, half=_half(match["half"]), form=notation.form(text)
        )
    return None


def _half(said: str | None) -> str:
    letter = (said or "")[:1].lower()
    return f"{letter}m" if letter in {"a", "p"} else ""


def _date(text: str, _depth: int) -> Answer | None:
    match = _DATE.fullmatch(notation.words_of(text).strip())
    if match is None:
        return None
    month_said = match["month"] or match["month1"] or match["month2"]
    month = int(month_said) if month_said.isdigit() else _MONTHS.get(month_said.lower(), 0)
    day = int(match["day"] or match["day1"] or match["day2"])
    year = int(match["year"] or match["year1"] or match["year2"] or 0)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return Date(year=year, month=month, day=day, form=notation.form(text))


def _ratio(text: str, depth: int) -> Answer | None:
    parts = notation.split(text, _COLON)
    if not 2 <= len(parts) <= 8 or not all(part.strip() for part in parts):
        return None
    if "=" in text or "\\mid" in text or _RELATION.search(text) or _WORD.search(_bare(text)):
        return None
    terms = tuple(_read(part.strip(), depth + 1) for part in parts)
    if not all(isinstance(term, Number | Element) for term in terms):
        return None
    return Ratio(terms=terms, form=notation.form(text))


def _based(text: str, _depth: int) -> Answer | None:
    match = _BASED.fullmatch(text)
    if match is None:
        return None
    base = _base(match["base"] or match["base1"])
    digits = match["digits"].upper()
    if not 2 <= base <= 36 or len(digits) > _DIGITS_MAX or not digits[0].isdigit():
        return None
    if any(int(digit, 36) >= base for digit in digits):
        return None
    return Based(digits=digits.lstrip("0") or "0", base=base, form=notation.form(text))


def _base(said: str) -> int:
    value = Fraction(said) if said.isdigit() else spelled.number(said)
    return int(value) if value is not None else 0


def _bracketed(text: str, depth: int) -> Answer | None:
    outer = _OUTER.fullmatch(text)
    if outer and (outer["open"], outer["close"]) != ("[", "]"):
        opens = "(" if outer["open"] == "]" else "["
        text = f"{opens}{outer['a']},{outer['b']}{')' if outer['close'] == '[' else ']'}"
    opening = "\\{" if text.startswith("\\{") else text[:1]
    if text.startswith("\\langle"):
        opening = "\\langle"
    if opening not in {"(", "[", "\\{", "{", "\\langle"}:
        return None
    end = notation.closing(text, 0)
    if end != len(text) - 1:
        return None
    closer = "\\}" if text.endswith("\\}") else text[-1]
    closer = "\\rangle" if text.endswith("\\rangle") else closer
    inside = text[len(opening) : len(text) - len(closer)].strip()
    return _within(text, opening, inside, closer, depth)


def _within(text: str, opening: str, inside: str, closer: str, depth: int) -> Answer | None:
    if opening == "{":
        return _read(inside, depth + 1) if closer == "}" and inside else None
    if opening == "\\{":
        return _set(text, inside, depth)
    separators = _SEMICOLON if ";" in inside and "," not in inside else _COMMA
    parts = (
        _non_empty(notation.split(inside, separators))
        if separators is _SEMICOLON
        else _comma_parts(inside, bracketed=True)
    )
    brackets = opening + closer
    if len(parts) == 1 and brackets == "()":
        inner = _read(inside, depth + 1)
        return None if isinstance(inner, Element | Prose) else inner
    if len(parts) < 2 or len(parts) > ITEMS_MAX:
        return None
    return _items("tuple", parts, text, depth, "()" if "langle" in opening else brackets)


def _set(text: str, inside: str, depth: int) -> Answer | None:
    if not inside:
        return Items(kind="set", items=(), brackets="{}", form="{}")
    if _SET_BUILDER.search(inside) and not _ratio(inside, depth):
        return Element(text=text, form=notation.form(text))
    inside = inside.replace(";", ",") if "," not in inside else inside
    parts = _comma_parts(inside, bracketed=True)
    if len(parts) > ITEMS_MAX:
        return None
    return _items("set", parts, text, depth, "{}")


def _union(text: str, depth: int) -> Answer | None:
    parts = notation.split(text, _CUP)
    if len(parts) < 2 or not all(part.strip() for part in parts):
        return None
    read = tuple(_read(part.strip(), depth + 1) for part in parts)
    if not all(isinstance(part, Items) and part.brackets for part in read):
        return None
    return Union(parts=read, text=text, form=notation.form(text))


def _plus_minus(text: str, depth: int) -> Answer | None:
    if not re.search(r"\\(?:pm|mp)(?![A-Za-z])", text) or _RELATION.search(text):
        return None
    both = []
    for upper, lower in (("+", "-"), ("-", "+")):
        one = re.sub(r"\\pm(?![A-Za-z])", lambda _, s=upper: s, text)  # type: ignore[misc]
        one = re.sub(r"\\mp(?![A-Za-z])", lambda _, s=lower: s, one)  # type: ignore[misc]
        both.append(re.sub(r"(?a)(^|[({,=])\s*\+", r"\1", one).strip())
    items = [_read(one, depth + 1) for one in both]
    if any(isinstance(item, Prose) for item in items):
        return None
    return Items(kind="list", items=tuple(items), brackets="pm", form=notation.form(text))


def _named(text: str, depth: int) -> Answer | None:
    """`name = value` with a value that is more than an expression."""
    point = _POINT.fullmatch(text)
    if point:
        at = _read(point["at"], depth + 1)
        is_point = isinstance(at, Items) and at.brackets == "()"
        name = text[: point.start("at")].strip()
        return Named(name, at, point["at"], notation.form(text)) if is_point else None
    belongs = re.search(r"\\in(?![A-Za-z])", text)
    if belongs and not _EQUALS.search(text):
        name, rest = text[: belongs.start()].strip(), text[belongs.end() :].strip()
        value = _read(rest, depth + 1) if rest else None
        is_region = isinstance(value, Items | Union) and (
            isinstance(value, Union) or bool(value.brackets)
        )
        if name and len(name) <= 12 and value is not None and is_region:
            return Named(name=notation.form(name), value=value, text=text, form=notation.form(text))
        return None
    sides = _EQUALS.split(text)
    if len(sides) != 2 or _RELATION.search(text):
        return None
    name, rest = sides[0].strip(), sides[1].strip()
    if not name or not rest or not _is_name(name):
        return None
    value = _read(rest, depth + 1)
    if isinstance(value, Prose | Named) or (isinstance(value, Words) and "\\text" not in rest):
        return None
    if isinstance(value, Element) and not value.unit and not _is_plain_name(name):
        return None
    return Named(name=notation.form(name), value=value, text=text, form=notation.form(text))


def _computed(text: str, depth: int) -> Answer | None:
    """`2 + 3 = 5`, `\\sin 0.3 \\approx 0.296`: no letter is unknown, so the end is the value."""
    sides = _VALUE_FOLLOWS.split(text)
    if len(sides) < 2 or _ORDER.search(text) or not all(side.strip() for side in sides):
        return None
    if re.search(r"(?a)[A-Za-df-z]", _bare(" ".join(sides[:-1]))):
        return None
    value = _number(sides[-1].strip(), depth)
    if value is None:
        return None
    name = notation.form(sides[0].strip())
    return Named(name=name, value=value, text=text, form=notation.form(text))


def _is_plain_name(name: str) -> bool:
    return re.fullmatch(r"(?a)\\?[A-Za-z]+(?:_\{?\w+\}?)?'?", name) is not None


def _is_name(name: str) -> bool:
    """Letters, `f(x)`, `(x, y)`, `AB`, `a_3`, `|AB|`, a quotient of such; nothing with a sum."""
    if len(name) > _NAME_CHARS_MAX or name.startswith("-") or not _NAME.fullmatch(name):
        return False
    loose = re.sub(r"(?a)_\s*(\{[^{}]*\}|\w)", "", name)
    return not re.search(r"(?a)\d|\^|-|\+", re.sub(r"(?a)\\text\s*\{[^{}]*\}", "t", loose))


def _words(text: str, _depth: int) -> Answer | None:
    letter = _LETTER.fullmatch(text)
    if letter:
        said = letter[1] or letter[2]
        return Words(text=said, form=said)
    said = notation.words_of(text).strip()
    if not _WORDS_ONLY.fullmatch(said):
        return None
    words = re.findall(r"[A-Za-z]+", said)
    in_text = text.startswith("\\text")
    long = any(len(word) >= 4 and word.lower() not in _FUNCTIONS for word in words)
    known = said.lower() in {"yes", "no", "odd", "all", "one", "two", "six", "ten", "nan", "dne"}
    if not (long or known or in_text):
        return None
    return Words(text=words_form(said), form=notation.form(text))


def words_form(said: str) -> str:
    """Words without case, punctuation and spaces; a single letter keeps its case."""
    letters = re.sub(r"[^A-Za-z0-9]+", " ", said).strip()
    return letters if len(letters) == 1 else letters.casefold()


def _quantity(text: str, depth: int) -> Answer | None:
    """An expression followed by a unit."""
    match = _TRAILING_TEXT.fullmatch(text)
    if match is None:
        match = _TRAILING_WORD.fullmatch(text)
        if match is not None and match["unit"].lower() not in units.PLAIN:
            match = None
    if match is not None and re.search(r"(?a)\d|\\", match["core"]):
        unit = _unit(match["unit"])
        if unit is not None:
            core = _plain_core(match["core"], depth)
            if core is not None:
                return _with_unit(core, unit, text)
    degrees = _DEGREES.search(text)
    if degrees:
        core = _plain_core(text[: degrees.start()], depth)
        if core is not None:
            return _with_unit(core, "°", text)
    if text.startswith((notation.CURRENCY, "-" + notation.CURRENCY)):
        core = _plain_core(text.replace(notation.CURRENCY, "", 1), depth)
        if core is not None:
            return _with_unit(core, "$", text)
    return None


def _plain_core(text: str, depth: int) -> Number | Element | None:
    core = _read(text.strip(), depth + 1)
    return core if isinstance(core, Number | Element) and not core.unit else None


def _with_unit(core: Number | Element, unit: str, text: str) -> Answer:
    form = notation.form(text)
    if isinstance(core, Number):
        return Number(core.value, core.is_decimal, core.is_percent, unit, form)
    return Element(text=core.text, unit=unit, form=form)


def _expression(text: str, _depth: int) -> Answer | None:
    if not text:
        return None
    plain = re.sub(r"(?a)\\text\s*\{[^{}]*\}|\\begin\{\w+\*?\}|\\end\{\w+\*?\}", " ", text)
    words = [word for word in _WORD.findall(_bare(plain)) if word.lower() not in _FUNCTIONS]
    if len([word for word in words if len(word) > 3]) >= 2 or (words and " " in text):
        return None
    plain = text.replace(notation.CURRENCY, " ").strip()
    return Element(text=plain, form=notation.form(text)) if plain else None


def _matrix(text: str, depth: int) -> Answer | None:
    match = _MATRIX.fullmatch(text)
    if match is None or "\\begin" in match["rows"]:
        return None
    rows = [row for row in match["rows"].split("\\\\") if row.strip()]
    if not 0 < len(rows) <= ITEMS_MAX:
        return None
    read = [_items("tuple", row.split("&"), row, depth, "()") for row in rows]
    items = tuple(row.items for row in read if row is not None)
    if len(items) != len(rows) or len({len(row) for row in items}) != 1:
        return None
    return Matrix(rows=items, text=text, form=notation.form(text))


_RULES: Final[tuple[Callable[[str, int], Answer | None], ...]] = (
    _number,
    _matrix,
    _time,
    _based,
    _union,
    _bracketed,
    _plus_minus,
    _words,
    _named,
    _computed,
    _ratio,
    _quantity,
    _expression,
)
