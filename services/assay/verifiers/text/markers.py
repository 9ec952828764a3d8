"""Where a response marks an answer: one linear pass per marker, total on any text.

An empty box, tag or `####` states nothing, and so does one that the words around it reject
(`not \\boxed{5}`).
"""

import re
from collections import deque
from itertools import islice
from typing import Final, NamedTuple

from assay.verifiers.text import denials
from assay.verifiers.text.around import operands


class Statement(NamedTuple):
    """A marked answer, with its marker in `[start, end)`."""

    start: int
    end: int
    text: str


_STATEMENTS_MAX: Final = 16
_BOXES_MAX: Final = 256
"""A judge of choices reads as many; each costs a look at the words around it."""
"""Of one marker, from the end of the response."""
_STATEMENT_LINES_MAX: Final = 40
_QUOTE_MARKS: Final = re.compile(r"\A(?:>\s?){1,4}(?=[^\s>=])")
_ITEM: Final = re.compile(r"(?a)(?:[-*+\u2022]|(?P<number>\d{1,2})[.)])[ \t]{1,4}(?=\S)")
_DESU: Final = re.compile(r"(?<=[*_`$)\]}%\"\u201d\w])\s{0,2}\u3067\u3059$")
"""`is`, which ends a sentence in Japanese."""
_ITEMS_MAX: Final = 16
_LIST_CHARS_MAX: Final = 1_000
_ITEM_WORDS_MAX: Final = 2
_LONG_WORDS: Final = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{3,}")
_NO_NUMBER: Final = re.compile(
    r"\$?\\?[A-Za-z](?:_\{?\w\}?)?\s?(?:[=<>\u2264\u2265]|\\(?:in|[lg]eq?)(?![A-Za-z]))"
    r"|\$?[-\u2212]\s?\$?[\d.\\(]|\d{1,2}:\d\d(?!\d)|(?:USD|EUR|GBP)\s|\\?[$\u20ac\u00a3](?=\d)"
)
"""What a minus does not stand before."""
_FENCE: Final = re.compile(r"`{3,}\w{0,12}")
_SENTENCES_MAX: Final = 16
_ENDS_BOLD: Final = re.compile(r"(?<=\S)\*\*(?=[\s.,;:!?)*_]|\Z)")
_WHOLLY_BOLD: Final = re.compile(r"\*\*(?=\S)((?:(?!\*\*).)+)(?<=\S)\*\*[.,;:!]?", re.DOTALL)
_WHOLLY_ITALIC: Final = re.compile(r"\*(?=[^\s*])([^*]+)(?<=\S)\*[.,;:!]?")
_POWER: Final = re.compile(r"(?<=[\w)}])\*\*(?=[\w({\\-])")
_AFTER_HASHES_MAX: Final = 2
_SHOWN_CHARS_MAX: Final = 50
_BRIEF_CHARS_MAX: Final = 60
_HEADING_CHARS_MAX: Final = 80
FILLER: Final = (
    r"and|or|also|either|maybe|perhaps|possibly|alternatively|again|the|final|so|thus|hence|"
    r"therefore|then|another|other|second|third|correct|is|it"
)
"""Words that add nothing between two statements, as part of a regular expression."""
_BETWEEN: Final = re.compile(
    r"(?:[^\w\\]|_|\\[()\[\],;!: ]|\\q?quad|\\(?:text|mbox|textbf|mathrm)\s?\{[^{}]{0,40}\}|"
    rf"(?<![A-Za-z])(?:{FILLER}|my|our|this|that|we|I|get|have|conclude|conclusion|in|to|total"
    r"|overall|numerical|exact|complete|full|required|requested|desired|short|summary|question"
    r"|problem|finally|lastly|answer|ans|result|are|gives|right|best|likely)(?![A-Za-z])"
    r"|\u6240\u4ee5|\u56e0\u6b64|\u6545|\u5219|\u7efc\u4e0a|\u6700\u7ec8|\u6700\u540e|\u6b63\u786e\u7684?"
    r"|(?<!\w)(?:\u0438\u0442\u0430\u043a|\ub530\ub77c\uc11c|\uadf8\ub7ec\ubbc0\ub85c|\ucd5c\uc885))*",
    re.IGNORECASE,
)
_BLANK: Final = re.compile(
    r"(?:[\s?_~.]|\\(?:[_ ,;:!]|$)|\\(?:q?quad|square|Box|textbackslash)(?![A-Za-z])|\{\}"
    r"|\\(?:h?phantom|hspace)\*?\s?\{[^{}]*\}|\\(?:text|mathrm|mbox)\s?\{[\s?_.~]*\})*"
)
TAG: Final = re.compile(r"<(/?)answer>", re.IGNORECASE)
_BRACES: Final = re.compile(r"\\(?:boxed|fbox)[ ]{0,4}\{|\\.|[{}]", re.DOTALL)
_ANSWER_IS: Final = re.compile(
    r"\banswer(?:\s{1,4}is\b[ \t]{0,4}:?|[ \t]{0,4}(?:=(?![=>])|[-=]>))"
    r"|\u7b54\u6848\s{0,4}(?:(?:\u5e94\u8be5|\u5e94)?(?:\u662f|\u4e3a)|(?=[:\uff1a]))\s{0,4}[:\uff1a]?"
    r"|(?<![\u4e0d\u80fd\u53ef\u8981\u8be5])\u9009\s{0,4}[:\uff1a]?\s{0,4}(?=[(\uff08]?[A-J])"
    r"|(?<!\w)\u7b54\s{0,4}[:\uff1a]"
    r"|\u7b54\u3048\s{0,4}(?:\u306f|[:\uff1a])\s{0,4}"  # Japanese
    r"|\u0627\u0644\u0625\u062c\u0627\u0628\u0629\s{1,4}"  # Arabic, the answer (the final) is
    r"(?:\u0627\u0644\u0646\u0647\u0627\u0626\u064a\u0629\s{1,4})?\u0647\u064a\b\s{0,4}:?"
    r"|(?<!\w)(?:\uc815)?\ub2f5\uc740\s{1,4}"  # Korean, the answer is
    r"|(?<!\w)(?:\u043e\u0442\u0432\u0435\u0442|(?:\uc815)?\ub2f5)"  # Russian, Korean
    r"\s{0,4}[:\uff1a]\s{0,4}",
    re.IGNORECASE,
)
_ANSWER: Final = re.compile(r"[Aa][Nn][Ss][Ww][Ee][Rr]")
_ANSWER_ABROAD: Final = re.compile("[\u7b54\u9009\u0627\ub2f5\u043e\u041e\u1c82\u017f]")
"""In each alternative of `_ANSWER_IS` but the first, and a letter that counts as `s`."""
HEADING: Final = (
    r"(?:(?:the|my|our|so|thus|hence|then|therefore|finally|final|correct|right"
    r"|in[ ](?:summary|conclusion))[ ,:*_]{1,4}){0,5}"
    r"(?:answer|ans)(?:[ \t]?\((?:exact|simplified|exactly|reduced|decimal|final"
    r"|(?:in|as)[ ][a-z ]{1,30}|rounded[ a-z0-9]{0,30})\))?[ \t*_]{0,4}"
    r"(?:[:\uff1a\u2192\u21d2\u279c]|[-=]>|=(?![=>]))"
)
"""Of a line that states an answer, as part of a regular expression without regard to case."""
_ANSWER_COLON: Final = re.compile(
    r"^(?:_|[^\w\n()\[\]{}<$\\]){0,12}"  # marks, also bytes that are not text, but not words
    rf"(?:a[ \t*_]{{0,4}}[:\uff1a]|{HEADING})[*_]{{0,4}}",
    re.IGNORECASE | re.MULTILINE,
)
_HASHES: Final = re.compile(r"####")
_HEADING: Final = re.compile(
    r"[*_\s\d.:)-]{0,8}(?:(?:the|my|our|final|correct|detailed|step|by|full|complete|short)[\s-]{1,3}){0,4}"
    r"(?:answers?|results?|solution|conclusion|explanation|reasoning|verification|check|summary"
    r"|calculations?|analysis|steps?|proof|notes?)(?:\s\d{1,2})?[*_\s:.]{0,6}|",
    re.IGNORECASE,
)
"""What `####` states nothing with."""
_WORDS_ALONE: Final = re.compile(
    r"(?!(?i:not\b))[^\d\\$=.]*[^\W\d_]{2,}[\s,;:-]+[^\W\d_]{2,}[^\d\\$=.]*"
)
"""Several words and no value."""
_COMMENT: Final = re.compile(
    r"(?:(?:clearly|indeed|therefore|thus|also|now|definitely|probably|already|the|as|in|given|shown"
    r"|stated|written|see|boxed|my)\s+)*(?:(?:correct|right|verified|confirmed|checked)"
    r"(?:\s(?:by|in|with|because|since|as|for|both|twice)\b[^\n]{0,80})?|reasonable|plausible|consistent"
    r"|final|unique|exact|follows|above|below|here)[\s:.,!*_]*",
    re.IGNORECASE,
)
"""What is said of an answer rather than as one."""
_SENTENCE_END: Final = re.compile(
    r"\u3002|(?<![ap]\.m)(?<!i\.e)(?<!approx)\.(?=(?:\[\^?\w{1,3}\])?[*_`]*(?:\s|$))"
    r"(?!(?:(?<=\bRs\.)|(?<=\bSept\.)|(?<=\b(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\.))\s*\d)"
)
"""Not the point of an abbreviation that a number follows."""
_ABBREVIATED: Final = re.compile(r"(?<![A-Za-z])(?:[A-Z]\.){1,2}[A-Z]\Z")
"""`P.S`, whose last point was taken for the end of the sentence."""
_SHOWN_DIGITS: Final = re.compile(r"(?a)\d?\.\d{1,40}\s?\.\.$")
"""Before the last of three dots of a decimal, which ends no sentence."""
_LEAD_IN: Final = re.compile(
    rf"(?:[\s.,;:!?*]|(?<![A-Za-z])(?:{FILLER}|my|possible)(?![A-Za-z]))*$", re.IGNORECASE
)
_DENIED_HEADING: Final = re.compile(
    rf"(?:^|(?<=[\n.!?;]))[\s*_#>(-]{{0,9}}{denials.HEADING}", re.IGNORECASE
)
_SAYS_ANOTHER: Final = re.compile(
    r"(?i)(?<![a-z\\])(?:but|rather|instead|it(?:'s|\sis)|actually|correct|right|answers?|should)(?![a-z])|;\s"
)
_REJECTS: Final = re.compile(
    r"(?<![A-Za-z])(?:(?:is|was|are|were)n't|not|never|rather than|instead of)"
    r"(?:\s+(?:the|an?|equal|to|just|simply|answer|is))*[\s$\\(\[{:*_]*$",
    re.IGNORECASE,
)
"""Words that end directly before the answer that they reject; a comma ends them."""
_REJECTS_CHARS_MAX: Final = 60
_REJECTS_HINTS: Final = ("n't", "not", "never", "rather", "nstead")
"""There are no such words without one of these."""


def tags(response: str) -> list[Statement]:
    """`<answer>18</answer>`."""
    opened: re.Match[str] | None = None
    found: list[Statement] = []
    for match in TAG.finditer(response):
        if not match[1]:
            opened = match
        elif opened is not None:
            text = _without_item(response[opened.end() : match.start()])
            if text and not is_rejected(response, opened.start(), match.end()):
                found.append(Statement(opened.start(), match.end(), text))
            opened = None
    return found[-_STATEMENTS_MAX:]


def boxes(response: str) -> list[Statement]:
    """Outer boxes that state something; the last `_BOXES_MAX`, looked for from the end."""
    stating = (
        box
        for box in reversed(all_boxes(response)[0])
        if not is_blank(box.text) and not is_rejected(response, box.start, box.end)
        if not operands.is_operand(response, box.start, box.end)
    )
    return list(islice(stating, _BOXES_MAX))[::-1]


def all_boxes(response: str) -> tuple[list[Statement], int]:
    """Outer boxes, and the position of an unclosed one (-1 if none).

    One pass with a stack of open braces; a box inside a box is part of its content.
    """
    if "\\boxed" not in response and "\\fbox" not in response:
        return [], -1
    open_braces: list[tuple[int, int]] = []
    found: list[Statement] = []
    for match in _BRACES.finditer(response):
        brace = match[0]
        if brace == "{":
            open_braces.append((-1, -1))
        elif brace == "}":
            began_at, content_at = open_braces.pop() if open_braces else (-1, -1)
            if began_at >= 0:
                while found and found[-1].start > began_at:
                    found.pop()
                content = response[content_at : match.start()].strip()
                found.append(Statement(began_at, match.end(), content))
        elif brace.endswith("{") and len(brace) > 2:
            open_braces.append((match.start(), match.end()))
    return found, max((began_at for began_at, _ in open_braces), default=-1)


def adjoin(text: str, end: int, start: int) -> bool:
    """Whether nothing that counts is between two statements, so that they are one answer."""
    return _BETWEEN.fullmatch(text, end, start) is not None


def is_comment(text: str) -> bool:
    """Whether `The answer is correct` or `... is as follows:` says nothing as an answer."""
    return _COMMENT.fullmatch(text) is not None


def unboxed(text: str) -> str:
    """What is in the box, if all of `text` is one."""
    found, _ = all_boxes(text)
    if len(found) != 1:
        return text
    behind = _ABBREVIATED.sub("", text[found[0].end :])
    if (text[: found[0].start] + behind).strip("$*_ .:"):
        return text
    return found[0].text


def without_denied(response: str) -> str:
    """`response` with spaces in place of what is marked, and called wrong or denied."""
    rejected = [
        (box.start, box.end)
        for box in all_boxes(response)[0]
        if is_rejected(response, box.start, box.end)
    ]
    for match in _answer_words(response):
        if denials.of_answer(response, match.start()) or denials.before(response, match.end()):
            rejected.append(_stated_at(response, match.end()))
    if denials.may_be_inside(response):
        headings = few_last(_DENIED_HEADING, response)
        rejected += [_stated_at(response, heading.end()) for heading in headings]
    for start, end in rejected:
        if _SAYS_ANOTHER.search(response, start, end) is None:
            response = response[:start] + " " * (end - start) + response[end:]
    return response


def _stated_at(response: str, start: int) -> tuple[int, int]:
    said = sentence(lines_at(response, start))
    begin = response.find(said, start)
    return begin, begin + len(said)


def is_blank(content: str) -> bool:
    """Whether a box is one to fill in, as in the question: `\\frac{6}{\\boxed{?}}`."""
    return _BLANK.fullmatch(content) is not None


def is_rejected(response: str, start: int, end: int) -> bool:
    """Whether the words around a box or tag say that it is not the answer."""
    window = response[max(0, start - _REJECTS_CHARS_MAX) : start]
    may_reject = any(map(window.casefold().__contains__, _REJECTS_HINTS))
    rejects = may_reject and _REJECTS.search(window) is not None
    return rejects or denials.before(response, start) or denials.behind(response, end)


def hashes(response: str) -> list[Statement]:
    """`#### 18`, to the end of the line.

    A line in the form of a heading with text below it is a heading.
    """
    found = hash_lines(response)
    below = response[found[-1].end :].split("\n", 12) if found else []
    return [] if sum(map(bool, map(str.strip, below))) > _AFTER_HASHES_MAX else found


def hash_lines(response: str) -> list[Statement]:
    """All lines `#### 18`, without those that are headings by what they say."""
    found = [
        Statement(match.start(), response.index(text, match.end()) + len(text), text.strip("# \t"))
        for match in few_last(_HASHES, response)
        for text in [lines_at(response, match.end())]
    ]
    return [
        one
        for one in found
        if not _is_heading(one.text, has_below=bool(response[one.end :].strip()))
    ]


def _is_heading(text: str, *, has_below: bool) -> bool:
    return _HEADING.fullmatch(text) is not None or (has_below and is_words(text))


def is_words(text: str) -> bool:
    """Whether `text` is several words without a value."""
    said = text.rstrip(".") if len(text) <= _HEADING_CHARS_MAX else ""
    return _WORDS_ALONE.fullmatch(said) is not None


def answers_is(response: str) -> list[Statement]:
    """`The answer is 18`, to the end of the sentence or to the next such words."""
    found: list[Statement] = []
    next_at = len(response)
    for match in reversed(_answer_words(response)):
        if denials.of_answer(response, match.start()) or denials.before(response, match.end()):
            continue
        lines = lines_at(response, match.end())
        begin = response.index(lines, match.end())
        said = sentence(lines)
        if begin + len(said) > next_at:
            said = _without_lead_in(response[begin:next_at])
        found.insert(0, Statement(match.start(), begin + len(said), _unmarked(said)))
        next_at = match.start()
    return found


def _unmarked(said: str) -> str:
    return said if _is_list(said) else _DESU.sub("", said).strip("*_ ")


def _is_list(text: str) -> bool:
    """Whether each of several lines is an item."""
    return "\n" in text and all(_ITEM.match(line.strip()) for line in text.split("\n"))


def _without_lead_in(text: str) -> str:
    """What stands before the words that lead to the next statement."""
    return _LEAD_IN.sub("", text).rstrip(" .,;\n") if len(text) <= _BRIEF_CHARS_MAX else text


def sentence(text: str) -> str:
    """The first sentence; a full stop in `$$...$$` or `\\(...\\)` does not end it.

    A single `$` may be money. A list with numbers is one.
    """
    if _is_list(text):
        return text
    for end in islice(_SENTENCE_END.finditer(text), _SENTENCES_MAX):
        sentence = text[: end.start()]
        if _SHOWN_DIGITS.search(sentence[-_SHOWN_CHARS_MAX:]):
            continue
        if not sentence.count("$$") % 2 and sentence.count("\\(") <= sentence.count("\\)"):
            return sentence
    return text


def answers_colon(response: str) -> list[Statement]:
    """A line `A: 18`, `Answer: 18` or `**Final answer:** 18`."""
    return [
        Statement(match.start(), response.index(text, match.end()) + len(text), _without_bold(text))
        for match in few_last(_ANSWER_COLON, response)
        for text in [lines_at(response, match.end())]
    ]


def _without_bold(text: str) -> str:
    """Without the end of bold type that began before it: `85**.` of `**Answer: 85**.`"""
    if _is_list(text):
        return text
    if whole := _WHOLLY_BOLD.fullmatch(text) or _WHOLLY_ITALIC.fullmatch(text):
        return whole[1]
    ends = [end for end in _ENDS_BOLD.finditer(text) if end.start()]
    if len(ends) == 1 and "**" not in _POWER.sub("", text[: ends[0].start()]):
        text = f"{text[: ends[0].start()]}{text[ends[0].end() :]}"
    return text.strip("*_ ")


def _answer_words(text: str) -> list[re.Match[str]]:
    """The last `few_last` matches of `_ANSWER_IS`, which is tried only where one may begin."""
    if _ANSWER_ABROAD.search(text):
        return few_last(_ANSWER_IS, text)
    tried = (_ANSWER_IS.match(text, word.start()) for word in _ANSWER.finditer(text))
    return list(deque(filter(None, tried), maxlen=_STATEMENTS_MAX))


def few_last(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """The last matches, at most `_STATEMENTS_MAX`."""
    return list(deque(pattern.finditer(text), maxlen=_STATEMENTS_MAX))


def line_at(text: str, start: int) -> str:
    """The rest of the line."""
    end = text.find("\n", start)
    return text[start : end if end >= 0 else len(text)].strip()


def lines_at(text: str, start: int) -> str:
    """The rest of the line, or the next line if that is empty; more while brackets are open."""
    end = start
    said = ""
    for _ in range(_STATEMENT_LINES_MAX):
        newline = text.find("\n", end)
        stop = newline if newline >= 0 else len(text)
        said = text[start:stop].strip()
        if _FENCE.fullmatch(said) and newline >= 0:
            start, said = newline + 1, ""
        if newline < 0 or (said and _is_closed(said)):
            return _listed(text, start, stop, said) or _unquoted(text, start, said)
        end = newline + 1
    return line_at(text, start)


def _listed(text: str, start: int, end: int, said: str) -> str:
    """All items of a list that begins on a line of its own, behind the line from `start`.

    The mark of a single one is no part of it, unless it may be the sign of a number.
    """
    at = text.find(said, start)
    item = _ITEM.match(said)
    if item is None or "\n" not in text[start:at]:
        return ""
    stop, count = end, 1
    for line in text[end + 1 : end + 1 + _LIST_CHARS_MAX].split("\n")[:_ITEMS_MAX]:
        follows = _ITEM.match(line.strip())
        if follows is None or bool(follows["number"]) != bool(item["number"]):
            break
        stop, count = stop + 1 + len(line), count + 1
    items = text[at:stop].strip()
    if any(len(_LONG_WORDS.findall(line)) > _ITEM_WORDS_MAX for line in items.split("\n")):
        return ""
    if count > 1:
        return items
    rest = said[item.end() :]
    return rest if item["number"] or _NO_NUMBER.match(rest) else ""


def _without_item(text: str) -> str:
    """Without the mark of the only item of a list, which a line of its own begins with."""
    said = text.strip()
    item = _ITEM.match(said)
    if item is None or item["number"] or "\n" in said or "\n" not in text:
        return said
    return said[item.end() :] if _NO_NUMBER.match(said, item.end()) else said


def _unquoted(text: str, start: int, said: str) -> str:
    """Without the marks of a quotation, which a line begins with, but a relation does not."""
    return _QUOTE_MARKS.sub("", said) if "\n" in text[start : text.find(said, start)] else said


def _is_closed(text: str) -> bool:
    if text in {"$$", "\\["}:
        return False
    return (
        text.count("{") - text.count("\\{") <= text.count("}") - text.count("\\}")
        and text.count("\\begin") <= text.count("\\end")
        and text.count("\\[") <= text.count("\\]")
        and text.count("$$") % 2 == 0
    )
