"""Precompiled headers: compiled by Assay in a box of their own, read-only for every source.

An entry is a folder named after all that decides its content: compiler, flags, the headers' names.
It holds GCC's file and a stamp of the files that went into it, so that an upgraded library makes a
new one. It is made beside the compilations, which do without until then. A compilation that names
an entry also brings the header as text: where GCC finds the entry gone or unfit, it reads the text,
and the object is the same.

Only text of `prelude_text` is ever compiled here. A source cannot name a header of its own, and its
box shows this directory read-only.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.core.tools.lru import LruCache
from assay.sandbox.port import MIB, SandboxError
from assay.verifiers.code.cpp.prelude import EVERYTHING, prelude_text

_log = logging.getLogger(__name__)
HEADER: Final = "assay-prelude.h"
PRECOMPILED: Final = f"{HEADER}.gch"
DEPENDENCIES: Final = "assay-prelude.d"
_STAMP: Final = "stamp"
_FORMAT: Final = b"1"
_TEXT_FOLDER: Final = "assay-prelude"
"""In the box of a compilation: searched after the entry."""
_UNFINISHED: Final = "unfinished-"
ENTRIES_MAX: Final = 12
BYTES_MAX: Final = 1_536 * MIB
_SEEN_MAX: Final = 256
_SIGHTINGS: Final = 4
"""A run of headers is worth an entry from this source on: to make one costs as much as three
sources save."""
_SIGHTINGS_OF_EVERYTHING: Final = 2

Make = Callable[[bytes], Mapping[str, bytes]]
"""Compiles the text of a header; returns `PRECOMPILED` and `DEPENDENCIES`, or nothing."""
Beside = Callable[[Callable[[], None]], None]
"""Runs a job, now or while its caller goes on."""


def at_once(job: Callable[[], None]) -> None:
    """Run the job; the caller waits."""
    job()


def in_background(job: Callable[[], None]) -> None:
    """Run the job in a thread, which ends with the process."""
    threading.Thread(target=job, name="precompiled header", daemon=True).start()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prelude:
    """What a compilation adds so that it uses an entry."""

    options: tuple[str, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()


class PrecompiledHeaders:
    """The entries of a folder that several processes share."""

    def __init__(self, folder: Path, compiler: bytes, *, beside: Beside = at_once) -> None:
        """Use `folder`, which exists.

        Args:
            folder: the entries.
            compiler: the version of what reads them.
            beside: how to make one.
        """
        self._folder = folder
        self._beside = beside
        self._is_making = False
        self._not_made: set[str] = set()
        """Keys of entries that cannot be made."""
        self._compiler = compiler
        self._seen: LruCache[str, int] = LruCache(weight_max=_SEEN_MAX)
        self._usable: LruCache[str, bool] = LruCache(weight_max=_SEEN_MAX)

    def prelude(self, headers: tuple[str, ...], flags: tuple[str, ...], make: Make) -> Prelude:
        """Return how to compile a source that begins with `headers`; has the entry made if it pays.

        While it is made, here or by another process, sources are compiled without.
        """
        if not headers:
            return Prelude()
        key = self._key(headers, flags)
        usable = self._usable.get(key)
        if usable is None:
            usable = self._found_or_begun(key, headers, make)
            if usable is not None:
                self._usable.put(key, usable)
        return self._prelude(key, headers) if usable else Prelude()

    def reject(self, headers: tuple[str, ...], flags: tuple[str, ...]) -> None:
        """Use an entry no more in this process."""
        self._usable.put(self._key(headers, flags), False)  # noqa: FBT003 - a value, not a flag

    def _prelude(self, key: str, headers: tuple[str, ...]) -> Prelude:
        entry = self._folder / key
        with contextlib.suppress(OSError):
            os.utime(entry)  # the oldest is dropped first
        return Prelude(
            options=("-iquote", str(entry), "-iquote", _TEXT_FOLDER, "-include", HEADER),
            files=((f"{_TEXT_FOLDER}/{HEADER}", prelude_text(headers)),),
        )

    def _key(self, headers: tuple[str, ...], flags: tuple[str, ...]) -> str:
        digest = hashlib.sha256()
        for part in (_FORMAT, self._compiler, repr(flags).encode(), prelude_text(headers)):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()[:40]

    def _is_worth_it(self, key: str, headers: tuple[str, ...]) -> bool:
        seen = (self._seen.get(key) or 0) + 1
        self._seen.put(key, seen)
        return seen >= (_SIGHTINGS_OF_EVERYTHING if headers == (EVERYTHING,) else _SIGHTINGS)

    def _is_current(self, key: str) -> bool:
        """Whether the entry exists and the files that went into it are unchanged."""
        try:
            stamp = (self._folder / key / _STAMP).read_text("utf-8")
            return stamp == _stamp_of([line.split("\t")[0] for line in stamp.splitlines()])
        except (OSError, ValueError):
            return False

    def _found_or_begun(self, key: str, headers: tuple[str, ...], make: Make) -> bool | None:
        """Whether there is an entry; `None`: not yet."""
        if self._is_current(key):
            return True
        if key in self._not_made:
            return False
        if not self._is_worth_it(key, headers) or self._is_making:
            return None
        self._is_making = True
        self._beside(lambda: self._make_entry(key, prelude_text(headers), make))
        if key in self._not_made:
            return False
        return self._is_current(key) or None

    def _make_entry(self, key: str, text: bytes, make: Make) -> None:
        """Make it, unless another process does or did; no source depends on whether it succeeds."""
        try:
            with self._alone() as alone:
                if not alone or self._is_current(key):
                    return
                made = make(text)
                if PRECOMPILED not in made or DEPENDENCIES not in made:
                    _log.info("no precompiled header for %s", text.decode("ascii").split("\n")[0])
                    self._not_made.add(key)
                    return
                self._publish(key, made)
                self._drop_old()
        except (OSError, SandboxError) as error:
            _log.warning("no precompiled header: %s", error)
            self._not_made.add(key)
        finally:
            self._is_making = False

    def _publish(self, key: str, made: Mapping[str, bytes]) -> None:
        for left in self._folder.parent.glob(f"{_UNFINISHED}*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=self._folder.parent, prefix=_UNFINISHED) as scratch:
            entry = Path(scratch, "entry")
            entry.mkdir()
            stamp = _stamp_of(_named_files(made[DEPENDENCIES].decode("utf-8", "replace")))
            for name, content in ((PRECOMPILED, made[PRECOMPILED]), (_STAMP, stamp.encode())):
                (entry / name).write_bytes(content)
                (entry / name).chmod(0o444)
            entry.chmod(0o755)
            old = self._folder / key
            if old.exists():
                old.rename(Path(scratch, "old"))
            entry.rename(old)

    def _drop_old(self) -> None:
        """Drop the entries that were not used for the longest time until the rest fits."""
        entries = sorted(
            (entry.stat().st_mtime_ns, (entry / PRECOMPILED).stat().st_size, entry)
            for entry in self._folder.iterdir()
        )
        total = sum(size for _, size, _ in entries)
        while len(entries) > 1 and (len(entries) > ENTRIES_MAX or total > BYTES_MAX):
            _, size, entry = entries.pop(0)
            total -= size
            shutil.rmtree(entry, ignore_errors=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the right to change entries, if no other process holds it."""
        path = self._folder.parent / f"{self._folder.name}.lock"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)


def _named_files(dependencies: str) -> list[str]:
    """The absolute paths in GCC's dependency file."""
    words = dependencies.replace("\\\n", " ").split()
    return [word for word in words if word.startswith("/")]


def _stamp_of(paths: list[str]) -> str:
    """Size and time of each file, one per line.

    Raises:
        OSError: one does not exist.
    """
    lines = []
    for path in paths:
        about = Path(path).stat()
        lines.append(f"{path}\t{about.st_size}\t{about.st_mtime_ns}\n")
    return "".join(lines)
