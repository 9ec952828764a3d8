"""What a run of `assay score` has to do and what it did: a private SQLite file, not memory.

It holds a few dozen bytes for each row (where it stands, its digest, its reward), so that a file of
millions of rows is scored in bounded memory; the rows themselves are read again when they are sent.

Invariants: an output line is complete or it is not there (a torn last line, left by a kill, is
dropped); a row is finished exactly when the output has a reward for it under its present digest;
what is not finished (changed, failed, refused) leaves the output when a run begins and is done
again. No reward is lost by that: one under another digest goes to the file `superseded_of`, from
which a run with that digest takes it back.
"""

import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from assay.cli.files import partial_of
from assay.cli.score.jsonl import BadRow, Fields, ScoreRow, digest_of, parse_row, read_lines
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
CREATE TABLE superseded (id BLOB, digest TEXT, PRIMARY KEY (id, digest)) WITHOUT ROWID;
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
        self._replacements: list[_Replacement] = []

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

    def _add(self, row: ScoreRow, position: int, digest: str) -> None:
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
        """Find what is finished; nothing changes before `begin`.

        Results of rows that the file does not have are not ours: they stay.

        Raises:
            OSError: the output cannot be read, or not be replaced.
        """
        aside = superseded_of(output)
        self._db.execute("BEGIN")
        self._replacements = [_Replacement(aside), _Replacement(output)]
        superseded, new = self._replacements
        for raw in _lines_of(output):
            self._place(raw, new, superseded)
        for raw in _lines_of(aside):
            self._take_back(raw, new, superseded)
        self._db.execute("COMMIT")
        self._db.execute(
            "INSERT INTO todo (line) SELECT line FROM rows LEFT JOIN groups USING (grp) "
            "WHERE outcome IS NULL ORDER BY settings, coalesce(first, line), line"
        )

    def begin(self) -> None:
        """Reduce the output to what is finished; before that, what leaves it is put aside.

        Each file is replaced in one step, so a kill leaves the old one or the new one.

        Raises:
            OSError: a file cannot be replaced.
        """
        for replacement in self._replacements:
            replacement.commit()

    def _place(self, raw: bytes, new: "_Replacement", superseded: "_Replacement") -> None:
        """A line of the output."""
        result = _result(raw)
        if result is None:
            new.leave_out()
            return
        found = self._row_of(result)
        if found is None:
            self.foreign += 1
            new.keep(raw)
        elif found.digest == result.digest and not found.is_resumed:
            self._resumed(found, result)
            new.keep(raw)
        else:
            new.leave_out()
            if found.digest != result.digest and self._is_first_superseded(result):
                superseded.add(raw)

    def _take_back(self, raw: bytes, new: "_Replacement", superseded: "_Replacement") -> None:
        """A line of an earlier run's superseded results; it leaves them in a later run, when the
        output is sure to have it."""
        result = _result(raw)
        found = None if result is None else self._row_of(result)
        if result is None or not self._is_first_superseded(result):
            superseded.leave_out()
        elif found is None or found.digest != result.digest:
            superseded.keep(raw)
        elif found.is_resumed:
            superseded.leave_out()
        else:
            self._resumed(found, result)
            new.add(raw)
            superseded.keep(raw)

    def _row_of(self, result: "_Result") -> "_Found | None":
        query = "SELECT line, digest, resumed FROM rows WHERE id = ?"
        found = self._db.execute(query, (_key(result.request_id),)).fetchone()
        return found and _Found(*found)

    def _resumed(self, row: "_Found", result: "_Result") -> None:
        self._db.execute(
            "UPDATE rows SET outcome = ?, reward = ?, resumed = 1 WHERE line = ?",
            (result.outcome, result.reward, row.line),
        )

    def _is_first_superseded(self, result: "_Result") -> bool:
        told = self._db.execute(
            "INSERT OR IGNORE INTO superseded VALUES (?, ?)",
            (_key(result.request_id), result.digest or ""),
        )
        return told.rowcount > 0

    # -- working -------------------------------------------------------------------------------
    def todo(self) -> Iterator[ScoreRow]:
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

    def _read_again(self, line: int, position: int, size: int, digest: str) -> ScoreRow:
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
    def superseded(self) -> int:
        """Rewards under other digests than those of the rows now."""
        return self._count(
            "SELECT count(*) FROM superseded s WHERE NOT EXISTS "
            "(SELECT 1 FROM rows r WHERE r.id = s.id AND r.digest = s.digest)"
        )

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
        for replacement in self._replacements:
            replacement.close()
        self._db.close()


class _Replacement:
    """The next content of a file, beside it; the file stays as it is if that is the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = partial_of(path)
        self._file = self._partial.open("wb")
        self._differs = False

    def keep(self, raw: bytes) -> None:
        """A line that the file has."""
        self._file.write(raw)

    def add(self, raw: bytes) -> None:
        """A line that it does not have yet."""
        self._file.write(raw)
        self._differs = True

    def leave_out(self) -> None:
        """A line that it has no more."""
        self._differs = True

    def commit(self) -> None:
        """Replace the file; one without content is removed if it is not there yet."""
        if self._file.closed:
            return
        if self._differs and (self._file.tell() or self._path.exists()):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._partial.replace(self._path)
        self.close()

    def close(self) -> None:
        """Leave nothing beside the file."""
        if not self._file.closed:
            self._file.close()
            self._partial.unlink(missing_ok=True)


class _Result(NamedTuple):
    """A complete output line that has a reward."""

    request_id: str
    digest: str | None
    outcome: str | None
    reward: float


class _Found(NamedTuple):
    """A row of the file."""

    line: int
    digest: str
    is_resumed: bool


def superseded_of(output: Path) -> Path:
    """Where rewards are kept that another job or another content of a row replaced."""
    return output.with_name(f"{output.name}.superseded")


def _lines_of(path: Path) -> Iterator[bytes]:
    if path.exists():
        with path.open("rb") as file:
            yield from _whole_lines(file)


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


def _result(raw: bytes) -> _Result | None:
    """What a complete output line with a reward says."""
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
    return _Result(request_id, result.get("digest"), result.get("outcome"), reward)


def first_of(rows: Sequence[BadRow], more: int) -> str:
    """Bad rows as a user reads them."""
    lines = [str(row) for row in rows]
    return "\n".join([*lines, f"... and {more:,} more"] if more else lines)
