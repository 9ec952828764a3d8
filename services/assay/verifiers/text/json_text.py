"""Finds and parses the JSON in a response.

Rules. The text is RFC 8259: no NaN or Infinity, no byte order mark, no comments, nothing after the
value. Text that is not UTF-8 (lone surrogates, see `assay.core.tools.response`) is not JSON; an
escaped lone surrogate (`"\\ud800"`) is a character. The last value of a duplicate name counts, as
in Python and JavaScript. Numbers are exact, whatever their size.
"""

import json
import re
from decimal import DecimalException
from typing import Final, NoReturn

from assay.verifiers.text.dialects import BigInteger, Number
from assay.verifiers.text.thoughts import behind_thoughts

NESTING_MAX: Final = 1_000
"""Maximum nesting depth of objects and arrays."""
_INTEGER_DIGITS_MAX: Final = 4_000
"""Below Python's limit on the digits of an `int`."""
_FENCE: Final = re.compile(r"[ \t\u200b\u2060\ufeff]*(`{3,}|~{3,})[ \t]*([^\n]*)")
_NAMED: Final = re.compile(r"[ \t]*json[5c]?\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
_ENDS: Final = re.compile(r"(?:\s*(?:<\|\w{1,30}\|>|</s>)){1,8}\s*\Z")
_END_CHARS_MAX: Final = 200
_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_MARKS: Final = ("```json", "```Json", "```JSON", "```")
_TAGS: Final = ("<answer>", "</answer>")
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
    """The last fenced block named `json`, otherwise the last fenced block, otherwise the response;
    without what the model thought aloud, and without an answer tag around all of it.

    A fence is a line of three or more backticks or tildes with any indentation. It is closed by a
    fence of the same character and at least the same length; where there is none, by one with words
    behind it, or by the end of a truncated response. Where there is no fence, or only in a
    quotation, three backticks within lines count. The last marks of a chat template are no part of
    a response.
    """
    end = _ENDS.sub("", response[-_END_CHARS_MAX:])
    response = _behind_thought(response[:-_END_CHARS_MAX] + end)
    found = _last_block(response)
    if found is None and _QUOTED.search(response):
        found = _last_block(_QUOTED.sub("", response))
    if found is not None:
        return found
    parts = response.split("```")
    is_apart = len(parts) > 2 and response.lstrip()[:1] not in _JSON_BEGINS
    return _NAMED.sub("", parts[-2]) if is_apart else response


def _last_block(response: str) -> str | None:
    last: str | None = None
    last_json: str | None = None
    lines = response.split("\n")
    at = 0
    while at < len(lines):
        opening = _FENCE.fullmatch(lines[at].rstrip("\r"))
        at += 1
        if opening is None or (opening[1][0] == "`" and "`" in opening[2]):
            continue
        begin = at
        while at < len(lines) and not _closes(lines[at], opening[1]):
            at += 1
        block = "\n".join(lines[begin:at])
        if at == len(lines):  # no line of JSON begins with a fence
            words = (to for to in range(begin, at) if lines[to].lstrip().startswith(opening[1]))
            block = "\n".join(lines[begin : next(words, at)])
            block = block.rstrip().removesuffix(opening[1])
            if not block:  # it closes what a fence behind words has opened
                break
        last = block
        if _NAMED.match(opening[2]):
            last_json = last
        at += 1
    return last if last_json is None else last_json


def _behind_thought(response: str) -> str:
    """What stands behind what is thought aloud, unless the response begins as JSON does."""
    begun = response.lstrip()
    if begun[:1] not in _JSON_BEGINS:
        behind = behind_thoughts(response)
        response = response if behind is None else behind
    whole = response.strip()
    if whole.startswith(_TAGS[0]) and whole.endswith(_TAGS[1]):
        response = whole.removeprefix(_TAGS[0]).removesuffix(_TAGS[1])
    return response


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and not bare.strip(fence[0])
