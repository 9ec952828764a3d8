"""The warm process: it has imported what a worker host imports, and forks a platform's parts.

    python -P -m assay.cli.platform.warm FD ROOM

A part that is forked shares the pages of these modules with the others, and starts without
importing them again. Started by `assay.cli.platform.forks`; it ends when its channel closes, and
what it has forked lives on. Each part has a warden (`assay.store.warden`), forked here too, so all
that is said there holds: the part ends with its owner, and no later than its warden.

Slots are not forked from here. They run what others wrote, and share neither the environment nor
the layout of the memory of a process that holds credentials.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

# What these variables say is read when gRPC is imported; the parts' own modules say the same.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from assay.config.extras import left_out
from assay.config.priority import trim
from assay.config.settings import load_settings
from assay.core.codec import pack
from assay.store import warden
from assay.store.script import load_all
from assay.verifiers.registry import PipelineError, keep_pipelines
from assay.worker.forking.roots import leave_early

HOST: Final = "assay.worker"
PARTS: Final = {
    HOST: "assay.worker.build",
    "assay.reward": "assay.reward.build",
    "assay.planner": "assay.planner.build",
}
"""What each part imports before it does anything."""
SHARED: Final = (PARTS[HOST], "uvloop", "encodings.idna", "pydantic.dataclasses")
"""Imported before the first part is asked for: a worker host, whose slots take longest to start.
Another part imports what it needs itself: imported here later, that would change pages which all
that are there already share, and each would get a copy."""
DESCRIPTORS: Final = 4
"""Of an order: itself, its owner, its lock, its log."""


def serve(control: socket.socket) -> None:
    """Fork a part for each order, and tell how each ended, until the channel closes."""
    bell, ring = socket.socketpair()
    with bell, ring:
        bell.settimeout(0)
        ring.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(ring.fileno(), warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(bell, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if control.fileno() in ready and not _carry_out(control, bell, ring):
                return
            if bell.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    bell.recv(4_096)
                _tell_ends(control)


def _tell_ends(control: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with contextlib.suppress(OSError):
                control.send(pack(("ended", pid, os.waitstatus_to_exitcode(status))))


def _carry_out(control: socket.socket, *others: socket.socket) -> bool:
    """Whether there was an order, and it could be carried out."""
    try:
        data, descriptors, _, _ = socket.recv_fds(control, 16, DESCRIPTORS)
    except ConnectionError:
        return False
    if not data or len(descriptors) != DESCRIPTORS:
        return False
    wanted, *given = descriptors
    with os.fdopen(wanted, "rb") as file:
        order = json.load(file)
    is_host = order["argv"][1] == HOST
    pid = os.fork()
    if is_host == bool(pid):
        leave_early()  # it is the host's alone
    if not pid:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (control, *others):
            one.close()
        _be_warden(order, *given)
    for descriptor in given:
        os.close(descriptor)
    pidfd = os.pidfd_open(pid)
    with contextlib.suppress(ConnectionError):
        socket.send_fds(control, [pack(("forked", pid))], [pidfd])
    os.close(pidfd)
    return True


def _be_warden(order: Mapping[str, Any], owner: int, lock: int, log: int) -> NoReturn:
    os.setsid()  # Ctrl-C at the terminal is the owner's to pass on, in order
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(order["environment"])
    argv = ["python", "-P", *order["argv"]]
    _show_command(["assay-warden", *argv])

    def begin() -> None:
        os.close(owner)
        _show_command(argv)
        _, module, *words = order["argv"]
        import_part(module)
        sys.argv = [module, *words]
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    warden.keep(owner, lock, order["drain_s"], begin)


def _show_command(argv: Sequence[str]) -> None:
    """What `ps` and `top` show of this process."""
    Path("/proc/self/comm").write_bytes(argv[0].encode())
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        text = "\0".join(argv).encode()[: end - start - 1]
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def import_shared() -> None:
    """What cannot be imported, or a setting that is wrong, the parts say themselves."""
    _import(SHARED)
    load_all()
    with contextlib.suppress(ImportError, ValueError, OSError, PipelineError):
        keep_pipelines(load_settings().verifiers)


def import_part(module: str) -> None:
    """In a new part: import what it needs, without looking for garbage in that."""
    if name := PARTS.get(module):
        gc.disable()
        _import([name])
        gc.enable()


def _import(names: Iterable[str]) -> None:
    with left_out("rich"):
        for name in names:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def settle() -> None:
    """Give back what the imports no longer use; nothing of theirs is ever garbage."""
    trim()
    gc.collect()
    gc.freeze()


def has_threads() -> bool:
    """Whether this process has more than one: a child would be without the others."""
    return len(list(Path("/proc/self/task").iterdir())) > 1


def run(control: socket.socket) -> None:
    """Import, and serve."""
    import_shared()
    if has_threads():  # a pipeline's module may start threads
        sys.exit("warm: an imported module has started a thread: each part is started by itself")
    settle()
    message: Any = pack(("warm", os.getpid()))
    with contextlib.suppress(OSError):  # its owner has gone meanwhile
        control.send(message)
        serve(control)


if __name__ == "__main__":
    run(socket.socket(fileno=int(sys.argv[1])))
