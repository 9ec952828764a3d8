"""The harness of `sql`: makes one database and runs one query on it.

It has never seen the reference's query when it runs a response's: the two run in separate boxes,
and rows are compared outside. Values cross as text with a letter for their type, never as objects.

The zygote loads it as a single file: standard library only, and DuckDB where it is shown.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.sandbox.port import Box

_ERROR_CHARS: Final = 1_000
_VALUE_CHARS: Final = 1_000_000
_FILE: Final = "data.db"
_LENGTH_MAX: Final = 50_000_000
_DENIED: Final = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})
_PRAGMAS: Final = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"}
)


class _TooMany(Exception):
    """More rows, or a longer value, than a result may have."""


def main(payload: bytes, box: Box) -> None:
    """Run the order and report rows, an error, or that there are too many."""
    order = json.loads(payload)
    if order["library"]:
        sys.path.append(order["library"])
    box.confine_self()
    try:
        run = _duckdb if order["engine"] == "duckdb" else _sqlite
        report = run(order)
    except _TooMany as error:
        report = {"too_many": str(error)}
    except MemoryError:
        report = {"too_many": "memory"}
    box.channel_write(json.dumps(report).encode("ascii"))


def _failed(error: Exception, part: str) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
    return {part: text.encode("utf-8", "replace").decode("utf-8")}


# -- sqlite --------------------------------------------------------------------------------------
def _sqlite(order: dict[str, Any]) -> dict[str, Any]:
    database = sqlite3.connect(_FILE, isolation_level=None)
    database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        database.executescript(order["setup"])
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return _failed(error, "setup_error")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH_MAX)
    database.set_authorizer(_authorized)
    if not order["check"]:
        database.execute(
            "PRAGMA main.table_list"
        ).fetchall()  # the schema is read before it is shut
    try:
        result = _last_result(database, order["sql"], order["rows_max"])
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        return _failed(error, "error")
    if not order["check"]:
        return result
    # A new connection has none of the temporary views that could stand for a table.
    database.set_authorizer(None)
    if database.in_transaction:
        database.execute("COMMIT")
    database.close()
    database = sqlite3.connect(_FILE, isolation_level=None)
    database.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        return _last_result(database, order["check"], order["rows_max"])
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        return _failed(error, "check_error")


def _authorized(action: int, first: str | None, second: str | None, *_: object) -> int:
    if action in _DENIED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() not in _PRAGMAS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _last_result(database: sqlite3.Connection, text: str, rows_max: int) -> dict[str, Any]:
    """Run all statements; the last that has columns is the result."""
    columns: list[str] = []
    rows: list[list[str]] = []
    found = False
    for statement in _statements(text):
        cursor = database.execute(statement)
        if cursor.description is not None:
            found = True
            columns = [str(one[0]) for one in cursor.description]
            rows = _rows(cursor, rows_max)
    if not found:
        return {"error": "no statement has a result"}
    return {"columns": len(columns), "names": columns, "rows": rows}


def _statements(text: str) -> Iterator[str]:
    """Split at semicolons that end a statement."""
    start = at = 0
    while (at := text.find(";", at)) >= 0:
        at += 1
        if sqlite3.complete_statement(text[start:at]):
            yield text[start:at]
            start = at
    if text[start:].strip():
        yield text[start:]


def _rows(cursor: Any, rows_max: int) -> list[list[str]]:  # noqa: ANN401 - of either engine
    rows: list[list[str]] = []
    while (row := cursor.fetchone()) is not None:
        if len(rows) == rows_max:
            raise _TooMany(f"more than {rows_max} rows")
        rows.append([_value(value) for value in row])
    return rows


def _value(value: object) -> str:
    """A value as text with a letter for its type."""
    kind = type(value).__name__
    if value is None:
        text = "n"
    elif isinstance(value, bool):
        text = f"i{int(value)}"
    elif isinstance(value, int):
        text = f"i{value}"
    elif isinstance(value, float):
        text = f"f{value!r}"
    elif kind == "Decimal":
        text = f"f{value}"
    elif isinstance(value, (bytes, bytearray, memoryview)):
        text = f"b{base64.b64encode(bytes(value)).decode('ascii')}"
    elif isinstance(value, (list, tuple)):
        text = "l" + json.dumps([_value(one) for one in value])
    elif isinstance(value, dict):
        items = [[_value(key), _value(one)] for key, one in value.items()]
        text = "m" + json.dumps(items)
    else:
        text = f"t{value}"
    if len(text) > _VALUE_CHARS:
        raise _TooMany("a value is too long")
    return text


# -- DuckDB --------------------------------------------------------------------------------------
def _duckdb(order: dict[str, Any]) -> dict[str, Any]:
    import duckdb  # shown only where it is wanted

    settings: dict[str, Any] = {
        "threads": 1,
        "memory_limit": f"{order['memory_mib']}MiB",
        "temp_directory": "",
    }
    settings |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    database = duckdb.connect(_FILE, config=settings)
    try:
        database.execute("SET enable_external_access = false")
        if order["setup"].strip():
            database.execute(order["setup"])
        database.execute("SET lock_configuration = true")
    except (duckdb.Error, RuntimeError, ValueError) as error:
        return _failed(error, "setup_error")
    try:
        result = _last_of(database, order["sql"], order["rows_max"])
    except (duckdb.Error, RuntimeError, ValueError, OverflowError) as error:
        return _failed(error, "error")
    if not order["check"]:
        return result
    database.close()
    database = duckdb.connect(_FILE, config=settings)
    try:
        return _last_of(database, order["check"], order["rows_max"])
    except (duckdb.Error, RuntimeError, ValueError, OverflowError) as error:
        return _failed(error, "check_error")


def _last_of(database: Any, text: str, rows_max: int) -> dict[str, Any]:  # noqa: ANN401 - DuckDB's
    cursor = database.execute(text)
    if cursor.description is None:
        return {"error": "no statement has a result"}
    names = [str(one[0]) for one in cursor.description]
    return {"columns": len(names), "names": names, "rows": _rows(cursor, rows_max)}
