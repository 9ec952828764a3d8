"""Finds and parses the JSON in a response.

Rules. The text is RFC 8259: no NaN or Infinity, no byte order mark, no comments, nothing after the
value. Text that is not UTF-8 (lone surrogates, see `assay.core.tools.response`) is not JSON; an
escaped lone surrogate (`"\\ud800"`) is a character. The last value of a duplicate name counts, as
in Python and JavaScript. Numbers are exact, whatever their size.
"""

import json
import re
from collections.abc import Iterator, Sequence
from decimal import DecimalException
from typing import Final, NamedTuple, NoReturn

from assay.verifiers.text.around import chat
from assay.verifiers.text.around.blocks import BLOCKS_MAX, BlockContent, standing, unglued
from assay.verifiers.text.dialects import BigInteger, Number
from assay.verifiers.text.thoughts import answer_span, begins_with_thought

NESTING_MAX: Final = 1_000
"""Maximum nesting depth of objects and arrays."""
_INTEGER_DIGITS_MAX: Final = 4_000
"""Below Python's limit on the digits of an `int`."""
_FENCE: Final = re.compile(
    r"[ \t\u200b\u2060\ufeff]*(?:(?:[-*+]|[0-9]{1,3}[.)])[ \t]{1,4})?(`{3,}|~{3,})[ \t]*([^\n]*)"
)
_NAMED: Final = re.compile(r"[ \t]*(?:\{[ ]?\.?)?json[5c]?\b", re.IGNORECASE)
_NAMES: Final = frozenset(("json", "json5", "jsonc"))
_MAY_HOLD: Final = frozenset(
    ("", "js", "javascript", "text", "txt", "plain", "plaintext", "output", "result", "data")
)
"""Words behind a fence that name no other language."""
_JSON: Final = 2
"""The best kind of a block."""
_QUOTED: Final = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.|(?!))*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_MARKS: Final = ("```json", "```Json", "```JSON", "```")
_TAG_ENDS: Final = re.compile(
    r"</(answer|final_answer|json|output|result|response|tool_call|function_call)>\s*\Z"
)
_TAG_CHARS_MAX: Final = 100
_ANSWER: Final = "answer"
_STRINGS: Final = re.compile(r'"(?:[^"\\\n]++|\\[^\n]?|(?!))*+"?|`</?[\w:]{1,20}>`')
"""Of JSON, which end with their line, and marks of thoughts that are mentioned."""
_JSON_BEGINS: Final = frozenset('{["')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """The text is not JSON; the response is wrong."""


class TooDeep(Exception):
    """The text nests deeper than `NESTING_MAX`; the response broke a limit."""


class NumberTooLarge(Exception):
    """A number with an exponent out of range; the response broke a limit."""


def parse(text: str) -> object:
    """Return the value; its numbers are `int` or `Number`.

    Raises:
        NotJson: the text is not JSON.
        TooDeep: it nests too deeply.
        NumberTooLarge: a number is out of range.
        RecursionError: this thread's stack is too small; see `bounds.py`.
    """
    _check_text(text)
    try:
        return json.loads(
            text, parse_float=_number, parse_int=_integer, parse_constant=_no_constant
        )
    except ValueError as error:
        raise NotJson(str(error)) from None


def check(text: str) -> None:
    """Check that `text` is JSON for Python's parser, which also takes NaN and Infinity.

    Numbers are not computed, so none is out of range.

    Raises:
        NotJson: the text is not JSON.
        TooDeep: it nests too deeply.
        RecursionError: this thread's stack is too small; see `bounds.py`.
    """
    _check_text(text)
    try:
        json.loads(text, parse_float=str, parse_int=str)
    except ValueError as error:
        raise NotJson(str(error)) from None


def _check_text(text: str) -> None:
    found = _SURROGATE.search(text)
    if found is not None:
        raise NotJson(f"not UTF-8 at character {found.start()}")
    if _nesting(text) > NESTING_MAX:
        raise TooDeep(f"nests deeper than {NESTING_MAX}")


def _nesting(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        if match[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif match[0] in "]}":
            depth -= 1
    return deepest


def _number(digits: str) -> Number:
    try:
        return Number(digits)
    except DecimalException:
        raise NumberTooLarge(f"the number {digits[:40]} is out of range") from None


def _integer(digits: str) -> int | Number:
    return int(digits) if len(digits) <= _INTEGER_DIGITS_MAX else BigInteger(digits)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def unwrapped(response: str) -> str:
    """The response without the Markdown fence around it; nothing else may stand outside."""
    text = response.strip()
    for mark in _MARKS:
        text = text.removeprefix(mark)
    return text.removesuffix("```").strip()


def fenced(response: str) -> str:
    """The last fenced block named `json`, otherwise the last one that names no other language,
    otherwise the last, otherwise the response; without thoughts, and without an answer tag.

    A fence is a line of three or more backticks or tildes with any indentation, or behind the mark
    of a list; one named `json` may stand behind words. It is closed by a fence of the same
    character and at least the same length; where there is none, by one with words behind it, or by
    the end of a truncated response. Blocks that hold nothing do not count. Where there is no fence,
    or only in a quotation, three backticks within lines count. The last marks of a chat template
    are no part of a response. A block that the text around it takes back does not count.
    """
    response = unglued(told(chat.unended(response)))
    found = _last_block(response)
    if found is None and _QUOTED.search(response):
        found = _last_block(_QUOTED.sub("", response))
    if found is not None:
        return found
    parts = response.split("```")
    if len(parts) < 3 or response.lstrip()[:1] in _JSON_BEGINS:
        return response
    around = [*parts[:-1:2], parts[-1]] if len(parts) % 2 else [*parts[:-2:2], parts[-1]]
    blocks = parts[1:-1:2]
    stands = standing(around[-BLOCKS_MAX - 1 :], blocks[-BLOCKS_MAX:], BlockContent.JSON)
    return _NAMED.sub("", blocks[-1]) if stands[-1] else response


class _Found(NamedTuple):
    """A block, and the numbers of the line that opens it and of the one behind it."""

    kind: int
    text: str
    begin: int
    end: int
    fence: str


def _last_block(response: str) -> str | None:
    """The last block of the best kind that the text around it does not take back; `None` without
    one that holds something, nothing where all of them are taken back."""
    lines = _lines(response)
    found = [block for block in _blocks(lines) if block.text.strip()]
    near = found[-BLOCKS_MAX:]
    if not found:
        return None
    around, behind = list[str](), near[0].begin if len(near) < len(found) else 0
    for block in near:
        around.append("\n".join(lines[behind : block.begin]))
        behind = block.end
        last = lines[behind - 1].lstrip()
        if last.startswith(block.fence):  # what stands behind its last fence
            behind -= 1
            lines[behind] = last.lstrip(block.fence[0])
    around.append("\n".join(lines[behind:]))
    stands = standing(around, [block.text for block in near], BlockContent.JSON)
    stands = [any(stands)] * (len(found) - len(near)) + stands
    left = [block for block, stood in zip(found, stands, strict=True) if stood]
    best = max((block.kind for block in left), default=0)
    return [block.text for block in left if block.kind == best][-1] if left else ""


def _blocks(lines: Sequence[str]) -> Iterator[_Found]:
    at = 0
    while at < len(lines):
        opening = _FENCE.fullmatch(lines[at].rstrip("\r"))
        at += 1
        if opening is None or (opening[1][0] == "`" and "`" in opening[2]):
            continue
        kind, begin = _kind(opening[2]), at - 1
        block, at = _block_from(lines, at, opening[1], is_json=kind == _JSON)
        yield _Found(kind, block, begin, at, opening[1])


def _block_from(lines: Sequence[str], begin: int, fence: str, *, is_json: bool) -> tuple[str, int]:
    """A block, and the line behind it. No line of JSON begins or ends with a fence."""
    at = begin
    while at < len(lines) and not _closes(lines[at], fence):
        if _begins_json(lines[at], fence):
            return "\n".join(lines[begin:at]), at
        if is_json and lines[at].lstrip().startswith(fence):
            break
        if is_json and lines[at].rstrip().endswith(fence):
            return "\n".join([*lines[begin:at], lines[at].rstrip().rstrip(fence[0])]), at + 1
        at += 1
    if at < len(lines):
        return "\n".join(lines[begin:at]), at + 1
    words = (to for to in range(begin, at) if lines[to].lstrip().startswith(fence))
    block = "\n".join(lines[begin : next(words, at)])
    return block.rstrip().rstrip(fence[0]), at


def _begins_json(line: str, fence: str) -> bool:
    """Whether a fence within a block begins one named `json`."""
    if "json" not in line.lower():
        return False
    opening = _FENCE.fullmatch(line.rstrip("\r"))
    return opening is not None and opening[1] == fence and _kind(opening[2]) == _JSON


def _lines(response: str) -> list[str]:
    """The lines, with a fence named `json` behind words on a line of its own."""
    found = []
    for line in response.split("\n"):
        bare = line.rstrip(" \t\r")
        before, fence, word = bare.rpartition("```")
        is_behind = fence and word.lower() in _NAMES and before.strip(" \t`")[:1] not in ("", ">")
        if is_behind and _FENCE.fullmatch(bare) is None:
            before = before.rstrip("`")
            found += [before, bare[len(before) :]]
        else:
            found.append(line)
    return found


def _kind(words: str) -> int:
    """Of a block by the words behind its fence: the greatest is what a response wants to say."""
    if _NAMED.match(words):
        return _JSON
    return int(words.strip().lower() in _MAY_HOLD)


def told(response: str) -> str:
    """The response without what is thought aloud, unless it begins as JSON does, and what is in an
    answer tag at its end. Neither the mark of a thought nor a tag is one in a string of JSON."""
    begun = response.lstrip()
    if begun[:1] in _JSON_BEGINS and not begins_with_thought(begun):
        return response
    begin, end = answer_span(_STRINGS.sub(_masked, response))
    response = response[begin:end]
    tag = _TAG_ENDS.search(response, max(0, len(response) - _TAG_CHARS_MAX))
    if tag is None:
        return response
    opening = f"<{tag[1]}>"
    at = len(response) - len(response.lstrip())
    if not response.startswith(opening, at):
        at = _STRINGS.sub(_masked, response).rfind(opening) if tag[1] == _ANSWER else -1
    return response if at < 0 else response[at + len(opening) : tag.start()]


def _masked(string: re.Match[str]) -> str:
    """As long, without what it says; one quotation mark alone stays as it is."""
    said = string[0]
    return "x" * len(said) if len(said) > 1 and said[-1] in '"`' else said


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and not bare.strip(fence[0])
