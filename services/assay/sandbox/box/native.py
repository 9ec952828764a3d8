"""The zygote's side of the C code that forks boxes and is their pid 1 (`sandbox/native/box.h`).

Loaded by the zygote: standard library only, and little of it.
"""

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from assay.sandbox import linux
from assay.sandbox.box.channel import python_part

_LIBRARY: Final = "native/libassay_box.so"
_ABI: Final = 5
_DESCRIPTORS_MAX: Final = 64
ZYGOTE, PROGRAM, HEAD = range(3)


class _Zygote(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("user", ctypes.c_int32),
        ("outside", ctypes.c_int32),
        ("control", ctypes.c_int32),
        ("home", ctypes.c_int32),
        ("init", ctypes.c_int32),
        ("filter", ctypes.c_void_p),
        ("covered", ctypes.c_char_p),
        ("signals_pending_max", ctypes.c_uint64),
    )


class _Result(ctypes.Structure):
    _fields_ = (
        ("channel", ctypes.c_int32),
        ("request", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("descriptors", ctypes.c_int32 * _DESCRIPTORS_MAX),
        ("failure", ctypes.c_char * 128),
    )


class Served(NamedTuple):
    """Which process returned, and with what."""

    role: int
    channel: int = -1
    descriptors: tuple[int, ...] = ()
    run: Any = None
    """In the program's process: what to run."""


def load() -> ctypes.PyDLL | None:
    """Return the library; `None` if it was not built, or is another version's."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), _LIBRARY)
    try:
        # Keeps the interpreter's lock: after the fork the child must hold it as its parent did.
        library = ctypes.PyDLL(path)
        return library if library.assay_box_abi() == _ABI else None
    except (OSError, AttributeError):
        return None


class Boxes:
    """Forks boxes in C until the launcher wants no more."""

    def __init__(
        self,
        library: ctypes.PyDLL,
        *,
        flags: int,
        user: int,
        outside: int,
        control: int,
        filter_: linux.Filter,
        covered: Sequence[tuple[str, str]],
        apart: bool,
    ) -> None:
        self._before_fork = ctypes.pythonapi.PyOS_BeforeFork
        self._after_fork = ctypes.pythonapi.PyOS_AfterFork_Parent
        self._after_fork_in_child = ctypes.pythonapi.PyOS_AfterFork_Child
        self._gather = library.assay_box_gather
        self._serve = library.assay_box_serve
        self._serve.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        # One of the zygote's own: without privileges it could not come back to the host's.
        linux.unshare(linux.CLONE_NEWNET)
        paths = [os.fsencode(path) for pair in covered for path in pair]
        self._filter = filter_
        self._zygote = _Zygote(
            flags=flags & ~linux.CLONE_NEWNET,
            home=os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC),
            init=library.assay_box_init() if apart else -1,
            user=user,
            outside=outside,
            control=control,
            filter=filter_.address,
            covered=b"".join(path + b"\0" for path in paths) + b"\0",
            signals_pending_max=linux.SIGNALS_PENDING_MAX,
        )
        self._result = _Result()
        self._at = ctypes.addressof(self._zygote)
        self._result_at = ctypes.addressof(self._result)

    def gather_memory(self) -> None:
        """Make the memory of this process cheaper to fork; everything is loaded."""
        self._gather()

    def serve(self) -> Served:
        """Fork boxes and reap them; returns in each that needs Python, and once in the zygote.

        Raises:
            OSError: in the zygote: the kernel refuses a box.
        """
        # The interpreter's state before and after a fork; between the two, no Python runs here.
        self._before_fork()
        role = self._serve(self._at, self._result_at)
        if role == HEAD:
            self._after_fork_in_child()
        else:
            # A program too is what the zygote was: one thread, which holds what it held. What the
            # interpreter does in a child, for locks of threads that are gone, writes to 130 pages.
            self._after_fork()
        found = self._result
        if role == PROGRAM:
            return Served(role, run=python_part(found.request))
        if role == HEAD:
            descriptors = tuple(found.descriptors[: found.count])
            return Served(role, channel=found.channel, descriptors=descriptors)
        if role != ZYGOTE:
            raise OSError(-role, f"{found.failure.decode()}: {os.strerror(-role)}")
        return Served(role)
