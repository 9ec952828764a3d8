r"""What surrounds an answer without being part of it: words in front, labels, conditions behind.

`So, the answer is 5`, `\textbf{(C) } 5`, `2\pi k, k \in \mathbb{Z}`. Text to text. Invariants: what
is taken away says nothing about the value; what is left reads as an answer by itself. Linear in the
length, which is bounded.
"""

import re
from html import unescape
from typing import Final, NamedTuple

from assay.verifiers.math import notation
from assay.verifiers.math.lexicon.unicode import ascii_of
from assay.verifiers.math.lexicon.units import NOT_UNITS

CHARS_MAX: Final = 300
"""A longer text is not searched."""
_SPACE: Final = r"(?:\s|\\[,;:! ]|~|\\q?quad(?![A-Za-z]))"
_OPEN: Final = r"(?:\\(?:text(?:bf|it|rm|normal)?|mathrm|mathbf|mbox|bf)\s?\{\s*|\*\*|__)?"
_CLOSE: Final = r"(?:\s*\}|\*\*|__)?"
_CONNECTIVE: Final = (
    r"(?:so|thus|hence|therefore|then|finally|consequently|overall|altogether|accordingly"
    r"|exactly|precisely|in total|in conclusion|as a result|this means(?: that)?|we conclude that"
    r"|it follows that|(?:(?:so|thus|hence|therefore),?\s+)?we (?:have|get|obtain|find)(?: that)?)"
)
_STATES: Final = (
    r"(?:is|are|was|equals?|becomes?|would be|will be|must be)(?![A-Za-z])"
    r"(?:\s+(?:therefore|thus|then|equal to|given by|exactly|just|simply|found to be))*"
)
_SUBJECT: Final = (
    r"(?:the|our|my|its|this|a)"
    r"(?:\s+(?!not\b|n't|wrong\b|incorrect\b|false\b|tempting\b)\$?[a-z]{1,20}\$?){1,6}?"
)
_LEAD: Final = re.compile(
    rf"(?ai)(?:{_SPACE}|[>#]\s)*{_OPEN}(?:(?P<so>{_CONNECTIVE}){_CLOSE}(?:{_SPACE}|,)+{_OPEN})?"
    rf"(?:(?:(?P<verb>{_SUBJECT}\s+{_STATES})|(?P<answer>(?:final\s+)?answer\s*(?:is)?))\s*:?{_CLOSE}"
    rf"|(?P<noun>the\s+(?:points?|values?|numbers?|pairs?|sets?|intervals?|solutions?|roots?)))?"
    rf"{_CLOSE}(?:{_SPACE}|[:=])*"
)
_LABEL: Final = re.compile(
    rf"(?a){_OPEN}(?:\(\s*{_OPEN}(?P<a>[A-J]){_CLOSE}\s*\)"
    rf"|{_OPEN}(?P<b>[A-J]){_CLOSE}\s?(?:\)|[.:](?=[\s}}\\])))"
    rf"{_SPACE}*{_CLOSE}{_SPACE}*(?=\S)"
)
_JOINS: Final = re.compile(rf"(?ai){_OPEN}(?:and|or|nor|both|with)(?![A-Za-z])")
"""`(A) and (B) both ...` is about several labels."""
_TOLD: Final = re.compile(
    rf"(?ai){_OPEN}(?:yes|no|true|false){_CLOSE}\s{{0,4}}(?:[.,;:]|[\s$}}]*$)"
)
"""`(B) no`, which denies no label but is what it stands for."""
_EMPHASIS: Final = ("**", "__")
_DECORATION: Final = re.compile(
    r"</?(?:b|strong|i|em|u|p|span|div|code|br|hr|h[1-6]|li|ul|ol|t[dhr]|table|font|center|mark|big"
    r"|small|pre|tt|kbd|math|details|section|blockquote|final|result)(?:\s[^<>\n]{0,80})?/?>"
    r"|\[/[A-Za-z]{3,20}\]|<\|[\w ]{1,40}\|>|```\w{0,12}\n?"
    r"|^[^\S\n]*(?:#{1,6}\s+|>\s+(?=\*\*))",
    re.IGNORECASE | re.MULTILINE,
)
_RAISED: Final = re.compile(
    r"<(?P<tag>su[pb])>\s*(?P<said>[^<>\n]{1,40}?)\s*</(?P=tag)>", re.IGNORECASE
)
_ENTITY: Final = re.compile(r"&(?:[A-Za-z]{2,8}\d{0,2}|#\d{2,6}|#[xX][0-9A-Fa-f]{2,5});")
"""Of HTML; in LaTeX nothing is written so."""
_THEREFORE: Final = re.compile(r"\A(\s*(?:\$+\s*)?)(?:\\therefore(?![A-Za-z])|\u2234)\s*")
_BOLD: Final = re.compile(r"(?<![\w)\]}*])\*\*(?=[^\s*])([^*\n]+)(?<=\S)\*\*(?![\w(*])")
_SYMBOLS: Final = "\u2705\u2714\ufe0f\u2611\U0001f389\U0001f44d\U0001f60a\U0001f642\U0001f680\u2728"
_BULLET: Final = re.compile(r"(?m)^\s{0,3}[-*\u2022]\s+(?=\S)")
_HEADING: Final = re.compile(r"^[A-Za-z ]{1,40}:\s*\n")
_BULLETS_MAX: Final = 16
_GAP: Final = r"(?:\s|\}|\$|\\text\s?\{)"
_KIND: Final = (
    r"(?:non-?negative\s+|positive\s+|arbitrary\s+)?(?P<kind%d>integer|constant|real)s?"
    r"(?:\s+numbers?|\s+of integration)?"
)
_CONDITION: Final = re.compile(
    rf"(?ai)(?:{_SPACE}|[,;(\[]|\\text\s*\{{|\$)+"
    r"(?:(?:and\s+)?(?:for|where|when|if|with|such that|provided(?: that)?)(?![A-Za-z]))?"
    rf"{_GAP}*(?:(?:all|any|every|each|some|an?)\s+)*"
    rf"(?:{_KIND % 1}{_GAP}+(?P<x1>[A-Za-z])"
    rf"|(?P<x2>[A-Za-z]){_GAP}*(?:is|denotes)\s+(?:any|an?|some)\s+{_KIND % 2}"
    rf"|(?P<x3>[A-Za-z]){_GAP}*(?P<said>\\in\s*(?:\\(?:math(?:bb|bf|rm)|text(?:bf)?|bf)\s*)?\{{?\s*[ZNRQC]\s*\}}?[\s^{{}}+*]*"
    r"|\\neq?(?![A-Za-z])[-\d\w\\{}/., ]{1,30}"
    r"|(?:>=?|\\ge(?:q|qslant)?(?![A-Za-z]))\s*[01](?![\d.])))"
    r"(?:\s|[.)\]}$])*$"
)
"""Behind an expression: which values a name in it has."""
_FOR_ALL: Final = re.compile(
    r"(?ai)^(?P<main>[$\s]*[a-z]\s?\(\s?(?P<x>[a-z])\s?\)\s*=[^<>]{1,200}?)"
    r"(?:\s|[,;(]|\\[,;:! ]|\\q?quad|\\text\s?\{|\$){0,20}"
    rf"(?:(?<![a-z])for\s(?:all|any|every|each)(?![a-z])|\\forall(?![a-z])){_GAP}*"
    rf"(?:reals?{_GAP}+(?:numbers?{_GAP}+)?)?(?P=x)(?![a-z])"
    rf"{_GAP}*(?:(?:\\in|in)(?![a-z]){_GAP}*(?:\\(?:mathbb|mathbf|mathrm|bf)\s?)?\{{?\s?R\s?\}}?)?[\s.)}}$]*$",
)
"""Behind the values of a function: it has them everywhere."""
_EVERYWHERE: Final = "x\\in\\mathbbR"
_KINDS: Final = {"integer": "\\in\\mathbbZ", "constant": "\\in\\mathbbR", "real": "\\in\\mathbbR"}
_NUMBERS_OF: Final = re.compile(r"\\in(?:\\[a-z]+)?(?=[ZNRQC])")
"""`\\in \\mathbf{Z}`, `\\in Z`."""
_PARTED: Final = re.compile(
    r",|\\text\s?\{\s*(?:or|and)\s*\}|(?<![A-Za-z\\])(?:or|and)(?![A-Za-z])"
)
_RELATION: Final = re.compile(r"[<>,]|\\(?:[lg]e(?:q|qslant)?|neq?|in)(?![A-Za-z])")


class Labelled(NamedTuple):
    """`(C) 5`: the label of a choice, and what it stands for."""

    label: str
    rest: str


class Conditioned(NamedTuple):
    """`2n + 1, n \\ge 1`: an expression, and what its names are."""

    main: str
    condition: str


_PROVED: Final = re.compile(
    r"(?<=\S)[\s.,]{0,9}\$?\s?(?:\\(?:blacksquare|square|Box|qedsymbol|qed)(?![A-Za-z])"
    r"|[\u220e\u25a0\u25a1])\s?\$?[\s.]*\Z"
)
"""The mark at the end of a proof."""


def without_decoration(text: str) -> str:
    """Without tags, bold type, code fences, headings, cheerful symbols; bullets as a list.

    What HTML writes above and below the line, and characters that it names, are read as they look.
    """
    text = _RAISED.sub(_raised, _ENTITY.sub(lambda name: unescape(name[0]), text))
    text = _THEREFORE.sub(r"\1", _closed_before(text))
    text = _DECORATION.sub(" ", text).strip().rstrip(_SYMBOLS).rstrip().removesuffix("</s>")
    text = _PROVED.sub("", _BOLD.sub(r"\1", text).strip())
    bullets = _BULLET.findall(text)
    if not 1 < len(bullets) <= _BULLETS_MAX:
        return text
    lines = _HEADING.sub("", text).splitlines()
    if len(bullets) != len(lines):
        return text
    return ", ".join(_BULLET.sub("", line).rstrip(" .,;") for line in lines)


def _closed_before(text: str) -> str:
    r"""Without the end of a bracket that began before the answer: `\textbf{The answer is $5$}`."""
    said = text.strip()
    if said.count("}") == said.count("{") + 1:
        return said[:-1] if said.endswith("}") else said.removeprefix("}")
    return text


def _raised(said: re.Match[str]) -> str:
    return f"{'^' if said['tag'].lower() == 'sup' else '_'}{{{said['said']}}}"


def without_lead(text: str) -> str:
    """`text` behind the words that announce it; `text` itself if there are none."""
    if len(text) > CHARS_MAX:
        return text
    if text.count("$") == 2 and text.startswith("$") and text.endswith("$"):
        text = text.strip("$")
    match = _LEAD.match(text)
    if match is None or not any(match.groups()):
        return text
    rest = text[match.end() :].strip()
    opened = text.count("{") - text.count("}") == 0 and rest.count("}") - rest.count("{") == 1
    if opened:
        rest = rest[:-1] if rest.endswith("}") else rest.replace("}", "", 1)
    if rest.count("**") == 1 and text.count("**") == 2:
        rest = rest.replace("**", "")
    return rest or text


def labelled(text: str) -> Labelled | None:
    """The label in front of an answer; empty for a label alone."""
    text = notation.peel(text)
    if len(text) > CHARS_MAX:
        return None
    match = _LABEL.match(text)
    if match is None:
        return None
    rest = text[match.end() :].strip()
    if rest.startswith((",", ";", "/", "&", "+", "-")) or _LABEL.match(f"{rest} ."):
        return None
    if _JOINS.match(rest):
        return None
    if _TOLD.match(rest) is None and not NOT_UNITS.isdisjoint(re.findall(r"[a-z']+", rest.lower())):
        return None
    if rest.count("}") - rest.count("{") == 1 and rest.endswith("}"):
        rest = rest[:-1].strip()
    for mark in _EMPHASIS:  # its first one belongs to the label: `(B) **5**`
        rest = rest.removesuffix(mark) if rest.count(mark) == 1 else rest
    if rest.count("(") != rest.count(")") and not rest.startswith(("(", "[")):
        return None
    return Labelled(match["a"] or match["b"], rest) if rest.strip(" .})$*") else None


def conditioned(text: str) -> Conditioned | None:
    """The condition behind an expression that uses the name."""
    if len(text) > CHARS_MAX:
        return None
    text = ascii_of(notation.peel(text)).replace("!=", "\\neq ")
    everywhere = _FOR_ALL.match(text)
    if everywhere is not None:
        return Conditioned(everywhere["main"].strip(), _EVERYWHERE)
    match = _CONDITION.search(text)
    if match is None:
        return None
    name = match["x1"] or match["x2"] or match["x3"]
    main = text[: match.start()].strip().rstrip(",;")
    if main.count("\\{") > main.count("\\}"):
        return None  # `\{x \mid x \ne 2\}`: of the set, not of an expression
    if not re.search(rf"(?<![A-Za-z]){name}(?![A-Za-z])", re.sub(r"\\[A-Za-z]+", " ", main)):
        return None
    kind = (match["kind1"] or match["kind2"] or "").lower()
    said = _KINDS.get(kind) or re.sub(r"(?a)[\s{}$.]", "", match["said"])
    said = _NUMBERS_OF.sub(r"\\in\\mathbb", said).replace("\\text", "")
    if said == _KINDS["integer"] and not re.search(r"(?<![A-Za-z\\])k(?![A-Za-z])", main):
        main = re.sub(rf"(?<![A-Za-z\\]){name}(?![A-Za-z])", "k", main)
        name = "k"
    if said == _KINDS["integer"] and _are_families(main, name):
        return Conditioned(main, f"{name}{said}")
    return None if _RELATION.search(main) else Conditioned(main, f"{name}{said}")


def _are_families(main: str, name: str) -> bool:
    """Whether each of several expressions is about the name: `\\frac{\\pi}{6} + k\\pi, k\\pi`."""
    parts = _PARTED.split(main)
    uses = re.compile(rf"(?<![A-Za-z]){name}(?![A-Za-z])")
    return len(parts) > 1 and not any(
        _RELATION.search(part) or not uses.search(re.sub(r"\\[A-Za-z]+", " ", part))
        for part in parts
    )
