"""Attacks of `benchmarks.tenants.interference` below the calls: frames and headers in bytes.

Those on HTTP/2 show no token: the transport reads frames and headers before any call is known.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.tenants.attacker import Attacker

WIDTH = 8
"""Connections of an attack at once."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION, UNKNOWN = (
    *(0, 1, 2, 3, 4, 6, 8, 9),
    0x55,
)
END_HEADERS = 4
END_STREAM = 1
ACK = 1
CANCEL = 8
EMPTY_SCORE = b"\x12\x04noop"
"""A `ScoreRequest` without requests."""
FIELD_BYTES = 4_000
FIELDS = 8_000
"""References to one field, in one block."""
NEWEST_FIELD = b"\xbe"
"""The field that was added to the connection's table last, as one byte (HPACK)."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame (RFC 9113, 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A field as HPACK writes it without a table."""
    return b"\x00" + _text(name) + _text(value)


def added(name: bytes, value: bytes) -> bytes:
    """A field that is added to the connection's table."""
    return b"\x40" + _text(name) + _text(value)


def _text(text: bytes) -> bytes:
    """A string of HPACK, its length as an integer with a prefix of seven bits."""
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, size = len(text) - 127, b"\x7f"
    while rest >= 128:
        size += bytes([rest % 128 + 128])
        rest //= 128
    return size + bytes([rest]) + text


def fields(token: str = "") -> bytes:
    """The header block of a call of `Score`."""
    pairs = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/assay.v1.RewardService/Score"),
        (b":authority", b"a"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]
    if token:
        pairs.append((b"authorization", token.encode()))
    return b"".join(literal(name, value) for name, value in pairs)


async def _on_http2(attacker: Attacker, pieces: Callable[[], Iterator[bytes]]) -> None:
    """Every second connection confirms the server's settings: before that, gRPC holds a client to
    none of them."""
    begun = PREFACE + frame(SETTINGS, 0, 0)
    begins = itertools.cycle((begun, begun + frame(SETTINGS, ACK, 0)))
    await attacker.again(WIDTH, lambda: attacker.flood(next(begins), pieces(), grpc_port=True))


def _streams() -> Iterator[int]:
    return itertools.count(1, 2)


# -- HTTP/2 ----------------------------------------------------------------------------------------
async def rapid_resets(attacker: Attacker) -> None:
    """Streams that are reset as soon as they are open, with a token."""
    block = fields(attacker.headers["authorization"])

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            reset = frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))
            yield frame(HEADERS, END_HEADERS, stream, block) + reset

    await _on_http2(attacker, pieces)


async def stranger_resets(attacker: Attacker) -> None:
    """The same without a token."""

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            reset = frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))
            yield frame(HEADERS, END_HEADERS, stream, fields()) + reset

    await _on_http2(attacker, pieces)


async def made_resets(attacker: Attacker) -> None:
    """Streams with a token that the server resets: window updates of nothing are an error."""
    block = fields(attacker.headers["authorization"])

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            yield frame(HEADERS, END_HEADERS, stream, block) + frame(
                WINDOW_UPDATE, 0, stream, bytes(4)
            )

    await _on_http2(attacker, pieces)


async def whole_resets(attacker: Attacker) -> None:
    """Calls with a token and a whole message that are reset at once."""
    block = fields(attacker.headers["authorization"])
    message = b"\x00" + len(EMPTY_SCORE).to_bytes(4, "big") + EMPTY_SCORE

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            yield (
                frame(HEADERS, END_HEADERS, stream, block)
                + frame(DATA, END_STREAM, stream, message)
                + frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))
            )

    await _on_http2(attacker, pieces)


async def refused_streams(attacker: Attacker) -> None:
    """Streams with a token beyond the number that a connection may have; none ends."""
    block = fields(attacker.headers["authorization"])

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            yield frame(HEADERS, END_HEADERS, stream, block)

    await _on_http2(attacker, pieces)


async def known_pings(attacker: Attacker) -> None:
    """PING frames on connections over which a call with a token came, and more such calls."""
    block = fields(attacker.headers["authorization"])

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            reset = frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))
            yield frame(HEADERS, END_HEADERS, stream, block) + reset
            yield frame(PING, 0, 0, b"12345678") * 5_000

    await _on_http2(attacker, pieces)


async def known_empty_frames(attacker: Attacker) -> None:
    """DATA frames of no length on a stream with a token."""
    block = fields(attacker.headers["authorization"])

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, END_HEADERS, 1, block)
        while True:
            yield frame(DATA, 0, 1) * 2_000

    await _on_http2(attacker, pieces)


async def h2_held_headers(attacker: Attacker) -> None:
    """512 connections with a header block that is begun and not ended."""
    begun = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 0, 1, fields())
    await attacker.again(
        512, lambda: attacker.drip(begun, frame(CONTINUATION, 0, 1), 1.0, grpc_port=True)
    )


async def h2_window_updates(attacker: Attacker) -> None:
    """WINDOW_UPDATE frames of the connection and of a stream."""

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, END_HEADERS, 1, fields())
        one = frame(WINDOW_UPDATE, 0, 1, (1).to_bytes(4, "big"))
        while True:
            yield (one + frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big"))) * 1_000

    await _on_http2(attacker, pieces)


async def h2_priorities(attacker: Attacker) -> None:
    """PRIORITY frames of streams that are not open."""

    def pieces() -> Iterator[bytes]:
        while True:
            yield b"".join(
                frame(PRIORITY, 0, stream, bytes(4) + b"\x01") for stream in range(3, 4_003, 2)
            )

    await _on_http2(attacker, pieces)


async def h2_headers(attacker: Attacker) -> None:
    """Blocks of 8 KB that name one field of 4,000 bytes 8,000 times."""
    large = added(b"x-large", b"a" * FIELD_BYTES)

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            block = fields() + (large if stream == 1 else b"") + NEWEST_FIELD * FIELDS
            yield frame(HEADERS, END_HEADERS, stream, block)

    await _on_http2(attacker, pieces)


async def h2_small_headers(attacker: Attacker) -> None:
    """The same with fields of no length, which are as many as a limit of bytes permits."""
    small = added(b"x", b"")

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            block = fields() + (small if stream == 1 else b"") + NEWEST_FIELD * FIELDS
            yield frame(HEADERS, END_HEADERS, stream, block)

    await _on_http2(attacker, pieces)


async def h2_large_headers(attacker: Attacker) -> None:
    """Blocks of 14 KB without repetition."""
    block = fields() + b"".join(literal(b"x-%d" % i, b"v" * 2_000) for i in range(7))

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            yield frame(HEADERS, END_HEADERS, stream, block)

    await _on_http2(attacker, pieces)


async def h2_endless_headers(attacker: Attacker) -> None:
    """A header block that never ends: full CONTINUATION frames, and empty ones."""
    full = b"".join(literal(b"x-%d" % i, b"v" * 1_000) for i in range(15))

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, 0, 1, fields())
        for turn in itertools.count():
            yield frame(CONTINUATION, 0, 1, full) + frame(CONTINUATION, 0, 1) * (turn % 2_000)

    await _on_http2(attacker, pieces)


async def h2_endless_fields(attacker: Attacker) -> None:
    """A header block that never ends, of CONTINUATION frames that name one field 8,000 times."""

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, 0, 1, fields() + added(b"x", b""))
        while True:
            yield frame(CONTINUATION, 0, 1, NEWEST_FIELD * FIELDS)

    await _on_http2(attacker, pieces)


async def h2_empty_frames(attacker: Attacker) -> None:
    """DATA frames of no length on one stream."""

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, END_HEADERS, 1, fields())
        while True:
            yield frame(DATA, 0, 1) * 2_000

    await _on_http2(attacker, pieces)


async def h2_empty_continuations(attacker: Attacker) -> None:
    """CONTINUATION frames of no length, in a header block that never ends."""

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, 0, 1, fields())
        while True:
            yield frame(CONTINUATION, 0, 1) * 2_000

    await _on_http2(attacker, pieces)


async def h2_ping(attacker: Attacker) -> None:
    """PING frames, each of which asks for an answer."""

    def pieces() -> Iterator[bytes]:
        while True:
            yield frame(PING, 0, 0, b"12345678") * 500

    await _on_http2(attacker, pieces)


async def h2_settings(attacker: Attacker) -> None:
    """SETTINGS frames, each of which asks for an answer."""
    window = (4).to_bytes(2, "big") + (65_535).to_bytes(4, "big")

    def pieces() -> Iterator[bytes]:
        while True:
            yield frame(SETTINGS, 0, 0, window * 50) * 100

    await _on_http2(attacker, pieces)


async def h2_control_frames(attacker: Attacker) -> None:
    """WINDOW_UPDATE, PRIORITY and frames of an unknown kind, which ask for nothing."""

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, END_HEADERS, 1, fields())
        one = (1).to_bytes(4, "big")
        some = (
            frame(WINDOW_UPDATE, 0, 1, one),
            frame(PRIORITY, 0, 3, bytes(4) + b"\x01"),
            frame(UNKNOWN, 0xFF, 7, b"z" * 100),
        )
        for turn in itertools.count():
            yield some[turn % len(some)] * 1_000

    await _on_http2(attacker, pieces)


async def h2_lied_sizes(attacker: Attacker) -> None:
    """Messages that say they have 4 GiB, of which 10 KB come, on every stream there may be."""
    begun = b"\x00\xff\xff\xff\xff" + b"a" * 10_000

    def pieces() -> Iterator[bytes]:
        for stream in itertools.islice(_streams(), 256):
            yield frame(HEADERS, END_HEADERS, stream, fields()) + frame(DATA, 0, stream, begun)

    await _on_http2(attacker, pieces)


async def known_fields(attacker: Attacker) -> None:
    """Blocks as of `h2_small_headers`, each with a token, after a call with one that has few."""
    block = fields(attacker.headers["authorization"])

    def pieces() -> Iterator[bytes]:
        yield frame(HEADERS, END_HEADERS, 1, block + added(b"x", b""))
        for stream in itertools.count(3, 2):
            yield frame(HEADERS, END_HEADERS, stream, block + NEWEST_FIELD * FIELDS)

    await _on_http2(attacker, pieces)


async def known_most_fields(attacker: Attacker) -> None:
    """Calls with a token and as many fields as may be, which refer to as much as may be."""
    block = fields(attacker.headers["authorization"])
    more = NEWEST_FIELD * 110

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            add = added(b"x", b"a" * 150) if stream == 1 else b""
            yield frame(HEADERS, END_HEADERS, stream, block + add + more)

    await _on_http2(attacker, pieces)


async def refused_crowd(attacker: Attacker) -> None:
    """The same on 64 connections, each with as many streams as it may have; none ends."""
    block = fields(attacker.headers["authorization"])
    first = frame(HEADERS, END_HEADERS, 1, block + added(b"x", b"a" * 150))

    def pieces() -> Iterator[bytes]:
        yield first
        for stream in itertools.islice(itertools.count(3, 2), 255):
            yield frame(HEADERS, END_HEADERS, stream, block + NEWEST_FIELD * 110)

    begun = PREFACE + frame(SETTINGS, 0, 0)
    await attacker.again(64, lambda: attacker.flood(begun, pieces(), grpc_port=True))


async def stranger_crowd(attacker: Attacker) -> None:
    """500 connections without a token, each with eight calls that do not end."""

    def pieces() -> Iterator[bytes]:
        for stream in itertools.islice(_streams(), 8):
            yield frame(HEADERS, END_HEADERS, stream, fields())

    begun = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)
    await attacker.again(500, lambda: attacker.flood(begun, pieces(), grpc_port=True))


async def h2_table_sizes(attacker: Attacker) -> None:
    """Blocks that change the size of the table 110 times, to nothing and back."""
    changes = b"\x20\x3f\xe1\x1f" * 55

    def pieces() -> Iterator[bytes]:
        for stream in _streams():
            yield frame(HEADERS, END_HEADERS, stream, changes + fields())

    await _on_http2(attacker, pieces)


# -- HTTP/1 ----------------------------------------------------------------------------------------
async def h1_chunk_extensions(attacker: Attacker) -> None:
    """Chunks of one byte, each with 4 KB of extensions, with a token."""
    head = attacker.head("POST /v1/score", "transfer-encoding: chunked")
    chunk = b"1;" + b"e" * 4_000 + b"\r\n[\r\n"
    await attacker.again(64, lambda: attacker.flood(head, itertools.repeat(chunk * 20)))


async def h1_largest_heads(attacker: Attacker) -> None:
    """Requests with as many and as large headers as are accepted, one after the other."""
    more = [f"x-{index}: {'v' * 450}" for index in range(120)]
    request = attacker.head("GET /v1/pipelines", *more)
    await attacker.again(64, lambda: attacker.flood(b"", itertools.repeat(request)))


async def h1_trailers(attacker: Attacker) -> None:
    """Bodies that end, and trailers that do not."""
    head = attacker.head("POST /v1/score", "transfer-encoding: chunked")
    trailers = b"t: aaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 500
    begun = head + b"1\r\n[\r\n0\r\n"
    await attacker.again(64, lambda: attacker.flood(begun, itertools.repeat(trailers)))


async def h1_two_lengths(attacker: Attacker) -> None:
    """Requests whose length can be read in two ways, each with a second request inside."""
    inside = b"GET /v1/pipelines HTTP/1.1\r\nhost: a\r\n\r\n"
    ways = (
        ("content-length: 5", "transfer-encoding: chunked"),
        ("content-length: 5", "content-length: 50"),
        ("transfer-encoding: xchunked", "content-length: 5"),
        ("transfer-encoding: chunked, identity",),
        ("transfer-encoding: identity", "transfer-encoding: chunked"),
        ("content-length: +5",),
        ("content-length : 5",),
    )
    bodies = [attacker.head("POST /v1/score", *way) + b"0\r\n\r\n" + inside for way in ways]
    turn = itertools.cycle(bodies)
    await attacker.again(64, lambda: attacker.flood(next(turn), iter(())))


STRANGER_HEAD = b"POST /v1/score HTTP/1.1\r\nhost: a\r\n"


async def h1_stranger_requests(attacker: Attacker) -> None:
    """Requests without a token, many in a packet, on 64 connections."""
    request = STRANGER_HEAD + b"content-length: 0\r\n\r\n"
    await attacker.again(64, lambda: attacker.flood(b"", itertools.repeat(request * 7)))


async def h1_stranger_chunks(attacker: Attacker) -> None:
    """Bodies without a token, in chunks of 17 bytes."""
    head = STRANGER_HEAD + b"transfer-encoding: chunked\r\n\r\n"
    chunks = b"11\r\n" + b"a" * 17 + b"\r\n"
    await attacker.again(64, lambda: attacker.flood(head, itertools.repeat(chunks * 500)))


async def h1_slow_heads(attacker: Attacker) -> None:
    """Heads without an end, one header at a time, on 512 connections."""
    await attacker.again(512, lambda: attacker.drip(STRANGER_HEAD, b"x: y\r\n", 0.1))


TRANSPORT_ATTACKS: tuple[Callable[[Attacker], Awaitable[None]], ...] = (
    rapid_resets,
    stranger_resets,
    made_resets,
    whole_resets,
    refused_streams,
    known_pings,
    known_empty_frames,
    h2_held_headers,
    h2_window_updates,
    h2_priorities,
    h2_headers,
    h2_small_headers,
    h2_large_headers,
    h2_endless_headers,
    h2_endless_fields,
    h2_empty_frames,
    h2_empty_continuations,
    h2_ping,
    h2_settings,
    h2_control_frames,
    h2_lied_sizes,
    known_fields,
    known_most_fields,
    refused_crowd,
    stranger_crowd,
    h2_table_sizes,
    h1_stranger_requests,
    h1_stranger_chunks,
    h1_slow_heads,
    h1_chunk_extensions,
    h1_largest_heads,
    h1_trailers,
    h1_two_lengths,
)
