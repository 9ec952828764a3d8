"""IFBench and files in its form: each instruction is judged by the pipeline `instructions`."""

from typing import Any, Final

from pydantic import ValidationError

from assay.datasets.port import DataRecord, DataRow, Refused, Source, identity, text
from assay.verifiers.instructions.definition import Instruction

UNFIT: Final = "arguments that do not fit their instruction"
"""Why a record is refused; the detail names the instruction."""


def convert(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a prompt."""
    return DataRow(
        request_id=identity(record, line, "ifbench", "key"),
        pipeline=pipeline,
        reference={"instructions": asked_of(record)},
        prompt=text(record, "prompt", empty=True),
    )


def asked_of(record: DataRecord) -> list[dict[str, Any]]:
    """The instructions of a record, as the pipeline `instructions` takes them.

    Raises:
        Refused: there are none, or one that the pipeline does not judge.
    """
    names, all_arguments = record.get("instruction_id_list"), record.get("kwargs")
    if not isinstance(names, list) or not names or not isinstance(all_arguments, list):
        raise Refused("no `instruction_id_list` with `kwargs`")
    if len(names) != len(all_arguments):
        raise Refused("instructions and `kwargs` differ in number")
    return [_asked(*pair) for pair in zip(names, all_arguments, strict=True)]


def _asked(name: object, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Refused("`kwargs` that are not an object", str(name)[:80])
    there = {key: value for key, value in given.items() if value is not None}
    one = {"id": name, "kwargs": there}
    try:
        Instruction.model_validate(one)
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        if why.startswith("id:") or not isinstance(name, str):
            raise Refused(f"no pipeline judges {str(name)[:80]}") from None
        raise Refused(UNFIT, f"{name[:80]}: {why}") from None
    return one


SOURCE = Source(
    name="ifbench",
    about="IFBench: prompts with verifiable instructions.",
    convert=convert,
    pipelines=("instructions",),
)
