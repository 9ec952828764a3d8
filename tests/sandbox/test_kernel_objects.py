"""Nothing that a box shares with the host or with other boxes can be used up, changed or signalled.

Each specification runs in four boxes: the zygote's and bubblewrap's, of a launcher that is root and
of one that is not. The system calls are tried by number, so that a call which no one here has heard
of is tried as well.
"""

import ctypes
import fcntl
import json
import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.elsewhere import Unprivileged
from tests.sandbox.test_hostile_programs import PRELUDE
from tests.sandbox.test_launchers import _own_paths
from tests.sandbox.ways import INTERPRETER, ROOMY, Run, processes_of, until

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox import seccomp
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, CommandRun, Limits, PythonRun, RunResult, RunStatus
from assay.sandbox.seccomp import ALLOWED, ANSWERED, numbers_of

NUMBERS = 620
"""System calls tried; the newest kernel has some 470."""
X32 = 0x4000_0000
PAST_EVERY_FILTER = {335: "uretprobe", 336: "uprobe"}
"""The kernel itself lets them pass; they kill what is not at a probe of the kernel's."""


def said(result: RunResult) -> list[str]:
    assert (result.status, result.exit_code) == (RunStatus.EXITED, 0), result
    return result.stdout.decode().splitlines()


def none_done(result: RunResult) -> None:
    lines = said(result)
    assert lines
    assert not [line for line in lines if "DONE" in line.split()]


# -- system calls by number --------------------------------------------------------------------

EVERY_NUMBER = """
import json, signal
wanted = json.loads(input())
def attempt_number(number):
    result = libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0, 0)
    return "done" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), "unknown")
refused = {number: attempt_number(number) for number in wanted["refused"]}
for number in wanted["allowed"]:
    if (child := os.fork()) == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        attempt_number(number)
        os._exit(0)
    os.waitpid(child, 0)
print(json.dumps(refused))
"""
BY_ARGUMENT = {
    *("clone", "fcntl", "ioctl", "madvise", "mmap", "memfd_create", "prctl", "setsockopt"),
    *("prlimit64", "socket", "socketpair"),
}
DANGEROUS = frozenset(
    """
    unshare setns mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsmount
    fsconfig fspick mount_setattr statmount listmount ptrace process_vm_readv process_vm_writev
    process_madvise kcmp pidfd_getfd bpf perf_event_open userfaultfd io_uring_setup io_uring_enter
    io_uring_register keyctl add_key request_key fanotify_init fanotify_mark name_to_handle_at
    open_by_handle_at inotify_init inotify_init1 inotify_add_watch io_setup io_submit mq_open
    shmget shmat semget msgget memfd_secret quotactl quotactl_fd landlock_create_ruleset seccomp
    kexec_load kexec_file_load reboot init_module finit_module delete_module swapon swapoff syslog
    acct settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname iopl ioperm
    modify_ldt personality mbind set_mempolicy migrate_pages move_pages sched_setscheduler
    sched_setparam sched_setattr ioprio_set mincore cachestat readahead fadvise64 vmsplice mlock
    mlockall mlock2 clone3 lsm_set_self_attr lookup_dcookie uselib vhangup sysfs ustat
    """.split()  # noqa: SIM905 - a list of 90 lines says no more
)


def host_counters() -> dict[str, str]:
    names = ("sys/fs/aio-nr", "sys/fs/dentry-state", "keys", "key-users")
    paths = {name: Path("/proc", name) for name in names if name != "sys/fs/dentry-state"}
    found = {name: path.read_text() for name, path in paths.items() if path.exists()}
    # Timeouts and use counts of keys change by themselves; which there are does not.
    keys = sorted(line.split()[0] for line in found.pop("keys", "").splitlines())
    users = sorted(line.split(":")[0] for line in found.pop("key-users", "").splitlines())
    return {**found, "keys": " ".join(keys), "users": " ".join(users)}


def test_every_call_that_is_not_on_the_list_is_refused_whatever_its_number(run: Run) -> None:
    known = numbers_of(ALLOWED | ANSWERED | BY_ARGUMENT)
    if os.uname().machine == "x86_64":
        known |= PAST_EVERY_FILTER
    refused = [number for number in range(NUMBERS) if number not in known]
    if os.uname().machine == "x86_64":
        refused += [X32 + number for number in range(NUMBERS)]
    before = host_counters()
    order = json.dumps({"refused": refused, "allowed": sorted(known)})
    answers = json.loads(
        said(run(PRELUDE + EVERY_NUMBER, stdin=order.encode()))[-1],
    )
    assert set(map(int, answers)) == set(refused)
    assert set(answers.values()) <= {"ENOSYS", "EPERM", "ENOTSUP", "EOPNOTSUPP"}, answers
    assert host_counters() == before


def test_no_dangerous_call_is_on_the_list() -> None:
    assert not DANGEROUS & (ALLOWED | ANSWERED)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the old gate is of x86 alone")
def test_calls_through_the_gate_of_32_bit_programs_are_refused(run: Run) -> None:
    source = """
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, getpid; int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
if (child := os.fork()) == 0:
    os._exit(1 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0 else 0)
status = os.waitpid(child, 0)[1]
found("refused" if os.waitstatus_to_exitcode(status) <= 0 else "DONE")
"""
    none_done(run(PRELUDE + source))


# -- system calls by argument ------------------------------------------------------------------

EVERY_ARGUMENT = """
import json
found_by = {}
descriptor = os.open("/dev/null", os.O_RDONLY)
for name, number, before, values in json.loads(input()):
    before = [descriptor if argument == "fd" else argument for argument in before]
    for value in values:
        words = [*before, value, 0, 0, 0, 0]
        result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, words[:6]))
        code = "DONE" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), "unknown")
        found_by.setdefault(name, {}).setdefault(code, []).append(value)
print(json.dumps(found_by))
"""
HIGH_BITS = 1 << 40
"""The kernel does not look at them in these arguments; the filter must not either."""


def _sweeps(seed: int) -> list[tuple[str, list[Any], list[int]]]:
    """Call, arguments before the one that decides, and values of it that are not allowed."""
    drawn = random.Random(seed)
    ioctls = {*range(0x5400, 0x5480), *(drawn.getrandbits(32) for _ in range(2_000))}
    families = set(range(64)) - {socket.AF_UNIX}
    namespaces = [bit for bit in (1 << at for at in range(32)) if bit & seccomp.NAMESPACES]
    swept: dict[str, tuple[list[Any], set[int]]] = {
        "prctl": ([], {*range(200), *seccomp.PRCTL_OPTIONS} - {*seccomp.PRCTL_OPTIONS}),
        "ioctl": (["fd"], ioctls - {*seccomp.IOCTL_REQUESTS}),
        "fcntl": (
            ["fd"],
            {*range(2_048)} - {*seccomp.FCNTL_COMMANDS} - {*seccomp.LOCK_COMMANDS},
        ),
        "madvise": ([0, 0], {*range(256)} - {*seccomp.MEMORY_ADVICE}),
        "setsockopt": (["fd", 1], {*range(512)} - {*seccomp.SOCKET_OPTIONS}),
        "socket": ([], families),
        "socketpair": ([], families),
        "clone": ([], {bit | 17 for bit in namespaces}),
        "unshare": ([], {1 << at for at in range(32)}),
        "prlimit64": ([], {1, 2, 3, *(1 << at for at in range(2, 32)), 0xFFFF_FFFF}),
    }
    return [(name, before, sorted(values)) for name, (before, values) in swept.items()]


def test_no_argument_that_is_not_on_the_list_gets_through(run: Run) -> None:
    seed = 20_11
    print(f"seed {seed}")
    numbers = {name: number for number, name in numbers_of(n for n, *_ in _sweeps(seed)).items()}
    order = [
        (name, numbers[name], before, [*values, *(value | HIGH_BITS for value in values[:50])])
        for name, before, values in _sweeps(seed)
    ]
    found = json.loads(
        said(run(PRELUDE + EVERY_ARGUMENT, stdin=json.dumps(order).encode(), limits=ROOMY))[-1]
    )
    for name, by_code in found.items():
        assert set(by_code) <= {"ENOSYS", "EPERM"}, (name, sorted(by_code))


# -- what is counted per user or per machine ---------------------------------------------------

COUNTED = """
import fcntl, mmap
NUMBER = json.loads(input())
def flood(name, *arguments):
    for _ in range(200):
        if libc.syscall(ctypes.c_long(NUMBER[name]), *arguments) >= 0:
            return found(name, "DONE")
    found(name, errno.errorcode[ctypes.get_errno()])
context = ctypes.c_ulong()
flood("inotify_init1", 0)
flood("io_setup", 1, ctypes.byref(context))
flood("fanotify_init", 0, 0)
flood("mq_open", b"queue", os.O_CREAT | os.O_RDWR, 0o600, None)
flood("shmget", 0, 4096, 0o1600)
flood("semget", 0, 1, 0o1600)
flood("msgget", 0, 0o1600)
flood("add_key", b"user", b"name", b"value", 5, -4)
flood("keyctl", 1, None)
flood("io_uring_setup", 1, ctypes.create_string_buffer(256))
flood("userfaultfd", 1)
flood("landlock_create_ruleset", None, 0, 1)
flood("memfd_secret", 0)
flood("mlock", ctypes.addressof(context), 8)
reader, writer = os.pipe()
attempt("pipe size", lambda: fcntl.fcntl(writer, 1031, 1 << 20))
attempt("lease", lambda: fcntl.fcntl(os.open(os.__file__, os.O_RDONLY), 1024, fcntl.F_RDLCK))
attempt("notify", lambda: fcntl.fcntl(os.open("/usr", os.O_RDONLY), 1026, 1))
attempt("huge pages", lambda: mmap.mmap(-1, 2 << 20, flags=mmap.MAP_SHARED | 0x40020))
"""


def test_no_object_that_is_counted_beyond_the_box_can_be_made(run: Run) -> None:
    names = """inotify_init1 io_setup fanotify_init mq_open shmget semget msgget add_key keyctl
    io_uring_setup userfaultfd landlock_create_ruleset memfd_secret mlock""".split()  # noqa: SIM905 - likewise
    numbers = {name: number for number, name in numbers_of(names).items()}
    source = PRELUDE.replace("import ctypes,", "import json, ctypes,") + COUNTED
    none_done(run(source, stdin=json.dumps({**dict.fromkeys(names, -1), **numbers}).encode()))


FILL = """
import ctypes, mmap, os, select, signal, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0: raise OSError(ctypes.get_errno(), "call")
    return result
def watch():
    poll, (reader, writer) = select.epoll(), os.pipe()
    poll.register(reader)
    return poll, reader, writer
def full_pipe():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while True:
        try: os.write(writer, bytes(4096))
        except BlockingIOError: return reader, writer
def full_socket():
    ends = socket.socketpair()
    ends[0].setblocking(False)
    try:
        while True: ends[0].send(bytes(4096))
    except BlockingIOError: return ends
def bound():
    one = socket.socket(socket.AF_UNIX)
    one.bind("\\0" + str(time.monotonic_ns()))
    return one
def thread():
    one = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    one.start()
    return one
def process():
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    return pid
def queued():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    return checked(libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None))
def timer():
    made = ctypes.c_void_p()
    checked(libc.timer_create(1, None, ctypes.byref(made)))
    return made
made_file = iter(range(10**6))
MAKERS = {
    "epoll watches": watch, "full pipes": full_pipe, "full sockets": full_socket,
    "abstract names": bound, "threads": thread, "processes": process,
    "queued signals": queued, "timers": timer,
    "event counters": lambda: checked(libc.eventfd(0, 0)),
    "timer descriptors": lambda: checked(libc.timerfd_create(1, 0)),
    "files": lambda: open(f"/tmp/{next(made_file)}", "x"),
    "mappings": lambda: mmap.mmap(-1, 4096),
}
held = []
try:
    while len(held) < 2_000: held.append(MAKERS[sys.argv[1]]())
except (OSError, RuntimeError, MemoryError):
    pass
os.write(1, str(len(held)).encode())
time.sleep(float(sys.argv[2]))
os._exit(0)
"""
KINDS = (
    *("epoll watches", "full pipes", "full sockets", "abstract names", "threads", "processes"),
    *("queued signals", "timers", "event counters", "timer descriptors", "files", "mappings"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_box_uses_up_its_neighbours_still_have(zygote: ZygoteLauncher, kind: str) -> None:
    """Boxes of one launcher have one uid, so what the kernel counts per user they would share."""

    def count(hold_s: float) -> int:
        argv = (kind, str(hold_s))
        result = zygote.run_python(PythonRun(source=FILL.encode(), argv=argv, limits=ROOMY))
        assert result.status is RunStatus.EXITED, result
        return int(result.stdout)

    alone = count(0.0)
    assert alone > 0
    with ThreadPoolExecutor(3) as pool:
        hostile = [pool.submit(count, 1.5) for _ in range(3)]
        until(lambda: len(processes_of(zygote)) >= len(hostile), "no neighbour is seen")
        assert count(0.0) >= 0.95 * alone
        assert min(one.result() for one in hostile) >= 0.95 * alone


def test_queued_signals_and_timers_are_bounded_within_the_box(run: Run) -> None:
    source = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
made, timer = 0, ctypes.c_void_p()
while made < 5_000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0: made += 1
found(made)
"""
    assert int(said(run(PRELUDE + source))[0]) <= 512


# -- what is shared ----------------------------------------------------------------------------

TOUCHES = """
for path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev", "/",
             "/usr", "/usr/bin/env", os.__file__, os.path.dirname(os.__file__), "/proc/self/exe"):
    for name, act in {
        "utime": lambda: os.utime(path),
        "times": lambda: os.utime(path, (1, 1)),
        "chmod": lambda: os.chmod(path, 0o777),
        "chown": lambda: os.chown(path, os.getuid(), os.getgid()),
        "xattr": lambda: os.setxattr(path, "user.signal", b"1"),
        "descriptor": lambda: os.utime(os.open(path, os.O_RDONLY)),
    }.items():
        attempt(f"{name} {path}", act)
"""


def test_no_metadata_of_a_shared_file_or_device_can_be_changed(run: Run) -> None:
    shared = [Path("/dev/null"), Path("/dev/zero"), Path("/dev/urandom"), Path("/usr/bin/env")]
    before = [(path.stat().st_mtime_ns, path.stat().st_mode) for path in shared]
    none_done(run(PRELUDE + TOUCHES))
    after = [(path.stat().st_mtime_ns, path.stat().st_mode) for path in shared]
    assert [one[1] for one in after] == [one[1] for one in before]
    # Others of this machine write to the first two; a box would have set them to now or to 1970.
    assert after[3] == before[3]


def test_devices_still_do_what_they_are_for(run: Run) -> None:
    source = """
open("/dev/null", "w").write("gone"); open("/dev/null", "ab").write(b"gone")
found(len(open("/dev/zero", "rb").read(8)), len(open("/dev/urandom", "rb").read(8)))
attempt("full", lambda: open("/dev/full", "w", 1).write("x\\n"))
"""
    assert said(run(PRELUDE + source)) == ["8 8", "full ENOSPC"]


def test_a_flush_of_a_shared_file_does_not_reach_the_machines_disk(run: Run) -> None:
    """The kernel would refuse an empty descriptor, and a range that begins before the file."""
    source = """
import json
for name, number in json.loads(input()).items():
    result = libc.syscall(ctypes.c_long(number), 99, -1, -1, -1)
    found(name, "answered" if result == 0 else "DONE")
"""
    names = ["fsync", "fdatasync", "sync_file_range", "msync", "syncfs"]
    numbers = {name: number for number, name in numbers_of(names).items()}
    lines = said(run(PRELUDE + source, stdin=json.dumps(numbers).encode()))
    assert lines == [f"{name} answered" for name in numbers]


LOCKS = """
import fcntl, struct, time
write = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
descriptor = os.open("/usr/bin/env", os.O_RDONLY)
attempt("flock", lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
for command in (6, 7, 37, 38):
    attempt(command, lambda: fcntl.fcntl(descriptor, command, write) and None)
sys.stdout.flush()
time.sleep(1)
"""


def test_a_lock_that_a_program_sets_on_a_shared_file_is_none(run: Run) -> None:
    """No other run sees it, so it is no signal; all commands to set one succeed."""
    with ThreadPoolExecutor(1) as pool, Path("/usr/bin/env").open("rb") as file:
        running = pool.submit(run, PRELUDE + LOCKS)
        while not running.done():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
            (held,) = struct.unpack("h", fcntl.fcntl(file, fcntl.F_GETLK, asked)[:2])
            assert held == fcntl.F_UNLCK
            time.sleep(0.001)
    assert said(running.result()) == [f"{name} DONE None" for name in ("flock", 6, 7, 37, 38)]


# -- honest programs -----------------------------------------------------------------------------

STANDARD_LIBRARY = """
import asyncio, base64, bz2, calendar, collections, concurrent.futures, configparser
import contextlib, csv
import ctypes, dataclasses, datetime, decimal, difflib, email.message, enum, fcntl, fractions
import glob, gzip, hashlib, heapq, html.parser, http.client, inspect, io, itertools
import json, logging, lzma
import mmap, multiprocessing, os, pathlib, pickle, queue, random, re, resource, select, selectors
import shelve, shutil, signal, socket, sqlite3, statistics, string, struct, subprocess, sys, tarfile
import tempfile, threading, time, tokenize, unittest, urllib.parse, uuid
import xml.dom.minidom, zipfile, zlib

def square(number): return number * number

def main():
    with sqlite3.connect("data.sqlite") as base:
        base.execute("create table t (x)")
        base.executemany("insert into t values (?)", [(1,), (2,)])
        print("sqlite", base.execute("select sum(x) from t").fetchone())
    for mode in ("wal", "delete", "truncate", "persist"):
        with sqlite3.connect(f"{mode}.sqlite", timeout=1) as base:
            said = base.execute(f"pragma journal_mode={mode}").fetchone()
            base.execute("create table t (x)")
            base.execute("insert into t values (1)")
        print("journal", *said, base.execute("select x from t").fetchone())
    for command in (fcntl.F_GETLK, 36):
        with open("data.sqlite", "rb+") as file:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0)
            (told,) = struct.unpack("h", fcntl.fcntl(file, command, asked)[:2])
            print("lock", told == fcntl.F_UNLCK)
    with shelve.open("shelf") as shelf: shelf["a"] = [1]
    with shelve.open("shelf") as shelf: print("shelve", shelf["a"])
    with open("locked", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
    pathlib.Path("a").write_text("text"); shutil.copy2("a", "b"); os.utime("b")
    os.chmod("b", 0o600)
    os.link("a", "c"); os.symlink("a", "d"); os.rename("c", "e"); shutil.copyfile("a", "f")
    with zipfile.ZipFile("z.zip", "w") as archive: archive.write("a")
    with tarfile.open("t.tar", "w") as archive: archive.add("a")
    shutil.rmtree(tempfile.mkdtemp()); tempfile.TemporaryFile().write(b"x"); os.sync()
    os.mkfifo("p")
    print("files", sorted(os.listdir("."))[:3])
    with mmap.mmap(-1, 8192) as shared: shared[:2] = b"ok"
    print(subprocess.run(["sort", "-r"], input=b"1\\n2\\n", capture_output=True).stdout)
    print(subprocess.check_output("echo $((6*7)) | cat; ls /usr | head -1 > /dev/null", shell=True))
    print(subprocess.check_output([sys.executable, "-c", "print(3)"]))
    with concurrent.futures.ThreadPoolExecutor(4) as pool: print(sum(pool.map(square, range(10))))
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool: print(pool.map(square, range(3)))
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(create=True, size=100); block.buf[:1] = b"s"; block.unlink()
    async def fetch():
        process = await asyncio.create_subprocess_exec("echo", "async", stdout=-1)
        return (await process.communicate())[0]
    print(asyncio.run(fetch()))
    ours, theirs = socket.socketpair(); ours.sendall(b"pair"); print(theirs.recv(4))
    server = socket.socket(socket.AF_UNIX); server.bind("socket"); server.listen()
    client = socket.socket(socket.AF_UNIX); client.connect("socket"); client.send(b"x")
    server.accept()
    rung = []
    signal.signal(signal.SIGALRM, lambda *_: rung.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while not rung: time.sleep(0.01)
    print(*rung); os.nice(1); resource.getrusage(0); os.sched_getaffinity(0); os.urandom(4)
    os.uname()
    print(os.isatty(0), os.getpid() > 0, os.cpu_count() > 0, os.get_terminal_size.__name__)

main()
"""


def test_real_programs_of_many_kinds_still_run(run: Run) -> None:
    lines = said(run(STANDARD_LIBRARY))
    assert lines == [
        "sqlite (3,)",
        *(f"journal {mode} (1,)" for mode in ("wal", "delete", "truncate", "persist")),
        *["lock True"] * 2,
        "shelve [1]",
        "files ['a', 'b', 'd']",
        "b'2\\n1\\n'",
        "b'42\\n'",
        "b'3\\n'",
        "285",
        "[0, 1, 4]",
        "b'async\\n'",
        "b'pair'",
        "alarm",
        "False True True get_terminal_size",
    ]


CPP = """
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <memory_resource>
#include <random>
#include <thread>
#include <vector>
int main() {
  std::ios::sync_with_stdio(false);
  std::vector<int> many(100000); std::mt19937 make(1); std::generate(many.begin(), many.end(),
  make);
  auto half = std::async(std::launch::async, [&] { std::sort(many.begin(), many.begin() + 50000);
  });
  std::thread other([&] { std::sort(many.begin() + 50000, many.end()); });
  half.get(); other.join(); std::inplace_merge(many.begin(), many.begin() + 50000, many.end());
  std::ofstream("out") << many.size(); long size; std::ifstream("out") >> size;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::filesystem::create_directory("d"); std::filesystem::copy_file("out", "d/copy");
  std::cout << std::is_sorted(many.begin(), many.end()) << size
            << std::filesystem::file_size("d/copy") << std::endl;
}
"""


def test_a_cpp_program_with_threads_and_files_runs(
    zygote: ZygoteLauncher, bubblewrap: BubblewrapLauncher
) -> None:
    built = bubblewrap.run(
        CommandRun(
            argv=("g++", "-std=c++17", "-pthread", "-o", "a", "a.cc"),
            files={"a.cc": CPP.encode()},
            collect=("a",),
            limits=Limits(cpu_s=30, memory_bytes=1_024 * MIB),
        )
    )
    assert built.exit_code == 0, built.stderr.decode()
    for launcher in (zygote, bubblewrap):
        order = CommandRun(
            argv=("./a",), files=built.files, executables=frozenset({"a"}), limits=ROOMY
        )
        assert launcher.run(order).stdout == b"11000006\n"


# -- memory without cgroups ----------------------------------------------------------------------


@pytest.fixture(scope="module", params=["root", "unprivileged"])
def without_cgroup(request: pytest.FixtureRequest) -> Iterator[Run]:
    if request.param == "root":
        with ZygoteLauncher(SandboxSettings(cgroup="none"), Clock()) as launcher:

            def here(source: str, **fields: Any) -> RunResult:
                return launcher.run_python(PythonRun(source=source.encode(), **fields))

            yield here
    else:
        request.getfixturevalue("unprivileged")
        other = Unprivileged("none")

        def elsewhere(source: str, **fields: Any) -> RunResult:
            return other.run("zygote", source, **fields)

        yield elsewhere
        other.close()


def test_without_cgroups_files_in_memory_are_refused(without_cgroup: Run) -> None:
    source = """
attempt("memfd", lambda: os.memfd_create("hidden"))
found("shm", libc.shmget(0, 1 << 20, 0o1600))
"""
    assert said(without_cgroup(PRELUDE + source, limits=ROOMY)) == ["memfd ENOSYS", "shm -1"]


def test_without_cgroups_shared_memory_counts(without_cgroup: Run) -> None:
    source = """
import mmap
kept = []
for _ in range(200):
    kept.append(mmap.mmap(-1, 4 << 20)); kept[-1].write(b"x" * (4 << 20))
    if os.fork() == 0:
        time.sleep(0.2); os._exit(0)
time.sleep(1)
print("all of it")
"""
    limits = replace(ROOMY, memory_bytes=64 * MIB, processes=256)
    result = without_cgroup(PRELUDE + source, limits=limits)
    assert result.status is RunStatus.MEMORY_LIMIT or b"MemoryError" in result.stderr, result


def test_without_cgroups_a_shared_page_is_charged_once(without_cgroup: Run) -> None:
    source = """
import mmap
shared, private = mmap.mmap(-1, 48 << 20), bytearray(16 << 20)
for _ in range(48): shared.write(b"x" * (1 << 20))
for at in range(0, 16 << 20, 4096): private[at] = 1
for _ in range(6):
    if os.fork() == 0:
        total = sum(shared[at] for at in range(0, 48 << 20, 4096)) + sum(private[::4096])
        time.sleep(0.3); os._exit(total > 0)
for _ in range(6): assert os.wait()[1] == 256
print("honest")
"""
    limits = replace(ROOMY, memory_bytes=128 * MIB)
    assert said(without_cgroup(PRELUDE + source, limits=limits)) == ["honest"]


def test_the_operators_bound_on_scratch_space_holds_whatever_a_run_asks_for() -> None:
    source = b"""
written = 0
try:
    with open("/tmp/x", "wb", 0) as file:
        while True: written += file.write(bytes(1 << 20))
except OSError as error:
    print(error.errno, written >> 20)
"""
    settings = SandboxSettings(scratch_bytes_max=4 * MIB)
    for launcher in (ZygoteLauncher(settings, Clock()), BubblewrapLauncher(settings, Clock())):
        with launcher:
            argv = (INTERPRETER, "-S", "program.py")
            order = CommandRun(argv=argv, files={"program.py": source})
            code, written = launcher.run(order).stdout.split()
            assert int(code) == 28
            assert 2 <= int(written) <= 4


CONFINED = """
import json, os, signal, sys
from assay.config.settings import SandboxSettings
from assay.sandbox.confine import confine_process
missing = confine_process(SandboxSettings()).missing
print(json.dumps([os.getpid(), os.getuid(), missing]), flush=True)
others = json.loads(input())
outcome = []
for pid in others:
    try:
        os.kill(pid, 0)
        outcome.append("DONE")
    except OSError as error:
        outcome.append(error.errno)
print(json.dumps(outcome), flush=True)
input()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has uids to give")
def test_confined_processes_have_a_uid_each_and_cannot_signal_each_other() -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CONFINED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    try:
        told = [json.loads(process.stdout.readline()) for process in started if process.stdout]
        assert len({uid for _, uid, _ in told}) == 3
        assert 0 not in {uid for _, uid, _ in told}
        assert [missing for *_, missing in told] == [[], [], []]
        for process, (own, *_) in zip(started, told, strict=True):
            assert process.stdin is not None
            assert process.stdout is not None
            others = [pid for pid, *_ in told if pid != own]
            print(json.dumps(others), file=process.stdin, flush=True)
            assert "DONE" not in json.loads(process.stdout.readline())
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_a_number_is_claimed_by_a_socket_that_can_send_nothing() -> None:
    from assay.sandbox.uid_claim import UidClaim

    with UidClaim() as claim, pytest.raises(BrokenPipeError):
        claim._claim.sendto(b"x", b"\0somebody")


@pytest.mark.parametrize("below", ["/tmp", "/dev/shm", "/run", "/var/tmp"])
def test_directories_below_one_that_a_box_covers_are_shown(below: str) -> None:
    import tempfile

    from assay.sandbox.launchers.order import Inside

    if not os.access(below, os.W_OK):
        pytest.skip(f"this user may not write below {below}")
    with tempfile.TemporaryDirectory(dir=below, prefix="assay-test-") as name:
        directory = Path(name, "packages")
        directory.mkdir()
        Path(name).chmod(0o755)
        (directory / "given.py").write_text("answer = 42")
        inside = Inside(python_path=(directory,))
        with ZygoteLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
            order = PythonRun(source=b"import given; print(given.answer)")
            assert launcher.run_python(order).stdout == b"42\n"
        with BubblewrapLauncher(SandboxSettings(), Clock(), inside=inside) as other:
            assert other.run(CommandRun(argv=("cat", f"{directory}/given.py"))).stdout
        confined = subprocess.run(
            [sys.executable, "-c", LATE_IMPORT],
            env={"PYTHONPATH": os.pathsep.join([str(directory), *_own_paths()])},
            capture_output=True,
            check=False,
        )
        assert confined.stdout == b"42\n", confined.stderr.decode()


LATE_IMPORT = """
from assay.config.settings import SandboxSettings
from assay.sandbox.confine import confine_process
confine_process(SandboxSettings())
import given
print(given.answer)
"""


def test_a_directory_that_a_box_needs_for_itself_is_refused_with_its_name() -> None:
    from assay.core.errors import IsolationUnavailable
    from assay.sandbox.launchers.order import Inside

    with pytest.raises(IsolationUnavailable, match="/tmp"):
        ZygoteLauncher(SandboxSettings(), Clock(), inside=Inside(readable=(Path("/tmp"),)))


assert ctypes.sizeof(ctypes.c_long) == 8
