"""Finds lists of options: a response that repeats the options of the question has chosen none.

An *item* is a label with a mark (`A.`, `A)`, `(A)`, `A:`, `[A]`, `A -`, `| A |`) and something
after it
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

ITEM_CHARS_MAX: Final = 300
"""Longest text between two items of one list."""
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

    def starts_in(self, text: str) -> frozenset[int]:
        """Positions of the labels of all marked items, if they are a list."""
        found = list(self._marked.finditer(text))
        labels = {self._named_by(match["label"]) for match in found}
        return frozenset(match.start() for match in found) if len(labels) > 1 else frozenset()

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
