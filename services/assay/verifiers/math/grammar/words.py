"""Answers in words, and expressions, which are what is left."""

import re
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.tree import Answer, Element, Reader, Words
from assay.verifiers.math.lexicon.months import FULL_DAY, WEEKDAYS

RELATION: Final = re.compile(r"[<>]|\\(?:le|ge|neq|equiv|approx|sim)(?![A-Za-z])|!=|<=|>=")
WORD: Final = re.compile(r"[A-Za-z]{3,}")
_LETTER: Final = re.compile(
    r"(?a)(?:\\text\s*\{\s*)?(?:(?:option|choice|answer)\s+)?(?:\\text\s*\{\s*)?\(\s*([A-Za-z])\s*\)[\s}]*"
    r"|(?:\\text\s*\{\s*)?(?:option|choice)\s*\}?\s*(?<=[\s}])(?:\\text\s*\{\s*)?([A-Za-z])[\s}]*",
    re.IGNORECASE,
)
_REAL: Final = re.compile(
    r"(?a)(?:\\text\s*\{\s*)?(?:(?:the\s+)?set\s+of\s+)?(?:all|any|every)\s+(?:reals|real(?:\s+(?:numbers|values))?)"
    r"(?:\s+of)?\s*\}?\s*(?:(?<=[\s}])[a-z]\s*\}?)?",
    re.IGNORECASE,
)
_SIGNED: Final = re.compile(
    r"(?ai)(?:\\text\s*\{\s*)?(?:(?:the\s+)?set\s+of\s+)?(?:all\s+)?(?:the\s+)?(?P<non>non-?\s?)?(?P<sign>positive|negative)"
    r"\s+(?:reals|real\s+(?:numbers|values))\s*\}?"
)
_RAYS: Final = {
    ("", "positive"): "(0, \\infty)", ("non", "positive"): "(-\\infty, 0]",
    ("", "negative"): "(-\\infty, 0)", ("non", "negative"): "[0, \\infty)",
}  # fmt: skip
_NUMBERS: Final = re.compile(
    r"(?a)(?:\\text\s*\{\s*)?(?:(?:the\s+)?set\s+of\s+)?(?:all|any|every)\s+"
    r"(?P<kind>integer|natural|rational|complex)(?P<of>s|\s+numbers?)?\s*\}?",
    re.IGNORECASE,
)
_SETS: Final = {"integer": "Z", "natural": "N", "rational": "Q", "complex": "C"}
_WORDS_ONLY: Final = re.compile(r"(?a)\(?[A-Za-z][A-Za-z\s'.\-,()!?\"&]*")
_PARITY: Final = re.compile("(?:an )?(even|odd)(?: function)?")
_TRIANGLE: Final = re.compile(
    r"(?:an? )?(?P<kinds>(?:(?:acute|obtuse|right|equilateral|isosceles|scalene)"
    r"(?: angled)? ?(?:and )?){1,2}?)"
    r"(?: ?triangle)?"
)
"""`an isosceles triangle`, `right-angled`: no other figure is called so in short."""
_DNE: Final = frozenset(
    ["dne", "does not exist", "the limit does not exist", "limit does not exist", "doesn t exist"]
)
_NOTHING: Final = re.compile(
    r"(?:(?:there (?:is|are)|the (?:equation|system|inequality) has|it has|has) )?"
    r"no (?:real )?(?:solution|root)s?(?: exists?)?|no such [a-z]{1,12}(?: exists?)?"
    r"|(?:the )?(?:empty|null) set|none(?: exists?)?"
)
_UNDEFINED: Final = frozenset(["not defined", "is undefined", "is not defined", "it is undefined"])
_TRUTHS: Final = {"true": "yes", "false": "no"}
"""Data sets give `True` for questions that models answer with yes, and the other way round."""
_ENDLESS: Final = re.compile(
    r"(?:(?:there are|has|it has) )?(?:infinite|infinitely many|an infinite number(?: of)?)"
    r"(?: (?:real )?(?:solution|root|value|answer)s?)?"
)
_ONLY: Final = re.compile(r"^only (?=[ivx]+$|[a-h]$)|(?<=[ivx]) only$|(?<=^[a-h]) only$")
"""`III only`, of numbered statements."""
_IT_IS: Final = re.compile(r"^(?:it|this|that) (?:is|was) (?=(?:an? )?[a-z]{3})(?!not )")
_ARTICLE: Final = re.compile(r"(?:all (?:the )?|the |an? )(?=[a-z]{3})")
_CONVERGES: Final = re.compile(
    r"(?:(?:the|this|it) )?(?:series |(?:improper )?integral |sequence |sum |limit )?(?:is )?"
    r"(?P<how>absolutely |conditionally )?(?P<what>converge|diverge)(?:s|nt)?"
    r"(?P<how1> absolutely| conditionally)?"
)
"""`The series diverges`, `absolutely convergent`."""
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


def bare(text: str) -> str:
    """`text` without its commands."""
    return re.sub(r"\\[A-Za-z]+", " ", text)


def read_words(text: str, _reader: Reader) -> Answer | None:
    """An answer in words, or the label of a choice."""
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


def meaning(said: str) -> str:
    """Words that have one meaning as an answer, in one spelling."""
    form = _IT_IS.sub("", words_form(said))
    if (day := form.removeprefix("on ")) in WEEKDAYS:
        form = day
    if form in FULL_DAY:
        return FULL_DAY[form]
    if (parity := _PARITY.fullmatch(form)) is not None:
        return parity[1]
    if (triangle := _TRIANGLE.fullmatch(form)) is not None:
        return " ".join(sorted(set(triangle["kinds"].split()) - {"and", "angled"}))
    if (limit := _CONVERGES.fullmatch(form)) is not None:
        return f"{limit['what']} {(limit['how'] or limit['how1'] or '').strip()}".strip()
    if form in _DNE:
        return "does not exist"
    if form in _UNDEFINED:
        return "undefined"
    if form in _TRUTHS:
        return _TRUTHS[form]
    if _ENDLESS.fullmatch(form):
        return "infinitely many"
    if _NOTHING.fullmatch(form):
        return "no solution"
    return _ONLY.sub("", _ARTICLE.sub("", form, count=1))


def words_form(said: str) -> str:
    """Words without case, punctuation and the plural of the last one (`no solutions`).

    A single letter keeps its case.
    """
    letters = re.sub(r"[^A-Za-z0-9]+", " ", said).strip()
    if " " in letters and letters.endswith("s") and not letters.endswith("ss"):
        letters = letters[:-1]
    return letters if len(letters) == 1 else letters.casefold()


def read_reals(text: str, reader: Reader) -> Answer | None:
    """`all real numbers`, `all integers`, `all positive real numbers`."""
    if (signed := _SIGNED.fullmatch(text)) is not None:
        return reader.part(_RAYS["non" if signed["non"] else "", signed["sign"].lower()])
    kind = "R" if _REAL.fullmatch(text) else ""
    if (others := _NUMBERS.fullmatch(text)) is not None:
        kind = _SETS[others["kind"].lower()]
    return Element(text=f"\\mathbb{{{kind}}}", form=f"\\mathbb{{{kind}}}") if kind else None


def read_expression(text: str, _reader: Reader) -> Answer | None:
    """Any other mathematics; sentences are not."""
    if not text:
        return None
    plain = re.sub(r"(?a)\\text\s*\{[^{}]*\}|\\begin\{\w+\*?\}|\\end\{\w+\*?\}", " ", text)
    words = [word for word in WORD.findall(bare(plain)) if word.lower() not in _FUNCTIONS]
    if len([word for word in words if len(word) > 3]) >= 2 or (words and " " in text):
        return None
    plain = text.replace(notation.CURRENCY, " ").strip()
    return Element(text=plain, form=notation.form(text)) if plain else None
