"""One spelling for what LaTeX, Unicode and plain text spell in many ways. Text to text, linear.

`tidy` gives the spelling that `grammar` reads; `form` the one under which two texts are the same
text. Neither changes what a text says: signs, digits and brackets all stay.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

CURRENCY: Final = "\N{CURRENCY SIGN}"
"""What `\\$` becomes, so that a dollar is not taken for a delimiter."""
_SIGNS: Final = str.maketrans(
    {
        "\N{MINUS SIGN}": "-",
        "\N{EN DASH}": "-",
        "\N{NON-BREAKING HYPHEN}": "-",
        "\N{FULLWIDTH HYPHEN-MINUS}": "-",
        "\N{NO-BREAK SPACE}": " ",
        "\N{NARROW NO-BREAK SPACE}": " ",
        "\N{THIN SPACE}": " ",
        "\N{FULLWIDTH COMMA}": ",",
        "\N{IDEOGRAPHIC COMMA}": ",",
        "\N{FULLWIDTH SEMICOLON}": ";",
        "\N{FULLWIDTH COLON}": ":",
        "\N{RATIO}": ":",
        "\N{FULLWIDTH LEFT PARENTHESIS}": "(",
        "\N{FULLWIDTH RIGHT PARENTHESIS}": ")",
        "\N{MULTIPLICATION SIGN}": "\\times ",
        "\N{MIDDLE DOT}": "\\cdot ",
        "\N{DOT OPERATOR}": "\\cdot ",
        "\N{DIVISION SIGN}": "/",
        "\N{GREEK SMALL LETTER PI}": "\\pi ",
        "\N{INFINITY}": "\\infty ",
        "\N{LESS-THAN OR EQUAL TO}": "\\le ",
        "\N{GREATER-THAN OR EQUAL TO}": "\\ge ",
        "\N{NOT EQUAL TO}": "\\neq ",
        "\N{UNION}": "\\cup ",
        "\N{INTERSECTION}": "\\cap ",
        "\N{ELEMENT OF}": "\\in ",
        "\N{PLUS-MINUS SIGN}": "\\pm ",
        "\N{DEGREE SIGN}": "^\\circ ",
        "\N{SUPERSCRIPT TWO}": "^2",
        "\N{SUPERSCRIPT THREE}": "^3",
        "\N{FULLWIDTH PERCENT SIGN}": "%",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT SINGLE QUOTATION MARK}": "'",
        "\N{LEFT DOUBLE QUOTATION MARK}": '"',
        "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    }
)
_ROOT: Final = re.compile("\N{SQUARE ROOT}\\s*(?:([0-9]+|[A-Za-z])|(?=\\())")
_SPELLINGS: Final = {
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
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
    "degree": "circ",
    "mathrm": "text",
    "textbf": "text",
    "textit": "text",
    "textrm": "text",
    "textnormal": "text",
    "textsf": "text",
    "texttt": "text",
    "mathbf": "text",
    "mathsf": "text",
    "mathit": "text",
    "mathtt": "text",
    "mbox": "text",
    "hbox": "text",
    "operatorname": "text",
    "lt": "<",
    "gt": ">",
    "thinspace": ",",
}
_BARE: Final = frozenset({"<", ">", ":", "[", "]"})
_DROPPED: Final = frozenset(
    [
        "left",
        "right",
        "mleft",
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
        "centering",
    ]
)
_SPACES: Final = frozenset({"quad", "qquad", ",", ";", ":", "!", ">", "enspace", "space", " "})
_COMMAND: Final = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_DOUBLED: Final = re.compile(r"\\\\(?=[A-Za-z])")
_THOUSANDS: Final = re.compile(
    r"(?a)(?<=\d)(?:\{,\}|\\[,!]\s?|,\\!\s?|~|\{\s*,\s*\})(?=\d{3}(?!\d))"
)
_SPACE: Final = re.compile(r"(?a)\s+")
_AND_OR: Final = re.compile(r"(?a)\\text\s*\{\s*,?\s*(and|or)\s*,?\s*\}")
_SAYS_TEXT: Final = re.compile(r"(?a)\\text\s*\{([^{}]*)\}")
_OPENERS: Final = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "\\langle": "\\rangle"}
_TOKEN: Final = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_WRAPPERS: Final = (
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("***", "***"),
    ("**", "**"),
    ("__", "__"),
    ("`", "`"),
    ('"', '"'),
)
_END_MARKS: Final = " \t\r\n.,;:!"
_PEELED_MAX: Final = 12
_APART: Final = re.compile(r"(?a)(\d,?)\s+(?=\d)")
"""Blanks that tell numbers apart: `1 2` is not `12`, `1, 234` is not `1,234`."""
_SUB_BRACES: Final = re.compile(r"(?a)([_^])\{(\w)\}")
_FRAC_BARE: Final = re.compile(r"(?a)\\frac\s*(?:\{(\w)\}|(\d))\s*(?:\{(\w)\}|(\d))")


class Token(NamedTuple):
    """One character or command of a text, and how deep in brackets it stands."""

    text: str
    start: int
    depth: int


def tidy(text: str) -> str:
    """One spelling of `text`: no delimiters of mathematics, no sizes, one minus, one fraction."""
    text = undoubled(text.translate(_SIGNS)).replace("!=", "\\neq ")
    text = _ROOT.sub(lambda m: f"\\sqrt{{{m[1]}}}" if m[1] else "\\sqrt", text)
    text = _THOUSANDS.sub("", peel(text))
    text = _AND_OR.sub(r" \1 ", _COMMAND.sub(_respell, text).replace("~", " "))
    text = _dollars(text)
    return _SPACE.sub(" ", peel(text)).strip()


def undoubled(text: str) -> str:
    """Commands whose backslash was escaped once too often; in a matrix it is a new row."""
    return text if "\\begin" in text else _DOUBLED.sub(r"\\", text)


def form(text: str) -> str:
    """What two texts share that differ in spaces and needless braces only."""
    text = _SUB_BRACES.sub(r"\1\2", _SPACE.sub("", _APART.sub(r"\1|", text)))
    return _FRAC_BARE.sub(lambda m: f"\\frac{{{m[1] or m[2]}}}{{{m[3] or m[4]}}}", text).replace(
        "\\text", ""
    )


def peel(text: str) -> str:
    """Take off what only wraps an answer: `$`, `**`, quotes, a box, a full stop."""
    for _ in range(_PEELED_MAX):
        before = text
        text = text.strip()
        for opening, closing in _WRAPPERS:
            inner = text[len(opening) : -len(closing)]
            if (
                len(text) > len(opening) + len(closing)
                and text.startswith(opening)
                and text.endswith(closing)
                and opening not in inner
                and closing not in inner
                and not inner.endswith("\\")
            ):
                text = inner.strip()
        text = _unboxed(text)
        stripped = text.rstrip(_END_MARKS)
        if stripped.endswith("\\") and len(stripped) < len(text):
            stripped = text[: len(stripped) + 1]
            stripped = stripped[:-2] if stripped[-2:] in {"\\,", "\\;", "\\!", "\\:"} else stripped
        text = stripped or text
        if text == before:
            break
    return text


def _unboxed(text: str) -> str:
    for head in ("\\boxed", "\\fbox", "\\text", "\\mathbf", "\\textbf"):
        if text.startswith(head) and text.endswith("}"):
            rest = text[len(head) :].lstrip()
            if rest.startswith("{") and closing(rest, 0) == len(rest) - 1:
                inside = rest[1:-1].strip()
                if head in {"\\boxed", "\\fbox"} or any(c.isdigit() for c in inside):
                    return inside
    return text


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
    """Take the delimiters away; one that has no partner and stands before a digit is money."""
    if text.count("$") % 2:
        text = re.sub(r"(?a)\$(?=\s*\.?\d)", CURRENCY, text, count=1)
    return text.replace("$", " ")


def tokens(text: str) -> Iterator[Token]:
    """Characters and commands with the depth of brackets; `[0, 1)` opens and closes too."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in {")", "]", "}", "\\}", "\\rangle", "\\rceil", "\\rfloor", "\\end"}:
            depth = max(0, depth - 1)
        yield Token(token, match.start(), depth)
        if token in {"(", "[", "{", "\\{", "\\langle", "\\lceil", "\\lfloor", "\\begin"}:
            depth += 1


def closing(text: str, start: int) -> int:
    """Where the bracket closes that opens at `start`; -1 where it does not."""
    for token in tokens(text[start:]):
        if token.depth == 0 and token.start and token.text in {")", "]", "}", "\\}", "\\rangle"}:
            return start + token.start + len(token.text) - 1
    return -1


def split(text: str, separators: frozenset[str]) -> list[str]:
    """The parts between `separators` that stand outside all brackets."""
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
