"""A private root for a mount namespace: read-only system directories on an empty tmpfs.

It shows `/usr` and its links, the requested directories at their own paths (their parents contain
nothing else), five harmless devices, and empty directories as mount points for a box. No other file
of the host remains in the namespace, so nothing has to be hidden.

Loaded by the zygote: standard library only, and little of it.
"""

import errno
import os
from collections.abc import Sequence
from typing import Final

from assay.sandbox import linux

_SYSTEM_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_FILES: Final = ("/etc/alternatives", "/etc/ld.so.cache")
DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_TEMPLATE: Final = "/tmp"
_COVERED: Final = ("/tmp", "/box", "/scratch", "/shown", "/proc", "/dev/shm")
"""Directories that a box mounts on or uses itself."""
_TASK_DIRECTORIES: Final = ("app", "tests", "solution", "logs")
"""In a box, links to directories of these names in `/box`."""
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


def _show_system() -> None:
    _show("/usr")
    for name in _SYSTEM_LINKS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{_TEMPLATE}/{name}")
        elif os.path.isdir(f"/{name}"):
            _show(f"/{name}")
    for path in _SYSTEM_FILES:
        if os.path.exists(path):
            _show(path)


def _is_covered(path: str) -> bool:
    return any(f"{path}/".startswith(f"{covered}/") for covered in _COVERED)


def _show_directories(sources: dict[str, int], *, for_boxes: bool) -> list[tuple[str, str]]:
    """Bind open directories at their own paths; returns those that boxes cover, bound elsewhere.

    Raises:
        OSError: a directory cannot be shown; the message names it.
    """
    covered = []
    for number, (path, source) in enumerate(sources.items()):
        targets = [_TEMPLATE + path]
        if for_boxes and _is_covered(path):
            if path in _COVERED:
                raise OSError(errno.EINVAL, f"a box cannot show {path}: it has its own")
            targets.append(f"{_TEMPLATE}/shown/{number}")
            covered.append((f"/shown/{number}", path))
        for target in targets:
            if not os.path.isdir(target):
                os.makedirs(target)
            linux.mount(f"/proc/self/fd/{source}", target, flags=linux.MS_BIND | linux.MS_REC)
            linux.protect_mounts(target, _PROTECTED | linux.MOUNT_ATTR_NODEV)
        os.close(source)
    return covered


def show_device(name: str, target: str) -> None:
    """Bind a device of the host read-only: the device stays writable, but its node, which belongs
    to the host, cannot be changed."""
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    linux.mount(f"/dev/{name}", target, flags=linux.MS_BIND)
    linux.protect_mounts(target, _PROTECTED)


def _show_devices(more: Sequence[str], *, for_boxes: bool) -> None:
    for name in (*DEVICES, *more):
        show_device(name, f"{_TEMPLATE}/dev/{name}")
    os.symlink("/proc/self/fd", f"{_TEMPLATE}/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{_TEMPLATE}/dev/{name}")
    if for_boxes:
        os.symlink("../tmp", f"{_TEMPLATE}/dev/shm")


def _link_task_directories() -> None:
    """Graders of tasks that were written for containers use these paths."""
    for name in _TASK_DIRECTORIES:
        if not os.path.lexists(f"{_TEMPLATE}/{name}"):  # a directory of the host may be shown there
            os.symlink(f"box/{name}", f"{_TEMPLATE}/{name}")


def enter(
    readable: Sequence[str], *, for_boxes: bool, devices: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Build the root and move this mount namespace, which must be private, into it.

    Args:
        readable: directories to show in addition to the system's.
        devices: files in `/dev` to show in addition to the harmless ones.
        for_boxes: create mount points for boxes, and show the current `/proc`, writable if it is.

    Returns:
        Source and target of each directory that a box must bind again because its own mounts cover
            it.
    """
    # Opened before the template's mount point covers them.
    sources = {path: os.open(path, os.O_PATH) for path in readable}
    linux.mount("root", _TEMPLATE, "tmpfs", linux.MS_NOSUID, "size=1m,nr_inodes=512,mode=0755")
    for name in ("box", "tmp", "scratch", "proc", "dev", "etc"):
        os.mkdir(f"{_TEMPLATE}/{name}", 0o755)
    _show_system()
    _show_devices(devices, for_boxes=for_boxes)
    covered = _show_directories(sources, for_boxes=for_boxes)
    if for_boxes:
        _link_task_directories()
        linux.mount("/proc", f"{_TEMPLATE}/proc", flags=linux.MS_BIND | linux.MS_REC)
    linux.pivot_root(_TEMPLATE)
    linux.mount("", "/", flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID)
    return covered
