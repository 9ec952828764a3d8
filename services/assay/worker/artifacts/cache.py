"""Artifacts on this machine's disk, so that a program crosses the network once per host.

Invariants: what is read is what was written (each file begins with the hash of its content, and a
file that does not match is dropped). The files together hold at most `bytes_max`; the owner that
holds most loses its least recently used one first, so that a tenant with at most an even share
loses none to another. Losing the whole directory only costs time.
"""

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Final

from assay.core.ids import owner_in
from assay.core.tools.lru import TenantCache

_HASH_BYTES: Final = 32
_NAME: Final = re.compile(r"[0-9a-f]*-[0-9a-f]{64}")


class ArtifactCache:
    """One directory; used by one host, from one thread at a time."""

    def __init__(self, directory: Path, *, bytes_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._sizes: TenantCache[str, int] = TenantCache(
            weight_max=bytes_max, weigh=lambda size: size, dropped=self._unlink
        )
        """Of each owner's files, by their names."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_stock()

    def _take_stock(self) -> None:
        found = []
        for file in self._directory.iterdir():
            if not _NAME.fullmatch(file.name):  # half written, or by an earlier release
                file.unlink(missing_ok=True)
                continue
            with contextlib.suppress(FileNotFoundError):
                info = file.stat()
                found.append((info.st_mtime, file.name, info.st_size))
        for _, name, size in sorted(found):
            self._sizes.put(_owner(name), name, size)

    def get(self, key: str) -> bytes | None:
        """The content under `key`; `None` if it is missing or damaged."""
        name = _name(key)
        if self._sizes.get(_owner(name), name) is None:
            return None
        file = self._directory / name
        try:
            content = file.read_bytes()
            os.utime(file)
        except OSError:
            content = b""
        body = content[_HASH_BYTES:]
        if hashlib.sha256(body).digest() != content[:_HASH_BYTES]:
            self._sizes.drop(_owner(name), name)
            return None
        return body

    def put(self, key: str, content: bytes) -> None:
        """Store the content; failures of the disk are ignored."""
        name = _name(key)
        size = len(content) + _HASH_BYTES
        if size > self._bytes_max:
            return
        self._sizes.drop(_owner(name), name)
        fresh = self._directory / f"{name}.{os.getpid()}"
        try:
            fresh.write_bytes(hashlib.sha256(content).digest() + content)
            fresh.replace(self._directory / name)
        except OSError:  # a full disk: the store has the content
            fresh.unlink(missing_ok=True)
            return
        self._sizes.put(_owner(name), name, size)

    def _unlink(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)


def _name(key: str) -> str:
    """The file of a key; keys come from handlers, so the name is not taken from them directly."""
    return f"{owner_in(key)}-{hashlib.sha256(key.encode()).hexdigest()}"


def _owner(name: str) -> str:
    return name.rpartition("-")[0]
