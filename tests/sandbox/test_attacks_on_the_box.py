"""Programs that attack the box itself: pid 1, descriptors, mounts, files, the end of a run.

Each runs in the boxes of the zygote and of bubblewrap, of a launcher that is root and of one that
is not, and in boxes that Python sets up. A wall that is missing shows as `DONE`, or as a run that
ends in no verdict: `run` raises then, which would void the program's own score.
"""

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.sandbox.test_hostile_programs import PRELUDE
from tests.sandbox.ways import QUICK, Run

from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, CommandRun, Limits, PythonRun, RunStatus

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="calls are named by their numbers of x86_64"
)
ALL = ["zygote", "fallback", "bubblewrap", "unprivileged zygote", "unprivileged bubblewrap"]
HELP = (
    PRELUDE
    + """
def write(path, text):
    return os.write(os.open(path, os.O_WRONLY), text.encode())
def raise_limit(which, value):
    words = (ctypes.c_ulong * 2)(value, value)
    syscall(f"raise {which}", 160, which, words)
"""
)
LIMITS = replace(QUICK, cpu_s=5.0, blocked_s=20.0)

ON_PID_1: Mapping[str, str] = {
    "every signal": """
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
""",
    "every signal by its pidfd": """
import signal
one = os.pidfd_open(1)
for number in range(1, 65):
    try: signal.pidfd_send_signal(one, number)
    except OSError: pass
""",
    "every signal to a thread": """
for number in range(1, 65):
    libc.syscall(200, 1, number)
    libc.syscall(234, 1, 1, number)
""",
    "signals with data": """
info = (ctypes.c_int * 32)(0, 0, -1)  # as sigqueue does it: the kernel refuses other codes
for number in range(1, 65):
    info[0] = number
    libc.syscall(129, 1, number, info)
""",
    "limits": """
import resource
for limit in range(16): attempt("limit", lambda: resource.prlimit(1, limit, (0, 0)))
attempt("files", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)))
""",
    "limits, at once": """
words = (ctypes.c_ulong * 2)(0, 0)
done = [libc.prlimit(1, limit, words, None) for limit in (7, 0, 9)]
found("DONE" if 0 in done else "refused")
""",
    "limits by the high bits of a pid": """
words = (ctypes.c_ulong * 2)(0, 0)
result = libc.syscall(302, ctypes.c_ulong(1 << 32 | 1), 7, words, None)
found("DONE" if result == 0 else "refused")
""",
    "priority and cores": """
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("cores", lambda: os.sched_setaffinity(1, {0}))
attempt("policy", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
""",
    "groups": """
attempt("group", lambda: os.setpgid(1, 0))
attempt("group of pid 1", lambda: os.setpgid(0, 1))
""",
    "trace": """
for request in (0x4206, 16, 0, 12): syscall("ptrace", 101, request, 1, 0, 0)
""",
    "memory": """
read = "mem maps environ syscall stack auxv cmdline fd ns/net root".split()
for name in read:
    attempt(name, lambda: os.open(f"/proc/1/{name}", os.O_RDONLY))
for name in ("mem", "oom_score_adj", "clear_refs", "uid_map", "setgroups", "timens_offsets"):
    attempt(name, lambda: os.open(f"/proc/1/{name}", os.O_WRONLY))
vector = (ctypes.c_ulong * 2)(ctypes.addressof(libc.printf), 8)
for call in (310, 311, 440, 448): syscall("process_vm", call, 1, vector, 1, vector, 1, 0)
""",
    "descriptors": """
one = os.pidfd_open(1)
for number in range(16): syscall("pidfd_getfd", 438, one, number, 0)
syscall("kcmp", 312, 1, os.getpid(), 0, 1, 1)
""",
    "signals for input and output": """
import fcntl
reader, writer = os.pipe()
for number in (0, 2, 9, 19, 29):
    try:
        fcntl.fcntl(reader, fcntl.F_SETOWN, 1)
        fcntl.fcntl(reader, 10, number)
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(writer, b"x")
    except OSError: pass
""",
    "many orphans": """
for _ in range(300):
    if (child := os.fork()) == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
""",
    "its own processes stopped": """
import signal
for _ in range(8):
    if os.fork() == 0:
        while True: os.kill(os.getpid(), signal.SIGSTOP)
""",
    "no process left for it": """
try:
    while True:
        if os.fork() == 0: time.sleep(100)
except OSError: found("full")
""",
    "its namespace's names": """
import socket
for name in ("\\0", "\\0a", "/tmp/s"):
    one = socket.socket(socket.AF_UNIX); one.bind(name + "x"); one.listen()
    if os.fork() == 0: one.accept()
""",
}

ON_THE_REST: Mapping[str, str] = {
    "descriptors of ours": """
import stat
for number in range(3, 1024):
    try: found("DONE", number, os.fstat(number))
    except OSError: pass
try: os.set_inheritable(3, True)
except OSError: found("none")
""",
    "the sealed input": """
attempt("write", lambda: os.write(os.open("/proc/self/fd/0", os.O_RDWR), b"x"))
attempt("grow", lambda: os.truncate(0, 100))
import fcntl
attempt("seal", lambda: fcntl.fcntl(0, 1033, 0))
""",
    "namespaces again": """
for path in sorted(os.listdir("/proc/self/ns")):
    one = os.open(f"/proc/self/ns/{path}", os.O_RDONLY)
    syscall(path, 308, one, 0)
for bit in range(7, 32): syscall(f"unshare {bit}", 272, 1 << bit)
""",
    "mounts": """
here = b"/tmp"
for flags in (0, 32, 4096, 32 | 4096, 1 << 18, 1 << 20):
    syscall("mount", 165, here, b"/box", b"tmpfs", flags, 0)
syscall("umount", 166, b"/box", 2)
syscall("umount proc", 166, b"/proc", 2)
syscall("pivot", 155, here, here)
syscall("chroot", 161, here)
for call in range(428, 434): syscall(f"call {call}", call, -100, here, 1, 0, 0)
syscall("mount_setattr", 442, -100, b"/usr", 0, ctypes.create_string_buffer(32), 32)
""",
    "parts of the root": """
for path in ("/", "/usr", "/usr/bin", "/dev", "/etc", "/proc", "/shown", "/proc/self"):
    attempt(path, lambda: open(f"{path}/x", "w").write("x"))
    attempt(path, lambda: os.mkdir(f"{path}/y"))
    attempt(path, lambda: os.rename(path, "/tmp/z"))
for path in ("/box", "/tmp"): attempt(path, lambda: os.rename(path, "/box/z"))
""",
    "its own maps": """
for name in ("uid_map", "gid_map"):
    attempt(name, lambda: write(f"/proc/self/{name}", "0 0 1"))
attempt("setgroups", lambda: write("/proc/self/setgroups", "allow"))
attempt("clock", lambda: write("/proc/self/timens_offsets", "monotonic 1 0"))
for name in ("loginuid", "sessionid"):
    attempt(name, lambda: write(f"/proc/self/{name}", "0"))
""",
    "another user": """
for name in ("setuid", "setgid", "seteuid"): attempt(name, lambda: getattr(os, name)(0))
attempt("groups", lambda: os.setgroups([0]))
attempt("owner", lambda: os.chown("/usr", 1000, 1000))
open("own", "w").close()
attempt("own file", lambda: os.chown("own", 0, 0))
header = ctypes.create_string_buffer(bytes.fromhex("22052008") + bytes(4))
syscall("capabilities", 126, header, b"\\xff" * 24)
""",
    "limits raised": """
import resource
for limit in range(16):
    soft, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY: raise_limit(limit, hard + 1)
    elif limit in (0, 1, 8): found("no limit: DONE")  # CPU time, size of a file, locked memory
""",
    "core dumps": """
import resource, signal
raise_limit(resource.RLIMIT_CORE, 1 << 20)
for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT):
    if (child := os.fork()) == 0: os.kill(os.getpid(), number); time.sleep(9)
    if os.WCOREDUMP(os.waitpid(child, 0)[1]): found("DONE")
found(*[name for name in os.listdir(".") if "core" in name] and ["DONE"])
""",
    "the surface of the kernel": """
for call in (425, 426, 427, 323, 321, 248, 249, 250, 298, 447, 246, 320, 175, 313, 176, 167):
    syscall(f"call {call}", call, 1, 0, 0, 0, 0)
for call in (103, 159, 305, 163, 179, 172, 173, 154, 135, 278, 303, 304, 237, 256, 279, 444, 317):
    syscall(f"call {call}", call, 1, 1, 0, 0, 0)
""",
    "every family of sockets": """
import socket
for family in range(64):
    for kind in (1, 2, 3, 5):
        if family != socket.AF_UNIX: attempt(family, lambda: socket.socket(family, kind))
""",
    "a program in memory": """
try: one, path = os.memfd_create("program", 0), ""
except OSError: one, path = os.open("p", os.O_CREAT | os.O_RDWR, 0o700), "p"
os.write(one, open("/bin/sh", "rb").read())
if path: os.close(one)
if (child := os.fork()) == 0:
    os.execve(path or f"/proc/self/fd/{one}", ["sh", "-c",
        "cd /proc/self; grep -q Seccomp:.2 status && grep -q NoNewPrivs:.1 status && exit 7"], {})
found(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7 or "DONE")
""",
    "a filter of its own": """
syscall("seccomp", 317, 1, 0, ctypes.create_string_buffer(16))
syscall("prctl", 157, 22, 2, ctypes.create_string_buffer(16), 0, 0)
syscall("off", 157, 22, 0, 0, 0, 0)
syscall("dumpable", 157, 4, 0, 0, 0, 0)
syscall("timing", 157, 13, 1, 0, 0, 0)
""",
    "long names and deep folders": """
attempt("256", lambda: os.mkdir("x" * 256))
os.mkdir("y" * 255)
depth = 0
try:
    while True: os.mkdir("d"); os.chdir("d"); depth += 1
except OSError: found(depth > 50)
""",
    "sparse files": """
attempt("terabyte", lambda: os.truncate(os.open("a", os.O_CREAT | os.O_RDWR), 1 << 40))
attempt("allocated", lambda: os.posix_fallocate(os.open("b", os.O_CREAT | os.O_RDWR), 0, 1 << 30))
attempt("past the end", lambda: os.pwrite(os.open("c", os.O_CREAT | os.O_RDWR), b"x", 1 << 45))
""",
    "devices": """
for kind in (0o020000, 0o060000):
    for major in (1, 5, 7, 8, 10):
        attempt("node", lambda: os.mknod("n", kind | 0o600, os.makedev(major, 1)))
for name in "tty console kmsg mem fuse kvm vsock net/tun userfaultfd shm/../mem".split():
    attempt(name, lambda: os.open(f"/dev/{name}", os.O_RDWR))
""",
    "the time stamps of what is shared": """
for path in (os.__file__, "/usr", "/dev/null", sys.executable or "/bin/sh"):
    attempt(path, lambda: os.utime(path, (0, 0)))
    attempt(path, lambda: os.utime(path))
    attempt(path, lambda: os.chmod(path, 0o777))
    attempt(path, lambda: os.link(path, "/box/linked"))
""",
    "attributes": """
open("f", "w").close()
for name in ("user.a", "trusted.a", "security.capability", "system.posix_acl_access"):
    attempt(name, lambda: os.setxattr("f", name, b"x" * 20))
""",
    "handles of files": """
handle = ctypes.create_string_buffer(b"\\x80" + bytes(200))
syscall("name", 303, -100, b"/", handle, ctypes.byref(ctypes.c_int()), 0)
syscall("open", 304, -100, handle, 0)
""",
    "what others wait for": """
import fcntl
one = os.open(os.__file__, os.O_RDONLY)
attempt("lease", lambda: fcntl.fcntl(one, 1024, 1))
attempt("mandatory", lambda: fcntl.fcntl(one, 1026, 0x8000003F))
attempt("size of a pipe", lambda: fcntl.fcntl(os.pipe()[1], 1031, 1 << 20))
""",
}

ENDS: Mapping[str, tuple[str, tuple[RunStatus, ...]]] = {
    "leaves processes that fork": (
        "for _ in range(4):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        while True:\n            try:\n                if os.fork(): os._exit(0)\n"
        "            except OSError: pass\nfound('end')",
        (RunStatus.EXITED,),
    ),
    "its first thread ends before the others": (
        "import threading\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), found('end'), os._exit(0))).start()\n"
        "libc.syscall(60, 0)",
        (RunStatus.EXITED,),
    ),
    "a thread executes another program": (
        "import threading\n"
        "threading.Thread(target=os.execv, args=('/bin/echo', ['echo', 'end'])).start()\n"
        "time.sleep(100)",
        (RunStatus.EXITED,),
    ),
    "stops itself": (
        "found('end')\nos.kill(os.getpid(), 19)",
        (RunStatus.BLOCKED_LIMIT,),
    ),
    "writes in packets, and takes back what it wrote": (
        "import fcntl\nfcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)\n"
        "try: os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)\n"
        "except OSError: found('end')",
        (RunStatus.EXITED,),
    ),
    "killed by each of its children": (
        "found('end')\nfor _ in range(8):\n"
        "    if os.fork() == 0:\n        os.kill(os.getppid(), 9)\n"
        "        os._exit(0)\ntime.sleep(100)",
        (RunStatus.SIGNALED,),
    ),
}


@pytest.mark.parametrize("run", ["zygote", "fallback", "unprivileged zygote"], indirect=True)
def test_pid_1_reports_the_end_of_a_program_that_attacks_it(run: Run) -> None:
    """In bubblewrap's boxes pid 1 has the rights of the program; only compilers run there."""
    for name, attack in ON_PID_1.items():
        result = run(HELP + attack + "\nfound('alive')\n", limits=LIMITS)
        assert (result.status, result.exit_code) == (RunStatus.EXITED, 0), (name, result)
        assert result.stdout.splitlines()[-1] == b"alive", (name, result)
        assert b"DONE" not in result.stdout, (name, result.stdout.decode())


@pytest.mark.parametrize("run", ALL, indirect=True)
def test_nothing_of_the_box_gives_way(run: Run) -> None:
    for name, attack in ON_THE_REST.items():
        result = run(HELP + attack, limits=LIMITS)
        assert (result.status, result.exit_code) == (RunStatus.EXITED, 0), (name, result)
        assert result.stdout, name
        assert b"DONE" not in result.stdout, (name, result.stdout.decode())


@pytest.mark.parametrize("run", ALL, indirect=True)
def test_an_odd_end_is_a_verdict(run: Run) -> None:
    limits = replace(LIMITS, blocked_s=1.0)
    for name, (source, statuses) in ENDS.items():
        result = run(HELP + source, limits=limits)
        assert result.status in statuses, (name, result)
        assert result.stdout == b"end\n", (name, result)


OUTPUTS = """
import os, socket
name = "é" * 127
open(name, "w").write("long")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
os.symlink("loop", "loop")
os.symlink("/proc/self/fd/0", "input")
os.symlink("/usr/bin/env", "tool")
os.makedirs("closed/deep"); open("closed/deep/file", "w").write("x"); os.chmod("closed", 0)
open("hidden", "w").write("x"); os.chmod("hidden", 0o200)
open("set", "w").write("set"); os.chmod("set", 0o6777)
with open("sparse", "wb") as file: file.truncate(4 << 20)
os.makedirs("a"); os.symlink("../..", "a/up")
os.symlink("/box", "again")
open("gone", "w").write("x"); kept = open("gone"); os.unlink("gone")
os.rename("/scratch/box", "/scratch/moved") if os.path.isdir("/scratch/box") else None
open("last", "w").write("last")
"""
NAMES = (
    *("é" * 127, "fifo", "socket", "loop", "input", "tool", "closed/deep/file", "set", "sparse"),
    *("absent", "a/up/etc/passwd", "a/up/box/last", "again/last", "gone", "last", "fifo/x"),
)


def test_odd_outputs_are_left_out_and_none_holds_the_launcher_up(zygote: ZygoteLauncher) -> None:
    limits = Limits(cpu_s=5.0, file_bytes=4 * MIB, disk_bytes=16 * MIB)
    run = PythonRun(source=OUTPUTS.encode(), collect=NAMES, limits=limits)
    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(zygote.run_python, [run] * 4):
            assert result.exit_code == 0, result.stderr.decode()
            found = {**result.files}
            assert (
                hashlib.sha256(found.pop("sparse")).digest()
                == hashlib.sha256(bytes(4 * MIB)).digest()
            )
            found.pop("closed/deep/file", None)  # a launcher that is root may read it
            assert found == {"é" * 127: b"long", "set": b"set", "last": b"last"}


def test_a_program_that_is_executed_cannot_hinder_its_own_report(zygote: ZygoteLauncher) -> None:
    """From the first instruction on, while pid 1 still reads that the program has begun."""
    source = b"""
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
    struct rlimit none = {0, 0};
    for (int at = 0; at < 16; at++) prlimit(1, at, &none, 0);
    return write(1, "end\\n", 4) != 4;
}
"""
    built = zygote.run(
        CommandRun(argv=("gcc", "-O1", "-o", "a", "a.c"), files={"a.c": source}, collect=("a",))
    )
    attack = CommandRun(
        argv=("./a",), files={"a": built.files["a"]}, executables=frozenset({"a"}), limits=LIMITS
    )
    for _ in range(20):
        result = zygote.run(attack)
        assert (result.status, result.exit_code) == (RunStatus.EXITED, 0)
        assert result.stdout == b"end\n"
