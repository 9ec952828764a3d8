"""The system call filter of programs in the sandbox.

An allowlist by number: a call that is not named here, which includes every call newer than this
list or than the installed libseccomp, fails with ENOSYS, as on a kernel that does not have it. So
do the calls of the other ABIs of the machine (x32, i386). No process is killed for trying. The list
leaves out calls that programs do not need or that reach beyond the box: namespaces and mounts,
tracing, keys, and every kernel object that is counted per user or per machine (inotify, aio,
message queues, SysV objects, huge pages, pipe sizes).

Some calls return success without being executed, because refusing them would break honest programs
and executing them would affect shared state. File locks are granted (another run could observe a
lock on a shared library; within one box they exclude nothing), and flushing files or disks does
nothing (the box's own files are in memory, and a flush of a shared file waits for the machine's
disk).

`clone3` fails with ENOSYS because its flags lie behind a pointer that no filter can read: the C
library then falls back to `clone`, whose flags are checked. The filter is compiled once per process
(`compile_filter`) and is plain BPF, used both for bubblewrap's descriptor and for `prctl`.
"""

import errno
import functools
import os
import socket
from collections.abc import Iterable
from typing import Final

import pyseccomp

from assay.core.errors import IsolationUnavailable

ALLOWED: Final = frozenset(
    """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek
    open openat openat2 creat close close_range dup dup2 dup3 pipe pipe2
    stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2
    getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir rename renameat renameat2
    link linkat symlink symlinkat unlink unlinkat readlink readlinkat mknod mknodat umask
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat
    utime utimes utimensat futimesat truncate ftruncate fallocate
    sendfile splice tee copy_file_range
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr

    mprotect munmap mremap brk
    futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list get_robust_list
    rseq membarrier arch_prctl

    exit exit_group wait4 waitid execve execveat fork vfork
    getpid getppid gettid getpgrp getpgid setpgid getsid setsid set_tid_address
    getuid geteuid getgid getegid getresuid getresgid getgroups
    setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups
    capget capset getpriority setpriority ioprio_get
    getrlimit setrlimit getrusage times sysinfo uname getcpu getrandom
    sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler
    sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_getattr

    kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo
    rt_tgsigqueueinfo rt_sigsuspend rt_sigreturn restart_syscall sigaltstack pause alarm
    pidfd_open pidfd_send_signal

    time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep
    getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete
    timerfd_create timerfd_settime timerfd_gettime

    select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
    epoll_pwait2 eventfd eventfd2 signalfd signalfd4

    bind listen accept accept4 connect shutdown getsockname getpeername getsockopt
    sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg
    """.split()  # noqa: SIM905 - a list of 250 lines would not be clearer
)
"""Allowed with any arguments; calls that an architecture lacks are skipped. For some more calls the
arguments decide: `clone`, `fcntl`, `ioctl`, `madvise`, `mmap`, `memfd_create`, `prctl`,
`prlimit64`, `setsockopt`, `socket`, `socketpair`."""

ANSWERED: Final = frozenset(
    {"flock", "sync", "syncfs", "fsync", "fdatasync", "msync", "sync_file_range"}
)
"""Succeed without being executed."""

_REFUSED: Final = {
    errno.EPERM: ("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "ptrace", "bpf"),
    errno.EOPNOTSUPP: ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr"),
}
"""Refused with a specific error, which is clearer to a program's user than ENOSYS."""

_CLONE_THREAD: Final = 0x0001_0000
NAMESPACES: Final = (
    0x0000_0080  # CLONE_NEWTIME
    | 0x0002_0000  # CLONE_NEWNS
    | 0x0200_0000  # CLONE_NEWCGROUP
    | 0x0400_0000  # CLONE_NEWUTS
    | 0x0800_0000  # CLONE_NEWIPC
    | 0x1000_0000  # CLONE_NEWUSER
    | 0x2000_0000  # CLONE_NEWPID
    | 0x4000_0000  # CLONE_NEWNET
)
LOCK_COMMANDS: Final = (6, 7, 37, 38)
"""F_SETLK, F_SETLKW, and the same of open file descriptions."""
FCNTL_COMMANDS: Final = (
    *(0, 1, 2, 3, 4),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL
    # F_GETLK, F_OFD_GETLK: what they write cannot be answered here. SQLite's journal "wal" asks
    # who holds a lock, and waited for it to be released. No box can set one.
    *(5, 36),
    *(8, 9, 10, 11, 15, 16),  # F_SETOWN, F_GETOWN, F_SETSIG, F_GETSIG, F_SETOWN_EX, F_GETOWN_EX
    *(1027, 1030, 1032),  # F_DUPFD_QUERY, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
    *(1033, 1034),  # F_ADD_SEALS, F_GET_SEALS
)
IOCTL_REQUESTS: Final = (
    *(0x5401, 0x540F, 0x5413),  # TCGETS, TIOCGPGRP, TIOCGWINSZ
    *(0x541B, 0x5421, 0x5450, 0x5451),  # FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
)
_GPU_IOCTLS: Final = (
    (0xFF00, 0x4600),  # the driver's own type, NV_IOCTL_MAGIC
    (0xFFFF_FF00, 0),  # UVM's, which have plain numbers
    *((0xFFFF_FFFF, number) for number in (0x3000_0001, 0x3000_0002)),  # UVM_[DE]INITIALIZE
)
"""Masks and values; from the headers of NVIDIA's open kernel modules."""
PRCTL_OPTIONS: Final = (
    *(1, 2, 3, 15, 16),  # PR_SET_PDEATHSIG, _GET_, PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME
    *(21, 23, 25, 29, 30),  # PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_TSC, PR_[SG]ET_TIMERSLACK
    *(36, 37, 38, 39, 40),  # PR_[SG]ET_CHILD_SUBREAPER, PR_[SG]ET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS
    *(41, 42, 0x5356_4D41),  # PR_[SG]ET_THP_DISABLE, PR_SET_VMA
)
MEMORY_ADVICE: Final = (
    *(0, 1, 2, 3, 4, 8),  # MADV_NORMAL, _RANDOM, _SEQUENTIAL, _WILLNEED, _DONTNEED, _FREE
    *(9, 10, 11, 14, 15),  # MADV_REMOVE, MADV_[DO|DONT]FORK, MADV_[NO]HUGEPAGE
    *(16, 17, 18, 19, 22, 23, 24),  # MADV_[DO|DONT]DUMP, _[WIPE|KEEP]ONFORK, _POPULATE_, _LOCKED
    *(102, 103),  # MADV_GUARD_[INSTALL|REMOVE]
)
"""Without merging of equal pages (the kernel's thread compares them with those of other boxes) and
paging out."""
SOCKET_OPTIONS: Final = (
    *(2, 6, 7, 8, 9, 10, 12, 13, 15),  # SO_REUSEADDR ... SO_SNDBUF, SO_RCVBUF ... SO_REUSEPORT
    *(16, 18, 19, 20, 21, 34, 42),  # SO_PASSCRED, _RCVLOWAT ... _SNDTIMEO, _PASSSEC, _PEEK_OFF
    *(66, 67, 76),  # SO_[RCV|SND]TIMEO_NEW, SO_PASSPIDFD
)
"""Of the level `SOL_SOCKET`. Without filters: their compiled code is memory that no box is charged
with, from a store that all filters of the machine share, those of new boxes among them."""
_SOL_SOCKET: Final = 1
_MAP_HUGETLB: Final = 0x4_0000
_MFD_HUGETLB: Final = 0x4
_WORD_32: Final = 0xFFFF_FFFF
"""The kernel reads only the low 32 bits of these arguments; so must the filter."""
_BINARY_TREE: Final = 2
"""`SCMP_FLTATR_CTL_OPTIMIZE`: a search of log(n) comparisons per call."""


_SIGNALS: Final = frozenset(
    {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"}
)
"""Calls that signal a process; timers of a process's own stay allowed."""


@functools.cache
def compile_filter(
    *,
    exec_allowed: bool = True,
    fork_allowed: bool = True,
    sockets_allowed: bool = True,
    memory_files_allowed: bool = True,
    gpu_calls_allowed: bool = False,
) -> bytes:
    """Return the filter as BPF for this machine.

    Args:
        exec_allowed: false also denies starting programs.
        fork_allowed: false also denies new processes, and signals: a process without children has
            none to send, and another of its uid may be the one that supervises it. Threads stay
            allowed.
        sockets_allowed: false also denies new sockets of the one remaining family; pairs stay
            allowed.
        memory_files_allowed: false denies `memfd_create`: without a cgroup, nothing would count the
            memory of such a file.
        gpu_calls_allowed: true allows the `ioctl` calls of NVIDIA's driver.

    Raises:
        IsolationUnavailable: libseccomp cannot compile it.
    """
    denied = {"execve", "execveat"} if not exec_allowed else set()
    if not fork_allowed:
        denied |= {"fork", "vfork"} | _SIGNALS
    if not sockets_allowed:
        denied |= {"connect", "bind", "listen", "accept", "accept4"}
    try:
        rules = pyseccomp.SyscallFilter(_error(errno.ENOSYS))
        rules.set_attr(pyseccomp.Attr.ACT_BADARCH, _error(errno.ENOSYS))
        rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, _BINARY_TREE)
        _add(rules, pyseccomp.ALLOW, ALLOWED - denied)
        _add(rules, _error(errno.EPERM), denied)
        _add(rules, _error(0), ANSWERED)
        for code, names in _REFUSED.items():
            _add(rules, _error(code), names)
        _add_clone(rules, fork_allowed=fork_allowed)
        _add_by_argument(rules, memory_files_allowed=memory_files_allowed)
        _add_sockets(rules, sockets_allowed=sockets_allowed)
        if gpu_calls_allowed:
            for mask, value in _GPU_IOCTLS:
                _add(rules, pyseccomp.ALLOW, ("ioctl",), _masked(1, mask, value))
        return _export(rules)
    except (OSError, RuntimeError) as error:
        raise IsolationUnavailable(f"libseccomp cannot compile the filter: {error}") from error


def compile_in_advance() -> None:
    """Compile the filters of slots and of their boxes, for all processes forked from this one.

    A fork that compiles one itself writes to pages all over the heap that it shares, 7 MiB of them
    in a slot of `math.verify`: libseccomp frees and allocates in every gap.

    Raises:
        IsolationUnavailable: libseccomp cannot compile one.
    """
    compile_filter(exec_allowed=False, fork_allowed=False, sockets_allowed=False)
    for counted in (True, False):
        compile_filter(memory_files_allowed=counted, gpu_calls_allowed=False)


def numbers_of(names: Iterable[str]) -> dict[int, str]:
    """System call number -> name, for the calls that this machine and libseccomp know."""
    arch = pyseccomp.system_arch()
    found = {pyseccomp.resolve_syscall(arch, name): name for name in names}
    return {number: name for number, name in found.items() if number >= 0}


def _error(code: int) -> int:
    return int(pyseccomp.ERRNO(code))


def _add(
    rules: pyseccomp.SyscallFilter, action: int, names: Iterable[str], *arguments: pyseccomp.Arg
) -> None:
    for number in sorted(numbers_of(names)):
        rules.add_rule(action, number, *arguments)


def _masked(at: int, mask: int, value: int) -> pyseccomp.Arg:
    return pyseccomp.Arg(at, pyseccomp.MASKED_EQ, mask, value)


def _add_clone(rules: pyseccomp.SyscallFilter, *, fork_allowed: bool) -> None:
    needed = 0 if fork_allowed else _CLONE_THREAD
    _add(rules, pyseccomp.ALLOW, ("clone",), _masked(0, NAMESPACES | needed, needed))


def _add_by_argument(rules: pyseccomp.SyscallFilter, *, memory_files_allowed: bool) -> None:
    for command in FCNTL_COMMANDS:
        _add(rules, pyseccomp.ALLOW, ("fcntl",), _masked(1, _WORD_32, command))
    for command in LOCK_COMMANDS:
        _add(rules, _error(0), ("fcntl",), _masked(1, _WORD_32, command))
    for request in IOCTL_REQUESTS:
        _add(rules, pyseccomp.ALLOW, ("ioctl",), _masked(1, _WORD_32, request))
    for option in PRCTL_OPTIONS:
        _add(rules, pyseccomp.ALLOW, ("prctl",), _masked(0, _WORD_32, option))
    # Its own limits only: pid 1 of the box has the same uid, and with a limit of 0 files it could
    # not report how the program ended.
    _add(rules, pyseccomp.ALLOW, ("prlimit64",), _masked(0, _WORD_32, 0))
    for advice in MEMORY_ADVICE:
        _add(rules, pyseccomp.ALLOW, ("madvise",), _masked(2, _WORD_32, advice))
    for name in SOCKET_OPTIONS:
        level, option = _masked(1, _WORD_32, _SOL_SOCKET), _masked(2, _WORD_32, name)
        _add(rules, pyseccomp.ALLOW, ("setsockopt",), level, option)
    _add(rules, pyseccomp.ALLOW, ("mmap",), _masked(3, _MAP_HUGETLB, 0))
    _add(rules, _error(errno.ENOMEM), ("mmap",), _masked(3, _MAP_HUGETLB, _MAP_HUGETLB))
    if memory_files_allowed:
        _add(rules, pyseccomp.ALLOW, ("memfd_create",), _masked(1, _MFD_HUGETLB, 0))


def _add_sockets(rules: pyseccomp.SyscallFilter, *, sockets_allowed: bool) -> None:
    """Only AF_UNIX is allowed, for use inside the box: its abstract names belong to the box."""
    unix = int(socket.AF_UNIX)
    if sockets_allowed:
        _add(rules, pyseccomp.ALLOW, ("socket",), pyseccomp.Arg(0, pyseccomp.EQ, unix))
        other = pyseccomp.Arg(0, pyseccomp.NE, unix)
        _add(rules, _error(errno.EPERM), ("socket",), other)
    else:
        _add(rules, _error(errno.EPERM), ("socket",))
    _add(rules, pyseccomp.ALLOW, ("socketpair",), pyseccomp.Arg(0, pyseccomp.EQ, unix))


def _export(rules: pyseccomp.SyscallFilter) -> bytes:
    descriptor = os.memfd_create("filter")
    with os.fdopen(descriptor, "w+b") as file:
        rules.export_bpf(file)
        return os.pread(descriptor, 1 << 20, 0)
