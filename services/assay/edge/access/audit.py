"""The audit log: one line of JSON per call that changes something, and per refused caller.

Two files per service, `SERVICE.calls.jsonl` and `SERVICE.refused.jsonl`, so that a flood of refused
callers does not push out what was done. Each is renamed at its size limit (`.1` is the newest), and
the oldest is removed. A line is written at once and whole; a line that cannot be written is logged,
and its call continues.
"""

import json
import os
import weakref
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from assay.config.access import AuditSettings
from assay.config.settings import Settings
from assay.edge.clock import Clock

TEXT_CHARS_MAX: Final = 256
"""Characters of a value that the caller chose."""
FAILED_LOGGED_EVERY_S: Final = 60.0

log = structlog.get_logger(__name__)


class AuditFile:
    """Lines of bounded total size."""

    def __init__(self, path: Path, settings: AuditSettings) -> None:
        self._path = path
        self._bytes_max = settings.file_bytes_max
        self._files_max = settings.files_max
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._open()

    def write(self, line: bytes) -> None:
        """Append a line.

        Raises:
            OSError: it cannot be written.
        """
        if self._size + len(line) > self._bytes_max and self._size:
            self._begin_anew()
        os.write(self._descriptor, line)
        self._size += len(line)

    def _begin_anew(self) -> None:
        self._closing()
        for number in range(self._files_max - 1, 0, -1):
            older = self._older(number - 1)
            if older.exists():
                older.replace(self._older(number))
        self._path.unlink(missing_ok=True)  # with `files_max` = 1
        self._open()

    def _open(self) -> None:
        """Open the present file; it is closed with this object."""
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._closing = weakref.finalize(self, os.close, self._descriptor)
        self._size = os.fstat(self._descriptor).st_size

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


class Audit:
    """The two files of a service."""

    def __init__(self, folder: Path, service: str, settings: AuditSettings, clock: Clock) -> None:
        """Open them.

        Raises:
            OSError: the folder cannot be made, or a file not be written.
        """
        self.payload_calls = settings.payload_calls
        self._clock = clock
        self._done = AuditFile(folder / f"{service}.calls.jsonl", settings)
        self._refused = AuditFile(folder / f"{service}.refused.jsonl", settings)
        self._failed_ns = 0

    def record(self, fields: Mapping[str, object], *, refused: bool) -> None:
        """Write a line; `refused`: to the file of refused callers."""
        now_ns = self._clock.now_ns()
        at = datetime.fromtimestamp(now_ns / 1e9, UTC).isoformat(timespec="milliseconds")
        bounded = {
            name: value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
            for name, value in fields.items()
        }
        line = json.dumps({"at": at, **bounded}).encode() + b"\n"
        try:
            (self._refused if refused else self._done).write(line)
        except OSError as error:
            if now_ns >= self._failed_ns + FAILED_LOGGED_EVERY_S * 1e9:
                self._failed_ns = now_ns
                log.warning("audit_line_lost", why=str(error))


def open_audit(
    settings: Settings, service: str, *, asks: bool, clock: Clock | None = None
) -> Audit | None:
    """The audit log of a service; `None` where there is none.

    Args:
        settings: of the platform.
        service: its name in the names of the files.
        asks: whether its callers need a token.
        clock: for the instants of the lines.

    Raises:
        OSError: the files cannot be written.
    """
    folder = settings.audit.folder
    if folder is None:
        if not asks:
            return None
        folder = settings.data_dir / "audit"
    return Audit(folder, service, settings.audit, clock or Clock())
