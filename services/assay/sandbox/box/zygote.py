"""The zygote: a small warm process that forks boxes on demand. Run as a script, never imported.

It is started with an empty environment and `-I -S`, talks to its launcher over the descriptor in
its only argument, and ends when that closes. For its own boxes it first moves into a separate root
with only read-only system directories, so that a box never sees the host's files and copies a short
list of mounts. For bubblewrap it keeps the host's root and gives bubblewrap a bounded scratch file
system. It runs as root only if the launcher does, to map each box to an unprivileged uid; every box
has dropped root before it reads the program.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)).rsplit("/assay/", 1)[0])

from assay.sandbox.box import renewal  # first: see there

# isort: split
import ctypes
import gc
import importlib
import marshal
import select
import signal
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NoReturn

from assay.sandbox import linux
from assay.sandbox.accounting import blocked
from assay.sandbox.box import native, root
from assay.sandbox.box.channel import (
    FILTER,
    STATUS,
    RunRequest,
    edge_of_harness,
    python_part,
    receive,
    tell,
    tell_end,
    tell_start,
)
from assay.sandbox.box.harness import Box
from assay.sandbox.box.packages import Packages
from assay.sandbox.box.prepare import (
    NAMESPACES,
    USER,
    be_first_out_of_memory,
    become,
    give_up,
    join_cgroup,
    mount_proc,
    mount_scratch,
    set_limits,
    take_stdio,
    write_files,
)
from assay.sandbox.box.program import await_program, execute, kill_descendants, start_program
from assay.sandbox.box.python import (
    prepare_standard_streams,
    prepare_variables,
    rehearse,
    renew_standard_streams,
    run_source,
    set_variables,
)

sys.path.pop(0)

_MODULES_WARM: Final = (
    *("bisect", "collections", "copy", "decimal", "functools", "heapq", "io", "itertools", "math"),
    *("operator", "random", "re", "site", "string", "threading", "time", "traceback", "typing"),
)
"""Modules that most programs import; each costs every box a little and saves more."""
_NAMESPACES: Final = {
    "own": NAMESPACES,
    "bubblewrap": linux.CLONE_NEWPID | linux.CLONE_NEWNS,
    "bare": 0,
}
_COMMAND_LINE: Final = b"assay-zygote"


class Setup:
    """The launcher's configuration of this zygote."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.uid: int = wanted["uid"]
        """Host uid and gid of the boxes; used only by a zygote that runs as root."""
        self.mode: str = wanted["mode"]
        """`own` namespaces, `bubblewrap`, or `bare`: no isolation, resource limits only."""
        self.readable: list[str] = wanted["readable"]
        """Directories shown read-only at their own paths, in addition to the system's."""
        self.devices: list[str] = wanted["devices"]
        """Files in `/dev` that boxes show in addition to the harmless ones."""
        self.covered: list[tuple[str, str]] = []
        """The directories among those that each box must bind again: source -> target."""
        self.python_path: list[str] = wanted["python_path"]
        self.packages = Packages(**wanted["packages"])
        """Packages of directories that are not shown as a whole."""
        self.scratch: str = wanted["scratch"]
        """Where bubblewrap's scratch file system is mounted, in the box's own mount namespace."""
        self.variables: dict[str, str] = wanted["variables"]
        """What programs find in their environment unless their run says otherwise."""
        self.filter = linux.Filter(wanted["filter"])
        self.library = native.load() if wanted["native"] else None
        self.apart: bool = wanted["apart"]
        """Pid 1 of a box executes a program of its own, where that works."""
        self.harnesses: dict[str, ModuleType] = {
            name: _load(name, source, path) for name, (source, path) in wanted["harnesses"].items()
        }


def _load(name: str, source: bytes, path: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - a trusted module
    return module


def _hide_command_line() -> None:
    """Overwrite the command line of this process and its forks: it contains paths of the host."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        name = _COMMAND_LINE[: end - start - 1]
        ctypes.memmove(start, name.ljust(end - start, b"\0"), end - start)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _map_user(pid: str, outside: int) -> None:
    """Map the box's user to `outside` in this process's user namespace."""
    _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", f"{USER} {outside} 1")
    _write(f"/proc/{pid}/gid_map", f"{USER} {outside} 1")


def _own_mounts(setup: Setup) -> int:
    """Enter a private mount namespace; returns the uid that boxes are mapped to.

    Without the privilege for this, it creates a user namespace: the zygote then has privileges only
    over its own namespaces.
    """
    outside = setup.uid
    if os.geteuid() == 0:
        os.setgroups([])
        try:
            linux.unshare(linux.CLONE_NEWNS)
        except PermissionError:
            os.setresgid(outside, outside, outside)
            os.setresuid(outside, outside, outside)
            linux.set_dumpable(dumpable=True)
    if os.geteuid() != 0:
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{USER} {uid} 1")
        _write("/proc/self/gid_map", f"{USER} {gid} 1")
        outside = USER
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    return outside


def _warm(variables: dict[str, str]) -> None:
    """Load modules that programs commonly need, and exempt them from garbage collection."""
    os.environ.clear()  # an interpreter adds a variable for its locale
    prepare_variables(variables)
    for name in _MODULES_WARM:
        importlib.import_module(name)
    renewal.note_no_more()
    site: Any = sys.modules["site"]
    site.setquit()
    site.sethelper()
    rehearse()
    prepare_standard_streams()
    gc.collect()
    gc.disable()
    gc.freeze()


def _own_box(setup: Setup, channel: socket.socket) -> None:
    """Run as pid 1 of a box that the zygote created."""
    if not channel.recv(1):
        return
    become(USER)
    linux.set_hostname(b"box")
    mount_proc()
    request = receive(channel)
    if request is not None:
        _set_up_box(setup, request, channel)


def _set_up_box(setup: Setup, request: RunRequest, channel: socket.socket) -> None:
    join_cgroup(request.cgroup)
    linux.unshare(linux.CLONE_NEWCGROUP)
    mount_scratch(request.limits, setup.covered)
    _work(setup, request, channel, "/box")


def _bare_box(setup: Setup, outside: int, channel: socket.socket) -> None:
    """Run as the head of a process tree that only resource limits bound."""
    request = receive(channel)
    if request is None:
        return
    join_cgroup(request.cgroup)
    linux.adopt_orphans()
    if os.geteuid() == 0:
        become(outside)
    if request.kind != "command":
        # A program that cannot import must not look like a wrong program.
        os.stat(os.__file__)
    _work(setup, request, channel, request.directory)
    kill_descendants()


def _work(setup: Setup, request: RunRequest, channel: socket.socket, where: str) -> None:
    """Carry out the request in a box that is set up."""
    write_files(where, request.files)
    if request.kind == "harness":
        _run_harness(setup, request, channel, where)
        return

    def prepare() -> None:
        be_first_out_of_memory()
        give_up(setup.filter)

    def run() -> None:
        if request.kind == "python":
            run_source(where, request.source, request.argv, request.env)
        execute(request.argv, request.env)

    tell_end(channel, *_run(request, channel, where, prepare, run))


def _run_harness(setup: Setup, request: RunRequest, channel: socket.socket, where: str) -> None:
    keep = [channel.fileno(), *request.special, *blocked.kept()]
    take_stdio(request.stdio, keep=keep)
    set_variables({})
    renew_standard_streams()
    os.chdir(where)
    set_limits(request.limits)
    nested = setup.mode == "own"
    inside = Box(request, setup.filter, nested=nested, shown=setup.covered)
    tell_start(channel, edge_of_harness())
    setup.harnesses[request.argv[0]].main(request.source, inside)
    sys.stdout.flush()
    tell_end(channel, 0, edge_of_harness())


def _bubblewrap_box(setup: Setup, outside: int, channel: socket.socket) -> None:
    """Run as pid 1 of a pid and mount namespace around bubblewrap, which creates the others."""
    request = receive(channel)
    if request is None:
        return
    join_cgroup(request.cgroup)
    _fill_scratch(setup, outside, request.limits)
    become(outside)
    for name in ("box", "tmp"):
        os.mkdir(f"{setup.scratch}/{name}", 0o755)
    write_files(f"{setup.scratch}/box", request.files)

    reader, writer = os.pipe()

    def prepare() -> None:
        be_first_out_of_memory()
        linux.drop_capabilities()
        linux.forbid_new_privileges()
        # A new one per run: bubblewrap reads the filter to its end.
        program = os.memfd_create("filter", 0)
        os.write(program, setup.filter.program)
        os.lseek(program, 0, os.SEEK_SET)
        os.set_inheritable(writer, True)  # noqa: FBT003 - the standard library's form
        request.argv[request.argv.index(FILTER)] = str(program)
        request.argv[request.argv.index(STATUS)] = str(writer)

    where = f"{setup.scratch}/box"
    status, end = _run(
        request, channel, where, prepare, lambda: execute(request.argv, {}), keep=[writer]
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        # Bubblewrap reports this only for a program that it started.
        if b'"exit-code"' not in file.read():
            raise OSError("bubblewrap did not start the program")
    tell_end(channel, status, end)


def _fill_scratch(setup: Setup, outside: int, limits: Mapping[str, int]) -> None:
    """Mount what bubblewrap binds into the box: a bounded disk, what is readable, devices."""
    own = 4 + len(setup.readable) + len(root.DEVICES)
    bounds = f"size={limits['disk_bytes']},nr_inodes={limits['inodes'] + own}"
    owner = f"uid={outside},gid={outside},mode=0755"
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("scratch", setup.scratch, "tmpfs", flags, f"{bounds},{owner}")
    for number, path in enumerate(setup.readable):
        # Bound while this process can still traverse every directory on the path.
        os.mkdir(f"{setup.scratch}/{number}", 0o755)
        linux.mount(path, f"{setup.scratch}/{number}", flags=linux.MS_BIND | linux.MS_REC)
    for name in root.DEVICES:
        root.show_device(name, f"{setup.scratch}/{name}")


def _run(
    request: RunRequest,
    channel: socket.socket,
    where: str,
    prepare: Callable[[], None],
    run: Callable[[], None],
    keep: Sequence[int] = (),
) -> tuple[int, blocked.Edge]:
    """Start the program and wait for its end; returns what `await_program` does."""
    directory = os.open(where, os.O_PATH | os.O_DIRECTORY)
    program, began = start_program(request, where, prepare, run, keep)
    tell_start(channel, began, [directory])
    os.close(directory)
    return await_program(program)


def _is_asked(control: socket.socket) -> bool:
    try:
        return bool(control.recv(1))
    except ConnectionResetError:  # closed while boxes are still being forked
        return False


class Zygote:
    """Forks boxes and reaps them."""

    def __init__(self, setup: Setup, control: socket.socket) -> None:
        self._setup = setup
        self._control = control
        self._boxes: dict[int, int] = {}
        """pidfd -> pid."""
        self._outside = setup.uid if setup.mode == "bare" else _own_mounts(setup)
        if setup.mode == "own":
            # The kernel allows a new /proc only where a full one is visible; each box covers it.
            setup.covered = root.enter(setup.readable, for_boxes=True, devices=setup.devices)
        if setup.mode == "bare":
            linux.adopt_orphans()
        self._native = self._native_boxes() if setup.mode == "own" else None

    def _native_boxes(self) -> native.Boxes | None:
        """What forks boxes in C, if the library was built."""
        if self._setup.library is None:
            return None
        return native.Boxes(
            self._setup.library,
            flags=NAMESPACES,
            user=USER,
            outside=self._outside,
            control=self._control.fileno(),
            filter_=self._setup.filter,
            covered=self._setup.covered,
            apart=self._setup.apart,
        )

    @property
    def variables(self) -> dict[str, str]:
        """The environment that nearly every program gets."""
        return self._setup.variables

    @property
    def is_native(self) -> bool:
        """Whether requests need the form that C code reads."""
        return self._native is not None

    def gather_memory(self) -> None:
        """Prepare to be forked; everything is loaded."""
        if self._native is not None:
            self._native.gather_memory()

    def serve(self) -> None:
        """Fork a box for every message, until the launcher closes its end."""
        if self._native is None:
            self._serve_in_python()
        elif (served := self._native.serve()).role != native.ZYGOTE:
            self._be_native_box(served)

    def _serve_in_python(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._control.fileno():
                    if not _is_asked(self._control):
                        return
                    poll.register(self._fork(), select.POLLIN)
                else:
                    poll.unregister(descriptor)
                    os.waitpid(self._boxes.pop(descriptor), 0)
                    os.close(descriptor)
                    if self._setup.mode == "bare":
                        kill_descendants(spared=list(self._boxes.values()))

    def _be_native_box(self, served: native.Served) -> NoReturn:
        """Run what the C code leaves to Python: a Python program, or a box that needs more."""
        if served.role == native.PROGRAM:
            try:
                run = served.run
                renewal.renew()
                run_source("/box", run["source"], run["argv"], run["env"])
            except BaseException as error:  # noqa: BLE001 - as in `start_program`
                os.write(2, repr(error).encode())
            os._exit(126)
        channel = socket.socket(fileno=served.channel)
        code = 1
        try:
            first, *others = served.descriptors
            _set_up_box(self._setup, RunRequest(python_part(first), others), channel)
            code = 0
        except BaseException:  # noqa: BLE001 - every failure is reported to the launcher
            tell(channel, "failed", traceback.format_exc())
        finally:
            os._exit(code)

    def _fork(self) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid, pidfd = linux.clone(_NAMESPACES[self._setup.mode])
        if pid == 0:
            ours.close()
            self._be_box(theirs)
        theirs.close()
        if self._setup.mode == "own":
            _map_user(str(pid), self._outside)
            ours.send(b"m")
        socket.send_fds(self._control, [b"%d" % pid], [pidfd, ours.fileno()])
        ours.close()
        self._boxes[pidfd] = pid
        return pidfd

    def _be_box(self, channel: socket.socket) -> None:
        """Run in the child; never returns."""
        code = 1
        os.setsid()
        try:
            self._control.close()
            for descriptor in self._boxes:
                os.close(descriptor)
            if self._setup.mode == "own":
                _own_box(self._setup, channel)
            elif self._setup.mode == "bubblewrap":
                _bubblewrap_box(self._setup, self._outside, channel)
            else:
                _bare_box(self._setup, self._outside, channel)
            code = 0
        except BaseException:  # noqa: BLE001 - every failure is reported to the launcher
            tell(channel, "failed", traceback.format_exc())
        finally:
            os._exit(code)


def _restore_signals() -> None:
    """Handle signals as a fresh interpreter does, whatever started this process.

    Ignored signals pass through `exec`; a program must not see what ran the platform (`nohup`, a
    script's background job).
    """
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def main() -> None:
    """Set up from the first message, then serve."""
    _restore_signals()
    control = socket.socket(fileno=int(sys.argv[1]))
    _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    with os.fdopen(descriptors[0], "rb") as file:
        setup = Setup(marshal.load(file))  # noqa: S302 - it comes from the launcher
    try:
        _hide_command_line()
        blocked.keep_open()
        zygote = Zygote(setup, control)
    except OSError as error:
        control.send(f"failed: {error}".encode())
        return
    _warm(zygote.variables)
    # Only now: a directory that a box has yet to bind would be cached as missing.
    sys.path.extend(setup.python_path)
    sys.meta_path.append(setup.packages)
    zygote.gather_memory()
    control.send(b"ready native" if zygote.is_native else b"ready")
    zygote.serve()


main()
