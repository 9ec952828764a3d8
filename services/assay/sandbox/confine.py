"""Drops, from inside the process, the rights that a warm reader of hostile text does not need.

This is not a sandbox for code. It is a second layer around trusted code (a parser, a symbolic
solver) in case hostile text exploits it. Open pipes and sockets stay usable. After the call the
process cannot start programs, open sockets, write files, read files other than Python's and the
system's libraries, or change back to another uid. Rights that could not be dropped are reported,
not raised.
"""

import contextlib
import ctypes
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.config.settings import SandboxSettings
from assay.sandbox import linux
from assay.sandbox.box import root
from assay.sandbox.seccomp import compile_filter
from assay.sandbox.uid_claim import UidClaim

_held: list[UidClaim] = []
"""Uid claims, held for the life of the process."""

_SHOWN_ANYWAY: Final = ("/usr", "/lib", "/lib32", "/lib64", "/libx32")
_NR_LANDLOCK_CREATE_RULESET: Final = 444
_NR_LANDLOCK_ADD_RULE: Final = 445
_NR_LANDLOCK_RESTRICT_SELF: Final = 446
_RULE_PATH_BENEATH: Final = 1
_ACCESS_ALL: Final = (1 << 13) - 1
"""Access rights of Landlock ABI 1: execute, write, read, and 10 that create or remove."""
_ACCESS_READ: Final = (1 << 2) | (1 << 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The restrictions that `confine_process` put in force."""

    uid: int
    """The process's uid now; never 0."""
    network: bool
    """In a separate network namespace without any interface."""
    files: bool
    """Landlock allows only reading libraries."""
    seccomp: bool
    """The system call filter is on: no programs, no sockets, no tracing, no namespaces."""
    missing: tuple[str, ...]
    """Restrictions that failed, with the reasons."""


def confine_process(
    settings: SandboxSettings,
    *,
    memory_bytes: int = 0,
    fork_allowed: bool = False,
    readable: tuple[Path, ...] = (),
) -> Confinement:
    """Drop the rights that a reader of text does not need; call it once, warm, with one thread.

    Args:
        settings: names the first unprivileged uid.
        memory_bytes: limit on private memory; 0 leaves it unchanged.
        fork_allowed: still allow forking (never starting programs).
        readable: directories that stay readable in addition to Python's path and `/usr`.

    Raises:
        OSError: the process is root and could not drop it.
    """
    missing: list[str] = []
    shown = _readable(readable)
    uid = _claim_uid(settings) if os.geteuid() == 0 else os.geteuid()
    was_readable = [path for path in sorted(shown) if os.access(path, os.R_OK)]
    network = _attempt("network", _leave_network, missing)
    if os.geteuid() == 0:
        _attempt("root directory", lambda: _leave_files(shown), missing)
        _leave_root(uid)
    linux.drop_capabilities()
    linux.forbid_new_privileges()
    files = _attempt("files", lambda: _landlock(shown), missing)
    linux.limit(resource.RLIMIT_CORE, 0)
    linux.limit_kernel_objects()
    if memory_bytes:
        linux.limit(resource.RLIMIT_DATA, memory_bytes)
    program = compile_filter(exec_allowed=False, fork_allowed=fork_allowed, sockets_allowed=False)
    seccomp = _attempt("seccomp", linux.Filter(program).apply_to_all_threads, missing)
    missing += _unreadable(was_readable)
    return Confinement(
        uid=os.geteuid(),
        network=network,
        files=files,
        seccomp=seccomp,
        missing=tuple(missing),
    )


def _attempt(name: str, act: Callable[[], None], missing: list[str]) -> bool:
    try:
        act()
    except OSError as error:
        missing.append(f"{name}: {error}")
        return False
    return True


def _leave_network() -> None:
    if os.geteuid() == 0:
        linux.unshare(linux.CLONE_NEWNET)
    else:
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNET)


def _leave_files(shown: set[str]) -> None:
    """Move into a root with libraries only; they stay readable with any modes of their parents."""
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    wanted = {os.path.abspath(path) for path in shown if os.path.isdir(path)}
    # Python opens them by the names that it has, links included.
    wanted |= {os.path.realpath(path) for path in wanted}
    own = [path for path in sorted(wanted) if not _is_shown_anyway(path)]
    root.enter(own, for_boxes=False)


def _is_shown_anyway(path: str) -> bool:
    return path == "/dev" or any(f"{path}/".startswith(f"{shown}/") for shown in _SHOWN_ANYWAY)


def _unreadable(paths: list[str]) -> list[str]:
    """Files that the process needs but can no longer read, for example because of its new uid."""
    missing = []
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            missing.append(f"{path}: {error.strerror}")
    return missing


def _claim_uid(settings: SandboxSettings) -> int:
    """A uid that no other process of this host uses. It is claimed before leaving the host's
    network namespace, whose socket names distinguish the launchers."""
    claim = UidClaim()
    _held.append(claim)
    return settings.uid + claim.number


def _leave_root(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _readable(more: tuple[Path, ...]) -> set[str]:
    system = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev")
    return {*system, sys.prefix, sys.base_prefix, *sys.path, *(str(path) for path in more)}


class _Ruleset(ctypes.Structure):
    _fields_ = (("access", ctypes.c_uint64),)


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("directory", ctypes.c_int32))


def _landlock(readable: set[str]) -> None:
    """Deny every file access except reading below `readable`."""
    wanted = _Ruleset(access=_ACCESS_ALL)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    no_flags = ctypes.c_uint32(0)
    ruleset = linux.call(_NR_LANDLOCK_CREATE_RULESET, ctypes.byref(wanted), size, no_flags)
    try:
        for path in readable:
            with contextlib.suppress(FileNotFoundError, PermissionError):
                _allow_reading(ruleset, path)
        linux.call(_NR_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), no_flags)
    finally:
        os.close(ruleset)


def _allow_reading(ruleset: int, path: str) -> None:
    if not path:
        return
    directory = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        access = _ACCESS_READ if os.path.isdir(path) else _ACCESS_READ & ~(1 << 3)
        rule = _PathRule(access=access, directory=directory)
        linux.call(
            _NR_LANDLOCK_ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(directory)
