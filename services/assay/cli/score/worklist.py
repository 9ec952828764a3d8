"""What a run of `assay score` has to do and what it did: a private SQLite file, not memory.

It holds a few dozen bytes for each row (where it stands, its digest, its reward), so that a file of
millions of rows is scored in bounded memory; the rows themselves are read again when they are sent.

Invariants: an output line is complete or it is not there (a torn last line, left by a kill, is
dropped); a row is finished exactly when the output has a reward for it under its present digest;
what is not finished (changed, failed, refused) leaves the output when a run begins and is done
again.
"""

import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from assay.cli.files import partial_of
from assay.cli.score.jsonl import BadRow, Fields, Row, digest_of, parse_row, read_lines
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome

PAGE_ROWS: Final = 512
SETTINGS_MAX: Final = 1_024
"""Maximum number of different settings of rows in one file; each becomes a task."""
CACHE_KIB: Final = 32 * 1024
_SCHEMA: Final = """
CREATE TABLE rows (line INTEGER PRIMARY KEY, id BLOB UNIQUE, grp BLOB, position INTEGER,
  size INTEGER, digest TEXT, settings TEXT, outcome TEXT, reward REAL, resumed INTEGER DEFAULT 0);
CREATE TABLE groups (grp BLOB PRIMARY KEY, first INTEGER) WITHOUT ROWID;
CREATE TABLE bad (line INTEGER PRIMARY KEY, request_id TEXT, field TEXT, error TEXT);
CREATE TABLE todo (n INTEGER PRIMARY KEY, line INTEGER);
"""


class Worklist:
    """The rows of one file against the results in one output."""

    def __init__(self, file: IO[bytes], fields: Fields, basis: bytes) -> None:
        """Read nothing yet.

        Args:
            file: the rows; read twice.
            fields: which keys mean what.
            basis: what all rows' digests have in common.
        """
        self._file = file
        self._fields = fields
        self._basis = basis
        # An empty name: a file of our own that is gone with us, however we end.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.executescript(_SCHEMA)
        self._settings: set[str] = set()
        self.foreign = 0
        """Results in the output that belong to no row of the file."""

    # -- reading -------------------------------------------------------------------------------
    def read(self) -> None:
        """Look at each row once.

        Raises:
            OSError: the file cannot be read.
        """
        self._db.execute("BEGIN")
        for line, position, raw in read_lines(self._file):
            try:
                row = parse_row(line, raw, self._fields)
                self._add(row, position, digest_of(self._basis, row))
            except InvalidRequest as error:
                self.refuse(line, _id_in(raw, self._fields), error.field, error.message)
        self._db.execute("COMMIT")

    def _add(self, row: Row, position: int, digest: str) -> None:
        key = _key(row.request_id)
        before = self._db.execute("SELECT line FROM rows WHERE id = ?", (key,)).fetchone()
        if before:
            message = f"{row.request_id!r} stands on line {before[0]} too"
            raise InvalidRequest(message, field=self._fields.request_id)
        group = _key(row.group_id) if row.group_id else None
        settings = json.dumps(row.settings, sort_keys=True) if row.settings else ""
        if settings not in self._settings and len(self._settings) >= SETTINGS_MAX:
            message = f"more than {SETTINGS_MAX:,} different settings in one file"
            raise InvalidRequest(message, field=self._fields.settings)
        self._settings.add(settings)
        self._db.execute(
            "INSERT INTO rows (line, id, grp, position, size, digest, settings) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.line, key, group, position, row.size, digest, settings),
        )
        if group is not None:
            self._db.execute("INSERT OR IGNORE INTO groups VALUES (?, ?)", (group, row.line))

    def resume(self, output: Path) -> None:
        """Find what is finished; reduce the output to that.

        The output is replaced in one step, so a kill leaves the old one or the new one. Results of
        rows that the file does not have are not ours: they stay.

        Raises:
            OSError: the output cannot be read or replaced.
        """
        if output.exists():
            replacement = partial_of(output)
            self._db.execute("BEGIN")
            with output.open("rb") as old, replacement.open("wb") as new:
                dropped = sum(not self._keep(raw, new) for raw in _whole_lines(old))
                new.flush()
                os.fsync(new.fileno())
            self._db.execute("COMMIT")
            if dropped:
                replacement.replace(output)
            else:
                replacement.unlink()
        self._db.execute(
            "INSERT INTO todo (line) SELECT line FROM rows LEFT JOIN groups USING (grp) "
            "WHERE outcome IS NULL ORDER BY settings, coalesce(first, line), line"
        )

    def _keep(self, raw: bytes, new: IO[bytes]) -> bool:
        result = _result(raw)
        if result is None:
            return False
        request_id, digest, outcome, reward = result
        found = self._db.execute(
            "SELECT line, digest, resumed FROM rows WHERE id = ?", (_key(request_id),)
        ).fetchone()
        if found is None:
            self.foreign += 1
        elif found[1] != digest or found[2]:
            return False
        else:
            self._db.execute(
                "UPDATE rows SET outcome = ?, reward = ?, resumed = 1 WHERE line = ?",
                (outcome, reward, found[0]),
            )
        new.write(raw)
        return True

    # -- working -------------------------------------------------------------------------------
    def todo(self) -> Iterator[Row]:
        """The rows that are not finished: by settings, and those of one group together.

        Raises:
            InvalidRequest: the file was changed meanwhile.
        """
        last = 0
        while True:
            page = self._db.execute(
                "SELECT n, line, position, size, digest FROM todo JOIN rows USING (line) "
                "WHERE n > ? ORDER BY n LIMIT ?",
                (last, PAGE_ROWS),
            ).fetchall()
            if not page:
                return
            for n, line, position, size, digest in page:
                last = n
                yield self._read_again(line, position, size, digest)

    def _read_again(self, line: int, position: int, size: int, digest: str) -> Row:
        self._file.seek(position)
        try:
            row = parse_row(line, self._file.read(size), self._fields)
        except InvalidRequest:
            row = None
        if row is None or digest_of(self._basis, row) != digest:
            raise InvalidRequest(f"line {line}: the file was changed while it was scored")
        return row

    def finish(self, request_id: str, outcome: Outcome, reward: float | None) -> None:
        """A row has its result."""
        self._db.execute(
            "UPDATE rows SET outcome = ?, reward = ? WHERE id = ?",
            (outcome.value, reward, _key(request_id)),
        )

    def refuse(self, line: int, request_id: str, field: str, error: str) -> BadRow:
        """A row cannot be scored."""
        self._db.execute("DELETE FROM rows WHERE line = ?", (line,))
        row = (line, request_id, field, error)
        self._db.execute("INSERT OR REPLACE INTO bad VALUES (?, ?, ?, ?)", row)
        return BadRow(line=line, request_id=request_id, field=field, error=error)

    # -- telling -------------------------------------------------------------------------------
    @property
    def rows(self) -> int:
        """All rows of the file, bad ones too."""
        return self._count("SELECT (SELECT count(*) FROM rows) + (SELECT count(*) FROM bad)")

    @property
    def has_own_settings(self) -> bool:
        """Whether a row has settings of its own."""
        return bool(self._settings - {""})

    @property
    def left(self) -> int:
        """Rows to score."""
        return self._count("SELECT count(*) FROM todo")

    @property
    def resumed(self) -> int:
        """Rows that a former run finished."""
        return self._count("SELECT count(*) FROM rows WHERE resumed")

    def bad(self, rows_max: int = -1) -> Iterator[BadRow]:
        """Rows that cannot be scored, from the top of the file."""
        found = self._db.execute("SELECT * FROM bad ORDER BY line LIMIT ?", (rows_max,))
        for line, request_id, field, error in found:
            yield BadRow(line=line, request_id=request_id, field=field, error=error)

    @property
    def bad_count(self) -> int:
        """How many those are."""
        return self._count("SELECT count(*) FROM bad")

    def outcomes(self) -> Counter[str]:
        """Of all rows that have one, earlier runs' too."""
        query = "SELECT outcome, count(*) FROM rows WHERE outcome IS NOT NULL GROUP BY outcome"
        return Counter(dict(self._db.execute(query).fetchall()))

    def rewards(self) -> tuple[int, float | None]:
        """How many rows have a reward, and their mean."""
        number, mean = self._db.execute("SELECT count(reward), avg(reward) FROM rows").fetchone()
        return int(number), mean

    def groups(self) -> tuple[int, int]:
        """How many groups there are, and in how many all rewards are equal (or none is there)."""
        return tuple(
            self._db.execute(
                "SELECT count(*), coalesce(sum(least IS most), 0) FROM (SELECT min(reward) least, "
                "max(reward) most FROM rows WHERE grp IS NOT NULL GROUP BY grp)"
            ).fetchone()
        )

    def _count(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])

    def close(self) -> None:
        """Forget it all."""
        self._db.close()


def _key(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _id_in(raw: bytes, fields: Fields) -> str:
    """The request id of a row that is wrong elsewhere; empty where it cannot be read."""
    try:
        data = json.loads(raw)
        found = data[fields.request_id]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) and found.isprintable() else ""


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines; of one that was torn or is too long, something that is no result."""
    for _, _, raw in read_lines(file):
        yield raw


def _result(raw: bytes) -> tuple[str, str | None, str | None, float] | None:
    """Request id, digest, outcome and reward of a complete output line that has a reward."""
    if not raw.endswith(b"\n"):
        return None
    try:
        result = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(result, dict):
        return None
    request_id, reward = result.get("request_id"), result.get("reward")
    if not isinstance(request_id, str) or not isinstance(reward, (int, float)):
        return None
    return request_id, result.get("digest"), result.get("outcome"), reward


def first_of(rows: Sequence[BadRow], more: int) -> str:
    """Bad rows as a user reads them."""
    lines = [str(row) for row in rows]
    return "\n".join([*lines, f"... and {more:,} more"] if more else lines)
