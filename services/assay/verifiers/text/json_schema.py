"""Judges a response by a JSON Schema, or whether it is JSON at all.

Every text gets a verdict. If the validator raises, a control decides the fault: values that any
sound schema can judge (`CONTROLS`) are judged by the same schema. If one of them fails too, the
schema is at fault, otherwise the response.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from assay.core.verdict import TEXT_CHARS_MAX, Evidence
from assay.verifiers.text import json_text
from assay.verifiers.text.bounds import OutOfTime, on_deep_stack
from assay.verifiers.text.dialects import Judge

T = TypeVar("T")

CONTROLS: Final[tuple[Any, ...]] = (None, True, 0, "", [], {}, [0], {"a": 0})
LIMIT_VERDICTS: Final = frozenset({"nesting_limit", "number_limit", "cannot_judge"})
"""The response broke a limit of the judge."""


class _Violation(NamedTuple):
    path: str
    message: str


def judge_json(text: str, validator: Judge) -> Evidence:
    """The verdict: `pass`, `wrong_answer`, `not_json`, or one of `LIMIT_VERDICTS`."""
    shown = text[:TEXT_CHARS_MAX]
    try:
        violation = _on_any_stack(lambda: _first_violation(text, validator))
    except json_text.NotJson as error:
        return Evidence(verdict="not_json", error=str(error)[:500], extracted=shown)
    except (json_text.TooDeep, RecursionError) as error:
        return Evidence(verdict="nesting_limit", error=str(error)[:500], extracted=shown)
    except json_text.NumberTooLarge as error:
        return Evidence(verdict="number_limit", error=str(error)[:500], extracted=shown)
    except (MemoryError, OutOfTime):
        raise
    except Exception as error:  # noqa: BLE001 - the schema has passed its controls
        why = f"{type(error).__name__}: {error}"[:500]
        return Evidence(verdict="cannot_judge", error=why, extracted=shown)
    if violation is None:
        return Evidence(verdict="pass", extracted=shown)
    message = f"{violation.path}: {violation.message}"[:500]
    return Evidence(verdict="wrong_answer", error=message, extracted=shown)


def judge_is_json(text: str) -> Evidence:
    """The verdict on JSON without a schema: `pass`, `not_json` or `nesting_limit`."""
    shown = text[:TEXT_CHARS_MAX]
    try:
        _on_any_stack(lambda: json_text.check(text))
    except json_text.NotJson as error:
        return Evidence(verdict="not_json", error=str(error)[:500], extracted=shown)
    except (json_text.TooDeep, RecursionError) as error:
        return Evidence(verdict="nesting_limit", error=str(error)[:500], extracted=shown)
    return Evidence(verdict="pass", extracted=shown)


def fault_of(validator: Judge) -> str:
    """Why the schema cannot judge `CONTROLS`; empty if it can."""
    try:
        for value in CONTROLS:
            next(validator.iter_errors(value), None)
    except Exception as error:  # noqa: BLE001 - no response can be the cause
        return f"reference.schema: cannot judge a trivial value: {type(error).__name__}: {error}"[
            :500
        ]
    return ""


def _on_any_stack(judge: Callable[[], T]) -> T:
    try:
        return judge()
    except RecursionError:
        return on_deep_stack(judge)


def _first_violation(text: str, validator: Judge) -> _Violation | None:
    error = next(validator.iter_errors(json_text.parse(text)), None)
    return None if error is None else _Violation(error.json_path, str(error.message))
