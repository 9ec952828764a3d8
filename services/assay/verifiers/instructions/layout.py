"""The family `format` of IFBench. Pure."""

import re
from itertools import pairwise
from typing import Final

from assay.verifiers.instructions.arguments import Arguments, ConstraintFamily, text
from assay.verifiers.instructions.language import (
    PUNCTUATION,
    lines,
    sentences,
    stripped,
    tokens,
    unpunctuated,
)

_DEPTH, _QUOTE_DEPTH = 5, 3
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_LETTERED: Final = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_EMOJI: Final = re.compile(
    "[\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f004-\U0001faff]"
)
_OPENED, _CLOSED = re.compile(r"<(?:i|em)>"), re.compile(r"</(?:i|em)>")
_TEMPLATE: Final = ("My Answer:", "My Conclusion:", "Future Outlook:")


def _parentheses(value: str, _given: Arguments) -> bool:
    """A group of that depth must begin to close; a bracket that closes another one starts again."""
    opened: list[str] = []
    deepest = 0
    for mark in value:
        if mark in "([{":
            opened.append(mark)
            deepest = max(deepest, len(opened))
        elif mark in _PAIRS:
            if not opened or opened.pop() != _PAIRS[mark]:
                opened, deepest = [], 0
            elif deepest >= _DEPTH:
                return True
    return False


def _quotes(value: str, _given: Arguments) -> bool:
    opened: list[str] = []
    deepest = 0
    for mark in value:
        if opened and mark == opened[-1]:
            opened.pop()
            if deepest - len(opened) >= _QUOTE_DEPTH:
                return True
        elif mark in "\"'":
            opened.append(mark)
            deepest = max(deepest, len(opened))
    return False


def _options(value: str, given: Arguments) -> bool:
    """Lettered options are compared as they are, others without case and marks around them."""
    asked = given["options"]
    separator = next((one for one in ("/", "or") if one in asked), ",")
    allowed = [one.strip() for one in asked.split(separator)]
    if _LETTERED.match(asked):
        return value in allowed
    return stripped(value).lower() in {stripped(one).lower() for one in allowed}


def _one_word_per_line(value: str, _given: Arguments) -> bool:
    bare = unpunctuated(value).strip()
    return sum(line != "" for line in bare.split("\n")) == len(bare.split())


def _emoji(value: str, _given: Arguments) -> bool:
    """At the end of each sentence, or behind its last mark, where the next sentence would begin."""
    bare = [unpunctuated(one).strip() for one in sentences(value)]
    if not all(bare):
        return False
    following = [*bare[1:], ""]
    return all(
        _EMOJI.search(one[-2:]) is not None or _EMOJI.match(other) is not None
        for one, other in zip(bare, following, strict=True)
    )


def _stairs(value: str, _given: Arguments) -> bool:
    depths = [len(line) - len(line.lstrip(" ")) for line in lines(value)]
    return all(one < other for one, other in pairwise(depths))


def _quote_unquote(value: str, _given: Arguments) -> bool:
    """No quotation follows another directly, and none ends the response."""
    bare = "".join(value.replace("“", '"').replace("”", '"').replace("'\"'", "").split())
    ends = bare.strip("0123456789" + PUNCTUATION.replace('"', ""))
    return '""' not in bare and not ends.endswith('"')


def _list(value: str, given: Arguments) -> bool:
    return value.count(given["sep"]) >= 2


def _thesis(value: str, _given: Arguments) -> bool:
    opened = _OPENED.search(value)
    closed = _CLOSED.search(value, opened.end()) if opened else None
    if opened is None or closed is None:
        return False
    return bool(value[opened.end() : closed.start()].strip() and value[closed.end() :].strip())


def _sub_bullets(value: str, _given: Arguments) -> bool:
    return all("-" in bullet for bullet in value.split("*")[1:])


def _no_bullets_bullets(value: str, _given: Arguments) -> bool:
    """Sentences, then bullets to the end."""
    ended = bullets = 0
    for line in value.split("\n"):
        if line.strip().startswith("*"):
            if ended < 2:
                return False
            bullets += 1
        elif bullets:
            return False
        else:
            ended += len(sentences(line))
    return bullets >= 2


def _title_case(value: str, _given: Arguments) -> bool:
    """No word that is in lower case, nor one with a small letter before capitals."""
    words = (one for one in tokens(value) if one[0].isalpha() and one[0].islower())
    return not any(len(one) == 1 or one[1:].islower() or one[1:].isupper() for one in words)


def _template(value: str, _given: Arguments) -> bool:
    return all(part in value for part in _TEMPLATE)


def _no_whitespace(value: str, _given: Arguments) -> bool:
    return not any(character.isspace() for character in value)


RULES: Final = {
    "format:parentheses": ConstraintFamily(_parentheses),
    "format:quotes": ConstraintFamily(_quotes),
    "format:options": ConstraintFamily(_options, {"options": text}),
    "format:newline": ConstraintFamily(_one_word_per_line),
    "format:emoji": ConstraintFamily(_emoji),
    "format:line_indent": ConstraintFamily(_stairs),
    "format:quote_unquote": ConstraintFamily(_quote_unquote),
    "format:list": ConstraintFamily(_list, {"sep": text}),
    "format:thesis": ConstraintFamily(_thesis),
    "format:sub-bullets": ConstraintFamily(_sub_bullets),
    "format:no_bullets_bullets": ConstraintFamily(_no_bullets_bullets),
    "format:title_case": ConstraintFamily(_title_case),
    "format:output_template": ConstraintFamily(_template),
    "format:no_whitespace": ConstraintFamily(_no_whitespace),
}
