"""Root servers as processes: how one is started, also before the host that will use it.

A command that starts a platform begins one (`begin_early`) beside its own imports. The host that is
forked from that command takes it (`take_early`), at most once, if it would start the same; all
others release it (`leave_early`). It is a child of the command, which reaps it (`reap`); the host
waits for its end by its pidfd.

Invariant: a server whose channel no host holds ends by itself. Imports little: a command imports
it before anything else.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

END_S_MAX: Final = 5.0
ENVIRONMENT_KEPT: Final = frozenset(
    {
        *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "TMPDIR"),
        *("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH"),
    }
)
"""Environment variables that slots inherit; the others may hold credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootProcess:
    """A root server; it serves once it has its settings, by `channel`."""

    pid: int
    pidfd: int
    channel: socket.socket
    """The host's end."""
    environment: Mapping[str, str]
    """That it was started with."""

    def wait(self) -> None:
        """Wait for its end, which closing the channel brings about; kill it if that takes long."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(END_S_MAX * 1e3):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            poll.poll(END_S_MAX * 1e3)
        reap(self.pidfd)
        os.close(self.pidfd)

    def leave(self) -> None:
        """Close what this process holds of it."""
        self.channel.close()
        os.close(self.pidfd)


_early: RootProcess | None = None
"""Of this process and those forked from it, which is how a host comes to it."""


def reap(pidfd: int) -> None:
    """Reap a root server if it has ended and is a child of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)


def start(environment: Mapping[str, str], *, log: int | None = None) -> RootProcess:
    """Start one with exactly this environment.

    Args:
        environment: see `environment_for_slots`.
        log: a descriptor for what it prints before it has a host; `None`: this process's own.

    Raises:
        OSError: no process can be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, contextlib.ExitStack() as undo:
        undo.callback(ours.close)
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, fixed arguments
            [sys.executable, "-P", "-m", "assay.worker.forking.server", str(theirs.fileno())],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        pidfd = os.pidfd_open(process.pid)
        process.returncode = 0  # reaped by its pidfd, see `reap`
        undo.pop_all()
    return RootProcess(pid=process.pid, pidfd=pidfd, channel=ours, environment=dict(environment))


def begin_early(log: Path) -> int | None:
    """Start one for the host that will be forked from this process.

    Args:
        log: for what it prints before it has a host.

    Returns:
        A pidfd to reap it by, the caller's to close; `None`: there is none, and the host starts it.
    """
    global _early
    leave_early()
    with contextlib.suppress(OSError), log.open("ab") as file:
        _early = start(environment_for_slots(os.environ, ()), log=file.fileno())
        return os.dup(_early.pidfd)
    return None


def take_early(environment: Mapping[str, str]) -> RootProcess | None:
    """The one that was begun, if it has this environment; it is the caller's then."""
    global _early
    found, _early = _early, None
    if found is not None and found.environment != environment:
        found.leave()
        return None
    return found


def leave_early() -> None:
    """Close what this process holds of the one that was begun; without a holder it ends."""
    global _early
    if _early is not None:
        _early.leave()
        _early = None


def environment_for_slots(environment: Mapping[str, str], more: Sequence[str]) -> dict[str, str]:
    """The part of `environment` for slots: harmless variables and those that the operator names.

    A handler that uses gRPC may fork (`assay.verifiers.composite.isolation`): its threads must not
    start again in the child. For its plugins, pydantic would read the metadata of every package.
    """
    kept = ENVIRONMENT_KEPT.union(more)
    found = {name: value for name, value in environment.items() if name in kept}
    ours = {"GRPC_ENABLE_FORK_SUPPORT": "false", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    return {**ours, **found}
