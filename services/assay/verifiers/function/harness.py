"""The harness of `python_function`: calls one function in a box and reports its result.

The zygote loads it as a single file: standard library only.
"""

from __future__ import annotations

import importlib
import json
import math
import traceback
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assay.sandbox.port import Box

_TEXT_CHARS_MAX: Final = 4_000


def main(payload: bytes, box: Box) -> None:
    """Import the module, call the function, write one record."""
    order = json.loads(payload)
    box.confine_self()
    try:
        module, _, name = order["function"].partition(":")
        function = getattr(importlib.import_module(module), name)
        record = _record(function(order["response"], order["reference"]))
    except BaseException:  # noqa: BLE001 - the user's function may raise anything; it is reported
        record = {"failed": traceback.format_exc()[-_TEXT_CHARS_MAX:]}
    box.channel_write(json.dumps(record).encode("ascii"))


def _record(result: object) -> dict[str, Any]:
    score, details = result, {}
    if isinstance(result, dict):
        score = result.get("score")
        details = {key: value for key, value in result.items() if key != "score"}
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
        return {"failed": f"the function returned {str(result)[:200]!r}, not a finite number"}
    told = json.dumps(details, default=str)[:_TEXT_CHARS_MAX] if details else ""
    return {"score": float(score), "details": told}
