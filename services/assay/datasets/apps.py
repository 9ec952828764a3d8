"""APPS and TACO, which share a form: `input_output` is JSON with `inputs`, `outputs`, `fn_name`."""

from typing import Any, Final

from assay.datasets.code_tests import PYTHON, call_tests, first_python, limits, paired, stdin_tests
from assay.datasets.port import (
    DataRecord,
    DataRow,
    Refused,
    Source,
    identity,
    json_of,
    parsed,
    text,
)


def convert(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a problem.

    Every result of a problem with calls is wrapped in a list of one; both forms pass, as in the
    data set's own harness.
    """
    tests = parsed(record, "input_output")
    inputs = tests.get("inputs") if isinstance(tests, dict) else None
    outputs = tests.get("outputs") if isinstance(tests, dict) else None
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise Refused("no `inputs` and `outputs` under `input_output`")
    pairs = paired(inputs, outputs)
    function = tests.get("fn_name")
    if isinstance(function, str) and function:
        reference = call_tests(function, pairs, unwrapped=True)
        _refuse_keyed(reference)
    else:
        reference = stdin_tests((_joined(given), _joined(wanted)) for given, wanted in pairs)
    return DataRow(
        request_id=identity(record, line, "apps", "problem_id", "id", "task_id"),
        pipeline=pipeline,
        reference={**reference, **first_python(_solutions(record))},
        prompt=_prompt(record),
        settings=limits(record.get("time_limit"), None),
    )


def _joined(value: object) -> object:
    """Join lines, because some problems write them as a list."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value


def _refuse_keyed(reference: dict[str, Any]) -> None:
    """Refuse arguments whose numeric keys JSON turned into text, which a program cannot use.

    Raises:
        Refused: a call has such an argument.
    """
    for at, case in enumerate(reference["calls"]["cases"]):
        for value in case["args"]:
            if isinstance(value, dict) and value and all(_is_int(key) for key in value):
                raise Refused("an argument whose keys were numbers before JSON", f"test {at}")


def _is_int(key: str) -> bool:
    return key.removeprefix("-").isdecimal()


def _solutions(record: DataRecord) -> object:
    value = record.get("solutions")
    if not isinstance(value, str) or not value.strip():
        return value
    try:
        return json_of(value, "solutions")
    except Refused:
        return None


def _prompt(record: DataRecord) -> str:
    question = text(record, "question", empty=True)
    starter = record.get("starter_code")
    return f"{question}\n\n{starter}" if isinstance(starter, str) and starter.strip() else question


SOURCE: Final = Source(
    name="apps",
    about="APPS and TACO: stdin tests, or calls of a function.",
    convert=convert,
    pipelines=(PYTHON,),
)
