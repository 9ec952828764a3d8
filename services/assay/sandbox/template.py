"""A root of its own for a mount namespace: read-only system directories on an empty tmpfs.

It shows `/usr` and what belongs to it, the directories asked for at their own paths (their parents
hold nothing else), five harmless devices, and empty directories for a box to mount on. Of the
host's other files nothing is left in the namespace, so that nothing has to be hidden.

Loaded by the zygote: standard library only, and little of it.
"""

import os
from collections.abc import Sequence
from typing import Final

from assay.sandbox import linux

_SYSTEM_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_FILES: Final = ("/etc/alternatives", "/etc/ld.so.cache")
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_TEMPLATE: Final = "/tmp"
_PROTECTED: Final = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID


def _show(path: str) -> None:
    """Bind a directory or file of the host into the template, read-only, at its own path."""
    target = _TEMPLATE + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    linux.mount(path, target, flags=linux.MS_BIND | linux.MS_REC)
    linux.protect_mounts(target, _PROTECTED)


def enter(readable: Sequence[str], *, proc: bool) -> list[tuple[str, str]]:
    """Build the root and move this mount namespace, which must be the caller's own, into it.

    Args:
        readable: directories to show, beside the system's.
        proc: show the `/proc` in force, writable where it is.

    Returns:
        For directories below `/tmp`, which each box covers with its own: where they are, and where
        the box must bind them.
    """
    covered = []
    sources = {path: os.open(path, os.O_PATH) for path in readable}
    linux.mount("root", _TEMPLATE, "tmpfs", linux.MS_NOSUID, "size=1m,nr_inodes=512,mode=0755")
    for name in ("box", "tmp", "scratch", "proc", "dev", "etc"):
        os.mkdir(f"{_TEMPLATE}/{name}", 0o755)
    _show("/usr")
    for name in _SYSTEM_LINKS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{_TEMPLATE}/{name}")
        elif os.path.isdir(f"/{name}"):
            _show(f"/{name}")
    for path in _SYSTEM_FILES:
        if os.path.exists(path):
            _show(path)
    for number, (path, source) in enumerate(sources.items()):
        target = _TEMPLATE + path
        if path.startswith("/tmp/"):
            target = f"{_TEMPLATE}/shown/{number}"
            covered.append((f"/shown/{number}", path))
        os.makedirs(target, exist_ok=True)
        linux.mount(f"/proc/self/fd/{source}", target, flags=linux.MS_BIND | linux.MS_REC)
        linux.protect_mounts(target, _PROTECTED | linux.MOUNT_ATTR_NODEV)
        os.close(source)
    for name in _DEVICES:
        os.close(os.open(f"{_TEMPLATE}/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
        linux.mount(f"/dev/{name}", f"{_TEMPLATE}/dev/{name}", flags=linux.MS_BIND)
    os.symlink("/proc/self/fd", f"{_TEMPLATE}/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{_TEMPLATE}/dev/{name}")
    os.symlink("/tmp", f"{_TEMPLATE}/dev/shm")
    if proc:
        linux.mount("/proc", f"{_TEMPLATE}/proc", flags=linux.MS_BIND | linux.MS_REC)
    linux.pivot_root(_TEMPLATE)
    linux.mount("", "/", flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID)
    return covered
