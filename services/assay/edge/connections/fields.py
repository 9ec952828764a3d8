"""How many fields a header block of HTTP/2 has, and how large they are, without decoding it.

A byte that refers to the table of a connection (HPACK, RFC 7541) stands for a field of up to 4 KiB,
so the length of a block says little of what decoding it costs. Sizes are upper bounds:
the text of a string that is coded (Huffman) is taken as long as it may be.
"""

from collections import deque
from typing import Final

FIELD_BYTES: Final = 32
"""Counted for each field besides name and value, as HTTP/2 does."""
STATIC_FIELDS: Final = 61
STATIC_BYTES_MAX: Final = 64
"""Of a field of the table that everyone has."""
TABLE_FIELDS_MAX: Final = 128
"""A table of 4,096 bytes has no more."""
INTEGER_BYTES_MAX: Final = 5


class NotFields(Exception):
    """The bytes are no header block."""


class FieldTable:
    """Sizes of the fields that a client has added to its connection's table, newest first."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque(maxlen=TABLE_FIELDS_MAX)

    def measure(self, block: bytes, *, fields_max: int) -> tuple[int, int]:
        """Read a block; returns the number of its fields and at most how large they are together.

        Ends with the first field above `fields_max`.

        Raises:
            NotFields: a number or a text does not end.
        """
        at = count = size = 0
        while at < len(block) and count <= fields_max:
            count += 1
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                size += self._size(index)
            elif first & 0xE0 == 0x20:  # the table's size changes
                _, at = _integer(block, at, 5)
            else:
                adds = bool(first & 0x40)
                field, at = self._literal(block, at, 6 if adds else 4)
                size += field
                if adds:
                    self._sizes.appendleft(field)
        return count, size

    def _literal(self, block: bytes, at: int, bits: int) -> tuple[int, int]:
        index, at = _integer(block, at, bits)
        if index:
            name = self._size(index)
        else:
            name, at = _text(block, at)
            name += FIELD_BYTES
        value, at = _text(block, at)
        return name + value, at

    def _size(self, index: int) -> int:
        if index <= STATIC_FIELDS:
            return STATIC_BYTES_MAX + FIELD_BYTES
        newest = index - STATIC_FIELDS - 1
        return self._sizes[newest] if newest < len(self._sizes) else 0


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number whose first byte has so many bits of it; returns it and where it ends."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    for shift in range(0, 7 * INTEGER_BYTES_MAX, 7):
        if at >= len(block):
            break
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
    raise NotFields


def _text(block: bytes, at: int) -> tuple[int, int]:
    """At most how long a text is, and where it ends."""
    if at >= len(block):
        raise NotFields
    coded = bool(block[at] & 0x80)
    length, at = _integer(block, at, 7)
    if at + length > len(block):
        raise NotFields
    return (length * 8 // 5 if coded else length), at + length
