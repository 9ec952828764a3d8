"""CodeContests: public, private and generated tests of a problem together."""

from typing import Any, Final

from assay.datasets.code_tests import CPP, PYTHON, is_python, limits, paired, stdin_tests
from assay.datasets.port import DataRecord, DataRow, Refused, Source, identity, text

_TESTS: Final = ("public_tests", "private_tests", "generated_tests")
_CPP: Final = 2
_PYTHON3: Final = 3
_NAMES: Final = {"CPP": _CPP, "PYTHON3": _PYTHON3}


def convert(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a problem."""
    for key in ("input_file", "output_file"):
        if record.get(key):
            raise Refused("programs read or write a file", str(record[key])[:80])
    pairs = [pair for key in _TESTS for pair in _pairs(record, key)]
    wanted = _PYTHON3 if pipeline == PYTHON else _CPP
    return DataRow(
        request_id=identity(record, line, "code_contests", "name", "id"),
        pipeline=pipeline,
        reference={**stdin_tests(pairs), **_solution(record.get("solutions"), wanted)},
        prompt=text(record, "description", empty=True),
        settings=limits(_seconds(record.get("time_limit")), record.get("memory_limit_bytes")),
    )


def _pairs(record: DataRecord, key: str) -> list[tuple[Any, Any]]:
    """Tests are an object of two lists, or a list of objects."""
    value = record.get(key)
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return [(one.get("input"), one.get("output")) for one in value]
    inputs = value.get("input") if isinstance(value, dict) else None
    outputs = value.get("output") if isinstance(value, dict) else None
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise Refused(f"no tests under `{key}`")
    return paired(inputs, outputs)


def _seconds(value: object) -> object:
    """Time limits are seconds and nanoseconds."""
    if not isinstance(value, dict):
        return value
    seconds, nanos = value.get("seconds") or 0, value.get("nanos") or 0
    if isinstance(seconds, (int, float)) and isinstance(nanos, (int, float)):
        return seconds + nanos / 1e9
    return None


def _solution(solutions: object, wanted: int) -> dict[str, str]:
    """The first right solution in the wanted language."""
    if not isinstance(solutions, dict):
        return {}
    languages, texts = solutions.get("language"), solutions.get("solution")
    if not isinstance(languages, list) or not isinstance(texts, list):
        return {}
    for language, program in zip(languages, texts, strict=False):
        number = _NAMES.get(language, 0) if isinstance(language, str) else language
        usable = isinstance(program, str) and (wanted == _CPP or is_python(program))
        if number == wanted and usable:
            return {"solution": program}
    return {}


SOURCE: Final = Source(
    name="code_contests",
    about="CodeContests: stdin tests; also for C++ with `--pipeline code.cpp`.",
    convert=convert,
    pipelines=(PYTHON, CPP),
)
