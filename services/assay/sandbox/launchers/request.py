"""The form in which a run goes to its box: a head for the C of `sandbox/native`, a part for Python.

The numbers and their order are those of `native/box.h`.
"""

import marshal
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

_MAGIC: Final = 0x41425831
_HEAD: Final = struct.Struct("=6IQ8q")
_FILE: Final = struct.Struct("=IIQ")
_KIND_PYTHON, _KIND_COMMAND, _KIND_OTHER = range(3)
_KINDS: Final = {"python": _KIND_PYTHON, "command": _KIND_COMMAND}
_LIMITS: Final = (
    *("cpu_s", "file_bytes", "disk_bytes", "inodes"),
    *("open_files", "stack_bytes", "address_bytes", "processes"),
)


def packed(header: Mapping[str, Any], *, native: bool) -> bytes:
    """Return the content of a request.

    Args:
        header: the run, as `box.channel.Request` reads it.
        native: the C code sets its box up. What it cannot express (text with NUL or with lone
            surrogates that stand for no byte) is left to Python.
    """
    kind = _KINDS.get(header["kind"], _KIND_OTHER) if native else _KIND_OTHER
    words: list[bytes] = []
    files: Sequence[tuple[str, bytes, bool]] = header["files"]
    if kind == _KIND_COMMAND:
        words = _words(header["argv"], header["env"])
    if kind == _KIND_OTHER or (kind == _KIND_COMMAND and not words):
        kind, files, kept = _KIND_OTHER, (), tuple(header)
    else:
        kept = ("argv", "env", "source") if kind == _KIND_PYTHON else ()
    counts = (len(header["argv"]), len(header["env"])) if words else (0, 0)
    strings = b"".join((*(word + b"\0" for word in words), *_files(files)))
    limits = [header["limits"][name] for name in _LIMITS]
    head = (_MAGIC, kind, header["special"], *counts, len(files))
    part = marshal.dumps({name: header[name] for name in kept})
    return _HEAD.pack(*head, _HEAD.size + len(strings), *limits) + strings + part


def _words(arguments: Sequence[str], variables: Mapping[str, str]) -> list[bytes]:
    """Return arguments and variables as the kernel takes them; empty if it cannot take one."""
    pairs = [f"{name}={value}" for name, value in variables.items()]
    is_named = all(name and "=" not in name for name in variables)
    try:
        words = [word.encode("utf-8", "surrogateescape") for word in (*arguments, *pairs)]
    except UnicodeEncodeError:
        return []
    return (
        words
        if any(arguments[:1]) and is_named and not any(b"\0" in word for word in words)
        else []
    )


def _files(files: Sequence[tuple[str, bytes, bool]]) -> list[bytes]:
    parts = []
    for name, content, executable in files:
        parts += [_FILE.pack(executable, 0, len(content)), name.encode() + b"\0", content]
    return parts
