"""The layout of safetensors files, written.

Eight bytes of length, a JSON table of names, types, shapes and places, then the bytes of the
tensors, little-endian, in the order of the table. The data begin at a multiple of eight, so that
columns in the order of their width are aligned in memory.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

METADATA: Final = "__metadata__"
ALIGNED_TO: Final = 8


class Stored(NamedTuple):
    """A tensor as a file holds it."""

    dtype: str
    """As the layout names it: `F32`, `BF16`, `I64` ..."""
    shape: Sequence[int]
    data: bytes | memoryview
    """Its bytes; a view has to be one of bytes."""


def pieces(
    tensors: Mapping[str, Stored], metadata: Mapping[str, str] | None = None
) -> list[bytes | memoryview]:
    """The parts of a file, one after the other; no tensor is copied.

    Args:
        tensors: by name, in the order of the file.
        metadata: texts in the table.
    """
    table: dict[str, Any] = {} if metadata is None else {METADATA: dict(metadata)}
    end = 0
    for name, one in tensors.items():
        start, end = end, end + len(one.data)
        table[name] = {
            "dtype": one.dtype,
            "shape": list(one.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED_TO)
    return [struct.pack("<Q", len(text)), text, *(one.data for one in tensors.values())]


def packed(tensors: Mapping[str, Stored], metadata: Mapping[str, str] | None = None) -> bytes:
    """A whole file in memory; arguments as `pieces`."""
    return b"".join(pieces(tensors, metadata))
