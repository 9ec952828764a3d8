"""From bytes that a caller sent to settings and references; every fault names its field.

What is read here is plain JSON and nothing else: no NaN or Infinity, no number that overflows to
one, no key twice in one object, no lone surrogate (it could not be stored as UTF-8), nesting up to
`NESTING_MAX`. NUL characters are legal in strings; models forbid them where they would hurt.
The cost is linear in the size of the input.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from assay.core.errors import InvalidRequest
from assay.verifiers.port import PipelineDefinition, PipelineSettings, Reference

NESTING_MAX: Final = 64
"""Objects and arrays inside each other."""
_MESSAGE_CHARS_MAX: Final = 500
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

_ModelT = TypeVar("_ModelT", bound=BaseModel)


def parse_settings(definition: PipelineDefinition, data: bytes) -> PipelineSettings:
    """Return the pipeline's settings; empty `data` gives the defaults.

    Raises:
        InvalidRequest: `field` starts with `settings`.
    """
    return _parse(definition.settings, data or b"{}", field="settings")


def parse_reference(definition: PipelineDefinition, data: bytes) -> Reference:
    """Return what a response is judged by; empty `data` stands for an empty object.

    Raises:
        InvalidRequest: `field` starts with `reference`.
    """
    return _parse(definition.reference, data or b"{}", field="reference")


def _parse(model: type[_ModelT], data: bytes, *, field: str) -> _ModelT:
    value = _plain_json(data, field)
    if not isinstance(value, dict):
        raise InvalidRequest(f"{field} is a JSON object", field=field)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = _path(field, first["loc"])
        message = f"{path}: {first['msg']}"[:_MESSAGE_CHARS_MAX]
        raise InvalidRequest(message, field=path) from None


def _plain_json(data: bytes, field: str) -> object:
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
            parse_float=_finite_float,
        )
    except ValueError as error:  # malformed JSON, and what the hooks and huge integers raise
        message = f"{field} is not valid JSON: {error}"[:_MESSAGE_CHARS_MAX]
        raise InvalidRequest(message, field=field) from None
    if _SURROGATE.search(data):
        _refuse_lone_surrogates(value, field)
    return value


def _nests_too_deep(data: bytes) -> bool:
    """Take the innermost brackets away, one layer a turn; what is left was nested deeper.

    Unbalanced text leaves brackets too; a few of them are the parser's business.
    """
    brackets = _STRING.sub(b"", data).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(NESTING_MAX):
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets or brackets.count(b"[") > NESTING_MAX


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        left = dict.fromkeys(found, 1)
        twice = next(key for key, _ in pairs if left.pop(key, None) is None)
        raise ValueError(f"key {twice[:80]!r} stands twice in one object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"number {digits[:40]} is out of range")
    return value


def _refuse_lone_surrogates(value: object, field: str) -> None:
    waiting: list[tuple[str, object]] = [(field, value)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, str):
            _refuse_unencodable(node, path)
        elif isinstance(node, dict):
            for key, child in node.items():
                _refuse_unencodable(key, path)
                waiting.append((f"{path}.{key}", child))
        elif isinstance(node, list):
            waiting.extend((f"{path}[{index}]", child) for index, child in enumerate(node))


def _refuse_unencodable(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        message = f"{path} holds a lone surrogate, which UTF-8 cannot say"
        raise InvalidRequest(message, field=path) from None


def _path(root: str, steps: Sequence[int | str]) -> str:
    path = root
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path
