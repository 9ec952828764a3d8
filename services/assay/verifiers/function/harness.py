"""The harness of `python_function`: calls one function in a box and reports its result.

The zygote loads it as a single file: standard library only.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assay.sandbox.port import Box

_EITHER: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_TEXT_CHARS_MAX: Final = 4_000
_COMPONENTS_MAX: Final = 64
_NAME_CHARS_MAX: Final = 128
_NESTING_MAX: Final = 32
"""Depth to which keys of details become text."""


def main(payload: bytes, box: Box) -> None:
    """Import the module, call the function, write one record."""
    order = json.loads(payload)
    box.confine_self()
    try:
        module, _, name = order["function"].partition(":")
        function = getattr(importlib.import_module(module), name)
        more = {"messages": order["messages"], "artifacts": order["artifacts"]}
        wanted = _keywords(function, more)
        if "artifacts" in wanted:
            coded = wanted["artifacts"].items()
            wanted["artifacts"] = {name: base64.b64decode(text) for name, text in coded}
        record = _record(function(order["response"], order["reference"], **wanted))
    except BaseException:  # noqa: BLE001 - the user's function may raise anything; it is reported
        record = {"failed": traceback.format_exc()[-_TEXT_CHARS_MAX:]}
    box.channel_write(json.dumps(record).encode("ascii"))


def _keywords(function: Any, more: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Those of `more` that the function has parameters for, beside its first two."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[2:]
    except (TypeError, ValueError):  # a function of C without a signature
        return {}
    named = {one.name for one in parameters if one.kind in {one.KEYWORD_ONLY, _EITHER}}
    return {name: value for name, value in more.items() if name in named}


def _record(result: object) -> dict[str, Any]:
    score: Any = result
    details: dict[Any, Any] = {}
    components: object = {}
    if isinstance(result, dict):
        score, components = result.get("score"), result.get("components", {})
        others = {"score", "components"}
        details = {key: value for key, value in result.items() if key not in others}
    number = _number(score)
    if number is None:
        return {"failed": f"the function returned {_shown(result)}, not a finite number"}
    parts, left_out = _parts(components)
    if left_out:
        details["components left out"] = left_out
    return {"score": number, "details": _told(details), "components": parts}


def _told(details: dict[Any, Any]) -> str:
    """The details as JSON, as far as they can be: they are shown, and cost no reward."""
    if not details:
        return ""
    try:
        try:
            text = json.dumps(details, default=str)
        except TypeError:  # keys that JSON has not, such as tuples
            text = json.dumps(_with_text_keys(details, _NESTING_MAX), default=str)
    except Exception as error:  # noqa: BLE001 - an integer too long, a circle, what a class raises
        return f"details that cannot be shown: {type(error).__name__}"
    return text[:_TEXT_CHARS_MAX]


def _with_text_keys(value: Any, depth: int) -> Any:  # noqa: ANN401 - whatever the function returned
    if depth and isinstance(value, dict):
        return {str(key): _with_text_keys(each, depth - 1) for key, each in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [_with_text_keys(each, depth - 1) for each in value]
    return value


def _shown(value: object) -> str:
    """The beginning of its text, or what it is if it has none."""
    try:
        return repr(str(value)[:200])[:_TEXT_CHARS_MAX]
    except Exception:  # noqa: BLE001 - whatever its class raises
        return f"a {type(value).__name__} that cannot be shown"


def _number(value: Any) -> float | None:  # noqa: ANN401 - whatever the function returned
    """Anything that `float` takes but text: a bool, a fraction, NumPy's scalars; `None`: it is no
    finite number. What a function returns for one response may have another type than what it
    returns for the control, so a type that is refused would cost a reward."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return None
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - no number, too large, or what its class raises
        return None
    return number if -sys.float_info.max <= number <= sys.float_info.max else None


def _parts(components: object) -> tuple[list[list[Any]], str]:
    """Name, value and weight of each that can be shown, and what is left out: the score alone is
    the reward."""
    if not isinstance(components, dict):
        return [], "" if components is None else _shown(components)
    parts: list[list[Any]] = []
    left_out: list[str] = []
    for name, given in components.items():
        pair = list(given) if isinstance(given, (list, tuple)) else [given, 1.0]
        numbers = [number for one in pair if (number := _number(one)) is not None]
        is_name = isinstance(name, str) and name.isprintable() and 0 < len(name) <= _NAME_CHARS_MAX
        if is_name and len(pair) == len(numbers) == 2 and len(parts) < _COMPONENTS_MAX:
            parts.append([name, *numbers])
        else:
            left_out.append(_shown(name))
    return parts, ", ".join(left_out[:_COMPONENTS_MAX])
