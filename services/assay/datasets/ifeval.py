"""IFEval and files in its form.

The pipeline `instructions` judges all 25 instructions, one by one. `regex` judges the 20 that one
regular expression can judge together (`detectable_format:json_format` is its option `is_json`).
"""

from typing import Any, Final

from assay.datasets.ifbench import UNFIT, asked_of
from assay.datasets.port import DataRecord, DataRow, Refused, Source, identity, text
from assay.verifiers.instructions.arguments import ArgumentError
from assay.verifiers.instructions.expressions import EXPRESSIONS, look_ahead
from assay.verifiers.instructions.ifeval import JSON_FORMAT

_REGEX: Final = "regex"


def convert(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a prompt."""
    pairs = asked_of(record)
    reference = _expression(pairs) if pipeline == _REGEX else {"instructions": pairs}
    return DataRow(
        request_id=identity(record, line, "ifeval", "key"),
        pipeline=pipeline,
        reference=reference,
        prompt=text(record, "prompt", empty=True),
    )


def _expression(asked: list[dict[str, Any]]) -> dict[str, Any]:
    """One expression for all; as upstream, an empty response follows no instruction."""
    names = [one["id"] for one in asked]
    ahead = "".join(_look_ahead(one["id"], one["kwargs"]) for one in asked)
    reference: dict[str, Any] = {"pattern": rf"\A(?=\s*+\S){ahead}", "flags": ["dotall"]}
    if JSON_FORMAT in names:
        reference["is_json"] = True
    return reference


def _look_ahead(name: str, given: dict[str, Any]) -> str:
    if name == JSON_FORMAT:
        return ""
    if name not in EXPRESSIONS:
        raise Refused(f"no regular expression judges {name[:80]}")
    try:
        return look_ahead(name, given)
    except ArgumentError as error:
        raise Refused(UNFIT, f"{name}: {error}") from None


SOURCE: Final = Source(
    name="ifeval",
    about="IFEval-like prompts with verifiable instructions.",
    convert=convert,
    pipelines=("instructions", _REGEX),
)
