"""Finds an unmarked answer in sentences: the last run of mathematics.

Values with only separators between them are one run, so one answer with several parts.
"""

import re
from typing import Final

from assay.verifiers.math import grammar, notation
from assay.verifiers.math.grammar import Answer, Prose
from assay.verifiers.text import denials, markers
from assay.verifiers.text.around import arithmetic, foreign, operands

_SPAN: Final = re.compile(
    r"(?a)(?<!\\)\$\$(?P<a>.+?)(?<!\\)\$\$|(?<![\\$])\$(?P<b>(?:\\.|[^$\\\n])+?)\$(?!\$)"
    r"|\\\((?P<c>.+?)\\\)|\\\[(?P<d>.+?)\\\]|(?P<e>\\begin\{(?P<name>[a-z]{4,9}\*?)\}.+?\\end\{(?P=name)\})",
    re.DOTALL,
)
_SPANS_MAX: Final = 16
_CHARS_MAX: Final = 4_000
"""Characters from the end that are searched."""
_GAP: Final = re.compile(r"(?a)(?:[\s,;]|\\?%|and|or|\\text\{\s*(?:and|or)\s*\})*", re.IGNORECASE)
_GAP_CHARS_MAX: Final = 24
_PERCENT_BEHIND: Final = re.compile(r"(?a)\s*(?:\\?%|percent|pct)")
_ONE: Final = (
    rf"(?:(?<![\w.,)])[-\u2212][ ]?)?[$€£{notation.CURRENCY}]?[-\u2212]?"
    r"(?:\d{1,3}(?:[ ,]\d{3})+(?![\d])(?:\.\d+)?|\d+[.,]\d+|\d+|\.\d+)"
    r"(?:\s*/\s*\d+|:\d+)?(?:\s*(?:%|percent|pct)|\s*(?:hundred|thousand|lakh|million|crore|billion|trillion)s?\b)?"
)
_PARTING: Final = (
    rf"(?:\s*[,;(]?\s*(?:{notation.JOINERS})\s+|\s*[,;]\s*|[ ]+|\s?[.?!]\s+(?:or|alternatively)\s+)"
)
_RUN: Final = re.compile(
    rf"(?a)(?<![\w.]){_ONE}(?:{_PARTING}{_ONE}){{0,64}}",
    re.IGNORECASE,
)
_SAID: Final = rf"(?:\$[^$]{{1,99}}\$|\\\([^()]{{1,99}}\\\)|{_ONE})"
_WHOLE_SAID: Final = rf"(?<!\d){_SAID}"
"""Where a search begins with a value: it starts once per number, so long ones cost linear time."""
_BETWEEN: Final = (
    r"(?:\s+(?:the|an?|equal|to|exactly|just|only|even|answer|value|number|is))*"
    r"(?:[\s(${\[\\*_\"'`:\u201c\u2018\xab]|\\(?:text(?:bf|it|rm)?|math(?:bf|rm|it)|boldsymbol|bm|mbox|emph)\s?\{)*"
)
_UNEQUAL: Final = r"(?:^|[$({\[:,]|(?<![\\A-Za-z])[A-Za-z]{2,40})\s{0,9}(?:\\neq?(?![A-Za-z])|!=)"
"""The sign rejects what follows if it has no left side of its own: `x \\neq 3` is an answer."""
_REJECTED: Final = re.compile(
    r"(?a)(?:^|[\s(\[{,:])(?:not|never|neither|nor|unlike|except(?: for)?|without"
    r"|(?:any|every)\w* but|all but|none of(?: the)?|other than|instead of|rather than|dne"
    r"|(?:is|are|was|were|does|do)n't"
    r"|nicht|kein(?:e[rn]?)?|no (?:es|son|vale)|n['\u2019]est pas|non (?:\u00e8|sono)"
    r"|n\u00e3o (?:\u00e9|s\u00e3o)|\u043d\u0435)"
    rf"{_BETWEEN}{_SAID}|(?:^|[\n.!?;,(])[\s*_]{{0,9}}{denials.HEADING}[*_]*{_BETWEEN}{_SAID}"
    rf"|{foreign.WRONG_ANSWER}{foreign.STATES}{_BETWEEN}{_SAID}|{foreign.NOT_BEFORE}{_BETWEEN}{_SAID}"
    rf"|{_WHOLE_SAID}[*_$)}}\]\\]{{0,4}}{foreign.NOT_BEHIND}"
    rf"|{denials.CLAUSE}{_BETWEEN}{_SAID}|{_UNEQUAL}{_BETWEEN}{_SAID}|{_WHOLE_SAID}[\s$)}}\]\\*_\"'`,]*(?:[A-Za-z]{{1,20}}\s+){{0,2}}"
    r"(?:(?:is|are|was|were)\s+(?:\w{1,20}\s+)?(?:not|wrong|incorrect|false|impossible|excluded)"
    r"|(?:is|was|are|were)n't|\(?(?:wrong|incorrect|false|rejected)\b"
    rf"|{denials.IS_A_MISTAKE}"
    r"|\(?not\s+(?:the\s+|an?\s+)?(?:final\s+)?(?:answer|correct|right|true|valid)\b)",
    re.IGNORECASE,
)
"""A value with words directly before or after it that reject it."""
_ALTERED: Final = re.compile(
    rf"(?a){_WHOLE_SAID}(?:[}}$*]*\s{arithmetic.BEHIND}|'s\s|\s+of\s+(?:[a-z]|that|this|it)(?![A-Za-z])"
    rf"|\s+(?:less|more|fewer|greater)\s+than\s+(?:[a-z]\b|{_SAID}))"
    rf"|{_WHOLE_SAID}\s+(?:halves|thirds|fifths|sixths|sevenths"
    r"|eighths|ninths|tenths?|hundredths?|thousandths?)(?![A-Za-z])"
    rf"|\b{arithmetic.BEFORE}\s(?:of\s)?[*]*{_SAID}"
    r"|\A[\s*_$]*(?:an?|some|one)\s(?:\w{3,12}\s)?(?:multiple|divisor|factor|power|fraction|percentage|part|root)\sof\s"
    rf"[*]*{_SAID}"
    r"|(?:^|[\n.;])\s{0,9}(?:let|suppose|assume|consider)\s+\$?[A-Za-z]\s?="
    rf"\s?{_SAID}"
    r"|(?:^|[\n.!?;,])\s{0,9}(?:is|are|was|could|might|can|would|should)\s+(?:it|the|this|that|my)\s"
    rf"[^.?!\n\d]{{0,60}}{_SAID}[^.?!\n\d]{{0,20}}\?"
    r"|\b(?:roughly|about|approximately|around|between|somewhere|anywhere)[\s*_]+(?:from\s+)?"
    rf"{_SAID}[\s*_]*(?:[A-Za-z%\u00b0]{{1,9}}\s+)?(?:to|and|-|\u2013)[\s*_]*{_SAID}",
    re.IGNORECASE,
)
"""A value that the words beside it make another one, `4 squared`, `half of 4`, `4 less than x`, or
a range, `roughly 4 to 5`."""
_BOUND: Final = re.compile(
    r"[\s({$\\]*(?:text\s*\{\s*)?"
    r"(?:(?:die|der|la|el|le|a|o|il)\s+\w{1,20}\s+(?:ist|est|es|\u00e9|\u00e8)\s+)?"
    r"(?:(?:no )?(?:more|less|greater|fewer|larger|smaller|higher|lower)"
    r" than|mindestens|h\u00f6chstens|(?:mehr|weniger|gr\u00f6\u00dfer|kleiner) als"
    r"|au (?:moins|plus)|(?:plus|moins) (?:de|(?:grand|petit)e? que)"
    r"|(?:mayor|menor|maior|m\u00e1s|menos) (?:que|de)"
    r"|(?:al|pelo) menos|como m[\u00e1\u00ed]\w{4}|no m\u00e1ximo|almeno|al massimo"
    rf"|at least|at most|up to|above|below|over|under|before|after){_BETWEEN}\}}?\s*{_SAID}"
    rf"|[\s({{$]*{_SAID}[\s)}}$]*(?:\\text\s*\{{\s*)?at (?:least|most)(?![A-Za-z])",
    re.IGNORECASE,
)
"""A whole answer that is a bound. In a sentence a bound may be the answer: `sell at least 40`."""
_SAYS_WHERE: Final = (
    r"(?:(?:(?:so|thus|hence|therefore|then)[,\s]+)?"
    r"(?:there\s+(?:is|are|were|will\s+be)|(?:I|we|you)\s+(?:get|have|obtain|find)"
    r"|(?:it|this|that)\s+(?:is|gives))\s+(?:exactly\s+|only\s+)?)?"
)
_BEGUN: Final = re.compile(
    rf"(?a)[\s*_(\[\"'`]{{0,9}}{_SAYS_WHERE}(?:[A-Za-z](?:_\w)?\s?=\s?)?"
    rf"(?P<value>{_SAID}(?:{_PARTING}{_SAID}){{0,64}})[\s*_)\]\"'`]{{0,9}}?",
    re.IGNORECASE,
)
"""A value at the beginning of what is stated."""
_UNIT_WORDS: Final = r"(?:\s{0,3}[A-Za-z\u00b0%$\\^{}/][\w\u00b0%$\\^{}/-]{0,20}){0,3}?"
_COMMENTS: Final = re.compile(
    rf"(?a){_UNIT_WORDS}[\s*_)\]\"'`$]{{0,9}}"
    r"(?:[.;|!\u2013\u2014](?!\d)|[(\[]|[,:](?!\s?\d)|\s(?:because|since|but|although|though|while|whereas)\b)"
    rf"(?!\s*(?:and|or|plus|minus|times|then|also|with|if|when|unless|for)\b)"
    rf"(?:(?<=[(\[])(?!\s*{_SAID}\s*[)\]])|(?!\s*{_SAID}))",
    re.IGNORECASE,
)
"""What is said about the value before it, and not another part of the answer."""
_OPERATES: Final = re.compile(
    r"(?ai)\b(?:more|less|fewer|greater|larger|smaller|plus|minus|times|divided|over|of|out|per"
    r"|mod(?:ulo)?|remainder|to|through|and|or|if|when|for|at|by|in|with|after|every|squared|cubed"
    r"|hundred|thousand|million|billion)\b"
)
"""Words behind a value that make it another one, or only a part of the answer."""
_GOES_ON: Final = re.compile(
    r"(?ai)\b(?:so|thus|hence|therefore|total\w*|altogether|giving|making|which\s+(?:is|gives|makes"
    r"|equals)|that\s+is|i\.e|or|wait|actually|sorry|no|correct\w*|wrong|incorrect|should"
    r"|made\s+an?\s+(?:\w+\s+)?(?:mistake|error)|oops|scratch|answer|final\w*)\b"
    r"|[,;.]\s*(?:and\s+)?(?:the|its|their)\s+(?:\w+\s+){1,3}(?:is|are|was)\b|[=\u2192\u2248]|->|\\(?:approx|to|boxed|fbox|Rightarrow)(?![a-z])"
)
"""Words and signs before a result, a correction or an alternative."""
_LEAVES_OPEN: Final = re.compile(
    r"(?ai)\b(?:otherwise|else|unless|maybe|perhaps|possibly|alternatively|versus|vs|might|may|could"
    r"|quiz[\u00e1a]s?|tal\svez|peut-\u00eatre|vielleicht|forse|talvez|misschien|belki|mungkin"
    r"|\u0432\u043e\u0437\u043c\u043e\u0436\u043d\u043e)\b|\u6216\u8bb8|\u4e5f\u8bb8|\u53ef\u80fd|\u304b\u3082|\uc544\ub9c8"
)
_GIVEN: Final = re.compile(
    r"(?a)\b(?:for|when|if|at|where|with|given|let)\s+\$?[A-Za-z](?:_\w)?\s?=", re.IGNORECASE
)
"""`17 for n = 42`: the sign is that of a condition."""
_ONE_CASE: Final = re.compile(
    rf"(?a)[\s({{$]*{_SAID}[\s$]*(?:\\(?:text|mbox)\s?\{{\s*)?,?\s*(?:for|if|when|where|at|given)[\s}}$]+"
    r"[A-Za-z](?:_\w)?\s?=",
    re.IGNORECASE,
)
_NAME_IS: Final = re.compile(r"(?a)(?<![\w$])\$\s?[A-Za-z](?:_\w)?\s?=(?=[^=$]{1,40}\$)")
"""`$x = 5$` in a comment is a value, and no result."""
_IS_IT: Final = re.compile(
    r"(?ai)\s*(?:is|was)\s+(?:the|my|our)\s+(?:(?:final|correct|right)\s+)?(?:answer|result|solution)\b"
)
_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s?(?=\{)|</?answer>", re.IGNORECASE)
_WHOLE_BOX: Final = re.compile(
    r"(?<![-+\u2212*/^=({])(?<![-+\u2212*/^=]\s)\\(?:boxed|fbox)\s?\{([^{}]{0,99})\}"
)
"""Not behind a sign, which may be a dash."""
_DENIED_CHARS_MAX: Final = 120
_ENVIRONMENT: Final = re.compile(r"\\(?:begin|end)\{[a-z]{4,9}\*?\}")
_SAYS: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")


def find(text: str) -> Answer | None:
    """Read the last run of mathematics in `text`; `None` if there is none."""
    text = text[-_CHARS_MAX:]
    found = _last_spans(text) or _last_numbers(text)
    if found is None:
        return None
    answer = grammar.read(found)
    return None if isinstance(answer, Prose) else answer


def find_affirmed(text: str) -> Answer | None:
    """The last run that the text does not reject: 5 in `5, not 4`, nothing in `5, not 5`."""
    text = text[-_CHARS_MAX:]
    part = _line_of_operand(text)
    if part is not None:
        whole = grammar.read(unboxed(text[slice(*part)].strip("*_- \n")))
        if not isinstance(whole, Prose) and not text[part[1] :].strip():
            return whole
        text = f"{text[: part[0]]} ; {text[part[1] :]}"
    text = _BOX.sub("", opened(text)).replace("\\$", notation.CURRENCY)
    rejected: list[Answer] = []

    def withdrawn(match: re.Match[str]) -> str:
        rejected.extend(grammar.read(one[0]) for one in _RUN.finditer(match[0]))
        return " ; "

    found = find(_REJECTED.sub(withdrawn, _ALTERED.sub(" ; ", text)))
    if found is None or any(grammar.are_same(found, one) for one in rejected):
        return None
    return found


def _line_of_operand(text: str) -> tuple[int, int] | None:
    """The line of the last box, outside of mathematics, that is a part of what its line states."""
    boxes, _ = markers.all_boxes(text)
    if not boxes or not operands.is_operand(text, boxes[-1].start, boxes[-1].end):
        return None
    start, end = boxes[-1].start, boxes[-1].end
    if any(span.start() < start < span.end() for span in _SPAN.finditer(text)):
        return None
    line_end = text.find("\n", end)
    return text.rfind("\n", 0, start) + 1, len(text) if line_end < 0 else line_end


def opened(text: str) -> str:
    r"""A text with what is in its boxes in place of them: `85 squared` for `\boxed{85} squared`."""
    return _WHOLE_BOX.sub(r"\1", text)


def unboxed(text: str) -> str:
    """A formula without the commands of its boxes; a text with words stays as it is."""
    opened = _BOX.sub("", text)
    return text if _SAYS.search(_ENVIRONMENT.sub("", opened)) else opened


def is_of_one_case(text: str) -> bool:
    """`17 \\text{ for } n = 42`: a value, and which case it is the answer in."""
    return _ONE_CASE.match(text) is not None


def is_commented(text: str) -> tuple[Answer | None] | None:
    """What a text states that begins with a value and goes on to another one.

    `17, although many get 42` states 17, and `17 plus 42` or `17 apples and 42 pears` no value.
    `None`: it is no such text, or its end may be a result or a correction.
    """
    text = text[:_CHARS_MAX].replace("\\$", notation.CURRENCY)
    begun = _BEGUN.match(text)
    if begun is None:
        return None
    is_it = _IS_IT.match(text, begun.end())
    rest = _NAME_IS.sub(" $", _GIVEN.sub(" for ", text[is_it.end() if is_it else begun.end() :]))
    if not (_RUN.search(rest) or _SPAN.search(rest)) or _GOES_ON.search(rest):
        return None
    comment = _COMMENTS.match(rest)
    if is_it is None and (comment is None or _OPERATES.search(comment[0])):
        return (None,)
    if _LEAVES_OPEN.search(rest):
        return (None,)
    value = grammar.read(begun["value"])
    rejected = [
        grammar.read(one[0]) for said in _REJECTED.finditer(rest) for one in _RUN.finditer(said[0])
    ]
    if isinstance(value, Prose) or any(grammar.are_same(value, one) for one in rejected):
        return (None,)
    return (value,)


def is_denied(text: str) -> bool:
    """Whether a short `text` states one value, and rejects it or only bounds it."""
    text = _BOX.sub("", text)
    if len(text) > _DENIED_CHARS_MAX:
        return False
    values = _SPAN.findall(text) or _RUN.findall(text)
    if len(values) != 1:
        return False
    return _REJECTED.search(text) is not None or _BOUND.match(text) is not None


def _last_spans(text: str) -> str | None:
    """`$...$` and similar; several with only separators between them belong together."""
    spans = list(_SPAN.finditer(text))
    if not spans:
        return None
    last = spans[-1]
    behind = _PERCENT_BEHIND.match(text, last.end())
    if _RUN.search(notation.tidy(text[behind.end() if behind else last.end() :])):
        return None
    run = [_content(last) + ("\\%" if behind else "")]
    start = last.start()
    for earlier in reversed(spans[:-1]):
        gap = text[earlier.end() : start]
        if len(gap) > _GAP_CHARS_MAX or len(run) == _SPANS_MAX or not _GAP.fullmatch(gap):
            break
        run.insert(0, _content(earlier))
        start = earlier.start()
    return ", ".join(run)


def _content(match: re.Match[str]) -> str:
    content = next(match[name] for name in "abcde" if match[name] is not None)
    return content.strip().rstrip(".,")


def _last_numbers(text: str) -> str | None:
    last = None
    for match in _RUN.finditer(text):
        last = match
    return None if last is None else last[0]
