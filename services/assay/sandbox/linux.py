"""Linux calls that the sandbox needs and Python 3.11 does not provide.

Standard library only, and little of it: the zygote loads this file, and everything it loads makes
each fork slower. Every call raises `OSError` with the call's name if the kernel refuses it. Works
on x86_64 and aarch64.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Sequence
from typing import Final

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000
CLONE_PIDFD: Final = 0x0000_1000
CLONE_CHILD_CLEARTID: Final = 0x0020_0000
CLONE_CHILD_SETTID: Final = 0x0100_0000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2
MOUNT_ATTR_RDONLY: Final = 1
MOUNT_ATTR_NOSUID: Final = 2
MOUNT_ATTR_NODEV: Final = 4

RESOLVE_NO_XDEV: Final = 0x01
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_GET_TID_ADDRESS: Final = 40
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITIES: Final = 64
"""More than any kernel has; dropping a missing one ends the loop."""
_CAPABILITY_VERSION_3: Final = 0x2008_0522
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000

_AARCH64: Final = os.uname().machine == "aarch64"
_NR_CLONE: Final = 220 if _AARCH64 else 56
_NR_PIVOT_ROOT: Final = 41 if _AARCH64 else 155
_NR_CAPSET: Final = 91 if _AARCH64 else 126
_NR_SECCOMP: Final = 277 if _AARCH64 else 317
_SECCOMP_SET_MODE_FILTER: Final = 1
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1
_NR_OPENAT2: Final = 437
_NR_MOUNT_SETATTR: Final = 442

_libc = ctypes.CDLL(None, use_errno=True)
# Keeps the interpreter's lock: after `clone` the child must hold it as its parent did.
_libc_locked = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def _check(result: int, call: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")
    return result


def call(number: int, *arguments: object) -> int:
    """Make a system call that has the same number on both architectures."""
    return _check(_syscall(ctypes.c_long(number), *arguments), f"system call {number}")


def _prctl(option: int, value: int, call: str) -> None:
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), call)


def _tid_address() -> int | None:
    """Return the address where glibc stores this thread's id, so that a raw clone can update it."""
    address = ctypes.c_void_p()
    failed = _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0)
    return None if failed else address.value


def clone(flags: int) -> tuple[int, int]:
    """Fork directly into new namespaces; only from a process with one thread.

    Returns:
        The child's pid and a pidfd for it; (0, -1) in the child.
    """
    tid = _tid_address()
    flags |= CLONE_PIDFD | signal.SIGCHLD
    if tid is not None:
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
    pidfd = ctypes.c_int(-1)
    child_tid = ctypes.c_void_p(tid)
    no_tls = ctypes.c_void_p(0)
    last = (no_tls, child_tid) if _AARCH64 else (child_tid, no_tls)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc_locked.syscall(
        ctypes.c_long(_NR_CLONE),
        ctypes.c_ulong(flags),
        ctypes.c_void_p(0),
        ctypes.byref(pidfd),
        *last,
    )
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0, -1
    code = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(code, f"clone: {os.strerror(code)}")
    return pid, pidfd.value


def unshare(flags: int) -> None:
    """Move into new namespaces."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Call `mount(2)`."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {kind or 'bind'} on {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    """Call `umount2(2)`."""
    _check(_libc.umount2(target.encode(), ctypes.c_int(flags)), f"umount {target}")


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def protect_mounts(target: str, attributes: int) -> None:
    """Set attributes on a mount and on all mounts below it."""
    wanted = _MountAttributes(set=attributes)
    result = _syscall(
        ctypes.c_long(_NR_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        target.encode(),
        ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )
    _check(result, f"mount_setattr {target}")


def pivot_root(new_root: str) -> None:
    """Make `new_root` this mount namespace's root and unmount the old one."""
    os.chdir(new_root)
    _check(_syscall(ctypes.c_long(_NR_PIVOT_ROOT), b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def set_hostname(name: bytes) -> None:
    """Set the host name of this uts namespace."""
    _check(_libc.sethostname(name, ctypes.c_size_t(len(name))), "sethostname")


def die_with_parent() -> None:
    """Have this process killed when the parent thread ends. A later change of uid undoes it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def set_dumpable(*, dumpable: bool) -> None:
    """Set whether processes of the same uid may trace this one and read its `/proc` files."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable), "PR_SET_DUMPABLE")


def forbid_new_privileges() -> None:
    """Set-uid bits and file capabilities have no effect from here on."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop_capabilities() -> None:
    """Drop every capability from every set, permanently."""
    zero = ctypes.c_ulong(0)
    for capability in range(_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), zero, zero, zero):
            break
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL), zero, zero, zero)
    header = _CapabilityHeader(version=_CAPABILITY_VERSION_3, pid=0)
    nothing = (ctypes.c_uint32 * 6)()
    result = _syscall(ctypes.c_long(_NR_CAPSET), ctypes.byref(header), nothing)
    _check(result, "capset")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


class Filter:
    """A compiled seccomp filter in memory that the kernel can read."""

    def __init__(self, program: bytes) -> None:
        self.program = program
        self._code = ctypes.create_string_buffer(program, len(program))
        self._struct = _Program(len(program) // 8, ctypes.addressof(self._code))
        self.address = ctypes.addressof(self._struct)
        """Of the kernel's `sock_fprog`."""

    def apply(self) -> None:
        """Filter the calls of this thread and its descendants; `no_new_privs` must be set first."""
        zero = ctypes.c_ulong(0)
        result = _libc.prctl(
            _PR_SET_SECCOMP,
            ctypes.c_ulong(_SECCOMP_MODE_FILTER),
            ctypes.byref(self._struct),
            zero,
            zero,
        )
        _check(result, "PR_SET_SECCOMP")

    def apply_to_all_threads(self) -> None:
        """Filter the calls of every thread of this process."""
        result = _syscall(
            ctypes.c_long(_NR_SECCOMP),
            ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
            ctypes.c_uint(_SECCOMP_FILTER_FLAG_TSYNC),
            ctypes.byref(self._struct),
        )
        _check(result, "seccomp")


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: bytes, flags: int) -> int:
    """Open `path` below `directory` without following any link and without leaving it."""
    resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV
    how = _OpenHow(flags=flags | os.O_CLOEXEC, mode=0, resolve=resolve)
    result = _syscall(
        ctypes.c_long(_NR_OPENAT2),
        ctypes.c_int(directory),
        path,
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return _check(result, "openat2")


def close_all_but(keep: Sequence[int]) -> None:
    """Close every descriptor except `keep`."""
    low = 0
    for descriptor in sorted(set(keep)):
        if low < descriptor:  # an empty range would close everything
            os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, _DESCRIPTORS_MAX)


_DESCRIPTORS_MAX: Final = 1 << 20


SIGNALS_PENDING_MAX: Final = 512
"""Limit on queued signals and timers; counted per uid, so one box cannot use up its user's."""


def limit_kernel_objects() -> None:
    """Limit the objects that the kernel counts per user: locked memory, queues, signals."""
    limit(resource.RLIMIT_MEMLOCK, 0)
    limit(resource.RLIMIT_MSGQUEUE, 0)
    limit(resource.RLIMIT_SIGPENDING, SIGNALS_PENDING_MAX)


def limit(which: int, value: int) -> None:
    """Set a resource limit, soft and hard, no higher than the current hard limit."""
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))
