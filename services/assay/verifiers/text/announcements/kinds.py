r"""A value behind a box that stands alone on its line and is of the kind of the answer: `| x^3`.

Behind `\boxed{x^2}` that is another answer, whatever sign, word, label (`(b)`, `P.S.`) or
environment joins it. What explains an answer is of another kind (a condition, an equation, a list
of steps), has words beside it or a relation before it (`\le x^3`), and what only says the answer
again is equal to it. Total; linear in the length of the text.
"""

import re
from collections.abc import Iterator
from typing import Final

from assay.verifiers.text.announcements import corrections

_CHARS_MAX: Final = 160
_VALUE_CHARS_MAX: Final = 100
_MARKED_CHARS_MAX: Final = 200
_NO_NAME: Final = r"(?![A-Za-z]\s?(?:[=_^<>\u2264\u2265]|\\[lg]eq?(?![a-z])))"
r"""A letter before a relation is not a word: `a` of `\boxed{a = 5} and a = 6`."""
_LABEL: Final = (
    r"(?<![A-Za-z\d(\[])[(\[]?(?:[a-h]|[ivx]{1,4}|\d{1,2})[)\]](?=[ ~]+\S)"
    r"|(?<![A-Za-z])(?:part|case|q(?:uestion)?|problem|exercise|method|item|step|option|choice|answer|guess"
    r"|candidate|possibility|alternative|attempt|scenario|solution)\s?#?(?:\d{1,2}|[a-e])\s?[.:)](?=\s)"
    r"|(?<![A-Za-z.])(?!i\.e\.|e\.g\.)(?:[A-Z]\.){2,3}(?=\s)"
)
"""A place in a list, or an abbreviation; `e.g.` gives an example and `i.e.` explains."""
_LEADING_WORD: Final = _NO_NAME + (
    r"\b(?:and|or|also|resp(?:ectively|\.)?|vs\.?|versus|else|otherwise|alternatively|instead"
    r"|possibly|perhaps|maybe|either|xor|then|to|alt|alternative|another|second|2nd"
    r"|p?ps|nb|viz|ans|note|bonus|edit|update|next|plus|minus|times|besides|furthermore|additionally|moreover"
    r"|so|thus|hence|therefore|ou|oder|oppure|o|eller|lub|\u0438\u043b\u0438)\b|\u6216\u8005?|\u307e\u305f\u306f|\ub610\ub294"
)
_OFFERING_WORD: Final = _NO_NAME + (
    r"\b(?:i(?:'m|'d)?|am|torn|between|this|that(?!\sis[,:])|it(?:'s)?|is|are|be|was|would|could|might|may|can|should"
    r"|also|well|even|just|my|the|an?|others?|best|back-?up|fallback|candidates?|guess(?:es)?|possibilit(?:y|ies)"
    r"|possible|possibly|plausible|alternatives?|answers?|correction|corrected|wait|hmm+|um|uh|oh|no(?=\s?[,:;\u2014-])|nope|oops"
    r"|actually|sorry|equivalently|rather|really|think|believe|say|if\snot|more|likely|final|correct"
    r"|valid|acceptable|like|(?:options?|choices?|values?)(?=\s?(?:is|are|:|would|could|might|may)))\b"
)
"""Of a clause that only leads to another value: `I'm torn between this and 5`."""
_MARKUP: Final = (
    r"\\(?:begin|end)\s?\{(?:align(?:ed)?|equation|gather(?:ed)?|multline|eqnarray|displaymath|math|center|split)\*?\}"
    r"|</?(?:br|hr|[bipu]|em|strong|div|span|code|h[1-6]|li|[uo]l|t[dhr]|table|font|center|mark|big|small|pre)"
    r"(?:\s[^<>\n]{0,60})?/?>|&nbsp;"
)
"""Environments of formulas, and tags of HTML."""
_JOINT: Final = re.compile(
    rf"(?:{_LABEL}|{_MARKUP}"
    r"|[\s~$*_`(\[{}\])&|;,:.!?#@%\u2013\u2014\u2018-\u2022\u2026\u2192\u21d2\u27f6\u222a\xab\xbb]|(?<=[\s(])[\"']"
    r"|\\[,;:!() \[\]&#%]|\\\\"
    r"|<?[-=]{1,2}>|<-{1,2}|\^(?=\s)|(?<=\n)(?:>|\d{1,2}[.)]\s|-{3,}(?=\s*\n))|[-+/](?=[\s$])|(?<!!)=|\u2212(?=[\s$])"
    r"|(?<=</answer>)[-+*/\u2212]"
    r"|\\(?:q?quad|to|(?:long)?(?:right|left)arrow|(?:Right|Left)arrow|implies|therefore|cup|mid|lor|vee"
    r"|hspace\{\w+\})(?![A-Za-z])"
    rf"|\\(?:text|mbox|textrm|mathrm)\s?(?=\{{)|{_LEADING_WORD}|(?<![A-Za-z])(?:{corrections.PHRASES})(?![A-Za-z])|{_OFFERING_WORD})+",
    re.IGNORECASE,
)
_OFFERS: Final = re.compile(
    r"\b(?:or|ou|oder|\u0438\u043b\u0438|alternativ\w+|back-?up|fallback|another|others?|candidates?|guess(?:es)?|possib\w+|perhaps"
    r"|maybe|torn|correction|wait|actually|no|equivalently|second|could|might|may|also|instead|else)\b",
    re.IGNORECASE,
)
"""Behind such a word a value need not stand alone on its line, but only in its sentence or list."""
_OFFERED_ENDS: Final = re.compile(r"[.?!;](?=\s|\Z)|,\s|\s(?:or|and|but)\s")
_IS_CLOSED: Final = re.compile(
    r"\s*(?:\$|\\[)\]])|(?<=</answer>)|\s*[-+/\u2212]\s*(?:\$|\\[(\[])", re.IGNORECASE
)
"""A formula ends before an operator, or begins behind it."""
_TERMS_CHARS_MAX: Final = 20
HAS_TERMS: Final = re.compile(r"(?:[-+*/^\d)}\u2212\u00d7\u00f7]|\\(?:cdot|times|div))[\s{]*\Z")
_OPERATORS: Final = re.compile(r"[-+/\u2212](?![->])(?<!<-)")
_LINE_BEGINS: Final = re.compile(r"\n[\s>]*-")
_OPENED: Final = re.compile(r"[(\[{\\$+-]{1,2}\Z")
_SIGN: Final = re.compile(r"[$({;,|&:]\s?(?P<sign>[-\u2212])\s?\Z")
"""A minus, and no dash."""
_ENDS: Final = " .!?$*_`,;|&\"'\u2018\u2019\u201c\u201d\xab\xbb"
_CLOSED: Final = re.compile(rf"(?:{_MARKUP}|\\[)\]])\Z", re.IGNORECASE)
_SPACES: Final = re.compile(
    r"\s+|\\(?:left|right|displaystyle|big+l?r?)(?![A-Za-z])|\\[,;:! ()\[\]]"
    r"|(?<=\d),(?=\d{3}(?!\d))"
)
_TYPEFACE: Final = re.compile(r"\\(?:text|mathrm|textbf|mathbf|mbox|textit)\s?\{([^{}]*)\}")
_MARKED: Final = re.compile(
    r"\\(?:boxed|fbox)\s?\{(?P<box>.*)\}|<answer>(?P<tag>.*)</answer>", re.DOTALL | re.IGNORECASE
)
_MARKERS: Final = re.compile(r"\n|####|\\(?:boxed|fbox|tag|label)|</?answer", re.IGNORECASE)
"""What is marked is found by its mark; an equation has a number."""
_ITEM: Final = re.compile(r"\d{1,2}[.)]\s*")
"""The number of an item of a list, and nothing in it."""
_COMMAND: Final = re.compile(r"\\[A-Za-z]+")
_RELATION: Final = re.compile(
    r"(?P<left>[^<>=]{1,40}?)(?:(?P<equal>=)|<|>|\\[lg](?:eq?|eqslant|t)(?![A-Za-z])|[\u2264\u2265])"
)
_INDEX: Final = re.compile(r"(?<=[A-Za-z])_(?:\{\w{1,3}\}|\w)\Z")
_OTHER_RELATION: Final = re.compile(
    r"\\(?:neq?|in|notin|approx|equiv|sim|forall|p?mod|infty|text)(?![A-Za-z])|[\u2260\u2208\u2248\u2261\u221e]"
)
_WORD: Final = re.compile(r"[A-Za-z]{2,20}(?: [A-Za-z]{2,20})?")
_PLAIN_NAME: Final = re.compile(r"\\?[A-Za-z]{1,7}")
_LONG_WORD: Final = re.compile(r"[A-Za-z]{3,}")
_NO_EXPRESSION: Final = re.compile(
    r"[<>=\u2264\u2265\u2190-\u21ff]|\\[lg](?:eq?|eqslant|t)(?![A-Za-z])|[^\W\d_A-Za-z\u0370-\u03ff]"
)
"""Relations, arrows, and letters of words in other scripts."""
_LETTERS: Final = re.compile(r"[A-Za-z]")
_PAIR: Final = re.compile(r"[(\[][^()\[\],]*,[^()\[\]]*[)\]]")
_MATRIX: Final = re.compile(r"\\begin\{[a-z]*(?:matrix|array)\}.*\\end\{[a-z]*(?:matrix|array)\}")
_UNIT: Final = re.compile(
    r"(?P<number>\d[\s$*]{0,3})(?:[ap]\.?m\.?|[A-Za-z]{2,20}|[A-Za-z]{1,3}/[A-Za-z]{1,3})[\s$*.]*\Z",
    re.IGNORECASE,
)
_MONEY: Final = re.compile(r"\\?[$\u20ac\u00a3](?=\d)")
_CLASSES: Final = tuple(
    frozenset(words.split())
    for words in (
        "yes no",
        "true false",
        "odd even",
        "monday tuesday wednesday thursday friday saturday sunday",
        "january february march april may june july august september october november december",
        "red orange yellow green blue purple violet white black brown pink grey gray",
        "north south east west northeast northwest southeast southwest",
        "left right up down",
        "positive negative zero",
        "increasing decreasing constant",
        "convergent divergent converges diverges",
        "first second third fourth fifth sixth",
        "acute right obtuse",
        "rational irrational",
        "prime composite",
        "always sometimes never",
    )
)
"""Words of which one excludes the others."""
_EQUALS: Final = re.compile("=(?!>)")
_RATIONAL: Final = re.compile(
    r"(?:[A-Za-z\d+*/()-]|\\(?:cdot|times|[dt]?frac|sqrt|pi|sin|cos|tan|cot|sec|csc|ln|log|exp)(?![A-Za-z])|\^(?:\d|\{\d{1,3}\})|[{}])+"
)
_EQUATED: Final = frozenset({"number", "pair", "set", "matrix", "letter", "formula"})
"""Kinds of which `= v` behind the answer states another value and no equation."""


ValueKind = tuple[object, ...]
_PLAIN_NUMBER: Final[ValueKind] = ("number", *[False] * 7)


_CLAUSE_BEGINS: Final = re.compile(r"\n|[.!?:]\s|,\s(?:so|then|thus|hence|therefore)\s")
_WORDS_BEFORE: Final = re.compile(
    r"(?:\$|\\[)\]])?,?[\s*~]+(?:or|xor|vs\.?|versus)\b"
    r"(?:\s(?:else|maybe|perhaps|possibly|even)\b)?",
    re.IGNORECASE,
)
_LEAD: Final = re.compile(
    r"\A(?:[^\d$\\]{0,60}\b(?:is|are|be|either|equals?|answers?|so|thus|hence|therefore|then"
    r"|get|have|obtain|gives?)\b[:,]?\s)?\s*(?:either\s)?",
    re.IGNORECASE,
)
_OPENS: Final = re.compile(r"\A(?:[\s*_$`]|\\[(\[])+")
_MARKS: Final = " *_$\\([{`"


def another(text: str, start: int, end: int, name: str, said: str = "") -> tuple[int, int] | None:
    """Where another value of its kind stands behind the answer that is marked in `[start, end)`.

    With a name before it, `x_1` of `x_1 = \\boxed{85}`, that of `x_2 = 5` is one too. `said` is
    what words announce there, without them.
    """
    joint = _JOINT.match(text, end, end + _CHARS_MAX)
    if joint is None or end - start > _MARKED_CHARS_MAX:
        return None
    answer = _answer_kinds(said or text[start:end], name)
    terms = HAS_TERMS.search(text[max(0, start - _TERMS_CHARS_MAX) : start])
    if not answer or not _may_join(text, joint, answer, has_terms=terms is not None):
        return None
    line_end = text.find("\n", joint.end())
    line_end = len(text) if line_end < 0 else line_end
    is_equated = _EQUALS.search(joint[0]) is not None
    is_corrected = corrections.TAKES_BACK.search(joint[0]) is not None
    ends = [line_end]
    if _OFFERS.search(joint[0]) and (over := _OFFERED_ENDS.search(text, joint.end(), line_end)):
        # A comma in `or (1, 2)` ends no value.
        ends += [over.start()] * (not _is_open(text[joint.start() : over.start()]))
    for stop in ends:
        if stop - joint.end() > _VALUE_CHARS_MAX:
            continue
        for begin in _begins(joint):
            if _ITEM.fullmatch(text, begin, stop):
                continue
            value = _without_end(text[begin:stop])
            if is_equated and not _may_differ(said or text[start:end], value):
                continue
            kinds = _kinds(value)
            if _is_among(kinds, answer) or (is_corrected and _names_number(kinds, answer)):
                return begin, begin + len(value)
    return None


def before(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where the sentence names another value of the kind before the answer: `5 or \\boxed{85}`.

    Of `x = 5 or x = \\boxed{85}` a solution may choose.
    """
    if end - start > _MARKED_CHARS_MAX:
        return None
    begin = max(0, start - _CHARS_MAX)
    pieces = _WORDS_BEFORE.split(_CLAUSE_BEGINS.split(text[begin:start])[-1])
    if len(pieces) < 2 or pieces[-1].strip(_MARKS):
        return None
    answer = _kinds(_content(text[start:end]))
    said = [_LEAD.sub("", pieces[0]), *pieces[1:-1]]
    values = [_without_end(_OPENS.sub("", one)) for one in said]
    if not all(_is_among(_kinds(value), answer) for value in values):
        return None
    at = text.rindex(values[-1], begin, start)
    return at, at + len(values[-1])


def _answer_kinds(marked: str, name: str) -> set[ValueKind]:
    answer = _kinds(_content(marked))
    if answer and name:
        answer.add(_relation(name, is_equal=True))
    return answer


def _is_open(text: str) -> bool:
    """Whether a bracket of it is not closed in it."""
    return any(text.count(left) > text.count(right) for left, right in ("()", "[]", "{}"))


def _is_among(said: set[ValueKind], answer: set[ValueKind]) -> bool:
    """A number without a mark is of the kind of any number."""
    is_number = any(kind[0] == "number" for kind in answer)
    return bool(said & answer) or (_PLAIN_NUMBER in said and is_number)


def _names_number(said: set[ValueKind], answer: set[ValueKind]) -> bool:
    r"""`x = 5` where the answer is a number: behind `\boxed{85}`, `Wait,` it takes its place."""
    names = [str(kind[1]) for kind in said if kind[0] == "relation" and kind[2]]
    return any(map(_PLAIN_NAME.fullmatch, names)) and any(kind[0] == "number" for kind in answer)


def _may_join(text: str, joint: re.Match[str], answer: set[ValueKind], *, has_terms: bool) -> bool:
    """Operators only join what is closed before them: `$\\boxed{85}$ / $5$`."""
    if _EQUALS.search(joint[0]) and (has_terms or not any(kind[0] in _EQUATED for kind in answer)):
        return False
    sign = _SIGN.search(joint[0])
    has_operator = _OPERATORS.search(
        joint[0][: sign.start("sign")] if sign else joint[0]
    ) and not _LINE_BEGINS.search(joint[0])
    return not has_operator or _IS_CLOSED.match(text, joint.start()) is not None


def _may_differ(marked: str, value: str) -> bool:
    """Whether it can be decided that two sides are equal: of numbers, or of rational formulas."""
    sides = [_without_spaces(side) for side in (_content(marked), value)]
    return all(_RATIONAL.fullmatch(side) or not _has_names(side) for side in sides)


def _has_names(side: str) -> bool:
    return any(kind[0] == "formula" for kind in _kinds(side))


def _begins(joint: re.Match[str]) -> Iterator[int]:
    """Where the value may begin: what opens it may have been taken for a part of the joint."""
    end = joint.end()
    if sign := _SIGN.search(joint[0]):
        yield joint.start() + sign.start("sign")
    openers = _OPENED.search(joint[0])
    begin = joint.start() + openers.start() if openers else end
    yield from range(end, begin - 1, -1)


def _content(marked: str) -> str:
    found = _MARKED.fullmatch(marked)
    if found is None:
        return marked
    content = found["box"] if found["box"] is not None else found["tag"]
    inner = _MARKED.fullmatch(content.strip())
    return content if inner is None else _content(content.strip())


def _without_end(said: str) -> str:
    """Without the end of what was opened before it."""
    value = said.rstrip(_ENDS)
    while value and ((close := _CLOSED.search(value)) or is_unopened(value)):
        value = value[: close.start() if close else -1].rstrip(_ENDS)
    return value


def is_unopened(value: str) -> bool:
    """Whether its last bracket was not opened in it; intervals have brackets of two kinds."""
    if value[-1] == "}":
        return value.count("{") < value.count("}")
    opened = value.count("(") + value.count("[")
    return value[-1] in ")]" and opened < value.count(")") + value.count("]")


def _kinds(value: str) -> set[ValueKind]:
    """The kinds of a value, with the marks that two of one kind share; empty if it has no kind."""
    if not value or len(value) > _VALUE_CHARS_MAX or _MARKERS.search(value):
        return set()
    words = _TYPEFACE.sub(r"\1", value).strip(" $.*_{}")
    if len(words) == 1 and words.isalpha() and words.isupper():
        return {("letter",)}
    if _WORD.fullmatch(words):
        said = words.lower()
        return {("word", at) for at, names in enumerate(_CLASSES) if said in names}
    has_money = _MONEY.search(value) is not None
    text = _without_spaces(value)
    if "\\begin" in text:
        return {("matrix",)} if _MATRIX.fullmatch(text) else set()
    bare = _TYPEFACE.sub("", _without_spaces(_UNIT.sub(r"\g<number>", value)))
    has_unit = bare != text and ":" not in bare
    if _OTHER_RELATION.search(bare):
        return set()
    if relation := _RELATION.match(bare):
        return {_relation(relation["left"], is_equal=relation["equal"] is not None)}
    if bare.startswith("\\{") and bare.endswith("\\}"):
        return {("set",)}
    if _PAIR.fullmatch(bare):
        return {("pair",)}
    if "," in bare:
        return set()
    return _of_expression(bare, has_unit=has_unit, has_money=has_money)


def _without_spaces(value: str) -> str:
    return _SPACES.sub("", value).replace("$", "").strip("*_`")


def _relation(left: str, *, is_equal: bool) -> ValueKind:
    return ("relation", _INDEX.sub("", left), is_equal)


def _of_expression(bare: str, *, has_unit: bool, has_money: bool) -> set[ValueKind]:
    said = _COMMAND.sub(" ", bare)
    if _NO_EXPRESSION.search(bare):
        return set()
    if _LONG_WORD.search(said):
        return set()
    names = frozenset(_LETTERS.findall(said))
    if names - {"i"}:
        return {("formula", names)}
    if not any(map(str.isdigit, said)) and not re.search(r"\\(?:pi|sqrt)(?![a-z])", bare):
        return set()
    flags: ValueKind = (
        has_unit,
        has_money,
        ":" in bare,
        "%" in bare,
        "\\circ" in bare,
        "\\pi" in bare,
        "i" in names,
    )
    return {("number", *flags)}
