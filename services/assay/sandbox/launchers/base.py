"""The two launchers, with one guarantee (see `assay.sandbox.port`).

Both run each program in a box forked by a small zygote process (`zygote.py`, `box.py`); a box is
forked ahead of the run that will use it. `ZygoteLauncher`'s boxes make their namespaces themselves;
`BubblewrapLauncher`'s hand that to bubblewrap, started as the slot's unprivileged uid, never as uid
0. The launcher itself creates the run's account (cgroup), sends the request, watches from outside
(`supervision.py`) and collects files. `run` may be called from several threads at once.
"""

import contextlib
import fcntl
import logging
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from assay.config.settings import SandboxSettings
from assay.core.errors import InvalidRequest, IsolationUnavailable
from assay.sandbox.accounting.cgroup import Backend, open_backend
from assay.sandbox.box import head
from assay.sandbox.box.root import DEVICES
from assay.sandbox.launchers.collect import check_name, collect
from assay.sandbox.launchers.watch import Ending, Started, Watch
from assay.sandbox.port import (
    CommandLauncher,
    CommandRun,
    HarnessResult,
    HarnessRun,
    Limits,
    MonotonicClock,
    PythonRun,
    RunResult,
    RunStatus,
    SandboxError,
)
from assay.sandbox.seccomp import compile_filter
from assay.sandbox.uid_number import Slot

_log = logging.getLogger(__name__)
_ZYGOTE: Final = Path(__file__).parent.parent.joinpath("box", "zygote.py")
_START_S: Final = 20.0
_BOX_S: Final = 20.0
_MESSAGE_BYTES: Final = 64 * 1024
_STACK_BYTES_MAX: Final = 256 * 1024 * 1024
_STACK_BYTES_UNBOUNDED_TREE: Final = 16 * 1024 * 1024
"""Where memory is bounded as address space: each thread's stack takes as much of that."""
_ENVIRONMENT: Final = MappingProxyType(
    {"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
)
_SHELL: Final = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""Starts the program for bubblewrap, which would say of one that is not there what it says of a
sandbox that it cannot build."""
PROGRAM: Final = "program.py"
"""What a Python program's file is called in its box."""


class Mode(StrEnum):
    """Who makes a launcher's boxes."""

    OWN = "own"
    """The zygote, out of fresh namespaces."""
    BUBBLEWRAP = "bubblewrap"
    """Bubblewrap, likewise."""
    BARE = "bare"
    """Nobody: resource limits, the system call filter and another uid are all there is."""


_OWN_PROCESSES: Final = {Mode.OWN: 1, Mode.BUBBLEWRAP: 3, Mode.BARE: 1}
"""Processes of ours in a run's account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What a box shows beside the system's own directories."""

    readable: tuple[Path, ...] = ()
    """Directories shown read-only, at their own paths."""
    python_path: tuple[Path, ...] = ()
    """Directories that Python programs import from; shown as well."""
    harnesses: Mapping[str, Path] = field(default_factory=dict)
    """Name (`HarnessRun.module`) -> source file."""

    def shown(self) -> list[str]:
        """All directories to show, the interpreter's own among them."""
        wanted = {*self.readable, *self.python_path, Path(sys.base_prefix)}
        paths = sorted({os.path.realpath(path) for path in wanted if path.is_dir()})
        return [path for path in paths if not Path(path).is_relative_to("/usr")]


@dataclass(slots=True)
class _Forked:
    """A box that waits for its request."""

    pidfd: int
    channel: socket.socket

    def last_words(self) -> str:
        """What the box said before it hung up; empty where it said nothing."""
        with contextlib.suppress(OSError):
            return self.channel.recv(_MESSAGE_BYTES).decode(errors="replace").strip()
        return ""

    def close(self) -> None:
        os.close(self.pidfd)
        self.channel.close()


class _Zygote:
    """The zygote process and the box it has ready."""

    def __init__(self, setup: Mapping[str, object]) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._asked = 0
        self._start()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_START_S)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, fixed arguments
                [*_interpreter(), str(theirs.fileno())],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._greet()

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        return self._process.pid

    def _greet(self) -> None:
        with _memory_file(marshal.dumps(dict(self._setup))) as wanted:
            socket.send_fds(self._control, [b"s"], [wanted])
        try:
            answer = self._control.recv(4_096)
        except TimeoutError:
            answer = b"failed: no answer"
        if answer != b"ready":
            self.close()
            raise IsolationUnavailable(f"zygote: {answer.decode(errors='replace') or 'died'}")

    def take(self) -> _Forked:
        """Return a box that is ready, and have the next one made."""
        with self._lock:
            if self._process.poll() is not None:
                self._restart()
            try:
                self._ask(until=1)
                taken = self._receive()
                self._ask(until=1)
            except OSError as error:
                raise SandboxError(f"the zygote does not answer: {error}") from error
            return taken

    def _restart(self) -> None:
        self.close()
        self._asked = 0
        try:
            self._start()
        except IsolationUnavailable as error:
            raise SandboxError(f"the zygote died and does not come back: {error}") from error

    def _ask(self, *, until: int) -> None:
        while self._asked < until:
            self._control.send(b"n")
            self._asked += 1

    def _receive(self) -> _Forked:
        _, descriptors, _, _ = socket.recv_fds(self._control, 16, 2)
        if len(descriptors) != 2:
            raise SandboxError("the zygote died")
        self._asked -= 1
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's form
        channel = socket.socket(fileno=descriptors[1])
        channel.settimeout(_BOX_S)
        return _Forked(descriptors[0], channel)

    def close(self) -> None:
        """End the zygote and the box it has ready."""
        self._control.close()
        try:
            self._process.wait(_START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _interpreter() -> list[str]:
    """The interpreter without its virtual environment, quick to start."""
    return [os.path.realpath(sys.executable), "-I", "-S", str(_ZYGOTE)]


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    """Hold `content` in a file without a name, sealed and at its beginning."""
    descriptor = os.memfd_create("assay", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, list[int]]]:
    """A pipe: its end to read, and a list with the end to write, emptied by who closes it."""
    reader, writer = os.pipe()
    writers = [writer]
    try:
        yield reader, writers
    finally:
        os.close(reader)
        for descriptor in writers:
            os.close(descriptor)


def _limit_words(limits: Limits, backend: Backend, scratch_bytes_max: int) -> dict[str, int]:
    """The limits as the box sets them for each process."""
    tree_bounded = {"memory", "processes"} <= backend.limits
    return {
        "cpu_s": int(limits.cpu_s) + 2,
        "file_bytes": limits.file_bytes,
        "disk_bytes": min(limits.disk_bytes, scratch_bytes_max),
        "inodes": limits.inodes,
        "open_files": limits.open_files,
        "stack_bytes": min(
            _STACK_BYTES_MAX if tree_bounded else _STACK_BYTES_UNBOUNDED_TREE,
            limits.memory_bytes // 2,
        ),
        "address_bytes": 0 if tree_bounded else limits.memory_bytes * 2,
        "processes": 0 if tree_bounded else limits.processes + max(_OWN_PROCESSES.values()),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """A run in the one form that boxes take."""

    kind: str
    argv: Sequence[str]
    env: Mapping[str, str]
    files: Sequence[tuple[str, bytes, bool]]
    source: bytes
    stdin: bytes
    collect: Sequence[str]
    limits: Limits
    sealed: bytes | None = None
    """Present for a harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    ending: Ending
    streams: tuple[bytes, ...]
    files: Mapping[str, bytes]


class _Launcher:
    """What both launchers share."""

    def __init__(
        self,
        settings: SandboxSettings,
        clock: MonotonicClock,
        *,
        inside: Inside,
        mode: Mode,
        scratch: str = "",
    ) -> None:
        self._clock = clock
        self._scratch_bytes_max = settings.scratch_bytes_max
        if mode is Mode.BARE and not settings.allow_unisolated:
            raise IsolationUnavailable(
                "a launcher without isolation needs sandbox.allow_unisolated to be set"
            )
        with contextlib.ExitStack() as held:
            self.uid = _run_uid(settings, held.enter_context(Slot()))
            self._backend = open_backend(settings.cgroup)
            held.callback(self._backend.close)
            setup = {
                "uid": self.uid,
                "readable": inside.shown(),
                "python_path": [os.path.realpath(path) for path in inside.python_path],
                "scratch": scratch,
                "filter": compile_filter(
                    memory_files_allowed="memory" in self._backend.limits,
                ),
                "harnesses": {
                    name: (path.read_bytes(), str(path)) for name, path in inside.harnesses.items()
                },
            }
            self._zygote, self._mode = _started(setup, mode, settings)
            held.callback(self._close_zygote)
            self._held = held.pop_all()
        self._own_processes = _OWN_PROCESSES[self._mode]

    def _close_zygote(self) -> None:
        self._zygote.close()

    def close(self) -> None:
        """End the zygote and remove this launcher's cgroups."""
        self._held.close()

    @property
    def isolated(self) -> bool:
        """False only where the host gives no isolation and the operator insists."""
        return self._mode is not Mode.BARE

    @property
    def zygote_pid(self) -> int:
        """The zygote's process."""
        return self._zygote.pid

    @property
    def cgroup(self) -> str:
        """Which backend counts and limits: `v2`, `v1` or `none`."""
        return self._backend.kind

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _carry_out(self, order: _Order) -> _Outcome:
        forked = self._zygote.take()
        with contextlib.ExitStack() as held:
            held.callback(forked.close)
            account = self._backend.create()
            held.callback(account.close)
            directory = held.enter_context(self._directory())
            account.set_limits(order.limits, own_processes=self._own_processes)
            streams = [held.enter_context(_pipe()) for _ in range(2 + (order.sealed is not None))]
            began_ns = self._clock.monotonic_ns()
            self._send(
                order, forked, directory, account.open_joins(), [writers for _, writers in streams]
            )
            account.watch(_pid_of(forked.pidfd))
            started = Started(
                pidfd=forked.pidfd,
                box=forked.channel,
                streams={reader: bytearray() for reader, _ in streams},
                account=account,
                limits=order.limits,
                began_ns=began_ns,
            )
            watch = Watch(started, self._clock)
            held.callback(watch.close)
            ending = watch.until_dead()
            files = self._collect(order, watch)
        return _Outcome(
            ending=ending,
            streams=tuple(bytes(kept) for kept in started.streams.values()),
            files=files,
        )

    @contextlib.contextmanager
    def _directory(self) -> Iterator[str]:
        """A directory for a run that no mount namespace gives one."""
        if self._mode is not Mode.BARE:
            yield "/box"
            return
        with tempfile.TemporaryDirectory(prefix="assay-box-", ignore_cleanup_errors=True) as path:
            if os.geteuid() == 0:
                os.chown(path, self.uid, self.uid)
            yield path

    def _send(
        self,
        order: _Order,
        forked: _Forked,
        directory: str,
        joins: list[int],
        writers: list[list[int]],
    ) -> None:
        """Hand the request over; afterwards the box alone holds the ends to write."""
        header = {
            "kind": order.kind,
            "argv": list(order.argv),
            "env": {"HOME": directory, **order.env},
            "directory": directory,
            "files": list(order.files),
            "source": order.source,
            "limits": _limit_words(order.limits, self._backend, self._scratch_bytes_max),
            "special": 0 if order.sealed is None else 2,
        }
        with (
            _memory_file(marshal.dumps(header)) as request,
            _memory_file(order.stdin) as stdin,
            _memory_file(order.sealed or b"") as sealed,
        ):
            channel = [] if order.sealed is None else [writers[2][0], sealed]
            descriptors = [request, stdin, writers[0][0], writers[1][0], *channel, *joins]
            try:
                socket.send_fds(forked.channel, [b"r"], descriptors)
            except OSError as error:
                raise SandboxError(forked.last_words() or f"the box is gone: {error}") from error
            finally:
                for descriptor in [*joins, *(kept.pop() for kept in writers)]:
                    os.close(descriptor)

    def _collect(self, order: _Order, watch: Watch) -> dict[str, bytes]:
        directory = watch.directory()
        if directory is None:
            return {}
        try:
            return collect(directory, order.collect, bytes_max=order.limits.file_bytes)
        finally:
            os.close(directory)


def _started(
    setup: Mapping[str, object], mode: Mode, settings: SandboxSettings
) -> tuple[_Zygote, Mode]:
    """Start a zygote; without isolation where there is none and the operator insists."""
    try:
        return _Zygote({**setup, "mode": mode.value}), mode
    except IsolationUnavailable as error:
        if not settings.allow_unisolated:
            raise
        _log.critical("untrusted code runs WITHOUT ISOLATION: %s", error)
        return _Zygote({**setup, "mode": Mode.BARE.value}), Mode.BARE


def _run_uid(settings: SandboxSettings, slot: Slot) -> int:
    return settings.uid + slot.number if os.geteuid() == 0 else os.geteuid()


def _pid_of(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pid:"):
                return int(line[4:])
    raise SandboxError("a pidfd without a pid")


def _checked_files(
    files: Mapping[str, bytes], executables: frozenset[str], collected: Sequence[str]
) -> list[tuple[str, bytes, bool]]:
    for name in collected:
        check_name(name, "collect")
    return [
        (check_name(name, "files"), bytes(content), name in executables)
        for name, content in files.items()
    ]


def _command_order(command: CommandRun, files: Sequence[tuple[str, bytes, bool]]) -> _Order:
    return _Order(
        kind="command",
        argv=command.argv,
        env={**_ENVIRONMENT, **command.env},
        files=files,
        source=b"",
        stdin=command.stdin,
        collect=command.collect,
        limits=command.limits,
    )


def _result(outcome: _Outcome) -> RunResult:
    ending = outcome.ending
    return RunResult(
        status=ending.status,
        exit_code=ending.exit_code,
        stdout=outcome.streams[0],
        stderr=outcome.streams[1],
        files=outcome.files,
        cpu_s=ending.usage.cpu_s,
        blocked_s=ending.blocked_s,
        wall_s=ending.wall_s,
        memory_bytes_peak=ending.usage.memory_bytes_peak,
    )


def _with_signal(result: RunResult) -> RunResult:
    """Say as a signal what bubblewrap, like a shell, says as 128 + its number."""
    code = result.exit_code
    if code is None or not 128 < code <= 128 + signal.SIGRTMAX:
        return result
    if code - 128 == signal.SIGXCPU:
        return replace(result, status=RunStatus.CPU_LIMIT, exit_code=None)
    return replace(result, status=RunStatus.SIGNALED, exit_code=128 - code)


class ZygoteLauncher(_Launcher):
    """Boxes of our own making: for Python programs, harnesses, and compiled programs."""

    _MODE = Mode.OWN

    def __init__(
        self, settings: SandboxSettings, clock: MonotonicClock, *, inside: Inside | None = None
    ) -> None:
        """Start the zygote.

        Raises:
            IsolationUnavailable: the host does not give the namespaces, or no seccomp filter. Where
                `allow_unisolated` is set the former is logged instead, and nothing is isolated.
        """
        self._inside = inside or Inside()
        super().__init__(settings, clock, inside=self._inside, mode=self._MODE)

    def run(self, command: CommandRun) -> RunResult:
        """Run any program; see `CommandLauncher`."""
        files = _checked_files(command.files, command.executables, command.collect)
        return _result(self._carry_out(_command_order(command, files)))

    def run_python(self, program: PythonRun) -> RunResult:
        """Run a Python program without starting an interpreter.

        Raises:
            SandboxError: the sandbox could not be set up or torn down.
        """
        files = {**program.files, PROGRAM: program.source}
        return _result(
            self._carry_out(
                _Order(
                    kind="python",
                    argv=(PROGRAM, *program.argv),
                    env={**_ENVIRONMENT, **program.env},
                    files=_checked_files(files, frozenset(), program.collect),
                    source=program.prelude + b"\0" + program.source,
                    stdin=program.stdin,
                    collect=program.collect,
                    limits=program.limits,
                )
            )
        )

    def run_harness(self, run: HarnessRun) -> HarnessResult:
        """Run a harness that was named at the start; see `HarnessLauncher`."""
        if run.module not in self._inside.harnesses:
            raise InvalidRequest(f"no harness {run.module!r} was loaded", field="module")
        outcome = self._carry_out(
            _Order(
                kind="harness",
                argv=(run.module,),
                env={},
                files=(),
                source=run.payload,
                stdin=b"",
                collect=(),
                limits=run.limits,
                sealed=run.sealed,
            )
        )
        ending = outcome.ending
        return HarnessResult(
            status=ending.status,
            exit_code=ending.exit_code,
            channel=outcome.streams[2],
            stdout=outcome.streams[0],
            stderr=outcome.streams[1],
            cpu_s=ending.usage.cpu_s,
            blocked_s=ending.blocked_s,
            wall_s=ending.wall_s,
            memory_bytes_peak=ending.usage.memory_bytes_peak,
        )


class UnisolatedLauncher(ZygoteLauncher):
    """The same interface WITHOUT isolation, for hosts that give none, where the operator insists.

    Programs see the host's files and processes. Left: the uid (as root), the system call filter
    (and so no network), resource limits, the cgroup where there is one, and the end of the tree.
    """

    _MODE = Mode.BARE

    def __init__(
        self, settings: SandboxSettings, clock: MonotonicClock, *, inside: Inside | None = None
    ) -> None:
        """Start, and say so loudly.

        Raises:
            IsolationUnavailable: `sandbox.allow_unisolated` is not set.
        """
        super().__init__(settings, clock, inside=inside)
        _log.critical("untrusted code runs WITHOUT ISOLATION: as asked for")


class BubblewrapLauncher(_Launcher):
    """Boxes made by bubblewrap: for compilers and any other program."""

    def __init__(
        self, settings: SandboxSettings, clock: MonotonicClock, *, inside: Inside | None = None
    ) -> None:
        """Find bubblewrap and start the zygote that launches it.

        Raises:
            IsolationUnavailable: bubblewrap is not installed, or its zygote cannot start.
        """
        program = shutil.which("bwrap")
        if program is None:
            raise IsolationUnavailable("bubblewrap is not installed (package `bubblewrap`)")
        self._program = program
        inside = inside or Inside()
        self._shown = inside.shown()
        self._scratch = _mount_point(self._shown)
        super().__init__(
            settings, clock, inside=inside, mode=Mode.BUBBLEWRAP, scratch=self._scratch
        )
        self._prove()

    def _prove(self) -> None:
        """Run something: whether bubblewrap works here is not known before."""
        if self._mode is Mode.BARE:
            return
        try:
            self.run(CommandRun(argv=("true",)))
        except SandboxError as error:
            self.close()
            raise IsolationUnavailable(f"bubblewrap does not work here: {error}") from error

    def run(self, command: CommandRun) -> RunResult:
        """Run any program; see `CommandLauncher`."""
        files = _checked_files(command.files, command.executables, command.collect)
        environment = {**_ENVIRONMENT, **command.env}
        if self._mode is Mode.BARE:
            return _result(self._carry_out(_command_order(command, files)))
        environment = {"HOME": "/box", **environment}
        return _with_signal(
            _result(
                self._carry_out(
                    _Order(
                        kind="bubblewrap",
                        argv=[*self._arguments(environment), "--", *_SHELL, *command.argv],
                        env={},
                        files=files,
                        source=b"",
                        stdin=command.stdin,
                        collect=command.collect,
                        limits=command.limits,
                    )
                )
            )
        )

    def _arguments(self, environment: Mapping[str, str]) -> list[str]:
        user = str(head.USER)
        arguments = [self._program, "--unshare-all", "--unshare-user", "--disable-userns"]
        arguments += ["--uid", user, "--gid", user, "--hostname", "box", "--cap-drop", "ALL"]
        arguments += ["--die-with-parent", "--new-session", "--clearenv"]
        arguments += ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            path = Path("/", name)
            if path.is_symlink():
                arguments += ["--symlink", str(path.readlink()), str(path)]
            else:
                arguments += ["--ro-bind-try", str(path), str(path)]
        for shown in ("/etc/alternatives", "/etc/ld.so.cache"):
            arguments += ["--ro-bind-try", shown, shown]
        arguments += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
        arguments += ["--ro-bind", "/dev/null", "/proc/cmdline"]
        for name in DEVICES:
            arguments += ["--dev-bind", f"{self._scratch}/{name}", f"/dev/{name}"]
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            arguments += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
        arguments += ["--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "../tmp", "/dev/shm"]
        arguments += ["--bind", f"{self._scratch}/box", "/box"]
        arguments += ["--bind", f"{self._scratch}/tmp", "/tmp"]
        for number, directory in enumerate(self._shown):
            arguments += ["--ro-bind", f"{self._scratch}/{number}", directory]
        arguments += ["--remount-ro", "/", "--chdir", "/box"]
        for key, value in environment.items():
            arguments += ["--setenv", key, value]
        return [*arguments, "--seccomp", head.FILTER, "--json-status-fd", head.STATUS]


def _mount_point(shown: Sequence[str]) -> str:
    """A directory that covers nothing a box must see."""
    for candidate in ("/tmp", "/mnt", "/media", "/srv"):
        taken = any(Path(path).is_relative_to(candidate) for path in shown)
        if Path(candidate).is_dir() and not taken:
            return candidate
    raise IsolationUnavailable("no directory to mount bubblewrap's scratch space on")


def open_command_launcher(
    settings: SandboxSettings, clock: MonotonicClock, *, inside: Inside | None = None
) -> CommandLauncher:
    """Open bubblewrap's launcher, or the zygote's where bubblewrap is missing or does not work.

    Raises:
        IsolationUnavailable: neither works here.
    """
    try:
        return BubblewrapLauncher(settings, clock, inside=inside)
    except IsolationUnavailable as error:
        _log.warning("the zygote's boxes take bubblewrap's place: %s", error)
        return ZygoteLauncher(settings, clock, inside=inside)
