"""Sockets of this process by their descriptors, also those that a library opened for itself.

A descriptor may be closed, and its number used again, at any moment by another thread. So each look
takes a copy of it, and compares the inode where it matters which socket it is.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

BACKLOG: Final = 1_024
_TCP_INFO: Final = 11
_TCP_INFO_BYTES: Final = 136
_COUNTS_AT: Final = 120
"""Of `tcpi_bytes_acked` and `tcpi_bytes_received` in `struct tcp_info` (linux/tcp.h)."""
_libc = ctypes.CDLL(None, use_errno=True)

Peer = tuple[str, int]
"""Address and port of the other end."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Bytes of a connection, as the kernel counts them."""

    sent: int
    received: int


def descriptors() -> list[int]:
    """All that this process has open."""
    return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 no path per entry


def copied(descriptor: int) -> socket.socket:
    """A socket with a descriptor of its own.

    Raises:
        OSError: the descriptor is closed, or of no socket.
    """
    own = os.dup(descriptor)
    try:
        return socket.socket(fileno=own)
    except OSError:
        os.close(own)
        raise


def listens(connection: socket.socket) -> bool:
    """Whether connections arrive at it."""
    return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


@contextmanager
def while_same(descriptor: int, inode: int) -> Iterator[socket.socket]:
    """A copy of a descriptor while it is still that of the same socket.

    Raises:
        OSError: it is not any more.
    """
    with copied(descriptor) as copy:
        if os.fstat(copy.fileno()).st_ino != inode:
            raise OSError("the descriptor was used again")
        yield copy


def counts_of(descriptor: int) -> Counts | None:
    """What the kernel has counted of a connection; `None`: it is gone, or not counted."""
    info = ctypes.create_string_buffer(_TCP_INFO_BYTES)
    size = ctypes.c_uint(_TCP_INFO_BYTES)
    asked = _libc.getsockopt(descriptor, socket.IPPROTO_TCP, _TCP_INFO, info, ctypes.byref(size))
    if asked != 0 or size.value < _TCP_INFO_BYTES:
        return None
    sent, received = struct.unpack_from("=QQ", info, _COUNTS_AT)
    return Counts(sent=sent, received=received)


def reset(connection: socket.socket) -> None:
    """End a connection and drop what is unread, which `shutdown` would let gRPC read."""
    nowhere = struct.pack("=H14x", socket.AF_UNSPEC)
    _libc.connect(connection.fileno(), nowhere, len(nowhere))


def plain_host(host: str) -> str:
    """An address without what marks IPv4 in IPv6, and without a scope."""
    return host.removeprefix("::ffff:").partition("%")[0]


def peer_named(text: str) -> Peer:
    """`ipv4:127.0.0.1:80`, `ipv6:%5B::1%5D:80` -> address and port; another kind: port 0."""
    kind, _, rest = unquote(text).partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in {"ipv4", "ipv6"} or not port.isdigit():
        return text, 0
    return plain_host(host.strip("[]")), int(port)


def bound_socket(host: str, port: int, setting: str) -> socket.socket:
    """A socket that listens; `setting`: name of the port's, for errors.

    Raises:
        OSError: the port is taken, or the address is not of this machine.
    """
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    with ExitStack() as undo:
        # asyncio sets TCP_NODELAY only where the protocol of a socket is named; without it the body
        # of an answer waits until the caller has acknowledged its headers.
        kind = socket.SOCK_STREAM, socket.IPPROTO_TCP
        listener = undo.enter_context(socket.socket(family, *kind))
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((bare, port))
            listener.listen(BACKLOG)
            listener.settimeout(0)
        except OSError as error:
            message = f"{setting}: cannot listen on {host}:{port}: {error.strerror or error}"
            raise OSError(message) from error
        undo.pop_all()
    return listener
