"""Converts Unicode mathematics to ASCII and LaTeX: digits, signs, powers. Linear, total."""

import re
import unicodedata
from typing import Final

_NAMED: Final = {
    "-": "MINUS SIGN,EN DASH,HYPHEN,NON-BREAKING HYPHEN,FIGURE DASH,SMALL HYPHEN-MINUS,"
    "FULLWIDTH HYPHEN-MINUS,HEAVY MINUS SIGN",
    " ": "NO-BREAK SPACE,NARROW NO-BREAK SPACE,THIN SPACE,IDEOGRAPHIC SPACE,FIGURE SPACE,"
    "EN SPACE,EM SPACE,MEDIUM MATHEMATICAL SPACE",
    "": "ZERO WIDTH SPACE,WORD JOINER,ZERO WIDTH NO-BREAK SPACE,INVISIBLE TIMES,"
    "FUNCTION APPLICATION,LEFT-TO-RIGHT MARK,RIGHT-TO-LEFT MARK",
    ",": "IDEOGRAPHIC COMMA,ARABIC COMMA,ARABIC THOUSANDS SEPARATOR",
    ".": "ARABIC DECIMAL SEPARATOR,IDEOGRAPHIC FULL STOP",
    ":": "RATIO",
    "/": "DIVISION SIGN,DIVISION SLASH",
    "\\times ": "MULTIPLICATION SIGN",
    "\\cdot ": "MIDDLE DOT,DOT OPERATOR,BULLET OPERATOR",
    "\\pi ": "GREEK SMALL LETTER PI",
    "\\infty ": "INFINITY",
    "\\le ": "LESS-THAN OR EQUAL TO,LESS-THAN OR SLANTED EQUAL TO",
    "\\ge ": "GREATER-THAN OR EQUAL TO,GREATER-THAN OR SLANTED EQUAL TO",
    "\\neq ": "NOT EQUAL TO",
    "\\approx ": "ALMOST EQUAL TO",
    "\\equiv ": "IDENTICAL TO",
    "\\lor ": "LOGICAL OR",
    "\\land ": "LOGICAL AND",
    "\\cup ": "UNION,N-ARY UNION",
    "\\cap ": "INTERSECTION",
    "\\in ": "ELEMENT OF",
    "\\emptyset ": "EMPTY SET",
    "\\pm ": "PLUS-MINUS SIGN",
    "\\mp ": "MINUS-OR-PLUS SIGN",
    "^\\circ ": "DEGREE SIGN,MASCULINE ORDINAL INDICATOR,RING ABOVE",
    "^\\circ C": "DEGREE CELSIUS",
    "^\\circ F": "DEGREE FAHRENHEIT",
    "\\lfloor ": "LEFT FLOOR",
    "\\rfloor ": "RIGHT FLOOR",
    "\\lceil ": "LEFT CEILING",
    "\\rceil ": "RIGHT CEILING",
    "\\mathbb{R}": "DOUBLE-STRUCK CAPITAL R",
    "\\mathbb{Z}": "DOUBLE-STRUCK CAPITAL Z",
    "\\mathbb{N}": "DOUBLE-STRUCK CAPITAL N",
    "\\mathbb{Q}": "DOUBLE-STRUCK CAPITAL Q",
    "'": "RIGHT SINGLE QUOTATION MARK,LEFT SINGLE QUOTATION MARK,PRIME",
    '"': (
        "LEFT DOUBLE QUOTATION MARK,RIGHT DOUBLE QUOTATION MARK,DOUBLE LOW-9 QUOTATION MARK"
        ",LEFT-POINTING DOUBLE ANGLE QUOTATION MARK,RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK"
        ",LEFT CORNER BRACKET,RIGHT CORNER BRACKET"
    ),
}
_OTHERS: Final = {
    unicodedata.lookup(name): text for text, names in _NAMED.items() for name in names.split(",")
}
_GREEK: Final = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"),
    *("lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
_RAISED: Final = re.compile("[\u2070\xb9\xb2\xb3\u2074-\u207b\u207f]+")
_LOWERED: Final = re.compile("[\u2080-\u208b]+")
_RAISED_QUOTIENT: Final = re.compile(
    "(?<![\u2070\xb9\xb2\xb3\u2074-\u2079])([\u2070\xb9\xb2\xb3\u2074-\u2079]+)[\u2044/]([\u2080-\u2089]+)"
)
_FRACTION: Final = re.compile("[\xbc-\xbe\u2150-\u215e\u2189]")
_ROOT: Final = re.compile("\u221a\\s*(?:([0-9]+|[A-Za-z])|(?=\\())")
_SLASHED: Final = re.compile("(?<![0-9])([0-9]+)\u2044([0-9]+)")


def ascii_of(text: str) -> str:
    """Replace Unicode mathematics by ASCII and LaTeX; other characters stay."""
    if text.isascii():
        return text
    text = _RAISED_QUOTIENT.sub(lambda m: f"\\frac{{{_plain(m[1])}}}{{{_plain(m[2])}}}", text)
    text = _RAISED.sub(lambda m: f"^{{{_plain(m[0])}}}", text)
    text = _LOWERED.sub(lambda m: f"_{{{_plain(m[0])}}}", text)
    text = _FRACTION.sub(_fraction, text)
    text = "".join(_MAP.get(letter) or _letter(letter) for letter in text)
    text = _SLASHED.sub(r"\\frac{\1}{\2}", text)
    return _ROOT.sub(lambda m: f"\\sqrt{{{m[1]}}}" if m[1] else "\\sqrt", text)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")


def _fraction(match: re.Match[str]) -> str:
    top, below = unicodedata.normalize("NFKC", match[0]).split("\u2044")
    return f"\\frac{{{top}}}{{{below}}}"


def _letter(letter: str) -> str:
    """Digits of any script, letters of the mathematical alphabets, and full-width signs."""
    if letter in _OTHERS:
        return _OTHERS[letter]
    digit = unicodedata.decimal(letter, None)
    if digit is not None:
        return str(digit)
    if "\uff01" <= letter <= "\uff5e" or "\U0001d400" <= letter <= "\U0001d7ff":
        return unicodedata.normalize("NFKC", letter)
    return letter


_MAP: Final = {
    unicodedata.lookup(
        f"GREEK SMALL LETTER {name.upper().replace('LAMBDA', 'LAMDA')}"
    ): f"\\{name} "
    for name in _GREEK
}
