"""MBPP, full (`text`, `test_setup_code`) and sanitized (`prompt`, `test_imports`)."""

from typing import Any, Final

from assay.datasets.code_tests import PYTHON
from assay.datasets.port import DataRecord, DataRow, Refused, Source, identity

_KEYS: Final = ("test_list", "test_setup_code", "test_imports", "challenge_test_list")


def convert(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a problem; its imports apply to both program and tests."""
    tests = record.get("test_list")
    if not isinstance(tests, list) or not tests or not all(isinstance(one, str) for one in tests):
        raise Refused("no tests under `test_list`")
    reference: dict[str, Any] = {key: record[key] for key in _KEYS if record.get(key)}
    if isinstance(record.get("code"), str):
        reference["solution"] = record["code"].replace("\r\n", "\n")
    prompt = record.get("prompt") or record.get("text")
    return DataRow(
        request_id=identity(record, line, "MBPP", "task_id"),
        pipeline=pipeline,
        reference=reference,
        prompt=prompt if isinstance(prompt, str) else "",
    )


SOURCE: Final = Source(
    name="mbpp",
    about="MBPP, full or sanitized: asserts in `test_list`.",
    convert=convert,
    pipelines=(PYTHON,),
)
