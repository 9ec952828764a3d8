"""HumanEval, and the data sets in its form: HumanEval+ with tests, LeetCodeDataset."""

from typing import Any, Final

from assay.datasets.code_tests import PYTHON
from assay.datasets.port import DataRecord, DataRow, Source, identity, text


def convert(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a problem; `prompt` contains helpers for both program and tests."""
    prompt = text(record, "prompt", empty=True)
    reference: dict[str, Any] = {
        "prompt": prompt,
        "entry_point": text(record, "entry_point"),
        "test": text(record, "test"),
    }
    for key in ("canonical_solution", "completion"):
        if isinstance(record.get(key), str) and record[key].strip():
            reference["canonical_solution"] = record[key]
            break
    name = identity(record, line, "HumanEval", "task_id")
    return DataRow(request_id=name, pipeline=pipeline, reference=reference, prompt=prompt)


SOURCE: Final = Source(
    name="humaneval",
    about="HumanEval and data sets in its form (prompt, entry_point, test).",
    convert=convert,
    pipelines=(PYTHON,),
)
