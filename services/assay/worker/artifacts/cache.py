"""Artifacts on this machine's disk, so that a program crosses the network once per host.

Invariants: what is read is what was written (each file begins with the hash of its content, and a
file that does not match is dropped). The files together hold at most `bytes_max`; the least
recently used are removed first. Losing the whole directory only costs time.
"""

import contextlib
import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from typing import Final

_HASH_BYTES: Final = 32


class ArtifactCache:
    """One directory; used by one host, from one thread at a time."""

    def __init__(self, directory: Path, *, bytes_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_stock()

    def _take_stock(self) -> None:
        found = []
        for file in self._directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                info = file.stat()
                found.append((info.st_mtime, file.name, info.st_size))
        for _, name, size in sorted(found):
            self._sizes[name] = size
            self._bytes += size
        self._make_room()

    def get(self, key: str) -> bytes | None:
        """The content under `key`; `None` if it is missing or damaged."""
        name = _name(key)
        if name not in self._sizes:
            return None
        file = self._directory / name
        try:
            content = file.read_bytes()
            os.utime(file)
        except OSError:
            content = b""
        body = content[_HASH_BYTES:]
        if hashlib.sha256(body).digest() != content[:_HASH_BYTES]:
            self._drop(name)
            return None
        self._sizes.move_to_end(name)
        return body

    def put(self, key: str, content: bytes) -> None:
        """Store the content; failures of the disk are ignored."""
        name = _name(key)
        size = len(content) + _HASH_BYTES
        if size > self._bytes_max:
            return
        self._drop(name)
        fresh = self._directory / f"{name}.{os.getpid()}"
        try:
            fresh.write_bytes(hashlib.sha256(content).digest() + content)
            fresh.replace(self._directory / name)
        except OSError:  # a full disk: the store has the content
            fresh.unlink(missing_ok=True)
            return
        self._sizes[name] = size
        self._bytes += size
        self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self._bytes_max:
            self._drop(next(iter(self._sizes)))

    def _drop(self, name: str) -> None:
        size = self._sizes.pop(name, None)
        if size is not None:
            self._bytes -= size
            (self._directory / name).unlink(missing_ok=True)


def _name(key: str) -> str:
    """The file of a key; keys come from handlers, so the name is not taken from them directly."""
    return hashlib.sha256(key.encode()).hexdigest()
