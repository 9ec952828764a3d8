"""The zygote's side of the C code that forks boxes and is their pid 1 (`sandbox/native/box.h`).

Loaded by the zygote: standard library only, and little of it.
"""

import ctypes
import os
from array import array
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from assay.sandbox import linux
from assay.sandbox.box.channel import python_part

_LIBRARY: Final = "native/libassay_box.so"
_ABI: Final = 2
_DESCRIPTORS_MAX: Final = 64
ZYGOTE, PROGRAM, HEAD = range(3)
_NETWORKS_KEPT_MAX: Final = 16


class _Zygote(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("user", ctypes.c_int32),
        ("outside", ctypes.c_int32),
        ("control", ctypes.c_int32),
        ("home", ctypes.c_int32),
        ("filter", ctypes.c_void_p),
        ("covered", ctypes.c_char_p),
        ("signals_pending_max", ctypes.c_uint64),
    )


class _Result(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_int32),
        ("pidfd", ctypes.c_int32),
        ("channel", ctypes.c_int32),
        ("request", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("descriptors", ctypes.c_int32 * _DESCRIPTORS_MAX),
        ("failure", ctypes.c_char * 128),
    )


class Spawned(NamedTuple):
    """Which process returned, and with what."""

    role: int
    pid: int = 0
    pidfd: int = -1
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


class Networks:
    """Network namespaces without interfaces, which belong to the zygote; a box borrows one.

    To create and remove one takes more time than all other namespaces of a box together. One serves
    again only when its box is dead and the kernel counts no socket in it: a program can change
    nothing else there, as it has no rights over it.
    """

    def __init__(self, library: ctypes.PyDLL) -> None:
        # One of the zygote's own: without privileges it could not come back to the host's.
        linux.unshare(linux.CLONE_NEWNET)
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._new = library.assay_box_network
        self._new.argtypes = (ctypes.c_void_p,)
        self._is_unused = library.assay_box_network_is_unused
        self._is_unused.argtypes = (ctypes.c_void_p, ctypes.c_int32)
        self._free: list[int] = []
        self._lent: dict[int, int] = {}
        """Of each box, by its pidfd."""

    def descriptors(self) -> list[int]:
        """All that the zygote holds open here."""
        return [self.home, *self._free, *self._lent.values()]

    def take(self, zygote_at: int) -> int:
        """Return a namespace that no one uses.

        Raises:
            OSError: the kernel refuses.
        """
        if self._free:
            return self._free.pop()
        network: int = self._new(zygote_at)
        if network < 0:
            raise OSError(-network, f"network namespace: {os.strerror(-network)}")
        return network

    def lend(self, network: int, pidfd: int) -> None:
        """Note which box has a namespace."""
        self._lent[pidfd] = network

    def give_back(self, zygote_at: int, pidfd: int) -> None:
        """Keep the namespace of a dead box for the next one, if nothing is left in it."""
        network = self._lent.pop(pidfd)
        if len(self._free) < _NETWORKS_KEPT_MAX and self._is_unused(zygote_at, network):
            self._free.append(network)
        else:
            os.close(network)


class Boxes:
    """Forks boxes."""

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
    ) -> None:
        self._before_fork = ctypes.pythonapi.PyOS_BeforeFork
        self._after_fork = ctypes.pythonapi.PyOS_AfterFork_Parent
        self._after_fork_in_child = ctypes.pythonapi.PyOS_AfterFork_Child
        self._spawn = library.assay_box_spawn
        number, pointer = ctypes.c_int32, ctypes.c_void_p
        self._spawn.argtypes = (pointer, number, pointer, number, pointer)
        self._networks = Networks(library)
        paths = [os.fsencode(path) for pair in covered for path in pair]
        self._filter = filter_
        self._zygote = _Zygote(
            flags=flags & ~linux.CLONE_NEWNET,
            home=self._networks.home,
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

    def spawn(self, others: Collection[int]) -> Spawned:
        """Fork a box that closes `others`, and hand it to the launcher.

        Raises:
            OSError: in the zygote: the kernel refuses.
        """
        network = self._networks.take(self._at)
        numbers = array("i", [network, *others, *self._networks.descriptors()])
        at, count = numbers.buffer_info()
        self._before_fork()
        role = self._spawn(self._at, network, at, count, self._result_at)
        if role in {PROGRAM, HEAD}:
            self._after_fork_in_child()
        else:
            self._after_fork()
        found = self._result
        if role == PROGRAM:
            return Spawned(role, run=python_part(found.request))
        if role == HEAD:
            descriptors = tuple(found.descriptors[: found.count])
            return Spawned(role, channel=found.channel, descriptors=descriptors)
        if role != ZYGOTE:
            os.close(network)
            raise OSError(-role, f"{found.failure.decode()}: {os.strerror(-role)}")
        self._networks.lend(network, found.pidfd)
        return Spawned(role, found.pid, found.pidfd)

    def ended(self, pidfd: int) -> None:
        """A box is dead and reaped; called before its pidfd is closed."""
        self._networks.give_back(self._at, pidfd)
