"""Collects files from a box; their names and contents are hostile.

Links are never followed in any part of the path. Only regular files with a single hard link count.
Nothing blocks (a FIFO), and nothing is larger than its limit. Other files are left out.
"""

import os
import stat
from collections.abc import Iterable

from assay.core.errors import InvalidRequest
from assay.core.ids import is_file_path
from assay.sandbox import linux


def check_name(name: str, field: str) -> str:
    """Return `name` if it is a plain relative path.

    Raises:
        InvalidRequest: it is not a valid path; see `is_file_path`.
    """
    if not is_file_path(name):
        raise InvalidRequest(f"not a plain relative path: {name[:200]!r}", field=field)
    return name


def collect(directory: int, names: Iterable[str], *, bytes_max: int) -> dict[str, bytes]:
    """Read those of `names` below `directory` that are regular files of at most `bytes_max`."""
    found = {}
    for name in names:
        content = _read_regular(directory, name, bytes_max)
        if content is not None:
            found[name] = content
    return found


def _read_regular(directory: int, name: str, bytes_max: int) -> bytes | None:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
    try:
        descriptor = linux.open_beneath(directory, name.encode(), flags)
    except OSError:
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1 or about.st_size > bytes_max:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(bytes_max)
