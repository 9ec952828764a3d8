"""Syncs the embedded server's log to the disk, because the server does not (`appendfsync no`).

A server that syncs every second by itself holds writes back, and acknowledges them, for as long as
a sync is in progress (up to 2 s on a busy disk): a kill -9 loses them. One that never syncs hands
each write to the kernel before it answers, so the end of its process loses nothing; against power
loss the files are synced from here. Files of a log rewrite (the new base file, the manifest, the
file that it replaces) are synced by the server itself under every setting.
"""

import contextlib
import os
from pathlib import Path

Seen = tuple[int, int, int]
"""Inode, size and modification time of a file."""


class LogSync:
    """Syncs the files that changed since the last sync."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._synced: dict[Path, Seen] = {}

    def is_synced(self) -> bool:
        """Nothing was written since the last sync; a few microseconds."""
        seen: dict[Path, Seen] = {}
        for path in self._log_dir.glob("*.aof"):
            with contextlib.suppress(FileNotFoundError):
                info = path.stat()
                seen[path] = (info.st_ino, info.st_size, info.st_mtime_ns)
        return seen == self._synced

    def sync(self) -> int:
        """Return when everything in the log at the time of the call is on the disk; returns how
        many files.

        Raises:
            OSError: the disk did not accept it.
        """
        seen: dict[Path, Seen] = {}
        count = 0
        for path in self._log_dir.glob("*.aof"):
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # a rewrite removes files at any time
                continue
            try:
                info = os.fstat(file)
                seen[path] = (info.st_ino, info.st_size, info.st_mtime_ns)
                if seen[path] != self._synced.get(path):
                    os.fdatasync(file)
                    count += 1
            finally:
                os.close(file)
        self._synced = seen
        return count
