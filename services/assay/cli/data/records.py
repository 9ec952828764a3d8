"""Files of data sets as their authors publish them: one record after another, with its line.

`.jsonl` and `.json`, compressed (gzip, xz) or not, and `.parquet`. A record that cannot be read is
returned as its error, never raised, so one bad line does not stop the file.
"""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from assay.cli.files import damage_told, opened, without_mark
from assay.core.errors import FailedPrecondition, InvalidRequest
from assay.datasets.port import Refused
from assay.verifiers.intake import plain_json

RECORD_BYTES_MAX: Final = 256 * 1024**2
"""Of one line; the longest published ones (LiveCodeBench) are some tens of megabytes."""
NO_OBJECT: Final = "a record that is not a JSON object"
_PARQUET_ROWS: Final = 64
_LIST_KEYS: Final = ("data", "rows", "problems")


class Read(NamedTuple):
    """One record, or why there is none."""

    line: int
    """From 1; of a file that has no lines, the number of the record."""
    record: "Parsed"
    done: float
    """Share of the file that is read, 0 to 1."""


Parsed = dict[str, Any] | Refused


def record_of(text: bytes) -> Parsed:
    """A record of a data set: all of it is exact."""
    try:
        value = plain_json(text, "record")
    except InvalidRequest as error:
        return Refused("malformed JSON", error.message)
    return value if isinstance(value, dict) else Refused(NO_OBJECT)


def read_records(path: Path, parse: Callable[[bytes], Parsed] = record_of) -> Iterator[Read]:
    """Read a file from its beginning to its end.

    Args:
        path: of the file.
        parse: reads a line of a file of lines.

    Raises:
        InvalidRequest: the whole file is in no form that is known.
        FailedPrecondition: a parquet file, and pyarrow is not installed.
        OSError: it cannot be read.
    """
    name = path.with_suffix("").name if path.suffix in (".gz", ".xz") else path.name
    if name.endswith(".parquet"):
        yield from _parquet(path)
    elif name.endswith(".json") and not _is_lines(path):
        yield from _document(path)
    else:
        yield from _lines(path, parse)


def _is_lines(path: Path) -> bool:
    """Some `.json` files hold a record per line."""
    with opened(path) as file, damage_told():
        first, second = (file.readline(RECORD_BYTES_MAX).strip() for _ in range(2))
    first = without_mark(first)
    return first.startswith(b"{") and first.endswith(b"}") and second.startswith(b"{")


def _lines(path: Path, parse: Callable[[bytes], Parsed]) -> Iterator[Read]:
    size = max(1, path.stat().st_size)
    with opened(path) as file:
        raw = getattr(file, "fileobj", None) or file
        number = 0
        while line := _next_line(file):
            number += 1
            text, whole = line
            if number == 1:
                text = without_mark(text)
            if not text.strip():
                continue
            record = parse(text) if whole else Refused("a line that is too long")
            yield Read(number, record, min(1.0, raw.tell() / size))


def _next_line(file: IO[bytes]) -> tuple[bytes, bool] | None:
    """The next line and whether it is whole; one that is too long is skipped to its end."""
    with damage_told():
        line = file.readline(RECORD_BYTES_MAX + 1)
        whole = len(line) <= RECORD_BYTES_MAX
        rest = line
        while len(rest) > RECORD_BYTES_MAX and not rest.endswith(b"\n"):
            rest = file.readline(RECORD_BYTES_MAX + 1)
    return (line if whole else b"x", whole) if line else None


def _document(path: Path) -> Iterator[Read]:
    """One JSON document: a list of records, or an object of them."""
    with opened(path) as file, damage_told():
        value = plain_json(without_mark(file.read()), "file")
    records = _listed(value)
    for number, record in enumerate(records, 1):
        one = record if isinstance(record, dict) else Refused(NO_OBJECT)
        yield Read(number, one, number / len(records))


def _listed(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        for key in _LIST_KEYS:
            if isinstance(value.get(key), list):
                return list(value[key])
        if value and all(isinstance(one, dict) for one in value.values()):
            return [{"task_id": name, **one} for name, one in value.items()]
        return [value]
    raise InvalidRequest("the file holds neither a list nor an object of records", field="file")


def _parquet(path: Path) -> Iterator[Read]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise FailedPrecondition("reading parquet needs pyarrow: pip install pyarrow") from error
    file: Any = _parquet_file(parquet.ParquetFile, path)
    number = 0
    for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
        for record in batch.to_pylist():
            number += 1
            yield Read(number, record, number / max(1, file.metadata.num_rows))


def _parquet_file(opened: Callable[[Path], object], path: Path) -> object:
    try:
        return opened(path)
    except (ValueError, OSError) as error:  # what pyarrow raises derives from these
        raise InvalidRequest(f"not a parquet file: {error}", field="file") from error
