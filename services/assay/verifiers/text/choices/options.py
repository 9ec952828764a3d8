"""Finds lists of options: a response that repeats the options of the question has chosen none.

An *item* is a label with a mark (`A.`, `A)`, `(A)`, `A:`, `[A]`, `A -`, `| A |`) and something
after it
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

ITEM_CHARS_MAX: Final = 300
"""Longest text between two items of one list."""
_DECIDED_CHARS_MAX: Final = 160
"""Longest text between `A or B` and its conclusion."""
LIST_CHARS_MAX: Final = 1_500
"""Characters from a label on that are searched for the rest of its list."""
_REASON: Final = re.compile(r"\b(?:because|since|as|so|therefore|while|whereas)\b", re.IGNORECASE)
_COMMENT: Final = re.compile(
    r"\b(?:(?:is|are|was|were|has|have|does|do)\b.{0,40}?\b(?:not|never|wrong|incorrect|false"
    r"|correct|right|true|eliminated|excluded|impossible|invalid)|too \w+|because|since|would|fails"
    r"|contradicts|(?:wrong|incorrect|rejected|eliminated|excluded)(?=[ .!)]*$))\b|n't\b"
    r"|[\u2717\u2718\u274c]",
    re.IGNORECASE,
)
"""How a response judges an option."""
_AGAINST: Final = re.compile(
    r"(?:\b(?:not|than|of|over|unlike|neither|nor|except|without)|n't)\W{0,4}(?:option\W{1,2})?$",
    re.IGNORECASE,
)
_PRAISE: Final = re.compile(r"\b(?:correct|right|true|fits|because|since)\b", re.IGNORECASE)
_RIGHT: Final = "correct|right|yes|is[ ]true|\u2705|\u2714|\u2713"
_WRONG: Final = (
    "not[ ](?:correct|right|true)|wrong|incorrect|no|is[ ]false|\u274c|\u2717|\u2718|\u2715"
)
_OFFERED: Final = (
    r"(?:(?:^|[.;:,!?\n]|\b(?:so|that|and))\s{0,4}(?:out[ ])?of"
    r"|\b(?:among(?:st)?|from|between|compar(?:e|ed|ing)|considering))\b(?:[ ]\w{2,9}){0,4}"
)
"""Begins a list of candidates: `Of A, B and C, only B fits`."""
_BLANK_LINE: Final = re.compile(r"\n[ ]*\n")
_HEAD_MARKS: Final = " \n\t()[]-+*#>|\u2022"


class _Item(NamedTuple):
    label: str
    start: int
    end: int


class OptionLists:
    """The labels of one choice as items of lists."""

    def __init__(
        self, words: str, choices: tuple[str, ...], named_by: Callable[[str], str | None]
    ) -> None:
        """Compile the forms of an item.

        Args:
            words: a regular expression for a label.
            choices: the labels in their order.
            named_by: the label that a text is.
        """
        self._order: Mapping[str, int] = {choice: at for at, choice in enumerate(choices)}
        self._named_by = named_by
        begins = r"(?:^|(?<=[\s(\[>|,;]))"
        marks = r"[ ]{0,2}[).:\]](?=[ ]{0,4}\S)|[ ]{1,2}[-\u2013\u2014\u2192|](?=[ ])"
        alone = r"(?=[ ]*$)|(?=[ ]+[^\s\w]|[ ]+[A-Z0-9])"
        self._marked = re.compile(rf"{begins}(?i:(?P<label>{words}))(?:{marks})", re.MULTILINE)
        self._lined = re.compile(
            r"^[ ]{0,8}(?:[-+#>\u2022|][ ]{0,4}|\d{1,2}[.)][ ]{1,4}){0,3}[(\[]?"
            rf"(?i:(?P<label>{words}))(?:[ ]{{0,2}}[).:\]|]|{alone})",
            re.MULTILINE,
        )
        self._candidates = _candidates(words)
        self._either = _either(words)
        self._conclusion = _conclusion(words)
        self._judged = re.compile(
            rf"(?:^|[.;,!?\n])[\s>#|*+-]{{0,12}}[(\[]?(?P<label>{words})[)\]]?"
            r"[ ]{0,4}[:.)?=\u2013\u2014\u2192-]{1,4}\s{0,4}(?:(?:this|that"
            r"|it)[ ](?:\w+[ ])?(?=is))?"
            rf"(?:is[ ](?!true|false))?(?:(?P<right>{_RIGHT})|(?P<wrong>{_WRONG}))(?![\w-])",
            re.IGNORECASE,
        )
        self._last = re.compile(rf"\s{{0,4}}[(\[]?(?:{words})[)\].:]{{0,2}}\s*\Z", re.IGNORECASE)

    def without_candidates(self, text: str) -> str:
        """The text with spaces in place of the candidates among which it chooses."""
        return self._undecided(self._candidates.sub(_blank, text))

    def _undecided(self, text: str) -> str:
        """Without `A or B`, if a conclusion that is one label follows: `A fails, so B.`"""
        decided = [match.start() for match in self._conclusion.finditer(text)]

        def blank(match: re.Match[str]) -> str:
            at = bisect_right(decided, match.end() - 1)
            follows = at < len(decided) and decided[at] - match.end() <= _DECIDED_CHARS_MAX
            return " " * len(match[0]) if follows else match[0]

        return self._either.sub(blank, text) if decided else text

    def judged_right(self, text: str) -> str | None:
        """The one label that a list of judged options calls right: `A: no` ... `B: yes`."""
        right: set[str | None] = set()
        wrong: set[str | None] = set()
        for match in self._judged.finditer(text):
            (right if match["right"] else wrong).add(self._named_by(match["label"]))
        return right.pop() if len(right) == 1 and wrong and not right & wrong else None

    def starts_in(self, text: str) -> frozenset[int]:
        """Positions of the labels of all marked items, if they are a list."""
        found = list(self._marked.finditer(text))
        labels = {self._named_by(match["label"]) for match in found}
        if len(labels) < 2:
            return frozenset()
        starts = {match.start() for match in found}
        last = self._last.match(text, found[-1].end())  # `(A)(B)(C)`: nothing follows the last
        if last is not None:
            starts |= set(range(*last.span()))
        return frozenset(starts)

    def begins(self, text: str, said: int) -> bool:
        """Whether a list begins at the head of `text`.

        Args:
            text: a statement and what follows it.
            said: length of the statement; later items are on lines of their own.
        """
        text = text[: max(said, LIST_CHARS_MAX)]
        items = self._items(text, said)
        if not items or text[: items[0].start].strip(_HEAD_MARKS):
            return False
        run = [items[0]]
        for item in items[1:]:
            if not self._continues(text, run[-1], item, said):
                break
            run.append(item)
        ends = [item.start for item in run[1:]] + [len(text)]
        lines = [_line(text[item.end : end]) for item, end in zip(run, ends, strict=True)]
        first_is_judged = _COMMENT.search(lines[0]) and not _PRAISE.search(lines[0])
        return any(
            item.label != run[0].label
            and (first_is_judged or not _COMMENT.search(line) or "\n" not in text[: item.start])
            for item, line in zip(run, lines, strict=True)
        )

    def _continues(self, text: str, last: _Item, item: _Item, said: int) -> bool:
        between = text[last.end : item.start]
        if len(between) > ITEM_CHARS_MAX:
            return False
        if "\n" not in between and (_REASON.search(between) or _AGAINST.search(between)):
            return False
        follows = self._order[item.label] == self._order[last.label] + 1
        return item.start < said or follows or not _BLANK_LINE.search(between)

    def _items(self, text: str, said: int) -> list[_Item]:
        found = {match.start("label"): match for match in self._lined.finditer(text)}
        for match in self._marked.finditer(text, 0, said):
            found.setdefault(match.start("label"), match)
        named = ((self._named_by(found[at]["label"]), at) for at in sorted(found))
        return [_Item(label, at, found[at].end()) for label, at in named if label is not None]


def _line(text: str) -> str:
    return text.strip(" \n").split("\n", 1)[0][:ITEM_CHARS_MAX]


def _blank(match: re.Match[str]) -> str:
    begin, end = match.span(match.lastgroup or 0)
    at = match.start()
    return match[0][: begin - at] + " " * (end - begin) + match[0][end - at :]


def _candidates(words: str) -> re.Pattern[str]:
    """Lists of labels that are introduced as those among which to choose; in named groups."""
    comma = r"\s{0,4}[,/\u3001]\s{0,4}[(\[]?"
    last = r"(?:\b(?:and|or)\b|[&\u548c\u6216\u4e0e\u53ca])\s{0,4}[(\[]?"
    joint = r"(?=[)\]]?\s{0,4}(?:[,/&\u3001\u548c\u6216\u4e0e\u53ca\u2013-]|(?:and|or|to)\b))"
    several = (
        rf"(?:{words})(?![\w']){joint}"
        rf"(?:\s{{0,4}}(?:[-\u2013]|\bto\b)\s{{0,4}}(?:{words})"
        rf"|(?:[)\]]?{comma}(?:{words})){{1,63}}(?:[)\]]?\s{{0,4}},?\s{{0,4}}{last}(?:{words}))?"
        rf"|[)\]]?\s{{0,4}}{last}(?:{words}))"
    )
    run = rf"[(\[]?(?<![\w']){several}(?![\w'])[)\]]?"
    asked = r"\b(?:choose|pick|select|answer|options?|choices?)"
    return re.compile(
        rf"\bwhether\b(?:[ ]\w{{2,9}}){{0,3}}[ ](?P<b>{run})"
        rf"|{_OFFERED}[\s:]{{1,4}}(?P<a>{run})(?=\s{{0,4}}[,:\u2014-]|\s{{1,4}}(?:I|we|only|one)\b)"
        rf"|{asked}[\s:]{{0,4}}(?P<c>\({several}\))"
        rf"|{asked}[\s:]{{1,4}}(?P<d>{several})(?=\s{{0,4}}[:?])"
        rf"|(?P<e>{several})(?=[\u4e00-\u9fff]{{0,4}}\u4e2d)",
        re.IGNORECASE | re.MULTILINE,
    )


def _either(words: str) -> re.Pattern[str]:
    """`A or B`, `A, B or C`."""
    label = rf"[(\[]?(?:{words})(?![\w'])[)\]]?"
    joint = r"\s{0,4}(?:,\s{0,4}(?:or\b\s{0,4})?|\bor\b\s{0,4})"
    return re.compile(
        rf"(?<![\w']){label}(?:{joint}{label}){{0,7}}\s{{0,4}},?\s{{0,4}}\bor\b\s{{0,4}}{label}",
        re.IGNORECASE,
    )


def _conclusion(words: str) -> re.Pattern[str]:
    """`so B`, `hence it must be B.`, `since A fails, B.`: one label, and the end of a sentence."""
    subject = (
        r"(?:(?:it|that|this|the[ ](?:correct[ ])?(?:answer|option|choice))"
        r"(?:'s|[ ]is|[ ]must[ ]be|[ ]has[ ]to[ ]be)[ ])?"
    )
    concludes = (
        r"(?:\b(?:so|hence|thus|therefore|leaving|which[ ]leaves|that[ ]leaves)"
        r"|\b(?:since|because|as)\b[^.;,!?\n]{1,60}(?=,)"
        r"|[.;,]\s{1,4}(?=(?:it|that|this|the)(?:'s|[ ])))"
    )
    end = r"(?=\s{0,4}(?:[.!\n]|\Z)|[ ](?:is|must[ ]be)[ ](?:the|correct|right)\b)"
    return re.compile(
        rf"{concludes}[ ,:]{{0,3}}{subject}(?:option[ ])?[(\[]?(?:{words})(?![\w'])[)\]]?{end}",
        re.IGNORECASE,
    )
