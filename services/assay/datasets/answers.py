"""GSM8K and MATH: the final answer of a worked solution."""

import re
from typing import Final

from assay.datasets.port import DataRecord, DataRow, Refused, Source, identity, text

_THOUSANDS: Final = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_BOXED: Final = re.compile(r"\\(?:boxed|fbox)\s*(\{|-?[0-9]+(?:[.,/][0-9]+)*|\S)")
_BEHIND_A_TOKEN: Final = re.compile(r"\Z|[\s$.,;:!?)]|\\[\])\\]")
"""Elsewhere it is open how much the box holds: `\\boxed\\frac12`, `\\boxed x^2`."""
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)


def convert_gsm8k(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a problem, with the answer after the last `####`."""
    before, mark, after = text(record, "answer").rpartition("####")
    answer = after.strip().partition("\n")[0]  # a line; what is below is a remark
    if not mark or not answer.strip():
        raise Refused("an answer without `####`", before[-80:] or answer[-80:])
    return DataRow(
        request_id=identity(record, line, "gsm8k", "id"),
        pipeline=pipeline,
        reference={"answers": [_THOUSANDS.sub("", answer.strip())]},
        prompt=text(record, "question", empty=True),
    )


def convert_math(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a problem: `answer` if there is one, else the last box of `solution`."""
    answer = _stated(record.get("answer")) or last_boxed(text(record, "solution"))
    prompt = record.get("problem") or record.get("question") or ""
    return DataRow(
        request_id=identity(record, line, "math", "unique_id", "id", "problem_id"),
        pipeline=pipeline,
        reference={"answers": [answer]},
        prompt=prompt if isinstance(prompt, str) else "",
    )


def _stated(answer: object) -> str:
    """The answer as text; empty if there is none, as in a column of a table without a value."""
    is_number = isinstance(answer, (int, float)) and not isinstance(answer, bool)
    if is_number and answer != answer:  # NaN, the missing value of tables
        return ""
    return str(answer).strip() if is_number or isinstance(answer, str) else ""


def last_boxed(solution: str) -> str:
    r"""Return the contents of the last `\boxed{...}`; `\boxed 12` contains the number.

    Raises:
        Refused: there is none, it is not closed, or it is empty.
    """
    boxes = list(_BOXED.finditer(solution))
    if not boxes:
        raise Refused("a solution without a box")
    if boxes[-1][1] != "{":
        if boxes[-1][1] in {"\\", "$"} or not _BEHIND_A_TOKEN.match(solution, boxes[-1].end()):
            raise Refused("a box without braces", solution[boxes[-1].start() :][:80])
        return boxes[-1][1]
    depth = 1
    for brace in _BRACE.finditer(solution, boxes[-1].end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            found = solution[boxes[-1].end() : brace.start()].strip()
            if found:
                return found
            break
    raise Refused("a box that is empty or not closed")


GSM8K: Final = Source(
    name="gsm8k",
    about="GSM8K: the number after `####`.",
    convert=convert_gsm8k,
    pipelines=("math",),
)
MATH: Final = Source(
    name="math",
    about="MATH and files in its form: `answer`, or the last box of `solution`.",
    convert=convert_math,
    pipelines=("math",),
)
