"""Common code of converters of code data sets: limits, solutions, inputs and outputs."""

import ast
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from assay.core.errors import InvalidRequest
from assay.datasets.port import Refused
from assay.verifiers.code.references import TESTS_MAX, call_cases
from assay.verifiers.code.settings import CodeSettings

PYTHON: Final = "code.python"
CPP: Final = "code.cpp"
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_CPU_S_MAX: Final = 60.0
_MEMORY_BYTES_MAX: Final = 8_192 * 1024 * 1024
_DEFAULTS: Final = CodeSettings()


def stdin_tests(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Return a reference with one run of the program per pair of stdin and stdout.

    Raises:
        Refused: a pair is not text, or there are none, or too many.
    """
    tests = []
    for at, (given, wanted) in enumerate(pairs):
        if not isinstance(given, str) or not isinstance(wanted, str):
            raise Refused("a test that is not text", f"test {at}")
        tests.append({"stdin": given, "stdout": wanted})
    return {"tests": _counted(tests)}


def call_tests(
    function: str, pairs: Sequence[tuple[Any, Any]], *, unwrapped: bool
) -> dict[str, Any]:
    """Return a reference with one call of `function` per pair of arguments and result.

    Args:
        function: its name.
        pairs: arguments as a list or as lines of JSON; results as values or JSON.
        unwrapped: a result in a list of one item also matches the item.

    Raises:
        Refused: a pair cannot be read, or there are none, or too many.
    """
    try:
        cases = call_cases(pairs)
    except InvalidRequest as error:
        raise Refused("a test that cannot be read", error.message) from None
    for at, case in enumerate(cases):
        if not isinstance(case["args"], list):
            raise Refused("arguments that are not a list", f"test {at}")
        if not unwrapped:
            case.pop("alternatives", None)
    return {"calls": {"function": function, "cases": _counted(cases)}}


def literal_tests(function: str, pairs: Iterable[tuple[Sequence[str], str]]) -> dict[str, Any]:
    """Return a reference with one call per pair of arguments and result, all Python literals.

    Raises:
        Refused: there are no pairs, or too many.
    """
    cases = [{"args": list(args), "expected": expected} for args, expected in pairs]
    return {"calls": {"function": function, "values": "python", "cases": _counted(cases)}}


def paired(inputs: list[Any], outputs: list[Any]) -> list[tuple[Any, Any]]:
    """Each input with its output.

    Raises:
        Refused: there are more of one than of the other.
    """
    if len(inputs) != len(outputs):
        raise Refused("inputs and outputs differ in number", f"{len(inputs)}, {len(outputs)}")
    return list(zip(inputs, outputs, strict=True))


def _counted(tests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not tests:
        raise Refused("no tests")
    if len(tests) > TESTS_MAX:
        raise Refused(f"more than {TESTS_MAX:,} tests", f"{len(tests):,}")
    return tests


def limits(time_s: object, memory_bytes: object) -> dict[str, Any]:
    """Return settings for a problem's own limits if they are wider than the defaults.

    Contests state limits for compiled programs on their own machines, so a tighter one is never
    used.

    Args:
        time_s: a number, or text such as `2.0 seconds`; anything else means no limit.
        memory_bytes: a number; anything else means no limit.
    """
    found: dict[str, Any] = {}
    if isinstance(time_s, str):
        match = _NUMBER.search(time_s)
        time_s = float(match[0]) if match else None
    if _is_number(time_s) and time_s > _DEFAULTS.cpu_s:  # type: ignore[operator]
        found["cpu_s"] = min(float(time_s), _CPU_S_MAX)  # type: ignore[arg-type]
    if _is_number(memory_bytes) and memory_bytes > _DEFAULTS.memory_bytes:  # type: ignore[operator]
        found["memory_bytes"] = min(int(memory_bytes), _MEMORY_BYTES_MAX)  # type: ignore[call-overload]
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def first_python(solutions: object) -> dict[str, str]:
    """Return `{"solution": ...}` with the first text that is Python 3; empty if none is."""
    for one in solutions if isinstance(solutions, list) else []:
        if isinstance(one, str) and one.strip() and is_python(one):
            return {"solution": one}
    return {}


def is_python(program: str) -> bool:
    """Tell whether this Python can parse it; data sets contain Python 2 too."""
    try:
        ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
