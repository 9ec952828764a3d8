"""Which system calls a program in the sandbox is denied.

A denylist on top of the namespaces: what is not needed to compute and has been a way into the
kernel before. A denied call fails (EPERM) rather than kills, so that programs which probe go on.
`clone3` fails with ENOSYS because its flags lie behind a pointer that no filter can read: the C
library then falls back to `clone`, whose flags are checked. The filter is compiled once a process
(`compile_filter`) and is plain BPF, for bubblewrap's descriptor and for `prctl` alike.
"""

import errno
import functools
import os
import socket
from typing import Final

import pyseccomp

from assay.core.errors import IsolationUnavailable

DENIED: Final = (
    # namespaces, mounts, roots
    *(
        "unshare",
        "setns",
        "mount",
        "umount",
        "umount2",
        "pivot_root",
        "chroot",
        "move_mount",
        "open_tree",
        "fsopen",
        "fsconfig",
    ),
    *(
        "fsmount",
        "fspick",
        "mount_setattr",
        "open_tree_attr",
        "listmount",
        "statmount",
    ),
    # other processes
    *(
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "kcmp",
        "pidfd_getfd",
    ),
    # large attack surfaces of the kernel
    *(
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
    ),
    *(
        "keyctl",
        "add_key",
        "request_key",
        "lookup_dcookie",
        "uselib",
        "vmsplice",
    ),
    *(
        "fanotify_init",
        "fanotify_mark",
        "name_to_handle_at",
        "open_by_handle_at",
    ),
    *(
        "modify_ldt",
        "vm86",
        "vm86old",
        "personality",
        "remap_file_pages",
    ),
    # the machine
    *(
        "kexec_load",
        "kexec_file_load",
        "reboot",
        "init_module",
        "finit_module",
        "delete_module",
        "create_module",
    ),
    *(
        "query_module",
        "get_kernel_syms",
        "swapon",
        "swapoff",
        "syslog",
        "acct",
        "quotactl",
        "quotactl_fd",
        "nfsservctl",
    ),
    *(
        "iopl",
        "ioperm",
        "settimeofday",
        "clock_settime",
        "clock_adjtime",
        "adjtimex",
        "stime",
        "sethostname",
    ),
    *(
        "setdomainname",
        "vhangup",
        "sysfs",
        "_sysctl",
        "ustat",
    ),
    # memory placement and priorities that disturb neighbours
    *(
        "mbind",
        "set_mempolicy",
        "set_mempolicy_home_node",
        "migrate_pages",
        "move_pages",
    ),
    *(
        "sched_setscheduler",
        "sched_setparam",
        "sched_setattr",
        "ioprio_set",
    ),
    # memory outside of what is accounted and swept
    *("memfd_secret",),
)
"""By name; what an architecture does not have is left out."""

_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_NAMESPACE_FLAGS: Final = (
    0x0000_0080,  # CLONE_NEWTIME
    0x0002_0000,  # CLONE_NEWNS
    0x0200_0000,  # CLONE_NEWCGROUP
    0x0400_0000,  # CLONE_NEWUTS
    0x0800_0000,  # CLONE_NEWIPC
    0x1000_0000,  # CLONE_NEWUSER
    0x2000_0000,  # CLONE_NEWPID
    0x4000_0000,  # CLONE_NEWNET
)
_WORD_32: Final = 0xFFFF_FFFF


@functools.cache
def compile_filter(
    *, exec_allowed: bool = True, fork_allowed: bool = True, sockets_allowed: bool = True
) -> bytes:
    """Return the filter as BPF for this machine.

    Args:
        exec_allowed: false also denies starting programs.
        fork_allowed: false also denies new processes; threads stay allowed.
        sockets_allowed: false denies new sockets of the one family left as well; pairs stay.

    Raises:
        IsolationUnavailable: libseccomp cannot make it.
    """
    try:
        rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
        _deny_calls(rules)
        _deny_arguments(rules, fork_allowed=fork_allowed)
        if not sockets_allowed:
            _deny(rules, "socket")
            _deny(rules, "connect")
        if not exec_allowed:
            _deny(rules, "execve")
            _deny(rules, "execveat")
        return _export(rules)
    except (OSError, RuntimeError) as error:
        raise IsolationUnavailable(f"libseccomp cannot compile the filter: {error}") from error


def _deny(rules: pyseccomp.SyscallFilter, name: str, *arguments: pyseccomp.Arg) -> None:
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, *arguments)


def _deny_calls(rules: pyseccomp.SyscallFilter) -> None:
    for name in DENIED:
        if pyseccomp.resolve_syscall(pyseccomp.system_arch(), name) >= 0:
            _deny(rules, name)
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")


def _deny_arguments(rules: pyseccomp.SyscallFilter, *, fork_allowed: bool) -> None:
    masked = pyseccomp.MASKED_EQ
    for flag in _NAMESPACE_FLAGS:
        _deny(rules, "clone", pyseccomp.Arg(0, masked, flag, flag))
    if not fork_allowed:
        clone_thread = 0x0001_0000
        _deny(rules, "clone", pyseccomp.Arg(0, masked, clone_thread, 0))
        for name in ("fork", "vfork"):
            if pyseccomp.resolve_syscall(pyseccomp.system_arch(), name) >= 0:
                _deny(rules, name)
    for request in (_TIOCSTI, _TIOCLINUX):
        # The kernel looks at the low 32 bits only; so must the filter.
        _deny(rules, "ioctl", pyseccomp.Arg(1, masked, _WORD_32, request))
    # AF_UNIX is the one family left, for pairs inside the box: its name space is the box's own.
    _deny(rules, "socket", pyseccomp.Arg(0, pyseccomp.NE, int(socket.AF_UNIX)))


def _export(rules: pyseccomp.SyscallFilter) -> bytes:
    descriptor = os.memfd_create("filter")
    with os.fdopen(descriptor, "w+b") as file:
        rules.export_bpf(file)
        return os.pread(descriptor, 1 << 20, 0)
