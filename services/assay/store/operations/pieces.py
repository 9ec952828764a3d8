"""Long values, sent and read in pieces, so that no single call holds the server for long."""

import secrets
from collections.abc import Sequence
from typing import Final

from assay.store.link import Link

PIECE_BYTES: Final = 512 * 1024
"""Bytes of a long value that one call carries."""
KEPT_S: Final = 120
"""How long a value that was sent waits for the call that uses it."""


async def send(link: Link, content: bytes) -> str:
    """Store the content under a temporary key, which a later call renames; returns the key."""
    trial = link.key("up", secrets.token_hex(16))
    await link.call("SET", trial, content[:PIECE_BYTES], "EX", KEPT_S)
    for first in range(PIECE_BYTES, len(content), PIECE_BYTES):
        await link.call("APPEND", trial, content[first : first + PIECE_BYTES])
    return trial


async def read(link: Link, key: str) -> Sequence[bytes]:
    """The pieces of a value; of several, some are missing if the key was dropped meanwhile."""
    pieces: list[bytes] = []
    while not pieces or len(pieces[-1]) == PIECE_BYTES:
        first = len(pieces) * PIECE_BYTES
        pieces.append(await link.call("GETRANGE", key, first, first + PIECE_BYTES - 1))
    return pieces
