"""Files that users name: compressed or not, with a byte order mark or without; where to write.

Invariant: a command never replaces what it reads, nor anything that is not a regular file (a rename
over `/dev/null` would take the device from the whole machine).
"""

import codecs
import gzip
import lzma
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from assay.core.errors import InvalidRequest

_READERS: Final[dict[bytes, Callable[..., Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\0": lzma.open,
}
"""First bytes of a compressed file, whatever its name is -> what reads it."""
_UNREAD: Final = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2"}
"""First bytes of files that have to be unpacked first."""
_FIRST_BYTES: Final = max(map(len, _READERS))
DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
"""What reading a compressed file raises that is cut off or changed."""


def partial_of(output: Path) -> Path:
    """Where the content of `output` is until it is complete."""
    return output.with_name(f"{output.name}.partial")


def output_file(path: Path, *, inputs: Sequence[Path]) -> Path:
    """Return the file that `path` means, links followed.

    Raises:
        InvalidRequest: it is a directory, a device, a pipe, one of the inputs, or in no directory.
    """
    target = path.resolve()
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise InvalidRequest(f"out: {path} is not a regular file", field="out")
    if not target.parent.is_dir():
        raise InvalidRequest(f"out: {target.parent} is not a directory", field="out")
    for one in (target, partial_of(target)):
        if one.exists() and any(one.samefile(each) for each in inputs):
            raise InvalidRequest(f"out: {path} would replace the input {one.name}", field="out")
    return target


def without_mark(first_line: bytes) -> bytes:
    """The first line of a text file without a byte order mark."""
    return first_line.removeprefix(codecs.BOM_UTF8)


@contextmanager
def damage_told() -> Iterator[None]:
    """Turn what a damaged compressed file raises into an error for its user.

    Raises:
        InvalidRequest: the file is damaged.
    """
    try:
        yield
    except DAMAGED as error:
        message = f"file: the compressed file is cut off or damaged: {error}"
        raise InvalidRequest(message, field="file") from error


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that may be compressed; a pipe is opened once, and is not.

    Raises:
        InvalidRequest: it is compressed in a way that is not read.
    """
    with path.open("rb") as file:
        first = file.read(_FIRST_BYTES) if file.seekable() else b""
        if file.seekable():
            file.seek(0)
        for mark, name in _UNREAD.items():
            if first.startswith(mark):
                raise InvalidRequest(
                    f"{path.name} is compressed with {name}: unpack it first", field="file"
                )
        reader = next((read for mark, read in _READERS.items() if first.startswith(mark)), None)
        if reader is None:
            yield file
            return
        with reader(file) as unpacked:
            yield unpacked
