"""Files with what a process can compute again: where they are kept, and whether they still fit.

Nothing depends on them. One that is absent, damaged, or of another installation or interpreter is
computed again. They are trusted like the installation's own compiled modules (`__pycache__`), so
they are read only from a directory that no other user can write.
"""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

KEPT_MAX: Final = 4
"""States of an installation of which files are kept."""
FILE_BYTES_MAX: Final = 64 * 1024**2
DATA_VARIABLE: Final = "ASSAY_DATA_DIR"
"""Where a container writes, whose user has no home."""
_FOLDER: Final = "computed"
_DIGEST_BYTES: Final = 32


def bases(inherited: Mapping[str, str]) -> list[Path]:
    """Directories to keep such files in, the best first; they need not exist.

    Args:
        inherited: the environment of the process.
    """
    home = inherited.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - a user without a home is no error here
    found = [Path(home, "assay")]
    if inherited.get(DATA_VARIABLE):
        found.append(Path(inherited[DATA_VARIABLE]))
    return found


def cache_dir(base: Path, digest: str) -> Path | None:
    """The directory for this state of the sources, made; all but the latest others are deleted.

    `None`: it cannot be written.
    """
    chosen = base / digest
    try:
        chosen.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.utime(chosen)
        others = sorted(base.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return None
    for old in others[KEPT_MAX:]:
        shutil.rmtree(old, ignore_errors=True)
    return chosen if os.access(chosen, os.W_OK) else None


def computed_dir(roots: Iterable[str], inherited: Mapping[str, str]) -> Path | None:
    """Where this installation keeps such files; `None`: nowhere.

    Args:
        roots: the directories of the package, which tell installations apart.
        inherited: see `bases`.
    """
    text = "\n".join([*sorted(roots), sys.version])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    for base in bases(inherited):
        found = cache_dir(base / _FOLDER, digest)
        if found is not None and _is_ours(found):
            return found
    return None


def read(path: Path, key: bytes) -> bytes | None:
    """What `write` wrote under the same key; `None`: it is not there, or not whole."""
    try:
        if not _is_ours(path) or path.stat().st_size > FILE_BYTES_MAX:
            return None
        held = path.read_bytes()
    except OSError:
        return None
    digest, content = held[:_DIGEST_BYTES], held[_DIGEST_BYTES:]
    return content if digest == _digest(key, content) else None


def write(path: Path, key: bytes, content: bytes) -> None:
    """Keep `content` for later processes; a directory that is full or gone keeps nothing.

    Args:
        path: of a file in `computed_dir`.
        key: what has to be the same for the content to be of use, such as a library's version.
        content: at most `FILE_BYTES_MAX`.
    """
    if len(content) > FILE_BYTES_MAX:
        return
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_digest(key, content) + content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)


def _digest(key: bytes, content: bytes) -> bytes:
    return hashlib.sha256(len(key).to_bytes(8, "big") + key + content).digest()


def _is_ours(path: Path) -> bool:
    """Whether no other user can have written it."""
    found = path.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022
