r"""Values behind a box that its sentence offers in its place: `\boxed{85} cm or 5 cm`.

With a unit or a case between them, in another formula, or as what might be instead. Such a value is
one more answer; an explanation of the box is not. Total; linear in the length of the text.
"""

import re
from typing import Final, NamedTuple

from assay.verifiers.text import markers
from assay.verifiers.text.announcements import kinds
from assay.verifiers.text.markers import Statement

_CHARS_MAX: Final = 160
_NAME_CHARS_MAX: Final = 20
_VALUE_CHARS_MAX: Final = 80
_WORDS_MAX: Final = 2
"""Beside a number: `5 red apples`."""
_DELIMITER: Final = (
    r"(?:[\s~*_${}]|\((?!\s?[-+\u2212]?\s?(?:[\d.]+\s?,|\\))|\\[()\[\],;:! ]|\\q?quad(?![a-z])"
    r"|\\(?:text|mbox|textrm|textbf|mathrm|mathbf)\s?(?=\{))"
)
"""Also a bracket that opens no pair."""
_DOUBT: Final = (
    r"(?:(?:more|most|less|equally|quite)\s(?:likely|probably)|I\s(?:think|guess|believe|suspect)"
    r"|I(?:'d|\swould)\s(?:also\s)?(?:say|accept|guess))"
)
_MAYBE: Final = (
    r"(?:quiz[\u00e1a]s?|tal\svez|peut-\u00eatre|vielleicht|forse|talvez|misschien|belki|mungkin)"
    r"(?:\s(?:auch|tambi\u00e9n|aussi|anche|tamb\u00e9m|ook))?"
)
_LEADS: Final = (
    rf"(?:\([a-z]\)\s|{_DELIMITER}|,|(?:maybe|perhaps|possibly|else|instead|also|{_DOUBT}|{_MAYBE})\b"
    r"|it(?:'s|\s(?:is|would\sbe|becomes))\s|the\sanswer\s(?:is|would\sbe)\s|we\s(?:get|have)\s)"
)
_JOINS: Final = (
    r"(?:\beither\s(?:that|this|it)\s)?"
    r"\b(?:and/or|or|xor|alternatively|possibly|perhaps|maybe|as\swell\sas|along\swith|failing\sthat|versus|vs"
    rf"|{_MAYBE}"
    r"|o|oder|ou|\u0438\u043b\u0438|veya|lub|eller|atau|ho\u1eb7c)\b|\u6216\u8005?|\u4e5f?\u53ef\u80fd\u662f|\u307e\u305f\u306f"
    r"|\u3082\u3057\u304f\u306f|\u304b(?=[\d$\\])|\ub610\ub294|\ud639\uc740|\uc774?\uac70\ub098|\u092f\u093e|\u0623\u0648|\\(?:lor|vee)\b|\|\|"
    rf"|\b(?:but|although|though)\s(?=maybe|perhaps|possibly|{_DOUBT})"
)
_ELSE: Final = (
    r"(?:(?:or\s)?alternatively|otherwise|if\s(?:not|(?:that|this|it)(?:'s|\sis)\s(?:not\s\w{1,9}|wrong|incorrect))"
    r"|failing\sthat)[,:]?\s(?:then\s)?"
)
"""Begins a sentence with nothing else but another answer."""
_CALLED: Final = (
    r"(?:(?:my|an?|the)\s)?(?:backup|second|alternat(?:iv)?e|another|fallback|next)\s"
    r"(?:(?:possible|acceptable|correct|valid|likely)\s)?(?:answer|guess|option|possibility|choice)"
    r"\s?(?::|=|is|would\sbe)\s|alternat(?:iv)?e(?:ly)?:\s|also\s(?:possible|acceptable|correct|valid):\s"
)
_ALSO: Final = (
    r"(?=(?:[^\n.;]|\.(?=\d)){1,60}?\s(?:(?:is|are|would\sbe)\s(?:also|another|equally|an?\salternative)\s(?:\w+\s)?"
    r"(?:possible|acceptable|valid|correct|right|answer|possibility|option|guess)|also\sworks|as\swell|too)"
    r"[\s.!)$*]*(?:\n|\Z))"
)
"""Behind a value, to the end of the response or line."""
_NAME: Final = r"\\?[A-Za-z](?:_\{?\w\}?)?"
_UNIT: Final = (
    r"(?P<unit>[ ~$]{0,3}(?!(?:is|are|or|and|if|for)\b)[A-Za-z\u00b0%]{1,20}"
    r"(?:[ ](?!or\b)[A-Za-z]{1,20})?)?"
)
_CASE: Final = r"(?:if|when|for|unless|where|in\s(?:the|which|that|this)\s\w{0,12}\s?case)"
_MODAL: Final = (
    r"\b(?:could|might|may|can)\s"
    r"(?:(?:also|well|even|just|instead|as|equally|possibly)\s){0,4}be\s"
)
_DIGITS: Final = r"(?=[-+\u2212]?\s?(?:[$\u20ac\u00a3]?\.?\d|\\(?:[dt]?frac|sqrt|pi)(?![a-z])))"
_IN_WORDS: Final = (
    r"(?=(?:minus\s|negative\s)?(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[- ]\w{3,5})?"
    r"|(?:a\s)?hundred|a\sdozen)\b(?!\s(?:of|more|less)\b))"
)
_NUMBER: Final = rf"(?:{_DIGITS}|{_IN_WORDS})"
_SIGNS: Final = (
    r"(?:[ \t~$}]|\\[,;:! ()\[\]]|\\\\|[-=]{1,2}>|resp\."
    r"|\\(?:q?quad|to|rightarrow|Rightarrow|implies|cup|mid)(?![A-Za-z])|[&|\u2192\u21d2\u222a(\[{]|(?<!!)=)"
)
"""What may stand alone between a value and another one."""
_FORMULA: Final = (
    r"(?:(?<=\$)(?=[^\s$,.;:!?)])|(?<=\\\()|(?<=\\\[)|(?=[A-Za-z]{0,3}\^\S|\(\d{1,9}\s?,\s?\d))"
)
_WORD: Final = (
    r"(?!(?:so|only|less|more|fewer|both|neither|none|higher|lower|above|below|greater|better"
    r"|similar|vice|not|nothing|right|correct|true|valid|wrong|possible|equivalent(?:ly)?)\b)"
    r"(?=[A-Za-z]{2,20}\b[.!)}$*\\]*\s*(?:\n|\Z|(?:if|when|for|unless|otherwise|could|might|may|also"
    r"|is\salso|is\sanother|as\swell|too)\b))"
)
_LETTER: Final = r"(?=\(?(?:[B-HJ-Z]|A(?!\s\w)|[a-z](?=[).$}*]*\s*(?:\Z|\n)))(?![A-Za-z'])\)?)"
_CONTENT: Final = re.compile(
    r"\\(?:boxed|fbox)\s?\{|<answer>|\\(?:text|mathrm|textbf|mbox)\s?\{|[\s{}().$*]|</answer>", re.I
)
_IS_LETTER: Final = re.compile(r"[A-Za-z]")
_IS_WORD: Final = re.compile(r"[A-Za-z][A-Za-z-]+")
_OF_OTHERS: Final = re.compile(
    r"(?i)\b(?:think|thought|believe|expect|guess|assume|suppose|if|not|n't|wrong|mistake\w*|how)\b"
)
_IS_BARE: Final = re.compile(
    r"[-+\u2212]?\s?(?:[$\u20ac\u00a3]?\.?\d[\d,. ]*"
    r"|\\(?:[dt]?frac|sqrt|pi)(?![a-z])[^A-Za-z]{0,40}|[A-HJ-Z])(?:\\?%)?"
)
_NOTES: Final = re.compile(
    r"(?a)(?:[\s*_$.]|\\[)\]]){0,9}(?P<marks>\[(?:\^\w{1,9}|\d{1,2})\](?:\[(?:\^\w{1,9}|\d{1,2})\]){0,3})(?=[\s.*_$:]*(?:\n|\Z)|[.;]\s)"
)
_NUMBERS: Final = re.compile(r"(?a)\[(\d{1,2})\]")
_GRADE: Final = re.compile(
    r"(?a)(?:[*_$.]|\\[)\]]){0,5}(?:\s[\s*_$]{0,9}\(?|\()(?P<of>\d{1,3})\s?/\s?(?P=of)\)?(?=[\s.!*_$]*(?:\n|\Z))"
)
"""`5/5`, which the writer gives itself."""
_COMMA: Final = re.compile(r",(?!\d{3}(?!\d))")
_HAS_NAME: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])")
_DIGIT: Final = re.compile(r"(?a)\d")
_LONG_WORD: Final = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{3,}")
_CASE_BEHIND: Final = re.compile(
    rf"[\s,$)\]}}\\]*\b(?P<case>{_CASE}|otherwise|too|as\swell|instead|could|might|may|can)\b",
    re.IGNORECASE,
)
_CALLED_BEHIND: Final = re.compile(
    rf"\b(?P<case>{_CASE}|otherwise|is|are|also|would|as\swell|too)\b", re.IGNORECASE
)
_NAMED: Final = re.compile(rf"({_NAME})\s?=[\s$]*\Z")
_NAMED_WITHIN: Final = re.compile(rf"(?:\\(?:boxed|fbox)\s?\{{|<answer>)\s?({_NAME})\s?=", re.I)
_NAMED_FIRST: Final = re.compile(rf"[\s*_$]*({_NAME})\s?=(?!=)")
_ENDS: Final = " .!?$*_`\\,;"
_OPENS: Final = re.compile(rf"(?:\$|\\?[(\[])\s*(?:{_NAME}\s?=\s?)?\Z")
_CLOSES: Final = re.compile(r"(?<!\\)\$|\\[)\]]")


class _Patterns(NamedTuple):
    """What leads to another value of one kind; each ends where the value begins."""

    offered: re.Pattern[str]
    beside: re.Pattern[str] | None
    """Directly behind it, as another formula or with its name."""
    may_be: re.Pattern[str]
    again: re.Pattern[str]
    """In a sentence of its own, or called another answer."""
    cases: re.Pattern[str]
    bare: re.Pattern[str] | None
    """Behind it without a word, to the end of the sentence."""


def _patterns(value: str, *, alone: str | None = None, has_formulas: bool = False) -> _Patterns:
    offered = (
        rf"{_UNIT}{_DELIMITER}{{0,9}}[,;\uff0c\u3001\uff1b]?{_DELIMITER}{{0,9}}"
        rf"(?:{_JOINS})(?:{_LEADS}|(?!)){{0,12}}+(?:(?P<name>{_NAME})\s?=\s?)?{value}"
    )
    beside = (
        rf"(?:\$\$?|\\[)\]])\s*(?:\$\$?|\\[(\[])\s*{_NUMBER}"
        rf"|{_DELIMITER}{{0,9}}[,;]{_DELIMITER}{{0,9}}(?:and\s)?{_DELIMITER}{{0,9}}(?P<name>{_NAME})\s?=\s?{value}"
    )
    may_be = (
        rf"(?P<before>[^\n]{{0,60}}?)(?:{_MODAL}(?:equal\sto\s)?{_DELIMITER}{{0,4}}{value}"
        rf"|\b(?:though|although|but|and)\s{_DELIMITER}{{0,4}}{value}(?=[^\n]{{1,60}}?\s{_MODAL}"
        r"(?:right|correct|true|valid|the\sanswer|an\sanswer)))"
    )
    again = (
        r"(?:[\s,;.$*)\]\u2013\u2014]|\\[)\]]|(?<=\s)-(?=\s)|\((?!\s?[-+\u2212]?\s?[\d.]+\s?,)){0,9}"
        rf"(?:(?:{_ELSE}|{_CALLED})(?:{_DELIMITER}|it(?:'s|\sis)\s|the\sanswer\s(?:is|would\sbe)\s|(?!)){{0,9}}+{value}"
        rf"|(?:(?:and|but|though|although)\s)?{_DELIMITER}{{0,4}}{value}{_ALSO})"
    )
    cases = (
        rf"{_DELIMITER}{{0,9}},?\s?{_DELIMITER}{{0,4}}\b(?P<case>{_CASE})\b[^\n.]{{1,80}}?"
        rf"(?:[,;]|\b(?:and|or|but)\b){_DELIMITER}{{0,4}}(?:(?:and|or|but|then)\s)?"
        rf"(?:(?P<else>otherwise|else|in\swhich\scase),?\s)?(?:{_LEADS}|(?!)){{0,12}}+{value}"
    )
    return _Patterns(
        re.compile(offered, re.IGNORECASE),
        re.compile(beside) if has_formulas else None,
        re.compile(may_be, re.IGNORECASE),
        re.compile(again, re.IGNORECASE),
        re.compile(cases, re.IGNORECASE),
        re.compile(rf"(?:{_SIGNS}|(?!)){{1,9}}+{alone}") if alone else None,
    )


_VALUES: Final = _patterns(rf"(?:{_NUMBER}|{_FORMULA})", alone=_DIGITS, has_formulas=True)
_WORDS: Final = _patterns(_WORD)
_LETTERS: Final = _patterns(f"(?-i:{_LETTER})", alone="(?=[A-HJ-Z](?![A-Za-z]))")


class Alternative(NamedTuple):
    """Another value, and the unit that stands before its `or`."""

    statement: Statement
    unit: str


def alternative(text: str, start: int, end: int, said: str = "") -> Alternative | None:
    """What the sentence offers in place of the answer that is marked in `[start, end)`.

    `said` is what words announce there; empty for a box or tag.
    """
    until = end + _CHARS_MAX
    named = _NAMED_FIRST.match(said)
    name = named[1] if named else name_of(text, start)
    patterns = _of_kind((said or text[start:end])[:_CHARS_MAX])
    found = patterns.offered.match(text, end, until) or (
        patterns.beside.match(text, end, until) if patterns.beside else None
    )
    is_number = not name and patterns is _VALUES
    if found and (found["name"] in (None, name) or (is_number and found.re is patterns.offered)):
        return _said(text, found, name, needs_case=False)
    if (found := patterns.may_be.match(text, end, until)) and _is_own(found["before"]):
        return _said(text, found, name, needs_case=False)
    if found := patterns.again.match(text, end, until):
        return _said(text, found, name, needs_case=False, ends=_CALLED_BEHIND)
    if found := patterns.cases.match(text, end, until):
        return _said(text, found, name, needs_case=found["else"] is None)
    if patterns.bare and (found := patterns.bare.match(text, end, until)):
        is_equation = "=" in found[0] and _is_of_equation(text, start, end)
        alone = None if is_equation else _alone(text, found)
        return alone or _of_its_kind(text, start, end, name, said)
    return _of_its_kind(text, start, end, name, said)


def _of_its_kind(text: str, start: int, end: int, name: str, said: str) -> Alternative | None:
    found = kinds.another(text, start, end, name, said)
    return None if found is None else Alternative(Statement(*found, text[slice(*found)]), "")


def without_asides(text: str, end: int) -> str:
    """The text without what says nothing about the answer that ends at `end`: marks of notes
    directly behind it, and `5/5`."""
    if (notes := _NOTES.match(text, end)) and _are_notes(text, notes):
        text = text[:end] + text[notes.end() :]
    grade = _GRADE.match(text, end)
    return text if grade is None else text[:end] + text[grade.end() :]


def _are_notes(text: str, marks: re.Match[str]) -> bool:
    """Whether each is the first, follows an earlier one, or is that of a note in the text."""
    numbers = [int(one) for one in _NUMBERS.findall(marks["marks"])]
    return all(
        one == 1
        or f"[{one - 1}]" in text[: marks.end("marks")]
        or f"\n[{one}]" in text[marks.end() :]
        for one in numbers
    )


def before(text: str, start: int, end: int) -> Statement | None:
    """Another value of the answer's kind that its sentence names first: `5 or \\boxed{85}`."""
    found = kinds.before(text, start, end)
    return None if found is None else Statement(*found, text[slice(*found)])


def name_of(text: str, at: int) -> str:
    r"""`x` of a box at `at`, in `x = \boxed{85}` or `\boxed{x = 85}`; empty if there is none."""
    found = _NAMED.search(text[max(0, at - _NAME_CHARS_MAX) : at]) or _NAMED_WITHIN.match(text, at)
    return found[1] if found else ""


def _is_of_equation(text: str, start: int, end: int) -> bool:
    r"""A polynomial, or the place to fill in of `3 + \boxed{5} = 8`."""
    before = text[max(0, start - _NAME_CHARS_MAX) : start]
    return bool(_HAS_NAME.search(text[start:end]) or kinds.HAS_TERMS.search(before))


def _of_kind(marked: str) -> _Patterns:
    content = _CONTENT.sub("", marked)
    if _IS_LETTER.fullmatch(content):
        return _LETTERS
    return _WORDS if _IS_WORD.fullmatch(content) else _VALUES


def _is_own(words: str) -> bool:
    """Whether they are not about what others think, or about another number."""
    return not _OF_OTHERS.search(words) and not _DIGIT.search(words)


def _said(
    text: str,
    lead: re.Match[str],
    name: str,
    *,
    needs_case: bool,
    ends: re.Pattern[str] = _CASE_BEHIND,
) -> Alternative | None:
    rest = markers.sentence(markers.line_at(text, lead.end()))
    case = ends.search(rest)
    if needs_case and (case is None or case["case"].lower() != lead["case"].lower()):
        return None
    value = _value(
        rest[: case.start("case")] if case else rest, is_open=_OPENS.search(lead[0]) is not None
    )
    is_of_another = "=" in value and not _is_of(name, value, lead.groupdict().get("name"))
    if not value or is_of_another or _OF_OTHERS.search(value):
        return None
    begin = lead.end() - (text[lead.end() - 1] == "$" and "$" not in rest)  # of money
    end = lead.end() + len(value)
    unit = lead.groupdict().get("unit") or ""
    return Alternative(Statement(begin, end, text[begin:end]), unit)


def _alone(text: str, lead: re.Match[str]) -> Alternative | None:
    """A value with no word beside it."""
    value = _value(markers.sentence(markers.line_at(text, lead.end())), is_open=False)
    is_list = _COMMA.search(value) and ("(" in lead[0] or "[" in lead[0])  # `4 (2, 3, 5, 7)`
    if is_list or not _IS_BARE.fullmatch(value):
        return None
    end = lead.end() + len(value)
    return Alternative(Statement(lead.end(), end, value), "")


def _is_of(name: str, value: str, said: str | None) -> bool:
    """Whether an equation is about the name of the box: its one value, or others of it."""
    return bool(name) and (said == name or value.partition("=")[0].strip() == name)


def _value(said: str, *, is_open: bool) -> str:
    """What is offered, if it is a value with hardly a word beside it: a whole formula, if one is
    open."""
    close = _CLOSES.search(said) if is_open else None
    value = said[: close.start()].rstrip(" .") if close else said.rstrip(_ENDS)
    while value and kinds.is_unopened(value):
        value = value[:-1].rstrip(_ENDS)
    is_brief = len(_LONG_WORD.findall(said)) <= _WORDS_MAX
    return value if is_brief and len(value) <= _VALUE_CHARS_MAX else ""
