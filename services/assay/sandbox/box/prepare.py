"""The steps that set a box up, and that confine a process in it, before a program runs.

Loaded by the zygote: standard library only, and little of it.
"""

import os
import resource
from collections.abc import Sequence
from typing import Final

from assay.sandbox import linux

USER: Final = 1_000
"""uid and gid inside a box."""
SCRATCH: Final = "/scratch"
NAMESPACES: Final = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
_SCRATCH_FLAGS: Final = linux.MS_NOSUID | linux.MS_NODEV
_PROC_FLAGS: Final = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC


def join_cgroup(procs: Sequence[int]) -> None:
    """Move this process into the run's account."""
    for descriptor in procs:
        os.write(descriptor, b"0")
        os.close(descriptor)


def become(uid: int) -> None:
    """Change to `uid` permanently; this process dies with the zygote."""
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    linux.set_dumpable(dumpable=False)
    linux.die_with_parent()


def mount_proc() -> None:
    """Mount `/proc` with the processes of this pid namespace and nothing of the machine.

    `subset=pid` omits `/proc/sys`, `/proc/cmdline` and similar files; `hidepid` hides processes
    that the reader cannot trace, including pid 1.
    """
    linux.mount("proc", "/proc", "proc", _PROC_FLAGS, "subset=pid,hidepid=invisible")


def mount_scratch(limits: dict[str, int], shown: Sequence[tuple[str, str]]) -> None:
    """Mount a writable file system for this mount namespace, bounded in bytes and inodes.

    Args:
        limits: its bounds.
        shown: directories to show read-only below `/tmp`: source -> target.
    """
    bounds = f"size={limits['disk_bytes']},nr_inodes={limits['inodes'] + 4},mode=0755"
    linux.mount("scratch", SCRATCH, "tmpfs", _SCRATCH_FLAGS, bounds)
    for name in ("box", "tmp"):
        inside = f"{SCRATCH}/{name}"
        os.mkdir(inside, 0o755)
        linux.mount(inside, f"/{name}", flags=linux.MS_BIND)
    for source, target in shown:
        os.makedirs(target, exist_ok=True)
        linux.mount(source, target, flags=linux.MS_BIND | linux.MS_REC)


def write_files(directory: str, files: Sequence[tuple[str, bytes, bool]]) -> None:
    """Create the run's files; the launcher has checked that the names are plain."""
    for name, content, executable in files:
        path = f"{directory}/{name}"
        if "/" in name:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = 0o755 if executable else 0o644
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.close(descriptor)


def set_limits(limits: dict[str, int]) -> None:
    """Set the limits per process; the cgroup has those of the whole tree."""
    linux.limit(resource.RLIMIT_CORE, 0)
    linux.limit(resource.RLIMIT_CPU, limits["cpu_s"])
    linux.limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
    linux.limit(resource.RLIMIT_NOFILE, limits["open_files"])
    linux.limit(resource.RLIMIT_STACK, limits["stack_bytes"])
    linux.limit_kernel_objects()
    if limits["address_bytes"]:
        linux.limit(resource.RLIMIT_AS, limits["address_bytes"])
    if limits["processes"]:
        linux.limit(resource.RLIMIT_NPROC, limits["processes"])


def take_stdio(stdio: Sequence[int], keep: Sequence[int] = ()) -> None:
    """Make `stdio` 0, 1 and 2, and close all descriptors except these and `keep`."""
    for number, descriptor in enumerate(stdio):
        os.dup2(descriptor, number)
    linux.close_all_but([0, 1, 2, *keep])


def give_up(filter_: linux.Filter) -> None:
    """Drop capabilities, the means to regain them, and the denied system calls."""
    linux.drop_capabilities()
    linux.forbid_new_privileges()
    filter_.apply()


def be_first_out_of_memory() -> None:
    """Make the out-of-memory killer prefer the program to pid 1; no effect without `/proc`."""
    linux.set_dumpable(dumpable=True)
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:
        return
    os.write(descriptor, b"1000")
    os.close(descriptor)
