"""The inside of a box: the code between the zygote's fork and the untrusted program.

A box is a process that is pid 1 of fresh namespaces. It waits for one request on its socket, builds
the scratch file system, starts the program as its child without capabilities, privileges,
descriptors and most system calls, reports how it ended, and exits; the kernel then kills the
remaining processes of the namespaces. Invariants:

* the program holds descriptors 0, 1, 2 and nothing else;
* pid 1 cannot be traced, read or killed by the program, and only pid 1 holds the box's socket;
* a harness (`HarnessRun`) is pid 1 itself; processes that it forks with `spawn_confined` live in a
  nested pid and mount namespace and were forked before the sealed data was read.

Loaded by the zygote: standard library only, and little of it.

A harness is a Python file, or a file of a package (standard library only, and no imports of `assay`
except from that package). Pass it to `ZygoteLauncher(harnesses={"name": path})`, with

    def main(payload: bytes, box) -> None: theirs, ours = socket.socketpair()
        # any pipes between the two def candidate() -> None: ...                             # runs
        untrusted code pid = box.spawn_confined(candidate, keep_fds=[theirs.fileno()])
        theirs.close() tests = box.unseal()                                     # the candidate has
        no copy box.confine_self() ...                                                      # ask
        it, compare its answers box.channel_write(verdict)                               # only the
        harness can

`candidate` returning is exit code 0, an exception is 1 with a traceback on stderr, `sys.exit` and
`os._exit` set the exit code; `os.waitpid(pid, 0)` returns it. When `main` returns the box ends,
even if the candidate is still running. An exception of `main` is a `SandboxError` for the caller.
"""

import _thread
import atexit
import gc
import marshal
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple, NoReturn

from assay.sandbox import linux
from assay.sandbox.accounting import blocked

USER: Final = 1_000
"""uid and gid inside a box."""
SCRATCH: Final = "/scratch"
FILTER: Final = "@filter"
"""Placeholder in bubblewrap's arguments for the descriptor of the filter."""
STATUS: Final = "@status"
"""Placeholder for the descriptor that it reports to."""
_DESCRIPTORS_MAX: Final = 64
"""Maximum number of descriptors in one request."""
_DETAILS_MAX: Final = 8_000
_KILL_ROUNDS_MAX: Final = 10_000
_READINGS_MAX: Final = 16
_ALONE_NS: Final = 2_000_000
"""CPU time of other tasks from which they are known to exist."""
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


class Request:
    """One run, as the launcher sent it."""

    def __init__(self, header: dict[str, Any], descriptors: Sequence[int]) -> None:
        self.kind: str = header["kind"]
        self.argv: list[str] = header["argv"]
        self.env: dict[str, str] = header["env"]
        self.files: list[tuple[str, bytes, bool]] = header["files"]
        self.source: bytes = header["source"]
        self.limits: dict[str, int] = header["limits"]
        self.directory: str = header["directory"]
        """The box's working directory if there is no mount namespace with `/box`."""
        self.stdio = tuple(descriptors[:3])
        special = header["special"]
        self.special = tuple(descriptors[3 : 3 + special])
        """Channel and sealed data of a harness."""
        self.cgroup = tuple(descriptors[3 + special :])


def receive(box: socket.socket) -> Request | None:
    """Wait for the request; `None` if the launcher closed the socket."""
    message, descriptors, _, _ = socket.recv_fds(box, 1, _DESCRIPTORS_MAX)
    if not message:
        return None
    with os.fdopen(descriptors[0], "rb") as file:
        header = marshal.load(file)  # noqa: S302 - it comes from the launcher, which is trusted
    return Request(header, descriptors[1:])


def tell(box: socket.socket, what: str, details: str = "", descriptors: Sequence[int] = ()) -> None:
    """Send a report to the launcher: `started`, `ended ...` (`tell_end`) or `failed <reason>`."""
    message = f"{what} {details[-_DETAILS_MAX:]}".encode(errors="replace")
    socket.send_fds(box, [message], descriptors)


def tell_start(box: socket.socket, edge: blocked.Edge, descriptors: Sequence[int] = ()) -> None:
    """Report that the program, or the harness, has started."""
    tell(box, "started", blocked.words_of(edge), descriptors)


def edge_of_harness() -> blocked.Edge:
    """Return the current state of this process as the beginning or end of a harness."""
    return _edge_of_self(is_head=True, is_alone=False)


def _edge_of_self(*, is_head: bool, is_alone: bool) -> blocked.Edge:
    """Return an instant and the counters of this process at that instant.

    A wait for a core between the two would count as blocked time, so they are read again after one.
    """
    booked = blocked.own_reading()
    for _ in range(_READINGS_MAX):
        at_ns, before = now_ns(), booked
        booked = blocked.own_reading()
        if booked.delayed_ns == before.delayed_ns:
            break
    return blocked.Edge(at_ns, booked, is_head=is_head, is_alone=is_alone)


def tell_end(box: socket.socket, wait_status: int, edge: blocked.Edge) -> None:
    """Report how and when the program ended, with the usage of its reaped processes.

    The launcher needs their CPU time and memory only if no cgroup counts them.
    """
    cpu_ns = children_cpu_ns()
    resident = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    tell(box, "ended", f"{wait_status} {cpu_ns // 1_000} {resident} {blocked.words_of(edge)}")


def children_cpu_ns() -> int:
    """CPU time of all processes below this one that have been reaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


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


def execute(argv: Sequence[str], env: dict[str, str]) -> NoReturn:
    """Execute another program; exit code 127 if it does not exist, as in a shell."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    os._exit(127)


def renew_standard_streams() -> None:
    """Open text streams on descriptors 0, 1 and 2, to replace the zygote's."""
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]  # as at a start


def finish(run: Callable[[], None], hidden_frames: int) -> NoReturn:
    """Call `run` and end this process as the interpreter ends after its main program.

    Args:
        run: the main program.
        hidden_frames: number of Assay's frames at the head of its tracebacks.
    """
    code = 0
    try:
        run()
    except SystemExit as leaving:
        code = _exit_code(leaving.code)
    except BaseException as error:  # noqa: BLE001 - any exception of the program is shown
        code = 1
        trace = error.__traceback__
        for _ in range(hidden_frames):
            trace = trace.tb_next if trace else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    os._exit(_finalize(code))


def _exit_code(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    sys.stderr.write(f"{value}\n")
    return 1


def _finalize(code: int) -> int:
    """Shut down like the interpreter: wait for threads, run exit hooks, drop globals, flush."""
    threading: Any = sys.modules.get("threading")
    exits: Any = atexit
    try:
        if threading is not None:
            threading._shutdown()  # noqa: SLF001 - what the interpreter itself calls here
        exits._run_exitfuncs()  # noqa: SLF001 - the same
        sys.modules["__main__"].__dict__.clear()
    except BaseException:  # noqa: BLE001 - exit hooks of the program may raise anything
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    return code


def run_source(where: str, source: bytes, argv: Sequence[str], env: dict[str, str]) -> NoReturn:
    """Run like `python program.py ARGS` in `where`, without starting an interpreter.

    `source` is a prelude, a NUL (which Python text cannot contain), and the program.
    """
    prelude, _, source = source.partition(b"\0")
    path = f"{where}/{argv[0]}"
    os.environ.clear()
    os.environ.update(env)
    renew_standard_streams()
    main = ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    sys.argv[:] = argv
    sys.path.insert(0, where)
    gc.enable()

    def program() -> None:
        if prelude:
            exec(compile(prelude, "preamble", "exec", dont_inherit=True), {})  # noqa: S102 - as below
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - this is the purpose of the sandbox

    finish(program, hidden_frames=2)


class Box:
    """The operations of a harness; implements `assay.sandbox.port.Box`."""

    def __init__(
        self,
        request: Request,
        filter_: linux.Filter,
        *,
        nested: bool,
        shown: Sequence[tuple[str, str]],
    ) -> None:
        self._limits = request.limits
        self._channel, self._sealed = request.special
        self._filter = filter_
        self._nested = nested
        self._shown = shown
        self._unsealed = False

    def spawn_confined(self, run: Callable[[], None], *, keep_fds: Sequence[int]) -> int:
        """Fork `run` into a nested pid and mount namespace; returns its pid.

        Raises:
            RuntimeError: after `unseal`, because the child would hold a copy of the sealed data.
        """
        if self._unsealed:
            raise RuntimeError("spawn_confined after unseal would expose the sealed data")
        namespaces = linux.CLONE_NEWPID | linux.CLONE_NEWNS if self._nested else 0
        _ignore_interrupts()
        pid, pidfd = linux.clone(namespaces)
        if pid:
            os.close(pidfd)
            return pid
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._enter_nested(keep_fds)
        except BaseException:  # noqa: BLE001 - no code of the harness may continue in this process
            traceback.print_exc()
            os._exit(126)
        finish(run, hidden_frames=1)

    def unseal(self) -> bytes:
        """Return the sealed data, once."""
        if self._unsealed:
            raise RuntimeError("unsealed already")
        self._unsealed = True
        with os.fdopen(self._sealed, "rb") as file:
            return file.read()

    def confine_self(self) -> None:
        """Drop capabilities and the denied system calls; the channel stays open."""
        give_up(self._filter)

    def channel_write(self, data: bytes) -> None:
        """Append to the result's channel."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._channel, view) :]

    def blocked_meter(self, pid: int) -> blocked.BlockedTime:
        """Return a meter for the process `pid` and its descendants."""
        return blocked.BlockedTime(lambda: blocked.tree(pid))

    def _enter_nested(self, keep_fds: Sequence[int]) -> None:
        # A signal to its process group must reach neither the harness nor another box.
        os.setsid()
        linux.close_all_but([0, 1, 2, *keep_fds])
        linux.die_with_parent()
        if self._nested:
            mount_proc()
            mount_scratch(self._limits, self._shown)
            os.chdir("/box")
        set_limits(self._limits)
        be_first_out_of_memory()
        give_up(self._filter)
        renew_standard_streams()
        gc.enable()


class Program(NamedTuple):
    """The process of the program."""

    pid: int
    """In this process's namespace."""
    shown_pid: int
    """In `/proc`, which shows another namespace where bubblewrap creates the inner one."""


def _ignore_interrupts() -> None:
    """Pid 1 gets the signals for which it has a handler, and Python has one for this signal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def start_program(
    request: Request,
    where: str,
    prepare: Callable[[], None],
    run: Callable[[], None],
    keep: Sequence[int] = (),
) -> tuple[Program, blocked.Edge]:
    """Fork the program.

    Args:
        request: names its descriptors and limits.
        where: its working directory.
        prepare: the last trusted code in it; its exceptions are a failure of the sandbox.
        run: the program; does not return.
        keep: descriptors that it keeps in addition to its standard ones.

    Returns:
        The program and its beginning, once it has started. The program itself reads the time of its
        beginning: pid 1 can wait for a core before, in and after the fork.

    Raises:
        OSError: `prepare` failed.
    """
    reader, writer = os.pipe()
    _ignore_interrupts()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            began = _edge_of_self(is_head=False, is_alone=True)
            shown = os.readlink("/proc/self")
            os.write(writer, f"{shown} {blocked.words_of(began)}\n".encode())
            os.setsid()
            take_stdio(request.stdio, keep=[writer, *keep])
            os.chdir(where)
            set_limits(request.limits)
            prepare()
        except BaseException as error:  # noqa: BLE001 - it is reported to pid 1
            os.write(writer, repr(error).encode())
            os._exit(126)
        if request.kind == "python":
            os.close(writer)
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - the child must not continue with the code of pid 1
            os.write(2, repr(error).encode())
        os._exit(126)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        words, failure = file.readline().split(), file.read()
    if failure or not words:
        raise OSError(failure.decode(errors="replace") or "the program did not begin")
    return Program(pid, int(words[0])), blocked.edge_of(words[1:])


def await_program(program: Program) -> tuple[int, blocked.Edge]:
    """Reap all children until the program itself has ended.

    Returns:
        Its wait status, and its end, read before this process could wait for a core again.
    """
    while True:
        delayed_ns = blocked.own_reading().delayed_ns
        ending = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ending is None or ending.si_pid != program.pid:
            os.waitpid(ending.si_pid if ending else -1, 0)
            continue
        at_ns = now_ns() - (blocked.own_reading().delayed_ns - delayed_ns)
        booked = blocked.reading(program.shown_pid)
        _, status = os.waitpid(program.pid, 0)
        others_ns = children_cpu_ns() - booked.ran_ns
        is_alone = others_ns < _ALONE_NS and not _has_started_tasks(program)
        return status, blocked.Edge(at_ns, booked, is_head=False, is_alone=is_alone)


def _has_started_tasks(program: Program) -> bool:
    """Whether the program started threads or processes, as far as pid 1 can know.

    The kernel numbers the tasks of a pid namespace one after the other: if no task came after the
    program, the next one has the next number. A task that only slept shows in no other counter.
    """
    if os.getpid() != 1:
        return False
    if program.shown_pid != program.pid:
        return True  # bubblewrap starts processes itself
    held = _thread.allocate_lock()
    held.acquire()
    try:
        _thread.start_new_thread(held.acquire, ())
        numbers = map(int, os.listdir("/proc/self/task"))
        return max(numbers) != program.pid + 1
    except (OSError, RuntimeError):
        return True
    finally:
        held.release()


def now_ns() -> int:
    """Return the monotonic clock."""
    return time.monotonic_ns()  # noqa: TID251 - no clock can be passed in here


def kill_descendants(spared: Sequence[int] = ()) -> None:
    """Kill and reap all children except `spared`, and their descendants, which become children.

    For a process that adopts orphans and has no pid namespace that ends with it.
    """
    for _ in range(_KILL_ROUNDS_MAX):
        with open("/proc/thread-self/children", "rb") as file:
            pids = [int(pid) for pid in file.read().split()]
        doomed = [pid for pid in pids if pid not in spared]
        if not doomed:
            return
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        for pid in doomed:
            os.waitpid(pid, 0)
