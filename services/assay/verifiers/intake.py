"""Parses a caller's bytes into settings and references; every error names its field.

Only plain JSON is accepted: no NaN or Infinity, no number that overflows to one, no duplicate key
in an object, no lone surrogate (it could not be stored as UTF-8), nesting up to `NESTING_MAX`. NUL
characters are legal in strings; models forbid them where they would do harm. A number that Python
would store as a different number is also refused: `1e400`, `1e-400`, a whole number written as a
float beyond 2^53, an integer of more digits than Python reads. The cost is linear in the size of
the input.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName
from assay.core.tools.response import response_bytes, response_text
from assay.verifiers.port import PipelineDefinition, PipelineSettings, Reference

NESTING_MAX: Final = 64
"""Maximum nesting depth of objects and arrays."""
_MESSAGE_CHARS_MAX: Final = 500
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
_STEPS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")
"""Each bracket as a signed byte: one level deeper, or one less."""
_NOT_ZERO: Final = re.compile(r"-?[0.]*[1-9]")
INT_EXACT_MAX: Final = 2.0**53
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

_ModelT = TypeVar("_ModelT", bound=BaseModel)


def parse_settings(definition: PipelineDefinition, data: bytes) -> PipelineSettings:
    """Return the pipeline's settings; empty `data` stands for the defaults.

    Raises:
        InvalidRequest: `field` starts with `settings`.
    """
    return _parse(definition.settings, data or b"{}", "settings", definition.beside)


def parse_reference(definition: PipelineDefinition, data: bytes) -> Reference:
    """Return the parsed reference; empty `data` stands for an empty object.

    Raises:
        InvalidRequest: `field` starts with `reference`.
    """
    return _parse(definition.reference, data or b"{}", "reference", definition.beside)


def _parse(
    model: type[_ModelT],
    data: bytes,
    field: str,
    context: Mapping[PipelineName, PipelineDefinition],
) -> _ModelT:
    value = plain_json(data, field)
    if not isinstance(value, dict):
        raise InvalidRequest(f"{field} is a JSON object", field=field)
    try:
        return model.model_validate(value, context=context)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = _path(field, first["loc"])
        message = f"{path}: {first['msg']}"[:_MESSAGE_CHARS_MAX]
        if not value:
            message += f"; the {field} is empty, as of a row without a label"
        raise InvalidRequest(message, field=path) from None


def parse_messages(data: bytes, field: str) -> list[dict[str, Any]]:
    """Return the messages of a transcript, each an object with its `role`.

    Their contents are a candidate's text: lone surrogates and NUL are legal.

    Raises:
        InvalidRequest: it is no JSON list of such objects.
    """
    if _nests_too_deep(data):
        raise InvalidRequest(f"{field} nests deeper than {NESTING_MAX}", field=field)
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except ValueError as error:  # not UTF-8, not JSON, an integer that Python does not read
        message = f"{field} is not valid JSON: {error}"[:_MESSAGE_CHARS_MAX]
        raise InvalidRequest(message, field=field) from None
    if not isinstance(value, list) or not value:
        raise InvalidRequest(f"{field} is a list of at least one message", field=field)
    for index, one in enumerate(value):
        if not isinstance(one, dict) or not isinstance(one.get("role"), str):
            place = f"{field}[{index}]"
            raise InvalidRequest(f"{place} is an object with a role", field=place)
    return value


def last_answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """Text of the last message of the assistant, as a response's; empty: there is none."""
    return response_text(response_bytes(_last_content(messages)))


def _last_content(messages: Sequence[Mapping[str, Any]]) -> str:
    said = [one.get("content") for one in messages if one["role"] == "assistant"]
    if not said:
        return ""
    if isinstance(said[-1], list):  # parts, of which some are text
        texts = [part.get("text") for part in said[-1] if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return said[-1] if isinstance(said[-1], str) else ""


def plain_json(data: bytes, field: str) -> object:
    """Return the value of JSON text.

    Raises:
        InvalidRequest: it is not JSON, or holds a value that is refused; `field` is its place.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{field} is not UTF-8 (byte {error.start})"
        raise InvalidRequest(message, field=field) from None
    if _nests_too_deep(data):
        message = f"{field} nests deeper than {NESTING_MAX}"
        raise InvalidRequest(message, field=field)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=finite_float,
        )
    except ValueError as error:  # malformed JSON, and the errors of hooks and huge integers
        _refuse_numbers(text, field)
        message = f"{field} is not valid JSON: {error}"[:_MESSAGE_CHARS_MAX]
        raise InvalidRequest(message, field=field) from None
    if _SURROGATE.search(data):
        _refuse_lone_surrogates(value, field)
    return value


def _nests_too_deep(data: bytes) -> bool:
    """Whether more than `NESTING_MAX` brackets are open at any place outside of strings."""
    if data.count(b"[") + data.count(b"{") <= NESTING_MAX:
        return False
    steps = memoryview(_STRING.sub(b"", data).translate(_STEPS, _NOT_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0) > NESTING_MAX


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        left = dict.fromkeys(found, 1)
        twice = next(key for key, _ in pairs if left.pop(key, None) is None)
        raise ValueError(f"key {twice[:80]!r} occurs twice in one object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def finite_float(digits: str) -> float:
    """Return the number that is written, exactly as far as a user can tell.

    Raises:
        ValueError: a float would be another number.
    """
    value = float(digits)
    if not math.isfinite(value) or (value == 0 and _NOT_ZERO.match(digits)):
        raise ValueError(f"number {digits[:40]} is out of range")
    if abs(value) >= INT_EXACT_MAX and Decimal(digits) != Decimal(repr(value)):
        raise ValueError(f"number {digits[:40]} has more digits than a float holds")
    return value


class _Refused(NamedTuple):
    """Placeholder for a refused number until its place is known."""

    reason: str


def _refuse_numbers(text: str, field: str) -> None:
    """Raise for the first refused number, with its place, if there is one."""

    def kept(read: Callable[[str], object]) -> Callable[[str], object]:
        def hook(digits: str) -> object:
            try:
                return read(digits)
            except ValueError as error:
                return _Refused(str(error))

        return hook

    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=kept(_no_constant),
            parse_float=kept(finite_float),
            parse_int=kept(_short_int),
        )
    except ValueError:
        return
    for path, node in _nodes(value, field):
        if isinstance(node, _Refused):
            raise InvalidRequest(f"{path}: {node.reason}"[:_MESSAGE_CHARS_MAX], field=path)


def _short_int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError(f"an integer of {len(digits):,} digits") from None


def _refuse_lone_surrogates(value: object, field: str) -> None:
    for path, node in _nodes(value, field):
        if isinstance(node, str):
            _refuse_unencodable(node, path)
        elif isinstance(node, dict):
            for key in node:
                _refuse_unencodable(key, path)


def _nodes(value: object, field: str) -> Iterator[tuple[str, object]]:
    """Each value in `value` with its place."""
    waiting = [(field, value)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        if isinstance(node, dict):
            waiting.extend((f"{path}.{key}", child) for key, child in node.items())
        elif isinstance(node, list):
            waiting.extend((f"{path}[{index}]", child) for index, child in enumerate(node))


def _refuse_unencodable(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        message = f"{path} holds a lone surrogate, which UTF-8 cannot encode"
        raise InvalidRequest(message, field=path) from None


def _path(root: str, steps: Sequence[int | str]) -> str:
    path = root
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path
