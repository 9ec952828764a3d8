"""What a box and its launcher say to each other, and the instants that go with it.

The launcher sends one request; the box reports `started`, then `ended`, or `failed`. Loaded by the
zygote: standard library only, and little of it.
"""

import marshal
import os
import resource
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from assay.sandbox.accounting import blocked

FILTER: Final = "@filter"
"""Placeholder in bubblewrap's arguments for the descriptor of the filter."""
STATUS: Final = "@status"
"""Placeholder for the descriptor that it reports to."""
_DESCRIPTORS_MAX: Final = 64
"""Maximum number of descriptors in one request."""
_PART_AT: Final = slice(24, 32)
"""Where a request says where its part for Python begins (`native/box.h`)."""
_DETAILS_MAX: Final = 8_000
_READINGS_MAX: Final = 16


class RunRequest:
    """One run, as the launcher sent it."""

    def __init__(self, header: dict[str, Any], descriptors: Sequence[int]) -> None:
        self.kind: str = header["kind"]
        self.argv: list[str] = header["argv"]
        self.env: dict[str, str] = header["env"]
        self.files: list[tuple[str, bytes, bool]] = header["files"]
        self.source: bytes = header["source"]
        self.limits: dict[str, int] = header["limits"]
        self.directory: str = header["directory"]
        """The box's working directory if there is no mount namespace with `/box`."""
        self.stdio = tuple(descriptors[:3])
        special = header["special"]
        self.special = tuple(descriptors[3 : 3 + special])
        """Channel and sealed data of a harness."""
        self.cgroup = tuple(descriptors[3 + special :])


def receive(box: socket.socket) -> RunRequest | None:
    """Wait for the request; `None` if the launcher closed the socket."""
    message, descriptors, _, _ = socket.recv_fds(box, 1, _DESCRIPTORS_MAX)
    if not message:
        return None
    return RunRequest(python_part(descriptors[0]), descriptors[1:])


def python_part(descriptor: int) -> Any:  # noqa: ANN401 - any form that `launchers.request` sends
    """Read and close a request; return its part for Python."""
    # Without file objects: they copy a dozen pages in a process that was just forked.
    head = os.pread(descriptor, _PART_AT.stop, 0)
    at = int.from_bytes(head[_PART_AT], sys.byteorder)
    part = os.pread(descriptor, os.fstat(descriptor).st_size - at, at)
    os.close(descriptor)
    return marshal.loads(part)  # noqa: S302 - it comes from the launcher, which is trusted


def python_request(part: bytes) -> bytes:
    """Return the content of a request that has only a part for Python."""
    at = _PART_AT.stop.to_bytes(_PART_AT.stop - _PART_AT.start, sys.byteorder)
    return bytes(_PART_AT.start) + at + part


def tell(box: socket.socket, what: str, details: str = "", descriptors: Sequence[int] = ()) -> None:
    """Send a report to the launcher: `started`, `ended ...` (`tell_end`) or `failed <reason>`."""
    message = f"{what} {details[-_DETAILS_MAX:]}".encode(errors="replace")
    socket.send_fds(box, [message], descriptors)


def tell_start(box: socket.socket, edge: blocked.Edge, descriptors: Sequence[int] = ()) -> None:
    """Report that the program, or the harness, has started."""
    tell(box, "started", blocked.words_of(edge), descriptors)


def tell_end(box: socket.socket, wait_status: int, edge: blocked.Edge) -> None:
    """Report how and when the program ended, with the usage of its reaped processes.

    The launcher needs their CPU time and memory only if no cgroup counts them.
    """
    cpu_ns = children_cpu_ns()
    resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    tell(box, "ended", f"{wait_status} {cpu_ns // 1_000} {resident} {blocked.words_of(edge)}")


def edge_of_harness() -> blocked.Edge:
    """Return the current state of this process as the beginning or end of a harness."""
    return edge_of_self(is_head=True, is_alone=False)


def edge_of_self(*, is_head: bool, is_alone: bool) -> blocked.Edge:
    """Return an instant and the counters of this process at that instant.

    A wait for a core between the two would count as blocked time, so they are read again after one.
    """
    booked = blocked.own_reading()
    for _ in range(_READINGS_MAX):
        at_ns, before = now_ns(), booked
        booked = blocked.own_reading()
        if booked.delayed_ns == before.delayed_ns:
            break
    return blocked.Edge(at_ns, booked, is_head=is_head, is_alone=is_alone)


def children_cpu_ns() -> int:
    """CPU time of all processes below this one that have been reaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def now_ns() -> int:
    """Return the monotonic clock."""
    return time.monotonic_ns()  # noqa: TID251 - no clock can be passed in here
