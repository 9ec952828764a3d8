"""Rows of `assay score`: what is read, what is written, and what a rerun still has to do.

Invariants: an output line is complete or it is not there (a torn last line, left by a kill, is
dropped); a row whose output carries a reward is never scored again; a row that ended without one
(an infrastructure failure, a cancellation) is tried again by the next run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import InvalidRequest

ROW_BYTES_MAX = 32 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Which keys of a row mean what."""

    request_id: str = "request_id"
    group_id: str = "group_id"
    response: str = "response"
    reference: str = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One response to score, and the line of the file that it stands on."""

    line: int
    request_id: str
    group_id: str
    response: str
    reference: Mapping[str, Any]


def read_rows(path: Path, fields: Fields) -> Sequence[Row]:
    """Read the whole file, so that a bad row is found before anything is sent.

    A row without a request id is named after its line. A reference that is no object is taken as
    the one right answer (a list: as the right answers).

    Raises:
        InvalidRequest: a row is not as it should be; `field` is `line 17: response`.
        OSError: the file cannot be read.
    """
    lines_by_id: dict[str, int] = {}
    rows = []
    for line, text in _lines(path):
        row = _row(line, text, fields)
        before = lines_by_id.setdefault(row.request_id, line)
        if before != line:
            raise _wrong(line, fields.request_id, f"{row.request_id!r} stands on line {before} too")
        rows.append(row)
    return rows


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        for number, raw in enumerate(iter(lambda: file.readline(ROW_BYTES_MAX + 1), b""), 1):
            if len(raw) > ROW_BYTES_MAX:
                raise _wrong(number, "", f"longer than {ROW_BYTES_MAX:,} bytes")
            if raw.strip():
                try:
                    yield number, raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise _wrong(number, "", "not UTF-8") from error


def _row(line: int, text: str, fields: Fields) -> Row:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(line, "", f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise _wrong(line, "", "not a JSON object")
    response = data.get(fields.response)
    if not isinstance(response, str):
        raise _wrong(line, fields.response, "must be a text")
    if fields.reference not in data:
        raise _wrong(line, fields.reference, "missing")
    return Row(
        line=line,
        request_id=str(data.get(fields.request_id, f"line-{line}")),
        group_id=str(data.get(fields.group_id, "")),
        response=response,
        reference=_reference(data[fields.reference]),
    )


def _reference(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    answers = value if isinstance(value, list) else [value]
    return {"answers": [answer if isinstance(answer, str) else str(answer) for answer in answers]}


def _wrong(line: int, field: str, message: str) -> InvalidRequest:
    place = f"line {line}: {field}" if field else f"line {line}"
    return InvalidRequest(f"{place}: {message}", field=place)


def keep_finished(path: Path) -> frozenset[str]:
    """Reduce an output file to its lines that carry a reward; return their request ids.

    The file is replaced in one step, so a kill leaves the old or the new one.

    Raises:
        OSError: the file cannot be read or replaced.
    """
    if not path.exists():
        return frozenset()
    kept: dict[str, str] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            result = _finished(text)
            if result is not None:
                kept[result] = text
    replacement = path.with_name(path.name + ".partial")
    replacement.write_text("".join(kept.values()), encoding="utf-8")
    replacement.replace(path)
    return frozenset(kept)


def _finished(text: str) -> str | None:
    """The request id of a complete output line with a reward."""
    if not text.endswith("\n"):
        return None
    try:
        result = json.loads(text)
    except ValueError:
        return None
    if not isinstance(result, dict) or result.get("reward") is None:
        return None
    request_id = result.get("request_id")
    return request_id if isinstance(request_id, str) else None
