"""Arithmetic in words around a value: `85 minus 5`, `half of 170`, `ten percent of 85`.

One vocabulary for every reader: words *behind* a value that work on it, and words *before* it. A
value beside such words is an operand; a text of nothing else is the formula that it says.
"""

import re
from typing import Final

NUMBER_WORD: Final = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[- ](?:one|two|three|four|five"
    r"|six|seven|eight|nine))?|(?:a|one)\shundred)"
)
"""As part of a regular expression: a number in English words."""
_COUNTS_NOTHING: Final = r"(?!\s?\$?\s?[A-Za-z%])"
"""Nothing is counted: `over 5`, and not `over 5 days`."""
_OPERAND: Final = (
    rf"(?:\$?-?\.?\d[\d,]*(?:\.\d+)?|(?:{NUMBER_WORD}|half|pi)\b(?!-)|\\(?:pi|sqrt|[dt]?frac|theta)(?![A-Za-z])"
    r"|\$?(?![aAI]\s)[A-Za-z](?![A-Za-z']|\.\w))"
)
_PART: Final = (
    r"(?:hal(?:f|ves)|thirds?|quarters?|fourths?|fifths?"
    r"|sixths?|sevenths?|eighths?|ninths?|tenths?)"
)
_INFIX: Final = (
    r"(?:plus|minus|times|(?:divided|multiplied)\sby|choose|less|moins|menos|meno|mal"
    r"|added\sto|subtracted\sfrom|(?:raised\s)?to\sthe\spower(?:\sof)?|raised\sto)"
)
_POSTFIX: Final = (
    r"(?:squared|cubed|factorial|doubled|tripled|halved|quadrupled|inverted|negated"
    rf"|(?:raised\s)?to\sthe\s(?:(?:\d{{1,3}}(?:st|nd|rd|th)|second|third|{NUMBER_WORD}th|fifth|eighth"
    r"|ninth|twelfth|[a-z](?:-?th)?)(?:\s(?:power|degree))?|power)"
    r")(?![\w-])(?!\s(?!(?:and|or|is|if|for|in|at|on|of|as|by|with|which|that|power|degree)\b)[A-Za-z])"
)
BEHIND: Final = (
    rf"(?:{_INFIX}\s(?:or\sminus\s)?{_OPERAND}|plus\s(?:or\sminus\s\S|(?:an?\s(?:\w+\s)?|some\s)?constant\b)"
    rf"|over\s(?:\$?\d[\d,.]*(?<![.,])(?![\d\w]){_COUNTS_NOTHING}|{NUMBER_WORD}\b{_COUNTS_NOTHING}|\$?[a-z](?![\w']|\.\w))"
    rf"|{_POSTFIX}|and\s(?:\$?\d+|{NUMBER_WORD})\smore\b{_COUNTS_NOTHING}"
    rf"|and\s(?:an?|one|two|three)[\s-]{_PART}\b)"
)
"""Words directly behind a value and a space, which make it an operand; without regard to case."""
BEFORE: Final = (
    rf"(?:minus|negative|menos|moins|meno|half|twice|thrice|double|triple"
    rf"|(?:\d(?:%|\\%)|\d\s?percent|{NUMBER_WORD}\spercent)\s(?:of|off|more\sthan|less\sthan|above|below)"
    rf"|(?:an?|one|two|three|four|five|six|seven|eight|nine|\d)[\s-]{_PART}\sof|{_PART}\sof"
    r"|(?:\d\s?/\s?\d{1,3}|\\[dt]?frac\s?\{?\d{1,3}\}?\s?\{?\d{1,3}\}?|[\u00bc-\u00be\u2150-\u215e])\$?\sof"
    r"|(?:square|cube|root|reciprocal|negative|negation|opposite|inverse|logarithm)\sof"
    r"|the\s(?:factorial|absolute\svalue|log|sine|cosine|tangent|double|triple|half|exponential)\sof"
    rf"|(?:\d|{NUMBER_WORD})\s(?:less|more|fewer|greater|larger|smaller)\sthan"
    rf"|(?<![a-z-]){NUMBER_WORD}\s(?:plus|minus|times|(?:divided|multiplied)\sby|over|choose)"
    r"|\d\$?\s(?:over|choose|multiplied\sby)"
    rf"|(?:sum|product|difference|quotient|average|mean)\s(?:of|between)\s\$?(?:[-\d.,]{{1,12}}|{NUMBER_WORD}|[a-z])\$?\sand"
    r"|the\s(?:number|integer)\s(?:before|after|preceding|following))"
)
"""Words directly before a value and a space, which make it an operand."""
BEFORE_ENDS: Final = (
    *("us", "ve", "lf", "of", "off", "ce", "le", "an", "re", "er", "nd", "by", "es", "ow", "og"),
    *("ing", "os", "ns", "no"),
)
"""What they end with, so that few texts are searched."""
_SIGNS: Final = {
    "plus": "+",
    "minus": "-",
    "less": "-",
    "times": "\\cdot ",
    "multiplied by": "\\cdot ",
    "divided by": "/",
    "over": "/",
}
_POWERS: Final = {"squared": "^2", "cubed": "^3", "halved": "/2", "doubled": "\\cdot 2"}
_FACTORS: Final = {
    "half": "1/2",
    "one half": "1/2",
    "half of": "1/2",
    "one half of": "1/2",
    "twice": "2",
    "double": "2",
    "triple": "3",
    "thrice": "3",
    "a third of": "1/3",
    "one third of": "1/3",
    "two thirds of": "2/3",
    "a quarter of": "1/4",
    "three quarters of": "3/4",
}
_VALUE: Final = r"-?(?:\d[\d,]{0,20}(?:\.\d{1,20})?|\\[dt]?frac\{[^{}]{1,20}\}\{[^{}]{1,20}\})"
_SAID: Final = re.compile(
    rf"(?a)(?:(?P<share>\d{{1,9}}(?:\.\d{{1,9}})?)(?:\s?\\?%|\spercent)\sof\s"
    rf"|(?P<factor>{'|'.join(sorted(_FACTORS, key=len, reverse=True))})\s)?"
    rf"(?P<first>{_VALUE})(?:\s(?P<power>{'|'.join(_POWERS)}))?"
    rf"(?P<rest>(?:\s(?:{'|'.join(_SIGNS)})\s{_VALUE}){{0,8}})",
    re.IGNORECASE,
)
_NEXT: Final = re.compile(rf"\s({'|'.join(_SIGNS)})\s({_VALUE})", re.IGNORECASE)
_CHARS_MAX: Final = 120
_MARKS: Final = " $*_.`"


def in_symbols(text: str) -> str | None:
    r"""`85 - 5` for a text that is `85 minus 5`; `None` if it is anything else."""
    if len(text) > _CHARS_MAX:
        return None
    said = _SAID.fullmatch(" ".join(text.replace("$", " ").strip(_MARKS).split()))
    if said is None or not (said["share"] or said["factor"] or said["power"] or said["rest"]):
        return None
    formula = f"({said['first']})" + _POWERS.get((said["power"] or "").lower(), "")
    if said["share"]:
        formula = f"\\frac{{{said['share']}}}{{100}} \\cdot {formula}"
    elif said["factor"]:
        formula = f"({_FACTORS[said['factor'].lower()]}) \\cdot {formula}"
    for sign, value in _NEXT.findall(said["rest"]):
        formula = f"{formula} {_SIGNS[sign.lower()]}({value})".replace(")/(", ") / (")
    return formula
