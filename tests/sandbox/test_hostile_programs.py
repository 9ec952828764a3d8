"""Hostile programs: each is contained, in every box, and its neighbour is served meanwhile.

A program states what it found (`found(...)`), so that a wall that is missing shows as a wrong word
and not as a test that cannot fail. The numbers are those of the catalogue in `docs/sandbox.md`.
"""

import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.sandbox.ways import (
    QUICK,
    SECRET,
    Launcher,
    Way,
    beside_a_neighbour,
    uids_in_boxes,
    until,
)

from assay.core.errors import InvalidRequest
from assay.sandbox.port import MIB, CommandRun, Limits, RunResult, RunStatus

PRELUDE = """
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def found(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def attempt(name, act):
    try:
        found(name, "DONE", act())
    except OSError as error:
        found(name, errno.errorcode.get(error.errno, error))
def syscall(name, *arguments):
    result = libc.syscall(*arguments)
    found(name, "DONE" if result >= 0 else errno.errorcode[ctypes.get_errno()])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A hostile program and what must become of it."""

    name: str
    source: str
    limits: Limits = QUICK
    check: Callable[[RunResult], None]


def ends_as(*statuses: RunStatus) -> Callable[[RunResult], None]:
    def check(result: RunResult) -> None:
        assert result.status in statuses, result

    return check


def fills_its_memory_or_its_disk(result: RunResult) -> None:
    """Without cgroups, as for an ordinary user, files in memory count as disk only."""
    if result.status is not RunStatus.MEMORY_LIMIT:
        assert os.geteuid() != 0, result
        assert b"No space left on device" in result.stderr, result


def says(*lines: str) -> Callable[[RunResult], None]:
    def check(result: RunResult) -> None:
        assert result.status is RunStatus.EXITED, result
        assert result.stdout.decode().splitlines() == list(lines), result

    return check


def says_at_most(bound: int) -> Callable[[RunResult], None]:
    """The one number that it prints is positive and no larger."""

    def check(result: RunResult) -> None:
        assert result.status is RunStatus.EXITED, result
        assert 0 < int(result.stdout) <= bound, result

    return check


def never_done(result: RunResult) -> None:
    assert result.status is RunStatus.EXITED, result
    assert result.exit_code == 0, result
    assert result.stdout, result
    assert b"DONE" not in result.stdout, result.stdout.decode()


def output_cut(result: RunResult) -> None:
    assert result.status is RunStatus.OUTPUT_LIMIT
    assert len(result.stdout) == QUICK.output_bytes


def one_core_at_most(result: RunResult) -> None:
    assert result.status is RunStatus.CPU_LIMIT, result
    assert result.cpu_s < result.wall_s * 1.25


PROGRAMS = [
    Program(
        name="01 fork bomb",
        source="""
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        check=ends_as(RunStatus.CPU_LIMIT),
    ),
    Program(
        name="02 memory bomb",
        source="kept = []\nwhile True: kept.append(bytearray(4 << 20))",
        check=ends_as(RunStatus.MEMORY_LIMIT),
    ),
    Program(
        name="03 shared memory bomb",
        source="""
import mmap
kept = []
while True:
    kept.append(mmap.mmap(-1, 8 << 20))
    kept[-1].write(b"x" * (8 << 20))
""",
        check=ends_as(RunStatus.MEMORY_LIMIT),
    ),
    Program(
        name="03 memory bomb in a file system",
        source="""
for number in range(1_000):
    with open(f"/tmp/{number}", "wb") as file: file.write(b"x" * (4 << 20))
""",
        limits=replace(QUICK, memory_bytes=32 * MIB, disk_bytes=64 * MIB),
        check=fills_its_memory_or_its_disk,
    ),
    Program(
        name="04 disk fill",
        source="""
written = 0
try:
    for number in range(100):
        with open(f"/tmp/{number}", "wb", 0) as file: written += file.write(b"x" * (1 << 20))
except OSError as error:
    assert error.errno == errno.ENOSPC
found(written)
""",
        check=says_at_most(QUICK.disk_bytes),
    ),
    Program(
        name="05 inode fill",
        source="""
made = 0
try:
    for made in range(100_000):
        os.close(os.open(f"/{('tmp', 'box')[made % 2]}/{made}", os.O_CREAT | os.O_WRONLY))
except OSError as error:
    assert error.errno == errno.ENOSPC
found(made)
""",
        check=says_at_most(QUICK.inodes),
    ),
    Program(
        name="06 output flood",
        source="while True: os.write(1, b'line\\n' * 10_000)",
        check=output_cut,
    ),
    Program(
        name="07 one endless line",
        source="while True: os.write(1, b'x' * 65_536)",
        check=output_cut,
    ),
    Program(
        name="09 sleeps forever",
        source="time.sleep(1_000)",
        limits=replace(QUICK, blocked_s=0.5),
        check=ends_as(RunStatus.BLOCKED_LIMIT),
    ),
    Program(
        name="10 ignores every signal",
        source="""
import signal
for number in range(1, 64):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(1_000)
""",
        limits=replace(QUICK, blocked_s=0.5),
        check=ends_as(RunStatus.BLOCKED_LIMIT),
    ),
    Program(
        name="11 daemon",
        source="""
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in range(3): os.close(number)
        while True: time.sleep(1)
    os._exit(0)
found("left")
""",
        check=says("left"),
    ),
    Program(
        name="12 daemon that keeps stdout",
        source="""
if not os.fork():
    os.setsid()
    while True: time.sleep(1)
found("left")
""",
        check=says("left"),
    ),
    Program(
        name="13 thread bomb",
        source="""
import threading
made = 0
try:
    for made in range(10_000): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
except RuntimeError:
    pass
found(made)
os._exit(0)
""",
        check=says_at_most(QUICK.processes),
    ),
    Program(
        name="14 descriptor exhaustion",
        source="""
made = 0
try:
    for made in range(10_000): os.dup(0)
except OSError as error:
    assert error.errno == errno.EMFILE
found(made)
""",
        check=says_at_most(QUICK.open_files),
    ),
    Program(
        name="15 recursion without end",
        source="""
sys.setrecursionlimit(1 << 30)
class Deep:
    def __getattr__(self, name): return getattr(self, name + "x")
Deep().x
""",
        # From Python 3.13 on, the interpreter ends it itself.
        check=ends_as(
            *(RunStatus.SIGNALED, RunStatus.MEMORY_LIMIT, RunStatus.CPU_LIMIT),
            *([RunStatus.EXITED] if sys.version_info >= (3, 13) else []),
        ),
    ),
    Program(
        name="16 busy on many threads",
        source="""
import hashlib, threading
def burn():
    while True: hashlib.sha256(bytes(1 << 20)).digest()
for number in range(8): threading.Thread(target=burn).start()
""",
        check=one_core_at_most,
    ),
    Program(
        name="17 kills everyone",
        source="""
import signal
if not os.fork(): time.sleep(100)
for pid in (-1, 1, os.getppid()):
    try: os.kill(pid, signal.SIGKILL)
    except OSError: pass
found("alone, but alive")
""",
        check=says("alone, but alive"),
    ),
    Program(
        name="18 reads and traces other processes",
        source="""
for pid in {1, os.getppid()}:
    syscall("ptrace", 117 if os.uname().machine == "aarch64" else 101, 16, pid, 0, 0)
    room = ctypes.create_string_buffer(64)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(room), 64)
    syscall("readv", 270 if os.uname().machine == "aarch64" else 310, pid, vector, 1, vector, 1, 0)
    attempt("mem", lambda: open(f"/proc/{pid}/mem", "rb").read(1) if pid != os.getpid() else 1/0)
""",
        check=never_done,
    ),
    Program(
        name="18 looks for descriptors of ours",
        source="""
held = []
for descriptor in range(1_024):
    try:
        os.fstat(descriptor)
        held.append(descriptor)
    except OSError:
        pass
found(held)
""",
        check=says("[0, 1, 2]"),
    ),
    Program(
        name="19 reads environments and command lines",
        source="""
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try: os.write(1, open(f"/proc/{pid}/{name}", "rb").read())
        except OSError: pass
found(os.environ, "end")
""",
        check=lambda result: _holds_no_secret(result),
    ),
    Program(
        name="20 host files, service tokens, cloud metadata",
        source="""
for path in ("/etc/passwd", "/etc/shadow", "/root/.ssh", "/home", "/var/run/secrets", "/var/lib",
             "/sys", "/run", "/mnt", "/proc/sysrq-trigger", "/proc/kcore", "/dev/mem", "/dev/vda",
             "/dev/kmsg", "/proc/1/root/home"):
    attempt(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path).read(1))
import _socket
attempt("metadata", lambda: _socket.socket(2, 1).connect(("169.254.169.254", 80)))
""",
        check=never_done,
    ),
    Program(
        name="22 overwrites what others run",
        source="""
import sysconfig
library = sysconfig.get_paths()["stdlib"]
for path in ("/usr/bin/bash", "/bin/sh", "/usr/lib/evil.pth", f"{library}/sitecustomize.py",
             f"{library}/os.py", "/etc/ld.so.preload", "/evil", "/dev/evil", "/dev/null/x",
             "/proc/self/uid_map"):
    attempt(path, lambda: os.write(os.open(path, os.O_WRONLY | os.O_CREAT), b"x"))
attempt("remove", lambda: os.unlink("/usr/bin/env"))
""",
        check=never_done,
    ),
    Program(
        name="23 every way to a network",
        source="""
import _socket
for family in (_socket.AF_INET, _socket.AF_INET6, _socket.AF_NETLINK, _socket.AF_PACKET, 40, 38):
    for kind in (_socket.SOCK_STREAM, _socket.SOCK_DGRAM, _socket.SOCK_RAW):
        attempt(f"{family} {kind}", lambda: _socket.socket(family, kind))
attempt("abstract", lambda: _socket.socket(1, 1).connect("\\0assay-test-listener"))
""",
        check=never_done,
    ),
    Program(
        name="27 core pattern and other settings of the kernel",
        source="""
for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "vm/drop_caches",
             "kernel/panic", "fs/suid_dumpable", "kernel/ns_last_pid", "net/core/somaxconn"):
    attempt(name, lambda: os.write(os.open(f"/proc/sys/{name}", os.O_WRONLY), b"|/bin/sh"))
attempt("sysrq", lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY))
""",
        check=never_done,
    ),
    Program(
        name="27 core dumps",
        source="""
import resource
assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
if not os.fork(): os.abort()
os.wait()
found(sorted(name for name in os.listdir() if name.startswith("core")))
""",
        check=says("[]"),
    ),
    Program(
        name="28 sparse file of a terabyte",
        source="""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt("truncate", lambda: os.ftruncate(os.open("x", os.O_CREAT | os.O_WRONLY), 1 << 40))
""",
        check=says("truncate EFBIG"),
    ),
    Program(
        name="29 types into the terminal",
        source="""
import fcntl
attempt("tiocsti", lambda: fcntl.ioctl(0, 0x5412, b"x"))
attempt("tiocsti with high bits", lambda: libc.ioctl(0, ctypes.c_ulong(0x1_0000_5412), b"x") and
        fcntl.ioctl(0, 0x5412, b"x"))
attempt("tty", lambda: os.open("/dev/tty", os.O_RDWR))
""",
        check=never_done,
    ),
    Program(
        name="30 namespaces of its own",
        source="""
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x4000000, 0x8000000, 0x2000000, 0x80):
    syscall(f"unshare {flag:x}", 97 if os.uname().machine == "aarch64" else 272, flag)
    number = 220 if os.uname().machine == "aarch64" else 56
    child = libc.syscall(number, flag | 17, 0, 0, 0, 0)
    if child == 0: os._exit(0)
    found(f"clone {flag:x}", "DONE" if child > 0 else errno.errorcode[ctypes.get_errno()])
syscall("clone3", 435, 0, 0)
""",
        check=never_done,
    ),
    Program(
        name="31 large surfaces of the kernel",
        source="""
ARM = os.uname().machine == "aarch64"
for name, x86, arm in (("io_uring", 425, 425), ("bpf", 321, 280), ("userfaultfd", 323, 282),
                       ("keyctl", 250, 219), ("perf", 298, 241), ("mount", 165, 40),
                       ("setns", 308, 268), ("kexec", 246, 104), ("open_tree", 428, 428),
                       ("fsopen", 430, 430), ("chroot", 161, 51), ("pidfd_getfd", 438, 438),
                       ("init_module", 175, 105), ("personality", 135, 92)):
    syscall(name, arm if ARM else x86, 0, 0, 0, 0, 0)
""",
        check=lambda result: _all_denied(result, 14),
    ),
    Program(
        name="32 set-uid programs",
        source="""
status = open("/proc/self/status").read()
found("NoNewPrivs:\\t1" in status, "CapEff:\\t0000000000000000" in status,
      "CapBnd:\\t0000000000000000" in status, bool(os.statvfs("/usr").f_flag & os.ST_NOSUID))
attempt("setuid", lambda: os.setuid(0))
""",
        check=says("True True True True", "setuid EINVAL"),
    ),
    Program(
        name="33 sets the clock and priorities",
        source="""
import signal
attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
attempt("nice", lambda: os.nice(-5))
attempt("scheduler", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
""",
        check=never_done,
    ),
    Program(
        name="48 acts after its end",
        source="""
import atexit, threading
def late():
    while True: found("late"); time.sleep(0.001)
if not os.fork():
    time.sleep(0.05)
    late()
found("verdict")
os._exit(0)
""",
        check=lambda result: _exits_in_time(result),
    ),
]


def _holds_no_secret(result: RunResult) -> None:
    assert result.status is RunStatus.EXITED
    assert b"end" in result.stdout
    assert SECRET.encode() not in result.stdout
    assert str(Path(__file__).parent).encode() not in result.stdout
    assert b"pytest" not in result.stdout
    assert b"zygote.py" not in result.stdout


def _all_denied(result: RunResult, calls: int) -> None:
    answers = [line.split()[1] for line in result.stdout.decode().splitlines()]
    assert len(answers) == calls
    assert set(answers) <= {"EPERM", "ENOSYS"}, answers


def _exits_in_time(result: RunResult) -> None:
    assert result.status is RunStatus.EXITED
    assert result.stdout.startswith(b"verdict\n")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_hostile_program_is_contained_and_its_neighbour_unharmed(
    way: Way, program: Program
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0assay-test-listener")
        listener.listen()
        source = PRELUDE + program.source
        result = beside_a_neighbour(way, lambda: way.python(source, limits=program.limits))
    program.check(result)


def test_08_output_that_is_no_text_comes_back_byte_for_byte(way: Way) -> None:
    hostile = bytes(range(256)) * 16 + b"\0\x1b[2J\xed\xa0\x80"
    result = way.python(
        "import os; os.write(1, bytes.fromhex(open(0).read()))",
        stdin=hostile.hex().encode(),
        limits=QUICK,
    )
    assert result.stdout == hostile


ARTEFACTS = """
import os
os.symlink("/etc/passwd", "symlink")
os.symlink("/proc/self/environ", "magic")
os.mkdir("real"); open("real/file", "w").write("inside")
os.symlink("real", "linked")
open("one", "w").write("x"); os.link("one", "hardlink")
os.mkfifo("fifo")
os.mkdir("directory")
with open("large", "wb") as file: file.truncate(8 << 20)
with open("too_large", "wb") as file: file.seek(4 << 20); file.write(b"x")
os.symlink("/", "root")
"""


def test_24_only_plain_files_are_collected_and_links_never_followed(way: Way) -> None:
    names = (
        "symlink",
        "magic",
        "linked/file",
        "hardlink",
        "one",
        "fifo",
        "directory",
        "too_large",
        "root/etc/passwd",
        "absent",
        "real/file",
    )
    limits = replace(QUICK, file_bytes=4 << 20)
    result = way.python(
        ARTEFACTS.replace('with open("large", "wb") as file: file.truncate(8 << 20)', "").replace(
            'file.seek(4 << 20); file.write(b"x")', "pass"
        ),
        limits=limits,
        collect=names,
    )
    assert result.exit_code == 0, result.stderr.decode()
    assert result.files == {"real/file": b"inside", "too_large": b""}


@pytest.mark.parametrize(
    "name",
    ["", "..", "../x", "/etc/passwd", "a/../../x", "a//b", "a/", "./a", "a\nb", "a\0b", "x" * 2000],
)
def test_25_names_that_lead_elsewhere_are_refused(launcher: Launcher, name: str) -> None:
    with pytest.raises(InvalidRequest):
        launcher.run(CommandRun(argv=("true",), files={name: b""}))
    with pytest.raises(InvalidRequest):
        launcher.run(CommandRun(argv=("true",), collect=(name,)))


COMPILER = Limits(cpu_s=4.0, memory_bytes=192 * MIB, file_bytes=8 * MIB, disk_bytes=32 * MIB)

SOURCES = [
    (
        "34 templates without end",
        "template<int N> struct T { typename T<N+1>::X a; typename T<N+2>::X b; };\nT<0> t;\n"
        "int main(){}",
        ("-ftemplate-depth=1000000",),
    ),
    ("35 includes /dev/zero", '#include "/dev/zero"\nint main(){}', ()),
    ("37 object of a gigabyte", "char large[1<<30] = {1};\nint main(){}", ()),
]


@pytest.mark.parametrize(("name", "source", "flags"), SOURCES, ids=[s[0] for s in SOURCES])
def test_a_compile_bomb_ends_at_a_limit_or_as_an_error(
    launcher: Launcher, name: str, source: str, flags: tuple[str, ...]
) -> None:
    result = launcher.run(
        CommandRun(
            argv=("g++", "-c", *flags, "-o", "a.o", "a.cc"),
            files={"a.cc": source.encode()},
            collect=("a.o",),
            limits=COMPILER,
        )
    )
    assert result.status.is_limit or result.exit_code != 0
    assert all(len(content) <= COMPILER.file_bytes for content in result.files.values())


@pytest.mark.parametrize(
    "source",
    [
        '#include "/etc/passwd"\nint main(){}',
        'asm(".incbin \\"/etc/passwd\\"");\nint main(){}',
        '#include "/root/.profile"\nint main(){}',
    ],
)
def test_36_a_compiler_finds_no_file_of_the_host(launcher: Launcher, source: str) -> None:
    result = launcher.run(
        CommandRun(
            argv=("g++", "-c", "-o", "a.o", "a.cc"),
            files={"a.cc": source.encode()},
            limits=COMPILER,
        )
    )
    assert result.status is RunStatus.EXITED
    assert result.exit_code != 0
    assert b"No such file" in result.stderr or b"file not found" in result.stderr
    assert b"root:" not in result.stderr
    assert SECRET.encode() not in result.stderr


LEAVES = """
import ctypes, os
for directory in ("/tmp", "/box", "/dev/shm"):
    try: open(f"{directory}/left", "w").write("here I was")
    except OSError: pass
libc = ctypes.CDLL(None, use_errno=True)
print(sorted(os.listdir("/tmp")), libc.shmget(0x4A5A, 4096, 0o1666))
"""
LOOKS = """
import ctypes, os
found = [path for path in ("/tmp/left", "/box/left", "/dev/shm/left") if os.path.exists(path)]
libc = ctypes.CDLL(None, use_errno=True)
print(found, libc.shmget(0x4A5A, 4096, 0))
"""


def test_39_nothing_of_a_run_is_there_for_the_next(way: Way) -> None:
    assert way.python(LEAVES, limits=QUICK).stdout == b"['left'] -1\n"
    assert way.python(LOOKS, limits=QUICK).stdout == b"[] -1\n"


def test_15_a_stack_overflow_is_a_crash_of_the_program(launcher: Launcher) -> None:
    source = (
        b"int f(int x){volatile char room[4096]; room[0]=x; return f(x+1)+room[0];}\n"
        b"int main(){return f(0);}"
    )
    built = launcher.run(
        CommandRun(argv=("gcc", "-O0", "-o", "a", "a.c"), files={"a.c": source}, collect=("a",))
    )
    result = launcher.run(
        CommandRun(argv=("./a",), files={"a": built.files["a"]}, executables=frozenset({"a"}))
    )
    assert result.status is RunStatus.SIGNALED
    assert result.exit_code == -11


def test_programs_run_as_an_unprivileged_uid_that_is_the_launchers_own(
    way: Way, zygote: Launcher, bubblewrap: Launcher
) -> None:
    assert 0 not in {zygote.uid, bubblewrap.uid}
    assert zygote.uid != bubblewrap.uid or os.geteuid() != 0
    limits = replace(QUICK, blocked_s=1.0)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(way.python, "import time; time.sleep(100)", limits=limits)
        uids = until(lambda: uids_in_boxes(way.launcher), "no program is seen in a box")
        assert uids == {way.launcher.uid}
        assert run.result().status is RunStatus.BLOCKED_LIMIT
