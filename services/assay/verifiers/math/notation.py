"""Normalises the many spellings of LaTeX, Unicode and plain text to one. Text to text, linear.

`tidy` returns the spelling that `grammar` reads; `form` returns the one in which equal texts are
identical. Neither changes the meaning: signs, digits and brackets all stay.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from assay.verifiers.math.lexicon.regions import written_out
from assay.verifiers.math.lexicon.spellings import SPELLINGS
from assay.verifiers.math.lexicon.unicode import ascii_of

CURRENCY: Final = "\N{CURRENCY SIGN}"
"""Replacement for `\\$`, so that a dollar sign is not mistaken for a delimiter."""
JOINERS: Final = "and|or|maybe|perhaps|possibly|alternatively|versus|vs"
"""Words between two answers, as alternatives of a regular expression."""
_SPELLINGS: Final = {
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
    "nicefrac": "frac",
    "sfrac": "frac",
    "flatfrac": "frac",
    "surd": "sqrt",
    "leq": "le",
    "leqslant": "le",
    "geq": "ge",
    "geqslant": "ge",
    "ne": "neq",
    "lbrace": "{",
    "rbrace": "}",
    "colon": ":",
    "lbrack": "[",
    "rbrack": "]",
    "minus": "-",
    "bigcup": "cup",
    "varnothing": "emptyset",
    "R": "mathbb{R}",
    "reals": "mathbb{R}",
    "mathrm": "text",
    "textbf": "text",
    "textit": "text",
    "textsc": "text",
    "textrm": "text",
    "textnormal": "text",
    "textsf": "text",
    "texttt": "text",
    "boldsymbol": "text",
    "bm": "text",
    "underline": "text",
    "mathbf": "text",
    "mathsf": "text",
    "mathit": "text",
    "mathtt": "text",
    "mbox": "text",
    "emph": "text",
    "ensuremath": "text",
    "hbox": "text",
    "operatorname": "text",
    "lt": "<",
    "gt": ">",
    "ast": "*",
    "vee": "lor",
    "wedge": "land",
    "thinspace": ",",
}
_BARE: Final = frozenset({"<", ">", ":", "[", "]", "-", "*"})
_DROPPED: Final = frozenset(
    [
        "left",
        "right",
        "mleft",
        "middle",
        "mright",
        "displaystyle",
        "textstyle",
        "scriptstyle",
        "limits",
        "nolimits",
        "bigl",
        "bigr",
        "Bigl",
        "Bigr",
        "big",
        "Big",
        "bigg",
        "biggl",
        "biggr",
        "Bigg",
        "Biggl",
        "Biggr",
        "rm",
        "bf",
        "it",
        "sf",
        "hfill",
        "noindent",
        "mathstrut",
        "strut",
        "mathbin",
        "mathrel",
        "mathop",
        "mathopen",
        "mathclose",
        "mathord",
        "mathpunct",
        "mathinner",
        "centering",
        "large",
        "Large",
        "huge",
        "checkmark",
        "blacksquare",
    ]
)
_SPACES: Final = frozenset({"quad", "qquad", ",", ";", ":", "!", ">", "enspace", "space", " "})
_COMMAND: Final = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_DOUBLED: Final = re.compile(r"\\\\(?=[A-Za-z])")
_THOUSANDS: Final = re.compile(
    r"(?a)(?<=\d)(?:\{,\}|\\[,;:!]\s?|(?:\\!)?\s?,\\!\s?|~|_|\{\s*,\s*\})(?=\d{3}(?!\d))"
)


_REPEATED_IN: Final = re.compile(
    r"(?a)(?<!\d)(\d*\.\d*)(?:\\(?:bar|dot|overline)\s*\{?(\d+)(?:\}|(?<=\d)(?![\d}]))|\((\d+)\))"
)
_SHOWN: Final = re.compile(r"(?a)(?<!\d)(\d*\.)(\d+)\s?(?:\.{3}|\u2026|\\[lc]?dots)")
_DECIMAL_DOTS: Final = re.compile(
    r"(?a)(?<![\d.])(\d{0,400}\.\d{1,400})\s?(?:\.{3}|\u2026|\\[lc]?dots(?![A-Za-z]))"
)
"""The first digits of a decimal that is not periodic."""
_SHOWN_TIMES_MIN: Final = 3
_ROOT_OF: Final = re.compile(r"\\sqrt\s?\(")
_FRAC_HEAD: Final = re.compile(r"\\[dtc]?frac(?![A-Za-z])")
_BARE_ARGUMENT: Final = re.compile(r"(?a)\s*(\{|\\[A-Za-z]+|\w)")
_STRUCK: Final = re.compile(
    r"(?<![~\w\\])~~(?=[^\s~])[^~\n]*(?<=[^\s~])~~(?![~\w])|<(s|del|strike)>[^<]*</\1>",
    re.IGNORECASE,
)
_SPACE: Final = re.compile(r"(?a)\s+")
_DOTTED_ENDS: Final = re.compile(
    r"(?a)(?<!\d)(\d*\.\d*)\\dot\s*\{?(\d)\}?(\d*)\\dot\s*\{?(\d)(?:\}|(?!\d))"
)
"""Dots over the first and the last digit of the repeated block."""
_TEXT_NUMBER: Final = re.compile(
    r"(?a)(?:(?<![\d.])\\text\s*\{\s*(?=\d)|\\text\s*\{\s*(?=[,;]))(\d[\d,]*(?:\.\d+)?|[,;])\s*\}"
)
"""A number or a separator set as text."""
_BRACED_MARK: Final = re.compile(rf"(?<![\^_A-Za-z])\{{\s*([.:=<>*]|\\%|{CURRENCY})\s*\}}")
"""Braces that only change the space around a sign."""
_PLAIN: Final = re.compile(r"(?a)-?(?:0|[1-9]\d{0,17})(?:\.\d{1,18})?")
_NEGATIVE: Final = re.compile(rf"(?ai)^(?:negative|minus)\s+(?=[\d.\\{CURRENCY}])")
_LEADING_RELATION: Final = re.compile(r"\s*(?:=|\\(?:approx|simeq|cong)(?![A-Za-z]))\s*(?=\S)")
_AND_OR: Final = re.compile(r"(?a)\\text\s*\{\s*,?\s*(and|or)\s*,?\s*\}")
_SAYS_TEXT: Final = re.compile(r"(?a)\\text\s*\{([^{}]*)\}")
_CLOSERS: Final = frozenset({")", "]", "}", "\\}", "\\rangle"})
_TOKEN: Final = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_WRAPPERS: Final = (
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("***", "***"),
    ("**", "**"),
    ("__", "__"),
    ("``", "``"),
    ("``", "''"),
    ("`", "`"),
    ("`", "'"),
    ('"', '"'),
    ("*", "*"),
    ("_", "_"),
    ("'", "'"),
)
_END_MARKS: Final = " \t\r\n.,;:"
_PEELED_MAX: Final = 12
_APART: Final = re.compile(r"(?a)(\d,?)\s+(?=\d)")
"""Spaces that separate numbers: `1 2` is not `12`, `1, 234` is not `1,234`."""
_SUB_BRACES: Final = re.compile(r"(?a)([_^])\{(\w)\}")
_FRAC_BARE: Final = re.compile(r"(?a)\\frac\s*(?:\{(\w)\}|(\d))\s*(?:\{(\w)\}|(\d))")


class Token(NamedTuple):
    """One character or command of a text, and its bracket depth."""

    text: str
    start: int
    depth: int


def is_plain(text: str) -> bool:
    """Whether it is a number in digits and nothing else: it has one reading, and no other rule
    applies. Most answers are."""
    return _PLAIN.fullmatch(text) is not None


def tidy(text: str) -> str:
    """The normalised `text`: no math delimiters, no sizes, one minus, one fraction."""
    if is_plain(text):
        return text
    text = written_out(undoubled(ascii_of(text)).replace("!=", "\\neq "))
    for pattern, replacement in SPELLINGS:
        text = pattern.sub(replacement, text)
    text = _DECIMAL_DOTS.sub(r"\1", _repeating(text))
    text = _THOUSANDS.sub("", peel(text))
    text = _AND_OR.sub(r" \1 ", _COMMAND.sub(_respell, text).replace("~", " "))
    text = _BRACED_MARK.sub(r"\1", _TEXT_NUMBER.sub(r"\1", text))
    text = _braced_fractions(_braced_roots(_dollars(text)))
    text = _SPACE.sub(" ", peel(text)).strip()
    relation = _LEADING_RELATION.match(text)
    return _NEGATIVE.sub("-", text[relation.end() :] if relation else text)


def _repeating(text: str) -> str:
    """`0.333...`, `0.(3)` and `0.\\dot{3}` as `0.\\overline{3}`."""
    text = _DOTTED_ENDS.sub(r"\1\\overline{\2\3\4}", text)
    text = _REPEATED_IN.sub(r"\1\\overline{\2\3}", text)
    return _SHOWN.sub(_overlined, text)


def _overlined(match: re.Match[str]) -> str:
    """A decimal before dots, with the period that its last digits repeat at least three times,
    or all of them twice (`0.3636...`).

    In linear time: `fit[m]` is the longest end of the last m digits that they also begin with, read
    backwards, so `m - fit[m]` is their shortest period.
    """
    digits = match[2]
    backwards = digits[::-1]
    fit = [0, 0]
    for m in range(1, len(digits)):
        length = fit[m]
        while length and backwards[length] != backwards[m]:
            length = fit[length]
        fit.append(length + (backwards[length] == backwards[m]))
    for m in range(len(digits), _SHOWN_TIMES_MIN - 1, -1):
        period = m - fit[m]
        if m % period == 0 and m // period >= _SHOWN_TIMES_MIN:
            first = len(digits) - m
            return f"{match[1]}{digits[:first]}\\overline{{{digits[first : first + period]}}}"
    half, rest = divmod(len(digits), 2)
    if not rest and half > 1 and digits[:half] == digits[half:]:
        return f"{match[1]}\\overline{{{digits[:half]}}}"
    return match[0]


def _braced_roots(text: str) -> str:
    """`\\sqrt(x + 1)` as `\\sqrt{x + 1}`."""
    parts: list[str] = []
    began = 0
    for match in _ROOT_OF.finditer(text):
        end = closing(text, match.end() - 1) if match.start() >= began else -1
        if end > 0:
            parts += [text[began : match.start()], "\\sqrt{", text[match.end() : end], "}"]
            began = end + 1
        elif match.start() >= began:
            break
    return "".join([*parts, text[began:]])


def _braced_fractions(text: str) -> str:
    """`\\frac\\pi2` as `\\frac{\\pi}{2}`: each argument is one token or one group.

    Text after an unclosed argument stays unchanged.
    """
    parts: list[str] = []
    began = 0
    for match in _FRAC_HEAD.finditer(text):
        if match.start() < began:
            continue
        top, middle = _argument(text, match.end())
        below, end = _argument(text, middle) if middle >= 0 else ("", -1)
        if end < 0:
            break
        if top and below:
            parts += [text[began : match.start()], f"\\frac{{{top}}}{{{below}}}"]
            began = end
    return "".join([*parts, text[began:]])


def _argument(text: str, start: int) -> tuple[str, int]:
    """A command's argument and its end: empty if there is none, -1 if it is unclosed."""
    match = _BARE_ARGUMENT.match(text, start)
    if match is None:
        return "", start
    if match[1] == "{":
        end = closing(text, match.end() - 1)
        return (text[match.end() : end], end + 1) if end > 0 else ("", -1)
    return match[1], match.end()


def undoubled(text: str) -> str:
    """Fix commands with a doubled backslash; in a matrix a double backslash is a new row."""
    return text if "\\begin" in text else _DOUBLED.sub(r"\\", text)


def unstruck(text: str) -> str:
    """Remove text that is struck through in Markdown or HTML."""
    return _STRUCK.sub(" ", text)


def form(text: str) -> str:
    """The form shared by texts that differ only in spaces and redundant braces."""
    text = _SUB_BRACES.sub(r"\1\2", _SPACE.sub("", _APART.sub(r"\1|", text)))
    return _FRAC_BARE.sub(lambda m: f"\\frac{{{m[1] or m[2]}}}{{{m[3] or m[4]}}}", text).replace(
        "\\text", ""
    )


def peel(text: str) -> str:
    """Remove the wrapping of an answer: `$`, `**`, quotes, a box, a full stop."""
    if text[:1].isalnum() and text[-1:].isalnum():
        return text
    for _ in range(_PEELED_MAX):
        before = text
        text = text.strip()
        for opening, closing in _WRAPPERS:
            if not (text.startswith(opening) and text.endswith(closing)):
                continue
            inner = text[len(opening) : -len(closing)]
            if (
                len(text) > len(opening) + len(closing)
                and opening not in inner
                and closing not in inner
                and not inner.endswith("\\")
            ):
                text = inner.strip()
        text = _unboxed(text)
        stripped = text.rstrip(_END_MARKS)
        if stripped.endswith("\\") and len(stripped) < len(text):
            stripped = text[: len(stripped) + 1]
            spaces = {"\\,", "\\;", "\\!", "\\:", "\\ "}
            stripped = stripped[:-2] if stripped[-2:] in spaces else stripped
        text = stripped or text
        if text == before:
            break
    return text


def _unboxed(text: str) -> str:
    if text.startswith("{") and len(text) > 2 and closing(text, 0) == len(text) - 1:
        return text[1:-1].strip()
    for head in ("\\boxed", "\\fbox", "\\text", "\\mathbf", "\\textbf"):
        if text.startswith(head) and text.endswith("}"):
            rest = text[len(head) :].lstrip()
            if rest.startswith("{") and closing(rest, 0) == len(rest) - 1:
                inside = rest[1:-1].strip()
                if (
                    head in {"\\boxed", "\\fbox"}
                    or "\\" in inside
                    or any(c.isdigit() for c in inside)
                    or not inside.isascii()
                    or _is_wrapped(inside)
                ):
                    return inside
    return text


def _is_wrapped(text: str) -> bool:
    return any(text.startswith(opening) and text.endswith(end) for opening, end in _WRAPPERS)


def _respell(match: re.Match[str]) -> str:
    said = match[1]
    name = _SPELLINGS.get(said, said)
    if name in _DROPPED or said == '"':
        return ""
    if said in _SPACES:
        return " "
    if name == "$":
        return CURRENCY
    if name in {"(", ")"} or (name in _BARE and match[1] not in {"[", "]"}):
        return name if match[1] not in {"(", ")"} else " "
    if name in {"[", "]"}:
        return name if len(match[1]) > 1 else " "
    return "\\" + name


def _dollars(text: str) -> str:
    """Remove the delimiters; an unpaired one before a digit is money."""
    if text.count("$") % 2:
        text = re.sub(r"(?a)\$(?=\s*\.?\d)", CURRENCY, text, count=1)
    return text.replace("$", " ")


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Characters and commands with the depth of brackets; `[0, 1)` opens and closes too."""
    depth = 0
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token in {")", "]", "}", "\\}", "\\rangle", "\\rceil", "\\rfloor", "\\end"}:
            depth = max(0, depth - 1)
        yield Token(token, match.start(), depth)
        if token in {"(", "[", "{", "\\{", "\\langle", "\\lceil", "\\lfloor", "\\begin"}:
            depth += 1


def closing(text: str, start: int) -> int:
    """Position at which the bracket at `start` closes; -1 if it does not."""
    for token in tokens(text, start):
        if token.start > start and token.depth == 0 and token.text in _CLOSERS:
            return token.start + len(token.text) - 1
    return -1


def split(text: str, separators: frozenset[str]) -> list[str]:
    """The parts between `separators` outside all brackets."""
    parts: list[str] = []
    began = 0
    for token in tokens(text):
        if token.depth == 0 and token.text in separators:
            parts.append(text[began : token.start])
            began = token.start + len(token.text)
    parts.append(text[began:])
    return parts


def words_of(text: str) -> str:
    """`text` without `\\text{}` around its words."""
    return _SAYS_TEXT.sub(r"\1", text)
