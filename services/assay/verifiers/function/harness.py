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
    if not _is_number(score):
        return {"failed": f"the function returned {_shown(result)}, not a finite number"}
    parts = _parts(components)
    if parts is None:
        told = f"{_shown(components)}, not names with finite numbers"
        return {"failed": f"the function returned the components {told}"}
    try:
        told = json.dumps(details, default=str)[:_TEXT_CHARS_MAX] if details else ""
    except (ValueError, RecursionError) as error:  # an integer too long to be written, a circle
        told = f"details that cannot be shown: {error}"
    return {"score": float(score), "details": told, "components": parts}


def _shown(value: object) -> str:
    """The beginning of its text, or what it is if it has none."""
    try:
        return repr(str(value)[:200])
    except Exception:  # noqa: BLE001 - whatever its class raises
        return f"a {type(value).__name__} that cannot be shown"


def _is_number(value: Any) -> bool:  # noqa: ANN401 - whatever the function returned
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and -sys.float_info.max <= value <= sys.float_info.max


def _parts(components: object) -> list[list[Any]] | None:
    """Name, value and weight of each; `None`: they are something else."""
    if not isinstance(components, dict) or len(components) > _COMPONENTS_MAX:
        return None
    parts = []
    for name, given in components.items():
        pair = list(given) if isinstance(given, (list, tuple)) else [given, 1.0]
        is_name = isinstance(name, str) and name.isprintable() and 0 < len(name) <= _NAME_CHARS_MAX
        if not is_name or len(pair) != 2 or not all(map(_is_number, pair)):
            return None
        parts.append([name, float(pair[0]), float(pair[1])])
    return parts
